#!/usr/bin/python3
"""No file that nothing uses: sources are in a CMakeLists.txt, headers are included, scripts and CMake modules are named
somewhere."""

import posixpath
import re

import source_tree

# What is started by its name from outside the tree.
ENTRY_POINTS = {".ci/run"}
# Where a script's name may stand to count as used: not in another lint's table, but in what runs or explains it.
MENTIONS = (".txt", ".cmake", ".json", ".md", ".py", ".sh", ".cc", ".h", ".in")


def is_script(root, name):
    if name.endswith((".py", ".sh")):
        return True
    with open(root / name, "rb") as file:
        return "." not in posixpath.basename(name) and file.read(2) == b"#!"


def mentioned(name, texts):
    """Is the path, or the file's own name in the same folder or as a word of its own, in another file?"""
    base = re.escape(posixpath.basename(name))
    folder = posixpath.dirname(name)
    plain_stem = posixpath.basename(name).removesuffix(".py")
    stem = re.escape(plain_stem)
    path = re.compile(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])|/{re.escape(name)}(?![\w-])")
    near = re.compile(rf"(?<![\w.-]){base}(?![\w-])|^\s*(?:import|from) {stem}\b", re.MULTILINE)
    for other, text in texts.items():
        if other == name or plain_stem not in text:
            continue
        if path.search(text) or (posixpath.dirname(other) == folder and near.search(text)):
            return True
    return False


def listed_in_cmake(name, texts):
    """Is the source listed in the CMakeLists.txt of its folder or of one above it?"""
    folder = posixpath.dirname(name)
    while True:
        path = posixpath.relpath(name, folder or ".")
        text = texts.get(posixpath.join(folder, "CMakeLists.txt"), "")
        text = re.sub(r"#[^\n]*", "", text)
        if re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w.-])", text):
            return True
        if not folder:
            return False
        folder = posixpath.dirname(folder)


def main():
    root = source_tree.arguments(__doc__).root
    names = source_tree.files(root)
    scripts = [name for name in names if is_script(root, name)]
    texts = {name: source_tree.read(root, name) for name in names if name.endswith(MENTIONS) or name in scripts}
    included = {(spelling[1:-1], name) for name in source_tree.cpp_files(root)
                for _, spelling in source_tree.includes(texts[name])}
    included_by_others = {target for target, name in included if target != name}

    findings = []
    for name in names:
        if name.endswith((".cc", ".proto")) and not listed_in_cmake(name, texts):
            findings.append(f"{name}: no CMakeLists.txt lists it, so nothing builds it")
        elif name.endswith(".h") and name not in included_by_others:
            findings.append(f"{name}: no file includes it")
        elif name.endswith(".cmake") and not mentioned(name, texts) and not any(
                f"include({posixpath.basename(name)[:-6]})" in text for text in texts.values()):
            findings.append(f"{name}: no CMakeLists.txt includes it")
        elif name in scripts and name not in ENTRY_POINTS and not mentioned(name, texts):
            findings.append(f"{name}: nothing runs or mentions it")
    source_tree.report(findings, len(names))


main()
