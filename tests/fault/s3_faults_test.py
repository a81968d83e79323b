#!/usr/bin/python3
"""S3 breaks off, lies, throttles, refuses, goes away: readers of a real mount get right bytes, or wait, or an error with
its reason; and never ENOENT for what S3 did not say is gone."""

import json
import os
import pathlib
import signal
import subprocess
import threading

import scripted_s3
from e2e import drop_page_cache, eventually, main, tree_of

SMALL, LARGE = 240, 6


def fault(what, **how):
    return {"do": what, **how}


class S3Faults(scripted_s3.ScriptedS3Test):
    def objects(self, small=SMALL, large=LARGE):
        """Small ones are one GET without a range; large ones are read in ranges."""
        files = {f"s/{i:04d}": os.urandom(3000 + i) for i in range(small)}
        files.update({f"l/{i}": os.urandom(3_500_000 + i) for i in range(large)})
        self.put(files)
        return files

    def begin(self, files=None, *link_options):
        files = self.objects() if files is None else files
        self.start()
        self.link("data", "", "--block-size", "1MiB", *link_options)
        return files, pathlib.Path(self.cluster.mount("data", "m1"))

    def outcome(self, path):
        """'' or the name of the errno of reading it whole, in a process of its own."""
        code = ("import errno, sys\ntry:\n  open(sys.argv[1], 'rb').read()\n"
                "except OSError as error:\n  print(errno.errorcode[error.errno])")
        return subprocess.run(["/usr/bin/python3", "-c", code, str(path)], capture_output=True, text=True,
                              check=True, timeout=120).stdout.strip()

    def test_no_broken_or_lying_answer_reaches_a_reader(self):
        files, mount = self.begin()
        ranged = {"key": "l/", "times": 2}
        small = {"key": "s/", "times": 3}
        self.s3.script(
            *(fault(what, **ranged, every=5) for what in ("wrong_range", "wrong_total", "no_range")),
            *(fault(what, **ranged, every=7, bytes=70_000) for what in ("cut", "stall", "reset")),
            # Right headers of a range, and no byte or the wrong ones behind them.
            fault("stall", key="l/", times=1, every=8), *(fault(what, key="l/", times=1, every=8)
                                                         for what in ("error_body", "one_more", "one_less")),
            *(fault(what, **small, every=9) for what in ("no_etag", "one_more", "one_less", "error_body", "silent",
                                                         "hang_up")),
            *(fault(what, **small, every=11, bytes=1000) for what in ("cut", "stall", "reset")),
            *(fault("status", **small, every=10, status=status) for status in (500, 502, 504)),
            fault("slow", **small, every=50, rate=100_000), fault("delay", **small, every=20, ms=300))
        self.assertEqual(tree_of(mount), files)
        self.assert_all_made()
        for reason in ("network", "timeout", "server_error", "bad_answer"):
            self.assertGreater(self.retries(reason), 0, reason)
        self.assertEqual(self.errors_of(mount), "")
        fetched = self.gets()
        self.s3.script()
        drop_page_cache()
        self.assertEqual(tree_of(mount), files)
        self.assertEqual(self.gets(), 0, f"all is cached after {fetched} GETs")

    def test_another_version_under_the_right_range_is_stale_and_never_read(self):
        files = {"l/0": os.urandom(3_500_000), "s/0": b"s" * 3000}
        self.put(files)
        files, mount = self.begin(files)
        for name in files:
            self.s3.script(fault("wrong_etag", op="GET", key=name))
            self.assertEqual(self.outcome(mount / name), "ESTALE")
            self.assert_all_made()
            self.assertIn(f'ESTALE "{name}"', self.errors_of(mount))
        self.s3.script()
        # The object is what it was, and the link with it.
        eventually(lambda: self.outcome(mount / "l/0") == self.outcome(mount / "s/0") == "", "they are read again")
        self.assertEqual(tree_of(mount), files)

    def test_an_s3_that_is_away_is_no_s3_without_objects(self):
        files = self.objects(20, 0)
        files, mount = self.begin(files, "--refresh", "on-demand")
        self.assertEqual((mount / "s/0000").read_bytes(), files["s/0000"])
        names = sorted(os.listdir(mount / "s"))
        self.s3.pause()
        self.addCleanup(self.s3.resume)
        # What is cached reads on; what is not waits.
        drop_page_cache()
        self.assertEqual((mount / "s/0000").read_bytes(), files["s/0000"])
        late = []
        reader = threading.Thread(target=lambda: late.append((mount / "s/0001").read_bytes()))
        reader.start()
        eventually(lambda: self.retries("timeout") > 0, "a request to the S3 that is away has timed out")
        self.assertEqual(late, [])
        eventually(lambda: "s3_unanswered" in self.alerts(), "status says that S3 does not answer", 30)
        self.assertEqual(sorted(os.listdir(mount / "s")), names)
        refreshed = self.cluster.cli("--timeout", "2s", "refresh", "data", check=False)
        self.assertEqual(refreshed.returncode, 4, refreshed.stderr)
        self.assertEqual(self.link_stats()["objects"], len(files))
        self.s3.resume()
        reader.join(60)
        self.assertEqual(late, [files["s/0001"]])
        eventually(lambda: "s3_unanswered" not in self.alerts(), "it answers again")
        self.assertEqual(self.errors_of(mount), "")

    def test_hundreds_who_wait_for_s3_hold_up_no_cached_read(self):
        """As the workers of a machine with eight GPUs do."""
        readers = 200
        files, mount = self.begin(self.objects(readers + 1, 0), "--no-background-fill")
        self.assertEqual((mount / "s/0000").read_bytes(), files["s/0000"])
        self.s3.pause()
        self.addCleanup(self.s3.resume)
        late = {}
        threads = [threading.Thread(target=lambda name=name: late.update({name: (mount / name).read_bytes()}))
                   for name in sorted(files)[1:]]
        for thread in threads:
            thread.start()
        in_flight = lambda: sum(  # noqa: E731
            node.metrics()["forebay_fills_in_flight", ""] for node in self.cluster.nodes.values())
        eventually(lambda: in_flight() >= readers, "all wait for S3")
        drop_page_cache()
        self.assertEqual(self.outcome(mount / "s/0000"), "")
        self.assertEqual(late, {})
        self.s3.resume()
        for thread in threads:
            thread.join(60)
        self.assertEqual(late, {name: files[name] for name in sorted(files)[1:]})
        self.assertEqual(self.errors_of(mount), "")

    def alerts(self):
        said = json.loads(self.cluster.cli("-o", "json", "status", check=False).stdout)
        return [alert["name"] for alert in said["alerts"]]

    def test_an_outage_beyond_the_patience_is_an_eio_with_its_reason(self):
        files = self.objects(4, 0)
        self.start(node_options=(*self.NODE_OPTIONS, "--s3-timeout", "3s"))
        self.link()
        mount = pathlib.Path(self.cluster.mount("data", "m1", "--s3-timeout", "4s"))
        self.assertEqual((mount / "s/0000").read_bytes(), files["s/0000"])
        self.s3.script(fault("hang_up"))
        self.assertEqual(self.outcome(mount / "s/0001"), "EIO")
        self.assertIn("s/0001", self.errors_of(mount))
        drop_page_cache()
        self.assertEqual((mount / "s/0000").read_bytes(), files["s/0000"])
        self.s3.script(fault("status", status=404, code="NotS3"))
        self.assertNotEqual(self.outcome(mount / "s/0002"), "ENOENT")
        self.s3.script()
        self.assertEqual((mount / "s/0001").read_bytes(), files["s/0001"])

    def test_a_reader_may_wait_for_ever(self):
        files = self.objects(2, 0)
        self.start(node_options=(*self.NODE_OPTIONS, "--s3-timeout", "1s"))
        self.link()
        mount = pathlib.Path(self.cluster.mount("data", "m1", "--s3-timeout", "none"))
        self.s3.script(fault("hang_up"))
        got = []
        reader = threading.Thread(target=lambda: got.append((mount / "s/0000").read_bytes()))
        reader.start()
        # Those that were asked in another one's place do not say so.
        given_up = lambda: sum(node.log.read_text().count("cannot fill") for node in self.cluster.nodes.values())  # noqa: E731
        eventually(lambda: given_up() >= 3, "the nodes have given up several times")
        self.assertTrue(reader.is_alive(), "the reader has not")
        self.s3.script()
        reader.join(60)
        self.assertEqual(got, [files["s/0000"]])
        self.assertEqual(self.errors_of(mount), "")

    def test_keys_rotate_under_readers(self):
        files = self.objects(150, 0)
        credentials = self.folder / "credentials"

        def write(key):
            fresh = credentials.with_suffix(".new")
            fresh.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n")
            os.replace(fresh, credentials)

        for name in scripted_s3.KEYS:
            self.cluster.server_env.pop(name)
        self.cluster.server_env["AWS_SHARED_CREDENTIALS_FILE"] = str(credentials)
        write("AKOLD")
        self.s3.script(fault("delay", op="GET", ms=20), key_ids=["AKOLD"])
        files, mount = self.begin(files)
        reader = scripted_s3.Reader(mount, files)
        self.addCleanup(reader.stop)
        eventually(lambda: reader.reads > 20, "the first keys are good")
        # First the new ones are handed out, then the old ones expire.
        write("AKNEW")
        self.s3.script(fault("delay", op="GET", ms=20), key_ids=["AKNEW"])
        eventually(lambda: reader.reads > 2 * len(files), "readers go on")
        self.assertEqual(reader.stop()[1], [])
        self.assertGreater(self.s3.counts()["expired"], 0, "somebody came with the old keys")
        self.assertGreater(self.retries("credentials"), 0)
        # Each program asks with them a few times at most: those requests that were under way.
        self.assertLess(self.s3.counts()["expired"], 50)

    def test_what_keys_that_have_expired_at_one_node_cannot_fetch_is_fetched_by_the_other(self):
        files = self.objects(60, 2)
        self.cluster.start_coordinator()
        for name, key in (("n1", "AKOLD"), ("n2", scripted_s3.KEYS["AWS_ACCESS_KEY_ID"])):
            self.cluster.server_env["AWS_ACCESS_KEY_ID"] = key
            self.cluster.start_node(name)
        self.s3.script(key_ids=[key])
        self.link("data", "", "--block-size", "1MiB", "--no-background-fill")
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        self.assertEqual(tree_of(mount), files)
        self.assertEqual(self.errors_of(mount), "")
        self.assertGreater(self.s3.counts()["expired"], 0, "n1 came with its old keys")
        stood_in = self.cluster.nodes["n1"].metrics()["forebay_s3_stand_in_fills_total", ""]
        self.assertGreater(stood_in, 10)
        # One for each small file, and four for each large one.
        eventually(lambda: self.link_stats()["s3_gets"] == 60 + 2 * 4, "each block was fetched once")
        self.s3.script(key_ids=[key])
        drop_page_cache()
        self.assertEqual(tree_of(mount), files)
        self.assertEqual(self.gets(), 0, "each node keeps what is its own")

    def test_keys_that_rotate_in_a_file_are_in_use_before_the_old_ones_end(self):
        credentials = self.folder / "credentials"

        def write(key):
            """The file is another one, and nobody has read it yet: its time of access says when somebody has."""
            fresh = credentials.with_suffix(".new")
            fresh.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n")
            os.utime(fresh, ns=(0, fresh.stat().st_mtime_ns))
            os.replace(fresh, credentials)

        def was_read():
            return credentials.stat().st_atime_ns > 0

        for name in scripted_s3.KEYS:
            self.cluster.server_env.pop(name)
        self.cluster.server_env["AWS_SHARED_CREDENTIALS_FILE"] = str(credentials)
        write("AK0")
        files = self.objects(400, 0)
        self.s3.script(key_ids=["AK0"])
        self.start(nodes=("n1",))
        self.link("data", "", "--no-background-fill")
        if not was_read():
            self.skipTest("this file system does not say when a file was read")
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        names = iter(sorted(files))

        def read_one():
            name = next(names)
            self.assertEqual((mount / name).read_bytes(), files[name])

        for number, by_signal in ((1, True), (2, False)):
            read_one()
            old, new = f"AK{number - 1}", f"AK{number}"
            self.s3.script(key_ids=[old, new])
            write(new)
            if by_signal:
                # Nobody reads: without the signal nobody would look.
                self.cluster.nodes["n1"].kill(signal.SIGHUP)
                eventually(was_read, "the node has looked at once")
            else:
                eventually(lambda: (read_one(), was_read())[1], "the node has looked by itself", 30)
            read_one()
            self.s3.script(key_ids=[new])
            read_one()
            self.assertGreater(self.gets(), 0, "S3 was asked, with the new key")
            self.assertEqual(self.s3.counts()["expired"], 0, "nobody came with the old keys")
            self.assertEqual(self.retries("credentials"), 0)

    def test_an_archived_object_is_an_eio_and_no_storm(self):
        classes = {"cold": "GLACIER", "colder": "DEEP_ARCHIVE"}
        files = {"warm": b"w" * 1000, **{name: os.urandom(5_000_000) for name in classes}}
        self.put({"warm": files["warm"]})
        for name, storage_class in classes.items():
            self.put({name: files[name]}, x_amz_storage_class=storage_class)
        files, mount = self.begin(files)
        self.assertEqual((mount / "warm").read_bytes(), files["warm"])
        # As S3's LIST says it.
        self.assertNotIn("user.forebay.archived", os.listxattr(mount / "warm"))
        for name in classes:
            self.assertEqual(os.getxattr(mount / name, "user.forebay.archived"), b"1", name)
            self.assertIn("user.forebay.archived", os.listxattr(mount / name))
        for name in classes:
            self.s3.script()
            for _ in range(5):
                self.assertEqual(self.outcome(mount / name), "EIO")
            self.assertRegex(self.errors_of(mount), rf"(?m)^.*\b{name}\b.*archived")
            self.assertLessEqual(self.gets(), 10, "five reads that fail ask S3 a few times at most")
        preload = self.cluster.cli("preload", "data", check=False)
        self.assertEqual(preload.returncode, 1, preload.stderr)
        self.assertIn("archived", preload.stdout + preload.stderr)

    def test_many_archived_objects_cost_a_preload_one_request_each(self):
        count = 500
        self.put({"warm": b"w" * 1000})
        self.put({f"cold/{i}": b"c" * 1000 for i in range(count)}, x_amz_storage_class="GLACIER")
        self.start()
        self.link("data", "")
        self.s3.script()
        preload = self.cluster.cli("preload", "data", check=False)
        self.assertEqual(preload.returncode, 1, preload.stderr)
        self.assertIn("archived", preload.stdout + preload.stderr)
        self.assertEqual(self.gets(), count + 1, "each is asked for once, and none again")
        self.assertEqual(self.retries(""), 0)

    def test_restored_for_some_days_an_archived_object_is_read_without_a_refresh(self):
        """Behind the others: this S3 restores everything that is archived there, for good."""
        files = {"cold": os.urandom(1_000_000)}
        self.put(files, x_amz_storage_class="GLACIER")
        files, mount = self.begin(files)
        self.assertEqual(self.outcome(mount / "cold"), "EIO")
        self.assertIn("until it is restored", self.cluster.cli("explain", str(mount / "cold")).stdout)
        # The same version; LIST goes on to say that its class is GLACIER.
        self.s3.ask("PUT", "/-/restored", b"")
        self.assertEqual((mount / "cold").read_bytes(), files["cold"])


if __name__ == "__main__":
    main()
