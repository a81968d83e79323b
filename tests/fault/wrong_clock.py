"""Machines of a NetFaultTest with clocks of their own, which the test sets while programs run on them."""

import sys

import netns
import net_cluster  # noqa: F401  # it knows where the next one is
from shifted_clock import LIBRARY, ShiftedClock

HOUR = 3600
DAY = 24 * HOUR


class WrongClocks:
    """Beside NetFaultTest."""

    def setUp(self):
        super().setUp()
        self.clocks = {}

    def give_clock(self, name):
        """Programs that are started on this machine from now on have the clock of set_clock()."""
        self.clocks[name] = ShiftedClock(self.folder / f"{name}.clock")
        own = self.clocks[name].env
        before = self.cluster.env_of
        self.cluster.env_of = lambda machine, server=True: {**before(machine, server), **(own if machine == name else {})}

    def set_clock(self, name, seconds):
        self.clocks[name].set(seconds)


def skip_if_missing():
    if not LIBRARY.exists():
        print(f"skipped: there is no {LIBRARY}", file=sys.stderr)
        sys.exit(netns.SKIPPED)
    netns.skip_if_missing()
