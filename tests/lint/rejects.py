#!/usr/bin/python3
"""rejects.py LINT: the lint script must reject tests/lint/bad/LINT, and say each line of its file `expected`. A linter
that silently does nothing fails here."""

import os
import pathlib
import subprocess
import sys


def main():
    lint = sys.argv[1]
    here = pathlib.Path(__file__).resolve().parent
    bad = here / "bad" / lint
    result = subprocess.run([sys.executable, here / f"{lint}.py", "--root", bad], capture_output=True, text=True,
                            check=False, env={**os.environ, "FOREBAY_LINT_ALL": "1"})
    missing = [line for line in (bad / "expected").read_text().splitlines() if line not in result.stdout]
    if result.returncode != 1 or missing:
        sys.exit(f"{lint}.py ended with {result.returncode} and did not say {missing}; it said:\n"
                 f"{result.stdout}{result.stderr}")


main()
