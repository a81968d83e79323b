#!/usr/bin/python3
"""ops/iam-policy.json at a real S3 that looks at policies (Ceph RGW): with it everything works, with less of it the
message names the right that is missing."""

import errno
import os
import pathlib

from e2e import E2eTest, main, tree_of
from s3_rights import Rights


class IamPolicy(E2eTest):
    NODES = ("n1",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rights = Rights(cls.rgw.env)

    def begin(self, without=(), also=()):
        """A cluster whose keys may do what the policy says for d/ and `also`, no more; versions are kept there."""
        self.files = {f"{i}": os.urandom(1000 + i) for i in range(12)}
        self.put(self.files, "d/")
        self.put({"x": b"x"}, "e/")
        self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration={"Status": "Enabled"})
        keys = self.rights.keys(self.rights.role(*self.rights.shipped(self.bucket, "d", without), *also))
        self.cluster.server_env.update(AWS_EC2_METADATA_DISABLED="true", **keys)
        self.key_id = keys["AWS_ACCESS_KEY_ID"]
        self.start()

    def mounted(self, *link_options):
        self.link("data", "d/", *link_options)
        return pathlib.Path(self.cluster.mount("data", "m1"))

    def fails(self, path, code):
        with self.assertRaises(OSError) as raised:
            path.read_bytes()
        self.assertEqual(raised.exception.errno, code, raised.exception)
        return (path.parent / ".forebay" / "errors").read_text()

    def overwrite(self, name):
        self.s3.put_object(Bucket=self.bucket, Key=f"d/{name}", Body=b"another version")

    def test_the_whole_policy_is_enough_for_everything(self):
        self.begin()
        mount = self.mounted("--snapshot")
        self.overwrite("3")
        self.s3.delete_object(Bucket=self.bucket, Key="d/4")
        self.assertEqual((mount / "3").read_bytes(), self.files["3"])
        self.cluster.cli("preload", "data")
        self.assertEqual(tree_of(mount), self.files)
        self.assertEqual(self.cluster.json("check", "data")["changed_objects"], 0)
        # And for nothing beside it.
        other = self.cluster.cli("link", f"s3://{self.bucket}/e/", check=False)
        self.assertEqual(other.returncode, 1)
        self.assertIn("they allow s3:ListBucket", other.stderr)

    def test_without_list_bucket_no_link_is_made(self):
        self.begin(without=["s3:ListBucket"])
        refused = self.cluster.cli("link", f"s3://{self.bucket}/d/", "--as", "data", check=False)
        self.assertEqual(refused.returncode, 1)
        for words in (f"LIST of s3://{self.bucket}/d/", "403 AccessDenied", self.key_id, "they allow s3:ListBucket;"):
            self.assertIn(words, refused.stderr)
        self.assertEqual(self.cluster.json("links")["links"], [])

    def test_without_get_object_reads_and_preloads_say_so(self):
        self.begin(without=["s3:GetObject"])
        mount = self.mounted()
        self.assertEqual(len(os.listdir(mount)), len(self.files))
        said = self.fails(mount / "1", errno.EIO)
        for words in ("403 AccessDenied", self.key_id, "they allow s3:GetObject;"):
            self.assertIn(words, said)
        preload = self.cluster.cli("preload", "data", check=False)
        self.assertEqual(preload.returncode, 1)
        self.assertIn("s3:GetObject", preload.stdout + preload.stderr)

    def test_a_manifest_outside_of_the_prefix_needs_a_right_of_its_own(self):
        where = f"s3://{self.bucket}/lists"
        self.begin(also=[{"Effect": "Allow", "Action": "s3:GetObject",
                          "Resource": f"arn:aws:s3:::{self.bucket}/lists/given"}])
        self.put({"given": b"d/1\nd/2\n", "other": b"d/1\n"}, "lists/")
        refused = self.cluster.cli("link", "data", "--manifest", f"{where}/other", check=False)
        self.assertEqual(refused.returncode, 1)
        for words in (f"manifest {where}/other", "403", self.key_id, "or not allow s3:GetObject"):
            self.assertIn(words, refused.stderr)
        self.cluster.cli("link", "data", "--manifest", f"{where}/given")
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        self.assertEqual(tree_of(mount), {name: self.files[name] for name in ("1", "2")})

    def test_the_rights_to_versions_are_for_frozen_links_alone(self):
        self.begin(without=["s3:ListBucketVersions", "s3:GetObjectVersion"])
        mount = self.mounted("--snapshot")
        self.cluster.cli("preload", "data")
        self.assertEqual(tree_of(mount), self.files)

    def test_without_list_bucket_versions_an_overwritten_file_names_it(self):
        self.begin(without=["s3:ListBucketVersions"])
        mount = self.mounted("--snapshot")
        self.overwrite("3")
        self.assertIn("they allow s3:ListBucketVersions", self.fails(mount / "3", errno.ESTALE))
        self.assertEqual((mount / "5").read_bytes(), self.files["5"])

    def test_without_get_object_version_an_overwritten_file_names_it(self):
        self.begin(without=["s3:GetObjectVersion"])
        mount = self.mounted("--snapshot")
        self.overwrite("3")
        self.assertIn("they allow s3:GetObjectVersion", self.fails(mount / "3", errno.ESTALE))
        self.assertEqual((mount / "5").read_bytes(), self.files["5"])


if __name__ == "__main__":
    main()
