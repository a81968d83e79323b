#!/usr/bin/python3
"""Listings travel through the nodes and as differences: what the coordinator sends does not grow with the number of mounts."""

import os

from e2e import E2eTest, eventually, main
from mount_state import names_in

OBJECTS = 1_100
MOUNTS = ("m1", "m2", "m3", "m4")


class Listings(E2eTest):
    NODES = ("n1", "n2")

    def setUp(self):
        super().setUp()
        # Names of 110 random bytes in hex: the listing has more than the 256 KiB that go through the nodes.
        self.files = {f"d{i % 10}/{os.urandom(110).hex()}": b"x" for i in range(OBJECTS)}
        self.put(self.files)
        self.start()

    def value(self, daemon, name, label):
        return int(self.metrics(daemon).get((name, label), 0))

    def sent(self, what):
        return self.value(self.cluster.coordinator, "forebay_snapshot_sent_bytes_total", f'what="{what}"')

    def fetches(self, how):
        return sum(self.value(self.cluster.mounts[name], "forebay_snapshot_fetches_total", f'how="{how}"') for name in MOUNTS)

    def shows(self, mounts, names):
        eventually(lambda: all(names_in(mount) == sorted(names) for mount in mounts), "every mount shows the listing")

    def test_the_coordinator_sends_it_once_and_then_what_has_changed(self):
        self.link()
        mounts = [self.cluster.mount("data", name) for name in MOUNTS]
        self.shows(mounts, self.files)
        # Nodes fetched it once; whatever else is sent is a fraction of it.
        file = sum(self.value(node, "forebay_snapshot_bytes_total", 'from="coordinator"') for node in self.cluster.nodes.values())
        self.assertGreater(file, 256 << 10)
        self.assertEqual(self.sent("whole"), file)
        for name in MOUNTS:
            self.assertEqual(self.value(self.cluster.mounts[name], "forebay_snapshot_bytes_total", 'from="nodes"'), file)

        # It is no data of the link.
        stats = self.cluster.json("stats")
        self.assertEqual(self.link_stats()["cached_bytes"], 0)
        self.assertEqual([link["name"] for link in stats["links"]], ["data"])

        changed = sorted(self.files)[:20]
        self.put({**{name: b"another" for name in changed}, "new/file": b"new"})
        self.cluster.cli("refresh", "data")
        self.shows(mounts, [*self.files, "new/file"])
        eventually(lambda: self.fetches("difference") == len(MOUNTS), "every mount has followed by the difference")
        self.assertEqual(self.sent("whole"), file)
        # 21 rows, each with its name and some 40 bytes, twice.
        self.assertLessEqual(self.sent("difference"), len(MOUNTS) * (136 + 2 * 21 * (2 * 110 + 55)))

        # One that was away meanwhile follows from what it had.
        self.cluster.unmount("m1")
        for text in (b"second", b"third"):
            self.put({"new/file": text})
            self.cluster.cli("refresh", "data")
        self.cluster.mount("data", "m1")
        self.assertEqual((self.folder / "m1/new/file").read_bytes(), b"third")
        self.assertEqual(self.value(self.cluster.mounts["m1"], "forebay_snapshot_fetches_total", 'how="difference"'), 1)
        self.assertEqual(self.sent("whole"), file)

    def test_without_nodes_that_answer_the_coordinator_gives_it(self):
        self.link()
        for name in self.NODES:
            self.cluster.nodes.pop(name).kill()
        mount = self.cluster.mount("data", "m1")
        self.shows([mount], self.files)
        self.assertGreater(self.sent("whole"), 256 << 10)


if __name__ == "__main__":
    main()
