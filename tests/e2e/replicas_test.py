#!/usr/bin/python3
"""Links with replicas: each block is fetched once, kept at several nodes, and a node that is lost costs nothing of it."""

from e2e import eventually, main
from verified_load import VerifiedTest


class Replicas(VerifiedTest):
    FILES = 600  # of one block each

    def blocks(self, *names):
        return sum(node["blocks"] for node in self.cluster.json("nodes")["nodes"] if not names or node["id"] in names)

    def row(self, name="data"):
        return next(link for link in self.cluster.json("links")["links"] if link["name"] == name)

    def epoch(self, mount, what):
        """Every byte once; answers the GETs that it took."""
        before = self.fetched()
        self.finish(self.load(mount, passes=1, readers=1), what, rate=0)
        return self.fetched() - before

    def test_a_lost_node_costs_no_get_and_its_copies_are_made_again(self):
        self.start()
        self.link("data", "", "--no-background-fill", "--replicas", "2")
        mount = self.cluster.mount("data", "m1")
        self.assertEqual(self.epoch(mount, "cold epoch"), self.FILES)
        eventually(lambda: self.blocks() == 2 * self.FILES, "each block is at two nodes")
        self.assertEqual(self.fetched(), self.FILES, "a copy costs no GET")
        row = self.row()
        self.assertEqual((row["replicas"], row["cached_ratio"]), (2, 1.0))
        load = self.load(mount)
        lost = self.cluster.nodes.pop("n2")
        lost.kill()
        self.assertEqual(self.epoch(mount, "while nobody says so"), 0)
        self.cluster.cli("node", "remove", "n2")
        eventually(lambda: self.blocks("n1", "n3") == 2 * self.FILES, "the copies are at two nodes again")
        eventually(lambda: self.row()["copies_missing"] == 0, "the last look finds them")
        self.finish(load, "node lost and removed")
        self.assertEqual(self.epoch(mount, "after the repair"), 0)
        # The repair holds what it promises: the next one may be lost as well.
        self.cluster.nodes.pop("n1").kill()
        self.assertEqual(self.epoch(mount, "one of two is lost"), 0)
        self.assertEqual(self.fetched(), self.FILES, "1.000 GET a block, whatever was lost")

    def test_a_node_that_was_away_gets_the_copies_that_it_missed(self):
        self.start()
        self.link("data", "", "--no-background-fill", "--replicas", "3")
        self.assertEqual(self.cluster.nodes["n3"].stop(), 0)
        state = lambda: next(node["state"] for node in self.cluster.json("nodes")["nodes"] if node["id"] == "n3")  # noqa: E731
        eventually(lambda: state() == "suspect", "the coordinator suspects it")
        mount = self.cluster.mount("data", "m1")
        self.assertEqual(self.epoch(mount, "cold epoch without n3"), self.FILES)
        eventually(lambda: self.blocks("n1", "n2") == 2 * self.FILES, "those that are there have copies")
        self.cluster.start_node("n3", self.CACHE)
        eventually(lambda: self.blocks() == 3 * self.FILES, "and so has the third")
        self.assertEqual(self.fetched(), self.FILES)

    def test_replicas_are_changed_and_preloads_end_with_their_copies(self):
        self.start()
        self.link("data", "", "--no-background-fill")
        done = self.cluster.json("preload", "data")["task"]
        self.assertEqual((done["state"], done["copies_missing"]), ("done", 0))
        self.assertEqual(self.fetched(), self.FILES)
        self.assertIsNone(self.row()["copies_missing"])
        eventually(lambda: self.blocks() == self.FILES, "one copy of each")
        changed = self.cluster.json("replicas", "data", "2")
        self.assertEqual((changed["changed"], changed["replicas"], changed["not_told"]), (True, 2, []))
        self.assertFalse(self.cluster.json("replicas", "data", "2")["changed"])
        eventually(lambda: self.blocks() == 2 * self.FILES, "the copies are made")
        # A preload that is done has them all.
        self.link("triple", "", "--no-background-fill", "--replicas", "3")
        done = self.cluster.json("preload", "triple")["task"]
        self.assertEqual((done["state"], done["copies_missing"]), ("done", 0))
        eventually(lambda: self.blocks() == 5 * self.FILES, "all three copies are there")
        self.assertEqual(self.fetched(), 2 * self.FILES, "one GET for each block of each link")
        self.assertIn("replicas 3, not 2", self.link_again("triple", "2").stderr)
        # Where a node is missing, a preload says so.
        self.cluster.nodes.pop("n1").kill()
        self.cluster.cli("node", "remove", "n1")
        partly = self.cluster.cli("preload", "triple", check=False)
        self.assertEqual(partly.returncode, 3, partly.stderr)
        self.assertIn(f"{self.FILES} further copies of blocks are not there", partly.stdout)
        exported = self.cluster.json("export")
        self.assertEqual({link["name"]: link.get("replicas", 1) for link in exported["links"]}, {"data": 2, "triple": 3})
        for wrong in ("0", "4", "many"):
            self.assertEqual(self.cluster.cli("replicas", "data", wrong, check=False).returncode, 2, wrong)

    def link_again(self, name, replicas):
        return self.cluster.cli("link", f"s3://{self.bucket}/", "--as", name, "--no-background-fill", "--replicas", replicas,
                                check=False)


if __name__ == "__main__":
    main()
