#!/usr/bin/python3
"""Documents speak of things that exist: every file in backticks, every `Class::Function` behind it, every relative link.

usage: documents.py [--root ROOT]"""

import argparse
import pathlib
import re
import sys

FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:cc|h|py|md|proto|sh))`")
MEMBER = re.compile(r"`([A-Z]\w+)::(\w+)(?:\(\))?`")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
IGNORED = {"forebay", "std", "asio"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    root = parser.parse_args().root.resolve()
    documents = [path for path in [*root.glob("*.md"), *(root / "docs").rglob("*.md")] if path.is_file()]
    sources = {path: path.read_text(errors="replace")
               for folder in ("common", "cachenode", "coordinator", "fuse-client", "cli")
               for path in (root / folder).rglob("*") if path.suffix in (".h", ".cc")}
    everything = "\n".join(sources.values())
    faults = []
    for document in documents:
        for number, line in enumerate(document.read_text().splitlines(), 1):
            where = f"{document.relative_to(root)}:{number}"
            for match in FILE.finditer(line):
                if not (root / match[1]).exists():
                    faults.append(f"{where}: there is no file {match[1]}")
            for match in MEMBER.finditer(line):
                known = re.search(rf"\b(?:class|struct)\s+{match[1]}\b", everything) and re.search(
                    rf"\b{match[2]}\b", everything)
                if match[1] not in IGNORED and not known:
                    faults.append(f"{where}: there is no {match[1]}::{match[2]}")
            for match in LINK.finditer(line):
                if not (document.parent / match[1]).exists():
                    faults.append(f"{where}: the link to {match[1]} leads nowhere")
    print("\n".join(faults))
    sys.exit(1 if faults else 0)


main()
