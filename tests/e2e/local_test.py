#!/usr/bin/python3
"""A mount reads what the nodes of its machine hold out of their files (docs/adr/0016-local-reads-by-descriptor.md): nodes
die and come back, and nobody notices. (More of that is in local_stress_test.py.)"""

import json
import os
import random
import threading

from e2e import E2eTest, eventually, main

FILES, SIZE = 150, 40_000
SHARD = 9 * 1024 * 1024 + 77
READERS = 4


def body(name, size):
    return random.Random(name).randbytes(size)


class Readers:
    """Threads that read files in random order, past the page cache, and look at every byte, until stop()."""

    def __init__(self, mount, files):
        self.mount, self.files = mount, files
        self.over, self.reads, self.faults = threading.Event(), [0] * READERS, []
        self.threads = [threading.Thread(target=self.read, args=(number,)) for number in range(READERS)]
        for thread in self.threads:
            thread.start()

    def read(self, number):
        order = random.Random(number)
        names = sorted(self.files)
        while not self.over.is_set():
            name = order.choice(names)
            want = self.files[name]
            begin = order.randrange(len(want))
            try:
                fd = os.open(self.mount / name, os.O_RDONLY)
                try:
                    got = os.pread(fd, 200_000, begin)
                finally:
                    os.close(fd)
                if got != want[begin:begin + 200_000]:
                    self.faults.append(f"wrong bytes of {name} at {begin}")
            except OSError as error:
                self.faults.append(f"{name}: {error}")
            self.reads[number] += 1

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        return sum(self.reads), self.faults


class Local(E2eTest):
    def begin(self, *options):
        self.files = {f"f{i:03d}": body(i, SIZE) for i in range(FILES)} | {"shard": body("shard", SHARD)}
        self.put(self.files)
        self.start()
        self.link()
        # Past the page cache, so that each read comes to the mount.
        self.mount = self.cluster.mount("data", "m", "--mode", "large", *options)
        self.read_all()
        eventually(lambda: self.link_stats()["cached_bytes"] == sum(map(len, self.files.values())), "all is cached")

    def read_all(self):
        for name, want in self.files.items():
            self.assertEqual((self.mount / name).read_bytes(), want, name)

    def stats(self):
        return json.loads((self.mount / ".forebay/stats").read_text())

    def placed(self):
        """Reads out of the nodes' files, at places that were asked for or known."""
        placed = self.stats()["placed_reads"]
        return placed["read"] + placed["remembered"]

    def read_out_of_files(self):
        """Reads until some reads were out of the nodes' files. (A kernel may drop their pages at any time.)"""
        before = self.placed()

        def looked():
            self.read_all()
            return self.placed() > before + FILES

        eventually(looked, "reads out of the nodes' files")

    def test_hits_come_out_of_the_nodes_files(self):
        self.begin()
        self.read_out_of_files()
        stats = self.stats()
        self.assertEqual((stats["failed_reads"]["Corrupt"], stats["checksum_failures"]), (0, 0))
        mount = self.metrics(self.cluster.mounts["m"])
        self.assertGreater(sum(mount["forebay_placed_reads_total", f'result="{way}"'] for way in ("read", "remembered")), FILES)
        self.assertGreater(mount["forebay_read_bytes_total", 'link="data",tier="local"'], FILES * SIZE)
        placed = self.stats()["placed_reads"]
        self.assertGreaterEqual(self.told("place"), sum(placed.values()) - placed["remembered"])
        # The nodes know of each read as the hit that it is, also of those whose bytes they have not touched.
        eventually(lambda: self.link_stats()["hits"] >= sum(placed.values()), "all reads are counted")

    def told(self, way):
        """Reads that the nodes know of as made by the mount itself."""
        return sum(self.metrics(node)["forebay_store_reads_total", f'from="{way}"'] for node in self.cluster.nodes.values())

    def test_a_second_epoch_asks_for_no_place(self):
        self.begin()
        self.read_out_of_files()

        def nothing_asked():
            # Not always: pages that the kernel has dropped come back with a read over the socket.
            def asked():
                return sum(self.told(way) for way in ("place", "memory", "disk"))

            before, known = asked(), self.stats()["placed_reads"]["remembered"]
            self.read_all()
            return asked() == before and self.stats()["placed_reads"]["remembered"] > known + FILES

        eventually(nothing_asked, "an epoch without a question to a node")
        remembered = self.stats()["placed_reads"]["remembered"]
        eventually(lambda: self.told("remembered") == remembered, "the nodes hear of each read")
        self.assertEqual(self.told("remembered"), remembered)

    def test_over_the_socket_where_it_is_asked_for(self):
        self.begin("--local-reads", "socket")
        self.read_all()
        self.assertEqual(sum(self.stats()["placed_reads"].values()), 0)
        self.assertGreater(self.stats()["read_bytes"]["local"], 0)

    def test_as_of_another_machine_where_it_is_asked_for(self):
        self.begin("--local-reads", "network")
        self.read_all()
        self.assertEqual(sum(self.stats()["placed_reads"].values()), 0)
        self.assertEqual(self.stats()["read_bytes"]["local"], 0)
        self.assertGreater(self.stats()["read_bytes"]["peer"], 0)

    def test_nodes_die_under_their_readers(self):
        self.begin()
        self.read_out_of_files()
        readers = Readers(self.mount, self.files)
        for _ in range(3):
            for name in self.NODES:
                self.cluster.nodes[name].kill()
                before = sum(readers.reads)
                eventually(lambda before=before: sum(readers.reads) > before + 200, "reads go on")
                self.cluster.start_node(name, self.CACHE)
        reads, faults = readers.stop()
        self.assertEqual(faults, [])
        self.assertGreater(reads, 1800)
        self.read_out_of_files()


if __name__ == "__main__":
    main()
