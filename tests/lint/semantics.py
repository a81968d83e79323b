#!/usr/bin/python3
"""docs/SEMANTICS.md and its tests say the same: each statement (`- `name`, `name`: …`) has a test_name in
tests/e2e/semantics_*_test.py, and each test a statement.

usage: semantics.py [--root ROOT]"""

import argparse
import pathlib
import re
import sys

STATEMENT = re.compile(r"^- ((?:`\w+`(?:, )?)+): ")
TEST = re.compile(r"^    def test_(\w+)\(self", re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    root = parser.parse_args().root.resolve()
    faults, stated, tested = [], {}, {}
    for number, line in enumerate((root / "docs" / "SEMANTICS.md").read_text().splitlines(), 1):
        match = STATEMENT.match(line)
        if line.startswith("- ") and not match:
            faults.append(f"docs/SEMANTICS.md:{number}: a statement without a name")
        for name in re.findall(r"`(\w+)`", match[1]) if match else []:
            if name in stated:
                faults.append(f"docs/SEMANTICS.md:{number}: {name} is stated twice")
            stated[name] = number
    for script in sorted((root / "tests" / "e2e").glob("semantics_*_test.py")):
        for name in TEST.findall(script.read_text()):
            if name in tested:
                faults.append(f"tests/e2e/{script.name}: test_{name} is there twice")
            tested[name] = script.name
    faults += [f"docs/SEMANTICS.md:{stated[name]}: no test holds {name}" for name in sorted(stated.keys() - tested.keys())]
    faults += [f"tests/e2e/{tested[name]}: test_{name} has no statement" for name in sorted(tested.keys() - stated.keys())]
    if not stated:
        faults.append("docs/SEMANTICS.md: states nothing")
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


main()
