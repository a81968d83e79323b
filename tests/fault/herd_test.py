#!/usr/bin/python3
"""A thousand readers of one cold block are one GET; two, when the node that asks for them dies. Readers that go away end
nobody's wait."""

import os
import subprocess
import sys
import time

import scripted_s3
from e2e import eventually, main
from mount_state import state_of
from verified_load import Void, unless_void

READERS = 500  # on each of two mounts
BLOCK = 4 << 20
PAGE = 4096
# Long enough for all readers to be there.
ANSWER_MS = 2500

# Each reads a page of its own, so that the kernel cannot make one question of them.
HERD = """
import os, sys, threading
path, readers, page, first = sys.argv[1], *map(int, sys.argv[2:])
file = os.open(path, os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
parts = [None] * readers
def read(i):
    try:
        parts[i] = os.pread(file, page, (first + i) * page)
    except OSError as error:
        parts[i] = str(error).encode()
threading.stack_size(1 << 18)
threads = [threading.Thread(target=read, args=(i,)) for i in range(readers)]
for thread in threads: thread.start()
print("asked", flush=True)
for thread in threads: thread.join()
sys.stdout.buffer.write(b"".join(parts))
"""


class Herd(scripted_s3.ScriptedS3Test):
    NODES = ("n1", "n2", "n3")
    MOUNTS = ("m1", "m2")

    def begin(self):
        self.block = os.urandom(BLOCK)
        self.put({"cold": self.block})
        self.start(node_options=())
        self.link("data", "", "--no-background-fill")
        for name in self.MOUNTS:
            self.cluster.mount("data", name)
        self.s3.script({"do": "delay", "op": "GET", "ms": ANSWER_MS})

    def start_readers(self):
        herds, began = [], time.monotonic()
        for number, name in enumerate(self.MOUNTS):
            herd = subprocess.Popen(
                [sys.executable, "-c", HERD, self.folder / name / "cold", str(READERS), str(PAGE), str(number * READERS)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            self.addCleanup(herd.stdout.close)
            self.addCleanup(herd.kill)
            herds.append(herd)
        for herd in herds:
            self.assertEqual(herd.stdout.readline(), b"asked\n")
        if (took := time.monotonic() - began) * 1000 > ANSWER_MS:
            raise Void(f"{len(herds) * READERS} readers took {took:.1f} s to ask: S3 may have answered the first of them by then")
        print(f"\n    {len(herds) * READERS} readers asked within {took:.2f} s; S3 answers after {ANSWER_MS / 1000} s",
              file=sys.stderr)
        eventually(lambda: self.gets() > 0, "somebody asks S3")
        return herds

    def owner(self):
        """The node that asks S3; the others take the block from it, since so many want it."""
        return self.cluster.json("explain", "data/cold")["described"][0]["owners"][0]

    def assert_right(self, herds):
        for number, herd in herds:
            got = herd.communicate(timeout=120)[0]
            begin = number * READERS * PAGE
            self.assertTrue(got == self.block[begin:begin + READERS * PAGE], f"mount {number}: {len(got)} bytes")

    def cached(self):
        return sum(int(node.metrics().get(("forebay_index_entries", ""), 0)) for node in self.cluster.nodes.values()
                   if node.running())

    @unless_void
    def test_a_thousand_readers_are_one_get(self):
        self.begin()
        herds = self.start_readers()
        self.assertEqual(self.gets(), 1, "all of them wait for one")
        self.assert_right(enumerate(herds))
        self.assertEqual(self.gets(), 1)

    @unless_void
    def test_the_owners_death_costs_one_more(self):
        self.begin()
        herds = self.start_readers()
        owner = self.owner()
        self.assertEqual(self.gets(), 1)
        pid = self.cluster.nodes[owner].pid
        self.cluster.nodes[owner].kill()
        self.assertIsNone(state_of(pid))
        self.assert_right(enumerate(herds))
        self.assertEqual(self.gets(), 2)
        self.cluster.start_node(owner, self.CACHE)

    @unless_void
    def test_readers_that_are_killed_do_not_end_the_wait_of_others(self):
        self.begin()
        herds = self.start_readers()
        herds[0].kill()
        self.assert_right([(1, herds[1])])
        self.assertEqual(self.gets(), 1)

    @unless_void
    def test_a_fill_that_nobody_waits_for_any_more_lands(self):
        self.begin()
        herds = self.start_readers()
        for herd in herds:
            herd.kill()
        for name in self.MOUNTS:
            self.cluster.unmount(name)
        eventually(lambda: self.cached() >= 1, "the block is kept")
        mount = self.cluster.mount("data", "m1")
        self.assertTrue((mount / "cold").read_bytes() == self.block)
        self.assertEqual(self.gets(), 1)


if __name__ == "__main__":
    main()
