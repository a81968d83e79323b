"""Machines of a NetFaultTest with clocks of their own, which the test sets while programs run on them."""

import os
import pathlib
import struct
import sys

import netns

LIBRARY = pathlib.Path(os.environ.get("FOREBAY_TESTS", "")).resolve() / "shifted_clock.so"
HOUR = 3600
DAY = 24 * HOUR


class WrongClocks:
    """Beside NetFaultTest."""

    def setUp(self):
        super().setUp()
        self.clocks = {}

    def give_clock(self, name):
        """Programs that are started on this machine from now on have the clock of set_clock()."""
        self.clocks[name] = self.folder / f"{name}.clock"
        self.set_clock(name, 0)
        own = {"LD_PRELOAD": str(LIBRARY), "FOREBAY_SHIFTED_CLOCK": str(self.clocks[name])}
        before = self.cluster.env_of
        self.cluster.env_of = lambda machine, server=True: {**before(machine, server), **(own if machine == name else {})}

    def set_clock(self, name, seconds):
        """So many seconds ahead of the right time, at once."""
        with open(self.clocks[name], "r+b" if self.clocks[name].exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))


def skip_if_missing():
    if not LIBRARY.exists():
        print(f"skipped: there is no {LIBRARY}", file=sys.stderr)
        sys.exit(netns.SKIPPED)
    netns.skip_if_missing()
