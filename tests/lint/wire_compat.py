#!/usr/bin/python3
"""Programs of two releases understand each other, and read what the other wrote: tests/lint/wire_compat.txt holds every
field of every message, every value of every enum, every method and the number of every format. What stands there stays
(docs/DEPLOY.md, "Upgrades"): a field that goes has its number reserved, and no number is used again.

    tests/lint/wire_compat.py --update          adds what is new
    tests/lint/wire_compat.py --accept NAME     a method, message or enum value that has gone, or a format that was raised,
                                                on purpose: no release that is still supported needs it"""

import pathlib
import re
import sys

import source_tree

RECORD = "tests/lint/wire_compat.txt"
METHODS = "common/wire/frame.h"
HEAD = """\
# What programs of other releases send, store and read. Written by tests/lint/wire_compat.py --update, which only adds.
"""
_TOKENS = re.compile(r'"[^"]*"|[\w.]+|[{}()\[\]<>=;,-]')
_FORMAT = re.compile(r'\bconstexpr\s[^=;]*?\b(k(?!X509)\w*(?:Format|Version)\w*)\s*=\s*(\d+|"forebay [a-z ]+ \d+")\s*;')


class Unreadable(Exception):
    """A construct that this script does not know: it must learn it, or it would look away."""


class Proto:
    """The messages and enums of one file, as rows of the record."""

    def __init__(self, name, text):
        self.name, self.tokens, self.rows, self.reserved = name, _TOKENS.findall(source_tree.without_comments(text)), {}, set()
        while self.tokens:
            self._top()

    def _take(self, *wanted):
        if not self.tokens or (wanted and self.tokens[0] not in wanted):
            raise Unreadable(f"{self.name}: {' or '.join(wanted)} is expected before '{' '.join(self.tokens[:5])}'")
        return self.tokens.pop(0)

    def _skip_statement(self):
        while self._take() != ";":
            pass

    def _top(self):
        word = self._take()
        if word in ("syntax", "package", "option", "import"):
            self._skip_statement()
        elif word in ("message", "enum"):
            self._type(word, "")
        elif word != ";":
            raise Unreadable(f"{self.name}: '{word}' is not known")

    def _type(self, kind, outer):
        name = outer + self._take()
        self.rows[(kind, name)] = ""
        self._take("{")
        self._body(kind, name)

    def _body(self, kind, name, label=""):
        while (word := self._take()) != "}":
            if word in ("message", "enum"):
                self._type(word, f"{name}.")
            elif word == "option":
                self._skip_statement()
            elif word == "reserved":
                self._reserve(name)
            elif word == "oneof":
                self._take()
                self._take("{")
                self._body(kind, name, "oneof ")
            elif kind == "enum":
                self._number("value", name, "", word)
            elif word != ";":
                self._field(name, label, word)

    def _field(self, name, label, word):
        if word in ("optional", "repeated"):
            label, word = f"{word} ", self._take()
        if word == "map":
            self._take("<")
            word = f"map<{self._take()},"
            self._take(",")
            word += f"{self._take()}>"
            self._take(">")
        self._number("field", name, f"{label}{word} ", self._take())

    def _number(self, kind, owner, what, name):
        self._take("=")
        sign = self._take() if self.tokens[0] == "-" else ""
        self.rows[(kind, f"{owner} {sign}{int(self._take(), 0)}")] = what + name
        self._skip_statement()

    def _reserve(self, name):
        while (word := self._take(*self.tokens[:1])) != ";":
            if not word.isdigit():
                continue  # a comma, or a name
            last = int(word)
            if self.tokens[0] == "to":
                self._take("to")
                last = int(self._take())
            self.reserved |= {f"{name} {number}" for number in range(int(word), last + 1)}


def methods(text):
    body = re.search(r"enum class Method[^{]*\{(.*?)\};", source_tree.without_comments(text), re.DOTALL)
    rows = {}
    for name, number in re.findall(r"(k\w+)\s*=\s*(\d+)", body[1] if body else ""):
        if ("method", number) in rows:
            raise Unreadable(f"{METHODS}: {name} and {rows[('method', number)]} have the same number {number}")
        rows[("method", number)] = name
    return rows


def tree(root):
    """What the tree says: rows by (kind, place), and the numbers that it reserves."""
    rows, reserved = {}, set()
    for name in source_tree.files(root):
        text = source_tree.read(root, name)
        if name.startswith("proto/") and name.endswith(".proto"):
            proto = Proto(name, text)
            rows.update(proto.rows)
            reserved |= proto.reserved
        elif name.endswith((".h", ".cc")) and not name.startswith("tests/"):
            for constant, value in _FORMAT.findall(source_tree.without_comments(text)):
                rows[("format", f"{name} {constant}")] = value
    if (root / METHODS).exists():
        rows.update(methods(source_tree.read(root, METHODS)))
    return rows, reserved


# Words of a line of the record that are its place; the rest is what is there.
_PLACE_WORDS = {"message": 1, "enum": 1, "field": 2, "value": 2, "method": 1, "format": 2}


def read_record(root):
    """Rows that hold, and rows whose places were given up for ever."""
    rows, retired = {}, {}
    for line in source_tree.read(root, RECORD).splitlines() if (root / RECORD).exists() else ():
        if line.startswith("#") or not line:
            continue
        words = line.split(" ")
        into = rows
        if words[0] == "retired":
            into, words = retired, words[1:]
        places = _PLACE_WORDS[words[0]]
        into[(words[0], " ".join(words[1:1 + places]))] = " ".join(words[1 + places:])
    return rows, retired


def order(row):
    kind, place = row[0]
    return (kind, [(0, int(word), "") if word.lstrip("-").isdigit() else (1, 0, word) for word in place.split(" ")])


def write_record(root, rows, retired):
    text = HEAD
    for mark, part in (("", rows), ("retired ", retired)):
        for (kind, place), what in sorted(part.items(), key=order):
            text += f"{mark}{kind} {place} {what}".rstrip() + "\n"
    (root / RECORD).write_text(text, encoding="utf-8")


def name_of(kind, place, what):
    """What --accept calls it."""
    if kind in ("method", "value"):
        return what
    return place.replace(" ", ":")


def compare(rows, reserved, known, retired, accepted):
    """Findings, what is new, and the record as it may become."""
    findings, new, after, given_up = [], [], dict(known), dict(retired)
    for at, what in sorted(known.items(), key=order):
        kind, place = at
        now = rows.get(at)
        if now == what:
            continue
        name = name_of(kind, place, what)
        if kind == "field" and now is None:
            if place in reserved or ("message", place.split(" ")[0]) not in rows:
                given_up[at] = after.pop(at)
            else:
                findings.append(f"field {place} ({what}) is gone: older programs still send it; write "
                                f"`reserved {place.split(' ')[1]};` in the message")
        elif name in accepted and (now is None or kind == "format"):
            after.pop(at)
            if now is None:
                given_up[at] = what
            else:
                after[at] = now
        elif now is None:
            findings.append(f"{kind} {place} {what}".rstrip() + ": is gone, and older programs still use it; if none that is "
                            f"supported does, run tests/lint/wire_compat.py --accept {name}")
        elif kind == "format":
            findings.append(f"format {place} was {what} and is {now}: older programs refuse it; if docs/DEPLOY.md says what an "
                            f"upgrade and the way back cost, run tests/lint/wire_compat.py --accept {name}")
        else:
            findings.append(f"{kind} {place} was `{what}` and is `{now}`: a number keeps its type and its meaning; take the next "
                            f"free one (where only the name is another one, change it in {RECORD}, too)")
    for at, what in sorted(rows.items(), key=order):
        kind, place = at
        if at in retired and kind != "format":
            findings.append(f"{kind} {place} `{what}`: the number was `{retired[at]}` once and is never used again; take the "
                            "next free one")
        elif at not in known:
            new.append(f"{kind} {place} {what}".rstrip())
            after[at] = what
    return findings, new, after, given_up


def main():
    accepted, update = set(), "--update" in sys.argv
    while "--accept" in sys.argv:
        at = sys.argv.index("--accept")
        accepted.add((sys.argv[at + 1:at + 2] or [""])[0])
        del sys.argv[at:at + 2]
    sys.argv = [word for word in sys.argv if word != "--update"]
    root = pathlib.Path(source_tree.arguments(__doc__).root)
    try:
        rows, reserved = tree(root)
    except Unreadable as error:
        source_tree.report([str(error)], 1)
    known, retired = read_record(root)
    findings, new, after, given_up = compare(rows, reserved, known, retired, accepted)
    if update or accepted:
        if not findings:
            write_record(root, after, given_up)
            new = []
    elif (after, given_up) != (known, retired) and not new:
        new = ["a reserved number"]
    if new:
        shown = "; ".join(new[:3]) + (f" and {len(new) - 3} more" if len(new) > 3 else "")
        findings.append(f"new and not in {RECORD}: {shown}. Run tests/lint/wire_compat.py --update and commit that file")
    source_tree.report(findings, len(rows))


main()
