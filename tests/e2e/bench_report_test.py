#!/usr/bin/python3
"""The page that ops/bench makes of a run: whole, well-formed and safe, whatever the JSON says. Nothing is measured."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "ops"))
import bench_charts  # noqa: E402
import bench_cluster  # noqa: E402
import bench_epochs  # noqa: E402
import bench_files  # noqa: E402
import bench_hold  # noqa: E402
import bench_html  # noqa: E402
import bench_machine  # noqa: E402
import bench_peers  # noqa: E402
import bench_preload  # noqa: E402
import bench_report  # noqa: E402
from bench_page import check_page  # noqa: E402

NASTY = 'a</td><script>alert(1)</script> & "quoted" \'%s\' ü'


def workload(name="small"):
    """As bench_files.Workload.document has it: two rounds, three subjects."""
    subjects = [{"key": "native_hot", "title": "native, warm", "cold": False, "peer": "s3fs_warm_allowed", "forebay": False, "mounted": False},
                {"key": "s3fs_warm_allowed", "title": NASTY, "cold": False, "peer": "s3fs_warm_allowed", "forebay": False,
                 "mounted": False},
                {"key": "forebay_new_mount", "title": "forebay", "cold": False, "peer": "s3fs_warm_allowed", "forebay": True, "mounted": True},
                {"key": "forebay_epoch1", "title": "forebay, epoch 1", "cold": True, "peer": "s3fs_warm_allowed", "forebay": True, "mounted": True}]
    runs = [{"subject": subject["key"], "round": number, "readers": readers, "files": 10, "bytes": 390_000, "errors": 0,
             "seconds": 0.25, "files_per_second": 1000.125 * (place + 1) + number + readers / 7, "gb_per_second": 0.039,
             "cpu_seconds_of_reader": 0.5, "cpu_seconds_of_daemons": 0.25, "cpu_share_of_others": 0.1,
             "walk_seconds": 0.125, "fuse_ops_of_walk": {"readdirplus": 2} if subject["forebay"] else {},
             "fuse_ops": {"read": 10} if subject["forebay"] else {}}
            for place, subject in enumerate(subjects) for number in (1, 2) for readers in (1, 8)]
    visits = [{"subject": subject["key"], "round": number, "reads": 2, "gets": 10 * subject["cold"], "heads": 0,
               "get_bytes": 390_000 * subject["cold"], "gets_of_nodes": 10 * subject["cold"]}
              for subject in subjects for number in (1, 2)]
    return {"name": name, "pil": {"files": 10, "reads": 10} if name == "small" else None, "checksum_seconds_per_byte": 2e-8,
            "unit": {"small": "files/s", "sparse": "pieces/s"}.get(name, "GB/s"), "reads": 10, "files": 10, "bytes": 390_000, "blocks": 10, "readers": [1, 8], "rounds": 2,
            "skipped": ["rclone is not installed: skipped"], "failed": [NASTY], "subjects": subjects, "runs": runs,
            "visits": visits, "raw_tcp_gb_per_second": [2.5, 1.25] if name == "shards" else []}


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
        # Four subjects with one and with eight readers; the longest bar is the fastest.
        bars = list(charts[0].iter("{http://www.w3.org/2000/svg}rect"))
        self.assertEqual(len(bars), 8)
        widths = {"".join(bar.itertext()).rpartition(":")[0]: float(bar.attrib["width"]) for bar in bars}
        self.assertEqual(max(widths, key=widths.get), "forebay, epoch 1, 8 readers")
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

    def test_parts_with_clusters_of_their_own_are_in_a_run_of_all(self):
        line = bench_hold.at_most("namespace", "bytes of snapshot an object", 60.0, 56, decides=True)
        document = bench_report.document([workload()], None, [training()], self.folder, (),
                                         {"namespace": {**NAMESPACE, "to_hold": [line]}})
        self.assertEqual((document["to_hold"][-1], document["namespace"]["keys"]), (line, 2000))
        self.assertFalse(bench_report.counts_hold(document))
        result, page = self.report(document)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        check_page(self, page, document)

    def test_all_is_every_part_that_its_help_names(self):
        text = subprocess.run([REPOSITORY / "ops" / "bench", "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
        parts = re.findall(r"^  ops/bench (\w+)", text, re.MULTILINE)
        self.assertEqual(set(parts[:parts.index("all")]), {"small", "shards", "cold", "epochs", "scale", "preload", "namespace"})
        # What is said there is what the program does.
        named = re.search(r"^ALL = \((.*)\)$", (REPOSITORY / "ops" / "bench").read_text(), re.MULTILINE)[1]
        self.assertEqual(re.findall(r'"(\w+)"', named), parts[:parts.index("all")])

    def test_big_shards_are_read_at_random_too_where_there_is_room(self):
        options = argparse.Namespace(file_kb=None, files=10, shard_mb=None)
        kinds = {name: [kind.name for kind in bench_files.kinds(["shards"], options, memory, 1 << 40)]
                 for name, memory in (("room", 1 << 40), ("none", 1 << 30))}
        self.assertEqual(kinds, {"room": ["shards", "random", "big", "big-random", "sparse"], "none": ["shards", "random", "sparse"]})

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
        for words in (["report"], ["report", "x.json"], ["small", "x.json"], ["store", "small"], ["small", "report", "--html", "y"],
                      # One layer of each part: a start of the program takes a second.
                      *([what, "--without", layer] for what, layer in {what: layer for what, layer in bench_cluster.MEANINGLESS}.items())):
            result = subprocess.run([REPOSITORY / "ops" / "bench", *words], capture_output=True, text=True, timeout=60,
                                    check=False)
            self.assertEqual(result.returncode, 2, words)
            if len(words) == 3:
                self.assertEqual(result.stderr, f"ops/bench: {words[0]} --without {words[2]} means nothing: "
                                 f"{bench_cluster.MEANINGLESS[words[0], words[2]]}\n")


class FiguresTest(unittest.TestCase):
    def lines(self, *workloads):
        document = bench_report.document(list(workloads), None, [], pathlib.Path("/tmp"))
        return document["to_hold"]

    def test_each_figure_says_what_was_wanted_and_measured_and_its_share(self):
        lines = self.lines(workload(), workload("shards"), workload("sparse"))
        self.assertEqual({line["figure"] for line in lines}, {None, 1, 2, 3, 4, 5, 6, 7, 11})
        found = {(line["workload"], line["what"]): line for line in lines}
        against = found["small", "files/s of forebay new mount against native hot, 8 readers"]
        self.assertEqual((against["figure"], against["wanted"], against["measured"]), (1, ">= 0.17x", "2.99x"))
        self.assertAlmostEqual(against["share"], 3.0 / 0.17, delta=0.1)
        # 2 us of 39 KB twice, of 0.75 s for 390 KB: twice 0.0078 of 0.75.
        checksums = found["small", "checksums, of the CPU time of forebay new mount, 8 readers"]
        self.assertEqual((checksums["figure"], checksums["measured"], checksums["holds"]), (11, "2.1%", True))
        self.assertAlmostEqual(checksums["share"], 0.03 / (2 * 0.0078 / 0.75))
        missing = found["small", "files/s of forebay new mount against geesefs warm dropped, 8 readers"]
        self.assertEqual((missing["measured"], missing["holds"], missing["share"]), ("not measured", None, None))
        said = []
        bench_hold.print_lines(lines, said.append)
        self.assertTrue(any("figure 1: wanted >= 0.17x, measured 2.99x, share 17.6" in text for text in said), said)

    def test_one_message_too_many_does_not_hold(self):
        def clean():
            return {**workload(), "failed": []}

        self.assertTrue(bench_hold.counts_hold(self.lines(clean())))
        for change in ({"read": 11}, {"read": 10, "lookup": 1}):
            broken = clean()
            next(run for run in broken["runs"] if run["fuse_ops"])["fuse_ops"] = change
            self.assertFalse(bench_hold.counts_hold(self.lines(broken)), change)
        broken = clean()
        broken["pil"]["reads"] = 11
        self.assertFalse(bench_hold.counts_hold(self.lines(broken)))

    def test_what_is_less_than_wanted_has_a_share_below_one(self):
        for judge, measured, bound, holds, share in ((bench_hold.at_least, 0.5, 1.0, False, 0.5), (bench_hold.at_most, 0.5, 1.0, True, 2.0),
                                                     (bench_hold.at_most, 4.0, 1.0, False, 0.25), (bench_hold.at_most, 0.0, 0.0, True, 1.0),
                                                     (bench_hold.at_most, 2.0, 0.0, False, 0.0)):
            line = judge("w", "what", measured, bound)
            self.assertEqual((line["holds"], line["share"]), (holds, share), line)

    def test_the_slower_of_disk_and_s3_is_the_limit_of_a_preload(self):
        figures = {"blocks": 4, "gets": [4, 4], "rates": {"disk": [400.0, 400.0], "s3": [200.0, 200.0], "preload": [180.0, 190.0]}}
        self.assertEqual(bench_preload.limit(figures), "s3")
        lines = {line["what"]: line["holds"] for line in bench_preload.to_hold(figures)}
        self.assertEqual(list(lines.values()), [True, False, True])
        self.assertEqual(list(lines)[2], "bytes/s against what S3 gives, which is less than the disk's rate")
        figures["rates"]["disk"] = [100.0, 100.0]
        self.assertEqual([line["holds"] for line in bench_preload.to_hold(figures)], [True, True])
        figures["gets"][1] = 5
        self.assertFalse(bench_hold.counts_hold(bench_preload.to_hold(figures)))


class PeersTest(unittest.TestCase):
    class S3:
        env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}

        def rclone_env(self):
            return {**os.environ, **self.env}

        def __init__(self):
            self.removed = []

        def make_bucket(self, name):
            """As any S3 with these buckets does: nothing more."""

        def remove(self, bucket, prefix):
            self.removed.append((bucket, prefix))

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
                s3 = self.S3()
                found = bench_peers.start(names, folder / "work", "bucket", s3, folder / "source", skipped)
            self.assertEqual((found, set(skipped)), ([], set(names)))
            for name, line in skipped.items():
                self.assertIn(f"{name} is skipped", line)
                self.assertIn("no such luck", line)
                asked = (folder / "bin" / f"{name}.asked").read_text()
                self.assertIn("bucket", asked)
            self.assertEqual(list((folder / "work").iterdir()), [])
            # A copy of the data takes S3's memory, which has room for it once.
            volume = (folder / "bin/juicefs.asked").read_text().split()[-1]
            self.assertEqual(s3.removed, [("bucket-juicefs", f"{volume}/")])

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


class IdlePagesTest(unittest.TestCase):
    """Kernels that page out what nobody has touched for a while: a warm row is not surely warm then, and says so."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.damon, self.reclaim = pathlib.Path(folder.name, "kdamonds"), pathlib.Path(folder.name, "parameters")
        self.write("state", "on")
        self.write("contexts/0/monitoring_attrs/intervals/aggr_us", "500000")
        self.write("contexts/0/schemes/0/action", "pageout")
        self.write("contexts/0/schemes/0/access_pattern/age/min", "12")

    def write(self, file, text):
        path = self.damon / "0" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def found(self):
        return bench_machine.idle_pages_go_after_seconds(self.damon, self.reclaim)

    def test_a_scheme_that_pages_out_is_found(self):
        self.assertEqual(self.found(), 6.0)

    def test_what_is_off_or_does_something_else_is_not(self):
        self.write("contexts/0/schemes/0/action", "stat")
        self.assertIsNone(self.found())
        self.write("contexts/0/schemes/0/action", "pageout")
        self.write("state", "off")
        self.assertIsNone(self.found())

    def test_the_module_that_reclaims_is_found(self):
        self.write("state", "off")
        self.reclaim.mkdir()
        (self.reclaim / "min_age").write_text("120000000\n")
        (self.reclaim / "enabled").write_text("N\n")
        self.assertIsNone(self.found())
        (self.reclaim / "enabled").write_text("Y\n")
        self.assertEqual(self.found(), 120.0)

    def test_a_machine_without_any_says_nothing(self):
        self.assertIsNone(bench_machine.idle_pages_go_after_seconds(self.damon / "none", self.reclaim))
        here = {"cpus": 2, "cpu": "x", "memory_bytes": 1 << 30, "kernel": "6", "file_system": "ext4"}
        self.assertEqual(bench_machine.sentences({**here, "idle_pages_go_after_seconds": None}, {"s3fs": "1.9"}),
                         ["2 CPUs (x), 1 GiB of memory, Linux 6, ext4; s3fs 1.9"])
        self.assertEqual(bench_machine.sentences({}, {}), [])
        said = bench_machine.sentences({**here, "idle_pages_go_after_seconds": 6.0}, {})
        self.assertIn("nobody has touched for 6 s", said[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
