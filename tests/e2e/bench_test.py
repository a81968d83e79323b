#!/usr/bin/python3
"""ops/bench on a small data set: it runs, its counts hold, and its JSON has every figure. No time decides."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from bench_page import check_page
from bench_run import PROGRAMS, REPOSITORY, SECONDS, leftovers

FILES = 200
OF_ALL = {"forebay_epoch1", "forebay_dropped", "forebay_new_mount", "forebay_hot"}
OURS = OF_ALL | {"forebay_local", "forebay_local_again", "forebay_by_socket"}
LARGE = {"forebay_large", "forebay_large_aligned", "forebay_large_local", "forebay_large_local_aligned"}
OVER_TLS = {"forebay_tls_dropped", "forebay_tls_new_mount"}
EVERY = {"native_hot", "native_cold", *OURS} - {"forebay_epoch1"}  # read with each number of readers


class BenchTest(unittest.TestCase):
    def test_one_round_has_every_figure_and_its_counts_hold(self):
        before = leftovers()
        page = tempfile.NamedTemporaryFile(suffix=".html")
        self.addCleanup(page.close)
        result = subprocess.run(
            [REPOSITORY / "ops" / "bench", "small", "--rounds", "1", "--files", str(FILES), "--file-kb", "39", "--programs", PROGRAMS,
             "--json", "-", "--html", page.name], capture_output=True, text=True, timeout=SECONDS, check=False,
            env={**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "RCLONE_BIND": "nonsense"})
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        workload, = document["workloads"]
        self.assertEqual((workload["files"], workload["blocks"], workload["failed"]), (FILES, FILES, []))
        self.assertGreater(len(document["machine"]["kernel"]), 0)

        subjects = {subject["key"] for subject in workload["subjects"]}
        self.assertLessEqual(OURS | OVER_TLS | {"native_hot", "native_cold"}, subjects)
        for row in workload["medians"]:
            self.assertGreater(row["files_per_second"], 0, row)
            self.assertGreater(row["cpu_seconds_per_gb"], 0, row)
            self.assertGreater(row["files_walked_per_second"], 0, row)
        self.assertEqual({(row["subject"], row["readers"]) for row in workload["medians"]},
                         {(key, readers) for key in subjects for readers in (1, 2, 8)
                          if readers == 8 or key in EVERY})
        for run in workload["runs"]:
            self.assertEqual((run["files"], run["errors"]), (FILES, 0), run)
        gets = {visit["subject"]: (visit["gets"], visit["gets_of_nodes"]) for visit in workload["visits"]}
        self.assertEqual({key: gets[key] for key in OURS | OVER_TLS},
                         {key: (FILES, FILES) if key == "forebay_epoch1" else (0, 0) for key in OURS | OVER_TLS})
        self.assertEqual([line for line in document["to_hold"] if line["decides"] and not line["holds"]], [])
        self.assertEqual(leftovers() - before, set())
        check_page(self, pathlib.Path(page.name).read_text(), document)

    def test_a_cold_epoch_costs_one_get_a_block_with_and_without_a_fill(self):
        before = leftovers()
        result = subprocess.run(
            [REPOSITORY / "ops" / "bench", "cold", "--rounds", "1", "--files", str(FILES), "--programs", PROGRAMS,
             "--json", "-"], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        cold = document["cold"]
        runs = {run["row"]: run for run in cold["runs"]}
        peers = {name for name in ("s3fs", "rclone") if shutil.which(name)}
        whole, part = (FILES, FILES), (FILES // 5, FILES // 5)
        self.assertEqual({row: (run["files"], run["gets"]) for row, run in runs.items() if row not in peers},
                         {"raw": whole, "lazy": part, "filled": whole, "filled_tls": whole})
        self.assertEqual({runs[row]["files"] for row in peers & runs.keys()}, {FILES // 5})
        self.assertEqual(runs["lazy"]["fetched_in_background"], 0)
        self.assertGreater(runs["filled"]["fetched_in_background"], 0)
        self.assertEqual(cold["failed"], [])
        for row in cold["rows"]:
            self.assertGreater(row["files_per_second"], 0, row)
            self.assertGreater(row.get("cpu_seconds_per_gb", row["row"] == "raw"), 0, row)
            if row["forebay"]:
                ops = runs[row["row"]]["fuse_ops"]
                # A mount's first messages teach the kernel that it needs no OPEN and no FLUSH.
                self.assertEqual((ops["read"], ops.get("lookup", 0)), (runs[row["row"]]["files"], 0), ops)
                self.assertLessEqual(sum(ops.values()) - ops["read"], 4, ops)
        self.assertEqual([line for line in document["to_hold"] if line["decides"] and not line["holds"]], [])
        self.assertEqual(leftovers() - before, set())

    def test_pieces_of_shards_cost_what_whole_shards_do(self):
        before = leftovers()
        result = subprocess.run(
            [REPOSITORY / "ops" / "bench", "shards", "--rounds", "1", "--shard-mb", "12", "--no-peers", "--no-tls", "--without", "disk",
             "--programs", PROGRAMS, "--json", "-"], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(document["without"], ["disk"])
        self.assertEqual([len(part["raw_tcp_gb_per_second"]) for part in document["workloads"]], [1, 0, 0])
        self.assertGreater(document["workloads"][0]["raw_tcp_gb_per_second"][0], 0)
        whole, pieces, sparse = document["workloads"]
        self.check_sparse(sparse)
        self.assertEqual([(part["name"], part["reads"], part["blocks"], part["failed"]) for part in (whole, pieces)],
                         [("shards", 4, 12, []), ("random", 4 * 80, 12, [])])
        for part in (whole, pieces):
            keys = {subject["key"] for subject in part["subjects"]} - {"forebay_local_copy"}  # where the kernel can
            self.assertEqual(keys, OF_ALL | LARGE | {"native_hot", "native_cold"})
            cold, = (visit for visit in part["visits"] if visit["subject"] == "forebay_epoch1")
            self.assertTrue(12 <= cold["gets"] <= 24, cold)
            self.assertEqual((cold["gets_of_nodes"], cold["get_bytes"]), (cold["gets"], 48_000_000))
        self.assertEqual([line for line in document["to_hold"] if line["decides"] and not line["holds"]], [])
        self.assertEqual(leftovers() - before, set())

    def check_sparse(self, sparse):
        """A fiftieth of 320 pieces of 150,000 bytes, the same in each read; each lies in one block or two of 12."""
        self.assertEqual((sparse["name"], sparse["reads"], sparse["failed"]), ("sparse", 7, []))
        self.assertTrue(4 <= sparse["blocks"] <= 12, sparse["blocks"])
        self.assertEqual({run["files"] for run in sparse["runs"]}, {7})
        size, = {run["bytes"] for run in sparse["runs"]}
        self.assertLessEqual(size, 7 * 150_000)
        cold, = (visit for visit in sparse["visits"] if visit["subject"] == "forebay_epoch1")
        ours = [visit for visit in sparse["visits"] if visit["subject"].startswith("forebay")]
        # The kernel's read-ahead may touch a block more; no byte of the data comes twice, whoever reads.
        self.assertTrue(sparse["blocks"] <= cold["gets"] <= sum(visit["gets"] for visit in ours) <= 24, ours)
        self.assertTrue(size < cold["get_bytes"] <= sum(visit["get_bytes"] for visit in ours) <= 48_000_000, ours)
        self.assertTrue(all(visit["gets"] == visit["gets_of_nodes"] for visit in ours), ours)

    def test_epochs_cost_one_get_a_block_for_all_jobs_and_none_afterwards(self):
        before = leftovers()
        page = tempfile.NamedTemporaryFile(suffix=".html")
        self.addCleanup(page.close)
        files = 350  # of 400 KB: half of them is as much as the least cache of a node
        result = subprocess.run(
            [REPOSITORY / "ops" / "bench", "epochs", "--rounds", "1", "--files", str(files), "--file-kb", "400", "--workers", "2",
             "--no-peers", "--programs", PROGRAMS, "--json", "-", "--html", page.name], capture_output=True, text=True,
            timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        training, = document["training"]
        self.assertEqual((training["files"], training["blocks"], training["failed"]), (files, files, []))
        runs = {(run["subject"], run["jobs"], run["cache"], run["epoch"]): run for run in training["runs"]}
        self.assertEqual(set(runs), {(subject, jobs, cache, epoch) for subject in ("native", "forebay") for jobs in (1, 2)
                                     for cache in ("full", "half") for epoch in (1, 2, 3)
                                     if subject == "forebay" or cache == "full"}
                         | {("forebay TLS", 1, "full", epoch) for epoch in (1, 2, 3)})
        for (subject, jobs, cache, epoch), run in runs.items():
            self.assertEqual((run["samples"], run["bytes"]), (jobs * files, jobs * training["bytes"]))
            self.assertTrue(0 < run["first_batch_seconds"] <= run["seconds"], run)
            if cache == "full":
                self.assertEqual(run["gets"], files if subject != "native" and epoch == 1 else 0, run)
        # The cache is too small, and says so: what did not fit is fetched again, and what did is not.
        later = [run["gets"] for (_, _, cache, epoch), run in runs.items() if cache == "half" and epoch > 1]
        self.assertTrue(all(0 < gets < 2 * files for gets in later), later)
        self.assertEqual([line for line in document["to_hold"] if line["decides"] and not line["holds"]], [])
        self.assertEqual(leftovers() - before, set())
        check_page(self, pathlib.Path(page.name).read_text(), document)

    def test_the_store_takes_what_its_format_says(self):
        before = leftovers()
        result = subprocess.run(
            [REPOSITORY / "ops" / "bench", "store", "--rounds", "1", "--scale", "0.01", "--programs", PROGRAMS, "--json", "-"],
            capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        store = document["store"]
        self.assertEqual({(run["subject"], run["round"]) for rates in store["rates"] for run in rates["runs"]},
                         {("store", 0), ("files", 0), ("raw", 0)})
        self.assertEqual({space["object_bytes"]: space["record_bytes"] / space["objects"] for space in store["space"]},
                         {500: 4096, 5_000: 8192, 40_000: 40_960, 1_000_000: 1_003_520, 4_194_304: 4_198_400,
                          110_000_000: 26 * 4_198_400 + 950_272})
        self.assertEqual([line for line in document["to_hold"] if line["decides"] and not line["holds"]], [])
        self.assertEqual({line["workload"] for line in document["to_hold"]}, {"store"})
        self.assertEqual(leftovers() - before, set())

    def test_a_wrong_byte_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder) / "root"
            root.mkdir()
            for name in ("a", "b"):
                (root / name).write_bytes(os.urandom(39_000))
            listed, digests = pathlib.Path(folder) / "list", pathlib.Path(folder) / "digests"
            listed.write_text("a\nb\n")
            command = [PROGRAMS / "read_files", listed, root, "--threads", "2"]
            self.assertEqual(subprocess.run([*command, "--write-digests", digests], capture_output=True,
                                            check=False).returncode, 0)
            with open(root / "b", "r+b") as file:
                file.seek(20_000)
                file.write(bytes(16))
            result = subprocess.run([*command, "--digests", digests], capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(json.loads(result.stdout)["shown"], ["b: its bytes are not those of the digest"])

    def test_pieces_are_all_of_the_files_and_a_wrong_one_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name, size in (("a", 1_000_000), ("b", 9_000_001)):
                (folder / name).write_bytes(os.urandom(size))
            (folder / "list").write_text("a\nb\n")

            def read(*words):
                result = subprocess.run([PROGRAMS / "read_files", folder / "list", folder, "--piece-bytes", "150000", *words],
                                        capture_output=True, text=True, check=False)
                figures = json.loads(result.stdout)
                return result.returncode, figures["files"], figures["bytes"], figures["blocks"], figures["shown"]

            self.assertEqual(read("--write-digests", folder / "digests"), (0, 7 + 61, 10_000_001, 1 + 3, []))
            self.assertEqual(read("--digests", folder / "digests", "--seed", "5", "--threads", "3")[:3], (0, 68, 10_000_001))
            code, count, size, blocks, _ = read("--digests", folder / "digests", "--share", "0.1")
            self.assertEqual((code, count), (0, 7))
            self.assertTrue(6 * 150_000 < size <= 7 * 150_000 and 1 <= blocks <= 4, (size, blocks))
            with open(folder / "b", "r+b") as file:
                file.seek(4_000_000)
                file.write(bytes(16))
            self.assertEqual(read("--digests", folder / "digests")[4],
                             ["b@3900000: its bytes are not those of the digest"])


if not (PROGRAMS / "read_files").exists():
    sys.exit("set FOREBAY_BIN to the folder of the programs (build/release/bin)")
unittest.main(verbosity=2)
