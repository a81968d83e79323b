"""What ops/bench says about its runs: medians, ratios, and what must hold."""

import datetime
import statistics

import bench_bandwidth
import bench_cluster
import bench_cold
import bench_epochs
import bench_eviction
import bench_hold
import bench_machine
import bench_namespace
import bench_preload
import bench_store
import bench_subjects
from bench_hold import at_least, at_most, exactly

MOST_GETS_OF_PIECES = 2
MOST_CHECKSUMS = 0.03  # of the CPU time of a warm read
# The figures to reach, all at the greatest number of readers. Figure, workload, subject, reference, least ratio of files/s.
RATIOS = (
    (None, "small", "forebay_dropped", "s3fs_warm_dropped", 5),
    (None, "small", "forebay_hot", "s3fs_warm_allowed", 5),
    (1, "small", "forebay_new_mount", "native_cold", 1.5),
    (1, "small", "forebay_new_mount", "native_hot", 0.17),
    (1, "small", "forebay_new_mount", "geesefs_warm_dropped", 1.5),
    (1, "small", "forebay_new_mount", "juicefs_warm_dropped", 4),
    (1, "small", "forebay_new_mount", "mount-s3_warm_dropped", 6),
    (1, "small", "forebay_new_mount", "rclone_warm_dropped", 8),
    (1, "small", "forebay_new_mount", "s3fs_warm_dropped", 14),
    (2, "small", "forebay_hot", "native_hot", 0.70),
    (2, "small", "forebay_hot", "juicefs_warm_allowed", 3.5),
    *((4, name, *figure) for name in ("shards", "big") for figure in (
        ("forebay_large_local", "native_hot", 0.45), ("forebay_local_copy", "native_hot", 0.98))),
)
# Figure, workload, subject, most CPU seconds per GB of reader and daemons together.
CPU_PER_GB = (
    (6, "small", "forebay_new_mount", 1.4),
    (6, "small", "forebay_local", 0.9),
    (6, "small", "forebay_tls_new_mount", 2.6),
    *((figure, name, key, most) for name in ("shards", "big") for figure, key, most in (
        (5, "forebay_large", 0.55), (4, "forebay_large_local", 0.13), (5, "forebay_tls_large", 2.6))),
)
# Whole shards out of the nodes' memory, of what loopback TCP carries with as many connections as there are readers.
SHARES_OF_TCP = (("forebay_large", 0.85), ("forebay_tls_large", 0.25))
BLOCK = 4 << 20
# Of a byte that is read: how often its checksum is taken.
CHECKSUM_TIMES = {"new_mount": 2, "by_socket": 2, "large": 2, "no_fuse": 2, "local": 1, "large_local": 1, "local_no_fuse": 1}
# Warm reads whose bytes are checked against their checksums.
CHECKED = ("forebay_new_mount", "forebay_local", "forebay_large", "forebay_large_local")


def document(workloads, cold, training, folder, without=(), apart=None):
    """`apart`: {part: figures} of what has a cluster of its own."""
    apart = apart or {}
    for workload in workloads:
        workload["layers"] = layers(workload)
        workload["medians"] = [medians(workload, subject, readers) for subject in workload["subjects"]
                               for readers in workload["readers"] if runs_of(workload, subject["key"], readers)]
    lines = [*(line for workload in workloads for line in to_hold(workload)), *(bench_cold.to_hold(cold) if cold else []),
             *(line for part in training for line in bench_epochs.to_hold(part)), *(line for figures in apart.values() for line in figures.pop("to_hold"))]
    return {"schema_version": 2, "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "machine": bench_machine.machine(folder), "versions": bench_machine.versions(), "workloads": workloads, "cold": cold,
            "training": training, **apart, "without": list(without), "to_hold": lines}


def alone_document(what, measured, folder):
    """Of a part without a cluster."""
    lines = measured.pop("to_hold")
    return {**document([], None, [], folder), "versions": {}, what: measured, "to_hold": lines}


def runs_of(workload, key, readers):
    """By round."""
    return {run["round"]: run for run in workload["runs"] if run["subject"] == key and run["readers"] == readers}


def visits_of(workload, key):
    return [visit for visit in workload["visits"] if visit["subject"] == key]


def messages(run):
    return sum(count for op, count in run["fuse_ops"].items() if op not in bench_subjects.NOT_OF_READING)


def ratio(workload, key, reference, readers):
    """The median over the rounds of files/s against those of `reference` in the same round; None without both."""
    ours, others = runs_of(workload, key, readers), runs_of(workload, reference, readers)
    ratios = [run["files_per_second"] / others[number]["files_per_second"] for number, run in ours.items()
              if number in others and others[number]["files_per_second"] > 0]
    return statistics.median(ratios) if ratios else None


def medians(workload, subject, readers):
    runs = list(runs_of(workload, subject["key"], readers).values())

    def median(value):
        return statistics.median(value(run) for run in runs)

    operations = sorted({op for run in runs for op in run["fuse_ops"]})
    return {"subject": subject["key"], "readers": readers,
            "files_per_second": median(lambda run: run["files_per_second"]),
            "gb_per_second": median(lambda run: run["gb_per_second"]),
            "cpu_seconds_per_gb": median(cpu_per_gb),
            "fuse_per_file": {op: median(lambda run, op=op: run["fuse_ops"].get(op, 0)) / workload["reads"]
                              for op in operations},
            "messages_per_file": median(messages) / workload["reads"],
            "messages_per_file_of_walk": median(lambda run: sum(run["fuse_ops_of_walk"].values())) / workload["files"],
            # Without FUSE there is nothing to walk.
            "files_walked_per_second": None if subject["forebay"] and not subject["mounted"] else median(
                lambda run: workload["files"] / run["walk_seconds"]),
            "gets_per_block": statistics.median(
                visit["gets"] for visit in visits_of(workload, subject["key"])) / workload["blocks"],
            "heads_per_file": statistics.median(
                visit["heads"] / visit["reads"] for visit in visits_of(workload, subject["key"])) / workload["files"],
            "s3_bytes_per_byte": statistics.median(
                visit["get_bytes"] / visit["reads"] for visit in visits_of(workload, subject["key"]))
                / statistics.median(run["bytes"] for run in runs),
            "against": {reference: ratio(workload, subject["key"], reference, readers)
                        for reference in ("native_hot", "native_cold", subject["peer"])}}


def cpu_per_gb(run):
    return (run["cpu_seconds_of_reader"] + run["cpu_seconds_of_daemons"]) / max(run["bytes"] / 1e9, 1e-9)


def to_hold(workload):
    yield from counts(workload)
    name, readers = workload["name"], workload["readers"][-1]

    for number, of, key, reference, least in RATIOS:
        # Without a mount of local copies (an older kernel) or TLS the line says that it is not measured.
        if of == name:
            yield at_least(name, f"files/s of {spoken(key)} against {spoken(reference)}, {readers} readers",
                           ratio(workload, key, reference, readers), least, figure=number)
    for key, least in SHARES_OF_TCP:
        runs = runs_of(workload, key, readers)
        if workload["raw_tcp_gb_per_second"]:
            share = statistics.median(runs[number]["gb_per_second"] / raw for number, raw in enumerate(
                workload["raw_tcp_gb_per_second"], 1)) if runs else None
            yield at_least(name, f"GB/s of {spoken(key)} against raw loopback TCP, {readers} readers", share, least, figure=5)
    for number, of, key, most in CPU_PER_GB:
        if of == name:
            runs = runs_of(workload, key, readers).values()
            yield at_most(name, f"CPU s/GB of {spoken(key)}, {readers} readers",
                          statistics.median(map(cpu_per_gb, runs)) if runs else None, most, figure=number)
    for row in workload["layers"]:
        if row["subject"] in CHECKED:
            yield at_most(name, f"checksums, of the CPU time of {spoken(row['subject'])}, {readers} readers", row["checksums"],
                          MOST_CHECKSUMS, lambda value: f"{value:.1%}", figure=11)


def spoken(key):
    return key.replace("_", " ")


def layers(workload):
    """What reader, daemons and checksums take of each warm read of Forebay's, as parts of its CPU time. The checksums are what
    they cost one core by themselves, twice for what a node sends (it looks at them, and so does the mount: adr/0023), once for
    what a mount reads out of a node's files. TLS is what a row over it takes beyond the same row without, for each GB."""
    checksum = workload.get("checksum_seconds_per_byte")
    found = []
    for subject in workload["subjects"]:
        runs = list(runs_of(workload, subject["key"], workload["readers"][-1]).values())
        if not subject["forebay"] or subject["cold"] or not runs:
            continue

        def part(value, runs=runs):
            return statistics.median(value(run) / max(run["cpu_seconds_of_reader"] + run["cpu_seconds_of_daemons"], 1e-9)
                                     for run in runs)

        plain = runs_of(workload, subject["key"].replace("forebay_tls_", "forebay_"), workload["readers"][-1])
        tls = [1 - cpu_per_gb(plain[run["round"]]) / max(cpu_per_gb(run), 1e-9) for run in runs
               if subject["key"].startswith("forebay_tls_") and run["round"] in plain]
        times = CHECKSUM_TIMES.get(subject["key"].removeprefix("forebay_").removeprefix("tls_").removesuffix("_aligned"))
        found.append({"subject": subject["key"], "title": subject["title"],
                      "reader": part(lambda run: run["cpu_seconds_of_reader"]),
                      "daemons": part(lambda run: run["cpu_seconds_of_daemons"]),
                      "tls": statistics.median(tls) if tls else None,
                      "checksums": None if times is None or checksum is None
                      else part(lambda run, times=times: times * checksum * run["bytes"])})
    return found


def counts(workload):
    """What is exact whatever the machine's speed and whoever else works on it."""
    name = workload["name"]
    ours = [subject for subject in workload["subjects"] if subject["forebay"]]
    if name.startswith("small"):
        yield from messages_of(workload, [subject for subject in ours if subject["mounted"]])
    yield from gets_of(workload, ours)
    yield exactly(name, "reads that failed or had wrong bytes", len(workload["failed"]), 0)


def messages_of(workload, mounted):
    """Figures 2 and 3."""
    name = workload["name"]
    runs = [run for subject in mounted for readers in workload["readers"]
            for run in runs_of(workload, subject["key"], readers).values()]
    # Each reader may open a file, and close it, before the kernel has learnt that nobody wants to know.
    most = max(messages(run) - workload["files"] - 2 * run["readers"] for run in runs)
    yield exactly(name, "FUSE messages after a walk beyond 1 a file and 2 a reader, of any run", max(0, most), 0, figure=3)
    reads = max(run["fuse_ops"].get("read", 0) for run in runs)
    # Seen once in a million files: one READ more. Three digits are what is wanted.
    yield at_most(name, "READs a file, of any run", round(reads / workload["files"], 3), 1, three_digits, True, 3)
    lookups = max(run["fuse_ops"].get("lookup", 0) for run in runs)
    yield exactly(name, "LOOKUPs after a walk, of any run", lookups, 0, figure=3)
    if pil := workload["pil"]:
        yield at_most(name, "READs a file that is read as PIL does", pil["reads"] / pil["files"], 1, three_digits, True, 3)
    hot = [run for run in runs if run["subject"] == "forebay_hot"]
    yield exactly(name, "FUSE messages a file, page cache warm, of any run",
                  max(map(messages, hot)) / workload["files"] if hot else 0, 0, text=three_digits, figure=2)


def gets_of(workload, ours):
    """Of figure 7 what needs no distant S3."""
    name, blocks, pieces = workload["name"], workload["blocks"], workload["unit"] == "pieces/s"
    # Where only some blocks are asked for, the kernel's read-ahead behind a piece may touch another one.
    exact = name != "sparse"
    for title, field in (("at S3", "gets"), ("as the nodes count", "gets_of_nodes")):
        cold = [visit[field] for subject in ours if subject["cold"] for visit in visits_of(workload, subject["key"])]
        warm = [visit[field] for subject in ours if not subject["cold"] for visit in visits_of(workload, subject["key"])]
        if pieces:
            # Where a block's first reader wants bytes far behind its front the GET begins there, and what lies before takes another.
            yield at_most(name, f"GETs a touched block in epoch 1, {title}", max(cold) / blocks, MOST_GETS_OF_PIECES, three_digits,
                          exact, 7)
        else:
            worst = max(cold, key=lambda gets: abs(gets - blocks))
            yield exactly(name, f"GETs a block in epoch 1, {title}", worst / blocks, 1, worst == blocks, three_digits, figure=7)
        yield exactly(name, f"GETs afterwards, all rounds, {title}", sum(warm), 0, decides=exact, figure=7)
    if pieces:
        cold = [visit["get_bytes"] for subject in ours if subject["cold"] for visit in visits_of(workload, subject["key"])]
        asked = max(run["bytes"] for run in workload["runs"])
        yield at_most(name, "bytes from S3 for each byte asked for in epoch 1, whole blocks at most", max(cold) / asked,
                      blocks * BLOCK / asked, figure=7)


def three_digits(value):
    return f"{value:.3f}"


def counts_hold(result):
    return bench_hold.counts_hold(result["to_hold"])


ALONE = {"store": bench_store, "eviction": bench_eviction, "namespace": bench_namespace, "bandwidth": bench_bandwidth,
         "preload": bench_preload}


def print_document(result, say):
    for layer in result["without"]:
        say(f"Left out: {bench_cluster.WITHOUT[layer]}.")
    for workload in result["workloads"]:
        print_workload(workload, say)
    if result["cold"]:
        bench_cold.print_cold(result["cold"], say)
    for training in result["training"]:
        bench_epochs.print_training(training, say)
    for name, part in ALONE.items():
        if name in result:
            part.print_tables(result[name], say)
    bench_hold.print_lines(result["to_hold"], say)
    for workload in result["workloads"] + ([result["cold"]] if result["cold"] else []) + result["training"]:
        for failure in workload["failed"][:3]:
            say(f"  failed: {failure}")
    print_machine(result, say)
    if not result["workloads"]:
        return
    shares = [run["cpu_share_of_others"] for workload in result["workloads"] for run in workload["runs"]]
    say(f"What was not part of a subject (S3, the kernel's own threads, other programs) had {statistics.median(shares):.0%} "
        f"of the CPU time in the median run, {max(shares):.0%} at most.")


def print_machine(result, say):
    say("")
    for sentence in bench_machine.sentences(result["machine"], result["versions"]):
        say(sentence)


def print_workload(workload, say):
    last = workload["readers"][-1]
    found = {(row["subject"], row["readers"]): row for row in workload["medians"]}
    unit = workload["unit"]
    pieces = f"{workload['reads']:,} pieces, " if unit == "pieces/s" else ""
    say(f"\n{workload['name']}: {workload['files']:,} files, {workload['bytes'] / 1e6:,.0f} MB, {pieces}{workload['blocks']:,} "
        f"blocks. Rounds: {workload['rounds']}, medians. The columns after the rates: with {last} readers")
    say(f"{unit + ' with readers:':42}" + "".join(f"{readers:>9}" for readers in workload["readers"])
        + f"{'GB/s':>8}{'CPU s/GB':>10}{'FUSE/' + ('piece' if pieces else 'file'):>11}{'GETs/block':>12}{'x hot':>8}{'x cold':>8}{'x s3fs':>8}")
    for subject in workload["subjects"]:
        row = found[subject["key"], last]
        rates = [found.get((subject["key"], readers)) for readers in workload["readers"]]
        fuse = f"{row['messages_per_file']:.3f}" if subject["mounted"] else "-"
        gets = "-" if subject["key"].startswith("native") else f"{row['gets_per_block']:.3f}"
        against = [row["against"][reference] for reference in ("native_hot", "native_cold", subject["peer"])]
        say(f"{subject['title']:42}" + "".join(f"{rate_text(rate, unit):>9}" for rate in rates)
            + f"{row['gb_per_second']:>8.2f}{row['cpu_seconds_per_gb']:>10.2f}{fuse:>11}{gets:>12}"
            + "".join(f"{'-' if value is None else f'{value:.2f}':>8}" for value in against))
    if workload["raw_tcp_gb_per_second"]:
        say(f"raw loopback TCP, messages of 1 MiB, {last} connections: "
            f"{statistics.median(workload['raw_tcp_gb_per_second']):.2f} GB/s")
    print_layers(workload, say)
    print_walks(workload, found, last, say)
    say(f"\nFUSE messages a {'piece' if pieces else 'file'} by operation:")
    for subject in workload["subjects"]:
        if subject["mounted"]:
            row = found[subject["key"], last]
            used = ", ".join(f"{op} {count:.3f}" for op, count in row["fuse_per_file"].items() if count) or "none"
            say(f"  {subject['title']:40}{used}; the walk before: {row['messages_per_file_of_walk']:.3f}")

    for subject in workload["subjects"]:
        row = found[subject["key"], last]
        if pieces and not subject["key"].startswith("native") and row["s3_bytes_per_byte"] > 0:
            say(f"{subject['title']}: {row['s3_bytes_per_byte']:.2f} bytes from S3 for each byte asked for")
    for subject in workload["subjects"]:
        if heads := found[subject["key"], last]["heads_per_file"]:
            say(f"{subject['title']}: {heads:.3f} HEAD requests at S3 for each file read, those of the walk included")


def print_walks(workload, found, last, say):
    """Of folders with many files."""
    if workload["unit"] != "files/s":
        return
    say("\nfiles/s of the walk before the reads (Python's os.walk):")
    for subject in workload["subjects"]:
        if rate := found[subject["key"], last]["files_walked_per_second"]:
            say(f"  {subject['title']:40}{rate:>9,.0f}")


def print_layers(workload, say):
    say(f"\n{'parts of the CPU time of warm reads:':42}{'reader':>9}{'daemons':>9}{'checksums':>11}{'TLS':>9}")
    for row in workload["layers"]:
        checksums = "-" if row["checksums"] is None else f"{row['checksums']:.1%}"
        tls = "-" if row["tls"] is None else f"{row['tls']:.1%}"
        say(f"{row['title']:42}{row['reader']:>9.1%}{row['daemons']:>9.1%}{checksums:>11}{tls:>9}")


def rate_text(row, unit):
    if row is None:
        return "-"
    return f"{row['gb_per_second']:.2f}" if unit == "GB/s" else f"{row['files_per_second']:,.0f}"
