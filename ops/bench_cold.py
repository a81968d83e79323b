"""The cold part of ops/bench: a first epoch of small files out of an S3 that is 20 ms away, with a few connections, beside
what the same connections carry when they fetch the same objects at once and nothing else, and beside other file systems."""

import copy
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
import bench_peers
import bench_subjects
from local_cluster import ClusterError, Daemon, say, step, without_settings
from sample_data import SampleData

DELAY_MS = 20
CONNECTIONS = 16
READERS = 2
LEAST_SHARE = 0.85
# Where each file is fetched when it is read, two readers take so long that a part of the files has to do.
LAZY_PART = 5
READ_SECONDS = 600
RAW = {"row": "raw", "title": "the same connections, nothing else", "forebay": False}


class ColdEpoch:
    """One bucket behind a slow way, a cluster of one node and one over TLS, a new link for each run; and other file systems
    with empty caches."""

    name = "cold"

    def __init__(self, bench):
        self.bench, self.folder = bench, bench.folder / "cold"
        self.source, self.bucket = self.folder / "source", "bench-cold"
        self.far = self.s3 = None
        self.clusters, self.peers, self.skipped = {}, [], {}
        self.files = self.bytes = self.seed = 0
        self.rows, self.runs, self.failed = [RAW], [], []

    def prepare(self):
        with step("cold: making the files, uploading them", self.bench.out):
            self._make_files()
        with step("cold: clusters with an S3 20 ms away, the other file systems", self.bench.out):
            near = re.sub("^http://", "", self.bench.rgw.env["AWS_ENDPOINT_URL"])
            self.far = Daemon("far S3", [sys.executable, pathlib.Path(__file__).with_name("far_s3.py"), near, DELAY_MS],
                              without_settings(os.environ), self.folder / "far.log").start()
            self.s3 = copy.copy(self.bench.rgw)
            self.s3.env = {**self.bench.rgw.env, "AWS_ENDPOINT_URL": f"http://{self.far.addresses['listen']}"}
            self.objects = bench_origin.Objects(self.s3.env, self.bucket, self.names, self.folder / "urls")
            self._start_forebay()
            self._start_peers()
        for line in self.skipped.values():
            say(line, self.bench.out)

    def _make_files(self):
        SampleData().small_files(self.source, self.bench.options.files)
        paths = sorted(path for path in self.source.rglob("*") if path.is_file())
        self.names = [str(path.relative_to(self.source)) for path in paths]
        self.files, self.bytes = len(paths), sum(path.stat().st_size for path in paths)
        (self.folder / "all").write_text("".join(f"{name}\n" for name in self.names))
        (self.folder / "part").write_text("".join(f"{name}\n" for name in self.names[::LAZY_PART]))
        self.bench.rgw.upload(self.source, self.bucket)
        self._read(bench_subjects.native(self.source)[0], "all", "--write-digests", self.folder / "digests")

    def _start_forebay(self):
        self._start_cluster("c", tls=False)
        self._add_row("lazy", "forebay, --no-background-fill", self._epoch, "part", "--no-background-fill")
        self._add_row("filled", "forebay", self._epoch, "all")
        if "fuse" in self.bench.options.without:
            self._add_row("filled_no_fuse", "the same, without FUSE", self._epoch_without_fuse)
        if not self.bench.options.no_tls and "network" not in self.bench.options.without:
            self._start_cluster("t", tls=True)
            self._add_row("filled_tls", "forebay over TLS", self._epoch, "all", cluster="t")

    def _start_cluster(self, name, tls):
        self.clusters[name] = cluster = bench_cluster.BenchCluster(self.folder / name, self.bench.programs, self.s3.env,
                                                                   self.bench.options.without, tls)
        cluster.start_coordinator()
        cluster.start_node("n1", "2GiB", "--s3-max-connections", str(CONNECTIONS))

    def _start_peers(self):
        # Where a peer keeps a copy of its own of the data, it is made without the slow way.
        names = self.bench.peers(self.skipped)
        self.peers = bench_peers.start(names, self.folder, self.bucket, self.bench.rgw, self.source, self.skipped)
        for peer, _ in self.peers:
            self._add_row(peer.name, f"{peer.name}, its cache empty", self._epoch_of_peer, peer, forebay=False)

    def _add_row(self, row, title, measure, *words, forebay=True, **named):
        self.rows.append({"row": row, "title": title, "forebay": forebay,
                          "measure": lambda number: measure(f"{row}{number}".replace("_", "-"), *words, **named)})

    def round(self, number):
        with step(f"cold: round {number} of {self.bench.rounds_of(self.name)}", self.bench.out):
            for row in self.rows:
                run = self._raw() if row is RAW else row["measure"](number)
                self.runs.append({"row": row["row"], "round": number, **run})

    def _raw(self):
        before = self._gets()
        seconds = self.objects.fetch(CONNECTIONS)
        return {"files": self.files, "files_per_second": self.files / seconds, "gets": self._gets() - before}

    def _epoch(self, link, listed, *options, cluster="c"):
        self.clusters[cluster].cli("link", f"s3://{self.bucket}/", "--as", link, *options)
        root = self.clusters[cluster].mount(link, link)
        mount = self.clusters[cluster].mounts[link]
        run = self._epoch_of(link, listed, bench_subjects.Subject(
            link, link, root, mount=lambda: mount, daemons=lambda: [mount, *self._servers(cluster)]), cluster)
        self.clusters[cluster].unmount(link)
        self.clusters[cluster].cli("unlink", link, "--evict", "--force")
        return run

    def _epoch_without_fuse(self, link):
        cluster = self.clusters["c"]
        cluster.cli("link", f"s3://{self.bucket}/", "--as", link)
        run = self._epoch_of(link, "all", bench_subjects.Subject(
            link, link, link, direct=lambda: cluster.reading_without_fuse(link), daemons=lambda: self._servers("c")), "c")
        cluster.cli("unlink", link, "--evict", "--force")
        return run

    def _servers(self, cluster):
        return [self.clusters[cluster].coordinator, *self.clusters[cluster].nodes.values()]

    def _epoch_of(self, link, listed, subject, cluster):
        subject.walk()
        before, cpu = self._gets(), subject.cpu_seconds()
        run = self._read(subject, listed, "--digests", self.folder / "digests")
        tasks = [task for task in self.clusters[cluster].json("tasks")["tasks"]
                 if task["kind"] == "fill" and task["target"] == link]
        # What a fill still asks for belongs to it.
        for task in tasks:
            if task["state"] == "running":
                self.clusters[cluster].cli("task", "wait", task["id"])
        filled = {task["id"]: task["fetched_blocks"] for task in self.clusters[cluster].json("tasks")["tasks"]}
        return {**run, "gets": self._gets() - before, "cpu_seconds_of_daemons": subject.cpu_seconds() - cpu,
                "fetched_in_background": sum(filled[task["id"]] for task in tasks)}

    def _epoch_of_peer(self, _link, peer):
        """A part, for those that fetch a file when it is read take long."""
        peer.start_empty(self.s3)
        subject = bench_subjects.Subject(peer.name, peer.name, peer.root, daemons=lambda: [peer.daemon])
        subject.walk()
        before, cpu = self._gets(peer.data_bucket), subject.cpu_seconds()
        run = self._read(subject, "part", "--digests", self.folder / "digests")
        run["cpu_seconds_of_daemons"] = subject.cpu_seconds() - cpu
        peer.unmount()
        return {**run, "gets": self._gets(peer.data_bucket) - before}

    def _gets(self, bucket=None):
        return self.bench.rgw.gets(bucket or self.bucket)["gets"]

    def _read(self, subject, listed, *words):
        """After a walk, as all reads."""
        self.seed += 1
        ops = subject.fuse_ops()
        command, environment = subject.reading(self.bench.programs, self.folder / listed)
        command += ["--threads", READERS, "--seed", self.seed, *words]
        result = subprocess.run([str(word) for word in command], env=environment, text=True, capture_output=True,
                                timeout=READ_SECONDS, check=False)
        if result.returncode not in (0, 1) or not result.stdout:
            raise ClusterError(f"reading {subject.root} ended with {result.returncode}: {result.stderr.strip()}")
        figures = json.loads(result.stdout)
        self.failed += [f"{subject.root}/{line}" for line in figures["shown"]]
        messages = {op: count - ops.get(op, 0) for op, count in subject.fuse_ops().items()}
        return {"files": figures["files"], "bytes": figures["bytes"], "files_per_second": figures["files_per_second"],
                "cpu_seconds_of_reader": figures["cpu_seconds"],
                "fuse_ops": {op: count for op, count in messages.items() if count and op not in bench_subjects.NOT_OF_READING}}

    def stop(self):
        for peer, _ in self.peers:
            peer.stop()
        for cluster in self.clusters.values():
            cluster.stop()
        if self.far:
            self.far.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def document(self):
        rounds = sorted({run["round"] for run in self.runs})
        found = {(run["row"], run["round"]): run for run in self.runs}

        def median(value):
            return statistics.median(value(number) for number in rounds)

        rows = [{**{key: row[key] for key in ("row", "title", "forebay")},
                 "files_per_second": median(lambda n, row=row["row"]: found[row, n]["files_per_second"]),
                 "share_of_raw": median(lambda n, row=row["row"]: found[row, n]["files_per_second"]
                                        / found["raw", n]["files_per_second"]),
                 "gets_per_block": median(lambda n, row=row["row"]: found[row, n]["gets"] / found[row, n]["files"]),
                 **({} if row is RAW else {
                     "cpu_seconds_per_gb": median(lambda n, row=row["row"]: cpu_per_gb(found[row, n])),
                     "messages_per_file": median(lambda n, row=row["row"]: sum(found[row, n]["fuse_ops"].values())
                                                 / found[row, n]["files"])})}
                for row in self.rows]
        return {"files": self.files, "bytes": self.bytes, "readers": READERS, "connections": CONNECTIONS,
                "delay_ms": DELAY_MS, "rounds": len(rounds), "skipped": list(self.skipped.values()), "rows": rows,
                "runs": self.runs, "failed": self.failed}


def cpu_per_gb(run):
    """Of the reader and the daemons, for each GB that was read; what a background fill takes beyond the reads is in it."""
    return (run["cpu_seconds_of_reader"] + run["cpu_seconds_of_daemons"]) / (run["bytes"] / 1e9)


def to_hold(cold):
    """As bench_report.to_hold has it."""
    name = ColdEpoch.name
    for row in cold["rows"]:
        if row["forebay"]:
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
    say(f"{'':42}{'files/s':>9}{'of raw':>9}{'GETs/block':>12}{'FUSE/file':>11}{'CPU s/GB':>10}")
    for row in cold["rows"]:
        messages = f"{row['messages_per_file']:.3f}" if row["forebay"] else "-"
        cpu = f"{row['cpu_seconds_per_gb']:.1f}" if "cpu_seconds_per_gb" in row else "-"
        say(f"{row['title']:42}{row['files_per_second']:>9,.0f}{row['share_of_raw']:>9.2f}{row['gets_per_block']:>12.3f}"
            f"{messages:>11}{cpu:>10}")
