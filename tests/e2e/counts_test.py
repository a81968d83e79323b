#!/usr/bin/python3
"""What reading costs, counted: messages of the kernel by operation, and GETs and bytes of S3. These are the same on any machine,
however slow; ops/bench prints them beside the times."""

import concurrent.futures
import json
import os
import random

from e2e import BLOCK, E2eTest, blocks_of, drop_page_cache, eventually, held_in_page_cache, main, read_all
from mount_state import sleeps_of, worker_of
from bench_subjects import read_like_pil  # noqa: E402, I001  (e2e has put ops/ on the path)

FILES, CLASSES = 600, 20
# The kernel may drop a name or a page that it needs again: a few, where memory is short.
LOST = FILES // 100
NOT_OF_READING = ("forget", "statfs")


def sizes_of(files):
    return [len(body) for body in files.values()]


def read_at_once(path):
    """As a loader does that knows how large a shard is at most: no read finds the end."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, BLOCK)
    finally:
        os.close(fd)


def read_whole(path):
    """As a loader does that wants the bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


class Counts(E2eTest):
    NODES = ("n1", "n2")

    def used(self, mount, work):
        """Messages by operation while `work` runs."""
        before = self.fuse_ops(mount)
        work()
        return {op: count - before.get(op, 0) for op, count in self.fuse_ops(mount).items()
                if count > before.get(op, 0) and op not in NOT_OF_READING}

    def second_gets(self):
        return sum(node.metrics()["forebay_s3_second_gets_total", ""] for node in self.cluster.nodes.values())

    def asked(self, work):
        """What S3 answered while `work` ran."""
        before = self.gets()
        work()
        return {key: value - before[key] for key, value in self.gets().items() if isinstance(value, int)}


def small_files(count):
    noise = random.Random(1).randbytes(39_000 + count)
    return {f"c{i % CLASSES:02d}/{i:05d}.jpg": noise[i:i + 39_000] for i in range(count)}


class Messages(Counts):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = small_files(FILES)
        for name, body in cls.files.items():
            path = cls.home / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        cls.rgw.upload(cls.home / "source", "messages")

    def walked(self, *options):
        """A mount of small files that has been walked as ImageFolder does, and the paths in another order."""
        self.bucket = "messages"
        self.start()
        self.link("data", "", "--no-background-fill")
        self.mount = self.cluster.mount("data", "m", *options)
        paths = []
        self.walk = self.used("m", lambda: paths.extend(
            os.path.join(parent, name) for parent, _, names in os.walk(self.mount) for name in names))
        self.assertEqual(len(paths), FILES)
        random.Random(2).shuffle(paths)
        return paths

    def read(self, paths, how):
        for path in paths:
            self.assertEqual(how(path), self.files[os.path.relpath(path, self.mount)])

    def test_a_walk_asks_for_no_name_and_reads_whole_pages_of_directories(self):
        paths = self.walked()
        entries = FILES + CLASSES
        self.assertEqual(self.walk.get("lookup", 0), 0, self.walk)
        # Each folder and the root, in as many messages as their entries fill, and one that says it is the end.
        self.assertLessEqual(self.walk["readdirplus"], 0.01 * entries + 3 * (CLASSES + 1), self.walk)
        again = self.used("m", lambda: [os.stat(path) for path in paths])
        self.assertLessEqual(sum(again.values()), LOST, again)

    def test_a_small_file_after_a_walk_is_one_read_and_no_other_message(self):
        paths = self.walked()
        used = self.used("m", lambda: self.read(paths, read_whole))
        self.assertTrue(FILES <= used["read"] <= FILES + LOST, used)
        # The first open says that none is needed.
        self.assertLessEqual(used.get("open", 0) + used.get("flush", 0) + used.get("release", 0), 4, used)
        self.assertLessEqual(used.get("lookup", 0) + used.get("getattr", 0), LOST, used)
        self.assertLessEqual(sum(used.values()), FILES + 2 * LOST + 4, used)

    def test_a_small_file_costs_one_message_after_a_walk(self):
        files = {f"d{i % 10}/f{i:04d}": os.urandom(39_000) for i in range(500)}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        names = sorted(os.path.join(parent, name) for parent, _, found in os.walk(mount) for name in found)
        self.assertEqual(len(names), len(files))
        before = self.fuse_ops("m1")
        for name in names:
            with open(name, "rb") as file:
                self.assertEqual(file.read(), files[os.path.relpath(name, mount)])
        after = self.fuse_ops("m1")
        used = {op: after[op] - before.get(op, 0) for op in after}
        messages = sum(count for op, count in used.items() if op not in ("forget", "statfs"))
        self.assertLessEqual(messages, 2 * len(files), used)
        self.assertEqual(used.get("read"), len(files), used)
        with held_in_page_cache(names):
            held = self.fuse_ops("m1")["read"]
            read_all(mount)
            self.assertEqual(self.fuse_ops("m1")["read"], held, "out of the page cache: no message")

    def test_the_pattern_of_pil_is_one_read_a_file(self):
        paths = self.walked()
        used = self.used("m", lambda: self.read(paths, read_like_pil))
        self.assertTrue(FILES <= used["read"] <= FILES + LOST, used)
        self.assertLessEqual(sum(used.values()), FILES + 2 * LOST + 4, used)

    def test_in_large_mode_a_file_is_opened_read_and_released(self):
        paths = self.walked("--mode", "large")
        if not json.loads((self.mount / ".forebay/config").read_text())["direct_reads"]:
            self.skipTest("this kernel cannot map what is read past the page cache: mode large is as small")

        def all_released():
            ops = self.fuse_ops("m")
            return ops["open"] == ops["release"]

        def read():
            self.read(paths, read_at_once)
            eventually(all_released, "the kernel tells of the last close")

        eventually(all_released, "what was read to look at the mount is closed")
        used = self.used("m", read)
        self.assertEqual({op: used.pop(op) for op in ("open", "read", "release")}, dict.fromkeys(("open", "read", "release"), FILES))
        self.assertLessEqual(sum(used.values()), LOST, used)

    def test_one_of_many_threads_is_woken_for_a_read(self):
        paths = self.walked("--threads", "16")
        worker = worker_of(self.cluster.mounts["m"].pid)
        before = sleeps_of(worker)
        used = self.used("m", lambda: self.read(paths, read_whole))
        slept = (sleeps_of(worker) - before) / used["read"]
        print(f"{slept:.2f} times a thread of the mount slept for each READ", flush=True)
        # For the request and for the node's answer; were all woken for each request, it would be 16 times more.
        self.assertLessEqual(slept, 8)


class Gets(Counts):
    def epoch(self, mounts, files, readers, seed):
        """Each reader reads every file, in an order of its own."""
        def read(number):
            names = sorted(files)
            random.Random(seed + number).shuffle(names)
            return [name for name in names if read_whole(mounts[number % len(mounts)] / name) != files[name]]

        with concurrent.futures.ThreadPoolExecutor(readers) as pool:
            self.assertEqual([wrong for wrong in pool.map(read, range(readers)) if wrong], [])

    def test_a_block_is_one_get_whoever_reads_it(self):
        files = small_files(60)
        files |= {f"shards/{i}.tar": random.Random(i).randbytes(2 * BLOCK + 1_000_001) for i in range(2)}
        self.put(files)
        self.start()
        wanted = {"gets": blocks_of(sizes_of(files)), "get_bytes": sum(sizes_of(files)), "failed_gets": 0}
        for readers, count in ((1, 1), (2, 1), (16, 1), (2, 2), (16, 2)):
            name = f"r{readers}m{count}"  # a link of its own shares no block with the others
            self.link(name, "", "--no-background-fill")
            mounts = [self.cluster.mount(name, f"{name}-{i}") for i in range(count)]
            cost = self.asked(lambda: self.epoch(mounts, files, readers, 10))
            # Readers of one shard begin at its front, so that no GET begins in the middle of a block.
            self.assertEqual({key: cost[key] for key in wanted}, wanted, (readers, count))
            drop_page_cache()
            self.assertEqual(self.asked(lambda: self.epoch(mounts, files, readers, 20))["gets"], 0, (readers, count))

    def test_a_sparse_read_of_a_cold_shard_costs_the_blocks_that_it_touches(self):
        blocks, length = 16, 1000
        body = random.Random(3).randbytes(blocks * BLOCK)
        self.put({"shard.tar": body})
        self.start()
        self.link("data", "", "--no-background-fill")
        path = self.cluster.mount("data", "m") / "shard.tar"
        touched = [1, 4, 9, 14]
        near = [2, 11]
        # Not in order, and not at the block's front.
        places = [block * BLOCK + inside for block in touched[::-1] for inside in (3_000_000, 1_234_567)]
        places_near = [block * BLOCK + 700_000 for block in near]

        def read(places=places):
            with open(path, "rb", buffering=0) as file:
                for place in places:
                    self.assertEqual(os.pread(file.fileno(), length, place), body[place:place + length])

        def read_cold(places, blocks):
            before = self.link_stats()["cached_bytes"]
            read(places)
            # A reader has its bytes before the fill ends.
            eventually(lambda: self.link_stats()["cached_bytes"] == before + blocks * BLOCK, "the blocks are kept")

        cost = self.asked(lambda: read_cold(places, len(touched)))
        # The first GET of a block begins with the cell that its first reader wants, the second brings what lies before it.
        self.assertEqual(cost["gets"], 2 * len(touched))
        self.assertEqual(self.second_gets(), len(touched))
        # 2097 bytes of S3 for each byte that was asked for: the whole blocks, no more, and no byte twice.
        self.assertEqual(cost["get_bytes"], len(touched) * BLOCK)
        # Near the front a second request is not worth what it spares.
        cost = self.asked(lambda: read_cold(places_near, len(near)))
        self.assertEqual((cost["gets"], cost["get_bytes"]), (len(near), len(near) * BLOCK))
        self.assertEqual(self.second_gets(), len(touched))
        drop_page_cache()
        self.assertEqual(self.asked(read)["gets"], 0)
        # The rest, from front to back: what is there is not fetched again.
        missing = blocks - len(touched) - len(near)
        rest = self.asked(lambda: self.assertEqual(read_whole(path), body))
        self.assertEqual((rest["gets"], rest["get_bytes"]), (missing, missing * BLOCK))


if __name__ == "__main__":
    main()
