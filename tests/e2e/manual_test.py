#!/usr/bin/python3
"""The manual pages of the build: readers of man(7) find nothing wrong with them, and they say all that --help says."""

import re
import subprocess
import unittest

from e2e import PROGRAMS, main

PAGES = PROGRAMS.parent / "share" / "man"


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"})
    return result.returncode, result.stdout + result.stderr


def shown(page):
    """What a reader sees, without bold and line ends."""
    code, text = run("mandoc", "-Tutf8", "-O", "width=200", PAGES / page)
    assert code == 0, text
    return " ".join(re.sub(".\b", "", text).split())


class ManualTest(unittest.TestCase):
    def test_readers_of_manual_pages_have_nothing_to_object(self):
        pages = sorted(PAGES.rglob("*.[158]"))
        self.assertEqual([page.name for page in pages],
                         ["forebay.1", "forebay.toml.5", "forebay-coordinator.8", "forebay-mount.8", "forebay-node.8",
                          "mount.forebay.8"])
        for page in pages:
            with self.subTest(page=page.name):
                code, lint = run("mandoc", "-Tlint", page)
                self.assertEqual(lint, "", code)
                with open(page, encoding="ascii") as file:
                    result = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8"], stdin=file,
                                            capture_output=True, text=True, check=False)
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_each_verb_alias_and_flag_is_described(self):
        page = shown("man1/forebay.1")
        verbs = re.search(r"\nVerbs\n(.*?)\n\n", run(PROGRAMS / "forebay", "--help")[1], re.DOTALL)[1]
        names = [line.split()[0] for line in verbs.splitlines()]
        self.assertGreaterEqual(len(names), 10)
        for name in names:
            text = run(PROGRAMS / "forebay", name, "--help")[1]
            self.assertIn(text.splitlines()[0].removeprefix("Usage: "), page)
            for line in text.splitlines():
                if match := re.match(r"  ((?:-\w, )?(?:--)?\S+(?: \S+)?)  +(\S.*)", line):
                    self.assertIn(f"{match[1]} ", page, name)
                    self.assertIn(match[2].replace("`", ""), page, name)

    def test_each_option_of_each_program_is_described(self):
        keys = set()
        # With what each cannot be without.
        for program, needs in {"forebay-coordinator": ["--state-dir", "/nowhere"],
                               "forebay-node": ["--cache-dir", "/nowhere=1GiB"],
                               "forebay-mount": ["link", "/nowhere"]}.items():
            page = shown(f"man8/{program}.8")
            lines = run(PROGRAMS / program, "--help")[1].splitlines()
            described = [line.strip() for line in lines if re.match(r"  \S", line)]
            self.assertGreater(len(described), 10, program)
            for tag in described:
                self.assertIn(f" {tag} ", page, program)
            for line in lines:
                if line.startswith("      "):
                    self.assertIn(line.strip().replace("`", ""), page, program)
            code, config = run(PROGRAMS / program, "--print-config", "--config", "/dev/null", *needs)
            self.assertEqual(code, 0, config)
            keys.update(re.findall(r"^(\w+) = ", config, re.MULTILINE))
        self.assertGreater(len(keys), 20)
        page = shown("man5/forebay.toml.5")
        for key in keys:
            self.assertIn(f" {key} ", page)


if __name__ == "__main__":
    main()
