"""A load of readers that compare every byte, and the tests that run under it."""

import json
import os
import pathlib
import subprocess
import sys

import verified_reader
from e2e import PROGRAMS, E2eTest

FILES = 2000  # of one block each
READERS = 4
# Of all readers together, over the whole run with its fault. A slower one proves little and counts as a failure.
READS_PER_SECOND = 2000 if "release" in PROGRAMS.parts else 200


def state_of(pid):
    """'R', 'S', 'T' … of a process; None when there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return None


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
        """Every byte was right, no read failed, and they were many; answers what the readers saw."""
        total = load.stop(self.PATIENCE_SECONDS)
        print(f"\n    {what}: {total['reads']} reads, {total['rate']:.0f} a second, longest "
              f"{total['longest_seconds']:.2f} s", file=sys.stderr)
        self.assertEqual((total["errors"][:5], total["wrong"][:5]), ([], []))
        least = self.READS_PER_SECOND if rate is None else rate
        self.assertGreaterEqual(total["rate"], least, "too little load: this run proves nothing")
        return total
