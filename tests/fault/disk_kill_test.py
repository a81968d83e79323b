#!/usr/bin/python3
"""kill -9 at every failpoint of the store, and at random moments, again and again on one directory. After each, recovery
believes in nothing that is not whole (no index row points at space that is punched or somebody else's), at least 99 % of
what was committed is served, no byte is wrong, and no space is lost.

FOREBAY_KILLS=N: so many kills (120)."""

import pathlib
import re
import shutil
import time

import disk_fault

CAPACITY = 80  # MiB
BLOCKS = 500   # of each link, if nobody kills it
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "cachenode"
RANDOM = 5     # kills at random moments for one at each failpoint
RARE = {"store.sync_error": 20, "store.after_segment_create": 20, "store.in_pins": 20, "store.in_rebuild": 1,
        "store.in_recovery": 8}  # passed so often, or a little more; the others with every block

# What the evictor took is said when its index rows have gone: a kill between the two leaves blocks of which nobody said
# that they left, and they count as lost. Their number is that of one eviction, hence the wider bound for a single kill.
LOST, LOST_AT_ONCE = 0.01, 0.02  # of the committed blocks: over all kills, at one kill
NEVER = ("wrong", "unknown", "unserved", "mismatched", "unpinned", "lost_pins", "unrepaired")


def failpoints():
    found = {name for path in SOURCES.rglob("*.cc") for name in re.findall(r'failpoint\("([\w.]+)"\)', path.read_text())}
    return sorted(found)


def kill_once(store, facts, failpoint, first, random):
    """True: it died where it should."""
    spec = f"{failpoint}:{random.randint(1, RARE.get(failpoint, 150))}:kill" if failpoint else ""
    if failpoint == "store.in_rebuild":
        shutil.rmtree(store / "index", ignore_errors=True)
    load = disk_fault.Load(store, CAPACITY, facts, random.randrange(1 << 20), first, BLOCKS, 0, spec)
    if failpoint:
        load.process.wait(timeout=120)
    else:
        time.sleep(random.uniform(0.02, 0.5))
    return load.kill()


def main():
    random = disk_fault.seeded()
    wanted = disk_fault.count("FOREBAY_KILLS", 120)
    total = disk_fault.Sum()
    places = [*failpoints(), *[None] * RANDOM]
    kills = dict.fromkeys(places, 0)
    first = 0
    with disk_fault.folder() as folder:
        store, facts = folder / "cache", folder / "facts"
        for turn in range(2 * wanted + len(places)):  # a rare place may not be passed
            if sum(kills.values()) >= wanted:
                break
            place = places[turn % len(places)]
            kills[place] += kill_once(store, facts, place, first, random)
            first = disk_fault.next_number(facts)
            where = f"kill {turn} at {place or 'a random moment'}"
            found = disk_fault.check(store, CAPACITY, facts)
            total.add(found, where, NEVER)
            kept, lost = found["served"], found["lost"]
            total.require(lost <= LOST_AT_ONCE * (kept + lost), f"{where}: {lost} of {kept + lost} committed blocks are lost")
            total.require(found["rebuilt"] or found["unreported"] <= disk_fault.LINKS, f"{where}: blocks from nowhere")
            total.require(found["left_bytes"] == found["record_bytes"], f"{where}: space is lost: {found}")
    for place, times in kills.items():
        print(f"{times} kills at {place or 'random moments'}")
        total.require(times > 0, f"void: nobody was killed at {place}")
    total.require(sum(kills.values()) >= wanted, f"void: {sum(kills.values())} kills of {wanted}")
    committed = total["served"] + total["lost"]
    total.require(total["lost"] <= LOST * committed, f"{total['lost']} of {committed} committed blocks are lost")
    total.require(total["evictions"] > 0, "void: nothing was evicted")
    total["kills"] = sum(kills.values())
    del total["missing_durable"]  # what the evictor took: see NEVER
    total.end("kills")


main()
