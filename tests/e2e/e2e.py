"""What the end-to-end tests share: a real S3 (Ceph RGW), real processes, a real mount, everything below one folder that
is gone afterwards. FOREBAY_BIN names the folder of the programs."""

import concurrent.futures
import contextlib
import ctypes
import errno
import mmap
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import boto3
import botocore.config

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "ops"))
from local_cluster import Cluster, ClusterError, Daemon, Rgw, drop_page_cache, remove  # noqa: E402

PROGRAMS = pathlib.Path(os.environ.get("FOREBAY_BIN", "")).resolve()
BLOCK = 4 << 20
PATIENCE_SECONDS = 60


def eventually(condition, what, seconds=PATIENCE_SECONDS):
    """Waits until condition() is true and answers what it answered."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.05)
    return value


def is_dead(mount):
    """Nobody serves it any more. (Attributes may still come from the kernel's memory; this does not.)"""
    try:
        os.statvfs(mount)
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def blocks_of(sizes, block=BLOCK):
    return sum(-(-size // block) for size in sizes)


def tree_of(folder):
    """Relative path to bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_all(folder, order=None):
    """Reads every file below the folder once; answers the bytes read."""
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    if order is not None:
        random.Random(order).shuffle(paths)
    total = 0
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while part := file.read(1 << 20):
                total += len(part)
    return total


@contextlib.contextmanager
def held_in_page_cache(paths):
    """The files' pages are read and locked in memory: no other need for memory, only the file system, takes them away.
    (Kernels with proactive reclaim drop clean pages within a second, and a count of READs would then prove nothing.)"""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.mlock.argtypes = libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    held = []
    try:
        for path in paths:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size == 0:
                    continue
                address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
            if address == ctypes.c_void_p(-1).value:
                raise OSError(ctypes.get_errno(), f"mmap of {path}")
            held.append((address, size))
            if libc.mlock(address, size) != 0:
                raise OSError(ctypes.get_errno(), f"mlock of {path}")
        yield
    finally:
        for address, size in held:
            libc.munmap(address, size)


def pages_in_page_cache(path):
    """How many pages of a file the kernel holds (mincore(2)); to ask reads none."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"mmap of {path}")
    states = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    try:
        if libc.mincore(address, size, states) != 0:
            raise OSError(ctypes.get_errno(), f"mincore of {path}")
    finally:
        libc.munmap(address, size)
    return sum(state & 1 for state in states.raw)


# With these a sanitizer leaves SIGSEGV to the program that it is sent to.
OWN_CRASHES = {"ASAN_OPTIONS": "handle_segv=0", "TSAN_OPTIONS": f"{os.environ.get('TSAN_OPTIONS', '')} handle_segv=0"}
# How the reports of all sanitizers begin.
SANITIZER_FINDING = re.compile(r"[A-Z][A-Za-z]*Sanitizer: |: runtime error: ")


class E2eTest(unittest.TestCase):
    """One RGW and one folder for each class, one cluster for each test."""

    NODES = ("n1", "n2", "n3")
    CACHE = "1GiB"
    CLUSTER = Cluster

    @classmethod
    def setUpClass(cls):
        # Short: the path of a UNIX socket has room for 107 bytes.
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="forebay-e2e-"))
        cls.addClassCleanup(remove, cls.home)
        cls.rgw = Rgw(cls.home / "rgw").start()
        cls.addClassCleanup(cls.rgw.stop)
        cls.s3 = boto3.client(
            "s3", endpoint_url=cls.rgw.env["AWS_ENDPOINT_URL"], region_name="us-east-1",
            aws_access_key_id=cls.rgw.env["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=cls.rgw.env["AWS_SECRET_ACCESS_KEY"], verify=False,
            config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}))

    def setUp(self):
        self.folder = self.home / "c"
        self.cluster = self.CLUSTER(self.folder, PROGRAMS, self.rgw.env)
        self.addCleanup(self.end_cluster)
        self.bucket = "b" + re.sub(r"[^a-z0-9]", "", self._testMethodName.lower())[-40:] + str(os.getpid())

    def end_cluster(self):
        codes = self.cluster.stop()
        # Only now: what a program has not given back it says at its end.
        logs = {path.name: path.read_text(errors="replace") for path in self.folder.glob("*.log")}
        remove(self.folder)
        failed = any(error for _, error in getattr(self._outcome, "errors", [])) or (
            hasattr(self._outcome, "result") and any(
                test is self for test, _ in self._outcome.result.errors + self._outcome.result.failures))
        if failed:
            for name, text in logs.items():
                print(f"== {name}\n" + "\n".join(text.splitlines()[-40:]), file=sys.stderr)
        self.assertEqual({name: code for name, code in codes.items() if code != 0}, {}, "daemons ended badly")
        # A mount's worker that a sanitizer has ended is replaced: its supervisor ends well.
        for name, text in logs.items():
            found = SANITIZER_FINDING.search(text)
            if found:
                self.fail(f"{name}:\n" + "\n".join(text[found.start():].splitlines()[:60]))

    def start(self, nodes=None, cache=None, node_options=()):
        self.cluster.start_coordinator()
        self.cluster.start_nodes(nodes or self.NODES, cache or self.CACHE, *node_options)

    def put(self, objects, prefix=""):
        """Makes the bucket and puts {key: bytes}."""
        with contextlib.suppress(self.s3.exceptions.BucketAlreadyOwnedByYou):
            self.s3.create_bucket(Bucket=self.bucket)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(self.s3.put_object, Bucket=self.bucket, Key=prefix + key, Body=body)
                         for key, body in objects.items()]:
                done.result()

    def gets(self):
        return self.rgw.gets(self.bucket)

    def link(self, name="data", prefix="", *options):
        return self.cluster.cli("link", f"s3://{self.bucket}/{prefix}", "--as", name, *options)

    def link_stats(self, name="data"):
        return next(link for link in self.cluster.json("stats")["links"] if link["name"] == name)

    def metrics(self, daemon):
        return daemon.metrics()

    def fuse_ops(self, mount):
        """Requests of the kernel so far, by operation."""
        return self.cluster.mounts[mount].fuse_ops()

    def assert_same_tree(self, source, mount):
        result = subprocess.run(["diff", "-r", source, mount], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout[:2000]), (0, ""), result.stderr[:2000])


class _TimedResult(unittest.TextTestResult):
    """Says of each test how long it took, with its cluster's beginning and end."""

    def startTest(self, test):
        super().startTest(test)
        self._begin = time.monotonic()

    def stopTest(self, test):
        super().stopTest(test)
        self.stream.writeln(f"    {test.id().split('.')[-1]}: {time.monotonic() - self._begin:.1f} s")


def main():
    if not (PROGRAMS / "forebay-node").exists():
        sys.exit("set FOREBAY_BIN to the folder of the programs (build/release/bin)")
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=_TimedResult))


__all__ = ["BLOCK", "Cluster", "ClusterError", "Daemon", "E2eTest", "PROGRAMS", "blocks_of", "drop_page_cache", "eventually",
           "held_in_page_cache", "is_dead", "main", "pages_in_page_cache", "read_all",
           "shutil", "tree_of"]
