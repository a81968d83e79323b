"""Which files have changed since FOREBAY_LINT_BASE (by default since the branch left its upstream, or since the commit
before the last), committed or not: what takes a compiler looks at them alone. FOREBAY_LINT_ALL=1: at all."""

import os
import subprocess

import source_tree


def base_commit(root):
    if base := os.environ.get("FOREBAY_LINT_BASE"):
        return source_tree.git(root, "rev-parse", "--verify", f"{base}^{{commit}}").strip()
    head = source_tree.git(root, "rev-parse", "HEAD").strip()
    for command in (["merge-base", "HEAD", "@{upstream}"], ["rev-parse", "HEAD~"]):
        result = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), *command], capture_output=True,
                                text=True, check=False)
        if result.returncode == 0 and result.stdout.strip() != head:
            return result.stdout.strip()
    return None


def changed_files(root):
    """Their names; None = all: asked for, or there is no earlier commit to compare with."""
    if os.environ.get("FOREBAY_LINT_ALL") == "1":
        return None
    base = base_commit(root)
    if base is None:
        return None
    changed = source_tree.git(root, "diff", "--name-only", "--relative", "-z", base).split("\0")
    untracked = source_tree.git(root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return {*changed, *untracked}
