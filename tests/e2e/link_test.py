#!/usr/bin/python3
"""A large link is listed in key ranges at once, and its coordinator is killed again and again meanwhile: what was listed
is not listed again, nothing shows before all of it does, and the coordinator's memory stays small."""

import pathlib
import random
import re
import subprocess
import tempfile
import unittest
import urllib.request

from e2e import PROGRAMS, Cluster, eventually, main, remove

PAGE = 1000
# Keys before they are sorted take at most 64 MiB, which fewer than these fill: from there on an object more is one more in
# the tables of the file (45 bytes, common/snapshot/snapshot_builder.h) and in what is mapped meanwhile.
FEWER_AND_MORE = (1_000_000, 2_000_000)
BYTES_AN_OBJECT = 90 * 2**20 / 1e6  # that of large_link_test: 1 GiB at 10 million


class Origin:
    """An S3 that lists objects which nobody stores."""

    def __init__(self, keys, shape, latency_ms=0):
        self.process = subprocess.Popen(
            [PROGRAMS / "list_origin", "--keys", str(keys), "--shape", shape, "--latency-ms", str(latency_ms)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = self.process.stdout.readline().strip()

    def count(self, what):
        """Of "lists": all; of "pages": those for more than one key."""
        with urllib.request.urlopen(f"{self.endpoint}/-/{what}", timeout=10) as answer:
            return int(answer.read())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Link(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-e2e-"))
        self.addCleanup(remove, self.folder)

    def start(self, keys, shape, latency_ms=0):
        self.origin = Origin(keys, shape, latency_ms)
        self.addCleanup(self.origin.stop)
        self.cluster = Cluster(self.folder, PROGRAMS, {
            "AWS_ENDPOINT_URL": self.origin.endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1"})
        self.addCleanup(self.cluster.stop)
        self.cluster.start_coordinator()

    def link_state(self):
        found = [link for link in self.cluster.json("links")["links"] if link["name"] == "big"]
        return found[0] if found else None

    def test_kills_cost_only_the_pages_that_were_on_their_way(self):
        keys, seed, kills = 1_000_000, random.randrange(1 << 30), 5
        print(f"seed {seed}")
        pages = keys // PAGE
        self.start(keys, "deep", latency_ms=20)
        self.cluster.cli("link", "s3://bucket/", "--as", "big", "--detach")
        for moment in sorted(random.Random(seed).uniform(0.1, 0.95) for _ in range(kills)):
            eventually(lambda wanted=int(pages * moment): self.origin.count("pages") >= wanted, "pages are listed")
            self.cluster.coordinator.kill()
            self.cluster.start_coordinator()
            state = self.link_state()
            if state["state"] != "ready":  # nothing of it shows
                self.assertEqual(state["objects"], 0, state)
        eventually(lambda: self.link_state()["state"] == "ready", "the listing")
        self.assertEqual(self.link_state()["objects"], keys)
        self.assertIn("goes on behind", (self.folder / "coordinator.log").read_text())
        # For each kill the pages that were on their way, and for each range one that ends behind it. Beginning anew
        # would be half of the pages again and again.
        self.assertLessEqual(self.origin.count("pages"), pages + (kills + 1) * (16 + 48))
        # Once the generation is published, what it was built from goes.
        snapshots = self.folder / "coordinator" / "snapshots"
        eventually(lambda: not list(snapshots.glob("*/listing")), "the listing's files are removed")

    def peak_bytes(self):
        status = pathlib.Path(f"/proc/{self.cluster.coordinator.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10

    @unittest.skipUnless("release" in PROGRAMS.parts, "a sanitizer's allocator keeps what was freed")
    def test_an_object_more_costs_the_coordinator_few_bytes(self):
        """By the slope: what a program takes of memory without any objects says nothing of ten million."""
        fewer, more = FEWER_AND_MORE
        peaks = {}
        for keys in (fewer, more):
            self.start(keys, "imagenet")
            self.cluster.cli("link", "s3://bucket/", "--as", "big", timeout=120)
            self.assertEqual(self.link_state()["objects"], keys)
            peaks[keys] = self.peak_bytes()
            self.cluster.stop()
            remove(self.folder / "coordinator")
        slope = (peaks[more] - peaks[fewer]) / (more - fewer)
        print(f"{slope:.0f} bytes an object more: {peaks}", flush=True)
        self.assertLess(slope, BYTES_AN_OBJECT)

    def test_every_shape_is_listed_whole_in_little_memory(self):
        for shape, keys in (("flat", 120_000), ("imagenet", 120_000), ("deep", 120_000), ("flat", 1)):
            with self.subTest(shape=shape, keys=keys):
                self.start(keys, shape)
                before = self.origin.count("lists")
                self.cluster.cli("link", "s3://bucket/", "--as", "big")
                self.assertEqual(self.link_state()["objects"], keys)
                pages = -(-keys // PAGE)
                self.assertLessEqual(self.origin.count("lists") - before, pages + pages // 4 + 64 + 2 * 48 + 2 * 64 + 4)
                # 10 million take less than 1 GiB (ops/bench namespace prints it): a tenth of a GiB and the program.
                self.assertLess(self.peak_bytes(), 400 << 20)
                self.cluster.stop()
                remove(self.folder / "coordinator")


if __name__ == "__main__":
    main()
