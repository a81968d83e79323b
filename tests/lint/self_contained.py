#!/usr/bin/python3
"""Each header begins with #pragma once and compiles alone, without the build's precompiled headers. Those are compiled
that have changed, or that include one that has (see changed.py)."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import compile_commands
import source_tree
from changed import changed_files


def included(root, name):
    return [spelling[1:-1] for _, spelling in source_tree.includes(source_tree.read(root, name))]


def users_of(root, sources):
    """A source that includes it for each header."""
    users = {}
    for source in sources:
        for header in included(root, source):
            users.setdefault(header, source)
    return users


def to_check(root, headers):
    changed = changed_files(root)
    if changed is None:
        return headers
    return [name for name in headers if name in changed or not changed.isdisjoint(included(root, name))]


def main():
    options = source_tree.arguments(__doc__)
    root = options.root
    commands = compile_commands.CompileCommands(root, options.build)
    passed = compile_commands.Passed(root, options.build, "self_contained", compile_commands.version("clang++-19"))
    headers = source_tree.cpp_files(root, (".h",))
    users = users_of(root, commands.sources())

    def compile_alone(header):
        folder, command = commands.of(users.get(header, header))
        if passed.has(header, command):
            return None
        result = subprocess.run([*command, "-fsyntax-only", "-x", "c++", "-"], cwd=folder, capture_output=True,
                                text=True, check=False, input=f'#include "{header}"\n')
        if result.returncode == 0:
            passed.add(header, command, commands.dependencies(header))
            return None
        reason = next((line for line in result.stderr.splitlines() if "error:" in line), result.stderr)
        return f"{header}:1: does not compile alone: {reason}"

    findings = [f"{header}:1: has no #pragma once" for header in headers
                if not source_tree.without_comments(source_tree.read(root, header)).lstrip().startswith("#pragma once")]
    chosen = to_check(root, headers)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        findings += filter(None, pool.map(compile_alone, chosen))
    print(f"{len(chosen)} of {len(headers)} headers changed")
    source_tree.report(findings, len(headers))


main()
