"""A load of readers that compare every byte, and the tests that run under it.

A test that claims a load or a fault and had too little of it proves nothing: it is void (Void), is begun anew once, and
fails with a sentence that says so when it is void again."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import verified_reader
from e2e import PROGRAMS, E2eTest, eventually

FILES = 2000  # of one block each
READERS = 4
# Of all readers together, over the whole run with its fault; a slower run is void. Sanitizers are many times slower.
READS_PER_SECOND = 2000 if "release" in PROGRAMS.parts else 200
# What a read may wait when a node, a disk or a peer fails, and when the client's daemon does (DESIGN 2.4). Printed beside
# what was seen, and held where HOLDS_TIMES.
NODE_STALL_SECONDS = 3
DAEMON_STALL_SECONDS = 2
# Whether the promised times are held: ops/soak has the machine for itself. Beside a build a process may wait longer than
# that for a core, and a test that fails by it says nothing about Forebay.
HOLDS_TIMES = os.environ.get("FOREBAY_HOLD_TIMES") == "1"


def held(promise, slack):
    """The seconds that a test holds: what is promised, or what a machine that does other things as well may take."""
    return promise if HOLDS_TIMES else slack


class Void(AssertionError):
    """There was too little load, or the fault did not happen."""


def unless_void(test):
    """The test; once more, with everything set up anew, when it was void."""
    @functools.wraps(test)
    def run(self):
        try:
            return test(self)
        except Void as first:
            print(f"\n    void, and begun anew: {first}", file=sys.stderr)
        self.doCleanups()
        self.setUp()
        try:
            return test(self)
        except Void as again:
            raise Void(f"void twice, so it proves nothing: {again}") from None
    return run


def fault_made(condition, what, seconds=60):
    """Waits until the fault shows; answers what it answered. A fault that does not makes the run void."""
    try:
        return eventually(condition, what, seconds)
    except AssertionError as error:
        raise Void(f"the fault did not happen: {error}") from None


def nodes_up(metrics):
    """How many nodes are up by these of a coordinator, and heard: one that has just begun takes whom it knows for up."""
    heard = sum(name == "forebay_node_clock_offset_seconds" for name, _ in metrics)
    return min(metrics.get(("forebay_ring_members", 'state="up"'), 0), heard)


class Load:
    """Readers of the whole data set until stop(), or once over it."""

    def __init__(self, mount, passes=0, readers=READERS, files=FILES):
        self.readers = [subprocess.Popen(
            [sys.executable, "-B", verified_reader.__file__, str(mount), str(files), str(seed), str(passes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for seed in range(readers)]

    def stop(self, seconds=60):
        reports = [json.loads(reader.communicate("stop", timeout=seconds)[0]) for reader in self.readers]
        total = {"reads": sum(report["reads"] for report in reports),
                 "seconds": max(report["seconds"] for report in reports),
                 "longest_seconds": max(report["longest_seconds"] for report in reports),
                 "p99_seconds": max(report["p99_seconds"] for report in reports),
                 "errors": [error for report in reports for error in report["errors"]],
                 "wrong": [name for report in reports for name in report["wrong"]]}
        total["rate"] = total["reads"] / total["seconds"]
        return total

    def kill(self):
        for reader in self.readers:
            if reader.poll() is None:
                reader.kill()
            reader.wait()
            reader.stdin.close()
            reader.stdout.close()


def judge(test, total, what, least, stall_seconds=NODE_STALL_SECONDS):
    """Every byte was right, no read failed, and they were many: fewer than `least` a second are void. None waited longer than
    it may, where times are held; `stall_seconds` None: nothing is promised about that."""
    promise = "no bound" if stall_seconds is None else f"bound {stall_seconds} s"
    print(f"\n    {what}: {total['reads']} reads, {total['rate']:.0f} a second ({least} claimed), longest stall "
          f"{total['longest_seconds']:.2f} s ({promise})", file=sys.stderr)
    test.assertEqual((total["errors"][:5], total["wrong"][:5]), ([], []))
    if total["rate"] < least:
        raise Void(f"{what}: {total['rate']:.0f} reads a second are too little load, {least} are claimed")
    if HOLDS_TIMES and stall_seconds is not None:
        test.assertLessEqual(total["longest_seconds"], stall_seconds, what)


class Bystanders:
    """Who has nothing to do with a fault and must not notice it: readers of a link whose blocks are all cached, twice, and
    files of another one that nobody has read yet. Both links are of the bucket's verified files, share nothing, and are never
    listed again. Of S3 they want one GET for each file that read_cold() reads, and no other."""

    COLD_AT_ONCE = 20

    def __init__(self, test, bucket, files):
        self.test, self.data, self.cold_read = test, verified_reader.contents(files), 0
        for name, replicas in (("warm", 2), ("cold", 1)):
            test.cluster.cli("link", f"s3://{bucket}/", "--as", name, "--no-background-fill", "--refresh", "immutable",
                             "--replicas", replicas)
        test.cluster.cli("preload", "warm")
        warm, self.cold = (test.cluster.mount(name, name) for name in ("warm", "cold"))
        self.load = Load(warm, files=files)
        test.addCleanup(self.load.kill)

    def read_cold(self, count=COLD_AT_ONCE):
        """The next files that nobody has read, each a fill."""
        for i in range(self.cold_read, self.cold_read + count):
            body = (self.cold / verified_reader.name_of(i)).read_bytes()
            self.test.assertTrue(verified_reader.is_right(body, i, self.data), f"cold file {i} is wrong")
        self.cold_read += count

    def end(self, what, least=READS_PER_SECOND):
        total = self.load.stop()
        judge(self.test, total, f"{what}: {self.cold_read} cold files, and readers of cached ones", least)
        for mount in ("warm", "cold"):
            self.test.assertEqual((self.test.folder / mount / ".forebay" / "errors").read_text(), "")


class VerifiedTest(E2eTest):
    """The tests of a class share a bucket of verified_reader's files, FILES of one block each; readers compare them."""

    FILES = FILES
    PREFIXES = ("",)  # in the bucket, with all of them below each
    READS_PER_SECOND = READS_PER_SECOND
    PATIENCE_SECONDS = 60  # until the readers have ended
    STALL_SECONDS = NODE_STALL_SECONDS

    def __init_subclass__(cls, **words):
        super().__init_subclass__(**words)
        for name, test in list(vars(cls).items()):
            if name.startswith("test_"):
                setattr(cls, name, unless_void(test))

    @staticmethod
    def void_unless(happened, what):
        if not happened:
            raise Void(what)

    @classmethod
    def write_files(cls, folder):
        verified_reader.write(folder, cls.FILES)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared_bucket = f"{cls.__name__.lower()}{os.getpid()}"
        with tempfile.TemporaryDirectory(dir=cls.home) as source:  # gone before it has come to the disk
            cls.write_files(pathlib.Path(source))
            for prefix in cls.PREFIXES:
                cls.rgw.upload(source, cls.shared_bucket, prefix)

    def setUp(self):
        super().setUp()
        self.bucket = self.shared_bucket
        self.gets_before = self.gets()["gets"]

    def fetched(self):
        """GETs since this test began."""
        return self.gets()["gets"] - self.gets_before

    @staticmethod
    def metric(daemon, name, label=""):
        return sum(value for (metric, labels), value in daemon.metrics().items() if metric == name and label in labels)

    # Of the nodes themselves: the coordinator answers with their next heartbeat, a second later.
    def held(self, name):
        """The blocks that a node has."""
        return self.cluster.nodes[name].metrics()["forebay_index_entries", ""]

    def hits(self, name):
        """Reads, all of a whole file, that the node has answered out of its own cache since it was started."""
        return sum(value for (metric, labels), value in self.cluster.nodes[name].metrics().items()
                   if metric == "forebay_read_bytes_total" and 'tier="local"' in labels) // verified_reader.FILE_BYTES

    def leading(self):
        return self.cluster.coordinator

    # Of metrics: a question for the nodes is answered with the next heartbeat of each, a second later, and one that is silent
    # is waited for.
    def in_state(self, state):
        """How many nodes the coordinator takes for up, suspect, draining or out."""
        return self.metric(self.leading(), "forebay_ring_members", f'state="{state}"')

    def wait_for_nodes(self, what="all nodes are up"):
        """Up, and heard by the coordinator that leads."""
        eventually(lambda: nodes_up(self.leading().metrics()) == len(self.cluster.nodes), what)

    def load(self, mount, passes=0, readers=READERS):
        load = Load(mount, passes, readers, self.FILES)
        self.addCleanup(load.kill)
        return load

    def finish(self, load, what, rate=None, stall=STALL_SECONDS):
        """judge() of what the readers saw, which is answered. rate=0 claims no load."""
        total = load.stop(self.PATIENCE_SECONDS)
        judge(self, total, what, self.READS_PER_SECOND if rate is None else rate, stall)
        return total
