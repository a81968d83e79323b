"""`ops/bench eviction`: the hit rates of a full cache over what training jobs read, beside other caches. Counts alone."""

import json
import subprocess

import bench_hold
from local_cluster import ClusterError

SECONDS = 7_200
SAME = 0.002  # one standard deviation of 60,000 reads that hit or miss by chance
ONE_JOB_WRITES = 0.5
SWITCH = "switch of"
WHOLE_MIB = 8  # the least that a node takes; each read of a whole node costs a disk's time
WHOLE_ROOM = 0.02  # of its disk, a node's own index takes so much now and then
FEW_BLOCKS = 300  # of one node; with fewer it sees a switch too late for 0.99 of 0.9


class EvictionBench:
    """Runs eviction_bench: the choice of a node and of 16 with a disk of `mebibytes`, then all of a node."""

    def __init__(self, programs, mebibytes):
        self.program, self.mebibytes = str(programs / "eviction_bench"), mebibytes

    def ask(self, mebibytes, *more):
        words = [self.program, "--json", "--disk-mib", str(mebibytes), *more]
        result = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        if result.returncode:
            raise ClusterError(f"eviction_bench ended with {result.returncode}: {result.stderr.strip()}")
        return [json.loads(line) for line in result.stdout.splitlines()]

    def run(self, step, *more):
        with step("eviction: the choice of what to evict, beside other caches"):
            choice = self.ask(self.mebibytes, "--choice-alone", "--all-sizes", *more)
        with step("eviction: all of a node, from the question to the disk"):
            whole = self.ask(WHOLE_MIB, *more)
        lines = [line for row in choice for line in to_hold(row)] + [line for row in whole for line in to_hold(row, True)]
        return {"choice": choice, "whole": whole, "to_hold": lines}


def least(row):
    """The hit rate to reach."""
    part, clean = row["part"], row["workload"] == "permutations"
    if (clean and row["jobs"] == 1) or row["workload"].startswith(SWITCH):
        return 0.99 * part
    floor = row["no_evict"]["hit_rate"] - SAME
    if part == 0.5 and row["jobs"] in (2, 8):
        floor = max(floor, 0.60 if clean else 0.58 if row["workload"].startswith("1 %") else 0)
    return floor


def to_hold(row, whole=False):
    name = f"{row['workload']}, {row['jobs']} job{'s' if row['jobs'] > 1 else ''}, c = {row['part']}"

    def line(what, found, sign, bound, decides=True):
        judge = bench_hold.at_least if sign == ">=" else bench_hold.at_most
        return judge("evict", f"{name}: {what}", found, bound, lambda value: f"{value:.3f}", decides,
                     8 if what.startswith("hit rate") else None)

    if whole:
        yield line("hit rate, whole node", row["node"]["hit_rate"], ">=", least(row) - WHOLE_ROOM)
    else:
        yield line("hit rate", row["node"]["hit_rate"], ">=", least(row))
    if row["jobs"] == 1:
        yield line("blocks written a miss", row["node"]["rewrites"], "<=", ONE_JOB_WRITES)
    if whole:
        return
    few = row["blocks"] / 16 < FEW_BLOCKS
    if row["workload"].startswith(SWITCH):
        yield line("hit rate, 16 nodes", row["nodes16"]["hit_rate"], ">=", least(row), not few or row["part"] <= 0.75)
    else:
        yield line("hit rate, 16 nodes", row["nodes16"]["hit_rate"], ">=", row["no_evict16"]["hit_rate"] - SAME, not few)
    if row["jobs"] == 1:
        yield line("blocks written a miss, 16 nodes", row["nodes16"]["rewrites"], "<=", ONE_JOB_WRITES)


def print_tables(measured, say):
    for title, rows in (("the choice of a node", measured["choice"]), ("all of a node", measured["whole"])):
        say(f"\n{title:34} jobs    c   1 node     16  no-evict    LRU  oracle  Belady  written a miss     16")
        for row in rows:
            rates = {key: value["hit_rate"] for key, value in row.items() if isinstance(value, dict)}
            say(f"{row['workload']:34} {row['jobs']:4} {row['part']:4.2f}{rates['node']:9.3f}{rates['nodes16']:7.3f}"
                f"{rates['no_evict']:10.3f}{rates['lru']:7.3f}{rates['oracle']:8.3f}{rates['belady']:8.3f}"
                f"{row['node']['rewrites']:16.2f}{row['nodes16']['rewrites']:7.2f}")
