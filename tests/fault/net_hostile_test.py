#!/usr/bin/python3
"""Who means harm to a node costs its readers no byte and no error, and the node no more memory than is said: thousands of
connections that never end their handshake, noise instead of one, and a member with a good certificate that sends frames of
2^31 bytes, noise, and reads whose answers it never takes."""

import asyncio
import contextlib
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import threading
import time
import unittest

import netns
from net_cluster import FILES, PORT, NetFaultTest, eventually, fault_made
from local_cluster import drop_page_cache  # after net_cluster, which knows where it is
from verified_load import VerifiedTest

TESTS = pathlib.Path(os.environ.get("FOREBAY_TESTS", ""))
# Of each of the two loads, the one that is left alone and the one that is not.
SECONDS = int(os.environ.get("FOREBAY_HOSTILE_SECONDS", "10"))
ADDRESSES = 50
# Handshakes of one address may be 64 at a time (docs/WIRE.md): just fewer, and more than those.
SILENT_OF_AN_ADDRESS = 60
NOISY = 20
HALF_OPEN = 2000
MIB = 1 << 20
MEMORY_LIMIT = 256 * MIB
BIG_BYTES = 64 * MIB
# A half-open connection with its TLS state, and what the page cache and the allocator keep beside the limit.
CONNECTION_BYTES = 128 << 10
SLACK = 256 * MIB
READS_PER_SECOND = 50


class Strangers(threading.Thread):
    """Connections without a certificate: silent ones, ones that say a byte now and then, and ones that say what they like."""

    def __init__(self, machine, address, sources):
        super().__init__()
        self.machine, self.address, self.sources = machine, address, sources
        self.ended = threading.Event()
        self.closed = {"silent": 0, "slow": 0, "noise": 0}
        self.start()

    def run(self):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        with self.machine.inside():
            asyncio.run(self.connect_all())

    async def connect_all(self):
        kinds = [("slow" if i % 4 == 0 else "silent", source) for source in self.sources for i in range(SILENT_OF_AN_ADDRESS)]
        kinds += [("noise", self.sources[i % len(self.sources)]) for i in range(NOISY)]
        tasks = [asyncio.create_task(self.connect_on(kind, source)) for kind, source in kinds]
        while not self.ended.is_set():
            await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def connect_on(self, kind, source):
        while True:
            with contextlib.suppress(OSError):
                await self.connect(kind, source)
            await asyncio.sleep(0.1)

    async def connect(self, kind, source):
        reader, writer = await asyncio.open_connection(*self.address, local_addr=(source, 0))
        try:
            if kind == "noise":
                writer.write(os.urandom(600))
            saying = asyncio.create_task(self.trickle(writer)) if kind == "slow" else None
            try:
                while await reader.read(4096):
                    pass
            finally:
                if saying:
                    saying.cancel()
                self.closed[kind] += 1
        finally:
            writer.close()

    @staticmethod
    async def trickle(writer):
        """The beginning of a TLS handshake of 512 bytes."""
        for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500):
            writer.write(bytes([byte]))
            await asyncio.sleep(0.5)

    def end(self):
        self.ended.set()
        self.join()


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
        eventually(lambda: sum(node["blocks"] for node in self.stats()["nodes"]) >= FILES + BIG_BYTES // (4 * MIB),
                   "the node has the large object")
        return answer["ETag"].strip('"')

    def start_member(self, etag):
        self.cluster.join("m2", "client", "m2")
        with self.network["m2"].inside():
            member = subprocess.Popen(
                [TESTS / "hostile_peer", self.cluster.folder / "m2.trust", self.cluster.address,
                 f"{self.network['n1'].address}:{PORT + 1}", "big", "big", etag, str(BIG_BYTES), str(SECONDS)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(member.stdout.close)
        self.addCleanup(member.stderr.close)
        self.addCleanup(member.kill)
        return member

    def start_strangers(self):
        sources = [f"{netns.NETWORK}.{100 + i}" for i in range(ADDRESSES)]
        for source in sources:
            self.network["m2"].do("ip", "address", "add", f"{source}/24", "dev", "eth0")
        strangers = Strangers(self.network["m2"], (self.network["n1"].address, PORT + 1), sources)
        self.addCleanup(strangers.end)
        return strangers

    def test_its_readers_and_its_memory_are_spared(self):
        self.start(node_options=("--memory-limit", str(MEMORY_LIMIT)))
        self.link("data", "", "--no-background-fill")
        mount = self.cluster.mount("data", "m1")
        VerifiedTest.finish(self, self.load(mount, passes=1, readers=2), "cold epochs of two readers", 0)
        etag = self.put_big()
        load = self.load(mount)
        time.sleep(SECONDS)
        calm = self.end_load(load, "left alone")
        before, frames, handshakes = self.status("VmHWM"), self.refused("frame"), self.refused("handshake")
        self.assertEqual(self.refused("memory"), 0, "a good reader met the limit")
        fetched = self.fetched()

        load, strangers, member = self.load(mount), self.start_strangers(), self.start_member(etag)
        fault_made(lambda: self.half_open() >= HALF_OPEN, f"{HALF_OPEN} connections are open")
        most_open = self.half_open()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            drop_page_cache()  # so that answers wait for the disk
            most_open = max(most_open, self.half_open())
            time.sleep(0.5)
        total = self.end_load(load, "beside who means harm")
        out, err = member.communicate(timeout=60)
        strangers.end()
        self.assertEqual(member.returncode, 0, err)
        did, peak = json.loads(out), self.status("VmHWM")
        refused = {what: self.refused(what) for what in ("frame", "handshake", "memory")}
        print(f"    {most_open} connections at a time, closed by the node: {strangers.closed}; the member: {did}; refused: {refused}\n"
              f"    99th percentile {total['p99_seconds'] / max(calm['p99_seconds'], 1e-5):.2f} times that of the calm (bound 2); "
              f"VmHWM {before // MIB} MiB before, {peak // MIB} MiB after", file=sys.stderr)
        for what in ("claims", "noise", "floods", "reads"):
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
