"""A bad wire: a TCP proxy in front of a node that knows what a frame is (docs/WIRE.md), and bends some of those that
carry blocks. The program is wire_proxy.cc, which says what each fault is."""

import os
import pathlib
import subprocess

PROGRAM = pathlib.Path(os.environ.get("FOREBAY_TESTS", "")).resolve() / "wire_proxy"

# What is done to a reply with a block, or to a question for one.
DAMAGE = ("flip_head", "flip_message", "flip_payload", "twice", "cut_out", "cut_short", "reset", "delay", "flip_question",
          "question_twice")
STALLS = ("stall", "trickle")


class WireProxy:
    """Between its own address and `target`, which is set before the first connection comes."""

    def __init__(self, seed=0):
        self._process = subprocess.Popen([PROGRAM, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self._line()
        self._target = None

    @property
    def target(self):
        return self._target

    @target.setter
    def target(self, address):
        self._target = address
        self._say("target", address)

    @property
    def made(self):
        """Frames bent since the last bend()."""
        return self._say("count")[0]

    @property
    def connections(self):
        """That it has had."""
        return self._say("count")[1]

    def bend(self, fault, every, times):
        """From now on each `every`th frame with a block, `times` at most; made counts them."""
        self._say("bend", fault, every, times)

    def straighten(self):
        self._say("straighten")

    def close(self):
        self._process.stdin.close()
        code = self._process.wait(30)
        self._process.stdout.close()
        assert code == 0, f"a wire_proxy ended with {code}"

    def _say(self, *words):
        print(*words, file=self._process.stdin, flush=True)
        return [int(number) for number in self._line().split()]

    def _line(self):
        line = self._process.stdout.readline()
        assert line, "a wire_proxy has ended"
        return line.strip()
