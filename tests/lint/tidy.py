#!/usr/bin/python3
"""clang-tidy 19 with /.clang-tidy, every finding an error: on the sources that have changed since FOREBAY_LINT_BASE (by
default since the branch left its upstream, or since the commit before the last), committed or not; on all of them with
FOREBAY_LINT_ALL=1. A changed header is looked at through a source that includes it."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import compile_commands
import source_tree
from changed import changed_files


def sources_to_check(root, sources):
    changed = changed_files(root)
    if changed is None:
        return sources
    chosen = {source for source in sources if source in changed}
    targets = {source: [spelling[1:-1] for _, spelling in source_tree.includes(source_tree.read(root, source))]
               for source in sources}
    for header in (name for name in changed if name.endswith(".h")):
        users = [source for source, included in targets.items() if header in included]
        if users and not chosen.intersection(users):
            own = [source for source in users if targets[source][0] == header]
            chosen.add((own or users)[0])
    return sorted(chosen)


def main():
    options = source_tree.arguments(__doc__)
    root = options.root
    commands = compile_commands.CompileCommands(root, options.build)
    known = set(source_tree.cpp_files(root, (".cc",)))
    sources = [name for name in commands.sources() if name in known] if options.build else sorted(known)
    settings = [source_tree.read(root, name) for name in source_tree.files(root) if name.endswith(".clang-tidy")]
    passed = compile_commands.Passed(root, options.build, "tidy", (compile_commands.version("clang-tidy-19"), settings))

    def check(name):
        folder, command = commands.of(name)
        if passed.has(name, command):
            return []
        result = subprocess.run(["clang-tidy-19", "--quiet", str(root / name), "--", *command[1:]], cwd=folder,
                                capture_output=True, text=True, check=False)
        if result.returncode == 0:
            passed.add(name, command, commands.dependencies(name))
            return []
        lines = [line.removeprefix(f"{root}/") for line in result.stdout.splitlines() if "error:" in line]
        # A path through a library's header is ours all the same; say from where.
        lines = [f"{name}: {line}" if line.startswith("/") else line for line in lines]
        return lines or [f"{name}: clang-tidy-19 failed: {result.stderr}"]

    chosen = sources_to_check(root, sources)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = {line for lines in pool.map(check, chosen) for line in lines}
    print(f"{len(chosen)} of {len(sources)} sources changed")
    source_tree.report(sorted(found), len(sources))


main()
