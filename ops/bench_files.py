"""The parts of ops/bench that read whole files of one data set, as loaders do: small files, and shards."""

import json
import os
import subprocess
import time

import bench_subjects
from local_cluster import ClusterError, say, step, without_settings
from sample_data import SampleData

SHARDS = 4
READERS = {"small": (1, 2, 8), "shards": (1, 2)}
READ_SECONDS = 600


class Workload:
    """One data set, what reads it, and what was measured."""

    def __init__(self, name, bench):
        self.name, self.bench, self.threads = name, bench, READERS[name]
        self.folder = bench.folder / name
        self.source = self.folder / "source"
        self.bucket = f"bench-{name}"
        self.forebay = bench_subjects.Forebay(bench.cluster, name)
        self.peers, self.subjects, self.skipped = [], [], {}
        self.files = self.bytes = self.blocks = 0
        self.failed, self.seed = [], 0
        self.runs, self.visits = [], []
        self.at_s3 = {}

    def prepare(self):
        with step(f"{self.name}: making the files and uploading them", self.bench.out):
            if self.name == "small":
                SampleData().small_files(self.source, self.bench.options.files)
            else:
                SampleData().shards(self.source, SHARDS)
            paths = sorted(path for path in self.source.rglob("*") if path.is_file())
            self.files, self.bytes = len(paths), sum(path.stat().st_size for path in paths)
            (self.folder / "list").write_text("".join(f"{path.relative_to(self.source)}\n" for path in paths))
            self.bench.rgw.upload(self.source, self.bucket)
            self._read(self.source, self.threads[-1], "--write-digests", self.folder / "digests")

    def start(self):
        with step(f"{self.name}: forebay link, the mounts, the other file systems", self.bench.out):
            self.bench.cluster.cli("link", f"s3://{self.bucket}/", "--as", self.name)
            self.subjects = bench_subjects.native(self.source) + self.forebay.start()
            self.peers = bench_subjects.peers(self.folder, self.bucket, self.bench.rgw, self.skipped)
            for _, subjects in self.peers:
                self.subjects += subjects
        for line in self.skipped.values():
            say(line, self.bench.out)

    def verify(self):
        """Every subject's bytes, outside of what is timed; it fills the caches, too."""
        with step(f"{self.name}: comparing every byte of every subject", self.bench.out):
            for subject in self.subjects:
                subject.arrange()
                self._read(subject.root, self.threads[-1], "--digests", self.folder / "digests")
            self.blocks = self.bench.cluster.json("check", self.name)["blocks"]
            self.at_s3 = self.bench.rgw.gets(self.bucket)

    def round(self, number):
        turn = number % len(self.subjects)
        with step(f"{self.name}: round {number} of {self.bench.options.rounds}", self.bench.out):
            for subject in self.subjects[turn:] + self.subjects[:turn]:
                self._visit(subject, number)

    def _visit(self, subject, number):
        nodes = self.forebay.gets()
        if subject.warm:
            subject.arrange()
            self._read(subject.root, self.threads[-1])
        numbers = self.threads[-1:] if subject.slow else self.threads
        for threads in numbers:
            self.runs.append({"subject": subject.key, "round": number, **self._measure(subject, threads)})
        at_s3 = self.bench.rgw.gets(self.bucket)
        self.visits.append({"subject": subject.key, "round": number, "reads": len(numbers) + subject.warm,
                            "gets": at_s3["gets"] - self.at_s3["gets"], "heads": at_s3["heads"] - self.at_s3["heads"],
                            "gets_of_nodes": self.forebay.gets() - nodes})
        self.at_s3 = at_s3

    def _measure(self, subject, threads):
        subject.arrange()
        ops = subject.fuse_ops()
        for _ in os.walk(subject.root):  # as a training script does before it reads
            pass
        walked = subject.fuse_ops()
        begin, cpu, machine = time.monotonic(), subject.cpu_seconds(), bench_subjects.machine_cpu_seconds()
        result = self._read(subject.root, threads)
        daemons, reader = subject.cpu_seconds() - cpu, result.pop("cpu_seconds")
        others = bench_subjects.machine_cpu_seconds() - machine - daemons - reader
        possible = (time.monotonic() - begin) * len(os.sched_getaffinity(0))
        return {"readers": threads, **result, "cpu_seconds_of_reader": reader, "cpu_seconds_of_daemons": daemons,
                "cpu_share_of_others": min(1.0, max(0.0, others / possible)), "fuse_ops_of_walk": difference(walked, ops),
                "fuse_ops": difference(subject.fuse_ops(), walked)}

    def _read(self, root, threads, *words):
        self.seed += 1
        command = [self.bench.programs / "read_files", self.folder / "list", root, "--threads", threads,
                   "--seed", self.seed, *words]
        result = subprocess.run([str(word) for word in command], env=without_settings(os.environ), text=True,
                                capture_output=True, timeout=READ_SECONDS, check=False)
        if result.returncode not in (0, 1) or not result.stdout:
            raise ClusterError(f"read_files of {root} ended with {result.returncode}: {result.stderr.strip()}")
        figures = json.loads(result.stdout)
        self.failed += [f"{root}/{line}" for line in figures.pop("shown")]
        return figures

    def stop(self):
        for peer, _ in self.peers:
            peer.stop()
        self.forebay.stop()

    def document(self):
        return {"name": self.name, "files": self.files, "bytes": self.bytes, "blocks": self.blocks,
                "readers": list(self.threads), "rounds": self.bench.options.rounds,
                "skipped": list(self.skipped.values()), "failed": self.failed,
                "subjects": [{"key": subject.key, "title": subject.title, "cold": subject.cold, "peer": subject.peer,
                              "forebay": subject.mount is not None} for subject in self.subjects],
                "runs": self.runs, "visits": self.visits}


def difference(after, before):
    return {op: count - before.get(op, 0) for op, count in after.items() if count != before.get(op, 0)}
