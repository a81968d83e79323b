#!/usr/bin/python3
"""Headers have at most 300 lines, sources 500, functions 70."""

import re

import source_tree

HEADER_LINES = 300
SOURCE_LINES = 500
FUNCTION_LINES = 70

_CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
_LABEL = re.compile(r"^\s*(public|protected|private)\s*:")


def _is_container(head):
    # `struct` inside parentheses or template arguments belongs to a signature.
    while (flat := re.sub(r"\([^()]*\)|<[^<>]*>", "", head)) != head:
        head = flat
    return bool(_CONTAINER.search(head)) and "=" not in head


def _closing(text, position):
    """The position after the brace that closes the one before `position`, or -1."""
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, position):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.end()
    return -1


def functions(text):
    """(first line, last line) of each function body with its signature, lambdas and local types within counted as
    part of it; None when the braces do not match."""
    text = source_tree.without_comments(text, strings=False)
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: "\n" * m.group().count("\n"), text, flags=re.MULTILINE)
    found = []
    containers = 0
    begin = 0  # of the declaration that is being read
    position = 0
    while match := re.compile(r"[{};]").search(text, position):
        head = _LABEL.sub("", text[begin:match.start()])
        position = match.end()
        if match.group() == "}":
            containers -= 1
            if containers < 0:
                return None
        elif match.group() == "{" and _is_container(head):
            containers += 1
        elif match.group() == "{":
            position = _closing(text, position)
            if position < 0:
                return None
            # `: a_{1}, b_{2} {` and `x{1}, y{2};`: the declaration goes on after the brace.
            if re.compile(r"\s*[,{]").match(text, position):
                continue
            if "(" in head and not re.search(r"=\s*$", head):
                first = begin + len(text[begin:]) - len(_LABEL.sub("", text[begin:]).lstrip())
                found.append((text.count("\n", 0, first) + 1, text.count("\n", 0, position) + 1))
        begin = position
    return found if containers == 0 else None


def check(root, name):
    text = source_tree.read(root, name)
    lines = len(text.splitlines())
    limit = HEADER_LINES if name.endswith(".h") else SOURCE_LINES
    if lines > limit:
        yield f"{name}:1: {lines} lines, and {limit} are the limit: is it still one idea?"
    bodies = functions(text)
    if bodies is None:
        yield f"{name}:1: the braces do not match, so functions cannot be measured"
    for first, last in bodies or []:
        if last - first + 1 > FUNCTION_LINES:
            yield f"{name}:{first}: a function of {last - first + 1} lines, and {FUNCTION_LINES} are the limit"


def main():
    root = source_tree.arguments(__doc__).root
    names = source_tree.cpp_files(root)
    source_tree.report([finding for name in names for finding in check(root, name)], len(names))


main()
