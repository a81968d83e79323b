#!/usr/bin/python3
"""Each header compiles alone and begins with #pragma once. The first header that a source includes is proven by the
build; the others are compiled here."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import compile_commands
import source_tree


def includes_of(root, sources):
    """The headers that the build proves, and a source that includes it for each header."""
    proven, users = set(), {}
    for source in sources:
        headers = [spelling[1:-1] for _, spelling in source_tree.includes(source_tree.read(root, source))]
        proven.update(headers[:1])
        for header in headers:
            users.setdefault(header, source)
    return proven, users


def main():
    options = source_tree.arguments(__doc__)
    root = options.root
    commands = compile_commands.CompileCommands(root, options.build)
    passed = compile_commands.Passed(root, options.build, "self_contained", compile_commands.version("clang++-19"))
    headers = source_tree.cpp_files(root, (".h",))
    proven, users = includes_of(root, commands.sources())

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
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        findings += filter(None, pool.map(compile_alone, [name for name in headers if name not in proven]))
    source_tree.report(findings, len(headers))


main()
