#!/usr/bin/python3
"""`link --snapshot` whose listing the coordinator has lost: the link shows what it showed, or nothing new, and never another
listing; mounts that hold it read on; what is pinned stays."""

import json
import os
import shutil

from e2e import E2eTest, drop_page_cache, eventually, main, tree_of

PINNED = "kept/pinned"


class Frozen(E2eTest):
    NODES = ("n1", "n2")

    def setUp(self):
        super().setUp()
        self.files = {**{f"d{i % 7}/file {i}": os.urandom(1000 + i) for i in range(300)}, PINNED: b"p" * 5000}
        self.put(self.files, "d/")
        self.start()
        self.link("data", "d/", "--snapshot")
        self.was = self.shown()
        self.mounted = self.cluster.mount("data", "m1")
        self.assertEqual(tree_of(self.mounted), self.files)
        self.cluster.cli("pin", f"data/{PINNED}")
        self.fetched = self.gets()["gets"]

    def shown(self):
        """What the link is: its generation and the digest of what it lists."""
        row = self.cluster.json("links")["links"][0]
        return row["generation"], row["digest"], row["objects"]

    def alerts(self):
        status = json.loads(self.cluster.cli("-o", "json", "status", check=False).stdout)
        return [row for row in status["alerts"] if row["name"] == "frozen_listing_lost"]

    def lose_listing(self):
        """The coordinator is killed, and what it has listed is gone when it starts again. Answers where that lay and what
        it was."""
        self.cluster.coordinator.kill()
        file, = (self.folder / "coordinator/snapshots").rglob("*.fbs")
        kept = file.read_bytes()
        file.unlink()
        return file, kept

    def read_again(self):
        """As mounted before, of what the nodes hold."""
        drop_page_cache()
        self.assertEqual(tree_of(self.mounted), self.files)

    def test_what_s3_still_has_is_listed_again_and_nobody_notices(self):
        self.lose_listing()
        self.cluster.start_coordinator()
        eventually(lambda: self.shown() == (self.was[0] + 1, *self.was[1:]), "the same listing, as another generation")
        self.assertEqual(self.alerts(), [])
        self.read_again()
        self.assertEqual(tree_of(self.cluster.mount("data", "m2")), self.files)
        self.assertEqual(self.gets()["gets"], self.fetched)

    def test_what_s3_does_not_have_any_more_is_shown_to_nobody_new(self):
        first = sorted(self.files)[0]
        self.lose_listing()
        self.s3.put_object(Bucket=self.bucket, Key=f"d/{first}", Body=b"another")
        self.s3.put_object(Bucket=self.bucket, Key="d/new", Body=b"new")
        self.cluster.start_coordinator()
        alert, = eventually(self.alerts, "the alert")
        self.assertIn("`forebay refresh data`", alert["action"])
        self.assertEqual(self.shown(), self.was)

        # Who has the listing reads on, all of it out of the cache.
        self.read_again()
        self.assertEqual(self.gets()["gets"], self.fetched)
        # A pin is there still, and keeps what it names when the rest goes.
        self.assertEqual([pin["target"] for pin in self.cluster.json("pins")["pins"]], [f"data/{PINNED}"])
        # Nobody who comes now sees another listing, and is told why.
        log = self.folder / "m2.log"
        self.cluster.mount("data", "m2", wait=False)
        eventually(lambda: "the listing of the frozen link 'data' is lost" in log.read_text(), "the mount says why it waits")
        self.assertFalse(os.path.ismount(self.folder / "m2"))

        # Put back in S3 what it had: the same again, when asked.
        self.s3.put_object(Bucket=self.bucket, Key=f"d/{first}", Body=self.files[first])
        self.s3.delete_object(Bucket=self.bucket, Key="d/new")
        self.cluster.cli("refresh", "data")
        self.assertEqual(self.shown()[1:], self.was[1:])
        eventually(lambda: self.alerts() == [], "the alert ends")
        self.cluster.mounts["m2"].wait_ready()
        self.assertEqual(tree_of(self.folder / "m2"), self.files)
        self.assertEqual(self.gets()["gets"], self.fetched)

    def test_the_file_of_a_mount_is_taken_back(self):
        file, kept = self.lose_listing()
        self.s3.put_object(Bucket=self.bucket, Key="d/new", Body=b"new")
        self.cluster.start_coordinator()
        eventually(self.alerts, "the alert")
        held, = (self.folder / "m1.state").rglob(file.name)
        self.assertEqual(held.read_bytes(), kept)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(held, file)
        self.cluster.cli("refresh", "data")
        eventually(lambda: self.alerts() == [], "the alert ends")
        self.assertEqual(self.shown(), self.was)
        self.assertEqual(tree_of(self.cluster.mount("data", "m2")), self.files)
        self.read_again()
        self.assertEqual(self.gets()["gets"], self.fetched)


if __name__ == "__main__":
    main()
