#!/usr/bin/python3
"""Frozen links over a bucket that keeps versions: what was overwritten or deleted after the link was made is read as it
was, with the requests that this needs and no more; where that cannot be, the reader hears why."""

import errno
import os
import pathlib

import scripted_s3
from e2e import main

BLOCK = 1 << 20


class S3Versions(scripted_s3.ScriptedS3Test):
    NODES = ("n1",)

    def begin(self, files, *link_options, versions=True):
        """A frozen link over these files; what happens to them later happens behind its back."""
        self.put(files)
        if versions:
            self.s3.keep_versions(self.bucket)
        self.start()
        self.link("data", "", "--block-size", "1MiB", *(link_options or ("--snapshot",)))
        self.s3.script()
        return pathlib.Path(self.cluster.mount("data", "m1"))

    def stale(self, path):
        with self.assertRaises(OSError) as raised:
            path.read_bytes()
        self.assertEqual(raised.exception.errno, errno.ESTALE, raised.exception)
        return self.errors_of(path.parents[0])

    def asked(self):
        requests = self.s3.counts()["requests"]
        return {op: requests.get(op, 0) for op in ("GET", "VERSIONS", "GET_VERSION")}

    def test_what_was_overwritten_or_deleted_is_read_as_it_was(self):
        files = {"big": os.urandom(3 * BLOCK + 5), "small": os.urandom(1000), "gone": os.urandom(2000), "same": b"s" * 99}
        mount = self.begin(files)
        for name in ("big", "small"):
            for _ in range(3):
                self.s3.put(self.bucket, name, b"another version")
        self.s3.put(self.bucket, "bigger", b"a key that begins like another one")
        self.s3.delete(self.bucket, "gone")
        for name, body in files.items():
            self.assertEqual((mount / name).read_bytes(), body, name)
        asked = self.asked()
        self.assertEqual(asked["VERSIONS"], 3, "one for each object that changed")
        self.assertEqual(asked["GET_VERSION"], 4 + 1 + 1, "one for each block of these")
        # Read-ahead may have several blocks of the large one refused before its version is known.
        self.assertGreaterEqual(asked["GET"], 4)
        self.assertLessEqual(asked["GET"], 4 + 3)
        metrics = self.cluster.nodes["n1"].metrics()
        for op in ("VERSIONS", "GET_VERSION"):
            counted = sum(value for (name, labels), value in metrics.items()
                          if name == "forebay_s3_requests_total" and f'op="{op}"' in labels and 'code="ok"' in labels)
            self.assertEqual(counted, asked[op], op)
        self.assertEqual(self.cluster.json("check", "data")["changed_objects"], 0)

    def test_the_same_bytes_written_twice_are_one_answer(self):
        files = {"a": b"first" * 100}
        self.put(files)
        self.s3.keep_versions(self.bucket)
        mount = self.begin(files)
        # Deleted, and written and deleted again: two delete markers, and versions behind them.
        for _ in range(2):
            self.s3.delete(self.bucket, "a")
            self.s3.put(self.bucket, "a", b"in between")
        self.s3.delete(self.bucket, "a")
        self.assertEqual((mount / "a").read_bytes(), files["a"])
        self.assertEqual(self.asked(), {"GET": 1, "VERSIONS": 1, "GET_VERSION": 1})

    def test_a_version_behind_two_thousand_others_is_found(self):
        files = {"a": b"the first of all"}
        mount = self.begin(files)
        for _ in range(2100):
            self.s3.put(self.bucket, "a", b"x")
        self.assertEqual((mount / "a").read_bytes(), files["a"])
        self.assertEqual(self.asked(), {"GET": 1, "VERSIONS": 3, "GET_VERSION": 1})

    def test_a_bucket_without_versions_is_stale_and_says_so(self):
        mount = self.begin({"a": b"a" * 100, "b": b"b" * 100}, versions=False)
        self.s3.put(self.bucket, "a", b"another version")
        self.assertIn("keeps no version of it with ETag", self.stale(mount / "a"))
        self.stale(mount / "a")
        self.assertEqual(self.asked()["VERSIONS"], 1, "that there is none is remembered")
        self.assertEqual((mount / "b").read_bytes(), b"b" * 100)

    def test_missing_rights_are_named_and_nothing_else_fails(self):
        files = {"a": b"a" * 100, "b": b"b" * 100, "c": b"c" * 100}
        mount = self.begin(files)
        for name in ("a", "b"):
            self.s3.put(self.bucket, name, b"another version")
        self.s3.script({"do": "status", "status": 403, "code": "AccessDenied", "op": "VERSIONS"})
        self.assertIn("s3:ListBucketVersions", self.stale(mount / "a"))
        self.assert_all_made()
        self.s3.script({"do": "status", "status": 403, "code": "AccessDenied", "op": "GET_VERSION"})
        self.assertIn("s3:GetObjectVersion", self.stale(mount / "b"))
        self.assert_all_made()
        self.assertEqual((mount / "c").read_bytes(), files["c"])

    def test_an_s3_that_fails_a_while_is_waited_for(self):
        files = {"a": b"a" * 100}
        mount = self.begin(files)
        self.s3.delete(self.bucket, "a")
        self.s3.script({"do": "status", "status": 503, "code": "SlowDown", "op": "VERSIONS", "times": 2},
                       {"do": "status", "status": 500, "op": "GET_VERSION", "times": 2})
        self.assertEqual((mount / "a").read_bytes(), files["a"])
        self.assert_all_made()

    def test_a_link_that_may_be_refreshed_asks_for_no_versions(self):
        mount = self.begin({"a": b"a" * 100}, "--refresh", "on-demand")
        self.s3.put(self.bucket, "a", b"another version")
        self.stale(mount / "a")
        self.assertEqual(self.asked()["VERSIONS"], 0)

    def test_a_preload_of_a_frozen_link_fetches_old_versions_too(self):
        files = {f"d/{i}": os.urandom(5000) for i in range(20)}
        mount = self.begin(files)
        for i in range(0, 20, 2):
            self.s3.put(self.bucket, f"d/{i}", b"another version")
        self.cluster.cli("preload", "data")
        self.assertEqual(self.asked(), {"GET": 20, "VERSIONS": 10, "GET_VERSION": 10})
        for name, body in files.items():
            self.assertEqual((mount / name).read_bytes(), body)
        self.assertEqual(self.asked()["GET"], 20)


if __name__ == "__main__":
    main()
