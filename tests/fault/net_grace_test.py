#!/usr/bin/python3
"""Certificates whose time passes under readers. With a coordinator there they are renewed in time, and no request is lost.
Without one they end: that alarms, and is forgiven for a week. A coordinator that comes back in that week is all that is
needed; one that comes later refuses what has ended, and only a token helps. No program is started anew for any of it."""

import errno
import json
import re
import time
import unittest

from net_cluster import FILES, NetFaultTest, Verbs, eventually, fault_made
import verified_reader
from wrong_clock import DAY, HOUR, WrongClocks, skip_if_missing

LIFETIME = 30 * DAY
GRACE = 7 * DAY
REFUSAL_SECONDS = 1.1  # a connection that was refused is tried again after a second at most
EXPIRY = "forebay_certificate_expiry_timestamp_seconds"
FAILING = "forebay_certificate_renewal_failing"
MEMBERS = {"n1": "node n1", "n2": "node n2", "m1": "client m1"}


class Grace(WrongClocks, NetFaultTest):
    NODES = ("n1", "n2")

    def setUp(self):
        super().setUp()
        for machine in ("c", *MEMBERS):
            self.give_clock(machine)

    def daemons(self):
        return {**self.cluster.nodes, **self.cluster.mounts}

    def pass_time(self, seconds):
        """Everybody's clock is so far ahead from now on: that much time has passed."""
        for machine in self.clocks:
            self.set_clock(machine, seconds)

    def ends(self):
        """When the certificate of each member ends."""
        return {name: self.metric(daemon, EXPIRY) for name, daemon in self.daemons().items()}

    def failing(self):
        return {name for name, daemon in self.daemons().items() if self.metric(daemon, FAILING) == 1}

    def lines(self, name, text):
        return [line for line in self.daemons()[name].log.read_text().splitlines() if text in line]

    def connections(self):
        """The mount's ends of what is open between it and the nodes."""
        ends = set()
        for name in self.NODES:
            rows = self.network["m1"].do("ss", "-H", "-t", "-n", "state", "established", "dst", self.network[name].address)
            ends.update(row.split()[2] for row in rows.splitlines())
        return ends

    def read_over_new_connections(self):
        """Those of the readers are cut, and as many reads as are claimed go over others."""
        before = self.connections()
        self.void_unless(before, "nothing was open")
        for name in self.NODES:
            self.network["m1"].kill_connections(self.network[name])
        fault_made(lambda: not before & self.connections(), "the connections are cut")
        self.keep_reading(self.NODES)
        self.assertTrue(self.connections())

    def renewed(self, before, names=MEMBERS):
        now = self.ends()
        return all(now[name] > before[name] for name in names)

    @staticmethod
    def mount_stats(mount):
        return json.loads((mount / ".forebay" / "stats").read_text())

    def undisturbed(self, mount):
        """What the mount counts where a read did not go as it should, and the nodes where they refused something."""
        stats = self.mount_stats(mount)
        return ({name: stats[name] for name in ("failed_reads", "owner_switches", "retry_rounds")},
                [self.metric(node, "forebay_rpc_refused_total") for node in self.cluster.nodes.values()])

    def reads_answered(self):
        return sum(self.answered(name) for name in self.NODES)

    def test_certificates_are_renewed_in_time_forgiven_for_a_week_and_then_refused(self):
        mount = self.begin()
        pids = {name: daemon.pid for name, daemon in self.daemons().items()}
        fetched = self.fetched()
        now = self.renewal_in_time(mount, 0)
        now = self.outage_within_the_grace(mount, now)
        self.outage_beyond_the_grace(mount, now)
        self.assertEqual({name: daemon.pid for name, daemon in self.daemons().items()}, pids)
        self.assertEqual(self.fetched(), fetched)

    def renewal_in_time(self, mount, now):
        verbs = Verbs(self.cluster)
        self.addCleanup(verbs.end)
        before, ends, old = self.undisturbed(mount), self.ends(), self.connections()
        answered, stats = self.reads_answered(), self.mount_stats(mount)
        load = self.load(mount)
        self.keep_reading(self.NODES)
        now += LIFETIME // 3 + HOUR
        self.pass_time(now)
        eventually(lambda: self.renewed(ends), "all members renew", 30)
        eventually(lambda: not old & self.connections(), "the mount proves itself with the new one", 30)
        self.keep_reading(self.NODES)
        verbs.end()
        total = self.finish(load, f"all certificates renewed, {verbs.done} verbs beside it")
        self.assertEqual(verbs.failed, [])
        self.assertEqual(self.undisturbed(mount), before)
        # Two readers of one file at one moment may be one to the mount, and where it hedges it asks a second node.
        asked, hedges = (self.mount_stats(mount)[name] - stats[name] for name in ("reads", "hedges"))
        self.assertLessEqual(asked, total["reads"])
        self.assertIn(self.reads_answered() - answered, range(asked, asked + hedges + 1), "each read is answered once")
        for name, daemon in self.daemons().items():
            self.assertEqual(len(self.lines(name, f"the certificate of {MEMBERS[name]} is renewed until")), 1, daemon.name)
        return now

    def outage_within_the_grace(self, mount, now):
        load, ends = self.load(mount), self.ends()
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        self.pass_time(now + LIFETIME - 4 * DAY)
        eventually(lambda: self.failing() == set(MEMBERS), "each member says that it is not renewed", 30)
        for name, member in MEMBERS.items():
            self.assertEqual(len(self.lines(name, f"the certificate of {member} is not renewed, and ends at")), 1, name)
        self.pass_time(now + LIFETIME + HOUR)
        opened = self.connections()
        self.keep_reading(self.NODES)
        self.assertEqual(self.connections(), opened, "connections were given up")
        self.read_over_new_connections()
        now += LIFETIME + GRACE - HOUR
        self.pass_time(now)
        self.read_over_new_connections()
        self.assertEqual(self.ends(), ends)
        self.excuses_told()
        self.finish(load, "certificates that ended six days ago, and no coordinator")

        self.coordinators_that_come_and_go(mount)
        return now

    def coordinators_that_come_and_go(self, mount):
        """Each is there for as long as some members need to renew: those that have and those that have yet to go on together."""
        load, ends = self.load(mount), self.ends()
        for first, cut_off in (("n1", ("m1", "n2")), ("m1", ("n2",))):
            for name in cut_off:
                self.network["c"].drop(self.network[name])
            self.cluster.start_coordinator()
            eventually(lambda: self.renewed(ends, [first]), f"{first} renews")
            self.assertEqual(self.cluster.coordinator.stop(), 0)
            self.check_dropped("c")
            self.network.heal()
            for name in cut_off:
                self.void_unless(not self.renewed(ends, [name]), f"{name} has renewed")
            self.read_over_new_connections()
        self.cluster.start_coordinator()
        eventually(lambda: self.renewed(ends), "all members renew")
        eventually(lambda: not self.failing(), "nothing fails")
        self.all_is_well()
        self.finish(load, "members that renew one after the other")

    def all_is_well(self):
        eventually(lambda: {node["state"] for node in self.stats()["nodes"]} == {"up"}, "all nodes are up")
        eventually(lambda: not self.alerts(), f"no alert is left but {self.alerts()}")

    def alerts(self):
        status = self.cluster.cli("-o", "json", "status", check=False)
        return json.loads(status.stdout)["alerts"]

    def excuses_told(self):
        for name, peers in (("n1", ["client m1"]), ("n2", ["client m1"]), ("m1", ["node n1", "node n2"])):
            for peer in peers:
                self.assertEqual(len(self.lines(name, f"the certificate of {peer} ended at")), 1, self.lines(name, "ended at"))

    def outage_beyond_the_grace(self, mount, now):
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        self.pass_time(now + LIFETIME + GRACE + HOUR)
        eventually(lambda: not self.connections(), "the connections end")
        name, ends = verified_reader.name_of(7), self.ends()
        with self.assertRaises(OSError) as refused:
            (mount / name).read_bytes()
        self.assertEqual(refused.exception.errno, errno.EIO)
        said = (mount / ".forebay" / "errors").read_text()
        self.assertRegex(said, rf'EIO "{name}" .*the certificate of node n. ended at .*, and this machine\'s clock says .*: '
                         "join again with a new token")
        # One that comes now renews its own certificate, and nobody else's.
        self.cluster.start_coordinator()
        for member in MEMBERS.values():
            eventually(lambda member=member: self.is_refused(member), f"{member} is refused in a sentence")
        eventually(lambda: self.failing() == set(MEMBERS), "each member says that it is not renewed")
        self.assertEqual(self.ends(), ends)
        self.cluster.tokens.clear()
        for name, member in MEMBERS.items():
            self.cluster.join(name, member.split()[0], name)
        eventually(lambda: self.renewed(ends), "the new certificates are in force")
        eventually(lambda: self.reads_for(mount, REFUSAL_SECONDS), "the mount asks those that refused it again")
        load = self.load(mount)
        self.keep_reading(self.NODES)
        self.all_is_well()
        self.finish(load, "all have joined again")

    @staticmethod
    def reads_for(mount, seconds):
        """Whether no read fails for so long."""
        job, end = verified_reader.Files(mount, FILES), time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                for i in range(FILES):
                    job.read(i)
        except OSError:
            return False
        finally:
            job.close()
        return True

    def is_refused(self, member):
        text = rf"refused a connection.*: the certificate of {member} ended at .*: join again with a new token"
        return re.search(text, self.cluster.coordinator.log.read_text())


if __name__ == "__main__":
    skip_if_missing()
    unittest.main(verbosity=2)
