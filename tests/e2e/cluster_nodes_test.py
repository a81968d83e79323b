#!/usr/bin/python3
"""Nodes are drained, removed, fenced and restarted under verified readers: every read is right, none fails, and S3 is asked
for little again. Counts of GETs are those of the S3 server's own log."""

import sys

import verified_reader
from e2e import eventually, main
from verified_load import FILES, VerifiedTest

LITTLE = FILES * 0.02


class ClusterNodes(VerifiedTest):
    def setUp(self):
        super().setUp()
        self.start()
        self.link("data", "", "--no-background-fill")
        before = self.fetched()
        self.cluster.cli("preload", "data")
        self.assertEqual(self.fetched() - before, FILES)
        self.mount = self.cluster.mount("data", "m1")

    def one_epoch(self, what, mount=None):
        """Every byte once; answers the GETs that it took."""
        before = self.fetched()
        self.finish(self.load(mount or self.mount, passes=1, readers=1), what, rate=0)
        return self.fetched() - before

    def node(self, name):
        return next(node for node in self.cluster.json("nodes")["nodes"] if node["id"] == name)

    def state(self, name):
        node = self.node(name)
        return node["state"] + (f", {node['out_because']}" if node["out_because"] else "")

    def audit(self):
        log = (self.folder / "coordinator.log").read_text()
        return [line.split("audit: ", 1)[1] for line in log.splitlines() if "audit: " in line]

    def serves_again(self, name):
        """All are up, and readers are served out of its cache."""
        self.wait_for_nodes(f"{name} is up")
        hits = self.hits(name)
        eventually(lambda: self.hits(name) > hits + 50, f"{name} serves what it holds")

    def pinned_bytes(self):
        return next(link for link in self.cluster.json("links")["links"])["pinned_bytes"]

    # One after the other in a cluster, in an order in which each finds what it needs: blocks that are nowhere but at their
    # owner, where they are counted or have yet to be copied.
    def test_drains_and_restarts(self):
        self.a_drained_node_leaves_nothing_behind_and_comes_back()
        self.a_drain_goes_on_over_a_restart_of_the_coordinator_and_can_be_taken_back()
        self.all_nodes_are_restarted_one_after_the_other()

    def test_other_capacities_and_nodes_that_are_lost_or_fenced(self):
        share = int(self.held("n3"))
        self.another_capacity_moves_the_surplus_alone()
        self.a_lost_node_costs_its_share_once(share)
        self.cluster.start_node("n3", self.CACHE)
        self.a_fenced_node_stays_out_until_it_is_taken_back()

    def a_drained_node_leaves_nothing_behind_and_comes_back(self):
        self.cluster.cli("pin", "data")
        pinned = FILES * verified_reader.FILE_BYTES
        eventually(lambda: self.pinned_bytes() == pinned, "every block is pinned")
        load = self.load(self.mount)
        before = self.fetched()
        held = self.node("n2")["blocks"]
        self.assertGreater(held, FILES / 5)
        done = self.cluster.json("node", "drain", "n2")["task"]
        self.assertEqual((done["kind"], done["target"], done["state"]), ("drain", "n2", "done"))
        self.assertEqual((done["done"], done["not_kept"]), (held, 0))
        self.assertEqual(self.state("n2"), "out, drained")
        # As a process that still runs it may not come back by itself.
        eventually(lambda: "drained by an administrator" in (self.folder / "n2.log").read_text(), "n2 says why it is out")
        self.assertEqual(self.cluster.nodes["n2"].stop(), 0)
        self.finish(load, "node drained and stopped")
        self.assertEqual(self.fetched() - before, 0, "a drain asks S3 for nothing")
        eventually(lambda: self.pinned_bytes() == pinned, "every block is pinned where it is now")
        self.assertEqual(self.one_epoch("after the drain"), 0)
        self.assertTrue(any("drains node n2: done" in line for line in self.audit()), self.audit())
        # Its next start brings it back, with what it held.
        load = self.load(self.mount)
        self.cluster.start_node("n2", self.CACHE)
        self.serves_again("n2")
        self.finish(load, "drained node started again")
        self.assertLessEqual(self.one_epoch("after its return"), LITTLE)
        self.cluster.cli("unpin", "data")

    def a_drain_goes_on_over_a_restart_of_the_coordinator_and_can_be_taken_back(self):
        # So slow that it cannot be done before it is interrupted.
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        self.cluster.start_coordinator("--drain-limit", "400kB/s")
        self.wait_for_nodes("all are back")
        load = self.load(self.mount)
        before = self.fetched()
        task = self.cluster.json("node", "drain", "n1", "--detach")["task"]
        self.assertEqual(self.state("n1"), "draining")
        self.assertIn(task, self.cluster.cli("node", "drain", "n1", "--detach").stdout)
        self.cluster.cli("node", "undrain", "n1")
        self.assertEqual(self.cluster.json("task", "show", task)["task"]["state"], "cancelled")
        self.serves_again("n1")
        task = self.cluster.json("node", "drain", "n1", "--detach")["task"]
        self.cluster.coordinator.kill()
        self.cluster.start_coordinator()
        shown = self.cluster.json("task", "show", task)["task"]
        self.assertEqual(shown["kind"], "drain")
        self.assertIn(shown["state"], ("running", "done"))
        eventually(lambda: self.cluster.json("task", "show", task)["task"]["state"] == "done", "it goes on to its end")
        self.assertEqual(self.state("n1"), "out, drained")
        self.finish(load, "drain interrupted, taken back and done")
        self.assertLessEqual(self.fetched() - before, LITTLE)

    def a_lost_node_costs_its_share_once(self, share):
        """Of all blocks, which is a third, but for the throw of the hashes."""
        load = self.load(self.mount)
        before = self.fetched()
        self.cluster.nodes.pop("n3").kill()
        removed = self.cluster.json("node", "remove", "n3")
        self.assertTrue(removed["changed"])
        self.assertFalse(self.cluster.json("node", "remove", "n3")["changed"])
        self.assertEqual(self.state("n3"), "out, removed")
        self.finish(load, "node killed and removed")
        self.one_epoch("after the removal")
        again = self.fetched() - before
        print(f"    {again} of {FILES} blocks fetched again, {share} were lost", file=sys.stderr)
        self.assertLessEqual(again, share + LITTLE)
        self.assertEqual(self.one_epoch("once more"), 0)

    def a_fenced_node_stays_out_until_it_is_taken_back(self):
        load = self.load(self.mount)
        self.cluster.cli("node", "fence", "n1")
        self.assertEqual(self.state("n1"), "out, fenced")
        self.assertEqual(self.cluster.nodes["n1"].stop(), 0)
        self.cluster.start_node("n1", self.CACHE)
        eventually(lambda: "is fenced" in (self.folder / "n1.log").read_text(), "n1 says why it is out")
        self.assertEqual(self.state("n1"), "out, fenced")
        self.cluster.cli("node", "undrain", "n1")
        self.serves_again("n1")
        self.finish(load, "node fenced and taken back")
        # What makes no sense is refused, and changes nothing.
        self.cluster.cli("node", "remove", "n1")
        epoch = self.cluster.json("node", "remove", "n2")["ring_epoch"]
        for words, sentence in ((("remove", "n3"), "the last one"), (("fence", "n3"), "the last one"),
                                (("drain", "n3"), "the last one"), (("drain", "n1"), "out of the cluster already"),
                                (("remove", "n33"), "did you mean 'n3'?")):
            refused = self.cluster.cli("node", *words, check=False)
            self.assertNotEqual(refused.returncode, 0, words)
            self.assertIn(sentence, refused.stderr, words)
        self.assertEqual(self.cluster.json("node", "remove", "n2")["ring_epoch"], epoch)
        self.assertEqual(self.state("n3"), "up")

    def all_nodes_are_restarted_one_after_the_other(self):
        """Also one that is drained: its next start brings it back."""
        load = self.load(self.mount)
        before = self.fetched()
        for name in self.NODES:
            self.assertEqual(self.cluster.nodes[name].stop(), 0)
            self.cluster.start_node(name, self.CACHE)
            self.serves_again(name)
        self.finish(load, "rolling restart")
        again = self.fetched() - before
        print(f"    {again} of {FILES} blocks fetched again", file=sys.stderr)
        self.assertLessEqual(again, LITTLE)
        self.assertEqual(self.one_epoch("after the restarts"), 0)

    def another_capacity_moves_the_surplus_alone(self):
        before = self.fetched()
        fills = self.peer_fills()
        # As from another machine: one that knew the places in the files of this machine's nodes would ask no owner.
        far = self.cluster.mount("data", "m2", "--local-reads", "network")
        # From a third of the cluster to a half: a sixth of all blocks gets a new owner, who takes it from the former one.
        self.assertEqual(self.cluster.nodes["n3"].stop(), 0)
        self.cluster.start_node("n3", "2GiB")
        eventually(lambda: self.node("n3")["capacity_bytes"] == 2 << 30, "n3 has its new size")
        self.wait_for_nodes("n3 is up")
        self.one_epoch("with twice the capacity", far)
        moved = eventually(lambda: self.peer_fills() - fills, "blocks have moved")
        print(f"    {moved} of {FILES} blocks moved", file=sys.stderr)
        self.assertAlmostEqual(moved, FILES / 6, delta=FILES * 0.03)
        # Back to a third: what goes back is still where it was.
        self.assertEqual(self.cluster.nodes["n3"].stop(), 0)
        self.cluster.start_node("n3", self.CACHE)
        eventually(lambda: self.node("n3")["capacity_bytes"] == 1 << 30, "n3 has its old size")
        self.one_epoch("with the old capacity", far)
        self.assertEqual(self.fetched() - before, 0, "S3 was asked for what other nodes hold")
        self.assertEqual(self.cluster.unmount("m2"), 0)

    def peer_fills(self):
        return sum(node["peer_fills"] for node in self.cluster.json("nodes")["nodes"])


if __name__ == "__main__":
    main()
