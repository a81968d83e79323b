#!/usr/bin/python3
"""A training job that knows its data: reads files in random order, over and over, and compares every byte.

  verified_reader.py FOLDER FILES SEED PASSES     PASSES 0: until standard input ends

Prints one JSON object. The files are those that write() made; each is read past the page cache, so that each read is a
request to the mount."""

import json
import os
import pathlib
import random
import resource
import select
import sys
import time

FILE_BYTES = 20_000
_STEP = 911  # no two files begin alike, none is a shift of another by whole cells


def contents(files):
    """All of them, back to back; file i is a window of it."""
    return random.Random(4711).randbytes(files * _STEP + FILE_BYTES)


def window(i):
    return slice(i * _STEP, i * _STEP + FILE_BYTES)


def is_right(got, i, data):
    """Whether these are all bytes of file i. `data`: contents(). Compares without a copy: a reader that slices its data
    for each read spends more time on that than the mount on the read."""
    return len(got) == FILE_BYTES and data.startswith(got, i * _STEP)


def name_of(i):
    return f"{i % 64:02d}/{i:05d}.bin"


def write(folder, files):
    data = contents(files)
    for i in range(files):
        path = pathlib.Path(folder) / name_of(i)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[window(i)])


class Files:
    """The data set as one job reads it: most files stay open, as a loader's do, so that a read is one request to the mount
    and not four; each is opened anew from time to time."""

    READS_OF_ONE_OPENING = 8

    def __init__(self, folder, files):
        self.paths = [os.path.join(folder, name_of(i)) for i in range(files)]
        self.opened = {}  # number: (descriptor, reads left)
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def read(self, i):
        """The whole file and the seconds that it took; leaves nothing of it in the page cache."""
        begin = time.monotonic()
        file, left = self.opened.pop(i, (None, self.READS_OF_ONE_OPENING))
        if file is None:
            file = os.open(self.paths[i], os.O_RDONLY)
        try:
            data = os.pread(file, FILE_BYTES + 1, 0)
            while 0 < len(data) < FILE_BYTES:  # an error behind what could be read: it comes with the next read
                more = os.pread(file, FILE_BYTES + 1 - len(data), len(data))
                data += more
                if not more:
                    break
            seconds = time.monotonic() - begin
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            os.close(file)
            raise
        if left > 1:
            self.opened[i] = file, left - 1
        else:
            os.close(file)
        return data, seconds


    def close(self):
        for file, _ in self.opened.values():
            os.close(file)
        self.opened.clear()


class Times:
    """How long reads took, to 10 us; longer ones than a second count as that."""

    TICKS_PER_SECOND = 100_000

    def __init__(self):
        self.counts = [0] * (self.TICKS_PER_SECOND + 1)

    def add(self, seconds):
        self.counts[min(int(seconds * self.TICKS_PER_SECOND), self.TICKS_PER_SECOND)] += 1

    def p99(self):
        left = sum(self.counts) // 100
        for tick in range(self.TICKS_PER_SECOND, -1, -1):
            left -= self.counts[tick]
            if left < 0:
                return tick / self.TICKS_PER_SECOND
        return 0.0


def main(folder, files, seed, passes):
    data = contents(files)
    job = Files(folder, files)
    order = list(range(files))
    rng = random.Random(seed)
    took = Times()
    result = {"reads": 0, "errors": [], "wrong": [], "longest_seconds": 0.0}
    begin = time.monotonic()
    done = 0
    stop = False
    while not stop:
        rng.shuffle(order)
        for i in order:
            try:
                got, seconds = job.read(i)
                if not is_right(got, i, data):
                    result["wrong"].append(name_of(i))
                took.add(seconds)
                result["longest_seconds"] = max(result["longest_seconds"], seconds)
            except OSError as error:
                result["errors"].append(f"{name_of(i)}: {error}")
            result["reads"] += 1
            if not passes and result["reads"] % 16 == 0 and select.select([sys.stdin], [], [], 0)[0]:
                stop = True
                break
        done += 1
        stop = stop or done == passes
    result["seconds"] = time.monotonic() - begin
    result["p99_seconds"] = took.p99()
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
