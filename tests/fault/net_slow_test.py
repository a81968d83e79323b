#!/usr/bin/python3
"""A node that becomes many times slower than the others does not set the pace of the cluster, no block is fetched again for
it, administrators see its name, and it is used again when it is well."""

import json
import os
import signal
import sys
import threading
import time
import unittest

import netns
from net_cluster import FILES, NetFaultTest, eventually, fault_made

# Of a link: an answer of 20 KB takes 40 ms on it, and they queue; not for so long that the node counts as silent, whose
# blocks would come from S3.
SLOW_BITS = 4_000_000
SECONDS = float(os.environ.get("FOREBAY_NET_FAULT_SECONDS", "4"))


class Stutter(threading.Thread):
    """Lets a process run for a fortieth of the time: most of its answers are quick, and readers wait for it all the same."""

    RUNS_SECONDS, STOPS_SECONDS = 0.005, 0.195

    def __init__(self, pid):
        super().__init__()
        self.pid, self.ended = pid, threading.Event()
        self.start()

    def run(self):
        try:
            while not self.ended.wait(self.RUNS_SECONDS):
                os.kill(self.pid, signal.SIGSTOP)
                self.ended.wait(self.STOPS_SECONDS)
                os.kill(self.pid, signal.SIGCONT)
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def end(self):
        self.ended.set()
        self.join()


class SlowNode(NetFaultTest):
    def alerts(self):
        return {alert["name"]: alert["message"] for alert in json.loads(
            self.cluster.cli("-o", "json", "status", check=False).stdout)["alerts"]}

    def hedges(self, result=""):
        return self.metric(self.cluster.mounts["m1"], "forebay_hedged_reads_total", result)

    def slow(self):
        return [node["id"] for node in self.stats()["nodes"] if node["slow"]]

    def test_a_slow_node_does_not_set_the_pace(self):
        """ops/test runs this one alone of those here."""
        mount = self.begin()
        load, fetched = self.load(mount), self.fetched()
        eventually(lambda: all(self.answered(name) > 500 for name in self.NODES), "its pace is known")
        self.assertEqual(self.slow(), [])
        hedges = self.hedges()
        self.network["n2"].limit(SLOW_BITS)
        fault_made(lambda: self.hedges() > hedges, "a read is hedged")
        eventually(lambda: self.slow() == ["n2"], "it is named")
        self.assertIn("node n2 answers a mount several times slower", self.alerts()["node_slow"])
        self.assertIn("up, slow", self.cluster.cli("nodes").stdout)
        # What the others lack they take from it once and keep; then it has next to nothing to do.
        eventually(lambda: self.held_by_others("n2") >= FILES * 0.97, "the others keep copies of what it has", 120)
        before, at = self.answered("n2"), time.monotonic()
        everybody = sum(self.answered(name) for name in self.NODES)
        time.sleep(SECONDS)
        shed = (self.answered("n2") - before) / (time.monotonic() - at)
        rate = (sum(self.answered(name) for name in self.NODES) - everybody) / (time.monotonic() - at)
        print(f"\n    the slow node answers {shed:.0f} reads a second of {rate:.0f}; "
              f"{self.hedges('won'):.0f} hedges won, {self.hedges('in_vain'):.0f} in vain", file=sys.stderr)
        self.assertLess(shed, rate / 10, "it sheds load")
        self.network.heal()
        eventually(lambda: self.slow() == [], "it is well again")
        self.wait_for_return("n2")
        self.finish(load, "a slow node")
        self.assertEqual(self.fetched(), fetched, "a GET was spent on it")

    def test_nor_does_one_that_stutters(self):
        mount = self.begin()
        load, fetched = self.load(mount), self.fetched()
        known = {name: self.answered(name) for name in self.NODES}
        eventually(lambda: all(self.answered(name) > known[name] + 500 for name in self.NODES), "its pace is known")
        self.assertEqual(self.slow(), [])
        stutter = Stutter(self.cluster.nodes["n2"].pid)
        self.addCleanup(stutter.end)
        eventually(lambda: self.slow() == ["n2"], "it is named")
        stutter.end()
        eventually(lambda: self.slow() == [], "it is well again")
        self.wait_for_return("n2")
        self.finish(load, "a node that stutters")
        self.assertEqual(self.fetched(), fetched, "a GET was spent on it")

    def held_by_others(self, name):
        """Blocks in the other nodes' caches; how many of the files are that node's own differs from run to run."""
        return sum(node["blocks"] for node in self.stats()["nodes"] if node["id"] != name)

    def test_one_mount_with_a_slow_way_to_a_node_is_not_the_clusters_affair(self):
        self.begin()
        self.cluster.mount("data", "m2")
        loads = [self.load(self.folder / name, readers=2) for name in ("m1", "m2")]
        eventually(lambda: all(self.answered(name) > 500 for name in self.NODES), "their pace is known")
        hedges = self.hedges()
        # What n2 sends to m1 alone.
        self.network["n2"].limit(SLOW_BITS, self.network["m1"])
        fault_made(lambda: self.hedges() > hedges, "a read is hedged")
        seen = set()
        end = time.monotonic() + 3 * SECONDS
        while time.monotonic() < end:
            seen.update(self.slow())
            time.sleep(0.2)
        self.network.heal()
        self.assertEqual(seen, set(), "one of two mounts has no majority")
        for load in loads:
            self.finish(load, "a slow way", rate=100)


if __name__ == "__main__":
    netns.skip_if_missing()
    unittest.main(verbosity=2)
