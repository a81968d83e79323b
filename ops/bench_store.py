"""`ops/bench store`: what a node's store does on this disk, beside files and one raw file, and what a block takes."""

import json
import statistics
import subprocess

from bench_hold import at_least, at_most, exactly
from local_cluster import ClusterError

# Bytes of an object, and how many of them: 40 to 400 MB each.
SIZES = ((5_000, 8_000), (40_000, 5_000), (4_194_304, 100))
OBJECT_SIZES = ((500, 4_000), (5_000, 4_000), (40_000, 4_000), (1_000_000, 200), (4_194_304, 50), (110_000_000, 3))
SECONDS = 1_800
KEYS = ("write", "durable", "warm", "cold")
RATIOS = (("write_s", "taken", "files", 2.0), ("durable_s", "durable", "files", 2.0), ("durable_s", "durable", "raw", 0.8),
          ("warm_s", "read warm", "files", 2.0), ("cold_s", "read cold", "files", 2.0))
SMALL = 1 << 20
MOST_MEMORY = 100  # bytes of memory for each cached block


class StoreBench:
    """Runs store_bench; `scale` is the part of the usual numbers, for a test."""

    def __init__(self, programs, folder, rounds, scale):
        self.program, self.folder, self.rounds, self.scale = programs / "store_bench", folder, rounds, scale

    def ask(self, section, **options):
        words = [str(self.program), "--folder", str(self.folder), section]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        result = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        if result.returncode:
            raise ClusterError(f"store_bench {section} ended with {result.returncode}: {result.stderr.strip()}")
        return json.loads(result.stdout)

    def many(self, number):
        return max(1, int(number * self.scale))

    def run(self, step):
        measured = {}
        with step("store: admitting and reading, beside files and one raw file"):
            measured["rates"] = [self.ask("rates", length=length, objects=self.many(objects), rounds=self.rounds)
                                 for length, objects in SIZES]
        with step("store: what an object takes on the disk"):
            measured["space"] = [self.ask("space", object_bytes=size, objects=self.many(objects))
                                 for size, objects in OBJECT_SIZES]
            measured["churn"] = self.ask("churn", bytes=self.many(256 << 20))
        with step("store: ten million blocks in memory"):
            measured["memory"] = [self.ask("memory", blocks=self.many(blocks), jobs=jobs)
                                  for blocks, jobs in ((10_000_000, 1), (1_000_000, 8))]
        with step("store: a million blocks, and a start after them"):
            measured["recovery"] = self.ask("recovery", blocks=self.many(1_000_000))
        measured["to_hold"] = list(to_hold(measured))
        return measured


def median_of(rates, subject, key):
    return statistics.median(run[key] for run in rates["runs"] if run["subject"] == subject)


def ratio(rates, key, reference):
    """How much faster the store was than `reference` in the same round; the median over the rounds."""
    seconds = {(run["subject"], run["round"]): run[key] for run in rates["runs"]}
    return statistics.median(seconds[reference, number] / taken for (subject, number), taken in seconds.items()
                             if subject == "store")


def checksum_share(rates, key):
    """Of the CPU time of admitting (its caller takes the checksums), or of reading."""
    cpu = median_of(rates, "store", key)
    return rates["checksum_cpu_s"] / (cpu + (rates["checksum_cpu_s"] if key == "write_cpu_s" else 0))


def to_hold(measured):
    def percent(value):
        return f"{value:.1%}"

    for rates in measured["rates"]:
        size = size_text(rates["length"])
        for key, title, reference, least in RATIOS:
            if reference == "files" and rates["length"] > SMALL:
                continue  # one file for 4 MiB costs nothing: the disk itself is the measure
            yield at_least("store", f"{size} objects/s, {title}, against {reference}", ratio(rates, key, reference), least,
                           figure=11 if reference == "raw" else None)
        for key, title in (("write_cpu_s", "admitting"), ("warm_cpu_s", "reading, warm"), ("cold_cpu_s", "reading, cold")):
            yield at_most("store", f"{size} checksums, of the CPU time of {title}", checksum_share(rates, key), 0.03, percent, figure=11)
    for space in measured["space"]:
        yield exactly("store", f"{size_text(space['object_bytes'])} bytes on disk as the format says", space["counted_bytes"],
                      space["record_bytes"])
    for memory in measured["memory"]:
        says = (memory["index_says_bytes"] + memory["history_says_bytes"]) / memory["blocks"] + 8
        large = memory["blocks"] >= 100_000  # a table's first pages are not worth dividing
        resident = (memory["index_bytes"] + memory["history_bytes"]) / memory["blocks"]
        for what, found, decides in (("as counted", says, large), ("resident", resident, False)):
            yield at_most("store", f"{memory['blocks']:,} blocks, {memory['jobs']} jobs: bytes of memory a block, {what}", found,
                          MOST_MEMORY, lambda value: f"{value:.1f}", decides)
    recovery = measured["recovery"]
    millions = recovery["blocks"] / 1_000_000
    yield at_most("store", f"start with {recovery['blocks']:,} blocks, s", recovery["by_index_s"], 2 * millions)
    yield at_most("store", f"start with {recovery['blocks']:,} blocks and no index, s", recovery["by_headers_s"], 50 * millions)


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1_000_000, "MB"), (1_000, "KB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def print_tables(measured, say):
    for rates in measured["rates"]:
        print_rates(rates, say)
    say("\nan object takes                                blocks  disk bytes  overhead  index bytes  written/admitted")
    for space in measured["space"]:
        objects, size = space["objects"], space["object_bytes"]
        say(f"{size_text(size):>14}{'':30}{space['blocks'] / objects:>8.0f}{space['allocated_bytes'] / objects:>12,.0f}"
            f"{space['allocated_bytes'] / objects / size - 1:>10.1%}{space['index_bytes'] / objects:>13.1f}"
            f"{space['written_bytes'] / objects / size:>18.3f}")
    churn = measured["churn"]
    say(f"\nof {churn['admitted_bytes'] / 1e6:,.0f} MB in blocks of {size_text(churn['length'])} every other was evicted: "
        f"{churn['evicted_blocks'] / churn['evict_s']:,.0f} holes/s; of what was freed "
        f"{freed_share(churn):.1%} came back; written {churn['written_bytes'] / churn['admitted_bytes']:.3f} bytes for each admitted")
    for memory in measured["memory"]:
        blocks = memory["blocks"]
        say(f"memory of {blocks:,} blocks, {memory['jobs']} jobs have read all: {memory['index_bytes'] / blocks:.1f} bytes a block of "
            f"index, {memory['history_bytes'] / blocks:.1f} of history, {(memory['index_bytes'] + memory['history_bytes']) / 2**20:,.0f} MiB; "
            f"a lookup {memory['lookup_ns_1']:.0f} ns, {memory['lookup_ns_2']:.0f} ns in each of two threads")
    recovery = measured["recovery"]
    say(f"{recovery['blocks']:,} blocks: filled in {recovery['fill_s']:.1f} s, open after {recovery['by_index_s']:.2f} s, without an index "
        f"after {recovery['by_headers_s']:.2f} s")


def freed_share(churn):
    return (churn["full_bytes"] - churn["left_allocated_bytes"]) / (churn["full_bytes"] - churn["left_bytes"])


def print_rates(rates, say):
    objects = rates["objects"]
    say(f"\nstore: {objects:,} objects of {size_text(rates['length'])}, {rates['threads']} threads")
    say(f"{'objects/s':12}" + "".join(f"{title:>12}" for title in ("taken", "durable", "read warm", "read cold"))
        + f"{'GB/s':>8}{'CPU us:':>9}{'admit':>8}{'warm':>8}{'cold':>8}{'x files':>9}{'x raw':>8}   (durable)")
    for subject in ("store", "files", "raw"):
        seconds = {key: median_of(rates, subject, f"{key}_s") for key in KEYS}
        against = "".join(f"{ratio(rates, 'durable_s', other):>{width}.2f}" if subject == "store" else f"{'':>{width}}"
                          for other, width in (("files", 9), ("raw", 8)))
        say(f"{subject:12}" + "".join(f"{objects / seconds[key]:>12,.0f}" for key in KEYS)
            + f"{objects * rates['length'] / seconds['durable'] / 1e9:>8.2f}{'':>9}"
            + "".join(f"{median_of(rates, subject, key) / objects * 1e6:>8.1f}"
                      for key in ("write_cpu_s", "warm_cpu_s", "cold_cpu_s")) + against)
    say(f"checksums: {rates['checksum_cpu_s'] / objects * 1e6:.2f} us an object, {checksum_share(rates, 'write_cpu_s'):.1%} of "
        f"admitting, {checksum_share(rates, 'warm_cpu_s'):.1%} of reading warm, {checksum_share(rates, 'cold_cpu_s'):.1%} cold")
