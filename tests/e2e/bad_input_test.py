#!/usr/bin/python3
"""Everything a user gets wrong has one clear sentence, and changes nothing."""

import json
import os
import pathlib
import signal
import subprocess
import time

from e2e import PROGRAMS, Cluster, Daemon, E2eTest, eventually, main


class BadInput(E2eTest):
    NODES = ("n1",)

    def refused(self, *words, code=1, says=()):
        """The CLI refuses, in one sentence that names what matters. 1: it failed; 2: the words are wrong."""
        result = self.cluster.cli(*words, check=False, timeout=60)
        self.assertEqual(result.returncode, code, (words, result.stdout, result.stderr))
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        for word in says:
            self.assertIn(word, result.stderr)
        return result.stderr

    def program(self, name, *words, env=None, timeout=60):
        command = [str(PROGRAMS / name), *map(str, words)]
        return subprocess.run(command, env=env or self.cluster.client_env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout, check=False)

    def coordinator_with(self, **environment):
        self.cluster.server_env = {**self.cluster.server_env, **environment}
        self.cluster.start_coordinator()

    def test_links_that_cannot_be_made(self):
        self.put({"some/key": b"x"})
        self.start()
        # What was tried, what came back, what to do.
        self.refused("link", "s3://no-such-bucket-here/x/",
                     says=["LIST of s3://no-such-bucket-here/x/", "404 NoSuchBucket", "check its name"])
        self.refused("link", f"s3://{self.bucket}/nothing/here/", says=["nothing/here/"])
        self.refused("link", f"s3://{self.bucket}/some/", "--endpoint-url", "http://127.0.0.1:9",
                     says=["LIST of", "127.0.0.1:9", "check the endpoint"])
        self.refused("link", f"s3://{self.bucket}/some/", "--as", "a/b", says=["a/b"], code=2)
        self.refused("link", self.bucket, says=["s3://"], code=2)
        self.refused("link", f"s3://{self.bucket}/some/", "--block-size", "5", says=["5"], code=2)
        self.assertEqual(self.cluster.json("links")["links"], [])
        self.assertEqual(self.gets()["gets"], 0)

    def test_a_link_is_made_once(self):
        self.put({"some/key": b"x"})
        self.start()
        self.link("data", "some/")
        self.link("data", "some/")
        self.refused("link", f"s3://{self.bucket}/some/", "--as", "data", "--block-size", "1MiB", code=2,
                     says=["data"])
        self.assertEqual([link["name"] for link in self.cluster.json("links")["links"]], ["data"])

    def test_wrong_credentials_name_the_key_and_no_secret(self):
        self.put({"some/key": b"x"})
        secret = "wrong-secret-0123456789"
        self.coordinator_with(AWS_SECRET_ACCESS_KEY=secret)
        said = self.refused("link", f"s3://{self.bucket}/some/",
                            says=["S3 answered 403", self.rgw.env["AWS_ACCESS_KEY_ID"], "check the keys"])
        self.assertNotIn(secret, said)
        for log in self.folder.glob("*.log"):
            self.assertNotIn(secret, log.read_text())

    def test_an_expired_session_token(self):
        self.put({"some/key": b"x"})
        self.coordinator_with(AWS_SESSION_TOKEN="this-token-is-long-gone")
        # Real S3 says ExpiredToken; RGW cannot read a token that is none of its own, and says so.
        said = self.refused("link", f"s3://{self.bucket}/some/",
                            says=[self.bucket, "key id " + self.rgw.env["AWS_ACCESS_KEY_ID"],
                                  "from the environment", "check the keys"])
        self.assertNotIn("this-token-is-long-gone", said)

    def test_a_profile_that_is_not_there_is_named(self):
        self.put({"some/key": b"x"})
        self.coordinator_with(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", AWS_PROFILE="typo")
        self.refused("link", f"s3://{self.bucket}/some/",
                     says=["AWS_PROFILE names profile 'typo'", "is not there", "correct the name"])

    def test_unknown_links_name_the_nearest(self):
        self.put({"some/key": b"x"})
        self.start()
        self.link("imagenet", "some/")
        self.refused("check", "imagnet", says=["imagnet", "imagenet"])
        self.refused("ls", "imagenet/nothing", says=["nothing"])
        self.refused("evict", "imagnet", "--yes", says=["imagenet"])
        folder = self.folder / "m"
        folder.mkdir()
        result = self.program("forebay-mount", "imagnet", folder, "--coordinator", self.cluster.address,
                              "--state-dir", self.folder / "s", "--foreground")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("imagenet", result.stderr)
        self.assertFalse(os.path.ismount(folder))

    def test_a_mount_says_at_once_that_no_coordinator_answers(self):
        folder = self.folder / "m"
        folder.mkdir()
        for how, says in (((), "waiting for 30 s at most"), (("--foreground",), "waiting as long as it takes"),
                          (("--foreground", "--log-file", self.folder / "log"), "waiting as long as it takes")):
            with self.subTest(how=how), subprocess.Popen(
                    [PROGRAMS / "forebay-mount", "data", folder, "--coordinator", "127.0.0.1:9", "--state-dir",
                     self.folder / "s", *how], stderr=subprocess.PIPE, text=True, env=self.cluster.client_env) as mount:
                begin = time.monotonic()
                line = next((line for line in mount.stderr if "waiting" in line), "")
                self.assertLess(time.monotonic() - begin, 10)
                child = pathlib.Path(f"/proc/{mount.pid}/task/{mount.pid}/children").read_text().split()
                os.kill(mount.pid if how else int(child[0]), signal.SIGTERM)
            self.assertIn("127.0.0.1:9: nobody answers", line)
            self.assertIn(says, line)

    def test_mountpoints_that_cannot_be_used(self):
        self.put({"some/key": b"x"})
        self.start()
        self.link("data", "some/")
        mount = self.cluster.mount("data", "m1")

        def attempt(path):
            return self.program("forebay-mount", "data", path, "--coordinator", self.cluster.address,
                                "--state-dir", self.folder / "s", "--foreground")

        missing, taken = attempt(self.folder / "missing"), attempt(mount)
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn(str(self.folder / "missing"), missing.stderr)
        self.assertNotEqual(taken.returncode, 0)
        self.assertIn(str(mount), taken.stderr)
        self.assertEqual((mount / "key").read_bytes(), b"x")
        file = self.folder / "file"
        file.write_text("")
        self.assertIn(str(file), attempt(file).stderr)

    def test_a_busy_mount_stays_until_it_is_free(self):
        self.put({"some/key": b"x"})
        self.start()
        self.link("data", "some/")
        mount = self.cluster.mount("data", "m1")
        with open(mount / "key", "rb") as held:
            busy = subprocess.run(["umount", mount], capture_output=True, text=True, check=False)
            self.assertNotEqual(busy.returncode, 0)
            self.assertIn("busy", busy.stderr)
            self.assertEqual(held.read(), b"x")
        subprocess.run(["umount", mount], check=True)
        self.assertEqual(self.cluster.mounts["m1"].wait(), 0)

    def test_writes_fail_at_once_as_read_only(self):
        self.put({"some/key": b"x"})
        self.start()
        self.link("data", "some/")
        mount = self.cluster.mount("data", "m1")
        for attempt in (lambda: (mount / "new").write_bytes(b"y"), lambda: (mount / "key").unlink(),
                        lambda: (mount / "dir").mkdir(), lambda: (mount / "key").rename(mount / "other"),
                        lambda: os.truncate(mount / "key", 0), lambda: os.chmod(mount / "key", 0o600)):
            with self.assertRaises(OSError) as caught:
                attempt()
            self.assertEqual(caught.exception.strerror, "Read-only file system")

    def test_a_configuration_lists_all_its_faults_at_once(self):
        config = self.folder / "forebay.toml"
        config.write_text('[node]\ncache_dir = ["/tmp/x=12parsecs"]\nmetrics_listen = "somewhere:1"\nthraeds = 2\n')
        result = self.program("forebay-node", "--config", config)
        self.assertEqual(result.returncode, 2)
        for word in ("12parsecs", "somewhere:1", "thraeds", "threads"):
            self.assertIn(word, result.stderr)
        self.assertGreaterEqual(len(result.stderr.strip().splitlines()), 3)
        config.write_text('[node]\ncache_dir = ["/tmp/x=1GiB"]\nmetrics_listen = "0.0.0.0:1"\n')
        result = self.program("forebay-node", "--config", config)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--insecure-plain-metrics", result.stderr)

    def node(self, directory, *words):
        return self.program("forebay-node", "--cache-dir", directory, "--coordinator", self.cluster.address, "--listen",
                            "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--node-id", "bad",
                            "--state-dir", self.folder / "nodes", *words,
                            env=self.cluster.server_env)

    def test_cache_directories_that_cannot_be_used(self):
        self.cluster.start_coordinator()
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=20", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", disk], check=False)
        (disk / "filler").write_bytes(b"\0" * 50_000)
        full = self.node(disk / "cache")
        self.assertIn(full.returncode, (1, 2), full)
        self.assertIn(str(disk / "cache"), full.stderr)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        read_only = self.node(disk / "cache2")
        self.assertIn(read_only.returncode, (1, 2), read_only)
        self.assertIn("Read-only", read_only.stderr)

    def test_one_directory_serves_one_node(self):
        self.start()
        taken = self.node(self.folder / "n1")
        self.assertEqual(taken.returncode, 2, taken)
        self.assertIn(str(self.folder / "n1"), taken.stderr)

    def refuses_directory(self, directory, *says, size=None, cluster=None):
        """The node ends at once, in one sentence, and has changed no file of it."""
        path = self.folder / directory
        before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        result = self.program("forebay-node", "--cache-dir", f"{path}={size}" if size else path, "--coordinator",
                              (cluster or self.cluster).address, "--listen", "127.0.0.1:0", "--metrics-listen",
                              "127.0.0.1:0", "--node-id", "n1", "--state-dir", self.folder / "nodes",
                              env=self.cluster.server_env)
        self.assertEqual(result.returncode, 2, result)
        # The rest of the log is progress; errors are one line.
        errors = [line for line in result.stderr.splitlines() if "error" in line]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in (str(path), *says):
            self.assertIn(word, errors[0])
        after = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        for file in (path / "lock", path / "cluster_state"):  # holds the last user's process id; is the node's own
            before.pop(file, None), after.pop(file, None)
        self.assertEqual(set(before), set(after))
        self.assertEqual([str(file) for file in before if before[file] != after[file]], [])

    def cached(self, count=4):
        """A node n1 with this many blocks in its cache, stopped; answers a check that they are all there."""
        objects = {f"{i}": bytes([i]) * 300_000 for i in range(count)}
        self.put(objects)
        self.start()
        self.link()

        def read():
            mount = self.cluster.mount("data", "m1")
            self.assertEqual({name: (mount / name).read_bytes() for name in objects}, objects)
            self.assertEqual(self.cluster.unmount("m1"), 0)
            return self.gets()["gets"]

        fetched = read()
        self.assertEqual(fetched, count)
        self.assertEqual(self.cluster.nodes["n1"].stop(), 0)

        def all_there(size=None):
            self.cluster.start_node("n1", size or self.CACHE)
            self.assertEqual(read(), fetched, "nothing is lost")

        return all_there

    def test_a_cache_directory_of_another_cluster(self):
        all_there = self.cached()
        other = Cluster(self.folder / "other", PROGRAMS, self.rgw.env)
        self.addCleanup(other.stop)
        other.server_env = self.cluster.server_env  # the same user's, so that it is let in
        other.start_coordinator()
        # The node of the directory asks for its cluster at an address where another one lives now.
        (self.folder / "n1" / "cluster_state").rename(self.folder / "kept")
        self.refuses_directory("n1", "cluster", "empty it or choose another", cluster=other)
        (self.folder / "kept").rename(self.folder / "n1" / "cluster_state")
        all_there()

    def test_a_cache_directory_of_a_newer_format(self):
        all_there = self.cached()
        identity = self.folder / "n1" / "FOREBAY"
        text = identity.read_text()
        identity.write_text(text.replace("format 1\n", "format 2\n"))
        self.refuses_directory("n1", "format 2", "newer program")
        identity.write_text(text)
        all_there()

    def test_a_disk_that_is_smaller_than_before(self):
        (self.folder / "n1").mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", self.folder / "n1"], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.folder / "n1"], check=False)
        self.CACHE = "200MiB"
        all_there = self.cached()
        subprocess.run(["mount", "-o", "remount,size=100m", self.folder / "n1"], check=True)
        self.refuses_directory("n1", "200 MiB", "choose a smaller size", size="200MiB")
        all_there("90MiB")
        self.assertEqual(self.cluster.nodes["n1"].stop(), 0)
        result = self.program("forebay-node", "--cache-dir", f"{self.folder / 'n1'}=1MiB")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("too small for a cache; give at least", result.stderr)
        all_there("64MiB")

    def test_a_node_waits_for_its_coordinator_and_says_so(self):
        self.cluster.start_coordinator()
        address = self.cluster.address
        self.cluster.coordinator.stop()
        node = self.cluster.start_node("n1", "64MiB", wait=False)
        eventually(lambda: address in node.log.read_text(), "it says what it waits for")
        self.assertTrue(node.running())
        self.cluster.start_coordinator()
        node.wait_ready()
        eventually(lambda: [n["id"] for n in self.cluster.json("nodes")["nodes"]] == ["n1"], "the node is registered")

    def test_a_mount_waits_for_its_coordinator_and_says_so(self):
        self.put({"some/key": b"x"})
        self.start()
        self.link("data", "some/")
        address = self.cluster.address
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        self.cluster.mount("data", "m1", wait=False)
        mount = self.cluster.mounts["m1"]
        eventually(lambda: address in mount.log.read_text(), "it says what it waits for")
        self.cluster.start_coordinator()
        mount.wait_ready()
        self.assertEqual((self.folder / "m1" / "key").read_bytes(), b"x")

    def test_nobody_answers_the_cli(self):
        self.cluster.start_coordinator()
        address = self.cluster.address
        self.cluster.coordinator.stop()
        begin = time.monotonic()
        self.refused("status", says=[address])
        self.assertLess(time.monotonic() - begin, 30)
        error = self.cluster.cli("-o", "json", "status", check=False)
        self.assertEqual(set(json.loads(error.stderr)["error"]), {"code", "message", "hint"})
        self.cluster.coordinator = Daemon("coordinator", [], {}, self.folder / "none.log")

    def test_what_cannot_be_written_or_read_is_said(self):
        self.put({"some/key": b"x"})
        self.start()
        self.link("data", "some/")
        mount = self.cluster.mount("/", "all")

        def shell(words, **more):
            return subprocess.run(["/bin/sh", "-c", f'exec "$0" --coordinator {self.cluster.address} {words}',
                                   PROGRAMS / "forebay"], capture_output=True, text=True, timeout=60, check=False,
                                  env=self.cluster.client_env, **more)

        for words in ("links > /dev/full", "-o json links >&-", "export > /dev/full", "completion bash > /dev/full"):
            lost = shell(words)
            self.assertEqual(lost.returncode, 1, words)
            self.assertIn("could not be written", lost.stderr)
        self.assertEqual(shell("links 2>&-").returncode, 0)
        # No descriptor of the program's own is read for standard input.
        for words in ("preload data -f - <&-", "apply -f - <&-"):
            closed = shell(words)
            self.assertNotEqual(closed.returncode, 0, words)
            self.assertNotIn("\\x", closed.stderr)
        node = shell(f"--coordinator {self.cluster.nodes['n1'].addresses['listen']} links")
        self.assertIn("is a node, and no coordinator", node.stderr)
        self.assertEqual(node.returncode, 1)
        for target in (mount, mount / "nope"):
            self.assertIn("is a mount of all links", shell(f"check {target}").stderr)
        self.assertEqual(shell("check data", cwd=mount).returncode, 3)

    def test_words_that_do_not_exist_name_the_nearest(self):
        self.start()
        self.refused("lnik", code=2, says=["link"])
        self.refused("stats", "--lniks", code=2, says=["--links"])


if __name__ == "__main__":
    main()
