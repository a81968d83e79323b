#!/usr/bin/python3
"""The disk of a cache node fails while a job trains: every read is right, none fails, and the disk comes back."""

import pathlib
import shutil
import signal
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import verified_reader  # noqa: E402
from e2e import eventually, main  # noqa: E402
from loop_disk import LoopDisk, can_throttle, drop_clean_pages, run, skip_if_missing  # noqa: E402
from verified_load import FILES, NODE_STALL_SECONDS, READS_PER_SECOND, Load, VerifiedTest, held  # noqa: E402

DISK_MIB = 160
# A machine that builds beside this test is given room.
LONGEST_SECONDS = held(NODE_STALL_SECONDS, 10)
AT_ONCE = 20
HUNG_BYTES_PER_S = 1


def listens(address):
    host, port = address.rsplit(":", 1)
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


class DiskFault(VerifiedTest):
    @classmethod
    def write_files(cls, folder):
        super().write_files(folder)
        cls.data = verified_reader.contents(FILES)

    def setUp(self):
        super().setUp()
        self.disks = {}
        self.links = 0

    def end_cluster(self):
        for disk in self.disks.values():
            disk.thaw()
            disk.unthrottle()
        try:
            super().end_cluster()
        finally:
            for disk in self.disks.values():
                disk.close()

    def begin(self, names):
        """A node on a disk of its own for each name, and all data in their caches."""
        self.cluster.start_coordinator()
        for name in names:
            self.disks[name] = LoopDisk(self.home, f"disk_{name}", DISK_MIB)
            self.cluster.start_node(name, directories=[(self.disks[name].path / "cache", "96MiB")])
        self.link()
        mount = self.cluster.mount("data", "m1")
        self.link_anew()
        self.stop(Load(mount, passes=1, readers=2))
        stored = lambda: sum(node["blocks"] for node in self.cluster.json("stats")["nodes"]) == FILES  # noqa: E731
        eventually(stored, "every block is stored")
        return mount

    def link_anew(self):
        """The same objects once more, to be fetched anew: by those who ask for them alone."""
        self.links += 1
        self.news = 0
        name = f"fresh{self.links}"
        self.link(name, "", "--no-background-fill")
        self.fresh = self.cluster.mount(name, name)

    def stop(self, load):
        self.addCleanup(load.kill)
        total = load.stop()
        self.assertEqual((total["errors"][:5], total["wrong"][:5]), ([], []))
        self.assertLess(total["longest_seconds"], LONGEST_SECONDS)
        return total

    def errors(self, name, kind):
        """Of a node's disk, since it started."""
        return sum(value for (metric, labels), value in self.cluster.nodes[name].metrics().items()
                   if metric == "forebay_disk_errors_total" and f'kind="{kind}"' in labels)

    def state(self, name):
        node = next(node for node in self.cluster.json("stats")["nodes"] if node["id"] == name)
        return node["disks"][0]["state"]

    def hits(self, name):
        return next(node for node in self.cluster.json("stats")["nodes"] if node["id"] == name)["hits"]

    # --- The faults: each answers what proves that it happened, and the state that the disk is in then.

    def fault_full(self, name):
        with open(self.disks[name].path / "stranger", "wb") as stranger:
            try:
                while True:
                    stranger.write(b"\0" * (1 << 20))
                    stranger.flush()
            except OSError:
                pass
        return "full", "ok"

    def heal_full(self, name):
        (self.disks[name].path / "stranger").unlink()

    def fault_eio(self, name):
        self.disks[name].truncate()
        return "read", "quarantined"

    def heal_eio(self, name):
        self.disks[name].restore()

    def fault_readonly(self, name):
        self.disks[name].stop_writing()
        return "write", "readonly"

    def fault_frozen(self, name):
        self.disks[name].freeze()
        return "hang", "readonly"

    def heal_frozen(self, name):
        self.disks[name].thaw()

    def fault_hung(self, name):
        # Nodes alone: a mount that asked this disk itself would wait as long, and all its readers with it.
        self.disks[name].throttle(HUNG_BYTES_PER_S, self.cluster.nodes[name].pid)
        return "hang", "quarantined"

    def heal_hung(self, name):
        self.disks[name].unthrottle()

    def fault_covered(self, name):
        run("mount", "-t", "tmpfs", "tmpfs", self.disks[name].path)
        return "gone", "quarantined"

    def heal_covered(self, name):
        run("umount", self.disks[name].path)

    def fault_removed(self, name):
        shutil.rmtree(self.disks[name].path / "cache")
        return "gone", "quarantined"

    # --- The tests.

    def check(self, fault, mount):
        """Readers go on while the disk of the node of this name fails; answers their reads and seconds."""
        fetched = self.fetched()
        load = Load(mount)
        self.addCleanup(load.kill)
        before = self.hits(fault)
        eventually(lambda: self.hits(fault) > before + 100, "the node serves what it holds")
        begin = time.monotonic()
        kind, state = getattr(self, f"fault_{fault}")(fault)

        def noticed():
            drop_clean_pages()  # what is in memory needs no disk
            if kind in ("full", "write", "hang"):
                self.ask_for_something_new()
            return self.errors(fault, kind) > 0 and self.state(fault) == state

        eventually(noticed, f"{fault}: {kind} is counted and the disk is {state}")
        noticed_after = time.monotonic() - begin
        before = self.hits(fault)
        eventually(lambda: self.hits(fault) > before + 200, "the node serves on")
        total = self.stop(load)
        print(f"\n    {fault}: noticed after {noticed_after:.1f} s; {total['reads']} reads, {total['rate']:.0f} a second, "
              f"longest stall {total['longest_seconds']:.2f} s (bound {self.STALL_SECONDS} s), "
              f"{self.fetched() - fetched} GETs", file=sys.stderr)
        return total["reads"], total["seconds"]

    @staticmethod
    def writers_in_kernel(pid):
        """Threads in a sleep that no signal ends."""
        stats = (task.read_text() for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"))
        return sum(stat.rsplit(")", 1)[1].split()[0] == "D" for stat in stats)

    def ask_for_something_new(self):
        """Some blocks that are nowhere cached, so that every node writes."""
        if self.news + AT_ONCE > FILES:
            self.link_anew()
        for i in range(self.news, self.news + AT_ONCE):
            path = self.fresh / verified_reader.name_of(i)
            self.assertEqual(path.read_bytes(), self.data[verified_reader.window(i)])
        self.news += AT_ONCE

    def test_readers_notice_no_fault_of_a_disk(self):
        faults = ["full", "eio", "readonly", "frozen", "covered", "removed"] + (["hung"] if can_throttle() else [])
        mount = self.begin(faults)
        reads, seconds = 0, 0.0
        for fault in faults:
            with self.subTest(fault):
                done = self.check(fault, mount)
                reads, seconds = reads + done[0], seconds + done[1]
            if heal := getattr(self, f"heal_{fault}", None):
                heal(fault)
        self.void_unless(reads / seconds >= READS_PER_SECOND, f"{reads / seconds:.0f} reads a second are too little load")
        # What can come back does so by itself; what cannot goes on being served, from S3.
        for fault in faults:
            if fault not in ("readonly", "removed"):
                eventually(lambda fault=fault: self.state(fault) == "ok", f"{fault}: the disk is back in service")
        self.stop(Load(mount, passes=1, readers=1))
        fetched = self.fetched()
        self.stop(Load(mount, passes=1, readers=1))
        self.assertEqual(self.fetched(), fetched, "everything is in some cache")

    def test_a_disk_that_hangs_does_not_hold_up_the_end(self):
        self.begin(["frozen"])
        node = self.cluster.nodes.pop("frozen")
        address, metrics = node.addresses["listen"], node.addresses["metrics"]
        self.disks["frozen"].freeze()
        self.ask_for_something_new()
        eventually(lambda: self.writers_in_kernel(node.pid) > 0, "a thread waits for the disk")
        begin = time.monotonic()
        node.kill(signal.SIGTERM)
        # The kernel keeps the process until the disk answers, but not what others need.
        eventually(lambda: not any(map(listens, (address, metrics))), "its ports are free", seconds=10)
        closed_after = time.monotonic() - begin
        ended = lambda: pathlib.Path(f"/proc/{node.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"  # noqa: E731
        eventually(ended, "the program has ended", seconds=10)
        self.assertIn("does not answer", node.log.read_text())
        print(f"\n    its ports are free {closed_after:.1f} s after SIGTERM, its end is {time.monotonic() - begin:.1f} s",
              file=sys.stderr)
        self.disks["frozen"].thaw()
        self.assertEqual(node.wait(), 1)
        node.process.stdout.close()
        # Nothing that was there before is lost.
        fetched = self.fetched()
        self.cluster.start_node("frozen", directories=[(self.disks["frozen"].path / "cache", "96MiB")])
        self.stop(Load(self.cluster.folder / "m1", passes=1, readers=1))
        self.assertLessEqual(self.fetched() - fetched, FILES // 100)


if __name__ == "__main__":
    skip_if_missing()
    main()
