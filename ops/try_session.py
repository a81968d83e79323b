#!/usr/bin/python3
"""Forebay on this machine, for real: S3, a coordinator, three cache nodes, a mount, and epochs over real files.

  ops/try                              a Ceph RGW on loopback with 5,000 small files and 4 shards
  ops/try DIR                          the same with the files of DIR
  ops/try s3://bucket/prefix           your own bucket, with your own AWS settings

It builds what is not built, prints a table, and stays up until Ctrl-C, which takes everything down again."""

import argparse
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "ops"))
from local_cluster import Cluster, ClusterError, Rgw, build, remove, say, step  # noqa: E402
from sample_data import SHARD_BYTES, SampleData  # noqa: E402

BUCKET = "forebay-try"
LINK = "try"
SMALL_FILES, SHARDS = 5000, 4
NODES = ("n1", "n2", "n3")
READERS = 4
READ_BYTES = 1 << 20
SILENT_SHARE = 0.002  # of the blocks: GETs that nodes on a busy machine, silent for seconds, may cost


def make_files(folder):
    data = SampleData()
    data.small_files(folder / "train", SMALL_FILES)
    data.shards(folder / "shards", SHARDS)


def read_files(paths, results):
    """One loader worker: reads each file whole, as a training script does."""
    count = total = 0
    failed = []
    for path in paths:
        try:
            with open(path, "rb", buffering=0) as file:
                while part := file.read(READ_BYTES):
                    total += len(part)
            count += 1
        except OSError as error:
            failed.append(f"{path}: {error.strerror}")
    results.put((count, total, failed))


def epoch(mount, seed):
    """Reads every file of the mount once, in a new order, with READERS processes."""
    begin = time.monotonic()
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(mount) for name in names]
    random.Random(seed).shuffle(paths)
    results = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=read_files, args=(paths[i::READERS], results)) for i in range(READERS)]
    for worker in workers:
        worker.start()
    answers = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    seconds = time.monotonic() - begin
    failed = [line for answer in answers for line in answer[2]]
    return {"seconds": seconds, "files": sum(answer[0] for answer in answers),
            "bytes": sum(answer[1] for answer in answers), "failed": failed}


class Trial:
    def __init__(self, options):
        self.options = options
        # Short: the path of a UNIX socket has room for 107 bytes.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-try-"))
        self.rgw, self.cluster, self.source, self.location = None, None, None, None

    def prepare_s3(self):
        if self.options.source and self.options.source.startswith("s3://"):
            self.location = self.options.source
            return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        self.source = pathlib.Path(self.options.source) if self.options.source else self.folder / "data"
        if not self.options.source:
            with step(f"making {SMALL_FILES:,} small files and {SHARDS} shards of {SHARD_BYTES // 1_000_000} MB"):
                make_files(self.source)
        elif not self.source.is_dir():
            raise ClusterError(f"{self.source} is no folder")
        size = sum(path.stat().st_size for path in self.source.rglob("*") if path.is_file() and not path.is_symlink())
        with step("starting a real S3 (Ceph RGW)"):
            self.rgw = Rgw(self.folder / "rgw").start(str(2 * size + (1 << 30)))
        with step(f"uploading {size / 1e6:,.0f} MB to s3://{BUCKET}/data/"):
            self.rgw.upload(self.source, BUCKET, "data/")
        self.location = f"s3://{BUCKET}/data/"
        return self.rgw.env

    def start(self, programs):
        environment = self.prepare_s3()
        self.cluster = Cluster(self.folder, programs, environment)
        with step("starting a coordinator and three cache nodes"):
            self.cluster.start_coordinator()
            for name in NODES:
                self.cluster.start_node(name, self.options.cache)
        with step(f"forebay link {self.location} --as {LINK}"):
            words = ["--endpoint-url", self.options.endpoint_url] if self.options.endpoint_url else []
            self.cluster.cli("link", self.location, "--as", LINK, *words)

    def gets(self):
        """Successful object GETs so far: as S3 itself counts them where it is ours, else as the nodes do."""
        if self.rgw:
            return self.rgw.gets(BUCKET)["gets"]
        return self.link_stats()["s3_gets"]

    def link_stats(self):
        return next(link for link in self.cluster.json("stats")["links"] if link["name"] == LINK)

    def run_epoch(self, title, mount, seed):
        gets, before = self.gets(), self.link_stats()
        result = epoch(mount, seed)
        after = self.link_stats()
        reads = after["reads"] - before["reads"]
        result.update(title=title, gets=self.gets() - gets, reads=reads,
                      hits=(after["hits"] - before["hits"]) / reads if reads else None)
        return result

    def capacity(self):
        return sum(node["capacity_bytes"] for node in self.cluster.json("stats")["nodes"])

    def mount(self, name):
        with step(f"forebay-mount {LINK} {self.folder / name}"):
            return self.cluster.mount(LINK, name)

    def epochs(self):
        first = self.mount("mnt")
        yield self.run_epoch("epoch 1, cold", first, 1)
        yield self.run_epoch("epoch 2, warm", first, 2)
        second = self.mount("mnt2")
        yield self.run_epoch("second job, own mount", second, 3)

    def stop(self):
        if self.cluster:
            self.cluster.stop()
        if self.rgw:
            self.rgw.stop()
        remove(self.folder)


def print_table(trial, results, blocks):
    s3 = "GETs at S3" if trial.rgw else "S3 GETs"
    say(f"\n{'':24}{'seconds':>9}{'files/s':>10}{'MB/s':>9}{s3:>12}{'per block':>11}{'node reads':>12}{'hit ratio':>11}")
    for result in results:
        hits = "-" if result["hits"] is None else f"{result['hits']:.3f}"
        say(f"{result['title']:24}{result['seconds']:>9.2f}{result['files'] / result['seconds']:>10,.0f}"
            f"{result['bytes'] / 1e6 / result['seconds']:>9,.0f}{result['gets']:>12,}"
            f"{result['gets'] / max(blocks, 1):>11.3f}{result['reads']:>12,}{hits:>11}")
    say("What the kernel's page cache answers reaches no node: the second epoch, where most bytes are of small files.")
    say("\nbytes per node: " + ", ".join(f"{node['id']} {node['used_bytes'] / 1e6:,.0f} MB in {node['blocks']:,} blocks"
                                       for node in trial.cluster.json("stats")["nodes"]))


def compare(trial):
    """Every byte of the mount against what was uploaded."""
    if not trial.source:
        return True
    with step("comparing every byte with what was uploaded"):
        result = subprocess.run(["diff", "-r", "--no-dereference", trial.source, trial.folder / "mnt2"],
                                capture_output=True, text=True, check=False)
    # Links, sockets and empty folders are nothing that S3 holds.
    differences = [line for line in result.stdout.splitlines() if not line.startswith("Only in") or "mnt2" in line]
    for line in differences[:10]:
        say(f"  {line}")
    return not differences


def judge(trial, results, blocks):
    """What must hold whatever the machine's speed; one line for each thing that does not."""
    failures = [line for result in results for line in result["failed"][:3]]
    expected = [blocks, 0, 0] if results[0]["bytes"] <= trial.capacity() else []
    for result, want in zip(results, expected):
        more = result["gets"] - want
        if 0 < more <= want * SILENT_SHARE:
            say(f"{result['title']}: {more} more GETs than blocks. A reader asks the next node when one has said nothing for two "
                f"seconds, and that one asks S3; was this machine busy?")
        elif more:
            failures.append(f"{result['title']}: {result['gets']} GETs instead of {want}")
    if not compare(trial):
        failures.append("the mount does not show what was uploaded")
    return failures


def arguments():
    parser = argparse.ArgumentParser(prog="ops/try", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", metavar="DIR|s3://…")
    parser.add_argument("--endpoint-url", help="of an S3 other than AWS's, for s3://…")
    parser.add_argument("--cache", default="2GiB", metavar="SIZE", help="of each of the three nodes; default 2GiB")
    parser.add_argument("--once", action="store_true", help="exit after the table; 0 when all is as it should be")
    return parser.parse_args()


def wait_for_the_end(trial, programs):
    say(f"\nThe files are at {trial.folder / 'mnt'}. In another terminal, try:\n"
        f"  export FOREBAY_RUNTIME_DIR={trial.folder / 'run'} FOREBAY_COORDINATOR={trial.cluster.address} "
        f"FOREBAY_MOUNT_COORDINATOR={trial.cluster.address} "
        f"PATH=$PATH:{programs}\n"
        f"  ls {trial.folder / 'mnt'};  forebay status;  forebay check {LINK};  forebay stats --nodes\n"
        f"Ctrl-C ends everything and leaves nothing behind.")
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    say("\nending …")


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    trial = None
    try:
        with step("setting up and building (the first time takes some minutes)"):
            programs = build("programs")
        trial = Trial(options)
        trial.start(programs)
        results = list(trial.epochs())
        blocks = trial.cluster.json("check", LINK)["blocks"]
        print_table(trial, results, blocks)
        failures = judge(trial, results, blocks)
        for line in failures:
            say(f"not as it should be: {line}")
        if not options.once:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
            wait_for_the_end(trial, programs)
        return 1 if failures else 0
    except ClusterError as error:
        say(f"\nops/try: {error}")
        return 1
    except KeyboardInterrupt:
        say("\nending …")
        return 130
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if trial:
            trial.stop()


sys.exit(main())
