#!/usr/bin/python3
"""A link is refreshed under a running reader, with one change, a thousand and 200,000: the reader of what did not change
sees nothing of it, and every name that changed shows its new version."""

import os
import pathlib
import threading

import scripted_s3
from e2e import eventually, main

FIRST, SECOND = b"first version", b"the second version"


class Reader(threading.Thread):
    """Reads the files again and again until stop()."""

    def __init__(self, mount, expected):
        super().__init__()
        self.mount, self.expected, self.ends, self.reads, self.errors = mount, expected, False, 0, []
        self.start()

    def run(self):
        while not self.ends:
            for name, body in self.expected.items():
                try:
                    if (self.mount / name).read_bytes() != body:
                        self.errors.append(f"{name}: wrong bytes")
                except OSError as error:
                    self.errors.append(f"{name}: {error}")
                self.reads += 1

    def stop(self):
        self.ends = True
        self.join(120)
        return self.errors


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
        reader = Reader(mount, still)
        try:
            refreshed = self.cluster.json("refresh", "data")
            self.assertEqual((refreshed["added"], refreshed["removed"], refreshed["changed"]), (0, 0, count))
            eventually(lambda: self.sizes(mount) == {5000: len(still), len(SECOND): count},
                       "every name shows its new version", 60)
            before = reader.reads
            eventually(lambda: reader.reads > before + len(still), "the reader goes on")
        finally:
            errors = reader.stop()
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
