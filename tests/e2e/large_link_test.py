#!/usr/bin/python3
"""Two million objects: what listing, refreshing and walking them takes of memory, so that ten million stay within what is
promised: 1 GiB of the coordinator's, 1.5 GB of the kernel's slab."""

import os
import pathlib
import shutil
import sys
import tempfile
import unittest

from e2e import PROGRAMS, Cluster, main, remove

from bench_namespace import PRIMED_INODES, Origin, peak_mib, walk_and_weigh

KEYS = int(os.environ.get("FOREBAY_LARGE_KEYS", "2000000"))
# The line through what a coordinator takes without any objects and 1 GiB at 10 million: whoever stays below it here stays
# below 1 GiB there, for what it holds grows by so much an object (45 bytes while it builds, common/snapshot/snapshot_builder.h).
BASE_MIB, MIB_A_MILLION = 124, 90
# A refresh that finds something reads the listing before out of its file, and the new one to compare them: both are mapped,
# and what is mapped counts in the peak, although the kernel can have it back (ADR 37). 52.7 bytes an object each.
MIB_MAPPED_A_MILLION = 2 * 52.7e6 / 2**20


class LargeLink(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-large-"))
        self.addCleanup(remove, folder)
        if shutil.disk_usage(folder).free < KEYS * 600:
            self.skipTest(f"{folder} has no room for the listing of {KEYS:,} objects")
        self.origin = Origin(PROGRAMS, KEYS)
        self.addCleanup(self.origin.stop)
        self.cluster = Cluster(folder, PROGRAMS, self.origin.env)
        self.addCleanup(self.cluster.stop)
        self.cluster.start_coordinator()
        self.cluster.cli("link", "s3://bucket/train/", "--as", "big", timeout=500)

    def expect_little_memory(self, what, mib_a_million=MIB_A_MILLION):
        peak, most = peak_mib(self.cluster.coordinator.pid), BASE_MIB + mib_a_million * KEYS / 1e6
        print(f"{what}: {peak:,.0f} MiB at most, {most:,.0f} allowed", file=sys.stderr, flush=True)
        self.assertLess(peak, most)

    def test_memory_while_it_is_linked(self):
        self.assertEqual(self.cluster.json("links")["links"][0]["objects"], KEYS)
        self.expect_little_memory(f"linking {KEYS:,} objects")

    def test_a_refresh_of_one_key_lists_little(self):
        self.origin.hold(KEYS + 1)
        lists = self.origin.lists()
        result = self.cluster.json("refresh", f"big/{self.origin.path_of(KEYS)}")
        self.assertEqual((result["added"], result["removed"], result["changed"]), (1, 0, 0))
        self.assertLessEqual(self.origin.lists() - lists, 12)
        self.expect_little_memory(f"a refresh of one key of {KEYS:,}", MIB_A_MILLION + MIB_MAPPED_A_MILLION)

    def test_slab_after_a_walk(self):
        weight = walk_and_weigh(self.cluster.mount("big", "mount"), KEYS)
        print(f"walk of {KEYS:,} entries: {weight}", file=sys.stderr, flush=True)
        if not pathlib.Path("/proc/slabinfo").exists() or not os.access("/proc/slabinfo", os.R_OK):
            self.skipTest("only root sees what the kernel's slab consists of")
        self.assertGreater(weight["fuse_inodes"], PRIMED_INODES // 2, "the walk filled the kernel's memory, or this proves nothing")
        self.assertLessEqual(weight["fuse_inodes"], 1.1 * PRIMED_INODES)
        self.assertLess(weight["bytes_at_10_million"], 1.5e9)


if __name__ == "__main__":
    main()
