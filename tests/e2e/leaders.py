"""Tests of several coordinators: who of them leads, and how soon another one does."""

import sys
import time

from e2e import eventually
from mount_state import state_of
from verified_load import held

TAKEOVER_SECONDS = 5
LONGEST_SECONDS = held(TAKEOVER_SECONDS, 30)


class Leaders:
    """Part of a VerifiedTest whose cluster has `coordinators`."""

    def is_leader(self, name):
        daemon = self.cluster.coordinators[name]
        if not daemon.running() or state_of(daemon.pid) == "T":
            return False
        return daemon.metrics().get(("forebay_coordinator_is_leader", "")) == 1  # between two roles it has none

    def leaders(self):
        return [name for name in self.cluster.coordinators if self.is_leader(name)]

    def leader(self, other_than=None, seconds=60):
        found = eventually(lambda: [name for name in self.leaders() if name != other_than], "somebody leads", seconds)
        self.assertEqual(len(found), 1)
        return found[0]

    def copied(self, name, generations=1):
        """The coordinator's file of the only link's generation, once it is there."""
        files = lambda: list((self.folder / name / "snapshots").glob(f"*/{generations}.fbs"))  # noqa: E731
        return eventually(files, f"{name} has copied generation {generations}")

    def admin_answers_after(self, begun, what, **where):
        """Repeats a verb until it succeeds; prints the time since `begun`."""
        while True:
            result = self.cluster.cli("links", check=False, **where)
            took = time.monotonic() - begun
            if result.returncode == 0:
                break
            self.assertLess(took, LONGEST_SECONDS, result.stderr)
        print(f"\n    {what}: administrators are answered again after {took:.2f} s (promise {TAKEOVER_SECONDS} s)",
              file=sys.stderr)
        self.assertIn("data", result.stdout)
