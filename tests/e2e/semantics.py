"""What the tests of docs/SEMANTICS.md share: one cluster and one mount for all of a class. A test is named after the
statement that it holds (tests/lint/semantics.py compares them)."""

import json
import os
import pathlib
import random

from e2e import PROGRAMS, E2eTest
from local_cluster import Cluster

SMALL, LARGE, MANY = 40_000, 9 * 1024 * 1024 + 123, 500


def made_bytes(seed, size):
    return random.Random(seed).randbytes(size)


class Semantics(E2eTest):
    """`files`: {path: bytes} of what the mount at `mount` must show. Mounts are of the class's MODE, small or large; None leaves
    it to the link."""

    NODES = ("n1", "n2")
    FILES = {}
    OTHER_KEYS = {}
    LINK_OPTIONS = ()
    MODE = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.home / "c"
        cls.cluster = Cluster(cls.folder, PROGRAMS, cls.rgw.env)
        cls.addClassCleanup(cls.cluster.stop)
        cls.bucket = "semantics"
        cls.files = dict(cls.FILES)
        cls.put(cls, {**cls.files, **cls.OTHER_KEYS})
        cls.start(cls)
        cls.link(cls, "data", "", *cls.LINK_OPTIONS)
        cls.mount = cls.cluster.mount("data", "m", *cls.mode_options(()))

    def setUp(self):
        """The class has done it."""

    @classmethod
    def mode_options(cls, options):
        return options if cls.MODE is None or "--mode" in options else ("--mode", cls.MODE, *options)

    def another_mount(self, source, name, *options):
        path = self.cluster.mount(source, name, *self.mode_options(options))
        self.addCleanup(self.leave, name)
        return path

    def leave(self, name):
        if name in self.cluster.mounts:
            self.assertEqual(self.cluster.unmount(name), 0)

    def direct_reads(self, name):
        """Reads of this mount pass the page cache by."""
        return json.loads((self.cluster.folder / name / ".forebay/config").read_text())["direct_reads"]

    def errors_of(self, mount):
        return (pathlib.Path(mount) / ".forebay/errors").read_text(errors="replace")

    def assert_errno(self, number, call, *arguments):
        with self.assertRaises(OSError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.errno, number, (os.strerror(number), caught.exception))
