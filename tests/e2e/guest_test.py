#!/usr/bin/python3
"""Programs that share a machine with jobs keep to what they were given: a mount to its memory, a node to its CPUs."""

import json
import os
import pathlib
import random
import signal
import threading

from e2e import E2eTest, eventually, main

MIB = 1 << 20
LIMIT = 16 * MIB
READERS = 48


def masks_of(pid):
    """The CPUs that each thread of a process may run on."""
    masks = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            masks.append(os.sched_getaffinity(int(task.name)))
        except ProcessLookupError:
            pass  # ended meanwhile
    return masks


class Guest(E2eTest):
    NODES = ("n1",)

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

    def test_a_node_keeps_to_its_cpus(self):
        self.put({"a": bytes(3 * MIB)})
        self.start(node_options=("--cpu-limit", "1"))
        self.link()
        self.mount = self.cluster.mount("data", "m")
        self.assertEqual((self.mount / "a").read_bytes(), bytes(3 * MIB))
        usable = os.sched_getaffinity(0)
        masks = masks_of(self.cluster.nodes["n1"].pid)
        self.assertGreater(len(masks), 3)
        self.assertEqual({frozenset(mask) for mask in masks}, {frozenset({max(usable)})})


if __name__ == "__main__":
    main()
