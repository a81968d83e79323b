#!/usr/bin/python3
"""Silent bit flips below the file system: bits of segments change in the file that stands for the disk, and no layer
above reports an error. Each flip in a record is noticed when the block is read, the block is fetched again and served
right; the other blocks are served as before.

FOREBAY_LOOP_FLIPS=N: so many flips (240)."""

import os
import re

import disk_fault

CAPACITY = 48  # MiB
AT_ONCE = 40   # flips between two looks
PAGE = 4096
EXTENT = re.compile(r"^\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\.\s*\d+:", re.MULTILINE)


def pages(store):
    """Where on the disk each page of each segment lies."""
    found = []
    for path in sorted(store.rglob("*.seg")):
        for first, last, physical in EXTENT.findall(disk_fault.run("filefrag", "-b4096", "-v", path)):
            found += [int(physical) + i for i in range(int(last) - int(first) + 1)]
    return found


def flip(image, where, random):
    with open(image, "r+b", buffering=0) as file:
        for page in where:
            at = page * PAGE + random.randrange(PAGE)
            was = os.pread(file.fileno(), 1, at)[0]
            os.pwrite(file.fileno(), bytes([was ^ 1 << random.randrange(8)]), at)


def main():
    disk_fault.skip_unless_loops_work()
    disk_fault.take_own_mounts()
    random = disk_fault.seeded()
    wanted = disk_fault.count("FOREBAY_LOOP_FLIPS", 240)
    total = disk_fault.Sum()
    total["flips"] = 0
    with disk_fault.folder() as folder:
        disk, facts = disk_fault.Disk(folder, "disk", 128), folder / "facts"
        store, first = disk.at / "cache", 0
        disk.make()
        try:
            while total["flips"] < wanted:
                disk.mount()
                load = disk_fault.Load(store, CAPACITY, facts, random.randrange(1 << 20), first, 60, 0)
                total.require(load.process.wait() == 0, f"disk_load failed: {load.said()}")
                disk_fault.run("sync", "-f", store)
                where = random.sample(pages(store), AT_ONCE)
                disk.unmount()  # with all that the kernel remembers of it
                flip(disk.image, where, random)
                disk.mount()
                first = disk_fault.next_number(facts)
                found = disk_fault.check(store, CAPACITY, facts)
                disk.unmount()
                total["flips"] += AT_ONCE
                total.add(found, f"after {total['flips']} flips", ("wrong", "unknown", "unpinned", "lost_pins", "unrepaired"))
                total.require(found["mismatched"] <= AT_ONCE, "more is broken than was flipped")
                total.require(found["mismatched"] == found["unserved"], "something vanished without being counted")
        finally:
            disk.unmount()
    total.require(total["mismatched"] * 2 > total["flips"], "void: few flips hit a record")
    total.end("bit flips below the file system")


main()
