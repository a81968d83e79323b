#!/usr/bin/python3
"""Readers look at every byte of what a mount reads out of the nodes' files, while the cache holds half of the data,
blocks are evicted, files are damaged and cut short under the nodes, and nodes are killed: no wrong byte and no error."""

import json
import os
import random
import re

from e2e import E2eTest, eventually, main
from local_test import Readers, body

MIB = 1 << 20
FILES = 200  # of 1 MiB
SHARD = 56 * MIB
ROUNDS = 2
DAMAGES = 48  # places of each node's files, in each round


class LocalStress(E2eTest):
    NODES = ("n1", "n2")
    CACHE = "64MiB"

    def placed(self):
        placed = json.loads((self.mount / ".forebay/stats").read_text())["placed_reads"]
        return placed["read"] + placed["remembered"]

    def segments(self, name):
        return sorted((self.cluster.folder / name).rglob("*.seg"))

    def damage(self, name, chance):
        """Writes garbage into the files of a node that runs, and cuts one of them in half."""
        files = self.segments(name)
        for path in chance.choices(files, k=DAMAGES):
            try:
                with open(path, "r+b") as file:
                    file.seek(chance.randrange(max(1, os.fstat(file.fileno()).st_size - 4096)))
                    file.write(chance.randbytes(512))
            except FileNotFoundError:
                pass  # evicted meanwhile
        cut = chance.choice(files)
        if cut.exists() and len(files) > 1:
            os.truncate(cut, cut.stat().st_size // 2)

    def note(self, name):
        """What a node has counted, which it forgets when it is killed."""
        for (metric, labels), value in self.metrics(self.cluster.nodes[name]).items():
            if metric == "forebay_checksum_failures_total":
                self.counted["failures"] = self.counted.get("failures", 0) + value
            if metric == "forebay_store_reads_total" and re.search(r'from="place"', labels):
                self.counted["told"] = self.counted.get("told", 0) + value

    def test_no_wrong_byte_and_no_error(self):
        self.counted, freed = {}, 0
        files = {f"{'ab'[i % 2]}/f{i:03d}": body(i, MIB) for i in range(FILES)} | {"shard": body("shard", SHARD)}
        self.put(files)
        self.start()
        self.link()
        self.mount = self.cluster.mount("data", "m", "--mode", "large")
        chance = random.Random(7)
        readers = Readers(self.mount, files)
        try:
            for turn in range(ROUNDS):
                name = self.NODES[turn % len(self.NODES)]
                seen, placed = sum(readers.reads), self.placed()
                eventually(lambda seen=seen: sum(readers.reads) > seen + 300, "reads go on")
                eventually(lambda placed=placed: self.placed() > placed + 50, "reads out of the nodes' files")
                freed += self.cluster.json("evict", f"data/{'ab'[turn % 2]}", "--yes", "--force")["freed_bytes"]
                seen, placed = sum(readers.reads), self.placed()
                eventually(lambda seen=seen: sum(readers.reads) > seen + 300, "reads go on while what was evicted comes back")
                eventually(lambda placed=placed: self.placed() > placed + 50, "reads out of the nodes' files")
                for damaged in self.NODES:
                    self.damage(damaged, chance)
                seen = sum(readers.reads)
                eventually(lambda seen=seen: sum(readers.reads) > seen + 300, "reads of damaged files go on")
                self.note(name)
                self.cluster.nodes[name].kill()
                seen = sum(readers.reads)
                eventually(lambda seen=seen: sum(readers.reads) > seen + 100, "reads go on without a node")
                self.cluster.start_node(name, self.CACHE)
        finally:
            reads, faults = readers.stop()
        for name in self.NODES:
            self.note(name)
        self.assertEqual(faults, [])
        self.assertGreater(reads, ROUNDS * 1000)
        # It was what it is meant to be.
        self.assertGreater(self.placed(), ROUNDS * 100)
        self.assertGreater(self.counted["told"], ROUNDS * 100)
        self.assertGreater(freed, 16 * MIB)
        self.assertGreater(self.counted["failures"], 0)


if __name__ == "__main__":
    main()
