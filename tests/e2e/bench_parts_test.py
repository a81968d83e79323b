#!/usr/bin/python3
"""The parts of ops/bench that bench_test.py leaves out, on small data: they run, their counts hold, and their JSON has every
figure. No time decides."""

import sys
import unittest

from bench_run import PROGRAMS, run_bench

FILES = 200


class BenchPartsTest(unittest.TestCase):
    def test_without_fuse_the_same_bytes_come_by_the_mounts_library(self):
        document = run_bench(self, "small", "--rounds", "1", "--files", str(FILES), "--file-kb", "39", "--no-peers", "--without", "fuse")
        self.assertEqual(document["without"], ["fuse"])
        workload, = document["workloads"]
        direct = {subject["key"]: subject for subject in workload["subjects"] if subject["forebay"] and not subject["mounted"]}
        self.assertEqual(set(direct), {"forebay_no_fuse", "forebay_local_no_fuse", "forebay_tls_no_fuse"})
        for run in workload["runs"]:
            if run["subject"] in direct:
                self.assertEqual((run["files"], run["bytes"], run["fuse_ops"]), (FILES, workload["bytes"], {}), run)
        self.assertEqual(workload["failed"], [])

    def test_files_between_small_ones_and_shards_are_read_in_both_modes(self):
        document = run_bench(self, "middle", "--rounds", "1", "--files", "2", "--no-peers", "--no-tls")
        self.assertEqual([(workload["name"], workload["files"], workload["failed"]) for workload in document["workloads"]],
                         [("middle-1m", 2, []), ("middle-4m", 2, []), ("middle-8m", 2, [])])
        for workload, megabytes in zip(document["workloads"], (1, 4, 8)):
            self.assertAlmostEqual(workload["bytes"] / (2e6 * megabytes), 1, delta=0.5)
            read = {run["subject"] for run in workload["runs"]}
            self.assertLessEqual({"native_cold", "forebay_epoch1", "forebay_new_mount", "forebay_local", "forebay_large",
                                  "forebay_large_local"}, read)
            self.assertEqual({run["files"] for run in workload["runs"]}, {2})
            gets = {visit["subject"]: visit["gets"] for visit in workload["visits"]}
            self.assertEqual((gets["forebay_epoch1"], gets["forebay_large"]), (workload["blocks"], 0), gets)

    def test_the_data_sets_of_aws_have_files_and_shards_of_both_sizes(self):
        document = run_bench(self, "scale", "--gigabytes", "0.02", "--workers", "2", "--no-peers")
        self.assertEqual([(part["name"], part["kind"]) for part in document["training"]],
                         [("1gb-files", "files"), ("1gb-shards", "shards"), ("54gb-files", "files"), ("54gb-shards", "shards")])
        for part in document["training"]:
            small = part["name"].startswith("1gb")
            self.assertEqual(part["of_bytes"], (1 if small else 54) * 10**9)
            self.assertAlmostEqual(part["bytes"] / (10e6 if small else 20e6), 1, delta=0.1)
            for run in part["runs"]:
                self.assertTrue(0 < run["first_batch_seconds"] <= run["seconds"], run)
                self.assertEqual(run["bytes"], run["jobs"] * part["bytes"])
                if run["subject"].startswith("forebay") and run["cache"] == "full":
                    self.assertEqual(run["gets"], part["blocks"] if run["epoch"] == 1 else 0, (part["name"], run))
            self.assertEqual({(run["subject"], run["jobs"]) for run in part["runs"]},
                             {("forebay", 1), ("native", 1), ("forebay TLS", 1), ("forebay", 2)})

    def test_a_listing_and_a_walk_have_every_figure(self):
        keys = 20_000
        document = run_bench(self, "namespace", "--keys", str(keys), "--rounds", "1", "--without", "disk", "fuse")
        namespace = document["namespace"]
        self.assertEqual((namespace["keys"], namespace["snapshot"]["objects"], namespace["walk_files"]), (keys, keys, keys))
        for rates in (*namespace["rates"].values(), *(rates for walk in namespace["walks"].values() for rates in walk.values())):
            self.assertTrue(all(rate > 0 for rate in rates), namespace)
        self.assertEqual(set(namespace["walks"]), {"native", "forebay", "without FUSE"})
        self.assertTrue(all(ops.get("lookup", 0) == 0 for ops in namespace["walk_ops"]["first"]), namespace["walk_ops"])
        self.assertLessEqual({9, 3}, {line["figure"] for line in document["to_hold"]})
        self.assertIn(("ms to open a snapshot", 9), {(line["what"], line["figure"]) for line in document["to_hold"]})

    def test_a_preload_is_beside_its_disk_and_its_s3(self):
        document = run_bench(self, "preload", "--rounds", "2", "--shard-mb", "9")
        preload = document["preload"]
        self.assertEqual((preload["bytes"], preload["blocks"], preload["gets"]), (36_000_000, 12, [12, 12]))
        self.assertEqual({row: len(rates) for row, rates in preload["rates"].items()}, {"disk": 2, "s3": 2, "preload": 2})
        self.assertTrue(all(rate > 0 for rates in preload["rates"].values() for rate in rates), preload)
        self.assertEqual({line["figure"] for line in document["to_hold"]}, {7, 11})


if not (PROGRAMS / "read_blocks").exists():
    sys.exit("set FOREBAY_BIN to the folder of the programs (build/release/bin)")
unittest.main(verbosity=2)
