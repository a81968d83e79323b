#!/usr/bin/python3
"""Mode, owner and time of files as their objects' metadata has them, where a link asks for it."""

import os
import pathlib
import stat

from e2e import E2eTest, eventually, main


class PosixMetadata(E2eTest):
    NODES = ("n1",)

    def put_file(self, key, body=b"x", **metadata):
        """As AWS DataSync and FSx for Lustre export it."""
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body,
                           Metadata={"file-" + name: value for name, value in metadata.items()})

    def heads(self):
        counted = self.cluster.coordinator.metrics()
        return sum(int(value) for (name, labels), value in counted.items()
                   if name == "forebay_s3_requests_total" and 'op="HEAD"' in labels and 'code="ok"' in labels)

    def test_files_have_the_mode_owner_and_time_of_their_metadata(self):
        self.put({})
        self.put_file("data/all", permissions="0100640", owner="1234", group="4321", mtime="1595002920123456789ns")
        self.put_file("data/dir/some", permissions="0600")
        self.put_file("data/dir/", body=b"", permissions="0040750", owner="77")
        self.put_file("data/dir/bad", permissions="rw", owner="alice", mtime="yesterday")
        self.put_file("data/none")
        self.start()
        self.link("plain", "data")
        self.assertEqual(self.heads(), 0, "no link asks unless it is told to")
        self.link("data", "data", "--posix-metadata")
        self.assertEqual(self.heads(), 5, "one for each object")
        row = {row["name"]: row["posix_metadata"] for row in self.cluster.json("links")["links"]}
        self.assertEqual(row, {"plain": False, "data": True})

        mount = pathlib.Path(self.cluster.mount("data", "m1", "--file-mode", "0444", "--uid", "9"))
        plain = pathlib.Path(self.cluster.mount("plain", "m2", "--file-mode", "0444", "--uid", "9"))
        listed = {path.relative_to(plain): path.stat() for path in plain.rglob("*")}

        def shown(name):
            status = (mount / name).stat()
            return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, status.st_mtime_ns

        mine = os.getgid()
        of_s3 = {str(name): status.st_mtime_ns for name, status in listed.items()}
        self.assertEqual(shown("all"), (0o640, 1234, 4321, 1595002920123456789))
        self.assertEqual(shown("dir/some"), (0o600, 9, mine, of_s3["dir/some"]))
        self.assertEqual(shown("dir")[:2], (0o750, 77))
        self.assertEqual(shown("dir/bad"), (0o444, 9, mine, of_s3["dir/bad"]))
        self.assertEqual(shown("none"), (0o444, 9, mine, of_s3["none"]))
        self.assertEqual(stat.S_IMODE(listed[pathlib.Path("all")].st_mode), 0o444)
        # By readdir as by lookup, and in a shard.
        with os.scandir(self.cluster.mount("data", "m3", "--shard", "0/1")) as entries:
            self.assertEqual({entry.name: stat.S_IMODE(entry.stat().st_mode) for entry in entries},
                             {"all": 0o640, "dir": 0o750, "none": 0o644})
        parts = [pathlib.Path(self.cluster.mount("data", f"s{i}", "--shard", f"{i}/2")) for i in range(2)]
        self.assertEqual([(part / "all").stat().st_uid for part in parts if (part / "all").exists()], [1234])
        self.assertEqual({(part / "dir").stat().st_uid for part in parts}, {77})
        self.assertEqual((mount / "all").read_bytes(), b"x")

        # What did not change is not asked again, but for markers of directories.
        self.assertEqual(self.cluster.json("refresh", "data")["changed"], 0)
        self.assertEqual(self.heads(), 6)
        # A copy of the object onto itself replaces its metadata; S3's times are of whole seconds.
        written = (plain / "none").stat().st_mtime
        eventually(lambda: self.s3.head_object(Bucket=self.bucket, Key="data/none")["LastModified"].timestamp() > written
                   or self.put_file("data/none", owner="55", permissions="0604"), "another time", 10)
        self.cluster.cli("refresh", "data")
        eventually(lambda: shown("none")[:2] == (0o604, 55), "the mount follows")
        self.assertEqual(self.heads(), 8)
        self.assertEqual(shown("all")[1], 1234)


if __name__ == "__main__":
    main()
