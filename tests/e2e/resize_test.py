#!/usr/bin/python3
"""The size of a node's cache is edited and the node is sent SIGHUP: it shrinks and grows under verified readers, no read
fails, the cluster's tools say the new size, and the disk has no more than that."""

import contextlib
import os
import signal

import verified_reader
from e2e import PROGRAMS, Daemon, eventually, main
from local_cluster import loopback
from verified_load import VerifiedTest

MIB = 1 << 20
LARGE = 1024 * MIB
SMALL = 80 * MIB  # less than the files and their records take


class Resize(VerifiedTest):
    FILES = 5000
    NODES = ("n1",)

    def configure(self, size, more=""):
        self.file.write_text(f'[node]\ncache_dir = ["{self.folder / "n1"}={size // MIB}MiB"]\n{more}')

    def setUp(self):
        super().setUp()
        self.file = self.folder / "forebay.toml"
        self.configure(LARGE)
        self.cluster.start_coordinator()
        # The directory and its size are the file's: a flag would win over it.
        self.cluster.nodes["n1"] = Daemon("n1", [
            PROGRAMS / "forebay-node", "--config", self.file, "--node-id", "n1", "--coordinator", self.cluster.address,
            "--state-dir", self.folder / "nodes", "--listen", loopback(), "--metrics-listen", "127.0.0.1:0"],
            self.cluster.server_env, self.folder / "n1.log").start()
        self.link("data", "", "--no-background-fill")
        self.cluster.cli("preload", "data")
        self.mount = self.cluster.mount("data", "m1")

    def reload(self):
        os.kill(self.cluster.nodes["n1"].pid, signal.SIGHUP)

    def log(self):
        return (self.folder / "n1.log").read_text()

    def node(self):
        return self.cluster.json("nodes")["nodes"][0]

    def pinned_bytes(self):
        return self.cluster.json("links")["links"][0]["pinned_bytes"]

    def disk_bytes(self):
        total = 0
        for path in (self.folder / "n1").rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # an empty segment that has just gone
                total += path.stat().st_blocks * 512
        return total

    def test_a_cache_shrinks_and_grows_under_readers(self):
        self.assertGreater(self.disk_bytes(), SMALL, "there is something to give away")
        load = self.load(self.mount)
        self.configure(SMALL, 'zone = "another"\n')
        self.reload()
        eventually(lambda: self.node()["capacity_bytes"] == SMALL, "the cluster knows the smaller size")
        self.assertLessEqual(self.node()["used_bytes"], SMALL)
        self.assertLessEqual(self.disk_bytes(), SMALL)
        self.assertIn("zone under [node] is", self.log())
        self.assertIn(f"{self.folder / 'n1'} has its new size", self.log())
        self.assertEqual(self.cluster.json("status")["capacity_bytes"], SMALL)
        self.configure(LARGE)
        self.reload()
        eventually(lambda: self.node()["capacity_bytes"] == LARGE, "the cluster knows the larger size")
        self.finish(load, "a cache made smaller and larger")

    def test_what_cannot_be_is_said_and_changes_nothing(self):
        self.cluster.cli("pin", "data")
        eventually(lambda: self.pinned_bytes() == self.FILES * verified_reader.FILE_BYTES, "every block is pinned")
        self.configure(SMALL)
        self.reload()
        eventually(lambda: "unpin some" in self.log(), "a size that does not hold what is pinned is refused")
        self.assertEqual(self.node()["capacity_bytes"], LARGE)
        self.file.write_text("[node]\ncache_dri = []\n")
        self.reload()
        eventually(lambda: "the configuration is left as it was read before" in self.log(), "a fault is said")
        self.configure(SMALL)
        self.cluster.cli("unpin", "data")
        eventually(lambda: self.pinned_bytes() == 0, "nothing is pinned")
        self.reload()
        eventually(lambda: self.node()["capacity_bytes"] == SMALL, "then it has its new size")


if __name__ == "__main__":
    main()
