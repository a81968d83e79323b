#!/usr/bin/python3
"""A link shows what a manifest names: nothing of it until all of it can be read, and what it names now after a refresh."""

import json
import os
import pathlib

from e2e import E2eTest, eventually, main
from mount_state import names_in


class Manifest(E2eTest):
    def setUp(self):
        super().setUp()
        self.files = {f"data/c{i % 3}/{i:03d}.jpg": os.urandom(1000 + i) for i in range(150)}
        self.put(self.files)
        self.start()

    def put_manifest(self, text, key="lists/train"):
        self.put({key: text.encode()})
        return f"s3://{self.bucket}/{key}"

    def sagemaker(self, names, prefix="data/"):
        return json.dumps([{"prefix": f"s3://{self.bucket}/{prefix}"}, *names])

    def refused(self, *words):
        before = self.cluster.json("links")["links"]
        result = self.cluster.cli("link", *words, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(self.cluster.json("links")["links"], before, "nothing is linked")
        return result.stderr

    def test_a_manifest_of_sagemaker_is_linked_and_followed(self):
        names = [f"c1/{i:03d}.jpg" for i in range(1, 150, 3)]
        where = self.put_manifest(self.sagemaker(names))
        self.cluster.cli("link", "train", "--manifest", where)
        link = self.cluster.json("links")["links"][0]
        self.assertEqual((link["source"], link["manifest"], link["objects"]),
                         (f"s3://{self.bucket}/data/", where, len(names)))
        mount = pathlib.Path(self.cluster.mount("train", "m1"))
        self.assertEqual(names_in(mount), names)
        for name in names:
            self.assertEqual((mount / name).read_bytes(), self.files["data/" + name])

        self.put_manifest(self.sagemaker(names[5:] + ["c0/000.jpg"]))
        refreshed = self.cluster.json("refresh", "train")
        self.assertEqual((refreshed["added"], refreshed["removed"], refreshed["changed"]), (1, 5, 0))
        eventually(lambda: names_in(mount) == sorted(names[5:] + ["c0/000.jpg"]), "the mount follows")
        self.assertIn("is there already", self.cluster.cli("link", "train", "--manifest", where).stdout)

        self.put_manifest("[broken")
        self.assertNotEqual(self.cluster.cli("refresh", "train", check=False).returncode, 0)
        self.assertEqual(len(names_in(mount)), len(names) - 4, "what was linked stays")

    def test_a_list_has_keys_or_locations_or_names_behind_a_prefix(self):
        text = f"data/c0/000.jpg\r\n\ns3://{self.bucket}/data/c1/001.jpg\n"
        self.cluster.cli("link", "some", "--manifest", self.put_manifest(text))
        self.assertEqual(names_in(self.cluster.mount("some", "m1")), ["c0/000.jpg", "c1/001.jpg"])
        where = self.put_manifest("c0/000.jpg\nc2/002.jpg\nc2/005.jpg\n", "lists/other")
        self.cluster.cli("link", f"s3://{self.bucket}/data", "--as", "more", "--manifest", where, "--exclude", "005.*")
        self.assertEqual(names_in(self.cluster.mount("more", "m2")), ["c0/000.jpg", "c2/002.jpg"])

    def test_a_bad_line_links_nothing_unless_it_may_be_left_out(self):
        text = "data/c0/000.jpg\ndata/gone.jpg\ns3://elsewhere/x\ndata/c1/001.jpg\n"
        where = self.put_manifest(text)
        message = self.refused("train", "--manifest", where)
        self.assertIn("line 3 's3://elsewhere/x' is not in bucket", message)
        self.put_manifest(text.replace("s3://elsewhere/x\n", ""))
        message = self.refused("train", "--manifest", where)
        self.assertIn(f"line 2 s3://{self.bucket}/data/gone.jpg is not there", message)
        self.assertIn("--skip-bad", message)

        self.put_manifest(text)
        shown = self.cluster.json("link", "train", "--manifest", where, "--skip-bad")
        self.assertEqual((shown["objects"], shown["skipped"]), (2, 2))
        report = self.cluster.json("task", "show", shown["task"])["task"]["failures"]
        self.assertEqual([row["key"] for row in report], ["line 3", "line 2"])
        self.assertIn("is not there", report[1]["reason"])
        self.assertEqual(names_in(self.cluster.mount("train", "m1")), ["c0/000.jpg", "c1/001.jpg"])

    def test_the_attributes_of_an_augmented_manifest_are_shown_and_followed(self):
        def augmented(names, label):
            rows = [{"source-ref": f"s3://{self.bucket}/data/{name}", "class": label(name), "Größe": [1, None]}
                    for name in names]
            return rows, self.put_manifest("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

        def sidecar(mount):
            lines = (pathlib.Path(mount) / ".forebay/attributes.jsonl").read_text().splitlines()
            return [(row["path"], row["attributes"]) for row in map(json.loads, lines)]

        def shown(name):
            return json.loads(os.getxattr(mount / name, "user.forebay.attributes"))

        names = [f"c1/{i:03d}.jpg" for i in range(1, 150, 3)][::-1] + ["c0/000.jpg"]
        rows, where = augmented(names, lambda name: name[:2])
        # A name that comes twice is one file with two lines.
        rows.append(rows[3] | {"class": "again"})
        self.put_manifest("".join(json.dumps(row) + "\n" for row in rows))
        self.cluster.cli("link", "train", "--manifest", where)
        mount = pathlib.Path(self.cluster.mount("train", "m1"))
        self.assertEqual(names_in(mount), sorted(names))
        self.assertEqual(sidecar(mount), [(row["source-ref"].split("/data/")[1], row) for row in rows])
        for name, row in zip(names, rows):
            self.assertEqual(shown(name), row)
            self.assertIn("user.forebay.attributes", os.listxattr(mount / name))
            self.assertEqual((mount / name).read_bytes(), self.files["data/" + name])
        part = self.cluster.mount("train/c0", "m2")
        self.assertEqual([path for path, _ in sidecar(part)], ["000.jpg"])
        shards = [self.cluster.mount("train", f"s{i}", "--shard", f"{i}/2") for i in range(2)]
        self.assertEqual(sum(len(sidecar(shard)) for shard in shards), len(rows))

        # The objects are the same, and what is said of them is not.
        rows, where = augmented(names, lambda name: "other")
        self.cluster.cli("refresh", "train")
        eventually(lambda: shown("c0/000.jpg") == rows[-1], "the mount follows")
        self.assertEqual(len(sidecar(mount)), len(rows))

        # A file and a folder are looked up by themselves: bytes follow, attributes, shards and the rest stay as they were.
        before = sidecar(mount)
        rows, where = augmented(names, lambda name: "not asked for")
        changed = {"data/c1/004.jpg": os.urandom(500), "data/c0/000.jpg": os.urandom(600)}
        self.put(changed)
        for target in ("train/c1", "train/c0/000.jpg"):
            refreshed = self.cluster.json("refresh", target)
            self.assertEqual((refreshed["added"], refreshed["removed"], refreshed["changed"]), (0, 0, 1))
        self.files |= changed
        for name in ("c1/004.jpg", "c0/000.jpg"):
            eventually(lambda name=name: (mount / name).stat().st_size == len(changed["data/" + name]), "the mount follows")
            self.assertEqual((mount / name).read_bytes(), changed["data/" + name])
            self.assertEqual(shown(name)["class"], "other")
        self.assertEqual(sidecar(mount), before)
        eventually(lambda: sorted(row for shard in shards for row in map(str, sidecar(shard))) == sorted(map(str, before)),
                   "the shards follow, and none has a line twice")
        self.assertEqual(sorted(name for shard in shards for name in names_in(shard)), sorted(names))
        self.cluster.cli("refresh", "train")
        eventually(lambda: shown("c0/000.jpg")["class"] == "not asked for", "a refresh of the whole reads the manifest")

        before = sidecar(mount)
        bad = "".join(json.dumps(row) + "\n" for row in rows[:2]) + '{"source-ref": 7}\n'
        self.put_manifest(bad)
        message = self.cluster.cli("refresh", "train", check=False).stderr
        self.assertIn("line 3", message)
        self.assertEqual(sidecar(mount), before, "what was linked stays")
        report = self.cluster.json("link", "some", "--manifest", where, "--skip-bad")
        self.assertEqual((report["objects"], report["skipped"]), (2, 1))
        plain = pathlib.Path(self.cluster.mount("some", "m3"))
        self.assertEqual(len(sidecar(plain)), 2)

    def test_what_is_no_manifest_is_refused_with_its_reason(self):
        self.assertIn("names no object", self.refused("a", "--manifest", self.put_manifest("")))
        self.assertIn("first entry", self.refused("a", "--manifest", self.put_manifest('["x"]')))
        self.assertIn("source-ref", self.refused("a", "--manifest", self.put_manifest('{"source": "a text"}')))
        self.assertIn("404", self.refused("a", "--manifest", f"s3://{self.bucket}/lists/none"))
        self.assertIn("is not there", self.refused("a", "--skip-bad", "--manifest", self.put_manifest("nothing\n")))


if __name__ == "__main__":
    main()
