#!/usr/bin/python3
"""Why a file is slow: what `forebay explain PATH` says from its first read to its eviction, and of what S3 has meanwhile."""

import json
import os

from e2e import BLOCK, E2eTest, eventually, main


class Explain(E2eTest):
    def explain(self, target="data/f"):
        return self.cluster.json("explain", str(target))

    def losses(self, target):
        """Why the blocks of the target that are not cached are not, as far as any node knows."""
        return {node["lost_because"] for block in self.explain(target)["described"] if not block["cached"]
                for node in block["nodes"]}

    def refused(self, *words, code, says=()):
        result = self.cluster.cli("explain", *words, check=False)
        self.assertEqual(result.returncode, code, (words, result.stdout, result.stderr))
        self.assertEqual((result.stdout, len(result.stderr.strip().splitlines())), ("", 1), result.stderr)
        for word in says:
            self.assertIn(word, result.stderr)

    def test_from_the_first_read_to_the_eviction(self):
        size = 2 * BLOCK + 1000
        self.put({"f": os.urandom(size), "empty": b""})
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        cold = self.explain()
        self.assertEqual((cold["size"], cold["blocks"], cold["cached_bytes"]), (size, 3, 0))
        self.assertEqual(cold["s3_now"], {"state": "as-listed", "size": size, "etag": cold["etag"], "error": None})
        for block in cold["described"]:
            self.assertEqual(sorted(block["owners"]), ["n1", "n2", "n3"])
            self.assertEqual([(node["node"], node["last_read"], node["lost"]) for node in block["nodes"]],
                             [(block["owners"][0], None, None)])
        self.assertIn("nothing has read it since", cold["summary"])
        self.assertIn("costs 3 GETs; `forebay preload data/f`", cold["summary"])
        self.assertEqual(self.gets()["gets"], 0, "to explain is not to fetch")

        (mount / "f").read_bytes()
        warm = eventually(lambda: (now := self.explain())["cached_bytes"] == size and now, "all of it is cached", 10)
        for block in warm["described"]:
            [owner] = [node for node in block["nodes"] if node["cached"]]
            self.assertEqual((owner["node"], owner["job"]), (block["owners"][0], "m1"), block)
            self.assertGreaterEqual(owner["last_read"], owner["remembers_since"])
        self.assertIn("where readers ask first", warm["summary"])
        text = self.cluster.cli("explain", "data/f").stdout
        self.assertIn(" by job m1, at n", text)
        self.assertIn("pinned      no\n", text)
        # A path inside the mount is the same file.
        self.assertEqual(self.explain(mount / "f")["target"], "data/f")
        self.cluster.cli("pin", "data/f", "--ttl", "1h")
        self.assertEqual([(pin["target"], pin["job"]) for pin in self.explain()["pins"]], [("data/f", None)])
        self.cluster.cli("unpin", "data/f")

        self.cluster.cli("evict", "data/f", "--yes", "--force")
        self.assertEqual(self.losses("data/f"), {"asked"})
        self.assertIn("somebody asked for it", self.explain()["summary"])
        self.assertIn("a read costs nothing", self.explain("data/empty")["summary"])
        # An owner that has restarted has no memory and says so; the others' blocks are still told of.
        forgetful = self.explain()["described"][0]["owners"][0]
        self.cluster.nodes[forgetful].stop()
        self.cluster.start_node(forgetful, self.CACHE)
        eventually(lambda: {node["state"] for node in self.cluster.json("stats")["nodes"]} == {"up"}, "all are up", 20)
        for block in self.explain()["described"]:
            owner = block["owners"][0]
            lost = {node["node"]: node["lost_because"] for node in block["nodes"]}
            self.assertEqual(lost, {owner: None if owner == forgetful else "asked"})

    def test_a_full_cache_and_a_pin_that_takes_its_place(self):
        self.put({f"f{i:02d}": os.urandom(4_000_000) for i in range(30)}, "a/")
        self.put({"keep": os.urandom(8_000_000)}, "b/")
        self.start(nodes=["n1"], cache="64MiB")
        self.link("data", "a/")
        self.link("other", "b/")
        mount = self.cluster.mount("data", "m1")
        for path in sorted(mount.iterdir()):
            path.read_bytes()
        self.assertEqual(self.explain("data/f00")["cached_bytes"], 4_000_000)
        eventually(lambda: self.losses("data/f29") == {"no-room"}, "the cache is full", 10)
        self.assertIn("not kept: the cache is full", self.explain("data/f29")["summary"])
        # A pinned block takes the place of the oldest one of a link in use.
        self.cluster.cli("pin", "other/keep")
        self.cluster.cli("preload", "other")
        self.assertEqual(self.losses("data/f00"), {"replaced"})
        self.assertIn("`forebay pin data/f00`", self.explain("data/f00")["summary"])
        self.cluster.cli("quota", "data", "8MB")
        eventually(lambda: self.losses("data/f10") == {"over-quota"}, "the quota takes it", 10)

    def test_what_s3_has_now(self):
        self.put({"f": b"first", "g": b"gone soon"})
        self.start(nodes=["n1"])
        self.link()
        self.put({"f": b"second"})
        self.s3.delete_object(Bucket=self.bucket, Key="g")
        replaced = self.explain("data/f")
        self.assertEqual((replaced["size"], replaced["s3_now"]["state"], replaced["s3_now"]["size"]), (5, "other-version", 6))
        self.assertNotEqual(replaced["s3_now"]["etag"], replaced["etag"])
        self.assertIn("run `forebay refresh data/f`", replaced["summary"])
        self.assertEqual(self.explain("data/g")["s3_now"]["state"], "gone")
        self.cluster.cli("refresh", "data/f")
        self.assertEqual(self.explain("data/f")["s3_now"]["state"], "as-listed")
        self.rgw.off()
        try:
            result = self.cluster.cli("-o", "json", "explain", "data/f", check=False)
        finally:
            self.rgw.on()
        self.assertEqual(result.returncode, 3, result.stderr)
        away = json.loads(result.stdout)
        self.assertEqual(away["s3_now"]["state"], "unknown")
        self.assertTrue(away["s3_now"]["error"])
        self.assertEqual(away["blocks"], 1, "the rest of the answer came")

    def test_bad_input_is_one_sentence(self):
        self.put({"train/f": b"x"})
        self.start(nodes=["n1"])
        self.link()
        self.refused("data/train", code=2, says=["'data/train' is a folder", "one file"])
        self.refused("data", code=2, says=["'data' is a folder"])
        self.refused("data/train/nothing", code=1, says=["train/nothing"])
        self.refused("dta/train/f", code=1, says=["data"])
        self.refused("/nowhere/f", code=2, says=["/nowhere/f"])
        self.refused(code=2, says=["a file or --job ID"])
        self.refused("data/train/f", "--job", "m1", code=2, says=["a file or --job ID"])
        result = self.cluster.cli("-o", "json", "explain", "data/train", check=False)
        self.assertEqual((result.returncode, json.loads(result.stderr)["error"]["code"]), (2, "Invalid"))


if __name__ == "__main__":
    main()
