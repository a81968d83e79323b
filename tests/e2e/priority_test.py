#!/usr/bin/python3
"""Two links that do not both fit into the cache: the one of higher priority is kept."""

import os

from e2e import E2eTest, drop_page_cache, eventually, main

FILES = 400
SIZE = 120_000
ALL = FILES * SIZE


class Priority(E2eTest):
    def read(self, name):
        """All of a link, past the page cache; answers the GETs that it took."""
        drop_page_cache()
        before = self.gets()["gets"]
        for i in range(FILES):
            data = (self.mounts[name] / f"f{i}").read_bytes()
            self.assertEqual((len(data), data[:16]), (SIZE, self.heads[name, i]))
        return self.gets()["gets"] - before

    def cached(self, name):
        return self.link_stats(name)["cached_bytes"]

    def is_kept(self, name):
        eventually(lambda: self.cached(name) == ALL, f"all of {name} is cached", 10)

    def test_the_link_of_higher_priority_is_kept(self):
        self.heads = {}
        body = os.urandom(SIZE)
        for name in ("scratch", "train"):
            self.heads |= {(name, i): os.urandom(16) for i in range(FILES)}
            self.put({f"f{i}": self.heads[name, i] + body[16:] for i in range(FILES)}, f"{name}/")
        # Room for one of them and a few blocks.
        self.start(nodes=["n1"], cache="64MiB", node_options=("--memory-limit", "64MiB"))
        self.link("scratch", "scratch/", "--no-background-fill", "--priority", "low")
        self.link("train", "train/", "--no-background-fill")
        self.mounts = {name: self.cluster.mount(name, name) for name in ("scratch", "train")}
        self.assertEqual({link["name"]: link["priority"] for link in self.cluster.json("links")["links"]},
                         {"scratch": "low", "train": "normal"})

        self.assertEqual(self.read("scratch"), FILES)
        self.is_kept("scratch")
        # Both are in use; the lower one makes way.
        self.assertEqual(self.read("train"), FILES)
        self.is_kept("train")
        left = self.cached("scratch")
        self.assertLess(left, ALL / 2)
        # The lower one is read through, and takes nothing back.
        self.assertGreater(self.read("scratch"), FILES / 4)
        self.assertGreater(self.read("scratch"), FILES / 4)
        self.is_kept("train")
        self.assertEqual(self.read("train"), 0)

        # Changed while both are mounted and read.
        done = self.cluster.json("priority", "scratch", "high")
        self.assertEqual((done["changed"], done["not_told"]), (True, []))
        self.assertFalse(self.cluster.json("priority", "scratch", "high")["changed"])
        self.assertEqual(self.link_stats("scratch")["priority"], "high")
        # Also out of the node's memory, where what the store refused is read from for a while.
        self.cluster.cli("evict", "scratch", "--yes", "--force")
        self.assertEqual(self.read("scratch"), FILES)
        self.is_kept("scratch")
        self.assertLess(self.cached("train"), ALL / 2)
        # A node that starts without a coordinator knows it.
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        self.assertEqual(self.cluster.nodes["n1"].stop(), 0)
        self.cluster.start_node("n1", "64MiB", "--memory-limit", "64MiB")
        self.read("train")
        self.assertEqual(self.read("scratch"), 0)

        self.cluster.start_coordinator()
        wrong = self.cluster.cli("priority", "scratch", "urgent", check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("none of low, normal and high", wrong.stderr)
        again = self.cluster.cli("link", f"s3://{self.bucket}/train/", "--as", "train", "--no-background-fill",
                                 "--priority", "low", check=False)
        self.assertEqual(again.returncode, 2)
        self.assertIn("priority normal, not low", again.stderr)
        print(f"\n    of the lower link {left / ALL:.2f} stayed cached; of the higher one all")


if __name__ == "__main__":
    main()
