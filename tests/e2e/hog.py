#!/usr/bin/python3
"""A training process that wants everything of its machine, and its loader. Each counts what it gets done.

  hog.py burn COUNTER              hashes, on whatever CPU it gets: MiB
  hog.py stream COUNTER            copies memory, far more than caches hold: MiB
  hog.py read COUNTER FOLDER N     N threads read the files of a folder, over and over, a MiB at a time: MiB

until standard input ends. COUNTER is a file of 8 bytes."""

import hashlib
import mmap
import os
import pathlib
import random
import struct
import subprocess
import sys
import threading

MIB = 1 << 20
STREAMED = 64 * MIB


def burn(count):
    block = bytes(MIB)
    while True:
        hashlib.sha256(block).digest()
        count(1)


def stream(count):
    source, target = memoryview(bytearray(STREAMED)), memoryview(bytearray(STREAMED))
    while True:
        target[:] = source
        count(STREAMED // MIB)


def read(count, folder, threads):
    paths = [path for path in pathlib.Path(folder).iterdir() if path.is_file()]

    def go_on(seed):
        rng, buffer = random.Random(seed), mmap.mmap(-1, MIB)
        while True:
            fd = os.open(rng.choice(paths), os.O_RDONLY)
            at = 0
            while got := os.preadv(fd, [buffer], at):
                at += got
                count(got / MIB)
            os.close(fd)

    for seed in range(int(threads)):
        threading.Thread(target=go_on, args=(seed,), daemon=True).start()


def run(what, counter, *arguments):
    shown, lock, done = mmap.mmap(os.open(counter, os.O_RDWR), 8), threading.Lock(), 0.0

    def count(more):
        nonlocal done
        with lock:
            done += more
            shown[:] = struct.pack("<d", done)

    threading.Thread(target={"burn": burn, "stream": stream, "read": read}[what], args=(count, *arguments), daemon=True).start()
    sys.stdin.read()
    os._exit(0)  # its threads never end


class Hog:
    """One of them, from the outside."""

    def __init__(self, what, counter, *arguments):
        self.counter = pathlib.Path(counter)
        self.counter.write_bytes(bytes(8))
        self.process = subprocess.Popen([sys.executable, "-B", __file__, what, str(counter), *map(str, arguments)],
                                        stdin=subprocess.PIPE)

    def done(self):
        return struct.unpack("<d", self.counter.read_bytes())[0]

    def send(self, number):
        self.process.send_signal(number)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


if __name__ == "__main__":
    run(*sys.argv[1:])
