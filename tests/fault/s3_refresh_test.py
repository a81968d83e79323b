#!/usr/bin/python3
"""A link is refreshed under a running reader, with one change, a thousand and 200,000, of which a third each are new, gone
and changed: the reader of what did not change sees nothing of it, and every name shows what S3 has."""

import os
import pathlib

import scripted_s3
from e2e import eventually, main

FIRST, SECOND, NEW = b"first version", b"the second version", b"new"


class RefreshUnderReaders(scripted_s3.ScriptedS3Test):
    def sizes(self, folder):
        """How many files have which size, as the kernel says; None is that of one that went between its name and itself."""
        sizes = {}
        for parent, _, names in os.walk(folder):
            for name in names:
                try:
                    size = os.stat(os.path.join(parent, name)).st_size
                except FileNotFoundError:
                    size = None
                sizes[size] = sizes.get(size, 0) + 1
        return sizes

    def names(self, mount, prefix, count):
        """The first, the middle and the last of what put_many() makes."""
        return [mount / f"{prefix}{number % 200:03}/f{number:06}" for number in sorted({0, count // 2, count - 1})
                if number in range(count)]

    def refresh_with(self, count):
        new = gone = count // 3
        changed = count - new - gone
        still = {f"still/{i}": os.urandom(5000) for i in range(50)}
        self.put(still)
        self.s3.put_many(self.bucket, "changed", changed, FIRST)
        self.s3.put_many(self.bucket, "gone", gone, FIRST)
        self.start()
        self.link("data", "")
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        # The kernel knows every name, and would for ever; also of names that are not there.
        self.assertEqual(self.sizes(mount), {5000: len(still), len(FIRST): changed + gone})
        looked_up = [self.names(mount, prefix, number) for prefix, number in (("new", new), ("gone", gone))]
        for name in looked_up[0]:
            self.assertFalse(name.exists(), name)
        self.s3.put_many(self.bucket, "changed", changed, SECOND)
        self.s3.delete_many(self.bucket, "gone", gone)
        self.s3.put_many(self.bucket, "new", new, NEW)
        shown = {5000: len(still), len(SECOND): changed, **({len(NEW): new} if new else {})}
        reader = scripted_s3.Reader(mount, still, drops_pages=False)
        try:
            refreshed = self.cluster.json("refresh", "data")
            self.assertEqual((refreshed["added"], refreshed["removed"], refreshed["changed"]), (new, gone, changed))
            eventually(lambda: self.sizes(mount) == shown, "every name shows what S3 has", 60)
            before = reader.reads
            eventually(lambda: reader.reads > before + len(still), "the reader goes on")
        finally:
            _, errors = reader.stop()
        self.assertEqual(errors, [])
        for name in self.names(mount, "changed", changed):
            self.assertEqual(name.read_bytes(), SECOND)
        for name in looked_up[0]:
            self.assertEqual(name.read_bytes(), NEW)
        for name in looked_up[1]:
            self.assertFalse(name.exists(), name)
        folders = {entry.name.rstrip("0123456789") for entry in mount.iterdir()}
        self.assertEqual(folders, {"changed", "still"} | ({"new"} if new else set()))
        self.assertEqual(self.errors_of(mount), "")

    def test_one_change(self):
        self.refresh_with(1)

    def test_a_thousand_changes(self):
        self.refresh_with(1000)

    def test_two_hundred_thousand_changes(self):
        self.refresh_with(200_000)


if __name__ == "__main__":
    main()
