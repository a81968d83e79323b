#!/usr/bin/python3
"""Objects are overwritten and deleted in S3 under readers and preloads: never a mix of versions, never zeros; links
that may be refreshed follow by themselves, immutable ones say what they cannot read any more."""

import errno
import os
import pathlib
import time

import scripted_s3
from e2e import drop_page_cache, eventually, main

SECONDS_MAX = 5


class S3Changed(scripted_s3.ScriptedS3Test):
    def begin(self, files, *link_options):
        self.put(files)
        self.start()
        self.link("data", "", "--block-size", "1MiB", *link_options)
        return pathlib.Path(self.cluster.mount("data", "m1"))

    def assert_stale(self, path):
        with self.assertRaises(OSError) as raised:
            path.read_bytes()
        self.assertEqual(raised.exception.errno, errno.ESTALE, raised.exception)

    def test_a_refreshable_link_follows_what_a_reader_finds(self):
        files = {f"d/{i}": os.urandom(50_000) for i in range(20)}
        mount = self.begin(files)
        new = {"d/3": os.urandom(60_000)}
        self.put(new)
        self.s3.delete(self.bucket, "d/4")
        self.s3.script()
        for name in ("d/3", "d/4"):
            self.assert_stale(mount / name)
        begin = time.monotonic()

        def follows():
            try:
                return (mount / "d/3").read_bytes() == new["d/3"] and not (mount / "d/4").exists()
            except OSError as error:
                self.assertEqual(error.errno, errno.ESTALE)
                return False

        eventually(follows, "the mount shows what S3 has")
        self.assertLess(time.monotonic() - begin, SECONDS_MAX)
        generations = self.link_stats()["generation"]
        self.assertIn(generations, (2, 3), "a row each, or both at once")
        tasks = [task["target"] for task in self.cluster.json("tasks")["tasks"] if task["kind"] == "refresh"]
        alone, together = ["data/d/3", "data/d/4"], ["data/d/3 and 1 more"]
        self.assertIn(sorted(tasks), (alone, together), "as the node reports them, one by one or both at once")
        self.assertEqual(self.link_stats()["objects"], len(files) - 1)
        for name in ("d/3", "d/4"):
            self.assertIn(f'ESTALE "{name}"', self.errors_of(mount))
        # Nothing else was fetched or listed for it than its own place.
        drop_page_cache()
        for name in files.keys() - {"d/3", "d/4"}:
            self.assertEqual((mount / name).read_bytes(), files[name])
        self.assertEqual(self.cluster.json("check", "data")["changed_objects"], 0)

    def test_an_immutable_link_stays_as_it_was_and_says_so(self):
        files = {f"d/{i}": os.urandom(50_000) for i in range(5)}
        mount = self.begin(files, "--refresh", "immutable")
        self.assertEqual((mount / "d/1").read_bytes(), files["d/1"])
        for name in ("d/1", "d/2"):
            self.s3.put(self.bucket, name, b"another version")
        self.s3.script()
        drop_page_cache()
        self.assertEqual((mount / "d/1").read_bytes(), files["d/1"], "the cached version reads on")
        for _ in range(3):
            self.assert_stale(mount / "d/2")
        check = eventually(lambda: (c := self.json_of("check", "data"))["changed_objects"] and c, "check knows")
        self.assertEqual([file["path"] for file in check["changed"]], ["d/2"])
        self.assertIn('ESTALE "d/2"', self.errors_of(mount))
        text = self.cluster.cli("check", "data", check=False).stdout
        self.assertIn("d/2", text)
        self.assertEqual(self.s3.requests("LIST"), 0)

    def test_an_object_that_changes_between_its_blocks_is_never_mixed(self):
        old = {f"big/{i}": os.urandom(6 << 20) for i in range(4)}
        mount = self.begin(old, "--refresh", "immutable")
        # Each object becomes another one, or is deleted, when its third GET comes.
        self.s3.script(*({"do": ("change", "gone")[i % 2], "op": "GET", "key": name, "skip": 2, "times": 1}
                         for i, name in enumerate(old)))
        for name, body in old.items():
            got = b""
            with open(mount / name, "rb", buffering=0) as file, self.assertRaises(OSError) as raised:
                while part := file.read(1 << 20):
                    got += part
            self.assertEqual(raised.exception.errno, errno.ESTALE)
            self.assertTrue(body.startswith(got), "what was read before it is of the one version")
        self.assert_all_made()

    def test_a_preload_reports_what_changed_meanwhile(self):
        files = {f"d/{i}": os.urandom(20_000) for i in range(30)}
        self.begin(files, "--refresh", "immutable")
        self.s3.put(self.bucket, "d/7", b"another version")
        self.s3.delete(self.bucket, "d/8")
        result = self.cluster.cli("-o", "json", "preload", "data", check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        task = next(task for task in self.cluster.json("tasks")["tasks"] if task["kind"] == "preload")
        self.assertEqual((task["done"], task["failed"]), (28, 2))
        failures = self.json_of("task", "show", task["id"])["task"]["failures"]
        self.assertEqual(sorted(failure["key"] for failure in failures), ["d/7", "d/8"])


if __name__ == "__main__":
    main()
