"""The cold part of ops/bench: a first epoch of small files out of an S3 that is 20 ms away, with a few connections, beside
what the same connections carry when they fetch the same objects at once and nothing else."""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

import bench_cluster
import bench_hold
import bench_origin
import bench_subjects
from local_cluster import ClusterError, Daemon, step, without_settings
from sample_data import SampleData

DELAY_MS = 20
CONNECTIONS = 16
READERS = 2
LEAST_SHARE = 0.85
# Without a background fill two readers take so long that a part of the files has to do.
LAZY_PART = 5
READ_SECONDS = 600
ROWS = (("raw", "the same connections, nothing else"),
        ("lazy", "forebay, --no-background-fill"),
        ("filled", "forebay"))
NO_FUSE = ("filled_no_fuse", "the same, without FUSE")


class ColdEpoch:
    """One bucket behind a slow way, one cluster of one node, a new link for each run."""

    name = "cold"

    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder / "cold"
        self.source, self.bucket = self.folder / "source", "bench-cold"
        self.far = self.cluster = None
        self.files = self.bytes = self.seed = 0
        self.runs, self.failed = [], []

    def prepare(self):
        with step("cold: making the files, uploading them; a cluster with an S3 20 ms away", self.bench.out):
            SampleData().small_files(self.source, self.bench.options.files)
            paths = sorted(path for path in self.source.rglob("*") if path.is_file())
            self.names = [str(path.relative_to(self.source)) for path in paths]
            self.files, self.bytes = len(paths), sum(path.stat().st_size for path in paths)
            (self.folder / "all").write_text("".join(f"{name}\n" for name in self.names))
            (self.folder / "part").write_text("".join(f"{name}\n" for name in self.names[::LAZY_PART]))
            self.bench.rgw.upload(self.source, self.bucket)
            self._read(bench_subjects.native(self.source)[0], "all", "--write-digests", self.folder / "digests")
            near = re.sub("^http://", "", self.bench.rgw.env["AWS_ENDPOINT_URL"])
            self.far = Daemon("far S3", [sys.executable, pathlib.Path(__file__).with_name("far_s3.py"), near, DELAY_MS],
                              without_settings(os.environ), self.folder / "far.log").start()
            env = {**self.bench.rgw.env, "AWS_ENDPOINT_URL": f"http://{self.far.addresses['listen']}"}
            self.objects = bench_origin.Objects(env, self.bucket, self.names, self.folder / "urls")
            self.cluster = bench_cluster.BenchCluster(self.folder / "c", self.bench.programs, env, self.bench.options.without)
            self.cluster.start_coordinator()
            self.cluster.start_node("n1", "2GiB", "--s3-max-connections", str(CONNECTIONS))

    def round(self, number):
        with step(f"cold: round {number} of {self.bench.rounds_of(self.name)}", self.bench.out):
            self._add("raw", number, self._raw())
            self._add("lazy", number, self._epoch(number, "part", "--no-background-fill"))
            self._add("filled", number, self._epoch(number, "all"))
            if "fuse" in self.bench.options.without:
                self._add("filled_no_fuse", number, self._epoch(number, "all", fuse=False))

    def _add(self, row, number, run):
        self.runs.append({"row": row, "round": number, **run})

    def _raw(self):
        before = self._gets()
        seconds = self.objects.fetch(CONNECTIONS)
        return {"files": self.files, "files_per_second": self.files / seconds, "gets": self._gets() - before}

    def _epoch(self, number, listed, *options, fuse=True):
        link = f"r{number}{listed}{'' if fuse else 'direct'}"
        self.cluster.cli("link", f"s3://{self.bucket}/", "--as", link, *options)
        if fuse:
            subject = bench_subjects.Subject(link, link, self.cluster.mount(link, link))
        else:
            subject = bench_subjects.Subject(link, link, link, direct=lambda: self.cluster.reading_without_fuse(link))
        before = self._gets()
        run = self._read(subject, listed, "--digests", self.folder / "digests")
        # What a fill still asks for belongs to it.
        for task in self.cluster.json("tasks")["tasks"]:
            if task["kind"] == "fill" and task["state"] == "running":
                self.cluster.cli("task", "wait", task["id"])
        run["gets"] = self._gets() - before
        run["fetched_in_background"] = sum(task["fetched_blocks"] for task in self.cluster.json("tasks")["tasks"]
                                           if task["kind"] == "fill" and task["target"] == link)
        if fuse:
            self.cluster.unmount(link)
        self.cluster.cli("unlink", link, "--evict")
        return run

    def _gets(self):
        return self.bench.rgw.gets(self.bucket)["gets"]

    def _read(self, subject, listed, *words):
        self.seed += 1
        command, environment = subject.reading(self.bench.programs, self.folder / listed)
        command += ["--threads", READERS, "--seed", self.seed, *words]
        result = subprocess.run([str(word) for word in command], env=environment, text=True, capture_output=True,
                                timeout=READ_SECONDS, check=False)
        if result.returncode not in (0, 1) or not result.stdout:
            raise ClusterError(f"reading {subject.root} ended with {result.returncode}: {result.stderr.strip()}")
        figures = json.loads(result.stdout)
        self.failed += [f"{subject.root}/{line}" for line in figures["shown"]]
        return {"files": figures["files"], "files_per_second": figures["files_per_second"]}

    def stop(self):
        if self.cluster:
            self.cluster.stop()
        if self.far:
            self.far.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def document(self):
        rounds = sorted({run["round"] for run in self.runs})
        found = {(run["row"], run["round"]): run for run in self.runs}

        def median(value):
            return statistics.median(value(number) for number in rounds)

        rows = [{"row": row, "title": title,
                 "files_per_second": median(lambda n, row=row: found[row, n]["files_per_second"]),
                 "share_of_raw": median(lambda n, row=row: found[row, n]["files_per_second"]
                                        / found["raw", n]["files_per_second"]),
                 "gets_per_block": median(lambda n, row=row: found[row, n]["gets"] / found[row, n]["files"])}
                for row, title in (*ROWS, *([NO_FUSE] if "fuse" in self.bench.options.without else []))]
        return {"files": self.files, "bytes": self.bytes, "readers": READERS, "connections": CONNECTIONS,
                "delay_ms": DELAY_MS, "rounds": len(rounds), "rows": rows, "runs": self.runs, "failed": self.failed}


def to_hold(cold):
    """As bench_report.to_hold has it."""
    name = ColdEpoch.name
    for row in cold["rows"]:
        if row["row"] != "raw":
            runs = [run for run in cold["runs"] if run["row"] == row["row"]]
            worst = max((run["gets"] / run["files"] for run in runs), key=lambda found: abs(found - 1))
            yield bench_hold.exactly(name, f"GETs a block, {row['title']}", worst, 1, worst == 1, lambda value: f"{value:.3f}",
                                     figure=7)
    share = next(row["share_of_raw"] for row in cold["rows"] if row["row"] == "filled")
    yield bench_hold.at_least(name, f"files/s of a first epoch against {cold['connections']} connections that do nothing else",
                              share, LEAST_SHARE, figure=7)
    yield bench_hold.exactly(name, "reads that failed or had wrong bytes", len(cold["failed"]), 0)


def print_cold(cold, say):
    say(f"\ncold: {cold['files']:,} files, {cold['bytes'] / 1e6:,.0f} MB, each a block; S3 {cold['delay_ms']} ms away, "
        f"{cold['connections']} connections; {cold['readers']} readers. Rounds: {cold['rounds']}, medians")
    say(f"{'':42}{'files/s':>9}{'of raw':>9}{'GETs/block':>12}")
    for row in cold["rows"]:
        say(f"{row['title']:42}{row['files_per_second']:>9,.0f}{row['share_of_raw']:>9.2f}{row['gets_per_block']:>12.3f}")
