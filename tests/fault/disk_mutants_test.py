#!/usr/bin/python3
"""The tests of power cuts and kills are shown stores with mistakes in them, and must find each: a store that makes nothing
durable, or its segments not, and one that writes its data behind the rows that speak of them. A test
that finds nothing there would prove nothing elsewhere. Each mistake is one of lying_disk.cc, which the load alone sees."""

import os
import pathlib
import re
import subprocess
import sys

import disk_fault

HERE = pathlib.Path(__file__).resolve().parent
# The test that must fail, with so many faults, and what it must say then.
POWER_CUTS = ("disk_power_cut_test.py", {"FOREBAY_POWER_CUTS": "10"})
KILLS = ("disk_kill_test.py", {"FOREBAY_KILLS": "10"})
MISSING = r"FAILED image \d+ of life \d+: \d+ missing_durable"
MUTANTS = {"no-sync": (*POWER_CUTS, rf"{MISSING}|damaged file FOREBAY"),
           "no-data-sync": (*POWER_CUTS, MISSING),
           "late-data": (*KILLS, r"FAILED kill \d+ at .*: \d+ of \d+ committed blocks are lost")}


def main():
    disk_fault.skip_unless_loops_work()
    library = disk_fault.PROGRAMS.resolve() / "lying_disk.so"
    survivors = []
    for mutant, (test, faults, finds) in MUTANTS.items():
        done = subprocess.run([sys.executable, "-B", HERE / test], capture_output=True, text=True, check=False,
                              env={**os.environ, **faults, "FOREBAY_MUTANT": mutant, "FOREBAY_MUTANT_LIBRARY": library})
        found = re.search(finds, done.stdout + done.stderr)
        print(f"{mutant}: {test} ends with {done.returncode}: {found[0] if found else 'nothing is found'}", flush=True)
        if done.returncode != 1 or not found:
            survivors.append(mutant)
            print(done.stdout[-2000:], done.stderr[-2000:])
    if survivors:
        print(f"FAILED nothing finds the mistake of {', '.join(survivors)}")
    sys.exit(1 if survivors else 0)


main()
