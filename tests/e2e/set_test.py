#!/usr/bin/python3
"""Several buckets under one name: made, mounted, filled, refreshed, divided and removed as one."""

import json
import os
import pathlib
import signal
import subprocess

from e2e import PROGRAMS, E2eTest, blocks_of, eventually, main, tree_of
from mount_state import names_in, worker_of

FILES = 40


class Sets(E2eTest):
    NODES = ("n1", "n2")

    def setUp(self):
        super().setUp()
        self.other = self.bucket + "-b"
        self.images = {f"train/{i:03d}.jpg": os.urandom(300 + i) for i in range(FILES)}
        self.images["large.bin"] = os.urandom(5 << 20)
        self.labels = {f"train/{i:03d}.txt": b"label %d" % i for i in range(0, FILES, 2)}
        self.put(self.images, "images/")
        self.put_labels(self.labels)
        self.start()

    def put_labels(self, objects):
        self.bucket, kept = self.other, self.bucket
        self.put(objects, "labels/")
        self.bucket = kept

    def sources(self):
        return f"s3://{self.bucket}/images", f"s3://{self.other}/labels"

    def link_set(self, *options):
        return self.cluster.json("link", *self.sources(), "--as", "clip", *options)

    def both_gets(self):
        return self.rgw.gets(self.bucket)["gets"] + self.rgw.gets(self.other)["gets"]

    def assert_shows(self, mount):
        """Byte for byte."""
        self.assertEqual(sorted(os.listdir(mount)), ["images", "labels"])
        self.assertEqual(tree_of(pathlib.Path(mount) / "images"), self.images)
        self.assertEqual(tree_of(pathlib.Path(mount) / "labels"), self.labels)

    def config(self, place):
        return json.loads((pathlib.Path(place) / ".forebay/config").read_text())

    def refused(self, code, sentence, *words):
        result = self.cluster.cli(*words, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertIn(sentence, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_a_set_is_filled_and_read_as_one_and_follows_each_bucket(self):
        linked = self.link_set()
        self.assertEqual([part["link"] for part in linked["parts"]], ["clip.images", "clip.labels"])
        self.assertEqual(linked["objects"], len(self.images) + len(self.labels))
        self.assertTrue(self.link_set()["already"])
        blocks = blocks_of(map(len, self.images.values())) + blocks_of(map(len, self.labels.values()))

        before = self.both_gets()
        look = self.cluster.json("preload", "clip", "--dry-run")
        self.assertEqual((look["objects"], look["gets"]), (len(self.images) + len(self.labels), blocks))
        filled = self.cluster.json("preload", "clip")["task"]
        self.assertEqual((filled["state"], filled["target"], filled["done"]), ("done", "clip", look["objects"]))
        self.assertEqual(self.both_gets() - before, blocks, "a GET for each block")
        mount = self.cluster.mount("clip", "m")
        self.assert_shows(mount)
        check = self.cluster.json("check", "clip")
        self.assertEqual((check["link"], check["complete"], check["blocks"]), ("clip", True, blocks))
        self.assertEqual([entry["name"] for entry in self.cluster.json("ls", "clip", "--cached")["entries"]],
                         ["images", "labels"])
        self.assertEqual(self.cluster.json("check", f"s3://{self.other}/labels/")["link"], "clip.labels")
        self.assertEqual(self.both_gets() - before, blocks)

        # Lineage: what the set shows is what its parts show.
        shown = {part["part"]: part["digest"] for part in self.config(mount)["parts"]}
        self.assertEqual(shown, {part: self.config(mount / part)["digest"] for part in ("images", "labels")})
        self.assertEqual(self.config(mount / "labels")["set"], "clip")
        sets = self.cluster.json("links")["sets"]
        self.assertEqual({part["part"]: part["digest"] for part in sets[0]["parts"]}, shown)

        # One bucket changes.
        self.labels["train/new.txt"] = b"new"
        self.put_labels({"train/new.txt": b"new"})
        refreshed = self.cluster.json("refresh", "clip")
        self.assertEqual((refreshed["link"], refreshed["added"], refreshed["changed"]), ("clip", 1, 0))
        eventually(lambda: (mount / "labels/train/new.txt").exists(), "the new file shows")
        self.assert_shows(mount)
        labels = self.config(mount / "labels")["digest"]
        self.assertNotEqual(labels, shown["labels"])
        eventually(lambda: {part["part"]: part["digest"] for part in self.config(mount)["parts"]} ==
                   {"images": shown["images"], "labels": labels}, "the set has the new digest")

        # A path in the mount of a set is a target, and so is the set by its place.
        freed = self.cluster.json("evict", mount, "--yes", "--force")
        self.assertEqual((freed["target"], freed["link"], freed["freed_blocks"]), ("clip", "clip", blocks + 1))
        part = self.cluster.cli("-o", "json", "check", mount / "images/train", check=False)
        self.assertEqual((part.returncode, json.loads(part.stdout)["target"]), (3, "clip.images/train"))

    def test_a_set_outlives_coordinator_and_worker_and_goes_as_a_whole(self):
        self.link_set()
        mount = self.cluster.mount("clip", "m")
        below = self.cluster.mount("clip/images/train", "below")
        self.assertEqual(sorted(os.listdir(below)), sorted(name.split("/")[1] for name in self.images if "/" in name))
        supervisor = self.cluster.mounts["m"].pid
        first = worker_of(supervisor)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: worker_of(supervisor) not in (None, first), "another worker")
        self.cluster.coordinator.kill()
        self.cluster.start_coordinator()
        self.assert_shows(mount)
        self.assertEqual([link["set"] for link in self.cluster.json("links")["links"]], ["clip", "clip"])

        # Pins and priorities are those of the parts, a quota is one part's.
        eventually(lambda: self.cluster.cli("pin", "clip", check=False).returncode == 0, "the nodes are back, and pin")
        again = self.cluster.json("pin", "clip")
        self.assertEqual((again["changed"], again["pin"]["target"], again["pin"]["objects"]),
                         (False, "clip", len(self.images) + len(self.labels)))
        self.assertEqual(len(self.cluster.json("pins")["pins"]), 2)
        self.refused(2, "is pinned", "unlink", "clip")
        self.assertTrue(self.cluster.json("unpin", "clip")["removed"])
        self.assertEqual(self.cluster.json("pins")["pins"], [])
        self.cluster.cli("priority", "clip", "high")
        self.assertEqual([link["priority"] for link in self.cluster.json("links")["links"]], ["high", "high"])
        self.refused(2, "name one of clip.images, clip.labels", "quota", "clip", "1GiB")
        self.refused(2, "explain needs the path of a file below a part", "explain", "clip")
        self.refused(2, "removed as a whole", "unlink", "clip.images")
        self.assertEqual(self.cluster.json("explain", "clip/labels/train/000.txt")["link"], "clip.labels")

        self.cluster.cli("unlink", "clip", "--evict", "--force")
        self.assertEqual(self.cluster.json("links")["links"], [])
        eventually(lambda: os.listdir(mount) == [], "the parts leave the mount")
        eventually(lambda: sum(node["blocks"] for node in self.cluster.json("nodes")["nodes"]) == 0, "all is freed")

    def test_what_belongs_together_by_name_is_in_one_shard(self):
        self.link_set()
        mounts = [self.cluster.mount("clip", f"m{i}", "--shard", f"{i}/3") for i in range(3)]
        pairs = 0
        for part, all_of in (("images", self.images), ("labels", self.labels)):
            dealt = [names_in(mount / part) for mount in mounts]
            self.assertEqual(sorted(name for names in dealt for name in names), sorted(all_of), "each file once")
        for mount in mounts:
            images = {name.removesuffix(".jpg") for name in names_in(mount / "images")}
            labels = {name.removesuffix(".txt") for name in names_in(mount / "labels")}
            self.assertLessEqual(labels, images, "each label is where its image is")
            pairs += len(labels)
        self.assertEqual(pairs, len(self.labels))
        self.assertEqual(self.config(mounts[1])["shard"], "1/3")

    def test_of_a_set_that_cannot_be_made_nothing_is(self):
        first, second = self.sources()
        self.refused(2, "needs a name: give --as", "link", first, second)
        self.refused(2, "would both be 'images'", "link", first, f"s3://{self.other}/images", "--as", "clip")
        self.refused(2, "is given twice", "link", first, f"x={first}/", "--as", "clip")
        self.refused(1, "no objects under", "link", first, f"s3://{self.other}/nothing", "--as", "clip")
        self.refused(1, "leave nothing of", "link", first, second, "--as", "clip", "--include", "*.jpg")
        self.assertEqual(self.cluster.json("links")["links"], [])
        self.cluster.cli("link", first, "--as", "clip")
        self.refused(2, "'clip' is a link", "link", first, second, "--as", "clip")
        self.cluster.cli("unlink", "clip")
        self.link_set()
        self.refused(2, "'clip' is a set of 2 links", "link", first, "--as", "clip")
        self.refused(2, "exists with other parts or options", "link", first, f"texts={second}", "--as", "clip")
        self.refused(1, "the set 'clip' has no part 'masks'", "check", "clip/masks")
        unknown = subprocess.run([PROGRAMS / "forebay-mount", "clip/masks", self.folder, "--coordinator",
                                  self.cluster.address, "--state-dir", self.folder / "state"], env=self.cluster.client_env, capture_output=True, text=True,
                                 timeout=60, check=False)
        self.assertNotEqual(unknown.returncode, 0)
        self.assertIn("clip.masks", unknown.stderr)


if __name__ == "__main__":
    main()
