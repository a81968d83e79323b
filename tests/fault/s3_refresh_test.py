#!/usr/bin/python3
"""A link is refreshed under a running reader, with one change, a thousand and 200,000: the reader of what did not change
sees nothing of it, and every name that changed shows its new version."""

import os
import pathlib

import scripted_s3
from e2e import eventually, main

FIRST, SECOND = b"first version", b"the second version"


class RefreshUnderReaders(scripted_s3.ScriptedS3Test):
    def sizes(self, folder):
        """How many files have which size, as the kernel says."""
        sizes = {}
        for parent, _, names in os.walk(folder):
            for name in names:
                size = os.stat(os.path.join(parent, name)).st_size
                sizes[size] = sizes.get(size, 0) + 1
        return sizes

    def refresh_with(self, count):
        still = {f"still/{i}": os.urandom(5000) for i in range(50)}
        self.put(still)
        self.s3.put_many(self.bucket, "d", count, FIRST)
        self.start()
        self.link("data", "")
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        # The kernel knows every name, and would for ever.
        self.assertEqual(self.sizes(mount), {5000: len(still), len(FIRST): count})
        self.s3.put_many(self.bucket, "d", count, SECOND)
        reader = scripted_s3.Reader(mount, still, drops_pages=False)
        try:
            refreshed = self.cluster.json("refresh", "data")
            self.assertEqual((refreshed["added"], refreshed["removed"], refreshed["changed"]), (0, 0, count))
            eventually(lambda: self.sizes(mount) == {5000: len(still), len(SECOND): count},
                       "every name shows its new version", 60)
            before = reader.reads
            eventually(lambda: reader.reads > before + len(still), "the reader goes on")
        finally:
            _, errors = reader.stop()
        self.assertEqual(errors, [])
        for number in {0, count // 2, count - 1}:
            self.assertEqual((mount / f"d{number % 200:03}/f{number:06}").read_bytes(), SECOND)
        self.assertEqual(self.errors_of(mount), "")

    def test_one_change(self):
        self.refresh_with(1)

    def test_a_thousand_changes(self):
        self.refresh_with(1000)

    def test_two_hundred_thousand_changes(self):
        self.refresh_with(200_000)


if __name__ == "__main__":
    main()
