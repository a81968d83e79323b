#!/usr/bin/python3
"""A job says in which order it will read: what it reads next is fetched once, just before, and lies in the page cache."""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys

from e2e import E2eTest, drop_page_cache, eventually, main, read_all
from jobs_test import Cgroup
from mount_state import worker_of
from training import python_of

FILES = 1500
AHEAD = 1024  # OrderRunner::kFilesAhead
BLOCKS_AHEAD = 4  # kBlocksAhead of file_reader.cc
SIGN_EVERY = 16


class Hint(E2eTest):
    NODES = ("n1",)

    def setUp(self):
        super().setUp()
        rng = random.Random(7)
        self.files = {f"c{i % 10}/{i:04d}.bin": rng.randbytes(3000 + i) for i in range(FILES)}
        self.order = sorted(self.files)
        rng.shuffle(self.order)

    def begin(self, *options):
        self.put(self.files, "data/")
        self.start()
        self.link("data", "data")
        return self.cluster.mount("data", "m1", "--job-id", "train", *options)

    def stats(self, mount):
        return json.loads((mount / ".forebay/stats").read_text())

    def hint(self, lines, *options, job="train", check=True):
        order = self.folder / "order.txt"
        order.write_text("".join(f"{line}\n" for line in lines))
        return self.cluster.cli("hint", job, order, *options, check=check)

    def hinted(self, mount, count):
        """As many have been dealt with."""
        return lambda: sum(self.stats(mount)["hinted"].values()) >= count

    def read(self, mount, names):
        for name in names:
            self.assertEqual((mount / name).read_bytes(), self.files[name], name)

    def test_what_is_announced_is_in_the_page_cache_when_it_is_read(self):
        mount = self.begin()
        read_all(mount)  # the node has it all, the kernel knows the names
        drop_page_cache()
        for _ in mount.rglob("*"):
            pass
        gets, reads = self.gets()["gets"], self.stats(mount)["fuse_ops"]["read"]["OK"]
        done = self.hint(self.order)
        self.assertIn(f"{FILES} files are fetched ahead of job train", done.stdout)
        eventually(self.hinted(mount, AHEAD), "the window is full")
        hinted = self.stats(mount)["hinted"]
        self.assertEqual((hinted["failed"], sum(hinted.values())), (0, AHEAD), "no more than the window")
        self.assertEqual(hinted["fetched"], AHEAD // SIGN_EVERY, hinted)
        self.read(mount, self.order)
        eventually(self.hinted(mount, FILES), "all are dealt with")
        after = self.stats(mount)
        reads = after["fuse_ops"]["read"]["OK"] - reads
        print(f"{FILES} files were read with {reads} READs; {after['hinted']}", flush=True)
        # The signs, and what the kernel threw away before it was read: some do that early.
        self.assertLess(reads, FILES // 4)
        self.assertGreaterEqual(after["orders"][0]["position"], FILES - SIGN_EVERY)
        self.assertEqual(self.gets()["gets"], gets, "S3 was asked")

    def test_a_cold_order_is_fetched_once_and_in_time(self):
        mount = self.begin()
        for _ in mount.rglob("*"):
            pass
        gets = self.gets()["gets"]
        indexes = {line.split("\t")[1]: i for i, line in
                   enumerate((mount / ".forebay/manifest").read_text().splitlines())}
        self.hint([indexes[name] for name in self.order])
        eventually(self.hinted(mount, AHEAD), "the window is full", 60)
        reads = self.stats(mount)["fuse_ops"].get("read", {}).get("OK", 0)
        self.read(mount, self.order)
        reads = self.stats(mount)["fuse_ops"]["read"]["OK"] - reads
        self.assertEqual(self.gets()["gets"] - gets, FILES, "each object is fetched once")
        self.assertLess(reads, FILES // 2)

    def test_the_nodes_have_the_first_blocks_of_larger_files_before_they_are_read_in_both_modes(self):
        mib = 1 << 20
        rng = random.Random(8)
        for mode in ("small", "large"):
            with self.subTest(mode):
                # Of three blocks each, and one of six.
                self.files = {f"{mode}/{i:02d}.bin": rng.randbytes(5 * mib // 2) for i in range(20)}
                self.files[f"{mode}/six.bin"] = rng.randbytes(6 * mib)
                self.order = sorted(self.files)
                rng.shuffle(self.order)
                self.put(self.files)
                if mode == "small":
                    self.start()
                self.link(mode, f"{mode}/", "--block-size", "1MiB")
                mount = self.cluster.mount(mode, mode, "--job-id", "train", "--mode", mode)
                self.files = {name.split("/")[1]: data for name, data in self.files.items()}
                self.order = [name.split("/")[1] for name in self.order]
                gets = self.gets()["gets"]
                self.hint(self.order, "--mount", mount)
                eventually(self.hinted(mount, len(self.order)), "all are asked for")
                ahead = 3 * 20 + BLOCKS_AHEAD
                eventually(lambda before=gets, blocks=ahead: self.gets()["gets"] - before == blocks, "the first blocks are fetched")
                stats = self.stats(mount)
                self.assertEqual(stats["hinted"]["fetched"], len(self.order))
                # A node that is busy is asked once more.
                self.assertGreaterEqual(stats["prefetches"], ahead)
                self.read(mount, [name for name in self.order if name != "six.bin"])
                self.assertEqual(self.gets()["gets"] - gets, ahead, "the first blocks are fetched once, and no more than them")
                self.read(mount, ["six.bin"])
                self.assertEqual(self.gets()["gets"] - gets, 3 * 20 + 6, "each block is fetched once")

    def test_a_killed_mount_goes_on_where_the_job_is(self):
        mount = self.begin()
        self.hint(self.order)
        self.read(mount, self.order[:300])
        eventually(lambda: self.stats(mount)["orders"][0]["position"] >= 280, "the job is followed")
        supervisor = self.cluster.mounts["m1"].pid
        worker = eventually(lambda: worker_of(supervisor), "a worker")
        # What a successor knows is a second old.
        position = self.stats(mount)["orders"][0]["position"]
        eventually(lambda: self.log_has_saved(mount), "it is kept")
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: worker_of(supervisor) not in (None, worker), "the next worker")
        now = self.stats(mount)["orders"]
        self.assertEqual([(order["job"], order["files"]) for order in now], [("train", FILES)])
        self.assertGreaterEqual(now[0]["position"], position - 2 * AHEAD)
        self.assertGreater(now[0]["position"], 0)
        self.read(mount, self.order[300:])
        eventually(lambda: self.stats(mount)["orders"][0]["position"] >= FILES - SIGN_EVERY, "it is followed to the end")
        # And a new order reaches the new worker.
        self.assertIn("2 files", self.hint(self.order[:2]).stdout)

    def log_has_saved(self, mount):
        """The uptime says that a second and more have passed since the last read: what is kept is kept each second."""
        before = getattr(self, "saved_after", None)
        now = self.stats(mount)["uptime_seconds"]
        if before is None:
            self.saved_after = now + 2
            return False
        return now > before

    def test_what_cannot_be_announced_is_said_in_a_sentence(self):
        mount = self.begin()
        wrong = self.hint([self.order[0], "no/such", "c1"], check=False)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("line 2: no/such is no file (1 more lines mean no file); nothing was announced", wrong.stderr)
        self.assertEqual(self.stats(mount)["orders"], [])
        wrong = self.cluster.cli("hint", "train", self.folder / "none", check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("cannot read", wrong.stderr)
        self.cluster.mount("data", "m2")
        wrong = self.hint(self.order, check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("has 2 mounts", wrong.stderr)
        self.assertIn("--mount", wrong.stderr)
        done = json.loads(self.cluster.cli("-o", "json", "hint", "train", self.folder / "order.txt", "--mount", mount).stdout)
        self.assertEqual((done["files"], done["job"], done["link"]), (FILES, "train", "data"))
        self.assertEqual(self.stats(mount)["orders"][0]["files"], FILES)
        self.assertIn("announces nothing any more", self.hint([], "--mount", mount).stdout)
        self.assertEqual(self.stats(mount)["orders"], [])
        wrong = self.hint(self.order, "--mount", self.folder, check=False)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("is no Forebay mount", wrong.stderr)

    def test_a_program_may_say_it_itself(self):
        mount = self.begin()
        config = json.loads((mount / ".forebay/config").read_text())
        self.assertEqual(pathlib.Path(config["local_socket"]).stat().st_mode & 0o777, 0o600)
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(config["local_socket"])
            paths = "".join(f"{mount / name}\n" for name in self.order)
            header = json.dumps({"job": "train", "link": "data", "mountpoint": str(mount)})
            line.sendall(f"{header}\n{paths}".encode())
            line.shutdown(socket.SHUT_WR)
            self.assertEqual(json.loads(line.makefile().readline()), {"files": FILES})
        for text in ("", "{}\n", "nonsense\n" * 1000, json.dumps({"job": "x", "link": "other"}) + "\n"):
            with self.subTest(text=text[:20]), socket.socket(socket.AF_UNIX) as line:
                line.connect(config["local_socket"])
                line.sendall(text.encode())
                line.shutdown(socket.SHUT_WR)
                self.assertIn("message", json.loads(line.makefile().readline())["error"])
        self.read(mount, self.order[:50])
        self.assertEqual(self.cluster.unmount("m1"), 0)
        self.assertFalse(pathlib.Path(config["local_socket"]).exists())

    def test_the_program_of_the_document_announces_for_the_job_that_it_is_of(self):
        mount = self.begin()
        program = python_of("HINTS.md") + "\nimport sys\nprint(announce(sys.argv[1], sys.stdin.read().split()))\n"
        cgroup = Cgroup(4713)
        self.addCleanup(cgroup.remove)
        for enter, job in ((None, "train"), (cgroup.enter, "4713")):
            done = subprocess.run([sys.executable, "-c", program, str(mount)], input="\n".join(self.order), text=True,
                                  capture_output=True, check=True, preexec_fn=enter)
            self.assertEqual(done.stdout, f"{{'files': {FILES}}}\n")
            self.assertIn((job, FILES), [(order["job"], order["files"]) for order in self.stats(mount)["orders"]])


if __name__ == "__main__":
    main()
