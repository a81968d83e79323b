#!/usr/bin/python3
"""The mounts of a job divide a link among each other, and what a job was shown has a digest that anybody can compute."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess

from e2e import PROGRAMS, E2eTest, eventually, main
from mount_state import names_in, worker_of

OBJECTS = 203


def listing_digest(objects):
    """Of {key: (etag, size)}, as docs/LINKS.md has it."""
    digest = hashlib.sha256()
    for key in sorted(objects, key=lambda key: key.encode().split(b"/")):
        etag, size = objects[key]
        digest.update(b"%s\0%s\0%d\0" % (key.encode(), etag.encode(), size))
    return digest.hexdigest()


class Shards(E2eTest):
    NODES = ("n1",)

    def setUp(self):
        super().setUp()
        self.files = {f"train/c{i % 7}/{i:03d}.jpg": os.urandom(500 + i) for i in range(OBJECTS)}
        self.files |= {f"val/c{i % 7}/{i:03d}.jpg": os.urandom(100) for i in range(10)}
        self.put({**self.files, "val/c1/": b""}, "data/")
        self.start()
        self.link("data", "data")

    def config(self, mount):
        return json.loads((pathlib.Path(mount) / ".forebay/config").read_text())

    def manifest(self, mount):
        lines = (pathlib.Path(mount) / ".forebay/manifest").read_text().splitlines()
        return {path: int(size) for size, path in (line.split("\t") for line in lines)}

    def assert_agrees(self, mount, names):
        """readdir, lookup, stat, manifest and the bytes all say that these files are there, and no other."""
        self.assertEqual(names_in(mount), sorted(names))
        self.assertEqual(self.manifest(mount), {name: len(self.files[name]) for name in names})
        for name, body in self.files.items():
            path = pathlib.Path(mount) / name
            if name in names:
                self.assertEqual(path.stat().st_size, len(body))
                self.assertEqual(path.read_bytes(), body)
            else:
                self.assertFalse(path.exists(), f"{name} is another shard's")
        self.assertEqual(self.config(mount)["objects"], len(names))

    def assert_divided(self, parts, names):
        self.assertEqual(sorted(name for part in parts for name in part), sorted(names), "each file once")
        sizes = [len(part) for part in parts]
        self.assertLessEqual(max(sizes) - min(sizes), 1)

    def test_the_mounts_of_a_job_have_each_file_once(self):
        mounts = [self.cluster.mount("data", f"m{i}", "--shard", f"{i}/3") for i in range(3)]
        parts = [names_in(mount) for mount in mounts]
        self.assert_divided(parts, self.files)
        folders = sorted({str(pathlib.PurePath(name).parent) for name in self.files})
        for mount, part in zip(mounts, parts):
            self.assert_agrees(mount, set(part))
            shown = [str(path.relative_to(mount)) for path in pathlib.Path(mount).rglob("*/*") if path.is_dir()]
            self.assertEqual(sorted(shown), folders, "every shard has every class")
        self.assertEqual(self.config(mounts[1])["shard"], {"index": 1, "count": 3, "seed": None, "epoch": 0})
        # Of a directory, what lies below it is divided; another epoch deals it otherwise.
        dealt = [[names_in(self.cluster.mount("data/val", f"e{epoch}-{i}", "--shard", f"{i}/2,seed=7,epoch={epoch}"))
                  for i in range(2)] for epoch in range(2)]
        for parts in dealt:
            self.assert_divided(parts, [name.removeprefix("val/") for name in self.files if name.startswith("val/")])
        self.assertNotEqual(dealt[0], dealt[1])

    def test_a_shard_outlives_its_worker_and_follows_the_link(self):
        mounts = [self.cluster.mount("data", f"m{i}", "--shard", f"{i}/2,seed=1") for i in range(2)]
        parts = [set(names_in(mount)) for mount in mounts]
        held = open(pathlib.Path(mounts[0]) / min(parts[0]), "rb")
        self.addCleanup(held.close)
        supervisor = self.cluster.mounts["m0"].pid
        first = worker_of(supervisor)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: worker_of(supervisor) not in (None, first), "another worker")
        self.assert_agrees(mounts[0], parts[0])
        self.assertEqual(held.read(), self.files[min(parts[0])])
        self.assertEqual(self.config(mounts[0])["shard"], {"index": 0, "count": 2, "seed": 1, "epoch": 0})

        new = {"train/new/a.jpg": b"a", "train/new/b.jpg": b"bb", "train/new/c.jpg": b"ccc"}
        self.put(new, "data/")
        self.files |= new
        self.cluster.cli("refresh", "data")
        eventually(lambda: sum(len(names_in(mount)) for mount in mounts) == len(self.files), "both mounts follow")
        after = [set(names_in(mount)) for mount in mounts]
        self.assert_divided(after, self.files)
        self.assertLessEqual(len(parts[0] - after[0]) + len(parts[1] - after[1]), len(new), "hardly anything moved")
        for mount, part in zip(mounts, after):
            self.assert_agrees(mount, part)

    def test_each_link_of_all_is_divided_and_a_bad_shard_is_refused(self):
        self.link("val", "data/val")
        mounts = [self.cluster.mount("/", f"all{i}", "--shard", f"{i}/2") for i in range(2)]
        for name, count in (("data", len(self.files)), ("val", 10)):
            parts = [names_in(pathlib.Path(mount) / name) for mount in mounts]
            self.assertEqual(sum(map(len, parts)), count)
            self.assertEqual(len(set(parts[0]) | set(parts[1])), count)
        refused = subprocess.run([PROGRAMS / "forebay-mount", "data", self.folder, "--shard", "4/4"],
                                 env=self.cluster.client_env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("numbered from 0 to 3", refused.stderr)

    def test_the_digest_of_the_listing_is_that_of_s3s_own(self):
        def in_s3():
            pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix="data/")
            return listing_digest({row["Key"]: (row["ETag"].strip('"'), row["Size"])
                                   for page in pages for row in page.get("Contents", []) if not row["Key"].endswith("/")})

        mount = self.cluster.mount("data", "m1")
        before = in_s3()
        self.assertEqual(self.config(mount)["digest"], before)
        self.assertEqual(self.cluster.json("links")["links"][0]["digest"], before)
        (pathlib.Path(mount) / min(self.files)).read_bytes()
        job = eventually(lambda: next((job for job in self.cluster.json("stats", "--jobs")["jobs"]
                                       if job["id"] == "m1" and job["mounts"]), None), "the job is known")
        self.assertEqual((job["generation"], job["digest"]), (1, before))
        explained = self.cluster.json("explain", "--job", "m1")["links"][0]
        self.assertEqual((explained["generation"], explained["digest"]), (1, before))

        # The same objects under another name, listed anew, are the same listing; another object is not.
        self.link("again", "data")
        rows = {row["name"]: row["digest"] for row in self.cluster.json("links")["links"]}
        self.assertEqual(rows["again"], before)
        self.put({"one more": b"x"}, "data/")
        self.cluster.cli("refresh", "data")
        after = in_s3()
        self.assertNotEqual(after, before)
        eventually(lambda: self.config(mount)["digest"] == after, "the mount shows the next generation")


if __name__ == "__main__":
    main()
