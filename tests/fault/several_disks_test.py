#!/usr/bin/python3
"""A node with several disks: each is used by its size, and one is taken away and given back by configuration."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import verified_reader  # noqa: E402
from e2e import eventually, main  # noqa: E402
from verified_load import VerifiedTest  # noqa: E402

FILES = 600
SIZES = ("64MiB", "128MiB", "256MiB")


class SeveralDisks(VerifiedTest):
    FILES = FILES

    def setUp(self):
        super().setUp()
        self.paths = [self.folder / f"disk{i}" for i in range(len(SIZES))]

    def start_with(self, disks):
        """(Re)starts the node with these of its disks; the first holds its name."""
        if "n1" in self.cluster.nodes:
            self.assertEqual(self.cluster.nodes["n1"].stop(), 0)
        self.cluster.start_node("n1", directories=[(self.paths[i], SIZES[i]) for i in disks])

    def threads(self):
        """The names of the node's threads."""
        tasks = pathlib.Path(f"/proc/{self.cluster.nodes['n1'].pid}/task")
        return [(task / "comm").read_text().strip() for task in tasks.iterdir()]

    def disks(self):
        node = next(node for node in self.cluster.json("stats")["nodes"] if node["id"] == "n1")
        return node["disks"]

    def read(self):
        """Every file once, from the node; answers the GETs that it took."""
        before = self.fetched()
        mount = self.cluster.mount("data", "m1")
        data = verified_reader.contents(FILES)
        for i in range(FILES):
            self.assertEqual((mount / verified_reader.name_of(i)).read_bytes(), data[verified_reader.window(i)])
        self.assertEqual(self.cluster.unmount("m1"), 0)
        return self.fetched() - before

    def test_a_disk_is_taken_away_and_given_back(self):
        self.cluster.start_coordinator()
        self.start_with([0, 1, 2])
        self.link()
        self.assertEqual(self.read(), FILES)
        stored = lambda: self.cluster.json("stats")["nodes"][0]["blocks"] == FILES  # noqa: E731
        eventually(stored, "every block is stored")
        for i in range(len(SIZES)):
            self.assertEqual(self.threads().count(f"disk{i}-read"), 8, "each disk has threads of its own")
            self.assertEqual(self.threads().count(f"disk{i}-work"), 4)

        # Filled evenly: the larger the disk, the more it holds.
        used = [disk["used_bytes"] for disk in self.disks()]
        print(f"\n    used: {used} of {SIZES}", file=sys.stderr)
        self.assertLess(used[0], used[1])
        self.assertLess(used[1], used[2])
        share = used[1] / sum(used)
        self.assertGreater(share, 0.1)

        self.start_with([0, 2])
        again = self.read()
        print(f"    without the second: {again} of {FILES} fetched again, its share is {share:.3f}", file=sys.stderr)
        self.assertAlmostEqual(again / FILES, share, delta=0.02)
        self.assertEqual(self.read(), 0, "they are kept on the others now")

        # What it held is there again: only the third's own share is missing now.
        self.start_with([1, 0])
        lost, own = self.read(), used[2] / sum(used)
        print(f"    without the third: {lost} of {FILES} fetched again, its share is {own:.3f}", file=sys.stderr)
        self.assertAlmostEqual(lost / FILES, own, delta=0.02)
        self.start_with([0, 1, 2])
        self.assertEqual(self.read(), 0, "everything is on some disk")


if __name__ == "__main__":
    main()
