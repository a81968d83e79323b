#!/usr/bin/python3
"""The tests of power cuts and kills are shown stores with mistakes in them, and must find each: a store that makes nothing
durable, or its segments not, or its index not, and one that writes its data behind the rows that speak of them. A test
that finds nothing there would prove nothing elsewhere. Each mistake is one of lying_disk.cc, which the load alone sees."""

import os
import pathlib
import re
import subprocess
import sys

import disk_fault

HERE = pathlib.Path(__file__).resolve().parent
# The test that must fail, what it must have found, and after how many faults at most.
MUTANTS = {"no-sync": ("disk_power_cut_test.py", "missing_durable", {"FOREBAY_POWER_CUTS": "10"}),
           "no-data-sync": ("disk_power_cut_test.py", "missing_durable", {"FOREBAY_POWER_CUTS": "10"}),
           "no-index-sync": ("disk_power_cut_test.py", "missing_durable", {"FOREBAY_POWER_CUTS": "10"}),
           "late-data": ("disk_kill_test.py", "mismatched", {"FOREBAY_KILLS": "10"})}


def main():
    disk_fault.skip_unless_loops_work()
    library = disk_fault.PROGRAMS / "lying_disk.so"
    survivors = []
    for mutant, (test, finds, faults) in MUTANTS.items():
        done = subprocess.run([sys.executable, "-B", HERE / test], capture_output=True, text=True, check=False,
                              env={**os.environ, **faults, "FOREBAY_MUTANT": mutant, "FOREBAY_MUTANT_LIBRARY": library})
        counted = re.search(rf"(\d+) {finds}\b", done.stdout)
        found = int(counted[1]) if counted else 0
        print(f"{mutant}: {test} ends with {done.returncode} and counts {found} {finds}", flush=True)
        if done.returncode != 1 or found == 0:
            survivors.append(mutant)
            print(done.stdout[-2000:], done.stderr[-2000:])
    if survivors:
        print(f"FAILED nothing finds the mistake of {', '.join(survivors)}")
    sys.exit(1 if survivors else 0)


main()
