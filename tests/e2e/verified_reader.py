#!/usr/bin/python3
"""A training job that knows its data: reads files in random order, over and over, and compares every byte.

  verified_reader.py FOLDER FILES SEED PASSES     PASSES 0: until standard input ends

Prints one JSON object. The files are those that write() made; each is read past the page cache, so that each read is a
request to the mount."""

import json
import os
import pathlib
import random
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


def name_of(i):
    return f"{i % 64:02d}/{i:05d}.bin"


def write(folder, files):
    data = contents(files)
    for i in range(files):
        path = pathlib.Path(folder) / name_of(i)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[window(i)])


def read_once(path):
    """The whole file and the seconds that it took; leaves nothing of it in the page cache."""
    begin = time.monotonic()
    file = os.open(path, os.O_RDONLY)
    try:
        data = os.pread(file, FILE_BYTES + 1, 0)
        seconds = time.monotonic() - begin
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
    return data, seconds


def main(folder, files, seed, passes):
    data = memoryview(contents(files))
    paths = [os.path.join(folder, name_of(i)) for i in range(files)]
    order = list(range(files))
    rng = random.Random(seed)
    result = {"reads": 0, "errors": [], "wrong": [], "longest_seconds": 0.0}
    begin = time.monotonic()
    done = 0
    stop = False
    while not stop:
        rng.shuffle(order)
        for i in order:
            try:
                got, seconds = read_once(paths[i])
                if got != data[window(i)]:
                    result["wrong"].append(name_of(i))
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
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
