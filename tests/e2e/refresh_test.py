#!/usr/bin/python3
"""A link is refreshed under a mount: what is new shows, what did not change costs nothing, what is open stays what it was."""

import os
import pathlib

from e2e import E2eTest, drop_page_cache, eventually, held_in_page_cache, main, read_all
from mount_state import names_in


class Refresh(E2eTest):
    def setUp(self):
        super().setUp()
        self.files = {f"d{i % 10}/f{i:04d}": os.urandom(20_000) for i in range(300)}
        self.put(self.files)
        self.start()

    def generation(self):
        return self.link_stats()["generation"]

    def refreshed(self, target="data"):
        result = self.cluster.json("refresh", target)
        return result["added"], result["removed"], result["changed"]

    def test_a_mount_follows_and_what_did_not_change_costs_nothing(self):
        self.link()
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        read_all(mount)
        gets = self.gets()["gets"]

        self.put({"d0/new": b"new", "d1/f0001": b"another version", "e/f/g": b"deep"})
        self.s3.delete_object(Bucket=self.bucket, Key="d2/f0002")
        with open(mount / "d1/f0001", "rb", buffering=0) as is_open, open(mount / "d2/f0002", "rb", buffering=0) as is_gone:
            self.assertEqual(self.refreshed(), (2, 1, 1))
            expected = dict(self.files, **{"d0/new": b"new", "d1/f0001": b"another version", "e/f/g": b"deep"})
            del expected["d2/f0002"]
            eventually(lambda: names_in(mount) == sorted(expected), "the mount shows the new generation")
            for name in ("d0/new", "d1/f0001", "e/f/g"):
                self.assertEqual((mount / name).read_bytes(), expected[name])
            with self.assertRaises(FileNotFoundError):
                open(mount / "d2/f0002", "rb")
            # Both versions are cached: who has a file open reads on in the one that was opened.
            drop_page_cache()
            self.assertEqual(is_open.read(), self.files["d1/f0001"])
            self.assertEqual(is_gone.read(), self.files["d2/f0002"])

        self.assertEqual({name: (mount / name).read_bytes() for name in expected}, expected)
        self.assertEqual(self.gets()["gets"], gets + 3)

    def test_globs_choose_what_a_link_shows_now_and_later(self):
        self.put({"d1/notes.txt": b"n", "d1/a.jpg": b"a", "tmp/b.jpg": b"b"})
        words = ("--include", "*.jpg", "--include", "/d2/", "--exclude", "/tmp/")
        self.link("some", "", *words)
        link = next(row for row in self.cluster.json("links")["links"] if row["name"] == "some")
        self.assertEqual((link["include"], link["exclude"]), (["*.jpg", "/d2/"], ["/tmp/"]))
        shown = {name for name in self.files if name.startswith("d2/")} | {"d1/a.jpg"}
        self.assertEqual(link["objects"], len(shown))
        mount = pathlib.Path(self.cluster.mount("some", "m1"))
        self.assertEqual(names_in(mount), sorted(shown))
        self.assertEqual((mount / "d1/a.jpg").read_bytes(), b"a")

        self.put({"d3/c.jpg": b"c", "d3/more.txt": b"m", "tmp/d.jpg": b"d"})
        self.assertEqual(self.refreshed("some"), (1, 0, 0))
        self.put({"d3/e.jpg": b"e", "d3/f.txt": b"f"})
        self.assertEqual(self.refreshed("some/d3"), (1, 0, 0))
        eventually(lambda: names_in(mount) == sorted(shown | {"d3/c.jpg", "d3/e.jpg"}), "what matches shows")

        self.assertIn("is there already", self.link("some", "", *words).stdout)
        other = self.cluster.cli("link", f"s3://{self.bucket}/", "--as", "some", "--include", "*.jpg", check=False)
        self.assertEqual(other.returncode, 2)
        self.assertIn("include '*.jpg' '/d2/', not '*.jpg'", other.stderr)
        none = self.cluster.cli("link", f"s3://{self.bucket}/", "--as", "none", "--include", "*.png", check=False)
        self.assertEqual(none.returncode, 1)
        self.assertIn("--include and --exclude leave nothing of", none.stderr)
        one = self.cluster.cli("link", f"s3://{self.bucket}/d1/a.jpg", "--include", "*", check=False)
        self.assertEqual(one.returncode, 1)
        self.assertIn("is one object", one.stderr)

    def test_pages_of_unchanged_files_outlive_the_refresh(self):
        self.link()
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        unchanged = {name: body for name, body in self.files.items() if name != "d0/f0000"}
        with held_in_page_cache(mount / name for name in unchanged):
            self.put({"d0/new": b"new", "d0/f0000": b"another version"})
            before = self.fuse_ops("m1")
            self.assertEqual(self.refreshed("data/d0"), (1, 0, 1))
            eventually(lambda: (mount / "d0/new").exists(), "the new file shows")
            for name, body in unchanged.items():
                self.assertEqual((mount / name).read_bytes(), body)
            reads = self.fuse_ops("m1").get("read", 0) - before.get("read", 0)
            self.assertEqual(reads, 0, "the page cache of what did not change is still good")
            self.assertEqual((mount / "d0/f0000").read_bytes(), b"another version")

    def test_thousands_of_changes_show_at_once(self):
        self.link()
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        self.assertEqual(names_in(mount), sorted(self.files))
        source = self.folder / "more"
        for i in range(2000):
            path = source / f"d{i % 10}" / f"g{i:04d}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"%d" % i)
        self.rgw.upload(source, self.bucket, "")
        self.assertEqual(self.refreshed(), (2000, 0, 0))
        eventually(lambda: len(names_in(mount)) == len(self.files) + 2000, "all of them show")
        self.assertEqual((mount / "d7/g1997").read_bytes(), b"1997")

    def test_a_periodic_link_follows_by_itself(self):
        self.link("data", "", "--refresh", "1s")
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        self.assertFalse((mount / "late").exists())
        self.put({"late": b"here"})
        eventually(lambda: (mount / "late").exists(), "the new file shows without a command")
        self.assertEqual((mount / "late").read_bytes(), b"here")

    def test_what_cannot_be_refreshed_is_said_in_a_sentence(self):
        self.link("frozen", "", "--refresh", "immutable")
        for target, code, sentence in (("frozen", 2, "immutable"), ("nolink", 1, "no link 'nolink'")):
            result = self.cluster.cli("refresh", target, check=False)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertIn(sentence, result.stderr)
        self.link("data2", "d0/")
        self.rgw.off()
        try:
            result = self.cluster.cli("--timeout", "2s", "refresh", "data2", check=False)
            self.assertEqual(result.returncode, 4, result.stderr)
        finally:
            self.rgw.on()
        self.assertEqual(self.link_stats("data2")["generation"], 1)


if __name__ == "__main__":
    main()
