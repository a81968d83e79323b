#!/usr/bin/python3
"""Nothing in code that promises work for later, or silences a linter or a test without saying why."""

import re

import source_tree

# Written in halves, so that this file passes its own check.
LATER = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b|(?i:\b(not |un)imple" + r"mented\b)")
DISABLED = re.compile(r"\bDIS" + r"ABLED_")
SILENCED = re.compile(r"NOLI" + r"NT(NEXTLINE|BEGIN)?\b(?P<checks>\([^)]*\))?:?\s*(?P<reason>.*)")
SHORTEST_REASON = 10

CODE = (".h", ".cc", ".py", ".sh", ".proto", ".cmake", "CMakeLists.txt")


def check(root, name):
    for number, line in enumerate(source_tree.read(root, name).splitlines(), 1):
        if match := LATER.search(line):
            # The usual pattern of a name for mktemp is no promise.
            if "mktemp" not in line:
                yield f"{name}:{number}: '{match.group()}': do it now, or leave it out"
        if DISABLED.search(line):
            yield f"{name}:{number}: a disabled test does not exist; mend or delete it"
        if (match := SILENCED.search(line)) and (
                not match["checks"] or len(match["reason"].strip(" */:")) < SHORTEST_REASON):
            yield f"{name}:{number}: name the silenced check in brackets and the reason after them"


def main():
    root = source_tree.arguments(__doc__).root
    names = [name for name in source_tree.files(root)
             if name.endswith(CODE) or name.startswith(("ops/", ".ci/"))]
    source_tree.report([finding for name in names for finding in check(root, name)], len(names))


main()
