#!/usr/bin/python3
"""Three coordinators behind a real etcd: one leads, and when it is lost another one goes on where it was."""

import shutil
import signal
import sys
import time
import urllib.error
import urllib.request

from e2e import eventually, main
from leaders import Leaders
from mount_state import state_of
from verified_load import VerifiedTest, fault_made

FILES = 600  # of one block each
ADMIN_SECONDS = 5
NAMES = ("c1", "c2", "c3")


class Coordinators(Leaders, VerifiedTest):
    FILES = FILES
    NODES = ("n1", "n2")

    def setUp(self):
        super().setUp()
        self.before = self.gets()

    def since(self, what):
        """Requests of this kind to S3 since the test began."""
        return self.gets()[what] - self.before[what]

    def start(self, nodes=None, cache=None, node_options=()):
        self.cluster.start_etcd()
        self.cluster.start_standbys(NAMES)
        self.leader()
        self.cluster.start_nodes(nodes or self.NODES, cache or self.CACHE, *node_options)

    def readyz(self, name):
        try:
            with urllib.request.urlopen(
                    f"http://{self.cluster.coordinators[name].addresses['metrics']}/readyz", timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def listen(self, name):
        return self.cluster.coordinators[name].addresses["listen"]

    def quota(self, change=None):
        if change:
            self.cluster.cli("quota", "data", change)
        return self.cluster.json("links")["links"][0]["quota_bytes"]

    def test_one_leads_and_every_address_leads_to_it(self):
        self.start()
        self.link()
        leader = self.leader()
        standbys = [name for name in NAMES if name != leader]
        self.assertEqual(self.readyz(leader)[0], 200)
        for name in standbys:
            status, text = self.readyz(name)
            self.assertEqual(status, 503)
            self.assertIn(f"the leader is at {self.listen(leader)}", text)
            self.copied(name)
        # Lists that hold only standbys: for the command, a mount and a node.
        only = self.listen(standbys[0])
        self.assertIn("data", self.cluster.cli("links", coordinator=only).stdout)
        self.cluster.coordinators, everybody = {standbys[0]: self.cluster.coordinators[standbys[0]]}, self.cluster.coordinators
        try:
            self.cluster.start_node("n3", self.CACHE)
            mount = self.cluster.mount("data", "m1")
        finally:
            self.cluster.coordinators = everybody
        self.write_files(self.folder / "source")
        self.assert_same_tree(self.folder / "source", mount)
        nodes = {node["id"]: node["state"] for node in self.cluster.json("stats")["nodes"]}
        self.assertEqual(nodes, {"n1": "up", "n2": "up", "n3": "up"})

    def test_a_killed_leader_is_replaced_and_nothing_is_listed_or_fetched_again(self):
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        # 20 kB each at 2 MB/s: some seconds, in which the leader is lost.
        task = self.cluster.cli("preload", "data", "--rate-limit", "2MB/s", "--detach").stdout.strip()
        leader = self.leader()
        for name in NAMES:
            self.copied(name)
        done = lambda: self.cluster.json("task", "show", task)["task"]["done"]  # noqa: E731
        eventually(lambda: done() > FILES // 5, "the preload is under way")
        lists, pid = self.since("lists"), self.cluster.coordinators[leader].pid
        load = self.load(mount)
        self.assertLess(done(), FILES, "the preload ended before the fault")
        self.cluster.coordinators[leader].kill()
        begun = time.monotonic()
        self.assertIsNone(state_of(pid))
        self.admin_answers_after(begun, "leader killed")
        successor = self.leader(other_than=leader)
        ended = eventually(lambda: [row for row in [self.cluster.json("task", "show", task)["task"]] if row["state"] != "running"],
                           "the preload ends")[0]
        self.assertEqual((ended["state"], ended["done"], ended["failed"]), ("done", FILES, 0))
        self.finish(load, "leader killed")
        again = self.since("gets") - FILES
        print(f"    {again} of {FILES} blocks fetched again", file=sys.stderr)
        self.assertLessEqual(again, FILES // 100)
        self.assertEqual(self.since("lists"), lists, "the new leader listed")
        # The lost one comes back as a standby, and what changes reaches it.
        self.cluster.start_standby(leader)
        self.assertEqual(self.leaders(), [successor])
        eventually(lambda: self.readyz(leader)[0] == 503, "it says that it does not lead")
        self.assertEqual(len(self.cluster.json("links")["links"]), 1)

    def test_a_paused_leader_changes_nothing_when_it_goes_on(self):
        self.start()
        self.link()
        old = self.leader()
        for name in NAMES:
            self.copied(name)
        daemon = self.cluster.coordinators[old]
        daemon.kill(signal.SIGSTOP)
        self.addCleanup(daemon.kill, signal.SIGCONT)
        begun = time.monotonic()
        fault_made(lambda: state_of(daemon.pid) == "T", "the leader is stopped")
        self.admin_answers_after(begun, "leader paused")
        new = self.leader(other_than=old)
        quota = self.quota("100MB")
        lists = self.since("lists")
        daemon.kill(signal.SIGCONT)
        # Asked at once, and again until it is a standby. Where the verb is done, the new leader did it.
        while self.readyz(old)[0] != 503:
            if self.cluster.cli("quota", "data", "50MB", check=False, coordinator=self.listen(old)).returncode == 0:
                quota = 50_000_000
        self.assertEqual(self.quota(), quota)
        self.assertEqual(self.leaders(), [new])
        self.assertIn(self.listen(new), self.readyz(old)[1])
        self.assertEqual(self.since("lists"), lists)
        self.assertTrue(daemon.running())

    def test_without_etcd_readers_go_on_and_verbs_fail_in_time(self):
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        first = self.leader()
        self.cluster.etcd.kill()
        begun = time.monotonic()
        eventually(lambda: not self.leaders(), f"{first} steps down")
        print(f"\n    etcd lost: no leader after {time.monotonic() - begun:.2f} s", file=sys.stderr)
        # Cold: every block is a fill.
        load = self.load(mount, passes=1, readers=1)
        asked = time.monotonic()
        refused = self.cluster.cli("quota", "data", "100MB", check=False)
        took = time.monotonic() - asked
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertRegex(refused.stderr, r"etcd")
        self.assertLess(took, ADMIN_SECONDS)
        print(f"    a verb fails after {took:.2f} s: {refused.stderr.splitlines()[0]}", file=sys.stderr)
        self.finish(load, "etcd lost, cold epoch", rate=0)
        self.assertEqual(self.since("gets"), FILES)
        warm = self.load(mount)
        self.cluster.nodes["n1"].stop()
        self.cluster.start_node("n1", self.CACHE)
        self.cluster.etcd.start()
        self.leader()
        self.finish(warm, "etcd back")
        self.cluster.cli("quota", "data", "100MB")

    def test_a_verb_that_etcd_did_not_answer_was_made_or_not_for_everybody(self):
        self.start()
        self.link()
        quota = 100_000_000
        self.quota("100MB")
        made = 0
        for round_number in range(3):
            wanted = f"{200 + round_number}MB"
            etcd = self.cluster.etcd
            etcd.kill(signal.SIGSTOP)
            self.addCleanup(etcd.kill, signal.SIGCONT)
            fault_made(lambda: state_of(etcd.pid) == "T", "etcd is stopped")  # noqa: B023
            refused = self.cluster.cli("quota", "data", wanted, check=False)
            etcd.kill(signal.SIGCONT)
            self.assertEqual(refused.returncode, 1, refused.stderr)
            # Of etcd, or of the leader, whose time to lead without it may end first.
            self.assertRegex(refused.stderr, r"(etcd|the connection was lost).*not known")
            eventually(lambda: self.cluster.cli("links", check=False).returncode == 0, "the leader is heard again")
            known = self.quota()
            self.assertIn(known, (quota, (200 + round_number) * 1_000_000))
            made += known != quota
            quota = known
            # Whoever takes over knows the same.
            first = self.leader()
            self.cluster.coordinators[first].kill()
            self.leader(other_than=first)
            self.assertEqual(self.quota(), quota, f"round {round_number}")
            self.cluster.start_standby(first)
        print(f"\n    {made} of 3 changes that etcd did not answer were made", file=sys.stderr)

    def test_a_backup_goes_into_an_empty_etcd(self):
        self.start()
        self.link()
        self.cluster.cli("quota", "data", "1GB")
        mount = self.cluster.mount("data", "m1")
        self.finish(self.load(mount, passes=1, readers=2), "cold epoch", rate=0)
        backup = self.folder / "state.backup"
        self.cluster.cli("backup", backup)
        refused = self.cluster.cli("restore", backup, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("empty --etcd-prefix", refused.stderr)
        load = self.load(mount)
        for name in NAMES:
            self.cluster.coordinators[name].begin_stop()
        for name in NAMES:
            self.cluster.coordinators[name].end_stop()
        self.cluster.etcd.kill()
        shutil.rmtree(self.folder / "etcd")
        self.cluster.etcd.start()
        for name in NAMES:
            shutil.rmtree(self.folder / name)
            self.cluster.start_standby(name)
        self.leader()
        self.assertEqual(self.cluster.json("links")["links"], [])
        self.assertEqual(self.cluster.json("restore", backup)["links"], 1)
        states = lambda: {node["id"]: node["state"] for node in self.cluster.json("stats")["nodes"]}  # noqa: E731
        eventually(lambda: states() == {"n1": "up", "n2": "up"}, "the nodes follow")
        eventually(lambda: self.cluster.json("links")["links"][0]["state"] == "ready", "the link is listed again")
        self.assertEqual(self.quota(), 1_000_000_000)
        # Whoever takes over has it, too.
        first = self.leader()
        self.cluster.coordinators[first].kill()
        self.leader(other_than=first)
        self.assertEqual(self.quota(), 1_000_000_000)
        self.cluster.start_standby(first)
        self.finish(load, "etcd and all state folders lost, restored")
        self.assertEqual(self.since("gets"), FILES, "what the nodes had cached is theirs still")


if __name__ == "__main__":
    main()
