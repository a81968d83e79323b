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

import bench_cluster
from bench_hold import at_least, at_most
from bench_subjects import NOT_OF_READING
from local_cluster import Cluster, ClusterError, drop_page_cache, remove, step, without_settings

BUCKET, PREFIX = "bucket", "train/"
WALK_FILES, WALK_ROUNDS = 200_000, 5
# Of list_origin's ImageNet (tests/fakes/synthetic_bucket.cc).
FOLDER_FILES, FIRST_FOLDER, FOLDER_STEP = 1_300, 1_440_764, 7_919
PRIMED_INODES = 1_000_000  # of a walk the kernel is given so many inodes (docs/PERFORMANCE.md)


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

    def _ask(self, what, method="GET"):
        with urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/-/{what}", method=method), timeout=10) as answer:
            return int(answer.read())

    def lists(self):
        return self._ask("lists")

    def pages(self):
        """LISTs for more than a key."""
        return self._ask("pages")

    def hold(self, keys):
        """From now on it has so many objects."""
        self._ask(f"keys?count={keys}", "PUT")

    @staticmethod
    def path_of(number):
        """Of an object, below the prefix."""
        folder = f"n{FIRST_FOLDER + number // FOLDER_FILES * FOLDER_STEP:08}"
        return f"{folder}/{folder}_{number % FOLDER_FILES:05}.JPEG"

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


def peak_mib(pid):
    """The most memory that a process has had."""
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def cpu_seconds(pid):
    user, system = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def slab():
    """(bytes of the kernel's slab, {cache: (objects, bytes of one)} for inodes of FUSE and names). Nothing in it: only root
    may look."""
    total = int(re.search(r"Slab:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024
    try:
        text = pathlib.Path("/proc/slabinfo").read_text()
    except PermissionError:
        return total, {}
    rows = {name: re.search(rf"^{name}\s+(\d+)\s+\d+\s+(\d+)", text, re.M) for name in ("fuse_inode", "dentry")}
    return total, {name: (int(row[1]), int(row[2])) for name, row in rows.items() if row}


def walk(mount):
    """How many files `find` meets, and in how many seconds."""
    seconds, text = timed(["find", mount, "-type", "f", "-printf", "x"], None)
    return len(text), seconds


def walk_and_weigh(mount, keys):
    """What the kernel keeps of a walk of everything."""
    drop_page_cache()
    before = slab()
    files, seconds = walk(mount)
    after = slab()
    if files != keys:
        raise ClusterError(f"find met {files} files, not {keys}")
    (bytes_before, caches_before), (bytes_after, caches_after) = before, after
    grown = max(0, bytes_after - bytes_before)
    more = {name: max(0, count - caches_before.get(name, (0, 0))[0]) for name, (count, _) in caches_after.items()}
    inodes, names = more.get("fuse_inode", 0), more.get("dentry", 0)
    # Each inode has a name. Of entries beyond the inodes that it is given at most, the kernel should keep nothing.
    beyond = max(0, names - inodes) * caches_after.get("dentry", (0, 0))[1] / max(1, keys - inodes)
    return {"entries": keys, "seconds": seconds, "slab_bytes": grown, "fuse_inodes": inodes, "dentries": names,
            "bytes_an_inode": grown / inodes if inodes else 0, "bytes_an_entry_beyond": beyond,
            "bytes_at_10_million": grown + max(0, 10_000_000 - keys) * beyond}


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
        # Without a disk the coordinator's state and the mounts' are in memory.
        memory = bench_cluster.memory_folder() if "disk" in self.options.without else None
        self.states = memory or self.folder
        try:
            return self._run()
        finally:
            if memory:
                remove(memory)

    def _run(self):
        self.origin = Origin(self.programs, self.keys)
        self.cluster = Cluster(self.states / "links", self.programs, self.origin.env)
        try:
            self.cluster.start_coordinator()
            for number in range(self.options.rounds):
                with step(f"namespace: listing {self.keys:,} keys, round {number + 1} of {self.options.rounds}", self.out):
                    self._listings(number)
            with step("namespace: the snapshot and a mount of it", self.out):
                self._snapshot()
                self._mounts()
            with step("namespace: refreshes of a key, of a folder and of all", self.out):
                self._refreshes()
        finally:
            self.cluster.stop()
            self.origin.stop()
        with step(f"namespace: walking {min(WALK_FILES, self.keys):,} files", self.out):
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
        self.figures["coordinator_peak_mib"] = peak_mib(self.cluster.coordinator.pid)

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
        file, = (self.cluster.folder / "coordinator" / "snapshots").glob("*/*.fbs")
        _, text = timed([self.programs / "namespace_bench", "snapshot", file], without_settings(os.environ))
        self.figures["snapshot"] = json.loads(text)

    def _mounts(self):
        seconds = []
        for _ in range(2):  # the second finds on its disk what the first has fetched
            begin = time.monotonic()
            mount = self.cluster.mount("big", "mount")
            seconds.append(time.monotonic() - begin)
            if len(seconds) == 2:
                self.figures["slab"] = walk_and_weigh(mount, self.keys)
            self.cluster.unmount("mount")
        self.figures["mount_seconds"] = {"first": seconds[0], "again": seconds[1]}

    def _refreshes(self):
        """Each time S3 has one object more."""
        self.figures["refreshes"] = {}
        for number, what in enumerate(("key", "folder", "all")):
            keys = self.keys + number
            self.origin.hold(keys + 1)
            path = self.origin.path_of(keys)
            target = {"key": f"big/{path}", "folder": f"big/{path.split('/')[0]}", "all": "big"}[what]
            # A process that has just started has no peak of a listing before it.
            self.cluster.coordinator.stop()
            self.cluster.start_coordinator()
            pid, lists, begin = self.cluster.coordinator.pid, self.origin.lists(), time.monotonic()
            result = self.cluster.json("refresh", target)
            row = {"seconds": time.monotonic() - begin, "cpu_seconds": cpu_seconds(pid), "peak_mib": peak_mib(pid),
                   "lists": self.origin.lists() - lists}
            if (result["added"], result["removed"], result["changed"]) != (1, 0, 0):
                raise ClusterError(f"a refresh of {target} found +{result['added']} -{result['removed']} ~{result['changed']}")
            self.figures["refreshes"][what] = row

    def _walks(self):
        tree, count = self.folder / "tree", min(WALK_FILES, self.keys)
        for folder in range(-(-count // FOLDER_FILES)):
            (tree / f"n{folder:08}").mkdir(parents=True)
            for file in range(min(FOLDER_FILES, count - folder * FOLDER_FILES)):
                os.close(os.open(tree / f"n{folder:08}" / f"n{folder:08}_{file:05}.JPEG", os.O_CREAT | os.O_WRONLY, 0o644))
        os.sync()
        origin = Origin(self.programs, count)
        cluster = Cluster(self.states / "walk", self.programs, origin.env)
        walks = {name: {"first": [], "second": []} for name in ("native", "forebay")}
        ops = {"first": [], "second": []}
        try:
            cluster.start_coordinator()
            cluster.cli("link", f"s3://{BUCKET}/{PREFIX}", "--as", "big")
            mount = cluster.mount("big", "mount")
            for number in range(WALK_ROUNDS):
                for name, root in sorted((("native", tree), ("forebay", mount)), reverse=number % 2 == 1):
                    drop_page_cache()
                    for walk in ("first", "second"):
                        before = cluster.mounts["mount"].fuse_ops()
                        seconds, text = timed(["find", root, "-type", "f", "-printf", "x"], None)
                        if len(text) != count:
                            raise ClusterError(f"find met {len(text)} files of {root}, not {count}")
                        walks[name][walk].append(count / seconds)
                        if name == "forebay":
                            after = cluster.mounts["mount"].fuse_ops()
                            ops[walk].append({op: number - before.get(op, 0) for op, number in after.items()
                                              if op not in NOT_OF_READING and number != before.get(op, 0)})
            if "fuse" in self.options.without:
                walks["without FUSE"] = {"first": [], "second": []}
                file, = (cluster.folder / "coordinator" / "snapshots").glob("*/*.fbs")
                for _ in range(WALK_ROUNDS):
                    drop_page_cache()
                    for walk in ("first", "second"):
                        _, text = timed([self.programs / "namespace_bench", "walk", file], without_settings(os.environ))
                        walked = json.loads(text)
                        if walked["files"] != count:
                            raise ClusterError(f"a walk of the snapshot met {walked['files']} files, not {count}")
                        walks["without FUSE"][walk].append(count / walked["seconds"])
        finally:
            cluster.stop()
            origin.stop()
        self.figures.update(walks=walks, walk_ops=ops, walk_files=count)


def against_native(walks, walk):
    """Of the local file system's rate in the same round; the median over the rounds."""
    return statistics.median(ours / native for ours, native in zip(walks["forebay"][walk], walks["native"][walk], strict=True))


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
    for what, row in figures["refreshes"].items():
        say(f"  refresh of {what}, one new object: {row['seconds']:.2f} s, {row['cpu_seconds']:.2f} CPU s, {row['lists']} LISTs, "
            f"{row['peak_mib']:,.0f} MiB at most")
    weight = figures["slab"]
    say(f"  walk of {weight['entries']:,} entries: {weight['slab_bytes'] / 1e6:,.0f} MB of slab, {weight['fuse_inodes']:,} inodes "
        f"of {weight['bytes_an_inode']:.0f} bytes with their names, {weight['bytes_an_entry_beyond']:.1f} bytes an entry beyond them; "
        f"of 10 million {weight['bytes_at_10_million'] / 1e9:.2f} GB")
    walks = figures["walks"]
    for walk in ("first", "second"):
        ours, native = median(walks["forebay"][walk]), median(walks["native"][walk])
        say(f"  {walk} find {ours:>12,.0f} files/s, native {native:,.0f}: {against_native(walks, walk):.2f}x")
        if "without FUSE" in walks:
            say(f"  {walk} walk of the snapshot itself, without FUSE: {median(walks['without FUSE'][walk]):,.0f} files/s")


def to_hold(figures):
    """As bench_report.to_hold has it: what no machine's speed decides, and the figures to reach."""
    entry, lists = figures["snapshot"]["bytes"] / figures["snapshot"]["objects"], figures["lists_per_page"]
    most_lists = 1.3 + 300_000 / figures["keys"]  # 300 more find out where to divide, however few the keys
    memory = figures["coordinator_peak_mib"]

    def hold(what, measured, judge, bound, text, decides=False, figure=9):
        return judge("namespace", what, measured, bound, text, decides, figure)

    def whole(value):
        return f"{value:,.0f}"

    def digits(value):
        return f"{value:.3f}"

    yield hold("bytes of snapshot an object", entry, at_most, 56, lambda value: f"{value:.1f}", True)
    yield hold("LISTs a page of 1,000 keys", lists, at_most, most_lists, digits, True, None)
    yield hold("MiB of memory of the coordinator", memory, at_most, 1024, whole, True, None)
    refreshes, weight = figures["refreshes"], figures["slab"]
    yield hold("MiB of memory of a coordinator that refreshes", max(row["peak_mib"] for row in refreshes.values()), at_most, 2048,
               whole, True, None)
    yield hold("LISTs to refresh a key or a folder", max(refreshes[what]["lists"] for what in ("key", "folder")), at_most, 12,
               whole, True, None)
    yield hold("inodes in the kernel after a walk", weight["fuse_inodes"], at_most, 1.1 * PRIMED_INODES, whole, True, None)
    yield hold("GB of slab after a walk of 10 million entries", weight["bytes_at_10_million"] / 1e9, at_most, 1.5,
               lambda value: f"{value:.2f}", False, None)
    median, mounts, walks = statistics.median, figures["mount_seconds"], figures["walks"]
    yield hold("objects/s until the link is ready", median(figures["rates"]["forebay link"]), at_least, 400_000, whole)
    yield hold("lookups/s of one core", figures["snapshot"]["lookups_per_second"], at_least, 1_500_000, whole)
    yield hold("ms to open a snapshot", figures["snapshot"]["open_seconds"] * 1000, at_most, 1, digits)
    for key, what in (("first", "s to mount, its snapshot to fetch"), ("again", "s to mount, its snapshot on the disk")):
        yield hold(what, mounts[key], at_most, 0.2, lambda value: f"{value:.2f}")
    for walk, least in (("first", 0.35), ("second", 0.95)):
        yield hold(f"{walk} find against the local file system", against_native(walks, walk), at_least, least, lambda value: f"{value:.2f}x")
    for what, ops, walk, most in (("READDIRPLUS an entry of the first find", "readdirplus", "first", 0.01),
                                  ("LOOKUPs an entry of the first find", "lookup", "first", 0.0),
                                  ("FUSE messages an entry of the second find", None, "second", 0.001)):
        found = max(sum(n for op, n in used.items() if ops in (op, None)) for used in figures["walk_ops"][walk])
        # Of a few files the folders themselves are what is counted.
        yield hold(what, found / figures["walk_files"], at_most, most, digits, figures["walk_files"] >= WALK_FILES, 3)
