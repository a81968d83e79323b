#!/usr/bin/python3
"""A coordinator that nobody reaches, and nodes that die while they send: training goes on, and administrators are told."""

import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import netns
from net_cluster import FILES, NODES, NetFaultTest, eventually, held, state_of

TELL_SECONDS = held(5, 9)
SHARE = 1 / 3 + 0.05
LARGE = 32 << 20
SLOW_BITS = 80_000_000


class Control(NetFaultTest):
    def test_training_goes_on(self):
        mount = self.begin()
        self.a_node_dies_under_load(mount)
        self.a_node_dies_in_the_middle_of_an_answer()
        self.without_the_coordinator_all_but_administration_goes_on(mount)

    def without_the_coordinator_all_but_administration_goes_on(self, mount):
        self.link("cold", "", "--no-background-fill")
        self.cluster.mount("cold", "m2")
        # With the heartbeats that this waits for all nodes have heard of the link.
        self.assertEqual(self.states(), dict.fromkeys(NODES, "up"))
        load, fetched = self.load(mount), self.fetched()
        # Nothing comes back from it: worse than a machine that says that nobody listens.
        for name in (*NODES, "m1", "m2"):
            self.network["c"].drop(self.network[name])

        cold = self.folder / "m2"
        self.finish(self.load(cold, passes=1, readers=1), "a cold epoch", rate=0)
        self.assertEqual(self.fetched(), fetched + FILES)
        self.assertEqual(self.cluster.unmount("m2"), 0)
        again = self.cluster.mount("cold", "m2")
        self.assertEqual(self.cluster.nodes["n1"].stop(), 0)
        self.cluster.start_node("n1", self.CACHE)
        self.finish(self.load(again, passes=1, readers=1), "a remount and a node's restart", rate=0)
        self.check_dropped("c")
        self.admin_verbs_say_so()
        self.network.heal()
        self.wait_for_nodes("all are back")
        self.finish(load, "the coordinator cut off")
        # What n1 has of the link under load others fetched while it was restarted.
        self.assertLessEqual(self.fetched(), fetched + FILES + FILES * SHARE)

    def admin_verbs_say_so(self):
        """From a machine that cannot reach the coordinator, and has an administrator's certificate."""
        verbs = (("status",), ("links",), ("nodes",), ("link", f"s3://{self.bucket}/", "--as", "more"), ("unlink", "data"),
                 ("evict", "data", "--yes"), ("preload", "data"), ("pause", "fills"), ("token", "list"))
        env = {**self.cluster.client_env, "FOREBAY_TRUST_DIR": str(self.folder / "c.trust")}
        begin = time.monotonic()
        with self.network["m1"].inside():
            running = [(words, subprocess.Popen(
                [self.cluster.programs / "forebay", "--coordinator", self.cluster.address, *words], env=env,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)) for words in verbs]
        for words, process in running:
            said = process.communicate(timeout=60)[1]
            self.assertNotEqual(process.returncode, 0, words)
            self.assertIn(self.cluster.address, said, words)
        seconds = time.monotonic() - begin
        print(f"    {len(verbs)} verbs took {seconds:.2f} s and said: {said.strip()}", file=sys.stderr)
        self.assertLess(seconds, TELL_SECONDS)

    def a_node_dies_in_the_middle_of_an_answer(self):
        """Slow links keep answers on their way for long enough to be cut."""
        large = os.urandom(LARGE)
        self.put({"large/file": large})
        self.addCleanup(self.s3.delete_object, Bucket=self.bucket, Key="large/file")
        self.link("large", "large/", "--no-background-fill")
        mount = self.cluster.mount("large", "m2")
        before = {name: self.network[name].sent_bytes() for name in NODES}
        self.assertEqual((mount / "file").read_bytes(), large)
        # Those that have most of its blocks: one of three may have none.
        by_share = sorted(NODES, key=lambda name: self.network[name].sent_bytes() - before[name])
        for name in by_share[1:]:
            self.read_over_a_death(mount, large, name)
        self.assertEqual(self.cluster.unmount("m2"), 0)

    def read_over_a_death(self, mount, large, name):
        with open(mount / "file", "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for each in NODES:
            self.network[each].limit(SLOW_BITS)
        machine, switches = self.network[name], self.switches(mount)
        got, begin, sent = [], time.monotonic(), machine.sent_bytes()
        reader = threading.Thread(target=lambda: got.append((mount / "file").read_bytes()))
        reader.start()
        eventually(lambda: machine.sent_bytes() > sent + 300_000, "it sends an answer")
        node = self.cluster.nodes[name]
        pid = node.pid
        os.kill(pid, signal.SIGKILL)
        self.network.heal()
        reader.join(120)
        seconds = time.monotonic() - begin
        node.wait()
        died = state_of(pid) is None
        # Also where the run is void: a cluster with a killed node does not end well.
        node.process.stdout.close()
        self.cluster.start_node(name, self.CACHE)
        self.void_unless(died, f"{name} runs: the fault did not happen")
        print(f"    {name} died in the middle: {seconds:.1f} s", file=sys.stderr)
        self.assertEqual([len(body) for body in got], [len(large)])
        self.assertTrue(got[0] == large, "wrong bytes")
        self.void_unless(self.switches(mount) > switches, "no read went to another owner: the fault did not happen")

    def a_node_dies_under_load(self, mount):
        load, switches = self.load(mount), self.switches(mount)
        node = self.cluster.nodes["n2"]
        pid, held = node.pid, self.metric(node, "forebay_index_entries")
        node.kill()
        self.assertIsNone(state_of(pid))
        self.wait_for_switch(mount, switches)
        self.cluster.start_node("n2", self.CACHE)
        self.wait_for_return("n2")
        self.keep_reading()
        self.finish(load, "killed")
        self.assertGreaterEqual(self.metric(self.cluster.nodes["n2"], "forebay_index_entries"), held * 0.99)
        self.assertLessEqual(self.fetched(), FILES + held)


if __name__ == "__main__":
    netns.skip_if_missing()
    unittest.main(verbosity=2)
