"""ops/bench namespace: how fast a link is listed, what its snapshot costs, and how fast a mount walks it."""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import time
import urllib.request

from local_cluster import Cluster, ClusterError, drop_page_cache, say, step, without_settings

BUCKET, PREFIX = "bucket", "train/"
WALK_FILES, WALK_ROUNDS = 200_000, 5
FOLDER_FILES = 1_300  # of list_origin's ImageNet


class Origin:
    """An S3 that lists objects which nobody stores."""

    def __init__(self, programs, keys):
        self.process = subprocess.Popen([programs / "list_origin", "--keys", str(keys), "--shape", "imagenet"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.process.stdout.readline().strip()

    @property
    def env(self):
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "us-east-1"}

    def lists(self):
        with urllib.request.urlopen(f"{self.endpoint}/-/lists", timeout=10) as answer:
            return int(answer.read())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)


def timed(command, environment):
    begin = time.monotonic()
    result = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True,
                            timeout=3600, check=False)
    if result.returncode != 0:
        raise ClusterError(f"{command[0]} ended with {result.returncode}: {result.stderr.strip()[-500:]}")
    return time.monotonic() - begin, result.stdout


class NamespaceBench:
    def __init__(self, options, programs, folder, out):
        self.options, self.programs, self.folder, self.out = options, programs, folder, out
        self.keys = options.keys
        self.rates = {"forebay link": [], "one stream": []}
        if shutil.which("rclone"):
            self.rates["rclone lsf -R --fast-list"] = []
        self.figures = {"keys": self.keys, "rounds": options.rounds, "rates": self.rates}

    def run(self):
        self.origin = Origin(self.programs, self.keys)
        self.cluster = Cluster(self.folder, self.programs, self.origin.env)
        try:
            self.cluster.start_coordinator()
            for number in range(self.options.rounds):
                with step(f"namespace: listing {self.keys:,} keys, round {number + 1} of {self.options.rounds}", self.out):
                    self._listings(number)
            with step("namespace: the snapshot and a mount of it", self.out):
                self._snapshot()
                self._mounts()
        finally:
            self.cluster.stop()
            self.origin.stop()
        with step(f"namespace: walking {WALK_FILES:,} files", self.out):
            self._walks()
        return {**self.figures, "to_hold": list(to_hold(self.figures))}

    def _listings(self, number):
        subjects = [self._link, self._one_stream] + ([self._rclone] if len(self.rates) > 2 else [])
        turn = number % len(subjects)
        for subject in subjects[turn:] + subjects[:turn]:
            subject()

    def _link(self):
        if self.cluster.json("links")["links"]:
            self.cluster.cli("unlink", "big")
        lists, begin = self.origin.lists(), time.monotonic()
        self.cluster.cli("link", f"s3://{BUCKET}/{PREFIX}", "--as", "big", timeout=3600)
        self.rates["forebay link"].append(self.keys / (time.monotonic() - begin))
        self.figures["lists_per_page"] = (self.origin.lists() - lists) / (self.keys / 1000)
        status = pathlib.Path(f"/proc/{self.cluster.coordinator.pid}/status").read_text()
        self.figures["coordinator_peak_mib"] = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def _one_stream(self):
        _, text = timed([self.programs / "namespace_bench", "list", self.origin.endpoint, BUCKET],
                        without_settings(os.environ))
        result = json.loads(text)
        self.rates["one stream"].append(result["keys"] / result["seconds"])

    def _rclone(self):
        remote = f":s3,provider=Other,endpoint='{self.origin.endpoint}',access_key_id=key,secret_access_key=secret:"
        seconds, text = timed(["rclone", "lsf", "-R", "--fast-list", "--files-only", "--s3-list-version", "2",
                               f"{remote}{BUCKET}/{PREFIX}"], without_settings(os.environ))
        self.rates["rclone lsf -R --fast-list"].append(text.count("\n") / seconds)

    def _snapshot(self):
        file, = (self.folder / "coordinator" / "snapshots").glob("*/*.fbs")
        _, text = timed([self.programs / "namespace_bench", "snapshot", file], without_settings(os.environ))
        self.figures["snapshot"] = json.loads(text)

    def _mounts(self):
        seconds = []
        for _ in range(2):  # the second finds on its disk what the first has fetched
            begin = time.monotonic()
            self.cluster.mount("big", "mount")
            seconds.append(time.monotonic() - begin)
            self.cluster.unmount("mount")
        self.figures["mount_seconds"] = {"first": seconds[0], "again": seconds[1]}

    def _walks(self):
        tree = self.folder / "tree"
        for folder in range(-(-WALK_FILES // FOLDER_FILES)):
            (tree / f"n{folder:08}").mkdir(parents=True)
            for file in range(min(FOLDER_FILES, WALK_FILES - folder * FOLDER_FILES)):
                os.close(os.open(tree / f"n{folder:08}" / f"n{folder:08}_{file:05}.JPEG", os.O_CREAT | os.O_WRONLY, 0o644))
        os.sync()
        origin = Origin(self.programs, WALK_FILES)
        cluster = Cluster(self.folder / "walk", self.programs, origin.env)
        walks = {name: {"first": [], "second": []} for name in ("native", "forebay")}
        try:
            cluster.start_coordinator()
            cluster.cli("link", f"s3://{BUCKET}/{PREFIX}", "--as", "big")
            mount = cluster.mount("big", "mount")
            for number in range(WALK_ROUNDS):
                for name, root in sorted((("native", tree), ("forebay", mount)), reverse=number % 2 == 1):
                    drop_page_cache()
                    for walk in ("first", "second"):
                        seconds, text = timed(["find", root, "-type", "f", "-printf", "x"], None)
                        if len(text) != WALK_FILES:
                            raise ClusterError(f"find met {len(text)} files of {root}, not {WALK_FILES}")
                        walks[name][walk].append(WALK_FILES / seconds)
        finally:
            cluster.stop()
            origin.stop()
        self.figures["walks"] = walks


def print_tables(figures, say):
    median = statistics.median
    one = median(figures["rates"]["one stream"])
    say(f"\nNamespace: {figures['keys']:,} keys, medians of {figures['rounds']}")
    for name, rates in figures["rates"].items():
        say(f"  {name:28}{median(rates):>12,.0f} keys/s {median(rates) / one:>7.2f}x one stream")
    snapshot, mounts = figures["snapshot"], figures["mount_seconds"]
    say(f"  snapshot opened in {snapshot['open_seconds'] * 1000:.3f} ms; lookups {snapshot['lookups_per_second']:,}/s, RocksDB "
        f"{snapshot['rocksdb_lookups_per_second']:,}/s")
    say(f"  mount {mounts['first']:.3f} s with its snapshot to fetch, {mounts['again']:.3f} s again")
    walks = figures["walks"]
    for walk in ("first", "second"):
        ours, native = median(walks["forebay"][walk]), median(walks["native"][walk])
        say(f"  {walk} find {ours:>12,.0f} files/s, native {native:,.0f}: {ours / native:.2f}x")


def to_hold(figures):
    """As bench_report.to_hold has it: what no machine's speed decides, and the figures to reach."""
    entry, lists = figures["snapshot"]["bytes"] / figures["snapshot"]["objects"], figures["lists_per_page"]
    most_lists = 1.3 + 300_000 / figures["keys"]  # 300 more find out where to divide, however few the keys
    memory = figures["coordinator_peak_mib"]
    for what, measured, wanted, holds in (
            ("bytes of snapshot an object", f"{entry:.1f}", "<= 56", entry <= 56),
            ("LISTs a page of 1,000 keys", f"{lists:.3f}", f"<= {most_lists:.3f}", lists <= most_lists),
            ("MiB of memory of the coordinator", f"{memory:,.0f}", "< 1,024", memory < 1024)):
        yield {"workload": "namespace", "what": what, "measured": measured, "wanted": wanted, "holds": holds, "decides": True}
    median, mounts, walks = statistics.median, figures["mount_seconds"], figures["walks"]
    link, lookups = median(figures["rates"]["forebay link"]), figures["snapshot"]["lookups_per_second"]
    find = {walk: median(ours / native for ours, native in zip(walks["forebay"][walk], walks["native"][walk]))
            for walk in ("first", "second")}
    for what, measured, wanted, holds in (
            ("objects/s until the link is ready", f"{link:,.0f}", ">= 400,000", link >= 400_000),
            ("lookups/s of one core", f"{lookups:,.0f}", ">= 1,500,000", lookups >= 1_500_000),
            ("s to mount, its snapshot to fetch", f"{mounts['first']:.2f}", "< 0.2", mounts["first"] < 0.2),
            ("s to mount, its snapshot on the disk", f"{mounts['again']:.2f}", "< 0.2", mounts["again"] < 0.2),
            ("first find against the local file system", f"{find['first']:.2f}x", ">= 0.35x", find["first"] >= 0.35),
            ("second find against the local file system", f"{find['second']:.2f}x", ">= 0.95x", find["second"] >= 0.95)):
        yield {"workload": "namespace", "what": what, "measured": measured, "wanted": wanted, "holds": holds, "decides": False}
