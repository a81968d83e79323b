#!/usr/bin/python3
"""ops/bench on a small data set: it runs, its counts hold, and its JSON has every figure. No time decides."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from bench_page import check_page

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("FOREBAY_BIN", "")).resolve()
FILES, SECONDS = 200, 300
OURS = {"forebay_epoch1", "forebay_dropped", "forebay_new_mount", "forebay_hot"}
EVERY = {"native_hot", "native_cold", *OURS} - {"forebay_epoch1"}  # read with each number of readers


def leftovers():
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    return {line.split()[4] for line in mounts.splitlines() if "/forebay-bench-" in line.split()[4]} | set(
        pathlib.Path(tempfile.gettempdir()).glob("forebay-*bench-*"))


class BenchTest(unittest.TestCase):
    def test_one_round_has_every_figure_and_its_counts_hold(self):
        before = leftovers()
        page = tempfile.NamedTemporaryFile(suffix=".html")
        self.addCleanup(page.close)
        result = subprocess.run(
            [REPOSITORY / "ops" / "bench", "small", "--rounds", "1", "--files", str(FILES), "--programs", PROGRAMS,
             "--json", "-", "--html", page.name], capture_output=True, text=True, timeout=SECONDS, check=False,
            env={**os.environ, "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "RCLONE_BIND": "nonsense"})
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        workload, = document["workloads"]
        self.assertEqual((workload["files"], workload["blocks"], workload["failed"]), (FILES, FILES, []))
        self.assertGreater(len(document["machine"]["kernel"]), 0)

        subjects = {subject["key"] for subject in workload["subjects"]}
        self.assertLessEqual(OURS | {"native_hot", "native_cold"}, subjects)
        for row in workload["medians"]:
            self.assertGreater(row["files_per_second"], 0, row)
            self.assertGreater(row["cpu_seconds_per_gb"], 0, row)
        self.assertEqual({(row["subject"], row["readers"]) for row in workload["medians"]},
                         {(key, readers) for key in subjects for readers in (1, 2, 8)
                          if readers == 8 or key in EVERY})
        for run in workload["runs"]:
            self.assertEqual((run["files"], run["errors"]), (FILES, 0), run)
        gets = {visit["subject"]: (visit["gets"], visit["gets_of_nodes"]) for visit in workload["visits"]}
        self.assertEqual({key: gets[key] for key in OURS},
                         {key: (FILES, FILES) if key == "forebay_epoch1" else (0, 0) for key in OURS})
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
        self.assertEqual({row: (run["files"], run["gets"]) for row, run in runs.items()},
                         {"raw": (FILES, FILES), "lazy": (FILES // 5, FILES // 5), "filled": (FILES, FILES)})
        self.assertEqual(runs["lazy"]["fetched_in_background"], 0)
        self.assertGreater(runs["filled"]["fetched_in_background"], 0)
        self.assertEqual(cold["failed"], [])
        for row in cold["rows"]:
            self.assertGreater(row["files_per_second"], 0, row)
        self.assertEqual([line for line in document["to_hold"] if line["decides"] and not line["holds"]], [])
        self.assertEqual(leftovers() - before, set())

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


if not (PROGRAMS / "read_files").exists():
    sys.exit("set FOREBAY_BIN to the folder of the programs (build/release/bin)")
unittest.main(verbosity=2)
