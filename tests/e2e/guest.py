"""What the tests of programs that share a machine with jobs have in common: what the kernel says that they took, and a training
process that wants everything."""

import contextlib
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import time

from e2e import E2eTest, eventually
from hog import Hog
from mount_state import worker_of

MIB = 1 << 20
LIMIT = 16 * MIB  # of a mount's memory
NODE_MEMORY = 64 * MIB
# Each asks for a MiB: were all of them on their way at once, it would be more than twice the limits of node and mount.
LOADER_THREADS = 192


def resident_most(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) << 10


def cpu_seconds(*pids):
    """Of all their threads, also of those that have ended."""
    total = 0
    for pid in pids:
        user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        total += int(user) + int(system)
    return total / os.sysconf("SC_CLK_TCK")


def cpus_of(pid):
    """Where its threads ran last."""
    cpus = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # ended meanwhile
            cpus.add(int((task / "stat").read_text().rsplit(")", 1)[1].split()[36]))
    return cpus


def count_by_port(what, pid=None, port=None):
    """{(port of this end, port of the other): bytes} of TCP connections by the kernel's count, `what` = bytes_sent or
    bytes_received: of a process, or of whoever answers at a port."""
    where = [f"sport = :{port}"] if port else []
    text = subprocess.run(["ss", "-tinpH", "state", "established", *where], capture_output=True, text=True, check=True).stdout
    counts = {}
    # A line of addresses, and one of facts below it.
    for addresses, facts in re.findall(r"^(\S.*)\n\s+(.*)$", text, re.MULTILINE):
        count = re.search(rf"\b{what}:(\d+)", facts)
        if count and (pid is None or f"pid={pid}," in addresses):
            counts[tuple(int(end.rsplit(":", 1)[1]) for end in addresses.split()[2:4])] = int(count[1])
    return counts


class Guest(E2eTest):
    NODES = ("n1",)
    ROUNDS, WINDOW_SECONDS = 3, 5

    def sent_by(self, node):
        """{port of the other end: bytes} that left through the port where the node answers."""
        counts = count_by_port("bytes_sent", port=node.addresses["listen"].rsplit(":", 1)[1])
        return {other: count for (_, other), count in counts.items()}

    def beside_hogs(self, what, node_options, mount_options=(), node=(None, None), mount=(None, None)):
        """A process for each CPU that burns it, one that streams memory, and a loader that reads as fast as it can. `node`, `mount`:
        the CPUs and the bytes a second that each may take; None: unbounded. Answers by how many bytes their memory grew."""
        files = {f"f{i:02d}": random.Random(i).randbytes(8 * MIB) for i in range(24)}
        self.put(files)
        self.start(node_options=node_options)
        self.link()
        place = self.cluster.mount("data", "m", "--mode", "large", "--memory-limit", f"{LIMIT}", "--local-reads", "network", *mount_options)
        self.pids = {"node": self.cluster.nodes["n1"].pid, "supervisor": self.cluster.mounts["m"].pid}
        self.pids["mount"] = worker_of(self.pids["supervisor"])
        hogs = [Hog("burn", self.folder / f"burn{cpu}") for cpu in sorted(os.sched_getaffinity(0))]
        hogs.append(Hog("stream", self.folder / "stream"))
        for hog in hogs:
            self.addCleanup(hog.stop)
        eventually(lambda: all(hog.done() > 0 for hog in hogs), "the hogs work")
        # A first epoch, out of S3.
        measured = [self.pids[name] for name in ("node", "mount")]
        for pid in measured:
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
        before = [resident_most(pid) for pid in measured]
        for name, data in files.items():
            self.assertEqual((place / name).read_bytes(), data)
        loader = Hog("read", self.folder / "read", place, LOADER_THREADS)
        self.addCleanup(loader.stop)
        eventually(lambda: loader.done() > 0, "the loader reads")
        loader.send(signal.SIGSTOP)
        rows = []
        for number in range(self.ROUNDS):
            row = {}
            for busy in ((False, True), (True, False))[number % 2]:
                row[busy] = self.window(busy, hogs, loader)
            rows.append(row)
            self.hold("node", row[True], *node, row[True]["sent"])
            self.hold("mount", row[True], *mount, row[True]["received"])
        grown = [resident_most(pid) - most for pid, most in zip(measured, before, strict=True)]
        self.say(what, rows, *grown)
        return grown

    def hold(self, name, seen, cpus, rate, moved):
        if cpus:
            # A count of CPU time; the clock that counts it ticks a hundred times a second.
            self.assertLessEqual(seen[name], cpus * seen["seconds"] + 0.05, (name, seen))
            self.assertLessEqual(len(cpus_of(self.pids[name])), cpus, name)
        if rate:
            # What gathers in 250 ms may go at once, and the last answer is paid for by whoever comes next. What was paid for before
            # the window may come in it, if the machine is busy: what is on its way is no more than the mount's memory.
            self.assertLessEqual(moved, rate * (seen["seconds"] + 0.25) + LIMIT + 2 * MIB, (name, seen))

    def window(self, busy, hogs, loader):
        """What everybody did in some seconds, with the loader or without. The seconds are those from the first count before to the
        last one behind: on a busy machine it takes a while to count."""
        if busy:
            loader.send(signal.SIGCONT)
        *burners, streamer = hogs

        def counted():
            began = time.monotonic()
            counts = {"burnt": sum(hog.done() for hog in burners), "streamed": streamer.done(), "read": loader.done(),
                      "sent": sum(self.sent_by(self.cluster.nodes["n1"]).values()),
                      "received": sum(count_by_port("bytes_received", pid=self.pids["mount"]).values()),
                      "node": cpu_seconds(self.pids["node"]), "mount": cpu_seconds(self.pids["supervisor"], self.pids["mount"]),
                      "loader": cpu_seconds(loader.process.pid)}
            return began, counts, time.monotonic()

        began, before, _ = counted()
        time.sleep(self.WINDOW_SECONDS)  # what is measured: how much is done meanwhile
        if busy:
            eventually(lambda: loader.done() > before["read"], "the loader reads")
        _, after, ended = counted()
        loader.send(signal.SIGSTOP)
        return {key: value - before[key] for key, value in after.items()} | {"seconds": ended - began}

    @staticmethod
    def say(what, rows, node_grown, mount_grown):
        def of(key, busy=True):
            return statistics.median(row[busy][key] / row[busy]["seconds"] for row in rows)

        def left(row, key):
            return row[True][key] / row[True]["seconds"] / (max(row[False][key], 1) / row[False]["seconds"])

        lost = {key: 1 - statistics.median(left(row, key) for row in rows) for key in ("burnt", "streamed")}
        print(f"{what}: {of('read'):.0f} MiB/s read, {of('sent') / MIB:.0f} MiB/s left the node, {of('received') / MIB:.0f} MiB/s came to "
              f"the mount; CPU s/s: node {of('node'):.2f}, mount {of('mount'):.2f}, loader {of('loader'):.2f}; memory grew by "
              f"{node_grown / MIB:.0f} MiB (node), {mount_grown / MIB:.0f} MiB (mount); lost of the hogs' work: CPU {lost['burnt']:.0%}, "
              f"memory {lost['streamed']:.0%} (by itself {of('burnt', False):.0f} and {of('streamed', False):.0f} MiB/s)", flush=True)
