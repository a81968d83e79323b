#!/usr/bin/python3
"""`link --snapshot` over a bucket of a real S3 (Ceph RGW) with versioning: a training run reads the same bytes again,
whatever was done to the objects since."""

import errno
import os
import pathlib

from e2e import BLOCK, E2eTest, drop_page_cache, main, tree_of

ODD = "a b%2F+é\n"


class Versions(E2eTest):
    NODES = ("n1", "n2")

    def versioning(self, status):
        self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": status})

    def overwrite(self, *names, body=b"another version"):
        for name in names:
            self.s3.put_object(Bucket=self.bucket, Key=f"d/{name}", Body=body)

    def frozen(self):
        self.start()
        self.link("data", "d/", "--snapshot")
        return pathlib.Path(self.cluster.mount("data", "m1"))

    def requests(self, op):
        return sum(value for node in self.cluster.nodes.values() for (name, labels), value in node.metrics().items()
                   if name == "forebay_s3_requests_total" and f'op="{op}"' in labels and 'code="ok"' in labels)

    def test_a_frozen_link_gives_the_old_bytes_of_what_was_overwritten_and_deleted(self):
        # Older than the bucket's versioning: their version is called "null".
        files = {"before": os.urandom(3000), ODD: os.urandom(500)}
        self.put(files, "d/")
        self.versioning("Enabled")
        later = {"large": os.urandom(2 * BLOCK + 7), "a": b"a" * 1000, "deleted": os.urandom(900), "kept": b"k" * 10,
                 "again": b"1"}
        self.put(later, "d/")
        files.update(later)
        mount = self.frozen()
        self.assertEqual((mount / "a").read_bytes(), files["a"])
        self.overwrite("before", "large", "a", ODD)
        self.overwrite("large", "ab")
        self.overwrite("again", body=b"2")
        self.overwrite("again", body=b"1")
        for name in ("deleted", "before"):
            self.s3.delete_object(Bucket=self.bucket, Key=f"d/{name}")
        drop_page_cache()
        self.assertEqual(tree_of(mount), files)
        # "a" was cached, and "again" has the bytes that it had: nobody asks for versions of these.
        changed = {"before", ODD, "large", "deleted"}
        self.assertGreaterEqual(self.requests("VERSIONS"), len(changed))
        self.assertLessEqual(self.requests("VERSIONS"), len(changed) * len(self.NODES), "once a node that needs it")
        self.assertEqual(self.requests("GET_VERSION"), len(changed) + 2)
        self.assertEqual(self.cluster.json("check", "data")["changed_objects"], 0)
        told = self.cluster.json("explain", str(mount / "deleted"))
        self.assertEqual(told["s3_now"]["state"], "gone")
        # All of it is cached now, as of any version.
        before = self.requests("GET") + self.requests("GET_VERSION")
        drop_page_cache()
        self.assertEqual(tree_of(mount), files)
        self.assertEqual(self.requests("GET") + self.requests("GET_VERSION"), before)

    def test_without_versioning_it_is_stale_and_the_reason_says_what_would_help(self):
        self.put({"a": b"a" * 1000, "b": b"b" * 1000}, "d/")
        mount = self.frozen()
        self.overwrite("a")
        with self.assertRaises(OSError) as raised:
            (mount / "a").read_bytes()
        self.assertEqual(raised.exception.errno, errno.ESTALE)
        self.assertIn("while versioning is on", (mount / ".forebay" / "errors").read_text())
        self.assertEqual((mount / "b").read_bytes(), b"b" * 1000)

    def test_a_version_that_was_removed_for_good_is_stale(self):
        self.put({}, "d/")
        self.versioning("Enabled")
        first = self.s3.put_object(Bucket=self.bucket, Key="d/a", Body=b"a" * 1000)["VersionId"]
        mount = self.frozen()
        self.overwrite("a")
        self.s3.delete_object(Bucket=self.bucket, Key="d/a", VersionId=first)
        with self.assertRaises(OSError) as raised:
            (mount / "a").read_bytes()
        self.assertEqual(raised.exception.errno, errno.ESTALE)
        self.assertIn("keeps no version of it with ETag", (mount / ".forebay" / "errors").read_text())


if __name__ == "__main__":
    main()
