"""Runs ops/bench, for the tests of it."""

import json
import os
import pathlib
import subprocess
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("FOREBAY_BIN", "")).resolve()
SECONDS = 300


def leftovers():
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    return {line.split()[4] for line in mounts.splitlines() if "/forebay-bench-" in line.split()[4]} | {
        path for folder in (tempfile.gettempdir(), "/dev/shm") for path in pathlib.Path(folder).glob("forebay-*bench-*")}


def run_bench(test, *words):
    """The JSON of a run whose counts hold, and which leaves nothing behind."""
    before = leftovers()
    result = subprocess.run([REPOSITORY / "ops" / "bench", *words, "--programs", PROGRAMS, "--json", "-"], capture_output=True,
                            text=True, timeout=SECONDS, check=False)
    test.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr)
    document = json.loads(result.stdout)
    test.assertEqual([line for line in document["to_hold"] if line["decides"] and not line["holds"]], [])
    for line in document["to_hold"]:
        test.assertTrue(line["share"] is not None or line["holds"] is None, line)
    test.assertEqual(leftovers() - before, set())
    return document
