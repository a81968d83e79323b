#!/usr/bin/python3
"""Two jobs read twice as much as the cache holds, each epoch in a new order."""

import random
import time

from e2e import E2eTest, drop_page_cache, eventually, main

FILES = 1000
SIZE = 120 << 10  # one READ
EPOCHS = 6
WARM_EPOCHS = 2  # the first fills the cache, in the second a node learns what an epoch is
SETTLED_SECONDS = 3  # in which each node has said its counts, some times
# A busy machine: a mount asks again what was not answered for two seconds, and the kernel keeps a page that somebody holds.
OFF = 0.002


def orders(seed):
    """The files of one job, epoch after epoch, each in a new order; None where an epoch begins."""
    shuffled = random.Random(seed)
    for _ in range(EPOCHS + 1):
        yield None
        names = list(range(FILES))
        shuffled.shuffle(names)
        yield from names


class Eviction(E2eTest):
    def read_next(self, mount, order):
        file = next(order)
        if file is None:
            drop_page_cache()
            file = next(order)
        with open(mount / f"f{file:04d}", "rb", buffering=0) as opened:
            self.assertEqual(len(opened.read(SIZE + 1)), SIZE)

    def counted(self, wanted):
        """What `forebay stats` and S3's log say after so many reads."""
        looks = []  # with their times; each waits for a count of every node

        def settled():
            looks.append((time.monotonic(), self.link_stats()))
            now, stats = looks[-1]
            alike = [at for at, look in looks if look["reads"] == stats["reads"]]
            return now - alike[0] >= SETTLED_SECONDS and stats

        stats = eventually(settled, "the counts of reads stay as they are")
        self.assertAlmostEqual(stats["reads"], wanted, delta=wanted * OFF)
        gets = self.gets()
        self.assertEqual((gets["failed_gets"], stats["s3_gets"]), (0, gets["gets"]))
        self.assertEqual(stats["hits"] + stats["misses"], stats["reads"])
        self.assertAlmostEqual(stats["misses"], gets["gets"], delta=max(0, stats["reads"] - wanted))
        return stats["reads"], gets["gets"], stats["cached_bytes"]

    def test_two_jobs_hit_more_than_the_cache_holds(self):
        body = random.Random(1).randbytes(SIZE)
        self.put({f"f{i:04d}": i.to_bytes(4, "big") + body[4:] for i in range(FILES)})
        # The least that a node takes: 64 MiB of disk, and 16 MiB of memory for blocks that were not kept.
        self.start(nodes=["n1"], cache="64MiB", node_options=("--memory-limit", "64MiB"))
        # A background fill's GETs are nobody's misses.
        self.link("data", "", "--no-background-fill")
        first, second = (self.cluster.mount("data", name) for name in ("m1", "m2"))
        one, two = orders(11), orders(22)
        for _ in range(FILES // 2):  # half an epoch ahead
            self.read_next(first, one)
        for _ in range(WARM_EPOCHS * FILES):
            self.read_next(first, one)
            self.read_next(second, two)
        warm_reads, warm_gets, _ = self.counted(FILES // 2 + 2 * WARM_EPOCHS * FILES)
        for _ in range((EPOCHS - WARM_EPOCHS) * FILES):
            self.read_next(first, one)
            self.read_next(second, two)
        reads, gets, cached = self.counted(FILES // 2 + 2 * EPOCHS * FILES)

        hit_ratio = 1 - (gets - warm_gets) / (reads - warm_reads)
        kept = cached / (FILES * SIZE)
        self.assertGreater(kept, 0.45)
        self.assertLess(kept, 0.56)
        # Without eviction: what is kept, and of the blocks in memory those that the other job has brought.
        in_memory = (16 << 20) / (FILES * SIZE) / 2
        print(f"hit ratio {hit_ratio:.3f}; kept {kept:.3f}; without eviction at most {kept + in_memory:.3f}")
        self.assertGreater(hit_ratio, kept + in_memory + 0.03)
        self.assertGreater(self.cluster.nodes["n1"].metrics()["forebay_evicted_bytes_total", 'reason="capacity"'], 0)


if __name__ == "__main__":
    main()
