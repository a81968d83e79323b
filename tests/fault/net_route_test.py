#!/usr/bin/python3
"""The way to S3 is lost by one machine alone: packets vanish, or are refused. What the node there owns and nobody has cached
is fetched by other nodes in its place, once, and kept where it belongs. Where all have lost it, all wait."""

import json
import os
import sys
import time
import unittest

import netns
from net_cluster import NODES, NetFaultTest, eventually, held
from verified_load import NODE_STALL_SECONDS

# Longer than a request to S3 is waited for.
OUTAGE_SECONDS = 3 + float(os.environ.get("FOREBAY_NET_FAULT_SECONDS", "4"))
# A request to S3 is given up after five seconds; those who wait for it then wait for another node.
UNANSWERED_SECONDS = 5
LONGEST_SECONDS = held(UNANSWERED_SECONDS + NODE_STALL_SECONDS, 20)


class LostRoute(NetFaultTest):
    def lose(self, name, *how):
        self.network[name].iptables("-A", "INPUT", "-i", "lo", "-p", "tcp", "--dport", self.cluster.tunnel.port, "-j", *how)

    def test_other_nodes_ask_s3_in_its_place(self):
        self.begin()
        self.link("cold", "", "--no-background-fill")
        self.path = self.cluster.mount("cold", "m2")
        self.packets_vanish()
        self.large_packets_vanish()
        self.connections_are_refused_while_all_is_preloaded()
        self.all_nodes_have_lost_it()

    def packets_vanish(self):
        fetched, held_before = self.fetched(), self.held("n1")
        self.lose("n1", "DROP")
        self.finish_cold("packets to S3 vanish at one node of three")
        self.check_dropped("n1")
        self.assertEqual(self.fetched() - fetched, self.FILES, "each block once")
        self.check_fetched_for("n1", held_before)
        alert = eventually(lambda: self.alerts("s3_unanswered"), "status names the node")[0]
        self.assertRegex(alert, r"\bn1\b")
        print(f"\n    {alert}", file=sys.stderr)
        self.assertEqual(self.alerts("s3_refused"), [])
        self.network.heal()
        eventually(lambda: not self.alerts("s3_unanswered"), "the alert ends with its cause", 60)
        self.read_again("the same, with a way to S3 again", fetched + self.FILES)

    def large_packets_vanish(self):
        """As where no router says what the MTU is: a HEAD is answered, and no block comes. Looks are wrong again and again."""
        self.evict()
        fetched, held_before = self.fetched(), self.held("n3")
        self.network["n3"].iptables("-A", "INPUT", "-i", "lo", "-p", "tcp", "--sport", self.cluster.tunnel.port, "-m", "length",
                                    "--length", "1400:", "-j", "DROP")
        self.finish_cold("large packets from S3 vanish at one node of three")
        self.check_dropped("n3")
        self.check_fetched_for("n3", held_before)
        alert = eventually(lambda: self.alerts("s3_unanswered"), "status names the node", 60)[0]
        self.assertRegex(alert, r"\bn3\b")
        self.assertIn("MTU", alert)
        print(f"\n    {alert}", file=sys.stderr)
        self.network.heal()
        self.read_again("the same, with large packets again", self.fetched())
        self.assertGreaterEqual(self.fetched() - fetched, self.FILES)

    def connections_are_refused_while_all_is_preloaded(self):
        self.evict()
        fetched, held_before = self.fetched(), self.held("n2")
        self.lose("n2", "REJECT", "--reject-with", "tcp-reset")
        said = self.cluster.cli("preload", "cold").stdout
        print(f"    {said.splitlines()[-1]}", file=sys.stderr)
        self.assertEqual(self.fetched() - fetched, self.FILES)
        self.check_fetched_for("n2", held_before)
        self.network.heal()
        self.read_again("after the preload", fetched + self.FILES)

    def all_nodes_have_lost_it(self):
        """Nobody takes over from anybody what none can do, and when it is back nothing is read twice."""
        self.evict()
        fetched = self.fetched()
        for name in NODES:
            self.lose(name, "DROP")
        begun = time.monotonic()
        load = self.load(self.path, passes=1, readers=12)  # each node is asked
        while time.monotonic() < begun + OUTAGE_SECONDS:
            self.assertEqual({reader.poll() for reader in load.readers}, {None}, "readers wait")
            time.sleep(0.2)
        self.check_dropped(*NODES)
        self.network.heal()
        self.finish_cold("packets to S3 vanish at all nodes", LONGEST_SECONDS + OUTAGE_SECONDS, load)
        self.assertEqual(self.fetched() - fetched, self.FILES)

    def check_fetched_for(self, name, held_before):
        """By others, and it keeps the blocks: its readers look for them there."""
        fetched = self.metric(self.cluster.nodes[name], "forebay_s3_stand_in_fills_total")
        kept = self.held(name) - held_before
        print(f"    {fetched:.0f} blocks were fetched for {name}, which keeps {kept:.0f}", file=sys.stderr)
        self.void_unless(fetched > 0, f"S3 answered {name}: the fault did not happen")
        self.assertGreater(fetched, self.FILES / 10)
        self.assertGreaterEqual(kept, fetched)

    def finish_cold(self, what, longest=LONGEST_SECONDS, load=None):
        load = load or self.load(self.path, passes=1, readers=4)
        total = super(NetFaultTest, self).finish(load, what, 0, None)
        self.assertGreater(total["reads"], 0)
        self.assertLessEqual(total["longest_seconds"], longest)

    def read_again(self, what, fetched):
        self.finish(self.load(self.path, passes=1, readers=4), what, rate=0)
        self.assertEqual(self.fetched(), fetched)

    def evict(self):
        self.cluster.mounts["m2"].stop()
        self.cluster.cli("evict", "cold", "--yes", "--force")
        self.cluster.mounts["m2"].start()

    def alerts(self, name):
        status = self.cluster.cli("-o", "json", "status", check=False).stdout
        return [alert["message"] for alert in json.loads(status)["alerts"] if alert["name"] == name]


if __name__ == "__main__":
    netns.skip_if_missing()
    unittest.main(verbosity=2)
