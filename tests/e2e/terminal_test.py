#!/usr/bin/python3
"""What a person sees: `forebay` in a terminal, in a pipe, in a narrow window, and when Ctrl-C is pressed."""

import json
import re
import subprocess

from e2e import PROGRAMS, E2eTest, eventually, main
from terminal import COLOUR, CONTROL, Gate, Terminal

KEYS = 2500  # three pages of a listing


def drawn_lines(text):
    """The texts that were drawn over one another on the line of the bar."""
    return [CONTROL.sub("", part) for part in re.split(r"[\r\n]", text) if "listing" in part or "ETA" in part]


class TerminalTest(E2eTest):
    NODES = ("n1",)
    CACHE = "64MiB"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = "terminal"
        cls.s3.create_bucket(Bucket=cls.shared)
        source = cls.home / "keys"
        for i in range(KEYS):
            path = source / f"d{i % 5}" / f"f{i:05d}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        cls.rgw.upload(source, cls.shared, "keys/")

    def setUp(self):
        super().setUp()
        self.gate = Gate(self.rgw.env["AWS_ENDPOINT_URL"])
        self.addCleanup(self.gate.close)
        self.cluster.server_env = {**self.cluster.server_env, "AWS_ENDPOINT_URL": self.gate.endpoint}
        self.start()

    def command(self, *words):
        return [PROGRAMS / "forebay", "--coordinator", self.cluster.address, *words]

    def terminal(self, *words, columns=80, **env):
        terminal = Terminal(self.command(*words), {**self.cluster.client_env, "TERM": "xterm-256color", **env}, columns=columns)
        self.addCleanup(terminal.close)
        return terminal

    def link_words(self, *options):
        return ["link", f"s3://{self.shared}/keys/", "--as", "data", *options]

    def piped(self, *words):
        return subprocess.Popen([str(word) for word in self.command(*words)], env=self.cluster.client_env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_listed(self):
        eventually(lambda: [link["state"] for link in self.cluster.json("links")["links"]] == ["ready"], "it is listed")

    def test_a_terminal_shows_one_line_of_progress_and_then_the_result(self):
        terminal = self.terminal(*self.link_words())
        text = terminal.until("listing data: 1,000 objects", "the first page")
        self.assertIn("ETA --", text)
        self.assertNotIn("\n", text)
        self.gate.open()
        self.assertEqual(terminal.end(), 0)
        # The line is taken away before the result is printed.
        self.assertRegex(terminal.text, r"\r\x1b\[Jlink 'data': 2,500 objects, [^\n]*\r\n$")

    def test_with_json_progress_is_json_lines_on_a_terminal_too(self):
        terminal = self.terminal("-o", "json", *self.link_words())
        terminal.until(lambda text: text.count("\n") >= 2, "two lines")
        self.gate.open()
        self.assertEqual(terminal.end(), 0)
        lines = [json.loads(line) for line in terminal.text.splitlines()]
        self.assertEqual(lines[-1]["state"], "ready")
        for line in lines[:-1]:
            self.assertEqual((line["progress"]["done"], line["progress"]["total"]), (1000, None), line)
            self.assertIsNone(line["progress"]["eta_seconds"])

    def test_the_line_fits_a_narrow_window_and_one_that_changes(self):
        terminal = self.terminal(*self.link_words(), columns=40)
        terminal.until("1,000 objects", "the first page")
        narrow = terminal.text
        terminal.resize(20)
        terminal.until(lambda text: len(drawn_lines(text[len(narrow):])) >= 3, "more lines")
        narrower = terminal.text[len(narrow):]
        terminal.resize(120)
        wide = len(terminal.text)
        terminal.until(lambda text: "1,000 objects" in text[wide:], "a whole line again")
        self.assertGreater(len(drawn_lines(narrow)), 0)
        for line in drawn_lines(narrow):
            self.assertLess(len(line), 40, line)
        # The first one may have been drawn before the size changed.
        for line in drawn_lines(narrower)[1:]:
            self.assertLess(len(line), 20, line)
            self.assertIn("ETA --", line)

    def test_a_pipe_and_a_dumb_terminal_get_a_line_each_ten_seconds_and_no_control_characters(self):
        process = self.piped(*self.link_words())
        terminal = self.terminal(*self.link_words(), TERM="dumb")
        line = process.stderr.readline()
        self.assertRegex(line, r"^listing data: 1,000 objects, [^\r\x1b]* ETA --\n$")
        terminal.until("listing data: 1,000 objects", "the line after ten seconds")
        self.gate.open()
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertRegex(out, r"^link 'data': 2,500 objects, [^\r\x1b]*\n$")
        self.assertEqual(terminal.end(), 0)
        nodes = self.terminal("nodes", TERM="dumb")
        self.assertEqual(nodes.end(), 0)
        for text in (terminal.text, nodes.text):
            self.assertNotIn("\x1b", text)
            self.assertNotRegex(text, r"\r(?!\n)")

    def test_ctrl_c_leaves_the_task_and_says_how_to_come_back(self):
        terminal = self.terminal(*self.link_words())
        terminal.until("1,000 objects", "the first page")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 130)
        said = CONTROL.sub("", terminal.text).splitlines()[-1]
        match = re.search(r"link 'data' goes on as task (\S+): `forebay task wait \1` comes back to it, "
                          r"`forebay task cancel \1` ends it$", said)
        self.assertTrue(match, said)
        self.assertEqual(self.cluster.json("links")["links"][0]["state"], "listing")
        self.gate.open()
        self.wait_listed()

    def test_timeout_is_exit_four_and_the_task_goes_on(self):
        result = self.cluster.cli(*self.link_words("--timeout", "2s"), check=False)
        self.assertEqual((result.returncode, result.stdout), (4, ""), result.stderr)
        self.assertRegex(result.stderr, r"not done within --timeout and goes on as task \S+; `forebay task wait ")
        self.gate.open()
        self.wait_listed()

    def test_detach_prints_the_task_and_returns(self):
        result = self.cluster.cli(*self.link_words("--detach"))
        self.assertRegex(result.stdout, r"^\S+\n$")
        self.assertEqual(result.stderr, "")
        # The same command comes back to it.
        again = self.piped(*self.link_words())
        self.assertTrue(self.gate.held.wait(60))
        self.assertIsNone(again.poll())
        self.gate.open()
        out, _ = again.communicate(timeout=60)
        self.assertEqual(again.returncode, 0)
        self.assertIn("2,500 objects", out)

    def test_colours_only_where_they_are_wanted(self):
        coloured = self.terminal("nodes")
        plain = self.terminal("nodes", NO_COLOR="1")
        self.assertEqual((coloured.end(), plain.end()), (0, 0))
        self.assertRegex(coloured.text, COLOUR)
        self.assertNotIn("\x1b", plain.text)
        self.assertNotIn("\x1b", self.cluster.cli("nodes").stdout)
        self.assertEqual(COLOUR.sub("", coloured.text), plain.text)

    def test_watch_draws_over_and_ends_on_ctrl_c(self):
        terminal = self.terminal("nodes", "--watch", "200ms")
        heading = "\x1b[Hforebay nodes, every 200ms"
        terminal.until(lambda text: COLOUR.sub("", text).count(heading) >= 3, "three drawings")
        self.assertNotIn("\x1b[2J", terminal.text)
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 130)
        self.assertIn("n1", terminal.text)

    def test_watch_outlives_a_coordinator_that_restarts(self):
        terminal = self.terminal("links", "--watch", "200ms")
        terminal.until("no links yet", "the first answer")
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        terminal.until("no coordinator answers", "that it is away")
        seen = len(terminal.text)
        self.cluster.start_coordinator()
        terminal.until(lambda text: "no links yet" in text[seen:], "it answers again")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), 130)

    def test_a_question_is_asked_at_a_terminal_alone(self):
        self.gate.open()
        self.cluster.cli(*self.link_words())
        terminal = self.terminal("release", "data")
        terminal.until("? [y/N] ", "the question")
        terminal.type("n\n")
        self.assertEqual(terminal.end(), 1)
        self.assertIn("nothing was freed", terminal.text)
        piped = self.cluster.cli("release", "data", check=False)
        self.assertEqual(piped.returncode, 2)
        self.assertIn("--yes", piped.stderr)


if __name__ == "__main__":
    main()
