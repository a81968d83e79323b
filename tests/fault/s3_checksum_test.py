#!/usr/bin/python3
"""`preload --verify` proves that the cache holds what was uploaded, by the checksums that S3 keeps of it; a byte that
differs is found, not kept, and fetched again."""

import base64
import os
import pathlib
import zlib

import scripted_s3
from e2e import main


def crc(bits, polynomial, data):
    """Bit by bit, as the standards define it: nothing of it is shared with the nodes' code."""
    mask, value = (1 << bits) - 1, (1 << bits) - 1
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
    return base64.b64encode(((value ^ mask) & mask).to_bytes(bits // 8, "big")).decode()


def crc64nvme(data):
    return {"x_amz_checksum_crc64nvme": crc(64, 0x9A6C9329AC4BC9B5, data)}


def crc32c(data):
    return {"x_amz_checksum_crc32c": crc(32, 0x82F63B78, data)}


def crc32(data):
    return {"x_amz_checksum_crc32": base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()}


class S3Checksum(scripted_s3.ScriptedS3Test):
    def begin(self, *link_options):
        self.start()
        self.link("data", "", "--block-size", "256KiB", *link_options)
        return pathlib.Path(self.cluster.mount("data", "m1"))

    def verify(self):
        return self.json_of("preload", "data", "--verify")

    def test_objects_of_one_and_of_many_blocks_are_compared(self):
        files = {f"{name}/{size}": (os.urandom(size), checksum)
                 for name, checksum in (("nvme", crc64nvme), ("c32c", crc32c), ("c32", crc32))
                 for size in (0, 1, 65_536, 262_144, 262_145, 700_001)}
        for key, (body, checksum) in files.items():
            self.s3.put(self.bucket, key, body, **checksum(body))
        self.s3.put(self.bucket, "plain", b"x" * 300_000)
        self.s3.put(self.bucket, "parts", b"x" * 300_000, x_amz_checksum_crc32c="yZRlqg==-2")
        self.begin()
        task = self.verify()["task"]
        self.assertEqual(task["verification"], {"verified": len(files), "without_checksum": 2, "mismatched": 0,
                                                "not_cached": 0})
        self.assertEqual(task["state"], "done")
        text = self.cluster.cli("preload", "data", "--verify").stdout
        self.assertIn(f"{len(files)} objects are what was uploaded", text)

    def frozen(self, *, versions=True):
        """Files of a frozen link, all cached, of which two were overwritten and one deleted since; {name: body}."""
        files = {name: os.urandom(700_000) for name in ("twice", "once", "gone", "same")}
        for key, body in files.items():
            self.s3.put(self.bucket, key, body, **crc64nvme(body))
        if versions:
            self.s3.keep_versions(self.bucket)
        self.begin("--snapshot")
        self.cluster.cli("preload", "data")
        for key in ("twice", "twice", "once"):
            newer = os.urandom(1000)
            self.s3.put(self.bucket, key, newer, **crc64nvme(newer))
        self.s3.delete(self.bucket, "gone")
        self.s3.script()
        return files

    def test_what_was_overwritten_behind_a_frozen_link_is_compared_with_the_version_that_it_shows(self):
        files = self.frozen()
        self.assertEqual(self.verify()["task"]["verification"],
                         {"verified": len(files), "without_checksum": 0, "mismatched": 0, "not_cached": 0})
        self.assertEqual([self.s3.requests(op) for op in ("HEAD", "VERSIONS", "HEAD_VERSION")], [len(files), 3, 3])

    def test_an_old_version_that_came_wrong_is_found(self):
        body = os.urandom(700_000)
        self.s3.put(self.bucket, "bad", body, **crc64nvme(body))
        self.s3.keep_versions(self.bucket)
        mount = self.begin("--snapshot")
        self.s3.script({"do": "flip", "op": "GET", "key": "bad", "skip": 1, "times": 1, "bytes": 1000})
        self.cluster.cli("preload", "data")
        self.assert_all_made()
        self.s3.put(self.bucket, "bad", b"newer")
        result = self.cluster.cli("preload", "data", "--verify", check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("CRC64NVME", result.stderr)
        self.assertEqual((mount / "bad").read_bytes(), body)

    def not_compared(self, files):
        task = self.verify()["task"]
        self.assertEqual((task["state"], task["failed"]), ("done", 0))
        self.assertEqual(task["verification"],
                         {"verified": 1, "without_checksum": len(files) - 1, "mismatched": 0, "not_cached": 0})
        self.assertEqual(self.s3.requests("HEAD_VERSION"), 0)

    def test_in_a_bucket_without_versions_what_was_overwritten_is_not_compared(self):
        self.not_compared(self.frozen(versions=False))

    def test_without_the_right_to_list_versions_nothing_fails(self):
        files = self.frozen()
        self.s3.script({"do": "status", "status": 403, "code": "AccessDenied", "op": "VERSIONS"})
        self.not_compared(files)

    def test_a_block_that_came_wrong_is_found_and_fetched_again(self):
        body, good = os.urandom(700_000), os.urandom(700_000)
        self.s3.put(self.bucket, "bad", body, **crc64nvme(body))
        self.s3.put(self.bucket, "good", good, **crc64nvme(good))
        mount = self.begin()
        # In a range no checksum comes with the answer: only all blocks together show it.
        self.s3.script({"do": "flip", "op": "GET", "key": "bad", "skip": 1, "times": 1, "bytes": 1000})
        self.cluster.cli("preload", "data")
        self.assert_all_made()
        result = self.cluster.cli("preload", "data", "--verify", check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("CRC64NVME", result.stderr)
        task = next(t for t in reversed(self.cluster.json("tasks")["tasks"]) if t["kind"] == "preload")
        self.assertEqual(task["verification"], {"verified": 1, "without_checksum": 0, "mismatched": 1,
                                                "not_cached": 0})
        self.assertEqual((task["done"], task["failed"]), (1, 1))
        self.assertEqual((mount / "bad").read_bytes(), body, "the wrong copy is gone")
        self.assertEqual(self.verify()["task"]["verification"],
                         {"verified": 2, "without_checksum": 0, "mismatched": 0, "not_cached": 0})

    def test_a_whole_object_that_came_wrong_never_reaches_a_reader(self):
        files = {f"f{i}": os.urandom(200_000) for i in range(8)}
        for key, body in files.items():
            self.s3.put(self.bucket, key, body, **crc32c(body))
        mount = self.begin()
        self.s3.script(*({"do": "flip", "op": "GET", "key": name, "times": 1, "bytes": 199_000} for name in files))
        for name, body in files.items():
            self.assertEqual((mount / name).read_bytes(), body)
        self.assert_all_made()
        self.assertEqual(self.retries("bad_answer"), len(files))
        self.assertEqual(self.errors_of(mount), "")


if __name__ == "__main__":
    main()
