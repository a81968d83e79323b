"""`ops/bench eviction`: the hit rates of a full cache over what training jobs read, beside other caches. Counts alone."""

import json
import subprocess

from local_cluster import ClusterError

SECONDS = 7_200
SAME = 0.002  # hit rates on one trace differ by so much through which blocks came first
ONE_JOB_WRITES = 0.5
SWITCH = "switch of"


class EvictionBench:
    """Runs eviction_bench over a disk of `mebibytes`."""

    def __init__(self, programs, mebibytes):
        self.words = [str(programs / "eviction_bench"), "--json", "--disk-mib", str(mebibytes)]

    def run(self, step, *more):
        with step("eviction: what a node hits, beside other caches"):
            result = subprocess.run([*self.words, *more], capture_output=True, text=True, timeout=SECONDS, check=False)
        if result.returncode:
            raise ClusterError(f"eviction_bench ended with {result.returncode}: {result.stderr.strip()}")
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        return {"rows": rows, "to_hold": [line for row in rows for line in to_hold(row)]}


def least(row):
    """The hit rate to reach."""
    part, clean = row["part"], row["workload"] == "permutations"
    if (clean and row["jobs"] == 1) or row["workload"].startswith(SWITCH):
        return 0.99 * part
    floor = row["no_evict"]["hit_rate"] - SAME
    if part == 0.5 and row["jobs"] in (2, 8):
        floor = max(floor, 0.60 if clean else 0.58 if row["workload"].startswith("1 %") else 0)
    return floor


def to_hold(row):
    name = f"{row['workload']}, {row['jobs']} job{'s' if row['jobs'] > 1 else ''}, c = {row['part']}"

    def line(what, found, sign, bound):
        holds = found >= bound if sign == ">=" else found <= bound
        return {"workload": "eviction", "what": f"{name}: {what}", "measured": f"{found:.3f}",
                "wanted": f"{sign} {bound:.3f}", "holds": holds, "decides": True}

    yield line("hit rate", row["node"]["hit_rate"], ">=", least(row))
    switch = row["workload"].startswith(SWITCH)
    yield line("hit rate, 16 nodes", row["nodes16"]["hit_rate"], ">=",
               least(row) if switch else row["no_evict16"]["hit_rate"] - SAME)
    if row["jobs"] == 1:
        yield line("blocks written a miss", row["node"]["rewrites"], "<=", ONE_JOB_WRITES)
        yield line("blocks written a miss, 16 nodes", row["nodes16"]["rewrites"], "<=", ONE_JOB_WRITES)


def print_tables(measured, say):
    say("\nhit rates                          jobs    c   1 node     16  no-evict    LRU  oracle  Belady  written a miss     16")
    for row in measured["rows"]:
        rates = {key: value["hit_rate"] for key, value in row.items() if isinstance(value, dict)}
        say(f"{row['workload']:34} {row['jobs']:4} {row['part']:4.2f}{rates['node']:9.3f}{rates['nodes16']:7.3f}"
            f"{rates['no_evict']:10.3f}{rates['lru']:7.3f}{rates['oracle']:8.3f}{rates['belady']:8.3f}"
            f"{row['node']['rewrites']:16.2f}{row['nodes16']['rewrites']:7.2f}")
