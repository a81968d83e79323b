#!/usr/bin/python3
"""Background fill: a job that reads much of a link gets the rest of it, at one GET a block; nothing is evicted for it; who
reads a little of each of many large files gets nothing else."""

import os
import random

from e2e import E2eTest, drop_page_cache, eventually, main, read_all, tree_of

ENOUGH = 64  # blocks within a minute, of links of fewer than 6,400


class BackgroundFill(E2eTest):
    def upload(self, files):
        source = self.folder / "source"
        for name, body in files.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        self.rgw.upload(source, self.bucket)

    def fills(self):
        return [task for task in self.cluster.json("tasks")["tasks"] if task["kind"] == "fill"]

    def ended(self):
        """The only fill there was, when it has ended."""
        def look():
            fills = self.fills()
            self.assertLessEqual(len(fills), 1)
            return fills and fills[0]["state"] != "running" and fills[0]
        return eventually(look, "a background fill begins and ends")

    def read(self, mount, names):
        for name in names:
            with open(mount / name, "rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass

    def evicted(self):
        return sum(value for node in self.cluster.nodes.values() for (name, labels), value in node.metrics().items()
                   if name == "forebay_evicted_bytes_total")

    def test_a_part_that_is_read_brings_the_rest_at_one_get_a_block(self):
        files = {f"d{i % 7}/f{i:04d}": os.urandom(3_000 + i) for i in range(1000)}
        self.upload(files)
        self.start(node_options=("--s3-max-connections", "4"))
        self.link()
        mounts = [self.cluster.mount("data", name, "--job-id", "train") for name in ("m1", "m2")]
        for mount in mounts:
            self.assertEqual(sum(len(names) for _, _, names in os.walk(mount)), len(files))
        self.assertEqual((self.gets()["gets"], self.fills()), (0, []), "a walk reads nothing")
        names = sorted(files)
        random.Random(5).shuffle(names)
        # Neither mount reads enough; together they do, and go on while the rest is filled.
        self.read(mounts[0], names[:ENOUGH - 1])
        self.read(mounts[1], names[:ENOUGH - 1])
        self.read(mounts[1], names[ENOUGH - 1:2 * ENOUGH - 2])
        task = self.ended()
        self.assertEqual((task["state"], task["jobs"], task["ended_because"]), ("done", ["train"], None))
        self.assertEqual((task["total"], task["done"], task["failed"], task["not_kept"]), (1000, 1000, 0, 0))
        self.assertLessEqual(task["fetched_blocks"], 1000 - ENOUGH)
        gets = self.gets()
        self.assertEqual((gets["gets"], gets["repeated_gets"], gets["failed_gets"]), (1000, 0, 0))
        self.assertEqual(self.cluster.cli("check", "data", check=False).returncode, 0)

        drop_page_cache()
        for mount in mounts:
            read_all(mount, order=7)
        self.assertEqual(tree_of(mounts[0]), files)
        self.assertEqual(self.gets()["gets"], 1000, "the second epoch and the other mount cost none")
        self.assertEqual(len(self.fills()), 1)

    def test_readers_and_a_fill_that_are_after_the_same_blocks_cost_one_get_each(self):
        files = {f"f{i:04d}": os.urandom(20_000) for i in range(900)}
        self.upload(files)
        self.start(nodes=["n1", "n2"], node_options=("--s3-max-connections", "4"))
        self.link()
        mount = self.cluster.mount("data", "m1")
        names = sorted(files)
        random.Random(5).shuffle(names)
        self.read(mount, names)
        task = self.ended()
        self.assertEqual((task["state"], task["done"]), ("done", 900))
        self.assertGreater(task["fetched_blocks"], 0, "they overlapped")
        gets = self.gets()
        self.assertEqual((gets["gets"], gets["repeated_gets"]), (900, 0))

    def test_a_cache_that_is_too_small_evicts_nothing_for_it(self):
        size = 200_000
        files = {f"f{i:04d}": os.urandom(size) for i in range(500)}
        self.upload(files)
        # The least that a node takes: 64 MiB.
        self.start(nodes=["n1"], cache="64MiB")
        self.link()
        mount = self.cluster.mount("data", "m1")
        self.read(mount, sorted(files)[:ENOUGH + 1])
        task = self.ended()
        self.assertEqual((task["state"], task["ended_because"]), ("done", "no_room"))
        self.assertEqual(task["done"] + task["not_kept"], 500)
        gets = self.gets()
        self.assertEqual(gets["repeated_gets"], 0)
        self.assertLess(gets["gets"], (64 << 20) // size)
        self.assertGreater(gets["gets"], (64 << 20) // size * 3 // 4)
        eventually(lambda: self.link_stats()["cached_bytes"] == gets["gets"] * size, "no GET was thrown away")
        self.assertEqual(self.evicted(), 0)

    def test_records_out_of_large_shards_pull_in_nothing_else(self):
        # 24 shards of 64 blocks, and as many records as would be enough if each touched block counted.
        block = 256 << 10
        body = os.urandom(64 * block)
        self.put({"s00": body})
        for i in range(1, 24):
            self.s3.copy_object(Bucket=self.bucket, Key=f"s{i:02d}", CopySource={"Bucket": self.bucket, "Key": "s00"})
        self.start()
        self.link("data", "", "--block-size", "256KiB")
        mount = self.cluster.mount("data", "m1")
        touched = set()
        for i in range(24):
            with open(mount / f"s{i:02d}", "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                for record in range(3):
                    at = (5 + 20 * record) * block
                    file.seek(at)
                    self.assertEqual(file.read(block), body[at:at + block])
                    touched.add((i, at))
        self.assertGreater(len(touched), ENOUGH)
        # Small files, on another link, have begun one: what was read before them has been heard of.
        self.s3.create_bucket(Bucket=self.bucket + "x")
        for i in range(ENOUGH + 8):
            self.s3.put_object(Bucket=self.bucket + "x", Key=f"f{i}", Body=b"x" * 1000)
        self.cluster.cli("link", f"s3://{self.bucket}x/", "--as", "small")
        small = self.cluster.mount("small", "m2")
        self.read(small, [f"f{i}" for i in range(ENOUGH + 8)])
        eventually(self.fills, "small files begin one")
        self.read(mount, [])
        eventually(lambda: self.link_stats()["reads"] >= len(touched), "the reads are known")
        self.assertEqual([task["target"] for task in self.fills()], ["small"])
        self.assertEqual(self.gets()["gets"], len(touched))


if __name__ == "__main__":
    main()
