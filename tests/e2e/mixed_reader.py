#!/usr/bin/python3
"""Programs of every kind at once over one mount, which compare every byte and go on whatever happens to the mount.

  mixed_reader.py FOLDER SMALL LARGE SEED COUNTER     until standard input ends

SMALL and LARGE are how many files write() made of each kind. COUNTER is a file of 8 bytes: how much was done so far. Prints
one JSON object."""

import json
import mmap
import os
import pathlib
import random
import struct
import sys
import threading
import time

SMALL_BYTES = 30_000
LARGE_BYTES = 9 * 1024 * 1024 + 4321
_STEP = 911  # no two files begin alike, none is a shift of another by whole cells
_WINDOW = 200_000
WAIT_SECONDS = 0.02  # what takes longer is a wait that is told of


def contents(small, large):
    return random.Random(815).randbytes((small + large) * _STEP + LARGE_BYTES)


def small_name(i):
    return f"d{i % 8}/s{i:04d}.bin"


def large_name(i):
    return f"large/l{i}.bin"


def objects(small, large):
    """{key: bytes}"""
    data = contents(small, large)
    files = {small_name(i): data[i * _STEP:i * _STEP + SMALL_BYTES] for i in range(small)}
    files.update({large_name(i): data[(small + i) * _STEP:(small + i) * _STEP + LARGE_BYTES] for i in range(large)})
    return files


class Readers:
    def __init__(self, folder, small, large, seed, counter):
        self.folder, self.small, self.large, self.seed = folder, small, large, seed
        self.files = objects(small, large)
        self.counter = mmap.mmap(os.open(counter, os.O_RDWR), 8)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.done = {}
        self.wrong, self.errors = [], []
        self.longest = 0.0
        self.waits = []  # [when it ended by the monotonic clock, seconds]

    def path(self, name):
        return os.path.join(self.folder, name)

    def random_small(self, rng):
        name = small_name(rng.randrange(self.small))
        file = os.open(self.path(name), os.O_RDONLY)
        try:
            got = os.pread(file, SMALL_BYTES + 1, 0)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
        return name if got != self.files[name] else None

    def mapped(self, rng):
        name = large_name(rng.randrange(self.large))
        place = rng.randrange(LARGE_BYTES - _WINDOW)
        with open(self.path(name), "rb") as file:
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping:
                got = mapping[place:place + _WINDOW]
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return name if got != self.files[name][place:place + _WINDOW] else None

    def whole_large(self, rng):
        name = large_name(rng.randrange(self.large))
        with open(self.path(name), "rb", buffering=0) as file:
            got = bytearray()
            while part := file.read(1 << 20):
                got += part
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return name if got != self.files[name] else None

    def walk(self, _):
        found = set()
        for parent, _, names in os.walk(self.folder, onerror=self.raise_it):
            found.update(os.path.relpath(os.path.join(parent, name), self.folder) for name in names)
        return "the tree" if found != set(self.files) else None

    @staticmethod
    def raise_it(error):
        raise error

    def metadata(self, rng):
        """What the kernel never answers from its memory."""
        name = small_name(rng.randrange(self.small))
        key = os.getxattr(self.path(name), "user.forebay.key")
        free = os.statvfs(self.folder).f_bfree
        size = os.stat(self.path(name)).st_size
        return name if not key.decode().endswith(name) or free != 0 or size != SMALL_BYTES else None

    def run(self, what, seed):
        rng = random.Random(seed)
        while not self.stop.is_set():
            begin = time.monotonic()
            wrong = error = None
            try:
                wrong = what(rng)
            except (OSError, ValueError) as caught:
                error = f"{what.__name__}: {caught}"
            seconds = time.monotonic() - begin
            with self.lock:
                self.done[what.__name__] = self.done.get(what.__name__, 0) + 1
                self.longest = max(self.longest, seconds)
                if seconds > WAIT_SECONDS:
                    self.waits.append((begin + seconds, seconds))
                if wrong:
                    self.wrong.append(f"{what.__name__}: {wrong}")
                if error:
                    self.errors.append(error)
                self.counter[:] = struct.pack("<Q", sum(self.done.values()))

    def __call__(self):
        kinds = [self.random_small, self.random_small, self.random_small, self.mapped, self.whole_large, self.walk,
                 self.metadata]
        threads = [threading.Thread(target=self.run, args=(kind, self.seed * 100 + i)) for i, kind in enumerate(kinds)]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        self.stop.set()
        for thread in threads:
            thread.join()
        print(json.dumps({"done": self.done, "wrong": self.wrong[:20], "errors": self.errors[:20],
                          "longest_seconds": self.longest, "waits": self.waits}))


class Load:
    """A mixed_reader.py, from the outside."""

    def __init__(self, start, folder, small, large, counter):
        counter = pathlib.Path(counter)
        counter.write_bytes(bytes(8))
        self.counter = counter
        self.process = start([sys.executable, "-B", __file__, str(folder), str(small), str(large), "7", str(counter)])

    def done(self):
        return struct.unpack("<Q", self.counter.read_bytes())[0]

    def finish(self):
        """Answers what it printed."""
        output, _ = self.process.communicate(timeout=120)
        return json.loads(output)


if __name__ == "__main__":
    Readers(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5])()
