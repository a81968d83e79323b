#!/usr/bin/python3
"""Links share blocks of the same objects when an administrator names one sharing domain for them, and never otherwise."""

import json

from e2e import eventually, main
from verified_load import VerifiedTest


class Sharing(VerifiedTest):
    FILES = 300  # of one block each

    def epoch(self, name, what):
        """Every byte once, each compared; answers the GETs that it took."""
        mount = self.cluster.folder / name if name in self.cluster.mounts else self.cluster.mount(name, name)
        before = self.fetched()
        self.finish(self.load(mount, passes=1, readers=1), what, rate=0)
        return self.fetched() - before

    def placed(self, name):
        """Reads that the mount made out of a node's own files."""
        placed = json.loads((self.cluster.folder / name / ".forebay/stats").read_text())["placed_reads"]
        return placed["read"] + placed["remembered"]

    def blocks(self):
        return sum(node["blocks"] for node in self.cluster.json("nodes")["nodes"])

    def test_two_links_of_one_domain_cost_one_get_a_block(self):
        self.start()
        for name in ("one", "two"):
            self.link(name, "", "--no-background-fill", "--sharing-domain", "team")
        self.assertEqual(self.epoch("one", "first link, cold"), self.FILES)
        eventually(lambda: self.blocks() == self.FILES, "each block is stored once")
        self.assertEqual(self.epoch("two", "second link, cold"), 0, "1.000 GET a block for both")
        self.assertEqual(self.blocks(), self.FILES)
        self.assertEqual(self.placed("two"), 0, "the files of the first are not the second's to open")
        rows = {row["name"]: row for row in self.cluster.json("links")["links"]}
        self.assertEqual([rows[name]["sharing_domain"] for name in ("one", "two")], ["team", "team"])

        # One is evicted, then removed with all that it has: the other reads on.
        self.assertEqual(self.cluster.cli("evict", "one", "--yes", check=False).returncode, 2, "a job reads it through the other")
        self.cluster.cli("evict", "one", "--yes", "--force")
        self.assertEqual(self.epoch("two", "after the first was evicted"), self.FILES)
        eventually(lambda: self.blocks() == self.FILES, "it has brought them itself")
        self.assertEqual(self.cluster.unmount("one"), 0)
        self.cluster.cli("unlink", "one", "--evict")
        self.assertEqual(self.epoch("two", "after the first was removed"), 0)

        # The declaration says it, and the same name is the same domain again.
        exported = {link["name"]: link for link in self.cluster.json("export")["links"]}
        self.assertEqual(exported["two"]["sharing-domain"], "team")
        self.link("again", "", "--no-background-fill", "--sharing-domain", "team")
        self.assertEqual(self.epoch("again", "a new link of the domain"), 0)

        pinned = self.cluster.cli("pin", "two", check=False)
        self.assertEqual(pinned.returncode, 2, pinned.stderr)
        self.assertIn("what is shared cannot be pinned", pinned.stderr)
        other = self.cluster.cli("link", f"s3://{self.bucket}/", "--as", "other", "--sharing-domain", "team", "--requester-pays", check=False)
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertIn("sharing domain 'team'", other.stderr)

    def test_without_a_domain_or_with_another_nothing_is_shared(self):
        self.start()
        self.link("one", "", "--no-background-fill")
        self.link("two", "", "--no-background-fill")
        self.link("three", "", "--no-background-fill", "--sharing-domain", "team")
        for name in ("one", "two", "three"):
            self.assertEqual(self.epoch(name, f"link {name}, cold"), self.FILES)
        eventually(lambda: self.blocks() == 3 * self.FILES, "each link has its own")


if __name__ == "__main__":
    main()
