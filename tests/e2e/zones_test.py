#!/usr/bin/python3
"""Two zones, each with a copy of everything: readers read their own, and what crosses is counted to the byte."""

import json
import os

import verified_reader
from e2e import eventually, main
from verified_load import VerifiedTest

ZONE_OF = {"n1": "a", "n2": "b", "n3": "a", "n4": "b"}


class Zones(VerifiedTest):
    FILES = 400  # of one block each
    COPIES = 2

    def start_zones(self):
        self.cluster.start_coordinator()
        for name, zone in ZONE_OF.items():
            self.cluster.start_node(name, self.CACHE, "--zone", zone)
        self.link("data", "", "--no-background-fill", "--replicas", str(self.COPIES))
        # Nodes of a zone are other machines: a mount does not read out of their files, which outlast them here.
        self.hedges = 0
        self.mounts = {zone: self.cluster.mount("data", f"m{zone}", "--zone", zone, "--local-reads", "socket") for zone in "ab"}

    def keepers(self):
        """Of each file, who keeps its one block, the first owner first."""
        return [os.getxattr(self.mounts["a"] / verified_reader.name_of(i), "user.forebay.owner").decode().split(",")[:self.COPIES]
                for i in range(self.FILES)]

    def stats(self, zone):
        """What the zone's mount counts itself."""
        return json.loads((self.mounts[zone] / ".forebay/stats").read_text())

    def sent_across(self):
        """Likewise of all mounts and nodes, as the nodes count what they send."""
        return self.link_stats()["cross_zone_bytes"]

    def epoch(self, zone, across, what, gets=0):
        """Every byte once: so many bytes were read across, and so many GETs were made."""
        before, fetched = self.stats(zone), self.fetched()
        self.finish(self.load(self.mounts[zone], passes=1, readers=1), what, rate=0)
        after = self.stats(zone)
        hedges = after["hedges"] - before["hedges"]
        self.hedges += hedges
        self.assert_across(after["cross_zone_bytes"] - before["cross_zone_bytes"], across, hedges, what)
        self.assertEqual(self.fetched() - fetched, gets, what)

    def assert_across(self, got, expected, hedges, what):
        """To the byte, but for hedges: on a machine so busy that a node keeps its readers waiting, the other zone's copy is
        asked too."""
        self.assertGreaterEqual(got, expected, what)
        self.assertLessEqual(got, expected + hedges * verified_reader.FILE_BYTES, what)

    def settled(self, expected, what):
        """Nodes report each second: until they have, and then no more comes."""
        eventually(lambda: self.sent_across() >= expected, what)
        self.assert_across(self.sent_across(), expected, self.hedges, what)

    def far_from(self, zone, keepers, without=()):
        """Bytes of files of which nobody in the zone keeps a copy."""
        near = {name for name, its in ZONE_OF.items() if its == zone} - set(without)
        return verified_reader.FILE_BYTES * sum(not near & set(names) for names in keepers)

    def test_each_zone_reads_its_own_copies_and_what_a_lost_node_costs_is_counted(self):
        self.start_zones()
        # A zone's node takes what is the other's from it, once.
        self.epoch("a", 0, "cold epoch in zone a", gets=self.FILES)
        blocks = lambda: sum(node["blocks"] for node in self.cluster.json("nodes")["nodes"])  # noqa: E731
        eventually(lambda: blocks() == self.COPIES * self.FILES, "each block is at two nodes")
        keepers = self.keepers()
        self.assertEqual([self.far_from(zone, keepers) for zone in "ab"], [0, 0], "equal zones have a copy of everything each")
        sent = verified_reader.FILE_BYTES * self.FILES
        self.settled(sent, "a block crosses once: to the copy in the other zone")

        for zone in "ab":
            self.epoch(zone, 0, f"warm epoch in zone {zone}")
        self.settled(sent, "a warm epoch crosses no zone")

        lost = self.cluster.nodes.pop("n3")
        lost.kill()
        expected = self.far_from("a", keepers, without=["n3"])
        self.assertGreater(expected, verified_reader.FILE_BYTES * self.FILES // 4, "it kept half of its zone's copies")
        self.epoch("a", expected, "zone a without n3")
        self.epoch("b", 0, "zone b meanwhile")
        sent += expected
        self.settled(sent, "what was read across was sent across")
        self.assertEqual(self.fetched(), self.FILES, "1.000 GET a block")

        # It ends with 3, since a node is away.
        status = json.loads(self.cluster.cli("-o", "json", "status", check=False).stdout)
        self.assert_across(status["cross_zone_bytes"], sent, self.hedges, "forebay status")
        self.assertIn("zones        2, ", self.cluster.cli("status", check=False).stdout)
        self.assertIn("CROSS-ZONE", self.cluster.cli("stats", "--links").stdout)
        counted = sum(value for node in self.cluster.nodes.values()
                      for (name, _), value in node.metrics().items() if name == "forebay_cross_zone_bytes_total")
        self.assertGreater(counted, 0)
        self.assertLessEqual(counted, status["cross_zone_bytes"], "n3 has taken its part with it")


if __name__ == "__main__":
    main()
