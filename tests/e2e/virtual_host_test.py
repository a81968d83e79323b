#!/usr/bin/python3
"""Buckets in the host name, as AWS has them, at a real S3 (Ceph RGW) that is called localhost: whatever is below
.localhost is loopback (RFC 6761, and libcurl without asking anybody), so bucket.localhost needs no name server."""

import json
import os
import pathlib
import re
import urllib.parse

from e2e import BLOCK, E2eTest, eventually, main, tree_of

# What a path, a query and a signature each write in their own way.
ODD = "a b%2F+é&=~'(1)"
REQUEST = re.compile(r'"([A-Z]+) (\S+) HTTP/1\.1" (\d+) ')


class VirtualHost(E2eTest):
    NODES = ("n1",)

    def setUp(self):
        super().setUp()
        self.files = {"large": os.urandom(2 * BLOCK + 7), "c/1": os.urandom(900), ODD: os.urandom(500)}
        self.port = urllib.parse.urlsplit(self.rgw.env["AWS_ENDPOINT_URL"]).port
        self.cluster.server_env["AWS_ENDPOINT_URL"] = f"http://localhost:{self.port}"
        self.cluster.server_env["AWS_CONFIG_FILE"] = str(self.folder / "config")

    def config(self, text):
        (self.folder / "config").write_text(text)

    def requests(self):
        """Of this test: [(method, path with query, status)] as RGW read them, without the host."""
        self.gets()  # waits until the log has all
        log = (self.rgw.folder / "client.rgw.log").read_text(errors="replace")
        # Those of boto3, which made the bucket, and of ops/rgw name it in the path.
        return [match.groups() for match in REQUEST.finditer(log[self.before:])
                if "Boto" not in log[self.before + match.end():].split("\n", 1)[0] and "forebay-log-marker" not in match[2]]

    def begin(self, prefix="d/"):
        self.put(self.files, prefix)
        self.gets()
        self.before = len((self.rgw.folder / "client.rgw.log").read_text(errors="replace"))
        self.start()

    def assert_read(self, prefix, *options):
        self.link("data", prefix, *options)
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        self.assertEqual(tree_of(mount), self.files)
        return mount

    def assert_virtual(self, prefix):
        """Each list is of "/", each object is at its bare key, and all of it was granted."""
        asked = self.requests()
        lists = [target for method, target, _ in asked if method == "GET" and target.startswith("/?")]
        objects = {urllib.parse.unquote(target.partition("?")[0]) for method, target, _ in asked
                   if method == "GET" and not target.startswith("/?")}
        self.assertTrue(lists)
        self.assertEqual(objects, {f"/{prefix}{name}" for name in self.files})
        self.assertEqual({status for _, _, status in asked} - {"200", "206"}, set(), asked)
        self.assertEqual([target for _, target, _ in asked if self.bucket in target], [])

    def test_by_the_profile_of_the_servers(self):
        self.config("[default]\ns3 =\n  addressing_style = virtual\n")
        self.begin()
        self.assert_read("d/")
        self.assert_virtual("d/")

    def test_by_the_profile_of_the_link_with_heads_and_a_bucket_with_dots(self):
        self.bucket = f"with.dots.{self.bucket}"
        self.config("[profile virtual]\nregion = us-east-1\ns3 =\n  addressing_style = virtual\n"
                    f"aws_access_key_id = {self.rgw.env['AWS_ACCESS_KEY_ID']}\n"
                    f"aws_secret_access_key = {self.rgw.env['AWS_SECRET_ACCESS_KEY']}\n")
        self.begin()
        self.assert_read("d/", "--profile", "virtual")
        self.cluster.cli("preload", "data", "--verify")
        self.assert_virtual("d/")
        self.assertIn("HEAD", {method for method, _, _ in self.requests()})

    def test_a_link_to_a_whole_bucket_follows_what_changes(self):
        self.config("[default]\ns3 =\n  addressing_style = virtual\n")
        self.begin(prefix="")
        mount = self.assert_read("")
        self.assert_virtual("")
        self.files["c/2"] = os.urandom(77)
        self.s3.put_object(Bucket=self.bucket, Key="c/2", Body=self.files["c/2"])
        self.assertEqual(self.cluster.json("refresh", "data/c/2")["added"], 1)
        eventually((mount / "c/2").exists, "the mount shows it")
        self.assertEqual(tree_of(mount), self.files)
        self.assert_virtual("")

    def test_a_frozen_link_finds_old_versions(self):
        self.config("[default]\ns3 =\n  addressing_style = virtual\n")
        self.put({})
        self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": "Enabled"})
        self.begin()
        self.link("data", "d/", "--snapshot")
        self.s3.put_object(Bucket=self.bucket, Key=f"d/{ODD}", Body=b"another version")
        self.assertEqual(tree_of(self.cluster.mount("data", "m1")), self.files)
        asked = self.requests()
        self.assertTrue([target for _, target, _ in asked if target.startswith("/?") and "versions=" in target])
        self.assertTrue([target for _, target, _ in asked if "versionId=" in target])
        self.assertEqual([target for _, target, _ in asked if self.bucket in target], [])

    def test_by_path_where_nothing_says_otherwise(self):
        """Or the others would show nothing."""
        self.config("")
        self.begin()
        self.assert_read("d/")
        asked = self.requests()
        self.assertEqual([target for _, target, _ in asked if not target.startswith(f"/{self.bucket}")], [])
        self.assertEqual(self.gets()["gets"], 5)

    def test_an_export_says_it(self):
        self.config("[default]\ns3 =\n  addressing_style = virtual\n")
        self.begin()
        self.link("data", "d/")
        file = self.folder / "cluster.json"
        file.write_text(self.cluster.cli("export").stdout)
        self.assertEqual(self.cluster.json("apply", "-f", file)["changes"], [])
        # A cluster whose servers have another profile makes the same link of it.
        self.cluster.cli("unlink", "data")
        self.config("")
        self.cluster.cli("apply", "-f", file)
        self.assertEqual(json.loads(self.cluster.cli("export").stdout), json.loads(file.read_text()))
        self.assertEqual(tree_of(self.cluster.mount("data", "m1")), self.files)
        self.assert_virtual("d/")


if __name__ == "__main__":
    main()
