#!/usr/bin/python3
"""Three coordinators and three etcds on machines of their own, whose network fails: a leader that etcd does not hear, or
that does not hear etcd, is replaced by one that lists nothing again; one that only readers and nodes do not reach goes on;
without most of etcd nobody leads. Readers notice none of it."""

import base64
import concurrent.futures
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
import unittest
import urllib.request

import netns
from net_cluster import NODES, PORT, MachineDaemon, NetCluster, NetFaultTest, eventually, fault_made, state_of

from leaders import Leaders
from local_cluster import ClusterError, without_settings

ETCD = os.environ.get("FOREBAY_ETCD", "etcd")
ETCDS = ("e1", "e2", "e3")
PEER_PORT, CLIENT_PORT = 2380, 2379
FENCE = "/forebay/fence"
ADMIN_SECONDS = 5
SECONDS = float(os.environ.get("FOREBAY_NET_FAULT_SECONDS", "4"))  # that a fault without a takeover lasts
LEAST_SECONDS = 1  # of it when it has been noticed


class Etcd(MachineDaemon):
    """One of ETCDS. They believe each other, and show everybody else a certificate."""

    def __init__(self, name, network, folder):
        def peer_of(other):
            return f"http://{network[other].address}:{PEER_PORT}"

        self.url = f"https://{network[name].address}:{CLIENT_PORT}"
        super().__init__(network[name], name, [
            ETCD, f"--name={name}", f"--data-dir={folder}/{name}.data", f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}", f"--listen-peer-urls={peer_of(name)}",
            f"--initial-advertise-peer-urls={peer_of(name)}", f"--cert-file={folder}/etcd.pem",
            f"--key-file={folder}/etcd.key", "--initial-cluster=" + ",".join(f"{one}={peer_of(one)}" for one in ETCDS),
            "--log-level=error"], without_settings(os.environ), folder / f"{name}.log")

    def ask(self, path, body=None):
        """Its answer to a question of its JSON gateway."""
        unchecked = ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        data = json.dumps(body).encode() if body is not None else None
        with self.machine.inside(), urllib.request.urlopen(f"{self.url}{path}", data, timeout=5, context=unchecked) as answer:
            return json.loads(answer.read())

    def healthy(self):
        try:
            return self.ask("/health")["health"] == "true"
        except OSError:
            return False

    def wait_ready(self, seconds=60):
        eventually(self.healthy, f"{self.name} answers; {self.tail()}", seconds)


class CoordinatorsCluster(NetCluster):
    """Machines: c1 … with a coordinator each, e1 … with an etcd, a with an administrator, n1 … the nodes, m1 with a mount."""

    ADMIN = "a"
    COORDINATORS = ("c1", "c2", "c3")
    OTHERS = ("a", *ETCDS, "m1")

    def start_etcds(self):
        """With a certificate that says all their addresses, and is its own authority."""
        names = ",".join(f"IP:{self.network[name].address}" for name in ETCDS)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                        "2", "-subj", "/CN=etcd", "-addext", f"subjectAltName={names}", "-keyout", self.folder / "etcd.key",
                        "-out", self.folder / "etcd.pem"], check=True, capture_output=True)
        self.etcds = {name: Etcd(name, self.network, self.folder) for name in ETCDS}
        for etcd in self.etcds.values():
            etcd.start(wait=False)
        for etcd in self.etcds.values():
            etcd.wait_ready()

    def found(self):
        """The cluster is made on the administrator's machine; the coordinators get what they need of it."""
        self.cli("init", "--advertise", self.addresses["c1"])
        for name in self.COORDINATORS:
            own = self.folder / f"{name}.trust"
            own.mkdir(mode=0o700)
            for role in ("ca", "coordinator", "admin"):
                for ending in ("pem", "key"):
                    shutil.copy2(self.folder / "a.trust" / f"{role}.{ending}", own)

    @property
    def addresses(self):
        return {name: f"{self.network[name].address}:{PORT}" for name in self.COORDINATORS}

    @property
    def address(self):
        return ",".join(self.addresses.values())

    @property
    def join_address(self):
        return self.joined_at

    def start_standby(self, name, *options, wait=True):
        self.coordinators[name] = self.daemon(
            name, name, "forebay-coordinator", "--state-dir", self.folder / name, "--listen", self.addresses[name],
            "--etcd", ",".join(etcd.url for etcd in self.etcds.values()), "--etcd-ca", self.folder / "etcd.pem", *options)
        return self.coordinators[name].start(wait)

    def stop(self):
        try:
            return super().stop()
        finally:
            for etcd in getattr(self, "etcds", {}).values():
                if etcd.process:
                    etcd.kill()


class Coordinators(Leaders, NetFaultTest):
    CLUSTER = CoordinatorsCluster

    def start(self, nodes=None, cache=None, node_options=()):
        self.cluster.start_etcds()
        self.cluster.found()
        self.cluster.start_standbys(self.cluster.COORDINATORS)
        self.cluster.joined_at = self.cluster.addresses[self.leader()]
        self.cluster.start_nodes(nodes or NODES, cache or self.CACHE, *node_options)

    def begin(self, *mount_options):
        mount = super().begin(*mount_options)
        for name in self.cluster.COORDINATORS:
            self.copied(name)
        return mount

    def fence(self):
        """The epoch of who last took over, as etcd has it."""
        key = base64.b64encode(FENCE.encode()).decode()
        for etcd in self.cluster.etcds.values():
            if etcd.running() and etcd.healthy():
                stored = etcd.ask("/v3/kv/range", {"key": key})["kvs"][0]["value"]
                return int(base64.b64decode(stored).split(b".")[0])
        raise ClusterError("no etcd answers")

    def verb_at(self, name, *words):
        """A verb that only this coordinator is asked to do."""
        return self.cluster.cli(*words, check=False, coordinator=self.cluster.addresses[name])

    def leading(self):
        return self.cluster.coordinators[self.leader()]

    def lists(self):
        return self.gets()["lists"]

    def takeover(self, what, **ways):
        """The leader and etcd do not reach each other in these ways: another one leads, and only that one decides."""
        old, fence = self.leader(), self.fence()
        quota = self.cluster.json("links")["links"][0]["quota_bytes"]
        others = [name for name in self.cluster.COORDINATORS if name != old]
        for name in ETCDS:
            self.network[old].drop(self.network[name], **ways)
        begun = time.monotonic()
        fault_made(lambda: old not in self.leaders(), "the leader is cut off from etcd, and steps down", 30)
        self.admin_answers_after(begun, what)
        # Administrators, nodes and mounts know all three addresses.
        with concurrent.futures.ThreadPoolExecutor() as both:
            for listed in both.map(lambda name: self.verb_at(name, "links"), others):
                self.assertIn("data", listed.stdout)
        new = self.leader(other_than=old)
        self.assertEqual(self.fence(), fence + 1, "each leader raises the fencing epoch by one")
        refused = self.verb_at(old, "quota", "data", "12345678")
        self.assertNotEqual(refused.returncode, 0, "the old leader did a verb")
        self.assertEqual(self.cluster.json("links")["links"][0]["quota_bytes"], quota)
        self.wait_for_nodes()
        self.check_dropped(old)
        self.network.heal()
        # It hears who leads, and sends there whoever asks it.
        eventually(lambda: self.verb_at(old, "links").returncode == 0, "the old leader stands by", 30)
        self.assertEqual((self.leaders(), self.fence()), ([new], fence + 1))

    def test_leaders_that_etcd_or_nobody_else_reaches_and_lost_etcds_disturb_no_reader(self):
        mount = self.begin()
        self.unheard_leader(mount)
        self.replaced_leaders(mount)

    def replaced_leaders(self, mount):
        """A leader that loses etcd is replaced, and nothing is listed again."""
        load, fetched, lists = self.load(mount), self.fetched(), self.lists()
        self.takeover("cut off from etcd")
        self.takeover("etcd's replies lost", to=False)
        self.finish(load, "two leaders lost etcd")
        self.assertEqual((self.lists(), self.fetched()), (lists, fetched), "listed or fetched again")
        # Who comes now is served by the third leader.
        self.cluster.unmount("m1")
        again = self.cluster.mount("data", "m1")
        self.finish(self.load(again, passes=1, readers=1), "a new mount", rate=0)
        self.cluster.nodes["n1"].stop()
        self.cluster.start_node("n1", self.CACHE)
        self.wait_for_nodes()
        self.assertEqual((self.lists(), self.fetched()), (lists, fetched), "listed or fetched again")

    def unheard_leader(self, mount):
        load, fetched, lists = self.load(mount), self.fetched(), self.lists()
        self.cut_off_from_members()
        self.lose_etcds(ETCDS[:1])
        self.lose_etcds(ETCDS[1:])
        self.finish(load, "a leader that nobody reaches, and etcds lost")
        self.assertEqual((self.lists(), self.fetched()), (lists, fetched), "listed or fetched again")

    def cut_off_from_members(self):
        """etcd hears the leader: it leads on, and nobody takes its members for lost when it hears them again."""
        leader, fence, begun = self.leader(), self.fence(), time.monotonic()
        for name in (*NODES, "m1"):
            self.network[leader].drop(self.network[name])
        eventually(lambda: self.in_state("suspect") == len(NODES), "the leader misses its nodes")
        time.sleep(max(LEAST_SECONDS, begun + SECONDS - time.monotonic()))
        self.check_dropped(leader)
        self.assertEqual((self.leaders(), self.fence()), ([leader], fence), "nobody else may lead")
        self.network.heal()
        self.wait_for_nodes()

    def lose_etcds(self, names):
        leader, fence = self.leader(), self.fence()
        for name in names:
            self.cluster.etcds[name].kill(signal.SIGSTOP)
            self.addCleanup(self.cluster.etcds[name].kill, signal.SIGCONT)
        for name in names:
            fault_made(lambda name=name: state_of(self.cluster.etcds[name].pid) == "T", f"{name} is stopped")
        begun = time.monotonic()
        if len(names) > len(ETCDS) // 2:
            self.without_leader()
        else:
            time.sleep(SECONDS)
            # etcd elects a leader of its own; ours has its lease still, or another one is elected.
            self.admin_answers_after(begun, "a minority of etcd lost")
            self.cluster.cli("quota", "data", "1GB")
        for name in names:
            self.check_stopped(self.cluster.etcds[name])
            self.cluster.etcds[name].kill(signal.SIGCONT)
        begun = time.monotonic()
        self.admin_answers_after(begun, f"{len(names)} of {len(ETCDS)} etcds are back, {leader} led before")
        self.assertLessEqual(self.fence(), fence + 2)
        self.wait_for_nodes()

    def without_leader(self):
        begun = time.monotonic()
        eventually(lambda: not self.leaders(), "nobody leads without most of etcd", 30)
        print(f"\n    most of etcd lost: no leader after {time.monotonic() - begun:.2f} s", file=sys.stderr)
        eventually(self.verb_is_refused, "whoever asks hears of etcd", 30)
        self.assertEqual(self.leaders(), [])

    def verb_is_refused(self):
        """Whether the refusal says why; a coordinator that has just stepped down still names the last leader."""
        asked = time.monotonic()
        refused = self.cluster.cli("quota", "data", "100MB", check=False)
        took = time.monotonic() - asked
        self.assertEqual(refused.returncode, 1, refused.stderr)
        if "etcd" not in refused.stderr:
            return False
        print(f"    a verb fails after {took:.2f} s (promise {ADMIN_SECONDS} s): {refused.stderr.splitlines()[0]}",
              file=sys.stderr)
        return True


if __name__ == "__main__":
    for program in (ETCD, "openssl"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed", file=sys.stderr)
            sys.exit(netns.SKIPPED)
    netns.skip_if_missing()
    unittest.main(verbosity=2)
