"""A load of readers that compare every byte, and the tests that run under it.

A test that claims a load or a fault and had too little of it proves nothing: it is void (Void), is begun anew once, and
fails with a sentence that says so when it is void again."""

import functools
import json
import os
import subprocess
import sys

import verified_reader
from e2e import PROGRAMS, E2eTest, eventually

FILES = 2000  # of one block each
READERS = 4
# Of all readers together, over the whole run with its fault; a slower run is void. Sanitizers are many times slower.
READS_PER_SECOND = 2000 if "release" in PROGRAMS.parts else 200
# What a read may wait when a node, a disk or a peer fails, and when the client's daemon does (DESIGN 2.4). Printed beside
# what was seen.
NODE_STALL_SECONDS = 3
DAEMON_STALL_SECONDS = 2


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


class VerifiedTest(E2eTest):
    """The tests of a class share a bucket of verified_reader's files, FILES of one block each; readers compare them."""

    FILES = FILES
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
        cls.write_files(cls.home / "source")
        cls.shared_bucket = f"{cls.__name__.lower()}{os.getpid()}"
        cls.rgw.upload(cls.home / "source", cls.shared_bucket)

    def setUp(self):
        super().setUp()
        self.bucket = self.shared_bucket
        self.gets_before = self.gets()["gets"]

    def fetched(self):
        """GETs since this test began."""
        return self.gets()["gets"] - self.gets_before

    def load(self, mount, passes=0, readers=READERS):
        load = Load(mount, passes, readers, self.FILES)
        self.addCleanup(load.kill)
        return load

    def finish(self, load, what, rate=None):
        """Every byte was right, no read failed, and they were many; answers what the readers saw. rate=0 claims no load."""
        total = load.stop(self.PATIENCE_SECONDS)
        print(f"\n    {what}: {total['reads']} reads, {total['rate']:.0f} a second, longest stall "
              f"{total['longest_seconds']:.2f} s (bound {self.STALL_SECONDS} s)", file=sys.stderr)
        self.assertEqual((total["errors"][:5], total["wrong"][:5]), ([], []))
        least = self.READS_PER_SECOND if rate is None else rate
        self.void_unless(total["rate"] >= least, f"{what}: {total['rate']:.0f} reads a second are too little load, {least} are claimed")
        return total
