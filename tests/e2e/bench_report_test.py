#!/usr/bin/python3
"""The page that ops/bench makes of a run: whole, well-formed and safe, whatever the JSON says. Nothing is measured."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "ops"))
import bench_charts  # noqa: E402
import bench_epochs  # noqa: E402
import bench_html  # noqa: E402
import bench_peers  # noqa: E402
import bench_report  # noqa: E402
from bench_page import check_page  # noqa: E402

NASTY = 'a</td><script>alert(1)</script> & "quoted" \'%s\' ü'


def workload(name="small"):
    """As bench_files.Workload.document has it: two rounds, three subjects."""
    subjects = [{"key": "native_hot", "title": "native, warm", "cold": False, "peer": "s3fs_warm_allowed", "forebay": False},
                {"key": "s3fs_warm_allowed", "title": NASTY, "cold": False, "peer": "s3fs_warm_allowed", "forebay": False},
                {"key": "forebay_new_mount", "title": "forebay", "cold": False, "peer": "s3fs_warm_allowed", "forebay": True}]
    runs = [{"subject": subject["key"], "round": number, "readers": readers, "files": 10, "bytes": 390_000, "errors": 0,
             "seconds": 0.25, "files_per_second": 1000.125 * (place + 1) + number + readers / 7, "gb_per_second": 0.039,
             "cpu_seconds_of_reader": 0.5, "cpu_seconds_of_daemons": 0.25, "cpu_share_of_others": 0.1,
             "fuse_ops_of_walk": {"readdirplus": 2} if subject["forebay"] else {},
             "fuse_ops": {"read": 10} if subject["forebay"] else {}}
            for place, subject in enumerate(subjects) for number in (1, 2) for readers in (1, 8)]
    visits = [{"subject": subject["key"], "round": number, "reads": 2, "gets": 0, "heads": 0, "get_bytes": 0, "gets_of_nodes": 0}
              for subject in subjects for number in (1, 2)]
    return {"name": name, "unit": "files/s" if name == "small" else "GB/s", "reads": 10, "files": 10, "bytes": 390_000, "blocks": 10, "readers": [1, 8], "rounds": 2,
            "skipped": ["rclone is not installed: skipped"], "failed": [NASTY], "subjects": subjects, "runs": runs,
            "visits": visits, "raw_tcp_gb_per_second": [] if name == "small" else [2.5, 1.25]}


def training():
    """As bench_epochs.Training.document has it, with a peer and without a measured second job."""
    runs = [{"subject": subject, "workers": 4, "jobs": 1, "cache": "full", "round": 1, "epoch": epoch, "samples": 10,
             "bytes": 390_000, "seconds": 0.5, "samples_per_second": 100.5 * epoch + place, "first_batch_seconds": 0.0625,
             "gets": 10 if epoch == 1 and subject != "native" else 0, "get_bytes": 0, "fuse_ops": 10,
             "cpu_seconds_of_loaders": 0.25, "cpu_seconds_of_daemons": 0.5}
            for place, subject in enumerate(("forebay", "native", "rclone")) for epoch in (1, 2)]
    return {"name": "54gb-files", "what": "scale", "kind": "files", "files": 10, "bytes": 390_000, "of_bytes": 54 * 10**9,
            "blocks": 10, "preloaded": False, "loader": "python", "epochs": 2, "rounds": 1, "skipped": [], "failed": [], "runs": runs,
            "medians": bench_epochs.medians(runs, 10)}


NAMESPACE = {"keys": 2000, "rounds": 1, "rates": {"forebay link": [1000.5], "one stream": [800.25]}, "lists_per_page": 1.25,
             "coordinator_peak_mib": 120.5, "snapshot": {"objects": 2000, "bytes": 84_000},
             "mount_seconds": {"first": 0.5, "again": 0.25},
             "walks": {"native": {"first": [10.5], "second": [20.5]}, "forebay": {"first": [5.5], "second": [19.5]}}}


class PageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def report(self, document):
        """What `ops/bench report` does with a file: the ended process, and the page if one was made."""
        run, out = self.folder / "run.json", self.folder / "page.html"
        run.write_text(document if isinstance(document, str) else json.dumps(document, indent=1))
        result = subprocess.run([REPOSITORY / "ops" / "bench", "report", run, "--html", out], capture_output=True, text=True,
                                timeout=60, check=False)
        return result, out.read_text() if out.exists() else None

    def test_a_run_of_files_has_bars_and_every_figure(self):
        document = bench_report.document([workload(), workload("shards")], None, [], self.folder)
        result, page = self.report(document)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        root = check_page(self, page, document)
        self.assertIn(document["machine"]["kernel"], page)
        charts = list(root.iter("{http://www.w3.org/2000/svg}svg"))
        self.assertEqual(charts[0].attrib["aria-label"], "files/s")
        # Three subjects with one and with eight readers; the longest bar is the fastest.
        bars = list(charts[0].iter("{http://www.w3.org/2000/svg}rect"))
        self.assertEqual(len(bars), 6)
        widths = {"".join(bar.itertext()).rpartition(":")[0]: float(bar.attrib["width"]) for bar in bars}
        self.assertEqual(max(widths, key=widths.get), "forebay, 8 readers")
        rates = [row["files_per_second"] for row in document["workloads"][0]["medians"]]
        self.assertAlmostEqual(min(widths.values()) / max(widths.values()), min(rates) / max(rates), places=2)
        self.assertEqual(len({bar.attrib["fill"] for bar in bars}), 6)

    def test_a_training_job_has_bars_for_each_epoch_and_says_what_part_of_the_data_it_is(self):
        document = bench_report.document([], None, [training()], self.folder)
        held = {line["what"]: line["holds"] for line in document["to_hold"]}
        self.assertEqual((held["GETs a block, 1 job, epoch 1"], held["GETs a block, 1 job, later epochs"]), (True, True))
        result, page = self.report(document)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        root = check_page(self, page, document)
        charts = {chart.attrib["aria-label"]: len(list(chart.iter("{http://www.w3.org/2000/svg}rect")))
                  for chart in root.iter("{http://www.w3.org/2000/svg}svg")}
        plan = "4 workers, 1 job, cache larger than the data"
        self.assertEqual(charts, {f"samples/s, {plan}": 6, f"seconds to the first batch, {plan}": 6,
                                  f"GETs for each block, {plan}": 4})
        self.assertIn("AWS&#x27;s has 54 GB", page)

    def test_one_get_too_many_does_not_hold(self):
        document = training()
        next(run for run in document["runs"] if run["subject"] == "forebay" and run["epoch"] == 2)["gets"] = 1
        document["medians"] = bench_epochs.medians(document["runs"], 10)
        self.assertFalse(bench_report.counts_hold(bench_report.document([], None, [document], self.folder)))

    def test_what_the_json_says_is_text_and_never_markup(self):
        document = bench_report.document([workload()], None, [], self.folder)
        _, page = self.report(document)
        self.assertNotIn("<script", page)
        self.assertIn("&lt;script&gt;", page)
        self.assertEqual(bench_html.escape(NASTY).count("<"), 0)

    def test_a_run_without_a_machine_is_drawn_too(self):
        result, page = self.report(NAMESPACE)
        self.assertEqual(result.returncode, 0, result.stderr)
        root = check_page(self, page, NAMESPACE)
        self.assertEqual([chart.attrib["aria-label"] for chart in root.iter("{http://www.w3.org/2000/svg}svg")],
                         ["keys listed a second", "files met by find a second"])

    def test_a_key_that_is_not_drawn_is_in_the_tables(self):
        document = {"schema_version": 9, "later": [{"a": 1.5, "b": {"c": [1, 2.25]}}, {"d": None}], "workloads": []}
        self.assertEqual(list(bench_charts.sections(document)), [])
        result, page = self.report(document)
        self.assertEqual(result.returncode, 0, result.stderr)
        check_page(self, page, document)

    def test_what_is_no_run_is_refused_and_makes_no_page(self):
        for text in ("", "[1, 2]", "nonsense", '{"workloads": [{"name": "small"}]}'):
            result, page = self.report(text)
            self.assertEqual((result.returncode, page), (1, None), text)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
            self.assertIn("run.json", result.stderr)

    def test_words_that_do_not_go_together_are_refused(self):
        for words in (["report"], ["report", "x.json"], ["small", "x.json"], ["small", "--without", "fuse"]):
            result = subprocess.run([REPOSITORY / "ops" / "bench", *words], capture_output=True, text=True, timeout=60,
                                    check=False)
            self.assertEqual(result.returncode, 2, words)


class PeersTest(unittest.TestCase):
    class S3:
        env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}

        def rclone_env(self):
            return {**os.environ, **self.env}

    def test_one_that_does_not_mount_is_left_out_with_its_reason_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "bin").mkdir()
            for name in bench_peers.COMMANDS:
                program = folder / "bin" / name
                program.write_text('#!/bin/sh\necho "$@" >> "$0.asked"\necho no such luck >&2\nexit 3\n')
                program.chmod(0o755)
            skipped = {}
            with unittest.mock.patch.dict(os.environ, {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}):
                names = bench_peers.installed(skipped)
                self.assertEqual((names, skipped), (list(bench_peers.COMMANDS), {}))
                found = bench_peers.start(names, folder / "work", "bucket", self.S3(), folder / "source", skipped)
            self.assertEqual((found, set(skipped)), ([], set(names)))
            for name, line in skipped.items():
                self.assertIn(f"{name} is skipped", line)
                self.assertIn("no such luck", line)
                asked = (folder / "bin" / f"{name}.asked").read_text()
                self.assertIn("bucket", asked)
            self.assertEqual(list((folder / "work").iterdir()), [])

    def test_the_bound_of_a_cache_is_in_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, command in bench_peers.COMMANDS.items():
                words = {}
                for bound in (None, 96 << 20):
                    peer = bench_peers.Peer(pathlib.Path(folder) / str(bound), name, "bucket", self.S3(), "source", bound)
                    peer.folder.mkdir(parents=True)
                    words[bound] = " ".join(map(str, command(peer)))
                bounded = any(size in words[96 << 20].split() for size in ("96", f"{96 << 20}B"))
                self.assertEqual(bounded, name not in bench_peers.UNBOUNDED, words)
                self.assertFalse("96" in words[None].split(), words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
