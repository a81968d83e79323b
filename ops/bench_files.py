"""The parts of ops/bench that read one data set with a number of readers: small files, files of a few MB and shards whole, and
pieces of shards at random."""

import dataclasses
import json
import os
import subprocess
import time

import bench_peers
import bench_raw
import bench_subjects
from local_cluster import ClusterError, say, step
from sample_data import SHARD_BYTES, SampleData

SHARDS, BIG_SHARDS, BIG_BYTES = 4, 2, 3 << 29
PIECE = 150_000        # bytes of a sample in a shard; never at a block's edge
SPARSE_SHARE = 0.02
MIDDLE_MB, MIDDLE_BYTES = (1, 4, 8), 400_000_000  # between the two modes
# The big shards are in S3's memory, and on the disk themselves and in each subject's cache.
BIG_MEMORY, BIG_DISK = 4 * BIG_SHARDS * BIG_BYTES, 8 * BIG_SHARDS * BIG_BYTES
READERS = {"files": (1, 2, 8), "shards": (1, 2)}

READ_SECONDS = 600
PIL_FILES = 500


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is read, and how."""
    name: str
    unit: str             # of READERS: what it is made of
    count: int
    bytes: int            # of a file, about
    data: str             # kinds of one name share the files and the bucket
    words: tuple = ()     # read_files reads pieces in place of whole files
    same: bool = False    # each read takes the same pieces in the same order
    rows: tuple = ("large",)  # of bench_subjects.Forebay, beside those that every kind has

    def make(self, folder):
        if self.unit == "files":
            SampleData().small_files(folder, self.count, self.bytes)
        else:
            SampleData().shards(folder, self.count, self.bytes)


def kinds(wanted, options, free_memory, free_disk):
    """Those of the workloads `small`, `middle` and `shards`."""
    found = []
    if "small" in wanted:
        for kilobytes in options.file_kb or (39, 5, 150):
            name = "small" if kilobytes == 39 else f"small-{kilobytes}k"
            # No more bytes than the files of 39 KB have.
            count = max(1, min(options.files, options.files * 39 // kilobytes))
            found.append(Kind(name, "files", count, 1000 * kilobytes, name, rows=("local", "socket")))
    if "middle" in wanted:
        for megabytes in MIDDLE_MB:
            name = f"middle-{megabytes}m"
            size = megabytes * 1_000_000
            found.append(Kind(name, "files", min(options.files, MIDDLE_BYTES // size), size, name, rows=("local", "large")))
    if "shards" in wanted:
        size = options.shard_mb * 1_000_000 if options.shard_mb else SHARD_BYTES
        found.append(Kind("shards", "shards", SHARDS, size, "shards"))
        found.append(Kind("random", "shards", SHARDS, size, "shards", ("--piece-bytes", PIECE)))
        big = not options.shard_mb and free_memory >= BIG_MEMORY and free_disk >= BIG_DISK
        if big:
            found.append(Kind("big", "shards", BIG_SHARDS, BIG_BYTES, "big"))
            found.append(Kind("big-random", "shards", BIG_SHARDS, BIG_BYTES, "big", ("--piece-bytes", PIECE)))
        found.append(Kind("sparse", "shards", *((BIG_SHARDS, BIG_BYTES, "big") if big else (SHARDS, size, "shards")),
                          ("--piece-bytes", PIECE, "--share", SPARSE_SHARE), same=True))
    return found


def workloads(wanted, bench):
    """One after the other; what the next one needs is made when it begins."""
    made = set()
    for kind in kinds(wanted, bench.options, *bench.room()):
        yield Workload(kind, bench, fresh=kind.data not in made)
        made.add(kind.data)


class Workload:
    """One data set, what reads it, and what was measured."""

    def __init__(self, kind, bench, fresh):
        self.kind, self.name, self.bench, self.threads = kind, kind.name, bench, READERS[kind.unit]
        self.fresh = fresh  # nobody has made its files yet
        self.folder = bench.folder / kind.name
        self.data = bench.folder / f"{kind.data}.data"
        self.source, self.list = self.data / "source", self.data / "list"
        self.bucket = f"bench-{kind.data}"
        self.forebays = []  # the link in each cluster
        self.peers, self.subjects, self.skipped = [], [], {}
        self.files = self.bytes = self.blocks = self.reads = 0
        self.failed, self.seed = [], 0
        self.runs, self.visits = [], []
        self.raw = []  # GB/s of loopback TCP, by round
        self.pil = None
        self.at_s3 = {}

    def prepare(self):
        self.folder.mkdir()
        self.bench.start()
        self.forebays = [bench_subjects.Forebay(cluster, self.name, self.kind.rows) for cluster in self.bench.clusters]
        if self.fresh:
            with step(f"{self.name}: making the files and uploading them", self.bench.out):
                self.kind.make(self.source)
                paths = sorted(path for path in self.source.rglob("*") if path.is_file())
                self.list.write_text("".join(f"{path.relative_to(self.source)}\n" for path in paths))
                self.bench.rgw.upload(self.source, self.bucket)
        sizes = [(self.source / name).stat().st_size for name in self.list.read_text().splitlines()]
        self.files, self.bytes = len(sizes), sum(sizes)
        first = self._read(bench_subjects.native(self.source)[0], self.threads[-1], "--write-digests", self.folder / "digests")
        self.reads, self.blocks = first["files"], first["blocks"]
        self.checksum = bench_raw.checksum_seconds_per_byte(self.bench.programs, self.folder, min(self.kind.bytes, 4 << 20))
        self._start()
        self._verify()
        if self.name.startswith("small"):
            self.pil = self.forebays[0].read_as_pil(self.list.read_text().splitlines()[:PIL_FILES])

    def _start(self):
        with step(f"{self.name}: forebay link, the mounts, the other file systems", self.bench.out):
            self.subjects = bench_subjects.native(self.source)
            for forebay in self.forebays:
                self.subjects += forebay.start(f"s3://{self.bucket}/")
            self.peers = bench_peers.start(self.bench.peers(self.skipped), self.folder, self.bucket, self.bench.rgw,
                                           self.source, self.skipped)
            for _, subjects in self.peers:
                self.subjects += subjects
        for line in self.skipped.values():
            say(line, self.bench.out)

    def _verify(self):
        """Every subject's bytes, outside of what is timed; it fills the caches, too."""
        with step(f"{self.name}: comparing every byte of every subject", self.bench.out):
            for subject in self.subjects:
                subject.arrange()
                self._read(subject, self.threads[-1], "--digests", self.folder / "digests")
            # Of whole files the link knows it; pieces do not touch all.
            self.blocks = self.blocks or self.bench.clusters[0].json("check", self.name)["blocks"]
            self._settle()
            self.at_s3 = self._gets()

    def round(self, number):
        turn = number % len(self.subjects)
        with step(f"{self.name}: round {number} of {self.rounds}", self.bench.out):
            for subject in self.subjects[turn:] + self.subjects[:turn]:
                self._visit(subject, number)
            if self.kind.unit == "shards" and not self.kind.words:
                self.raw.append(bench_raw.gb_per_second(self.threads[-1]))

    def _visit(self, subject, number):
        nodes = self._gets_of_nodes()
        if subject.warm:
            subject.arrange()
            self._read(subject, self.threads[-1])
        numbers = self.threads[-1:] if subject.slow else self.threads
        for threads in numbers:
            self.runs.append({"subject": subject.key, "round": number, **self._measure(subject, threads)})
        self._settle()
        at_s3 = self._gets()
        self.visits.append({"subject": subject.key, "round": number, "reads": len(numbers) + subject.warm,
                            "gets": at_s3["gets"] - self.at_s3["gets"], "heads": at_s3["heads"] - self.at_s3["heads"],
                            "get_bytes": at_s3["get_bytes"] - self.at_s3["get_bytes"],
                            "gets_of_nodes": self._gets_of_nodes() - nodes})
        self.at_s3 = at_s3

    def _gets_of_nodes(self):
        return sum(forebay.gets() for forebay in self.forebays)

    def _settle(self):
        for forebay in self.forebays:
            forebay.settle()

    def _gets(self):
        """What S3 has answered so far for this data set, also where a peer keeps its own copy of it."""
        total = {"gets": 0, "heads": 0, "get_bytes": 0}
        for bucket in {self.bucket, *(peer.data_bucket for peer, _ in self.peers)}:
            answered = self.bench.rgw.gets(bucket)
            total = {key: value + answered[key] for key, value in total.items()}
        return total

    def _measure(self, subject, threads):
        subject.arrange()
        ops, begin = subject.fuse_ops(), time.monotonic()
        subject.walk()
        walked, walk_seconds = subject.fuse_ops(), time.monotonic() - begin
        begin, cpu, machine = time.monotonic(), subject.cpu_seconds(), bench_subjects.machine_cpu_seconds()
        result = self._read(subject, threads)
        daemons, reader = subject.cpu_seconds() - cpu, result.pop("cpu_seconds")
        others = bench_subjects.machine_cpu_seconds() - machine - daemons - reader
        possible = (time.monotonic() - begin) * len(os.sched_getaffinity(0))
        return {"readers": threads, **result, "walk_seconds": walk_seconds, "cpu_seconds_of_reader": reader, "cpu_seconds_of_daemons": daemons,
                "cpu_share_of_others": min(1.0, max(0.0, others / possible)), "fuse_ops_of_walk": difference(walked, ops),
                "fuse_ops": difference(subject.fuse_ops(), walked)}

    def _read(self, subject, threads, *words):
        self.seed += not self.kind.same or not self.seed
        command, environment = subject.reading(self.bench.programs, self.list)
        command += ["--threads", threads, "--seed", self.seed, *self.kind.words, *words]
        result = subprocess.run([str(word) for word in command], env=environment, text=True, capture_output=True,
                                timeout=READ_SECONDS, check=False)
        if result.returncode not in (0, 1) or not result.stdout:
            raise ClusterError(f"reading {subject.root} ended with {result.returncode}: {result.stderr.strip()}")
        figures = json.loads(result.stdout)
        self.failed += [f"{subject.root}/{line}" for line in figures.pop("shown")]
        return figures

    @property
    def rounds(self):
        return self.bench.rounds_of("small" if self.kind.unit == "files" else "shards")

    def stop(self):
        for peer, _ in self.peers:
            peer.stop()
        for forebay in self.forebays:
            forebay.stop()

    def document(self):
        unit = "pieces/s" if self.kind.words else "files/s" if self.kind.unit == "files" else "GB/s"
        return {"name": self.name, "unit": unit, "files": self.files, "bytes": self.bytes, "blocks": self.blocks,
                "reads": self.reads, "readers": list(self.threads), "rounds": self.rounds,
                "skipped": list(self.skipped.values()), "failed": self.failed,
                "subjects": [{"key": subject.key, "title": subject.title, "cold": subject.cold, "peer": subject.peer,
                              "forebay": subject.forebay, "mounted": subject.mount is not None} for subject in self.subjects],
                "pil": self.pil, "checksum_seconds_per_byte": self.checksum, "runs": self.runs, "visits": self.visits, "raw_tcp_gb_per_second": self.raw}


def difference(after, before):
    return {op: count - before.get(op, 0) for op, count in after.items() if count != before.get(op, 0)}
