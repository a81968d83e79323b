#!/usr/bin/python3
"""One release beside the one before, both ways: every process is replaced under readers that compare every byte, to the new
programs and back to the old ones (docs/DEPLOY.md, "Upgrades").

FOREBAY_OLD_BIN names the folder of the previous release's programs. Without it each process is replaced
once, by its own program: a rolling restart of everything; what stays compatible is then held by tests/lint/wire_compat.py."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from e2e import PROGRAMS, drop_page_cache, eventually, main
from verified_load import VerifiedTest

OLD = pathlib.Path(os.environ.get("FOREBAY_OLD_BIN") or PROGRAMS).resolve()
TWO = OLD != PROGRAMS
FILES = 2000 if TWO else 400  # of one block each
AGAIN = FILES // 50  # blocks that may be fetched again: 2 %


def worker_of(supervisor):
    """The process that serves the mount."""
    children = pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    return children[0] if children else None


class UpgradeTest(VerifiedTest):
    FILES = FILES

    def begin(self, programs):
        """All of one release, and every block is cached."""
        self.cluster.programs = programs
        self.start()
        self.link("data", "", "--no-background-fill")
        mount = self.cluster.mount("data", "m1")
        self.finish(self.load(mount, passes=1, readers=2), "cold epoch", rate=0)
        self.assertEqual(self.fetched(), FILES)
        return mount

    def states(self):
        return {node["id"]: node["state"] for node in self.cluster.json("stats")["nodes"]}

    def all_up(self):
        return self.states() == {name: "up" for name in self.NODES}

    def runs(self, daemon, programs):
        self.assertEqual(pathlib.Path(os.readlink(f"/proc/{daemon.pid}/exe")).parent, programs)

    def replace_node(self, name, programs):
        self.cluster.programs = programs
        self.assertEqual(self.cluster.nodes[name].stop(), 0)
        self.cluster.start_node(name, self.CACHE)
        self.runs(self.cluster.nodes[name], programs)
        eventually(lambda: self.in_state("up") == len(self.NODES), f"{name} is up again")
        drop_page_cache()

    def replace_coordinator(self, programs):
        self.cluster.programs = programs
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        self.cluster.start_coordinator()
        self.runs(self.cluster.coordinator, programs)
        eventually(self.all_up, "the nodes follow it")
        self.assertEqual(self.cluster.json("links")["links"][0]["state"], "ready")

    def replace_mount(self, name, programs):
        supervisor = self.cluster.mounts[name].pid
        before = worker_of(supervisor)
        done = subprocess.run([programs / "forebay-mount", "--upgrade", self.folder / name], env=self.cluster.client_env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        worker = eventually(lambda: [found for found in [worker_of(supervisor)] if found not in (None, before)],
                            "a new worker")[0]
        eventually(lambda: pathlib.Path(os.readlink(f"/proc/{worker}/exe")).parent == programs, "it runs the other program")
        drop_page_cache()

    def verbs(self, programs):
        """The command of one release with the coordinator of whichever one."""
        self.cluster.programs = programs
        self.assertEqual(self.cluster.json("links")["links"][0]["name"], "data")
        self.assertEqual(len(self.cluster.json("stats", "--nodes")["nodes"]), len(self.NODES))
        self.cluster.cli("pin", "data")
        self.assertEqual(len(json.loads(self.cluster.cli("export").stdout)["pins"]), 1)
        self.cluster.cli("unpin", "data")
        self.cluster.cli("quota", "data", "1GiB")
        self.cluster.cli("quota", "data", "none")
        self.cluster.cli("preload", "data")
        self.cluster.cli("refresh", "data")
        self.assertEqual(self.cluster.cli("check", "data").returncode, 0)


class RollingUpgrade(UpgradeTest):
    def test_every_process_is_replaced_and_replaced_back_under_load(self):
        mount = self.begin(OLD)
        load = self.load(mount)
        for name in self.NODES:
            self.replace_node(name, PROGRAMS)
        self.replace_coordinator(PROGRAMS)
        if TWO:
            self.verbs(OLD)
        self.replace_listed_mount(mount)
        self.verbs(PROGRAMS)
        up = self.fetched() - FILES
        if TWO:
            self.replace_back()
        self.finish(load, "every process was replaced")
        again = self.fetched() - FILES
        print(f"    {up} of {FILES} blocks fetched again on the way up, {again - up} on the way back", file=sys.stderr)
        self.assertLessEqual(again, AGAIN)
        self.assertEqual((mount / ".forebay" / "errors").read_text(), "")

    def replace_listed_mount(self, mount):
        """It stays one to the coordinator, whose list the release before does not know."""
        self.cluster.programs = PROGRAMS

        def listed():
            return [row["address"] for row in self.cluster.json("mounts")["mounts"] if row["mountpoint"] == str(mount)]

        before = [] if TWO else eventually(listed, "the mount is listed")
        self.replace_mount("m1", PROGRAMS)
        eventually(lambda: set(listed()) - set(before), "its next process is heard")
        self.assertEqual(len(listed()), 1)

    def replace_back(self):
        # Whoever is not content with a release goes back to the one before.
        self.replace_mount("m1", OLD)
        self.replace_coordinator(OLD)
        for name in self.NODES:
            self.replace_node(name, OLD)
        self.verbs(OLD)


@unittest.skipUnless(TWO, "FOREBAY_OLD_BIN is not set: there is one release here")
class Mixed(UpgradeTest):
    def epoch(self, cluster, mounts):
        """A cold and a warm epoch through a mount of another release than what it reads from."""
        mount = self.begin(cluster)
        self.cluster.programs = mounts
        other = self.cluster.mount("data", "m2")
        self.cluster.cli("evict", "data", "--force", "--yes")
        drop_page_cache()
        before = self.fetched()
        self.finish(self.load(other, passes=1, readers=2), "a cold epoch through the other", rate=0)
        drop_page_cache()
        self.finish(self.load(other, passes=1, readers=2), "and a warm one", rate=0)
        drop_page_cache()
        self.finish(self.load(mount, passes=1, readers=2), "and a warm one through its own", rate=0)
        self.assertEqual(self.fetched() - before, FILES, "each block was fetched once")

    def test_a_new_mount_reads_from_old_nodes(self):
        self.epoch(OLD, PROGRAMS)

    def test_an_old_mount_reads_from_new_nodes(self):
        self.epoch(PROGRAMS, OLD)

    def test_coordinators_that_stand_in_are_replaced_one_by_one(self):
        self.cluster.programs = OLD
        self.cluster.start_etcd()
        names = ("c1", "c2", "c3")
        for name in names:
            self.cluster.start_standby(name)
        for name in self.NODES:
            self.cluster.start_node(name, self.CACHE)
        self.link("data", "", "--no-background-fill")
        mount = self.cluster.mount("data", "m1")
        self.finish(self.load(mount, passes=1, readers=2), "cold epoch", rate=0)
        lists, load = self.gets()["lists"], self.load(mount)
        for programs in (PROGRAMS, OLD):
            self.cluster.programs = programs
            for name in names:
                self.assertEqual(self.cluster.coordinators[name].stop(), 0)
                self.cluster.start_standby(name)
                self.runs(self.cluster.coordinators[name], programs)
                eventually(lambda: self.cluster.cli("links", check=False).returncode == 0, "somebody leads")
                eventually(self.all_up, "the nodes follow")
        self.finish(load, "six coordinators replaced")
        self.assertEqual(self.fetched(), FILES)
        self.assertEqual(self.gets()["lists"], lists, "nothing is listed again")


if __name__ == "__main__":
    main()
