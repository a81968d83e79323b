"""ops/bench bandwidth: what N nodes give together whose network is bounded, beside N times the bound."""

import os
import random
import statistics
import threading
import time

import bench_hold
from bench_cluster import BenchCluster
from local_cluster import ClusterError, Rgw, drop_page_cache, step

NODES = (1, 2, 3)
BOUND = 16 << 20  # bytes a second of each node (--max-bandwidth)
FILE_BYTES, FILES = 512 << 10, 600  # whole cells: a node counts what it sends
READERS_OF_NODE = 32  # with a quarter of them all wait at one node for a while, and the others have nothing to do
SETTLE_SECONDS, WINDOW_SECONDS = 4, 12
WANTED = 0.97


class Readers:
    """Read whole files at random, past the page cache, until they are stopped; `bytes` is what they have so far."""

    def __init__(self, folder, count):
        self.folder, self.bytes, self.failed, self.stopping = folder, [0] * count, [], threading.Event()
        self.threads = [threading.Thread(target=self._read, args=(number,)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def _read(self, number):
        choose = random.Random(number)
        own = range(number, FILES, len(self.bytes))  # what another reads just now would be in the page cache
        while not self.stopping.is_set():
            try:
                file = os.open(self.folder / name_of(choose.choice(own)), os.O_RDONLY)
                try:
                    while part := os.read(file, 128 << 10):
                        self.bytes[number] += len(part)
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(file)
            except OSError as error:
                self.failed.append(str(error))
                return

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        if self.failed:
            raise ClusterError(f"a read failed: {self.failed[0]}")


def name_of(number):
    return f"{number:04d}.bin"


class BandwidthBench:
    def __init__(self, options, programs, folder, out):
        self.options, self.programs, self.folder, self.out = options, programs, folder, out
        self.figures = {"bound_bytes_per_second": BOUND, "rounds": options.rounds, "rates": {str(nodes): [] for nodes in NODES}}

    def run(self):
        source = self.folder / "source"
        source.mkdir()
        for number in range(FILES):
            (source / name_of(number)).write_bytes(random.Random(number).randbytes(FILE_BYTES))
        self.rgw = Rgw(self.folder / "rgw").start()
        try:
            self.rgw.upload(source, "bandwidth")
            for nodes in NODES:
                with step(f"bandwidth: {nodes} nodes of {BOUND >> 20} MiB/s", self.out):
                    self._measure(nodes)
        finally:
            self.rgw.stop()
        return {**self.figures, "to_hold": list(to_hold(self.figures))}

    def _measure(self, nodes):
        cluster = BenchCluster(self.folder / f"c{nodes}", self.programs, self.rgw.env)
        try:
            cluster.start_coordinator()
            for number in range(nodes):
                cluster.start_node(f"n{number}", "2GiB", "--max-bandwidth", f"{BOUND >> 20}MiB")
            cluster.cli("link", "s3://bandwidth/", "--as", "data", "--no-background-fill")
            cluster.cli("preload", "data")
            mount = cluster.mount("data", "m", "--mode", "small")
            for _ in range(self.options.rounds):
                drop_page_cache()
                readers = Readers(mount, READERS_OF_NODE * nodes)
                try:
                    time.sleep(SETTLE_SECONDS)
                    begin, before = time.monotonic(), sum(readers.bytes)
                    time.sleep(WINDOW_SECONDS)
                    taken, seconds = sum(readers.bytes) - before, time.monotonic() - begin
                finally:
                    readers.stop()
                self.figures["rates"][str(nodes)].append(taken / seconds)
        finally:
            cluster.stop()


def share(figures, nodes):
    return statistics.median(figures["rates"][str(nodes)]) / (nodes * figures["bound_bytes_per_second"])


def to_hold(figures):
    """Times decide nothing: of a busy machine they say little."""
    for nodes in NODES:
        yield bench_hold.at_least("bandwidth", f"{nodes} nodes of {BOUND >> 20} MiB/s, of {nodes} times that", share(figures, nodes),
                                  WANTED, lambda value: f"{value:.3f}x", figure=10)


def print_tables(figures, say):
    say(f"\nreading past the page cache from nodes with --max-bandwidth {BOUND >> 20}MiB")
    say(f"{'nodes':>6}{'MiB/s':>10}{'of N x B':>10}")
    for nodes in NODES:
        rate = statistics.median(figures["rates"][str(nodes)])
        say(f"{nodes:>6}{rate / 2**20:>10.1f}{share(figures, nodes):>10.3f}")
