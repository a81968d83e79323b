#!/usr/bin/python3
"""A node that starts again serves every block that it had, without a GET: after a stop and after kill -9."""

import os
import signal

from e2e import E2eTest, drop_page_cache, eventually, main

FILES = 300
SIZES = (1, 4_000, 70_000, 200_000)  # a cell, a part of one, several
LARGE = 9_000_000  # three blocks, the last one short


class Restart(E2eTest):
    def read(self):
        """Every byte of everything, past the page cache; answers the GETs that it took."""
        drop_page_cache()
        before = self.gets()["gets"]
        for name, data in self.objects.items():
            self.assertEqual((self.mount / name).read_bytes(), data, name)
        return self.gets()["gets"] - before

    def blocks(self):
        return self.cluster.json("stats", "--nodes")["nodes"][0]["blocks"]

    def test_a_restart_costs_no_hits(self):
        self.objects = {f"f{i}": i.to_bytes(4) * (SIZES[i % len(SIZES)] // 4) + bytes([i % 251]) for i in range(FILES)}
        self.objects["large"] = os.urandom(LARGE)
        self.put(self.objects)
        # The memory is no place where a block could hide: it ends with the process.
        self.start(nodes=["n1"])
        self.link("data", "", "--no-background-fill")
        self.mount = self.cluster.mount("data", "m1")
        blocks = FILES + 3
        self.assertEqual(self.read(), blocks)
        eventually(lambda: self.blocks() == blocks, "every block is stored")

        self.assertEqual(self.cluster.nodes["n1"].stop(), 0)
        self.cluster.start_node("n1", self.CACHE)
        self.assertEqual(self.read(), 0, "after a stop")

        # Killed at once after it has said that it stored more than ever was made durable, and again beside readers.
        for _ in range(3):
            self.cluster.nodes["n1"].kill(signal.SIGKILL)
            self.cluster.start_node("n1", self.CACHE)
            self.assertEqual(self.blocks_recovered(), blocks)
            self.assertEqual(self.read(), 0, "after kill -9")

        # What was stored a moment before the kill is there, too.
        more = {f"g{i}": os.urandom(50_000) for i in range(100)}
        self.put(more)
        self.cluster.cli("refresh", "data")
        eventually(lambda: (self.mount / "g99").exists(), "the mount has the new listing", 20)
        self.objects |= more
        self.assertEqual(self.read(), len(more))
        eventually(lambda: self.blocks() == blocks + len(more), "every block is stored")
        self.cluster.nodes["n1"].kill(signal.SIGKILL)
        self.cluster.start_node("n1", self.CACHE)
        self.assertEqual(self.read(), 0)

    def blocks_recovered(self):
        """As the node says in its log when it starts."""
        lines = [line for line in self.cluster.nodes["n1"].log.read_text().splitlines() if "blocks were recovered" in line]
        return int(lines[-1].split(" cached blocks")[0].split()[-1])


if __name__ == "__main__":
    main()
