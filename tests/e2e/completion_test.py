#!/usr/bin/python3
"""TAB in real shells: what they make of a command line that is being written, in a pseudo-terminal."""

import os

from e2e import PROGRAMS, E2eTest, eventually, main
from terminal import Terminal

# Interactive, without anybody's own settings.
SHELLS = {"bash": (["bash", "--norc", "--noprofile", "-i"], "source <(forebay completion bash)"),
          "zsh": (["zsh", "-f", "-i"], "source <(forebay completion zsh)"),
          "fish": (["fish", "--no-config", "-i"], "forebay completion fish | source")}
HOSTILE = "evil $(touch pwned) `touch pwned`;'x\"y"
BEGIN, END = "\x01", "\x05"  # Ctrl-A, Ctrl-E


class CompletionTest(E2eTest):
    NODES = ("n1",)
    CACHE = "64MiB"

    def setUp(self):
        super().setUp()
        self.put({"folder/file.bin": b"x", f"folder/{HOSTILE}": b"x", "other.bin": b"x"})
        self.start()
        self.link("data")
        self.home_folder = self.folder / "home"
        self.home_folder.mkdir()
        (self.home_folder / "local-file").write_text("")

    def shell(self, name, coordinator):
        command, load = SHELLS[name]
        env = {**self.cluster.client_env, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(self.home_folder),
               "FOREBAY_COORDINATOR": coordinator, "PS1": "> ", "LC_ALL": "C.UTF-8", "INPUTRC": "/dev/null"}
        terminal = Terminal(["env", "-C", self.home_folder, *command], env, columns=200)
        self.addCleanup(terminal.close)
        terminal.type(f"{load}; echo load''ed\n")
        terminal.until("loaded", f"{name} loads the script")
        return terminal

    def completed(self, terminal, line):
        """Types the line, and has the shell say what words it has become."""
        answer = self.home_folder / "answer"
        answer.unlink(missing_ok=True)
        seen = len(terminal.text)
        terminal.type(f"{line}{BEGIN}printf '%s\\n' {END} > answer; echo do''ne\n")
        terminal.until(lambda text: "done" in text[seen:], line)
        eventually(answer.exists, f"the shell's answer to {line!r}")
        words = answer.read_text().splitlines()
        self.assertEqual(words[0], "forebay")
        return words[1:]

    def check_shell(self, name):
        terminal = self.shell(name, self.cluster.address)
        for line, words in {
                "forebay unli\t": ["unlink"],
                "forebay rele\tda\t": ["release", "data"],
                "forebay unlink da\t": ["unlink", "data"],
                "forebay links --outp\tj\t": ["links", "--output", "json"],
                "forebay links --output=j\t": ["links", "--output=json"],
                "forebay link s3://b/p --det\t": ["link", "s3://b/p", "--detach"],
                "forebay completion z\t": ["completion", "zsh"],
                # A folder goes on without a blank.
                "forebay ls data/fo\tfi\t": ["ls", "data/folder/file.bin"],
                "forebay check ./lo\t": ["check", "./local-file"],
                "forebay unlink nothing-like-it\t": ["unlink", "nothing-like-it"],
                "forebay ls data/folder/ev\t": ["ls", f"data/folder/{HOSTILE}"]}.items():
            with self.subTest(shell=name, line=line):
                self.assertEqual(self.completed(terminal, line), words)
        self.assertFalse((self.home_folder / "pwned").exists(), "a key's name was run as a command")

    def check_other_coordinator(self, name):
        # Nobody is at port 1; the flag on the line counts. Its colon takes the word apart in bash.
        terminal = self.shell(name, "127.0.0.1:1")
        address = self.cluster.address
        self.assertEqual(self.completed(terminal, f"forebay --coordinator {address} unlink da\t"),
                         ["--coordinator", address, "unlink", "data"])
        seen = len(terminal.text)
        self.assertEqual(self.completed(terminal, "forebay unlink da\t"), ["unlink", "da"])
        self.assertNotIn("coordinator", terminal.text[seen:], "TAB is silent about errors")

    def test_bash(self):
        self.check_shell("bash")
        self.check_other_coordinator("bash")

    def test_zsh(self):
        self.check_shell("zsh")
        self.check_other_coordinator("zsh")

    def test_fish(self):
        self.check_shell("fish")
        self.check_other_coordinator("fish")


if __name__ == "__main__":
    main()
