#!/usr/bin/python3
"""Links that reach a real S3 (Ceph RGW) in ways of their own: without any keys, and each with a profile of the servers'
files. A link names its credentials and never holds them."""

import errno
import json
import os
import pathlib
import secrets
import signal
import subprocess

import boto3
import botocore.config
from e2e import E2eTest, eventually, main, tree_of

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


class Profiles(E2eTest):
    NODES = ("n1",)

    def setUp(self):
        super().setUp()
        for name in KEYS:
            self.cluster.server_env.pop(name)
        self.cluster.server_env.update(AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=str(self.folder / "config"),
                                       AWS_SHARED_CREDENTIALS_FILE=str(self.folder / "credentials"))

    def admin(self, *words):
        subprocess.run(["radosgw-admin", "-c", self.rgw.folder / "ceph.conf", "-n", "client.rgw", *words], check=True,
                       capture_output=True)

    def user(self, name):
        """Another user of RGW, with a bucket that nobody else may read: {the bucket, key id, secret, files}."""
        uid = f"{name}-{secrets.token_hex(4)}"
        key_id, secret = secrets.token_hex(10), secrets.token_hex(20)
        self.admin("user", "create", f"--uid={uid}", f"--display-name={uid}", f"--access-key={key_id}", f"--secret={secret}")
        s3 = boto3.client("s3", endpoint_url=self.rgw.env["AWS_ENDPOINT_URL"], region_name="us-east-1",
                          aws_access_key_id=key_id, aws_secret_access_key=secret,
                          config=botocore.config.Config(s3={"addressing_style": "path"}))
        files = {f"{name}{i}": os.urandom(1000 + i) for i in range(4)}
        s3.create_bucket(Bucket=uid)
        for key, body in files.items():
            s3.put_object(Bucket=uid, Key=key, Body=body)
        return {"uid": uid, "bucket": uid, "key_id": key_id, "secret": secret, "files": files}

    def credentials(self, **users):
        """The servers' file has these profiles and no others."""
        new = self.folder / "credentials.new"
        new.write_text("".join(f"[{profile}]\naws_access_key_id = {user['key_id']}\naws_secret_access_key = "
                               f"{user['secret']}\n" for profile, user in users.items()))
        os.replace(new, self.folder / "credentials")

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def two_links(self):
        """Each of its own user, on one node that has read the first file of either; {name: (user, mount)}."""
        users = {"pics": self.user("pics"), "text": self.user("text")}
        self.credentials(**users)
        self.start()
        found = {}
        for name, user in users.items():
            other = "text" if name == "pics" else "pics"
            refused = self.cluster.cli("link", f"s3://{user['bucket']}/", "--as", name, "--profile", other,
                                       "--no-background-fill", check=False)
            self.assertIn(f"profile '{other}'", refused.stderr)
            self.cluster.cli("link", f"s3://{user['bucket']}/", "--as", name, "--profile", name, "--no-background-fill")
            mount = pathlib.Path(self.cluster.mount(name, f"m-{name}"))
            self.assertEqual((mount / f"{name}0").read_bytes(), user["files"][f"{name}0"])
            found[name] = (user, mount)
        return found

    def assert_pics_fails_and_text_goes_on(self, links, path, names):
        with self.assertRaises(OSError) as raised:
            path.read_bytes()
        self.assertEqual(raised.exception.errno, errno.EIO, raised.exception)
        reason = (path.parent / ".forebay" / "errors").read_text()
        for words in (path.name, *names):
            self.assertIn(words, reason)
        self.assertNotIn(links["pics"][0]["secret"], reason)
        user, mount = links["text"]
        self.assertEqual(tree_of(mount), user["files"])
        # What was cached of the other one is still there.
        self.assertEqual((path.parent / "pics0").read_bytes(), links["pics"][0]["files"]["pics0"])

    def test_a_bucket_for_everybody_is_read_without_any_keys(self):
        files = {f"{i}": os.urandom(1000 + i) for i in range(10)}
        self.put(files, "d/")
        self.start()
        refused = self.cluster.cli("link", f"s3://{self.bucket}/d/", "--as", "data", "--no-sign-request", check=False)
        self.assertEqual(refused.returncode, 1)
        for words in ("403 AccessDenied", "an anonymous request", "does not allow s3:ListBucket to everybody"):
            self.assertIn(words, refused.stderr)
        everybody = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": ["s3:ListBucket", "s3:GetObject"],
             "Resource": [f"arn:aws:s3:::{self.bucket}", f"arn:aws:s3:::{self.bucket}/*"]}]}
        self.s3.put_bucket_policy(Bucket=self.bucket, Policy=json.dumps(everybody))
        no_keys = self.cluster.cli("link", f"s3://{self.bucket}/d/", "--as", "data", check=False)
        self.assertIn("no S3 credentials found", no_keys.stderr)
        self.link("data", "d/", "--no-sign-request")
        self.assertEqual(tree_of(self.cluster.mount("data", "m")), files)
        self.assertEqual(self.cluster.json("preload", "data", "--verify")["task"]["failed"], 0)

    def test_a_profile_that_is_gone_keeps_its_keys_until_s3_refuses_them(self):
        links = self.two_links()
        user, mount = links["pics"]
        self.credentials(text=links["text"][0])
        self.cluster.nodes["n1"].process.send_signal(signal.SIGHUP)
        # docs/S3.md, Renewal: a file that is being edited fails nobody, and the log says it.
        eventually(lambda: "no profile 'pics'" in self.log("n1"), "the node's warning")
        self.assertEqual((mount / "pics1").read_bytes(), user["files"]["pics1"])
        self.admin("key", "rm", "--key-type=s3", f"--uid={user['uid']}", f"--access-key={user['key_id']}")
        self.assert_pics_fails_and_text_goes_on(links, mount / "pics2", ["profile 'pics'"])
        # And back, without a restart.
        self.admin("key", "create", "--key-type=s3", f"--uid={user['uid']}", f"--access-key={user['key_id']}",
                   f"--secret={user['secret']}")
        self.credentials(pics=user, text=links["text"][0])
        eventually(lambda: self.reads(mount / "pics2", user["files"]["pics2"]), "the profile is there again")
        self.assertEqual(tree_of(mount), user["files"])

    @staticmethod
    def reads(path, content):
        try:
            return path.read_bytes() == content
        except OSError:
            return False

    def test_a_node_that_starts_without_a_profile_says_so_to_who_reads(self):
        links = self.two_links()
        self.credentials(text=links["text"][0])
        node = self.cluster.nodes["n1"]
        self.assertEqual(node.stop(), 0)
        node.start()
        self.assert_pics_fails_and_text_goes_on(links, links["pics"][1] / "pics3",
                                                ["no S3 credentials found for profile 'pics'", "no profile 'pics'"])

    def test_no_file_of_the_coordinator_and_no_backup_holds_a_secret(self):
        links = self.two_links()
        backup = self.folder / "state.backup"
        self.cluster.cli("backup", backup)
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        kept = [path for path in (self.folder / "coordinator").rglob("*") if path.is_file()]
        self.assertTrue(kept)
        held = {path: path.read_bytes() for path in (backup, *kept)}
        for user, _ in links.values():
            secret = user["secret"].encode()
            for path, content in held.items():
                self.assertNotIn(secret, content, path)
                self.assertNotIn(bytes.fromhex(user["secret"]), content, path)
            # What a link does say is there, or the search would show nothing.
            self.assertIn(user["bucket"].encode(), held[backup])
            self.assertTrue(any(user["bucket"].encode() in held[path] for path in kept))


if __name__ == "__main__":
    main()
