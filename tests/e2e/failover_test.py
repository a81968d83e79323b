#!/usr/bin/python3
"""Nodes, the coordinator and the mount's own process fail while a job trains: every read is right, none fails, little is
fetched twice."""

import json
import os
import signal
import sys
import time

from e2e import eventually, main
from mount_state import state_of, worker_of
from verified_load import DAEMON_STALL_SECONDS, FILES, VerifiedTest, fault_made

SHARE = 1 / 3 + 0.02  # of the blocks may be fetched again when one of three nodes is lost
WORKER_KILLS = 5


class Failover(VerifiedTest):
    def begin(self, nodes=None, *mount_options):
        self.start(nodes)
        self.link()
        return self.cluster.mount("data", "m1", *mount_options)

    def begin_elsewhere(self, nodes=None):
        """The nodes are as on other machines: a mount beside them reads on out of their files, whoever owns the blocks by
        now and whether their node lives (local_test.py)."""
        return self.begin(nodes, "--local-reads", "socket")

    def warm(self, mount):
        """One epoch: every block is in a cache, fetched once."""
        self.finish(self.load(mount, passes=1, readers=1), "cold epoch", rate=0)
        self.assertEqual(self.fetched(), FILES)
        # More where a node was so slow that others took copies.
        stored = lambda: sum(map(self.held, self.cluster.nodes)) >= FILES  # noqa: E731
        eventually(stored, "every block is stored")

    def switches(self, mount):
        return json.loads((mount / ".forebay" / "stats").read_text())["owner_switches"]

    def wait_for_switch(self, mount, before):
        fault_made(lambda: self.switches(mount) > before, "a read goes to another owner")

    def node(self, name):
        return next(node for node in self.cluster.json("stats")["nodes"] if node["id"] == name)

    def serves_hits(self, name):
        """Comes back once readers are served out of the node's own cache, and long enough for the rate that is claimed."""
        before = self.hits(name)
        # Fewer are too little load.
        fault_made(lambda: self.hits(name) > before + self.READS_PER_SECOND, f"{name} serves what it holds")

    def assert_refetched_little(self, before):
        again = self.fetched() - before
        print(f"    {again} of {FILES} blocks fetched again", file=sys.stderr)
        self.assertLessEqual(again, FILES * SHARE)

    # One after the other in a cluster: each asks for what it counts from where it begins.
    def test_nodes_and_the_mounts_process_that_are_killed_or_restarted(self):
        mount = self.begin_elsewhere()
        self.warm(mount)
        self.a_killed_node_is_replaced_at_once_and_useful_on_return(mount)  # first: its blocks are nowhere else
        self.a_killed_process_of_the_mount_is_replaced_at_once(mount)
        self.a_node_that_is_restarted_in_order_fails_nobody(mount)

    def test_a_node_that_joins_and_one_that_is_killed_in_a_cold_epoch(self):
        mount = self.begin_elsewhere(("n1", "n2"))
        self.warm(mount)
        self.a_node_that_joins_takes_its_blocks_from_their_former_owners(mount)
        self.a_node_killed_in_a_cold_epoch_costs_little()

    def test_a_node_that_is_paused_and_no_coordinator(self):
        mount = self.begin()
        self.warm(mount)
        self.a_paused_node_is_passed_over_and_useful_on_return(mount)
        self.without_a_coordinator_everything_goes_on()

    def a_killed_node_is_replaced_at_once_and_useful_on_return(self, mount):
        load = self.load(mount)
        pid, switches, fetched = self.cluster.nodes["n2"].pid, self.switches(mount), self.fetched()
        held = self.held("n2")
        self.cluster.nodes["n2"].kill()
        self.assertIsNone(state_of(pid))
        self.wait_for_switch(mount, switches)
        # Long enough for its share of the data set to be fetched by others.
        eventually(lambda: self.fetched() - fetched > held // 2, "others fill in its place")
        self.cluster.start_node("n2", self.CACHE)
        self.serves_hits("n2")
        self.finish(load, "node killed and restarted")
        self.assert_refetched_little(fetched)
        self.assertGreaterEqual(self.held("n2"), held * 0.99)
        after = self.fetched()
        self.finish(self.load(mount, passes=1, readers=1), "after its return", rate=0)
        self.assertEqual(self.fetched(), after, "everything is in some cache")

    def a_paused_node_is_passed_over_and_useful_on_return(self, mount):
        load = self.load(mount)
        node, switches, fetched = self.cluster.nodes["n1"], self.switches(mount), self.fetched()
        node.kill(signal.SIGSTOP)
        self.addCleanup(node.kill, signal.SIGCONT)
        fault_made(lambda: state_of(node.pid) == "T", "the node is stopped")
        self.wait_for_switch(mount, switches)
        eventually(lambda: self.in_state("suspect") == 1, "the coordinator suspects it")
        self.assertEqual(self.node("n1")["state"], "suspect")
        self.void_unless(state_of(node.pid) == "T", "the node was not stopped all the while: the fault did not happen")
        node.kill(signal.SIGCONT)
        self.wait_for_nodes("the node is back")
        self.serves_hits("n1")
        self.finish(load, "node paused")
        self.assert_refetched_little(fetched)

    def a_killed_process_of_the_mount_is_replaced_at_once(self, mount):
        """More than small reads: supervisor_test.py."""
        fetched, supervisor = self.fetched(), self.cluster.mounts["m1"].pid
        hits = lambda: sum(map(self.hits, self.cluster.nodes))  # noqa: E731
        load = self.load(mount)
        for kills in range(WORKER_KILLS + 1):
            before = hits()
            eventually(lambda past=before: hits() > past + 2 * self.READS_PER_SECOND, f"reads after {kills} kills")
            if kills < WORKER_KILLS:
                worker = worker_of(supervisor)
                os.kill(worker, signal.SIGKILL)
                fault_made(lambda old=worker: worker_of(supervisor) not in (None, old), "another process serves")
        self.finish(load, f"the mount's process killed {WORKER_KILLS} times", stall=DAEMON_STALL_SECONDS)
        self.assertEqual((mount / ".forebay" / "errors").read_text(), "")
        self.assertEqual(self.fetched(), fetched, "a GET was spent on it")

    def a_node_killed_in_a_cold_epoch_costs_little(self):
        """Of a second link of the same data."""
        self.link("cold")
        mount, begun = self.cluster.mount("cold", "m2", "--local-reads", "socket"), self.fetched()
        load = self.load(mount, passes=1, readers=1)
        eventually(lambda: self.fetched() > begun + FILES // 3, "the epoch is under way")
        pid, switches = self.cluster.nodes["n3"].pid, self.switches(mount)
        self.cluster.nodes["n3"].kill()
        self.assertIsNone(state_of(pid))
        self.wait_for_switch(mount, switches)
        self.cluster.start_node("n3", self.CACHE)
        self.finish(load, "node killed in a cold epoch", rate=0)
        self.assert_refetched_little(begun + FILES)
        fetched = self.fetched()
        warm = self.load(mount)
        self.serves_hits("n3")
        self.finish(warm, "the epoch after it")
        # What others filled while it was away comes from them.
        self.assertLessEqual(self.fetched() - fetched, FILES * 0.02)

    def a_node_that_is_restarted_in_order_fails_nobody(self, mount):
        load = self.load(mount)
        fetched, switches = self.fetched(), self.switches(mount)
        pid = self.cluster.nodes["n2"].pid
        self.assertEqual(self.cluster.nodes["n2"].stop(), 0)
        self.assertIsNone(state_of(pid))
        self.wait_for_switch(mount, switches)
        self.cluster.start_node("n2", self.CACHE)
        self.serves_hits("n2")
        self.finish(load, "node restarted")
        self.assert_refetched_little(fetched)

    def a_node_that_joins_takes_its_blocks_from_their_former_owners(self, mount):
        load = self.load(mount)
        fetched = self.fetched()
        self.cluster.start_node("n3", self.CACHE)
        eventually(lambda: self.held("n3") > FILES // 4, "the new node fills")
        self.finish(load, "node joined")
        self.assertGreater(self.node("n3")["peer_fills"], FILES // 4, "from the old ones")
        self.assertEqual(self.fetched(), fetched, "S3 was asked for what other nodes hold")

    def without_a_coordinator_everything_goes_on(self):
        self.cluster.unmount("m1")
        mount = self.cluster.mount("data", "m1")
        # A second link of the same data, so that there is something cold to read.
        self.link("cold")
        cold = self.cluster.mount("cold", "m2")
        eventually(lambda: self.link_stats()["reads"] >= FILES, "all reads are reported")
        before, fetched = self.cluster.json("stats"), self.fetched()
        load = self.load(mount)
        pid = self.cluster.coordinator.pid
        self.cluster.coordinator.kill()
        self.assertIsNone(state_of(pid))

        self.finish(self.load(cold, passes=1, readers=2), "cold epochs without a coordinator", rate=0)
        self.assertEqual(self.fetched(), fetched + FILES)
        self.assertEqual(self.cluster.unmount("m2"), 0)
        again = self.cluster.mount("cold", "m2")
        self.assertEqual(self.cluster.nodes["n1"].stop(), 0)
        self.cluster.start_node("n1", self.CACHE)
        self.finish(self.load(again, passes=1, readers=1), "remounted without a coordinator", rate=0)
        self.assertEqual(self.cluster.cli("stats", check=False, timeout=10).returncode, 1)
        self.assertIsNone(state_of(pid))

        self.cluster.start_coordinator()
        self.wait_for_nodes("all are back")
        self.finish(load, "coordinator killed")
        # Two epochs, but for what n1 counted and could tell nobody before it was stopped.
        caught_up = lambda: self.link_stats("cold")["reads"] >= FILES  # noqa: E731
        eventually(caught_up, "reads of the meantime are reported")
        after = self.cluster.json("stats")
        for old, new in zip(before["links"], after["links"], strict=True):
            for counter in ("reads", "read_bytes", "hits", "hit_bytes", "misses", "s3_gets", "s3_bytes"):
                self.assertGreaterEqual(new[counter], old[counter], (new["name"], counter))
            self.assertEqual(new["hits"] + new["misses"], new["reads"])
        self.assertLessEqual(sum(link["s3_gets"] for link in after["links"]), self.fetched())

    def test_a_coordinator_killed_while_it_lists_never_shows_half_a_listing(self):
        self.start(nodes=("n1",))
        for attempt in range(6):
            name = f"half{attempt}"
            self.link(name, "", "--detach")
            # Later and later in the listing; the last ones may have ended.
            time.sleep(0.02 * attempt)
            pid = self.cluster.coordinator.pid
            self.cluster.coordinator.kill()
            self.assertIsNone(state_of(pid))
            self.cluster.start_coordinator()
            self.link(name)
            link = next(link for link in self.cluster.json("links")["links"] if link["name"] == name)
            self.assertEqual(link["objects"], FILES)
            mount = self.cluster.mount(name, name)
            self.assertEqual(sum(len(files) for _, _, files in os.walk(mount)), FILES)
            self.assertEqual(self.cluster.unmount(name), 0)


if __name__ == "__main__":
    main()
