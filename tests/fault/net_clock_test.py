#!/usr/bin/python3
"""A clock that is an hour wrong. A machine that joins with one is told so, and nothing is changed anywhere. One that is a
member goes on: an hour is nothing to certificates of a month. Only a certificate that is younger than its clock believes
is refused there, with both times in one sentence, and its readers take the blocks from the other owners. S3 refuses a node
whose clock is wrong: what it owns and nobody has cached is fetched for it by other nodes."""

import json
import os
import sys
import time
import unittest

from net_cluster import NODES, NetFaultTest, eventually, fault_made
from wrong_clock import HOUR, WrongClocks, skip_if_missing

SECONDS = float(os.environ.get("FOREBAY_NET_FAULT_SECONDS", "4"))


class WrongClock(WrongClocks, NetFaultTest):
    def members(self):
        """Who has joined, and until when it is believed."""
        return {(row["role"], row["id"]): row["ends"] for row in self.cluster.json("member", "list")["members"]}

    def test_all_but_who_is_wrong_goes_on(self):
        for name in ("n1", "m2"):
            self.give_clock(name)
        mount = self.begin()
        self.one_that_joins_is_refused_in_a_sentence_and_nothing_changes("m2")
        self.one_that_runs_goes_on_and_nothing_changes(mount)
        self.cold_blocks_of_a_node_that_s3_refuses_are_fetched_by_others()
        self.a_mount_that_comes_while_one_clock_is_behind_reads_from_the_others()

    def one_that_joins_is_refused_in_a_sentence_and_nothing_changes(self, machine):
        uses = lambda: {row["id"]: row["uses_left"] for row in self.cluster.json("token", "list")["tokens"]}  # noqa: E731
        token = self.cluster.json("token", "create", "--role", "client")["join"].split(" --token ")[1]
        members, left = self.members(), uses()
        trust = self.folder / f"{machine}.trust"
        for hours in (1, -1):
            self.set_clock(machine, hours * HOUR)
            refused = self.cluster.forebay(machine, "join", self.cluster.address, "--token", token, check=False)
            self.assertIn(refused.returncode, (1, 2), refused.stderr)
            # One that is behind does not believe a coordinator whose certificate is younger than that.
            self.assertRegex(refused.stderr, r"this machine's clock says .* and the coordinator's .*: set the wrong one|"
                             r"begins at .*, and this machine's clock says .*: set the clock")
            self.assertEqual(refused.stderr.count("\n"), 1)
            self.assertFalse(trust.exists() and any(trust.iterdir()), "something is left of it")
            self.assertEqual((self.members(), uses()), (members, left))
        self.set_clock(machine, 0)
        self.cluster.forebay(machine, "join", self.cluster.address, "--token", token)

    def one_that_runs_goes_on_and_nothing_changes(self, mount):
        members, fetched, load = self.members(), self.fetched(), self.load(mount)
        self.wait_for_return("n1")
        for hours in (1, -1):
            self.set_clock("n1", hours * HOUR)
            begun, before = time.monotonic(), self.answered("n1")
            self.check_told(hours)
            time.sleep(max(0.0, begun + SECONDS - time.monotonic()))
            self.assertGreater(self.answered("n1"), before + 50, "it serves readers all the while")
            self.assertEqual(self.states(), dict.fromkeys(NODES, "up"))
            self.set_clock("n1", 0)
            eventually(lambda: not self.alerts("clock_wrong"), "the clock is right again")
        self.finish(load, "a node's clock an hour ahead, then an hour behind")
        # Once each time, and once that it was over.
        told = self.log_lines("the clock of node n1")
        self.assertEqual([line.split("node n1 ")[1].split()[0] for line in told], ["says", "is", "says", "is"], told)
        rest = self.members()
        self.assertEqual({who: rest[who] for who in members}, members, "a certificate was renewed for it")
        self.assertEqual(self.fetched(), fetched)

    def cold_blocks_of_a_node_that_s3_refuses_are_fetched_by_others(self):
        self.link("cold", "", "--no-background-fill")
        self.cluster.mounts["m1"].stop()
        path = self.cluster.mount("cold", "m1")
        self.set_clock("n1", HOUR)
        before, held_before = self.gets(), self.held("n1")
        self.finish(self.load(path, passes=1, readers=4), "cold, while S3 refuses one node of three", rate=0)
        since = {what: number - before[what] for what, number in self.gets().items()}
        self.void_unless(since["failed_gets"] > 0, "S3 refused nothing")
        refused = eventually(lambda: self.alerts("s3_refused"), "status names the node that S3 refuses")
        self.assertRegex(refused[0], r"^S3 refuses what node n1 asks of link 'cold', .*the clock of this machine or of S3 is wrong")
        print(f"    {since['failed_gets']} refused and {since['gets']} other GETs for {self.FILES} blocks", file=sys.stderr)
        self.assertEqual(since["gets"], self.FILES)
        self.assertLess(since["failed_gets"], 20, "it is not asked in vain for each block")
        self.assertGreater(self.held("n1"), held_before + self.FILES / 10, "it keeps what is its own")
        self.set_clock("n1", 0)
        eventually(lambda: not self.alerts("clock_wrong"), "the clock is right again")
        fetched = self.fetched()
        self.finish(self.load(path, passes=1, readers=4), "the same, with the right clock", rate=0)
        self.assertEqual(self.fetched(), fetched)
        self.cluster.cli("unlink", "cold", "--force")

    def a_mount_that_comes_while_one_clock_is_behind_reads_from_the_others(self):
        """Its certificate begins in what n1 takes for the future."""
        self.set_clock("n1", -HOUR)
        path = self.cluster.mount("data", "m2")
        newcomer = self.load(path)
        log = self.cluster.nodes["n1"].log
        line = fault_made(lambda: [line for line in log.read_text().splitlines() if "client m2 begins" in line], "n1 refuses it")[0]
        self.assertRegex(line, r"certificate of client m2 begins at .*, and this machine's clock says .*: set the clock")
        print(f"\n    {line}", file=sys.stderr)
        self.wait_for_switch(path, 0)
        self.keep_reading(("n2", "n3"))
        self.assertEqual(self.states(), dict.fromkeys(NODES, "up"))
        self.set_clock("n1", 0)
        self.wait_for_return("n1")
        self.finish(newcomer, "a mount that came while a node's clock was an hour behind")

    def alerts(self, name):
        status = self.cluster.cli("-o", "json", "status", check=False).stdout
        return [alert["message"] for alert in json.loads(status)["alerts"] if alert["name"] == name]

    def log_lines(self, text):
        return [line for line in self.cluster.coordinator.log.read_text().splitlines() if text in line]

    def check_told(self, hours):
        """By status, by the list of nodes and by the metric."""
        alerts = eventually(lambda: self.alerts("clock_wrong"), "status names the clock")
        way = "ahead of" if hours > 0 else "behind"
        self.assertRegex(alerts[0], f"^the clock of node n1 is 60 min {way} the coordinator's")
        nodes = {node["id"]: node for node in self.cluster.json("nodes")["nodes"]}
        self.assertEqual({name: node["wrong_clock"] for name, node in nodes.items()}, {"n1": True, "n2": False, "n3": False})
        self.assertAlmostEqual(nodes["n1"]["clock_ahead_seconds"], hours * HOUR, delta=60)
        self.assertIn("wrong clock", self.cluster.cli("nodes").stdout)
        offset = self.metric(self.cluster.coordinator, "forebay_node_clock_offset_seconds", "n1")
        self.assertAlmostEqual(offset, hours * HOUR, delta=60)


if __name__ == "__main__":
    skip_if_missing()
    unittest.main(verbosity=2)
