#!/usr/bin/python3
"""The disk of a cache node becomes slow while a job trains. A hundred times slower (than the 100 MB/s that any disk of a
node reads in pieces of this size) readers go on at its pace, or without it. Slower than they wait, it is left alone, and
comes back by itself."""

import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import verified_reader  # noqa: E402
from e2e import E2eTest, eventually, main  # noqa: E402
from loop_disk import SKIPPED, LoopDisk, can_throttle, drop_clean_pages, skip_if_missing  # noqa: E402
from mount_state import worker_of  # noqa: E402
from verified_load import FILES, NODE_STALL_SECONDS, Load, held  # noqa: E402

DISK_MIB = 160
PIECE = 24 << 10  # a file with its header and padding
SLOW_BYTES_PER_S = 1_000_000
SLOW_SECONDS = 6
# Each reader waits for one read, and they share this: more than the second that a reader waits for a disk.
TOO_SLOW_BYTES_PER_S = 8_000
# A machine that builds beside this test is given room.
LONGEST_SECONDS = held(NODE_STALL_SECONDS, 10)


class SlowDisk(E2eTest):
    def setUp(self):
        super().setUp()
        self.disks = {}

    def end_cluster(self):
        for disk in self.disks.values():
            disk.unthrottle()
        try:
            super().end_cluster()
        finally:
            for disk in self.disks.values():
                disk.close()

    def node(self, name):
        return next(node for node in self.cluster.json("stats", "--nodes")["nodes"] if node["id"] == name)

    def state(self):
        return self.node("slow")["disks"][0]["state"]

    def given_up(self):
        """Calls that the slow node gave up because they took too long."""
        return sum(value for (metric, labels), value in self.cluster.nodes["slow"].metrics().items()
                   if metric == "forebay_disk_errors_total" and 'kind="hang"' in labels)

    def bytes_read(self):
        """From the device below the slow node's disk, so far."""
        name = pathlib.Path(self.disks["slow"].device).name
        return int(pathlib.Path(f"/sys/block/{name}/stat").read_text(encoding="ascii").split()[2]) * 512

    def raw_rate(self):
        """Bytes a second of the disk, in pieces as the node reads them, past every cache."""
        begin = time.monotonic()
        subprocess.run(["dd", f"if={self.disks['slow'].device}", "of=/dev/null", "iflag=direct", f"bs={PIECE}",
                        "count=1000", "status=none"], check=True)
        return PIECE * 1000 / (time.monotonic() - begin)

    def throttle(self, bytes_per_s):
        # The mount reads the node's files, too. It has the disk read nothing, but a kernel before 6.5 does that for it.
        self.disks["slow"].throttle(bytes_per_s, self.cluster.nodes["slow"].pid, worker_of(self.cluster.mounts["m1"].pid))

    def fetched(self):
        return self.gets()["gets"]

    def load(self):
        load = Load(self.mount)
        self.addCleanup(load.kill)
        return load

    def stop(self, load):
        total = load.stop()
        self.assertEqual((total["errors"][:5], total["wrong"][:5]), ([], []))
        self.assertLess(total["longest_seconds"], LONGEST_SECONDS)
        return total

    def report(self, what, total, gets):
        print(f"\n    {what}: {total['reads']} reads, {total['rate']:.0f} a second, longest stall "
              f"{total['longest_seconds']:.2f} s (bound {NODE_STALL_SECONDS} s), {gets} GETs", file=sys.stderr)

    def test_readers_go_on_beside_a_slow_disk(self):
        verified_reader.write(self.folder / "source", FILES)
        self.rgw.upload(self.folder / "source", self.bucket)
        self.cluster.start_coordinator()
        for name in ("slow", "fast"):
            self.disks[name] = LoopDisk(self.home, f"pace_{name}", DISK_MIB)
            self.cluster.start_node(name, directories=[(self.disks[name].path / "cache", "96MiB")])
        self.link("data", "", "--no-background-fill")
        self.mount = self.cluster.mount("data", "m1")
        self.stop(Load(self.mount, passes=1, readers=2))
        eventually(lambda: sum(self.node(name)["blocks"] for name in self.disks) == FILES, "every block is stored")
        self.a_hundred_times_slower()
        self.too_slow_for_readers()
        # What was fetched meanwhile is kept somewhere, and the rest is where it was.
        self.stop(Load(self.mount, passes=1, readers=1))
        fetched = self.fetched()
        self.stop(Load(self.mount, passes=1, readers=1))
        self.assertEqual(self.fetched(), fetched, "everything is in some cache")

    def a_hundred_times_slower(self):
        raw = self.raw_rate()
        load = self.load()
        self.throttle(SLOW_BYTES_PER_S)
        begin, read, hits, fetched = time.monotonic(), self.bytes_read(), self.node("slow")["hits"], self.fetched()
        while time.monotonic() < begin + SLOW_SECONDS:
            drop_clean_pages()  # what is in memory needs no disk
        rate = (self.bytes_read() - read) / (time.monotonic() - begin)
        served = self.node("slow")["hits"] - hits
        self.report(f"{raw / SLOW_BYTES_PER_S:.0f}x slower, {rate / 1e6:.2f} of {raw / 1e6:.0f} MB/s", self.stop(load),
                    self.fetched() - fetched)
        self.assertGreater(rate, 0, "void: the disk was not used")
        # The throttle hands out its bytes in portions.
        self.assertLess(rate, SLOW_BYTES_PER_S * 1.5, "void: the disk was not slow: something reads past the throttle")
        self.assertGreater(served, 50, "the node serves on")
        # Where reads queue up for more than a second three times in ten, the disk is left alone already.
        self.throttle(0)
        eventually(lambda: self.state() == "ok", "the disk is in service", 120)

    def too_slow_for_readers(self):
        load, fetched = self.load(), self.fetched()
        begin, before = time.monotonic(), self.given_up()
        self.throttle(TOO_SLOW_BYTES_PER_S)

        def left_alone():
            drop_clean_pages()
            return self.state() == "quarantined"

        eventually(left_alone, "the disk is left alone")
        after = time.monotonic() - begin
        self.assertGreater(self.given_up(), before, "void: no read took too long")
        hits = self.node("fast")["hits"]
        eventually(lambda: self.node("fast")["hits"] > hits + 500, "readers go on")
        self.throttle(0)
        eventually(lambda: self.state() == "ok", "the disk is back in service by itself", 120)
        self.report(f"too slow, left alone after {after:.1f} s, back {time.monotonic() - begin:.1f} s after that it began",
                    self.stop(load), self.fetched() - fetched)
        self.assertGreater(self.fetched(), fetched, "its blocks came from S3 meanwhile")


if __name__ == "__main__":
    skip_if_missing()
    if not can_throttle():
        print("skipped: this machine has no blkio controller to slow a disk down with", file=sys.stderr)
        sys.exit(SKIPPED)
    main()
