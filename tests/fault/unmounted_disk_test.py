#!/usr/bin/python3
"""A node starts while the disk of a cache directory is not mounted: nothing is written to the disk below."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from e2e import E2eTest, eventually, main  # noqa: E402
from loop_disk import LoopDisk, run, skip_if_missing  # noqa: E402

FILES = 60
FILE_BYTES = 200_000
DISK_MIB = 160


class UnmountedDisk(E2eTest):
    def setUp(self):
        super().setUp()
        self.disks = {}

    def end_cluster(self):
        try:
            super().end_cluster()
        finally:
            for disk in self.disks.values():
                disk.close()

    def start_node(self, *options, wait=True):
        directories = [(disk.path / "cache", "96MiB") for disk in self.disks.values()]
        return self.cluster.start_node("n1", None, *options, wait=wait, directories=directories)

    def node(self):
        return self.cluster.json("stats", "--nodes")["nodes"][0]

    def states(self):
        return [disk["state"] for disk in self.node()["disks"]]

    def read(self):
        """Every file once through the node; answers the GETs that it took."""
        before = self.gets()["gets"]
        mount = self.cluster.mount("data", "m1")
        for name, data in self.objects.items():
            self.assertEqual((mount / name).read_bytes(), data)
        self.assertEqual(self.cluster.unmount("m1"), 0)
        return self.gets()["gets"] - before

    def stop(self):
        self.assertEqual(self.cluster.nodes["n1"].stop(), 0)

    def unmount(self, name):
        run("umount", self.disks[name].path)

    def mount(self, name):
        run("mount", self.disks[name].device, self.disks[name].path)

    def is_untouched(self, name):
        self.assertEqual(list(self.disks[name].path.iterdir()), [], "the disk below")

    def refused(self):
        """The node ends at once; answers what it says."""
        node = self.start_node(wait=False)
        self.assertEqual(node.wait(), 2)
        node.process.stdout.close()
        return [line for line in node.log.read_text().splitlines() if "error" in line][-1]

    def test_what_is_not_mounted_is_not_filled(self):
        self.objects = {f"f{i}": i.to_bytes(4) * (FILE_BYTES // 4) for i in range(FILES)}
        self.put(self.objects)
        self.cluster.start_coordinator()
        for name in ("first", "second"):
            self.disks[name] = LoopDisk(self.home, f"unmounted_{name}", DISK_MIB)
        self.start_node()
        self.link("data", "", "--no-background-fill")
        self.assertEqual(self.read(), FILES)
        eventually(lambda: self.node()["blocks"] == FILES, "every block is stored")
        ours = self.node()["id"]
        self.stop()

        # The one that held the node's name and what it knew is not mounted.
        self.unmount("first")
        self.start_node()
        eventually(lambda: sorted(self.states()) == ["missing", "ok"], "the node says what it lacks")
        self.assertEqual(self.node()["id"], ours)
        status = self.cluster.cli("status", check=False)
        self.assertEqual(status.returncode, 3)
        path = self.disks["first"].path / "cache"
        self.assertIn(f"node n1 runs without its disk {path}", status.stdout)
        self.assertIn(f"--accept-new-disk {path}", status.stdout)
        # It serves what the other has, and keeps the rest there.
        lost = self.read()
        self.assertTrue(0 < lost < FILES, lost)
        eventually(lambda: self.node()["blocks"] == FILES, "what was fetched is stored on the other disk")
        self.assertEqual(self.read(), 0)
        self.is_untouched("first")
        self.stop()

        # Without any there is nothing to serve from.
        self.unmount("second")
        said = self.refused()
        for name in self.disks:
            self.assertIn(f"cache directory {self.disks[name].path / 'cache'} is empty or not there", said)
            self.is_untouched(name)

        # Mounted again, everything is there.
        self.mount("first")
        self.mount("second")
        self.start_node()
        eventually(lambda: self.states() == ["ok", "ok"], "both disks are in service")
        self.assertEqual(self.read(), 0)
        self.stop()

        # Another disk in its place is used when somebody says so.
        self.disks["first"].close()
        self.disks["first"] = LoopDisk(self.home, "unmounted_first", DISK_MIB)
        self.start_node()
        eventually(lambda: "missing" in self.states(), "the new disk is left alone")
        self.assertFalse(path.exists())
        self.stop()
        self.start_node("--accept-new-disk", path)
        eventually(lambda: self.states() == ["ok", "ok"], "the new disk is in service")
        self.stop()
        self.start_node()
        eventually(lambda: self.states() == ["ok", "ok"], "and is known from then on")
        # What lay on both disks was dropped from the second when both were there.
        self.assertEqual(self.read(), lost)
        eventually(lambda: self.node()["blocks"] == FILES, "every block is stored")
        self.assertEqual(self.read(), 0)
        print(f"\n    without the first disk: {lost} of {FILES} files fetched again, nothing written below its mount point",
              file=sys.stderr)


if __name__ == "__main__":
    skip_if_missing()
    main()
