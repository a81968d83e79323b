#!/usr/bin/python3
"""Who means harm to a coordinator costs readers no byte and no error, takes no node from the cluster, keeps no administrator
waiting, and costs the coordinator no more memory than is said: thousands of connections that never end their handshake,
noise instead of one, and a member with a good certificate that sends frames of 2^31 bytes, noise, and questions for all
links, for pieces of a listing and for the ring table whose answers it never takes."""

import json
import pathlib
import re
import sys
import time
import unittest

import netns
from net_cluster import PORT, NetFaultTest, Verbs, eventually, fault_made, held
from e2e import PROGRAMS  # after net_cluster, which knows where it is
from net_hostile_test import (CONNECTION_BYTES, MIB, OF_A_COORDINATOR, SECONDS, check_crowd, crowd_of, raise_limit,
                              start_member, start_strangers)

# With prefixes so long that a few hundred answers that name all links fill what may wait on a connection.
LINKS = 60
LONG = 900
# Answers that one member has not taken (docs/WIRE.md, Calls).
ANSWERS = 128 * MIB
# What the allocator keeps beside it.
SLACK = 128 * MIB
READS_PER_SECOND = 200
# A sanitizer's coordinator is many times slower than the questions come, and keeps what was freed: it must only end well.
MEASURES = "release" in PROGRAMS.parts
# Of an administrator's question (DESIGN 2.4), and where other things run beside it.
VERB_SECONDS = held(5, 15)


class HostileToCoordinator(NetFaultTest):
    NODES = ("n1", "n2")

    def status(self, key):
        """Of the coordinator's process, in bytes."""
        text = pathlib.Path(f"/proc/{self.cluster.coordinator.pid}/status").read_text()
        return int(re.search(rf"{key}:\s+(\d+) kB", text)[1]) * 1024

    def refused(self):
        return {what: self.metric(self.cluster.coordinator, "forebay_rpc_refused_total", what)
                for what in ("frame", "handshake", "memory", "overload")}

    def half_open(self):
        return len(self.network["c"].do("ss", "-H", "-t", "-n", "state", "established", "sport", "=", f":{PORT}").splitlines())

    def watch(self):
        """For SECONDS; how many connections were open, again and again. No node is anything but up."""
        open_then, end = [], time.monotonic() + SECONDS
        while time.monotonic() < end:
            open_then.append(self.half_open())
            if MEASURES:
                self.assertEqual(self.nodes_up(), len(self.NODES))
            time.sleep(0.5)
        return open_then

    def nodes_up(self):
        return self.metric(self.cluster.coordinator, "forebay_ring_members", 'state="up"')

    def changes(self):
        """What the coordinator's log says about nodes that come, go or are silent."""
        return [line for line in self.cluster.coordinator.log.read_text().splitlines() if re.search(r" node n\d ", line)]

    def remove(self, prefixes):
        self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": [{"Key": f"{prefix}x"} for prefix in prefixes]})

    def test_its_cluster_and_its_memory_are_spared(self):
        raise_limit(self)
        mount = self.begin()
        prefixes = [f"{'x' * LONG}{number}/" for number in range(LINKS)]
        self.put({f"{prefix}x": b"x" for prefix in prefixes})
        self.addCleanup(self.remove, prefixes)
        for number, prefix in enumerate(prefixes):
            self.link(f"link-{number}", prefix, "--no-background-fill", "--refresh", "immutable")
        changes, before, refused = self.changes(), self.status("VmHWM"), self.refused()
        self.assertEqual(refused["overload"], 0)
        load, verbs, fetched = self.load(mount, readers=1), Verbs(self.cluster, "status", good=(0, 3)), self.fetched()
        self.addCleanup(verbs.end)
        strangers = start_strangers(self, (self.network["c"].address, PORT))
        crowd = crowd_of(OF_A_COORDINATOR)
        fault_made(lambda: self.half_open() >= crowd, f"{crowd} connections are open")
        member = start_member(self, self.cluster.address, "data", SECONDS)
        open_then = self.watch()
        out, err = member.communicate(timeout=60)
        verbs.end()
        self.finish(load, "a coordinator that is meant harm", READS_PER_SECOND)
        strangers.end()
        self.assertEqual(member.returncode, 0, err)
        if MEASURES:
            check_crowd(self, open_then, crowd)
        did, peak, now, most_open = json.loads(out), self.status("VmHWM"), self.refused(), max(open_then)
        more = {what: now[what] - refused[what] for what in now}
        print(f"    {most_open} connections at a time, closed by the coordinator: {strangers.closed}; the member: {did}; "
              f"refused: {more}\n    VmHWM {before // MIB} MiB before, {peak // MIB} MiB after; {verbs.done} times status, the "
              f"longest {verbs.longest_seconds:.2f} s", file=sys.stderr)
        for what in ("claims", "noise", "floods", "tables", "links", "pieces"):
            self.void_unless(did[what] > 0, f"no {what} of the member: {did}")
        for kind, closed in strangers.closed.items():
            self.void_unless(closed > 0, f"no connection of the kind {kind} was closed")
        self.assertGreaterEqual(more["frame"], did["claims"] + did["noise"])
        self.assertGreater(more["handshake"], 0)
        if MEASURES:
            self.assertLess(peak, before + ANSWERS + most_open * CONNECTION_BYTES + SLACK)
        self.void_unless(more["overload"] > 0, f"the flood met no limit: {more}")
        self.assertGreater(verbs.done, 0)
        if MEASURES:
            self.assertEqual(verbs.failed, [])
            self.assertLessEqual(verbs.longest_seconds, VERB_SECONDS)
            self.assertEqual(self.changes(), changes)
        self.assertEqual(self.fetched(), fetched, "a GET was spent on it")
        eventually(lambda: self.half_open() < 100, "the connections end")


if __name__ == "__main__":
    netns.skip_if_missing()
    unittest.main(verbosity=2)
