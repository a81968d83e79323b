"""ops/bench preload: what a preload writes a second, beside what the same disk takes from a program that only writes, and what
the same S3 gives to one that only fetches. The slower of the two is the limit."""

import os
import statistics
import time

import bench_hold
from bench_cluster import BenchCluster
from bench_origin import Objects
from local_cluster import Rgw, drop_page_cache, step
from sample_data import SHARD_BYTES, SampleData

SHARDS = 4
BLOCK = 4 << 20
WANTED = 0.8  # of the disk's own rate
CONNECTIONS = 32  # of the node to S3, and of curl
BUCKET, LINK = "preload", "data"
ROWS = (("disk", "the disk, written from front to back, fsync"), ("s3", "S3, fetched by curl in blocks, not kept"),
        ("preload", "forebay preload, fsync"))


class PreloadBench:
    def __init__(self, options, programs, folder, out):
        self.options, self.programs, self.folder, self.out = options, programs, folder, out
        self.size = options.shard_mb * 1_000_000 if options.shard_mb else SHARD_BYTES
        self.bytes, self.rates = SHARDS * self.size, {row: [] for row, _ in ROWS}
        self.blocks = SHARDS * -(-self.size // BLOCK)
        self.gets = []

    def run(self):
        source = self.folder / "source"
        with step(f"preload: making {self.bytes / 1e6:,.0f} MB, a real S3 (Ceph RGW) and a node", self.out):
            SampleData().shards(source, SHARDS, self.size)
            self.names = sorted(path.name for path in source.iterdir())
            self.rgw = Rgw(self.folder / "rgw").start(max(2 << 30, 2 * self.bytes))
        cluster = BenchCluster(self.folder / "c", self.programs, self.rgw.env)
        try:
            self.rgw.upload(source, BUCKET)
            self.source = source
            self.objects = Objects(self.rgw.env, BUCKET, self.names, self.folder / "urls", [
                (name, first, min(first + BLOCK, self.size) - 1) for name in self.names for first in range(0, self.size, BLOCK)])
            cluster.start_coordinator()
            cluster.start_node("n1", f"{2 * self.bytes + (256 << 20)}", "--s3-max-connections", str(CONNECTIONS))
            subjects = [("disk", self._write), ("s3", lambda: self.objects.fetch(CONNECTIONS)), ("preload", lambda: self._preload(cluster))]
            for number in range(self.options.rounds):
                turn = number % len(subjects)
                with step(f"preload: round {number + 1} of {self.options.rounds}", self.out):
                    for row, subject in subjects[turn:] + subjects[:turn]:
                        drop_page_cache()
                        self.rates[row].append(self.bytes / subject())
        finally:
            cluster.stop()
            self.rgw.stop()
        figures = {"bytes": self.bytes, "blocks": self.blocks, "connections": CONNECTIONS, "rounds": self.options.rounds,
                   "rates": self.rates, "gets": self.gets}
        return {**figures, "to_hold": list(to_hold(figures))}

    def _write(self):
        """Seconds to have as many bytes on the disk of the node's cache, as one file for each shard."""
        parts = [(self.source / name).read_bytes() for name in self.names]
        seconds = 0.0
        for number, part in enumerate(parts):
            path = self.folder / f"raw{number}"
            begin = time.monotonic()
            with open(path, "wb", buffering=0) as file:
                for first in range(0, len(part), BLOCK):
                    file.write(memoryview(part)[first:first + BLOCK])
                os.fsync(file.fileno())
            seconds += time.monotonic() - begin
            path.unlink()
        return seconds

    def _preload(self, cluster):
        """Seconds until every byte is on the node's disk."""
        cluster.cli("link", f"s3://{BUCKET}/", "--as", LINK, "--no-background-fill")
        before, begin = self.rgw.gets(BUCKET)["gets"], time.monotonic()
        cluster.cli("preload", LINK, timeout=3600)
        disk = os.open(self.folder, os.O_RDONLY)
        try:
            for path in (self.folder / "c" / "n1").rglob("*"):
                if path.is_file():
                    sync(path)
            os.fsync(disk)
        finally:
            os.close(disk)
        seconds = time.monotonic() - begin
        self.gets.append(self.rgw.gets(BUCKET)["gets"] - before)
        cluster.cli("unlink", LINK, "--evict", "--force")
        return seconds


def sync(path):
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def share(figures, of):
    """Of what `of` did in the same round; the median over the rounds."""
    return statistics.median(ours / other for ours, other in zip(figures["rates"]["preload"], figures["rates"][of], strict=True))


def limit(figures):
    """The slower of the two: the row's name."""
    return min(("disk", "s3"), key=lambda row: statistics.median(figures["rates"][row]))


def to_hold(figures):
    wrong = [gets for gets in figures["gets"] if gets != figures["blocks"]]
    yield bench_hold.exactly("preload", "GETs a block", (wrong or figures["gets"])[0] / figures["blocks"], 1, not wrong,
                             lambda value: f"{value:.3f}", figure=7)
    yield bench_hold.at_least("preload", "bytes/s against the disk's own rate", share(figures, "disk"), WANTED, figure=11)
    slower = limit(figures)
    if slower == "s3":
        # What S3 does not give no disk can take.
        yield bench_hold.at_least("preload", "bytes/s against what S3 gives, which is less than the disk's rate",
                                  share(figures, "s3"), WANTED, figure=11)


def print_tables(figures, say):
    say(f"\npreload: {figures['bytes'] / 1e6:,.0f} MB, {figures['blocks']:,} blocks, one node, {figures['connections']} connections to "
        f"S3. Rounds: {figures['rounds']}, medians")
    say(f"{'':46}{'MB/s':>9}{'x preload':>14}")
    for row, title in ROWS:
        say(f"{title:46}{statistics.median(figures['rates'][row]) / 1e6:>9,.0f}{1 / share(figures, row):>14.2f}")
    disk, s3 = (statistics.median(figures["rates"][row]) for row in ("disk", "s3"))
    say(f"{'fetched and then written, by these rates':46}{1 / (1 / disk + 1 / s3) / 1e6:>9,.0f}")
    say(f"the limit here is {'S3' if limit(figures) == 's3' else 'the disk'}")
