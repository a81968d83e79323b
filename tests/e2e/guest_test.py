#!/usr/bin/python3
"""Programs that share a machine with jobs keep to what they were given: a mount to its memory, a node to its part of the
network; to their CPUs: mount_test.py. Judged by what the kernel says of them, not by their own counters alone."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

from e2e import drop_page_cache, eventually, main
from guest import LIMIT, MIB, NODE_MEMORY, Guest
from mount_state import worker_of

READERS = 48
RATE = 64 * MIB


class GuestTest(Guest):
    def memory(self):
        return json.loads((self.mount / ".forebay/stats").read_text())["memory"]

    def read(self, name):
        fd = os.open(self.mount / name, os.O_RDONLY)
        try:
            self.bytes[name] = os.pread(fd, MIB, 0)
        except OSError as error:
            self.bytes[name] = str(error)
        finally:
            os.close(fd)

    def test_a_mount_keeps_to_its_memory_limit(self):
        files = {f"f{i:02d}": random.Random(i).randbytes(MIB) for i in range(READERS)}
        self.put(files)
        self.start()
        self.link()
        # Past the page cache each read is one READ of a MiB.
        self.mount = self.cluster.mount("data", "m", "--mode", "large", "--memory-limit", "16MiB")
        self.assertEqual(self.memory(), {"limit_bytes": LIMIT, "in_use_bytes": 0, "waits": 0})
        self.assertEqual(len(os.listdir(self.mount)), READERS)
        self.bytes = {}
        node = self.cluster.nodes["n1"].pid
        os.kill(node, signal.SIGSTOP)
        try:
            threads = [threading.Thread(target=self.read, args=(name,)) for name in files]
            for thread in threads:
                thread.start()
            eventually(lambda: self.memory()["waits"] >= READERS - LIMIT // MIB, "most reads wait for memory")
            use = self.memory()["in_use_bytes"]
        finally:
            os.kill(node, signal.SIGCONT)
        while any(thread.is_alive() for thread in threads):
            use = max(use, self.memory()["in_use_bytes"])
        for thread in threads:
            thread.join()
        self.assertEqual(self.bytes, files)
        self.assertLessEqual(use, LIMIT)
        self.assertGreater(use, LIMIT // 2)
        eventually(lambda: self.memory()["in_use_bytes"] == 0, "all of it is given back")

    def test_the_memory_of_a_busy_mount_stays_near_its_limit(self):
        """As the kernel counts it: the most that was resident, beyond what was before the reads."""
        files = {f"f{i:03d}": random.Random(i).randbytes(2 * MIB) for i in range(64)}
        self.put(files)
        self.start()
        self.link()
        self.mount = self.cluster.mount("data", "m", "--mode", "large", "--memory-limit", "16MiB", "--threads", "2")
        worker = worker_of(self.cluster.mounts["m"].pid)
        self.assertIsNotNone(worker)
        self.bytes = {}
        self.read("f000")  # connections, buffers and what a first read needs

        def resident(what):
            text = pathlib.Path(f"/proc/{worker}/status").read_text()
            return int(re.search(rf"{what}:\s+(\d+) kB", text)[1]) << 10

        for _ in range(3):
            drop_page_cache()
            pathlib.Path(f"/proc/{worker}/clear_refs").write_text("5")  # proc(5): the high-water mark begins anew
            before = resident("VmRSS")
            # Each file by two readers, half a file each; all at once.
            threads = [threading.Thread(target=self.read_part, args=(name, half)) for name in files for half in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual({name: self.bytes[name, 0] + self.bytes[name, 1] for name in files}, files)
            grown = resident("VmHWM") - before
            print(f"128 MiB by {len(threads)} readers: the mount grew by {grown / MIB:.1f} MiB at most", flush=True)
            # The limit, and as much again for what is not data on its way: sockets' buffers, an allocator's slack.
            self.assertLess(grown, 2 * LIMIT)

    def read_part(self, name, half):
        with open(self.mount / name, "rb", buffering=0) as file:
            self.bytes[name, half] = os.pread(file.fileno(), MIB, half * MIB)

    @staticmethod
    def ports_of(pid):
        text = subprocess.run(["ss", "-tnpH", "state", "established"], capture_output=True, text=True, check=True).stdout
        return {int(line.split()[2].rsplit(":", 1)[1]) for line in text.splitlines() if f"pid={pid}," in line}

    def test_a_node_keeps_to_its_bandwidth_with_mounts_and_peers(self):
        rate = 4 * MIB
        files = {f"f{i:02d}": random.Random(i).randbytes(MIB) for i in range(24)}
        self.put(files)
        self.start(node_options=("--max-bandwidth", "4MiB"))
        self.link()
        # As from another machine: what goes through a node's local socket takes no network and is not bounded.
        sockets = list((self.folder / "run").glob("node-n1.sock"))
        self.assertEqual(len(sockets), 1)
        sockets[0].unlink()
        self.mount = self.cluster.mount("data", "m")
        for name, data in files.items():
            self.assertEqual((self.mount / name).read_bytes(), data)
        gets = self.gets()["gets"]
        # Another node takes half of the blocks over, from this one's cache.
        self.cluster.start_node("n2", self.CACHE)
        owner = lambda name: os.getxattr(self.mount / name, "user.forebay.owner").decode().split(",")[0]
        eventually(lambda: {owner(name) for name in files} == {"n1", "n2"}, "both nodes own blocks")
        drop_page_cache()
        node, other = self.cluster.nodes["n1"], self.cluster.nodes["n2"]
        before, began = self.sent_by(node), time.monotonic()
        errors = []

        def read(name):
            if (self.mount / name).read_bytes() != files[name]:
                errors.append(name)

        threads = [threading.Thread(target=read, args=(name,)) for name in files]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        after = self.sent_by(node)
        sent = {port: count - before.get(port, 0) for port, count in after.items()}
        to_peers = sum(count for port, count in sent.items() if port in self.ports_of(other.pid))
        total = sum(sent.values())
        print(f"{total / MIB:.1f} MiB left the node in {seconds:.1f} s, {to_peers / MIB:.1f} MiB of them for the other node",
              flush=True)
        self.assertEqual(errors, [])
        self.assertEqual(self.gets()["gets"], gets, "S3 was asked")
        self.assertGreaterEqual(total, sum(map(len, files.values())))
        self.assertGreaterEqual(to_peers, MIB)
        self.assertGreater(total - to_peers, MIB)
        # What gathers in 250 ms may leave at once, and the last answer is paid for by whoever comes next.
        self.assertLessEqual(total, rate * (seconds + 0.25) + 2 * MIB)

    def test_beside_a_process_that_wants_everything_a_node_keeps_to_its_bounds(self):
        node, mount = self.beside_hogs(
            "node --cpu-limit 1 --memory-limit 64MiB --max-bandwidth 64MiB",
            ("--cpu-limit", "1", "--memory-limit", f"{NODE_MEMORY}", "--max-bandwidth", f"{RATE}"), node=(1, RATE))
        # As above: the limit, and as much again for what is not data on its way.
        self.assertLess(node, 2 * NODE_MEMORY)
        self.assertLess(mount, 2 * LIMIT)

    def test_beside_a_process_that_wants_everything_a_mount_keeps_to_its_bounds(self):
        _, mount = self.beside_hogs("mount --cpu-limit 1 --max-bandwidth 64MiB", (),
                                    ("--cpu-limit", "1", "--max-bandwidth", f"{RATE}"), mount=(1, RATE))
        self.assertLess(mount, 2 * LIMIT)

    def test_beside_a_process_that_wants_everything_with_a_bound_of_cpus_alone(self):
        node, mount = self.beside_hogs("node --cpu-limit 1 --memory-limit 64MiB",
                                       ("--cpu-limit", "1", "--memory-limit", f"{NODE_MEMORY}"), node=(1, None))
        self.assertLess(node, 2 * NODE_MEMORY)
        self.assertLess(mount, 2 * LIMIT)

    def test_beside_a_process_that_wants_everything_without_bounds(self):
        """Judged by nothing but the mount's memory: what the bounds are worth."""
        self.assertLess(self.beside_hogs("without bounds", ())[1], 2 * LIMIT)


if __name__ == "__main__":
    main()
