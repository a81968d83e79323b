#!/usr/bin/python3
"""Certificates are renewed and everything is told to reload (SIGHUP), again and again under load: no read and no verb
fails, and no connection is given up for what a server reloads."""

import os
import signal
import unittest

import netns
from net_cluster import NODES, NetFaultTest, Verbs, eventually

ROUNDS = int(os.environ.get("FOREBAY_RELOADS", "5"))
EXPIRY = "forebay_certificate_expiry_timestamp_seconds"


class Reload(NetFaultTest):
    def connections(self, machine, others):
        """The local ends of the machine's open connections to the others."""
        ends = set()
        for other in others:
            rows = self.network[machine].do("ss", "-H", "-t", "-n", "state", "established", "dst", self.network[other].address)
            ends.update(row.split()[2] for row in rows.splitlines())
        return ends

    def hang_up(self, daemon):
        """SIGHUP; comes back when the program has reloaded."""
        count = lambda: daemon.log.read_text().count("reloading")  # noqa: E731
        before = count()
        daemon.kill(signal.SIGHUP)
        eventually(lambda: count() > before, f"{daemon.name} reloads")

    def test_nobody_notices_that_certificates_are_new(self):
        mount = self.begin()
        load, fetched, errors = self.load(mount), self.fetched(), (mount / ".forebay" / "errors").read_text()
        verbs = Verbs(self.cluster)
        self.addCleanup(verbs.end)
        eventually(lambda: all(self.answered(name) > 500 for name in NODES) and verbs.done > 0, "calls are in flight")
        ends = {name: self.metric(self.cluster.nodes[name], EXPIRY) for name in NODES}
        of_mount, of_nodes = self.connections("m1", NODES), {name: self.connections(name, "c") for name in NODES}
        self.assertGreaterEqual(len(of_mount), len(NODES))
        reloads = 0
        for _ in range(ROUNDS):
            for name in NODES:
                self.cluster.join(name, "node", name)
                self.hang_up(self.cluster.nodes[name])
            self.hang_up(self.cluster.coordinator)
            reloads += len(NODES) + 1
        for name in NODES:
            self.assertGreater(self.metric(self.cluster.nodes[name], EXPIRY), ends[name], "the new one is in force")
        self.assertEqual(of_mount - self.connections("m1", NODES), set(), "connections of readers were given up")
        # What connects opens anew, each when nobody waits for an answer on it.
        for _ in range(ROUNDS):
            self.cluster.join("m1", "client", "m1")
            self.hang_up(self.cluster.mounts["m1"])
            reloads += 1
        eventually(lambda: not of_mount & self.connections("m1", NODES), "the mount proves itself with the new one", 30)
        eventually(lambda: not any(of_nodes[name] & self.connections(name, "c") for name in NODES),
                   "the nodes prove themselves with the new ones", 30)
        self.keep_reading()
        verbs.end()
        self.finish(load, f"{reloads} reloads with {verbs.done} verbs beside them")
        self.assertEqual(verbs.failed, [])
        self.assertEqual((mount / ".forebay" / "errors").read_text(), errors)
        self.assertEqual(self.fetched(), fetched)
        self.assertEqual({node["id"]: node["state"] for node in self.stats()["nodes"]}, dict.fromkeys(NODES, "up"))
        for daemon in (*self.cluster.nodes.values(), self.cluster.coordinator, self.cluster.mounts["m1"]):
            self.assertNotIn("stay in force", daemon.log.read_text())


if __name__ == "__main__":
    netns.skip_if_missing()
    unittest.main(verbosity=2)
