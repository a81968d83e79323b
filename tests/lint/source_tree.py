"""What the lint scripts share: the files of the tree, C++ without comments, and how findings are reported."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

# Bad examples, each of which one linter must reject.
BAD_EXAMPLES = "tests/lint/bad/"

_TOKEN = re.compile(
    r'//(?:\\\n|[^\n])*'                       # line comment
    r'|/\*.*?\*/'                              # block comment
    r'|R"(?P<d>[^()\\\s]{0,16})\(.*?\)(?P=d)"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'                    # string
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",   # character; not a digit separator
    re.DOTALL,
)


def arguments(description):
    """Parses --root and --build, which every script takes alike."""
    parser = argparse.ArgumentParser(description=description)
    here = pathlib.Path(__file__).resolve()
    parser.add_argument("--root", type=pathlib.Path, default=here.parents[2], help="the tree to look at")
    parser.add_argument("--build", type=pathlib.Path, help="a build folder with compile_commands.json")
    parsed = parser.parse_args()
    parsed.root = parsed.root.resolve()
    return parsed


def git(root, *command):
    # A checkout that belongs to somebody else (a container) is read all the same.
    result = subprocess.run(["git", "-c", "safe.directory=*", "-C", str(root), *command],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"git {' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def files(root):
    """Every file that git tracks or would track, relative to `root`, without the bad examples."""
    listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return sorted({name for name in listed
                   if name and not name.startswith(BAD_EXAMPLES) and (root / name).is_file()})


def cpp_files(root, suffixes=(".h", ".cc")):
    return [name for name in files(root) if name.endswith(suffixes)]


def read(root, name):
    return (root / name).read_text(encoding="utf-8", errors="replace")


def without_comments(text, strings=True):
    """The text with comments blanked, line for line; string and character literals too unless `strings`."""
    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        if strings:
            return token
        return '""' + "\n" * token.count("\n")
    return _TOKEN.sub(blank, text)


def includes(text):
    """(line number, spelling with its quotes or brackets) of each #include."""
    pattern = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<[^>\n]+>|"[^"\n]+")', re.MULTILINE)
    plain = without_comments(text)
    return [(plain.count("\n", 0, match.start()) + 1, match.group(1)) for match in pattern.finditer(plain)]


def report(findings, checked):
    """Prints the findings and ends the script: 1 when there are any. Nothing to check is a fault, too: a linter that
    looks at nothing finds nothing."""
    for finding in findings:
        print(finding)
    if not checked:
        print("nothing to check: is this the right folder?")
    print(f"{os.path.basename(sys.argv[0])}: {checked} checked, {len(findings)} findings")
    sys.exit(1 if findings or not checked else 0)
