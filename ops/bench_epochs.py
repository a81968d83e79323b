"""The parts of ops/bench that train: loaders read a data set epoch after epoch, with nothing cached before the first one,
beside the local file system and the peers. `epochs` varies workers, jobs and the size of the cache; `scale` is AWS's four
data sets (1 GB and 54 GB, of files and of shards), the large ones as far as this machine has room.

Before each epoch the page cache is dropped: that is a data set larger than memory. Each job has a mount of its own, as on a
machine of its own. Every run begins anew, with empty caches, so that its GETs are those of a first epoch and what follows."""

import contextlib
import dataclasses
import json
import os
import pathlib
import selectors
import shutil
import statistics
import subprocess
import sys
import tempfile

import bench_cluster
import bench_hold
import bench_peers
import bench_subjects
from local_cluster import ClusterError, Rgw, drop_page_cache, step, without_settings
from sample_data import SHARD_BYTES, SampleData

GB, MIB = 1_000_000_000, 1 << 20
BLOCK = 4 << 20
NODES = 3
LEAST_NODE = 64 * MIB     # a node takes no smaller cache
LEAST_MEMORY = 64 * MIB
BLOCKS_OF_A_READER = 5  # the one that it reads, and those that the mount asks for ahead
RECORD, HEADER = 4096, 616  # docs/STORE_FORMAT.md: records are whole pages; the header of a block of 4 MiB
EPOCHS = {"epochs": 3, "scale": 2}
SCALE_FILE = 115_000      # bytes of a file and of a sample in a shard: the images of ImageNet have about as many
SCALE_LARGE, SCALE_SMALL = 54 * GB, 1 * GB
# Of what this machine has free, a data set of `scale` takes so much at most: S3 keeps it in memory, and the disk holds the
# files and a cache for each subject.
MEMORY_PART, DISK_PART = 0.2, 0.08
LOADER_SECONDS = 3600
LOADER_STOP_SECONDS = 20
LEAST_HITS = 0.99
# With a cache that is full a background fill and a reader may both fetch a block for which there is no room.
MOST_GETS_OF_HALF = 1.1
FOREBAY, FOREBAY_TLS = "forebay", "forebay TLS"  # subjects


@dataclasses.dataclass(frozen=True)
class Plan:
    workers: int
    jobs: int
    cache: str   # "full": more than the data; "half": half of what they take in a cache
    alone: bool = False  # Forebay alone: what it varies says little of the others

    @property
    def title(self):
        return (f"{self.workers} workers, {self.jobs} job{'s' if self.jobs > 1 else ''}, cache "
                + ("of half the data" if self.cache == "half" else "larger than the data"))


def plans(what, workers):
    """`workers`: the numbers to try; None: ours. The others begin with the middle one."""
    numbers = sorted(set(workers or {"epochs": (0, 4, 16), "scale": (8,)}[what]))
    middle = numbers[len(numbers) // 2]
    return [*(Plan(number, 1, "full", alone=number > middle) for number in numbers),
            Plan(middle, 2, "full", alone=what == "scale"), Plan(middle, 1, "half", alone=what == "scale"),
            *([Plan(middle, 2, "half", alone=True)] if what == "epochs" else [])]


@dataclasses.dataclass
class DataSet:
    name: str
    kind: str   # of bench_loader.py: "files" or "shards"
    bytes: int  # about so many
    file_bytes: int
    of: int = 0  # what AWS's has, where this one is a part of it

    def make(self, folder):
        if self.kind == "files":
            SampleData().small_files(folder, max(1, self.bytes // self.file_bytes), self.file_bytes)
        else:
            size = min(SHARD_BYTES, max(self.bytes // 4, 1))
            SampleData().shards(folder, max(1, self.bytes // size), size)


def data_sets(what, options, free_memory, free_disk):
    if what == "epochs":
        return [DataSet("epochs", "files", options.files * options.file_bytes, options.file_bytes)]
    fits = int(min(SCALE_LARGE, MEMORY_PART * free_memory, DISK_PART * free_disk))
    large = int(options.gigabytes * GB) if options.gigabytes else fits
    small = min(SCALE_SMALL, large // 2)
    return [DataSet(f"{name}-{kind}", kind, size, SCALE_FILE, of)
            for name, size, of in (("1gb", small, SCALE_SMALL), ("54gb", large, SCALE_LARGE)) for kind in ("files", "shards")]


class Training:
    """One data set, and every plan with it."""

    def __init__(self, what, data, bench):
        self.what, self.data, self.bench = what, data, bench
        self.folder = bench.folder / data.name
        self.source, self.bucket = self.folder / "source", f"bench-{data.name}"
        self.rgw = None
        self.runs, self.failed, self.skipped, self.loader = [], [], {}, None

    def prepare(self):
        with step(f"{self.data.name}: making {self.data.bytes / GB:.2f} GB, a real S3 (Ceph RGW) and uploading them",
                  self.bench.out):
            self.data.make(self.source)
            paths = sorted(path for path in self.source.rglob("*") if path.is_file())
            sizes = [path.stat().st_size for path in paths]
            self.files, self.bytes = len(paths), sum(sizes)
            lengths = [min(BLOCK, size - begin) for size in sizes for begin in range(0, size, BLOCK)]
            self.blocks = len(lengths)
            self.records = sum(-(-(length + HEADER) // RECORD) * RECORD for length in lengths)
            self.list = self.folder / "list"
            self.list.write_text("".join(f"{path.relative_to(self.source)}\n" for path in paths))
            self._read(self.source, "--write-digests")
            self.rgw = Rgw(self.folder / "rgw")
            self.rgw.start(max(2 << 30, 4 * self.bytes))  # copies of a peer's own are there as well
            self.rgw.upload(self.source, self.bucket)

    def round(self, number):
        for plan in plans(self.what, self.bench.options.workers):
            subjects = self._subjects(plan)
            if not subjects:
                continue
            turn = number % len(subjects)
            with step(f"{self.data.name}: {plan.title}; round {number} of {self.bench.rounds_of(self.what)}", self.bench.out):
                for name in subjects[turn:] + subjects[:turn]:
                    self._run(name, plan, number)

    def _subjects(self, plan):
        if plan.cache == "half" and self.records // 2 < LEAST_NODE:
            self.skipped["half"] = (f"{self.data.name}: half of {self.records / MIB:.0f} MiB is less than the least cache of "
                                    "a node: skipped")
            return []
        found = [FOREBAY]
        if plan.alone:
            return found
        if plan.cache == "full":
            found.append("native")
            if plan.jobs == 1 and not self.bench.options.no_tls and "network" not in self.bench.options.without:
                found.append(FOREBAY_TLS)
        for name in self.bench.peers(self.skipped):
            if plan.cache == "half" and name in bench_peers.UNBOUNDED:
                self.skipped[f"{name} half"] = f"{name} has no bound for its cache: skipped where that is half of the data"
            else:
                found.append(name)
        return found

    def _run(self, name, plan, number):
        with contextlib.ExitStack() as running:
            try:
                side = SIDES.get(name, PeerSide)(self, name, plan, running)
            except ClusterError as error:
                if name in SIDES:
                    raise
                self.skipped[name] = f"{name} is skipped: {error}"
                return
            loaders = [Loader(running, self.data.kind, self.list, root, plan.workers) for root in side.roots]
            for epoch in range(1, EPOCHS[self.what] + 1):
                self.runs.append({"subject": name, "workers": plan.workers, "jobs": plan.jobs, "cache": plan.cache,
                                  "round": number, "epoch": epoch, **self._epoch(side, loaders, epoch)})
            if number == 1:
                for root in set(side.roots):
                    self._read(root, "--digests")

    def _epoch(self, side, loaders, epoch):
        drop_page_cache()
        at_s3, cpu, ops = self.rgw.gets(), side.cpu_seconds(), side.fuse_ops()
        for job, loader in enumerate(loaders):
            loader.begin(100 * epoch + job)
        jobs = [loader.end() for loader in loaders]
        side.settle()
        answered = self.rgw.gets()
        for job in jobs:
            if job["bytes"] != self.bytes:
                self.failed.append(f"{side.roots[0]}: a job loaded {job['bytes']:,} bytes in place of {self.bytes:,}")
        samples, seconds = sum(job["samples"] for job in jobs), max(job["seconds"] for job in jobs)
        self.loader = loaders[0].name
        return {"samples": samples, "bytes": sum(job["bytes"] for job in jobs), "seconds": seconds,
                "samples_per_second": samples / seconds,
                "first_batch_seconds": max(job["first_batch_seconds"] for job in jobs),
                "gets": answered["gets"] - at_s3["gets"], "get_bytes": answered["get_bytes"] - at_s3["get_bytes"],
                "fuse_ops": sum(side.fuse_ops().values()) - sum(ops.values()),
                "cpu_seconds_of_loaders": sum(job["cpu_seconds"] for job in jobs),
                "cpu_seconds_of_daemons": side.cpu_seconds() - cpu}

    def _read(self, root, word):
        """Every byte against its digest, outside of what is measured."""
        result = subprocess.run([self.bench.programs / "read_files", self.list, root, "--threads", "8", word,
                                 self.folder / "digests"], env=without_settings(os.environ), text=True, capture_output=True,
                                timeout=LOADER_SECONDS, check=False)
        if result.returncode not in (0, 1) or not result.stdout:
            raise ClusterError(f"read_files of {root} ended with {result.returncode}: {result.stderr.strip()}")
        self.failed += [f"{root}/{line}" for line in json.loads(result.stdout)["shown"]]

    def stop(self):
        if self.rgw:
            self.rgw.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def document(self):
        return {"name": self.data.name, "what": self.what, "kind": self.data.kind, "files": self.files, "bytes": self.bytes,
                "of_bytes": self.data.of, "blocks": self.blocks, "loader": self.loader, "epochs": EPOCHS[self.what],
                "preloaded": "s3" in self.bench.options.without,
                "rounds": self.bench.rounds_of(self.what), "skipped": list(self.skipped.values()), "failed": self.failed,
                "runs": self.runs, "medians": medians(self.runs, self.blocks)}


class Loader:
    """A process that loads, for all epochs of a run; it ends with `running`. Its `name` is what it loads with."""

    def __init__(self, running, kind, paths, root, workers):
        self.errors = running.enter_context(tempfile.TemporaryFile())
        self.process = subprocess.Popen(
            [sys.executable, pathlib.Path(__file__).with_name("bench_loader.py"), kind, paths, root, "--workers", str(workers),
             "--sample-bytes", str(SCALE_FILE)], env=without_settings(os.environ), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.errors, text=True)
        running.callback(self.stop)
        self.name = self.end()["loader"]

    def begin(self, seed):
        """The next epoch, in this order."""
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()

    def end(self):
        """What it says when the epoch is over."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if selector.select(LOADER_SECONDS) else ""
        if not line:
            self.stop()
            self.errors.seek(0)
            said = self.errors.read().decode(errors="replace").strip()[-500:]
            raise ClusterError(f"a loader ended with {self.process.returncode}: {said}")
        return json.loads(line)

    def stop(self):
        # One that waits for its next epoch has its end; another one is killed.
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(LOADER_STOP_SECONDS)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class NativeSide:
    """The local file system."""

    def __init__(self, training, _name, plan, _running):
        self.roots = [training.source] * plan.jobs

    def cpu_seconds(self):
        return 0.0

    def fuse_ops(self):
        return {}

    def settle(self):
        """Nothing goes on behind its back."""


class ForebaySide:
    """A cluster of its own; each job has a mount of its own."""

    def __init__(self, training, name, plan, running):
        folder = training.bench.folder / "e"
        running.callback(shutil.rmtree, folder, ignore_errors=True)
        without = training.bench.options.without
        self.cluster = bench_cluster.BenchCluster(folder, training.bench.programs, training.rgw.env, without, name == FOREBAY_TLS)
        running.callback(self.cluster.stop)
        self.cluster.start_coordinator()
        total = training.records // 2 if plan.cache == "half" else 2 * training.records + NODES * LEAST_NODE
        count = min(NODES, total // LEAST_NODE)
        # What a node fetched a moment ago and had no room for stays in a quarter of this: 1 % of the data, but room for
        # what the readers of shards are in the middle of, and as much as a node takes at least.
        reading = 4 * plan.jobs * max(1, plan.workers) * BLOCKS_OF_A_READER * BLOCK // count
        memory = ("--memory-limit", str(max(LEAST_MEMORY, training.records // 75, reading if training.data.kind == "shards"
                                            else 0))) if plan.cache == "half" else ()
        for index in range(count):
            self.cluster.start_node(f"n{index + 1}", str(total // count), *memory)
        self.cluster.cli("link", f"s3://{training.bucket}/", "--as", "data", timeout=3600)
        if "s3" in without:
            self.cluster.cli("preload", "data", timeout=3600)
        self.roots = [self.cluster.mount("data", f"job{job}") for job in range(plan.jobs)]
        self.daemons = [*self.cluster.mounts.values(), self.cluster.coordinator, *self.cluster.nodes.values()]

    def cpu_seconds(self):
        return sum(bench_subjects.cpu_seconds(daemon.pid) for daemon in self.daemons)

    def fuse_ops(self):
        total = {}
        for mount in self.cluster.mounts.values():
            for op, count in mount.fuse_ops().items():
                if op not in bench_subjects.NOT_OF_READING:
                    total[op] = total.get(op, 0) + count
        return total

    def settle(self):
        """What a background fill still asks for belongs to its epoch."""
        for task in self.cluster.json("tasks")["tasks"]:
            if task["kind"] == "fill" and task["state"] == "running":
                self.cluster.cli("task", "wait", task["id"])


class PeerSide:
    """Another file system: a mount with a cache of its own for each job."""

    def __init__(self, training, name, plan, running):
        bound = training.records // 2 if plan.cache == "half" else None
        self.peers = []
        for job in range(plan.jobs):
            peer = bench_peers.Peer(training.folder / f"job{job}", name, training.bucket, training.rgw, training.source, bound)
            running.callback(peer.stop)
            self.peers.append(peer.start())
        self.roots = [peer.root for peer in self.peers]

    def cpu_seconds(self):
        return sum(bench_subjects.cpu_seconds(peer.daemon.pid) for peer in self.peers)

    def fuse_ops(self):
        return {}

    def settle(self):
        """Peers fetch what is read, and no more."""


SIDES = {"native": NativeSide, FOREBAY: ForebaySide, FOREBAY_TLS: ForebaySide}


def is_forebay(subject):
    return subject in (FOREBAY, FOREBAY_TLS)


def key_of(run):
    return {key: run[key] for key in ("subject", "workers", "jobs", "cache", "epoch")}


def medians(runs, blocks):
    groups = {}
    for run in runs:
        groups.setdefault(tuple(key_of(run).values()), []).append(run)
    return [{**key_of(group[0]),
             **{key: statistics.median(run[key] for run in group)
                for key in ("samples_per_second", "first_batch_seconds", "gets")},
             "gb_per_second": statistics.median(run["bytes"] / run["seconds"] / GB for run in group),
             "gets_per_block": statistics.median(run["gets"] for run in group) / blocks,
             "hit_rate": 1 - statistics.median(run["gets"] for run in group) / (blocks * group[0]["jobs"]),
             "fuse_per_sample": statistics.median(run["fuse_ops"] / run["samples"] for run in group),
             "cpu_seconds_per_gb": statistics.median(
                 (run["cpu_seconds_of_loaders"] + run["cpu_seconds_of_daemons"]) / (run["bytes"] / GB) for run in group)}
            for group in groups.values()]


def to_hold(training):
    """As bench_report.to_hold has it."""
    name, blocks, files = training["name"], training["blocks"], training["kind"] == "files"
    ours = [run for run in training["runs"] if is_forebay(run["subject"])]

    def text(value):
        return f"{value:.3f}"

    for jobs in sorted({run["jobs"] for run in ours}):
        full = [run for run in ours if run["cache"] == "full" and run["jobs"] == jobs]
        words = f"{jobs} job{'s' if jobs > 1 else ''}"
        for what, epochs, wanted in (("epoch 1", {1}, 0 if training["preloaded"] else blocks),
                                     ("later epochs", set(range(2, training["epochs"] + 1)), 0)):
            gets = [run["gets"] for run in full if run["epoch"] in epochs]
            if gets:
                worst = max(gets, key=lambda n, wanted=wanted: abs(n - wanted))
                yield bench_hold.exactly(name, f"GETs a block, {words}, {what}", worst / blocks, wanted // blocks, worst == wanted,
                                         text, figure=7)
        half = [run for run in ours if run["cache"] == "half" and run["jobs"] == jobs]
        if half:
            most = max(run["gets"] / (blocks * jobs) for run in half)
            yield bench_hold.at_most(name, f"GETs a read block, {words}, cache of half the data, any epoch", most,
                                     MOST_GETS_OF_HALF, text, files)
            rate = statistics.median(1 - run["gets"] / (blocks * jobs) for run in half if run["epoch"] == training["epochs"])
            yield bench_hold.at_least(name, f"hit rate, {words}, cache of half the data, last epoch", rate, LEAST_HITS * 0.5, text,
                                      figure=8)
    yield bench_hold.exactly(name, "reads that failed or had wrong bytes", len(training["failed"]), 0)


def title_of(training):
    part = ""
    if training["of_bytes"] and training["bytes"] < 0.95 * training["of_bytes"]:
        part = f" (AWS's has {training['of_bytes'] / GB:.0f} GB: here {training['bytes'] / training['of_bytes']:.2g} of it)"
    return (f"{training['files']:,} {training['kind']}, {training['bytes'] / GB:.2f} GB{part}, {training['blocks']:,} blocks; "
            f"loader: {training['loader']}; rounds: {training['rounds']}, medians")


def plans_of(training):
    """Those that were measured: (workers, jobs, cache), and the medians of each by subject and epoch."""
    found = {}
    for row in training["medians"]:
        plan = found.setdefault((row["workers"], row["jobs"], row["cache"]), {})
        plan.setdefault(row["subject"], {})[row["epoch"]] = row
    return found


def print_training(training, say):
    say(f"\n{training['name']}: {title_of(training)}")
    numbers = range(1, training["epochs"] + 1)
    for (workers, jobs, cache), subjects in plans_of(training).items():
        say(f"{Plan(workers, jobs, cache).title}; before each epoch the page cache is dropped")
        say(f"{'':12}" + "".join(f"{f'samples/s {number}':>13}" for number in numbers)
            + "".join(f"{f'first batch s {number}':>17}" for number in numbers)
            + "".join(f"{f'GETs/block {number}':>14}" for number in numbers) + f"{'FUSE/sample':>13}{'CPU s/GB':>10}")
        for subject, epochs in subjects.items():
            last = epochs[max(epochs)]
            say(f"{subject:12}" + "".join(f"{epochs[number]['samples_per_second']:>13,.0f}" for number in numbers)
                + "".join(f"{epochs[number]['first_batch_seconds']:>17.3f}" for number in numbers)
                + "".join(f"{epochs[number]['gets_per_block']:>14.3f}" for number in numbers)
                + (f"{last['fuse_per_sample']:>13.3f}" if is_forebay(subject) else f"{'-':>13}")
                + f"{last['cpu_seconds_per_gb']:>10.2f}")
    for text in training["skipped"]:
        say(text)
