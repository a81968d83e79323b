#!/usr/bin/python3
"""The coordinator is killed at every kind of step of a link's first listing and of a refresh: while it lists, sorts, builds,
and publishes. The next one goes on with what was listed, shows nothing before it is whole, and comes to the listing that one
which nobody killed made. killing_disk.cc ends the unchanged program; the S3 is one that counts its LISTs."""

import contextlib
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from e2e import PROGRAMS, Cluster, ClusterError, eventually, main, remove  # noqa: E402
from bench_namespace import Origin  # noqa: E402

TESTS = pathlib.Path(os.environ.get("FOREBAY_TESTS", "")).resolve()
KEYS = int(os.environ.get("FOREBAY_KILLED_KEYS", "1000000"))  # fewer are sorted in memory
ALL_STEPS = os.environ.get("FOREBAY_KILLED_STEPS") == "all"  # ops/soak
RANGES = 16  # that are listed at once (RangeListerOptions): so many pages may be on their way when it dies
NEW = 700  # objects that a refresh finds
PATIENCE_SECONDS = 180  # a million objects are listed and sorted in some seconds, or many on a busy machine
# Steps: what is done to which file below the state directory, and the how-many-th of those; "(deleted)" = a file without a name.
LISTING = [(f"write:.range:{part}", True) for part in ("first", "tenth", "half", "most")]
# The sorted runs, the snapshot's file, its name, and the state store's records behind that, of which one publishes it.
BUILDING = [(step, False) for step in ("write:(deleted):first", "write:(deleted):last", "write:.fbs.tmp:first", "write:.fbs.tmp:last",
                                       "sync:.fbs.tmp:first", "rename:.fbs:first", "rename:.fbs:first,write:.log:1")]
REFRESHING = [(step, False) for step in ("rename:.fbs:first,write:.fbd:1", "rename:.fbs:first,rename:.fbd:1",
                                         "rename:.fbd:first,write:.log:1")]


class ListingKills(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.origin = Origin(PROGRAMS, KEYS)
        cls.addClassCleanup(cls.origin.stop)
        folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-kill-"))
        cls.addClassCleanup(remove, folder)
        cls.linked_state = folder / "linked"

    def setUp(self):
        self.origin.hold(KEYS)

    def new_cluster(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-kill-"))
        self.addCleanup(remove, folder)
        cluster = Cluster(folder, PROGRAMS, self.origin.env)
        self.addCleanup(cluster.stop)
        return cluster

    def start(self, cluster, **settings):
        """With `settings` the coordinator is one that can be killed."""
        plain = dict(cluster.server_env)
        if settings:
            library = TESTS / "killing_disk.so"
            self.assertTrue(library.exists(), f"{library} is not built")
            cluster.server_env.update({"LD_PRELOAD": str(library), "FOREBAY_KILL_BELOW": str(cluster.folder / "coordinator"),
                                       **settings})
        try:
            cluster.start_coordinator()
        finally:
            cluster.server_env = plain

    @staticmethod
    def link(cluster):
        rows = cluster.json("links")["links"]
        return rows[0] if rows else None

    def ready(self, cluster, before, objects):
        """The link when it shows `objects`. Until then it is exactly what it was `before`."""
        def look():
            link = self.link(cluster)
            if link["objects"] == objects:
                return link
            self.assertEqual((link["objects"], link["digest"], link["generation"]), before)
            return None
        return eventually(look, f"the link shows {objects} objects", PATIENCE_SECONDS)

    def begin(self, cluster, refresh):
        words = ("refresh", "big") if refresh else ("link", "s3://bucket/train/", "--as", "big")
        return cluster.cli(*words, "--detach")

    def unkilled(self, refresh):
        """What a run that nobody kills comes to, and what it does to its files."""
        cluster = self.new_cluster()
        if refresh:
            self.linked(cluster)
        log = cluster.folder / "steps"
        self.start(cluster, FOREBAY_KILL_LOG=str(log))
        objects, before = self.wanted(cluster, refresh)
        pages = self.origin.pages()
        self.begin(cluster, refresh)
        link = self.ready(cluster, before, objects)
        steps = log.read_text().splitlines()
        cluster.stop()
        return link["digest"], self.origin.pages() - pages, steps

    def linked(self, cluster):
        """A coordinator that has listed and was stopped: the first one does, the others get a copy of its folder."""
        self.origin.hold(KEYS)
        if not self.linked_state.exists():
            self.start(cluster)
            cluster.cli("link", "s3://bucket/train/", "--as", "big")
            cluster.coordinator.stop()
            shutil.copytree(cluster.folder / "coordinator", self.linked_state)
        else:
            shutil.copytree(self.linked_state, cluster.folder / "coordinator")

    def wanted(self, cluster, refresh):
        """How many objects the link is to show, and what it shows until then."""
        if not refresh:
            return KEYS, (0, None, 0)
        self.origin.hold(KEYS + NEW)
        link = self.link(cluster)
        return KEYS + NEW, (link["objects"], link["digest"], link["generation"])

    def numbered(self, step, steps):
        """The step with the number of the call that it names."""
        def number(one):
            op, text, which = one.split(":")
            count = sum(line.startswith(op + " ") and text in line for line in steps)
            self.assertGreater(count, 0, f"nothing did {op} to a file with {text} in its path")
            return f"{op}:{text}:" + {"first": "1", "tenth": str(max(1, count // 10)), "half": str(max(1, count // 2)),
                                      # Pages are written as they come: another run may write some fewer times.
                                      "most": str(max(1, count * 9 // 10)), "last": str(count)}.get(which, which)
        return ",".join(number(one) for one in step.split(","))

    def killed(self, step, lists, refresh, digest, pages, steps):
        cluster = self.new_cluster()
        if refresh:
            self.linked(cluster)
        self.start(cluster, FOREBAY_KILL_AT=self.numbered(step, steps))
        objects, before = self.wanted(cluster, refresh)
        asked = self.origin.pages()
        with contextlib.suppress(ClusterError):  # it may die before it answers
            self.begin(cluster, refresh)
        self.assertIsNotNone(cluster.coordinator.wait(PATIENCE_SECONDS), f"{step}: nobody was killed")
        self.assertEqual(cluster.coordinator.process.returncode, -9)
        listed = self.origin.pages() - asked
        self.start(cluster)
        link = self.ready(cluster, before, objects)
        again = self.origin.pages() - asked
        print(f"{'refresh' if refresh else 'link'} killed at {step}: {listed} pages before, {again - listed} after, "
              f"{pages} without", file=sys.stderr, flush=True)
        self.assertEqual(link["digest"], digest)
        # Of 10 million objects, which are 10,000 pages, that is 0.3 %.
        self.assertLessEqual(again, pages + 2 * RANGES)
        if not lists:
            self.assertEqual(again, listed, "what was listed was listed again")
        snapshots = cluster.folder / "coordinator" / "snapshots"
        eventually(lambda: all(re.fullmatch(r"\d+\.fbs|\d+-\d+\.fbd", path.name)
                               for path in snapshots.rglob("*") if path.is_file()), "what the kill left behind is gone")
        cluster.stop()

    def kill_at_each(self, steps, refresh):
        digest, pages, log = self.unkilled(refresh)
        for step, lists in steps:
            with self.subTest(step=step):
                self.killed(step, lists, refresh, digest, pages, log)

    def test_a_first_listing(self):
        self.kill_at_each(LISTING + BUILDING if ALL_STEPS else LISTING[2:] + BUILDING[1::2], refresh=False)

    def test_a_refresh(self):
        begun = LISTING[1:3] + BUILDING if ALL_STEPS else LISTING[1:2] + BUILDING[::3]
        self.kill_at_each(begun + REFRESHING, refresh=True)


if __name__ == "__main__":
    main()
