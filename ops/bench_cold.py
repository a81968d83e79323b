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

import boto3
import botocore.config

from local_cluster import Cluster, ClusterError, Daemon, step, without_settings
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
            self._read(self.source, "all", "--write-digests", self.folder / "digests")
            near = re.sub("^http://", "", self.bench.rgw.env["AWS_ENDPOINT_URL"])
            self.far = Daemon("far S3", [sys.executable, pathlib.Path(__file__).with_name("far_s3.py"), near, DELAY_MS],
                              without_settings(os.environ), self.folder / "far.log").start()
            env = {**self.bench.rgw.env, "AWS_ENDPOINT_URL": f"http://{self.far.addresses['listen']}"}
            self.env = env
            self.cluster = Cluster(self.folder / "c", self.bench.programs, env)
            self.cluster.start_coordinator()
            self.cluster.start_node("n1", "2GiB", "--s3-max-connections", str(CONNECTIONS))

    def round(self, number):
        with step(f"cold: round {number} of {self.bench.rounds_of(self.name)}", self.bench.out):
            self._add("raw", number, self._raw())
            self._add("lazy", number, self._epoch(number, "part", "--no-background-fill"))
            self._add("filled", number, self._epoch(number, "all"))

    def _add(self, row, number, run):
        self.runs.append({"row": row, "round": number, **run})

    def _raw(self):
        """What curl gets with so many connections: presigned, so that it signs nothing meanwhile."""
        client = boto3.client(
            "s3", endpoint_url=self.env["AWS_ENDPOINT_URL"], region_name="us-east-1",
            aws_access_key_id=self.env["AWS_ACCESS_KEY_ID"], aws_secret_access_key=self.env["AWS_SECRET_ACCESS_KEY"],
            config=botocore.config.Config(s3={"addressing_style": "path"}, signature_version="s3v4"))
        urls = [client.generate_presigned_url("get_object", Params={"Bucket": self.bucket, "Key": name})
                for name in self.names]
        config = self.folder / "urls"
        config.write_text("".join(f'url = "{url}"\noutput = "/dev/null"\n' for url in urls))
        before, begin = self._gets(), os.times().elapsed
        result = subprocess.run(["curl", "--silent", "--show-error", "--fail", "--parallel", "--parallel-immediate",
                                 "--parallel-max", str(CONNECTIONS), "--config", str(config)],
                                env=without_settings(os.environ), capture_output=True, text=True, timeout=READ_SECONDS,
                                check=False)
        seconds = os.times().elapsed - begin
        if result.returncode != 0:
            raise ClusterError(f"curl ended with {result.returncode}: {result.stderr.strip()[-500:]}")
        return {"files": self.files, "files_per_second": self.files / seconds, "gets": self._gets() - before}

    def _epoch(self, number, listed, *options):
        link = f"r{number}{listed}"
        self.cluster.cli("link", f"s3://{self.bucket}/", "--as", link, *options)
        root = self.cluster.mount(link, link)
        before = self._gets()
        run = self._read(root, listed, "--digests", self.folder / "digests")
        # What a fill still asks for belongs to it.
        for task in self.cluster.json("tasks")["tasks"]:
            if task["kind"] == "fill" and task["state"] == "running":
                self.cluster.cli("task", "wait", task["id"])
        run["gets"] = self._gets() - before
        run["fetched_in_background"] = sum(task["fetched_blocks"] for task in self.cluster.json("tasks")["tasks"]
                                           if task["kind"] == "fill" and task["target"] == link)
        self.cluster.unmount(link)
        self.cluster.cli("unlink", link, "--evict")
        return run

    def _gets(self):
        return self.bench.rgw.gets(self.bucket)["gets"]

    def _read(self, root, listed, *words):
        self.seed += 1
        command = [self.bench.programs / "read_files", self.folder / listed, root, "--threads", READERS,
                   "--seed", self.seed, *words]
        result = subprocess.run([str(word) for word in command], env=without_settings(os.environ), text=True,
                                capture_output=True, timeout=READ_SECONDS, check=False)
        if result.returncode not in (0, 1) or not result.stdout:
            raise ClusterError(f"read_files of {root} ended with {result.returncode}: {result.stderr.strip()}")
        figures = json.loads(result.stdout)
        self.failed += [f"{root}/{line}" for line in figures["shown"]]
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
                for row, title in ROWS]
        return {"files": self.files, "bytes": self.bytes, "readers": READERS, "connections": CONNECTIONS,
                "delay_ms": DELAY_MS, "rounds": len(rounds), "rows": rows, "runs": self.runs, "failed": self.failed}


def to_hold(cold):
    """As bench_report.to_hold has it."""
    def line(what, measured, wanted, holds, decides):
        return {"workload": ColdEpoch.name, "what": what, "measured": measured, "wanted": wanted, "holds": holds,
                "decides": decides}

    for row, title in ROWS:
        if row != "raw":
            runs = [run for run in cold["runs"] if run["row"] == row]
            most = max(run["gets"] / run["files"] for run in runs)
            yield line(f"GETs a block, {title}", f"{most:.3f}", "= 1.000",
                       all(run["gets"] == run["files"] for run in runs), True)
    share = next(row["share_of_raw"] for row in cold["rows"] if row["row"] == "filled")
    yield line(f"files/s of a first epoch against {cold['connections']} connections that do nothing else", f"{share:.2f}x",
               f">= {LEAST_SHARE}x", share >= LEAST_SHARE, False)
    failed = len(cold["failed"])
    yield line("reads that failed or had wrong bytes", f"{failed:,}", "= 0", not failed, True)


def print_cold(cold, say):
    say(f"\ncold: {cold['files']:,} files, {cold['bytes'] / 1e6:,.0f} MB, each a block; S3 {cold['delay_ms']} ms away, "
        f"{cold['connections']} connections; {cold['readers']} readers. Rounds: {cold['rounds']}, medians")
    say(f"{'':42}{'files/s':>9}{'of raw':>9}{'GETs/block':>12}")
    for row in cold["rows"]:
        say(f"{row['title']:42}{row['files_per_second']:>9,.0f}{row['share_of_raw']:>9.2f}{row['gets_per_block']:>12.3f}")
