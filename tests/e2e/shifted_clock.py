"""A clock that the test sets while programs with it run."""

import os
import pathlib
import struct

LIBRARY = pathlib.Path(os.environ.get("FOREBAY_TESTS", "build/release/tests")).resolve() / "shifted_clock.so"


class ShiftedClock:
    """The file at `path` is the clock; programs that are started with `env` have it."""

    def __init__(self, path):
        self.path = path
        self.set(0)

    @property
    def env(self):
        return {"LD_PRELOAD": str(LIBRARY), "FOREBAY_SHIFTED_CLOCK": str(self.path)}

    def set(self, seconds):
        """So many seconds ahead of the right time, at once."""
        # In place: programs have mapped it.
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))
