#!/usr/bin/python3
"""Who means harm to a node costs its readers no byte and no error, and the node no more memory than is said: thousands of
connections that never end their handshake, noise instead of one, and a member with a good certificate that sends frames of
2^31 bytes, noise, and reads and questions for the ring table whose answers it never takes."""

import contextlib
import json
import os
import pathlib
import re
import resource
import select
import socket
import statistics
import subprocess
import sys
import threading
import time
import unittest

import netns
from net_cluster import FILES, PORT, NetFaultTest, eventually, fault_made
from local_cluster import drop_page_cache  # after net_cluster, which knows where it is
from verified_load import HOLDS_TIMES, VerifiedTest

TESTS = pathlib.Path(os.environ.get("FOREBAY_TESTS", ""))
# Of each load, the one that is left alone and those that are not: for two floods of the member where times are held, and for
# one on each commit.
SECONDS = int(os.environ.get("FOREBAY_HOSTILE_SECONDS", "10" if HOLDS_TIMES else "5"))
ADDRESSES = 75
# Handshakes of one address may be 64 at a time (docs/WIRE.md): just fewer, and more than those.
SILENT_OF_AN_ADDRESS = 60
NOISY = 20
# Most of the time, where a server lets in so many; the addresses have 4,520, and each that is closed comes anew. For that
# the cores must be this test's: on each commit fewer do.
HALF_OPEN = 4000 if HOLDS_TIMES else 3000
# Where a process may have so many. A node lets in an eighth of its descriptors, a coordinator a quarter, and 2,048 of
# those who have not proved who they are (docs/WIRE.md).
DESCRIPTORS = 40_000
OF_A_NODE, OF_A_COORDINATOR, AT_LEAST = 8, 4, 2048
MIB = 1 << 20
MEMORY_LIMIT = 256 * MIB
BIG_BYTES = 64 * MIB
# A half-open connection with its TLS state, and what the page cache and the allocator keep beside the limit.
CONNECTION_BYTES = 128 << 10
SLACK = 256 * MIB
READS_PER_SECOND = 50
# Who means harm has machines of its own. Here it has what the node and its readers leave of these cores.
NICE = 19
# Good readers beside a member that means harm, and beside strangers who do, 99 of 100 reads (FAULTS.md). Held where times
# are. Beside both at once it is printed: all of them share these cores with the node and its readers.
TIMES_OF_CALM = 2


class Strangers(threading.Thread):
    """Connections without a certificate: silent ones, ones that say a byte now and then, and ones that say what they like.
    One that is closed is opened again. No asyncio: its connections take most of a core."""

    # The beginning of a TLS handshake of 512 bytes.
    SLOWLY = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)
    # A thousand a second: a few more than are closed after 5 seconds where all have room.
    AT_ONCE = 100
    TURN_SECONDS = 0.1
    BYTE_SECONDS = 0.5

    def __init__(self, machine, address, sources):
        super().__init__()
        self.machine, self.address = machine, address
        self.ended = threading.Event()
        self.closed = {"silent": 0, "slow": 0, "noise": 0}
        self.gone = [("slow" if i % 4 == 0 else "silent", source) for i in range(SILENT_OF_AN_ADDRESS) for source in sources]
        self.gone += [("noise", sources[i % len(sources)]) for i in range(NOISY)]
        self.here = {}  # by descriptor: the socket, its kind and source, and how much a slow one has said
        self.start()

    def run(self):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        with self.machine.inside(), select.epoll() as self.events:
            turn, byte = time.monotonic(), 0.0
            while not self.ended.is_set():
                now = time.monotonic()
                if now >= turn:
                    turn = max(turn + self.TURN_SECONDS, now - 1)  # a late one is made up for
                    for _ in range(min(self.AT_ONCE, len(self.gone))):
                        kind, source = self.gone.pop(0)
                        try:
                            self.open(kind, source)
                        except OSError:  # this process may have no more
                            self.gone.append((kind, source))
                            break
                if now >= byte:
                    byte = now + self.BYTE_SECONDS
                    self.say_a_byte()
                for descriptor, _ in self.events.poll(self.TURN_SECONDS):
                    self.hear(descriptor)
            for connection, *_ in self.here.values():
                connection.close()

    def open(self, kind, source):
        connection = socket.socket()
        connection.setblocking(False)
        try:
            connection.bind((source, 0))
        except OSError:
            connection.close()
            raise
        connection.connect_ex(self.address)
        self.here[connection.fileno()] = [connection, kind, source, 0]
        self.events.register(connection, select.EPOLLIN | (select.EPOLLOUT if kind == "noise" else 0))

    def hear(self, descriptor):
        connection, kind, source, said = self.here[descriptor]
        try:
            if kind == "noise" and not said:
                connection.send(os.urandom(600))
                self.here[descriptor][3] = 600
                self.events.modify(connection, select.EPOLLIN)
                return
            if connection.recv(4096):
                return
            self.closed[kind] += 1
        except BlockingIOError:
            return
        except (ConnectionResetError, BrokenPipeError):
            self.closed[kind] += 1
        except OSError:
            pass  # it was not opened
        self.events.unregister(connection)
        del self.here[descriptor]
        connection.close()
        self.gone.append((kind, source))

    def say_a_byte(self):
        for row in self.here.values():
            connection, kind, _, said = row
            if kind == "slow":
                with contextlib.suppress(OSError):
                    row[3] += connection.send(self.SLOWLY[said:said + 1])

    def end(self):
        self.ended.set()
        self.join()


def start_member(test, *arguments):
    """A member on m2 that means harm; `arguments` are hostile_peer's behind its trust."""
    test.cluster.join("m2", "client", "m2")
    with test.network["m2"].inside():
        member = subprocess.Popen(
            [TESTS / "hostile_peer", test.cluster.folder / "m2.trust", *map(str, arguments)],
            preexec_fn=lambda: os.nice(NICE), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)
    test.addCleanup(member.stdout.close)
    test.addCleanup(member.stderr.close)
    test.addCleanup(member.kill)
    return member


def raise_limit(test):
    """Of the descriptors of this process, which has the strangers, and of those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[1], DESCRIPTORS), max(before[1], DESCRIPTORS)))
    except ValueError:  # nobody may raise it here
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    test.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)


def crowd_of(part):
    """So many strangers are open at a time; fewer where the server has no room for HALF_OPEN: then there is always one that
    makes way."""
    room = max(AT_LEAST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // part)
    return min(HALF_OPEN, room * 95 // 100)


def check_crowd(test, open_then, least):
    """`open_then`: how many connections were open, again and again while readers were there."""
    most = statistics.median(open_then)
    print(f"    {most:.0f} connections were open most of the time, {least} are claimed", file=sys.stderr)
    test.void_unless(most >= least, f"{most:.0f} connections were open most of the time, {least} are claimed")


def start_strangers(test, victim):
    """On m2, under many addresses, at the (host, port) `victim`."""
    sources = [f"{netns.NETWORK}.{100 + i}" for i in range(ADDRESSES)]
    for source in sources:
        test.network["m2"].do("ip", "address", "add", f"{source}/24", "dev", "eth0")
    strangers = Strangers(test.network["m2"], victim, sources)
    test.addCleanup(strangers.end)
    return strangers


class Hostile(NetFaultTest):
    NODES = ("n1",)

    def status(self, key):
        """Of the node's process, in bytes."""
        text = pathlib.Path(f"/proc/{self.cluster.nodes['n1'].pid}/status").read_text()
        return int(re.search(rf"{key}:\s+(\d+) kB", text)[1]) * 1024

    def refused(self, what):
        return self.metric(self.cluster.nodes["n1"], "forebay_rpc_refused_total", what)

    def half_open(self):
        return len(self.network["n1"].do(
            "ss", "-H", "-t", "-n", "state", "established", "sport", "=", f":{PORT + 1}").splitlines())

    def watch(self):
        """For SECONDS, with answers that wait for the disk; how many connections were open, again and again."""
        open_then, end = [], time.monotonic() + SECONDS
        while time.monotonic() < end:
            drop_page_cache()
            open_then.append(self.half_open())
            time.sleep(0.5)
        return open_then

    def times(self, calm, total):
        times = total["p99_seconds"] / max(calm["p99_seconds"], 1e-5)
        print(f"    99th percentile {times:.2f} times that of the calm (bound {TIMES_OF_CALM})", file=sys.stderr)
        return times

    def hold_times(self, calm, mount, beside):
        """Answers what watch() does."""
        load = self.load(mount)
        open_then = self.watch()
        times = self.times(calm, self.end_load(load, f"beside {beside}"))
        if HOLDS_TIMES:
            self.assertLessEqual(times, TIMES_OF_CALM, f"good readers wait for {beside}")
        return open_then

    def end_load(self, load, what):
        """Every byte was right and no read failed; times are printed."""
        total = VerifiedTest.finish(self, load, what, READS_PER_SECOND)
        print(f"    99 of 100 within {total['p99_seconds'] * 1000:.2f} ms", file=sys.stderr)
        return total

    def put_big(self):
        """An object of many blocks, which the node holds."""
        bucket = f"{self.bucket}big"
        self.s3.create_bucket(Bucket=bucket)
        answer = self.s3.put_object(Bucket=bucket, Key="big", Body=os.urandom(BIG_BYTES))
        self.cluster.cli("link", f"s3://{bucket}/", "--as", "big")
        self.cluster.cli("preload", "big", "--wait", check=False)
        eventually(lambda: self.stored() >= FILES + BIG_BYTES // (4 * MIB), "the node has the large object")
        return answer["ETag"].strip('"')

    def start_member_for(self, etag):
        node = f"{self.network['n1'].address}:{PORT + 1}"
        return start_member(self, self.cluster.address, node, "big", "big", etag, BIG_BYTES, SECONDS)

    def test_its_readers_and_its_memory_are_spared(self):
        raise_limit(self)
        self.start(node_options=("--memory-limit", str(MEMORY_LIMIT)))
        self.link("data", "", "--no-background-fill")
        mount = self.cluster.mount("data", "m1")
        VerifiedTest.finish(self, self.load(mount, passes=1, readers=2), "cold epochs of two readers", 0)
        etag = self.put_big()
        load = self.load(mount)
        self.watch()
        calm = self.end_load(load, "left alone")
        before, frames, handshakes = self.status("VmHWM"), self.refused("frame"), self.refused("handshake")
        self.assertEqual(self.refused("memory"), 0, "a good reader met the limit")
        fetched = self.fetched()

        member = self.start_member_for(etag)
        self.hold_times(calm, mount, "a member")
        self.assertEqual(member.wait(timeout=60), 0)
        strangers = start_strangers(self, (self.network["n1"].address, PORT + 1))
        crowd = crowd_of(OF_A_NODE)
        fault_made(lambda: self.half_open() >= crowd, f"{crowd} connections are open")
        check_crowd(self, self.hold_times(calm, mount, "strangers"), crowd)
        load, member = self.load(mount), self.start_member_for(etag)
        open_then = self.watch()
        self.times(calm, self.end_load(load, "beside both"))
        out, err = member.communicate(timeout=60)
        strangers.end()
        self.assertEqual(member.returncode, 0, err)
        check_crowd(self, open_then, crowd)
        did, peak, most_open = json.loads(out), self.status("VmHWM"), max(open_then)
        refused = {what: self.refused(what) for what in ("frame", "handshake", "memory")}
        print(f"    {most_open} connections at a time, closed by the node: {strangers.closed}; the member: {did}; refused: {refused}\n"
              f"    VmHWM {before // MIB} MiB before, {peak // MIB} MiB after", file=sys.stderr)
        for what in ("claims", "noise", "floods", "reads", "tables"):
            self.void_unless(did[what] > 0, f"no {what} of the member: {did}")
        for kind, closed in strangers.closed.items():
            self.void_unless(closed > 0, f"no connection of the kind {kind} was closed")
        self.assertGreaterEqual(refused["frame"] - frames, did["claims"] + did["noise"])
        self.assertGreater(refused["handshake"], handshakes)
        self.assertGreater(refused["memory"], 0, "the flood met no limit")
        self.assertLess(peak, before + MEMORY_LIMIT + most_open * CONNECTION_BYTES + SLACK)
        self.assertEqual(self.fetched(), fetched, "a GET was spent on it")
        eventually(lambda: self.half_open() < 100, "the connections end")


if __name__ == "__main__":
    netns.skip_if_missing()
    unittest.main(verbosity=2)
