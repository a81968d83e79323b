#!/usr/bin/python3
"""Every C++ file is as clang-format 19 writes it."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import source_tree


def main():
    root = source_tree.arguments(__doc__).root
    names = source_tree.cpp_files(root)
    workers = os.cpu_count() or 1

    def check(part):
        result = subprocess.run(["clang-format-19", "--dry-run", "-Werror", *part], cwd=root, capture_output=True,
                                text=True, check=False)
        return result.returncode, result.stderr

    findings = []
    with ThreadPoolExecutor(workers) as pool:
        for code, output in pool.map(check, [part for i in range(workers) if (part := names[i::workers])]):
            lines = [line for line in output.splitlines() if "error:" in line]
            findings += lines or ([f"clang-format-19 failed: {output}"] if code else [])
    source_tree.report(findings, len(names))


main()
