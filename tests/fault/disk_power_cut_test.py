#!/usr/bin/python3
"""Power cuts. A store on an ext4 is under load; at random moments the disk below is stopped and copied: the copy is what
a power cut at this moment leaves. The store is recovered on each copy and reads all blocks: no wrong byte, every block
that was promised to be durable (docs/STORE_FORMAT.md, Commit: of a segment that is full, or of a store that was closed),
every pin of a take-over that ended. Of every fourth copy the index is lost, too. Now and then the load goes on on such
a copy.

FOREBAY_POWER_CUTS=N: so many copies (60)."""

import shutil
import time

import disk_fault

CAPACITY = 48  # MiB; the load soon has more
AGAIN = 8      # copies until the load goes on on the last one
MOUNTS = ("noatime,commit=1", "noatime,commit=1,data=writeback")  # the second shows old bytes in new files


def one_life(disk, facts, copies, first, wanted, total, random):
    """Copies the disk under load `wanted` times; the last copy is the next life's disk."""
    disk.disk.mount(MOUNTS[total.get("lives", 0) % len(MOUNTS)])
    store = disk.disk.at / "cache"
    load = disk_fault.Load(store, CAPACITY, facts, random.randrange(1 << 20), first, 1 << 30, 1500)
    try:
        load.wait_until_all_moved(0)
        for _ in range(wanted):
            time.sleep(random.uniform(0.0, 0.4))
            load.must_run()
            certain = load.size()
            disk.copy()
            load.wait_until_all_moved(load.size())
            known = load.size()
            shutil.copyfile(facts, copies)
            disk.copied.mount(MOUNTS[0])
            if total.get("images", 0) % 4 == 3:
                shutil.rmtree(disk.copied.at / "cache" / "index", ignore_errors=True)  # a store that syncs nothing has none
            found = disk_fault.check(disk.copied.at / "cache", CAPACITY, copies, certain, known)
            disk.copied.unmount()
            total["images"] = total.get("images", 0) + 1
            tail = found["lost"] + found["dropped"] + found["mismatched"] > 0
            total["images_with_a_tail"] = total.get("images_with_a_tail", 0) + tail
            total.add(found, f"image {total['images']} of life {total.get('lives', 0)}")
            if found["missing_durable"]:
                lines = facts.read_text().splitlines()
                at = [i for i, line in enumerate(lines) if line.split()[1:] == [found["example"]]]
                print("block", found["example"], "in the facts:", [(i, lines[i]) for i in at], "of", len(lines))
    finally:
        load.kill()
        disk.disk.unmount()
    total["lives"] = total.get("lives", 0) + 1
    following = disk_fault.next_number(facts)
    shutil.copyfile(disk.copied.image, disk.disk.image)
    shutil.copyfile(copies, facts)
    return following


def main():
    disk_fault.skip_unless_loops_work()
    disk_fault.take_own_mounts()
    random = disk_fault.seeded()
    wanted = disk_fault.count("FOREBAY_POWER_CUTS", 60)
    total = disk_fault.Sum()
    with disk_fault.folder() as folder:
        disk = disk_fault.FrozenCopies(folder, 200)
        try:
            disk.disk.make()
            first = 0
            while total.get("images", 0) < wanted:
                images = min(AGAIN, wanted - total.get("images", 0))
                first = one_life(disk, folder / "facts", folder / "facts.copy", first, images, total, random)
        finally:
            disk.close()
    total.require(total["images_with_a_tail"] > 0, "void: no image had a tail that was not committed")
    total.require(total["rebuilt"] > 0, "void: no index was made anew")
    total.require(total["evictions"] > 0, "void: nothing was evicted")
    total.require(total["durable"] > 0 and total["pinned"] > 0, "void: nothing was promised")
    total.end("power cuts")


main()
