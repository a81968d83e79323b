"""What ops/bench says about its runs: medians, ratios, and what must hold."""

import datetime
import os
import pathlib
import platform
import re
import statistics
import subprocess

import bench_bandwidth
import bench_cluster
import bench_cold
import bench_epochs
import bench_eviction
import bench_namespace
import bench_store
import bench_subjects

MOST_GETS_OF_PIECES = 2
# The figures to reach, all at the greatest number of readers. Workload, subject, reference, least ratio of files/s.
RATIOS = (
    ("small", "forebay_dropped", "s3fs_warm_dropped", 5),
    ("small", "forebay_hot", "s3fs_warm_allowed", 5),
    ("small", "forebay_hot", "native_hot", 0.70),
    ("small", "forebay_hot", "juicefs_warm_allowed", 3.5),
    ("small", "forebay_new_mount", "native_hot", 0.17),
    ("small", "forebay_new_mount", "native_cold", 1.5),
    ("small", "forebay_new_mount", "geesefs_warm_dropped", 1.5),
    ("small", "forebay_new_mount", "juicefs_warm_dropped", 4),
    ("small", "forebay_new_mount", "mount-s3_warm_dropped", 6),
    ("small", "forebay_new_mount", "rclone_warm_dropped", 8),
    ("small", "forebay_new_mount", "s3fs_warm_dropped", 14),
    ("shards", "forebay_large_local", "native_hot", 0.45),
    ("big", "forebay_large_local", "native_hot", 0.45),
)
# Workload, subject, most CPU seconds per GB of reader and daemons together.
CPU_PER_GB = (
    ("small", "forebay_new_mount", 1.4),
    ("small", "forebay_local", 0.9),
    ("small", "forebay_tls_new_mount", 2.6),
    *((name, *figure) for name in ("shards", "big") for figure in (
        ("forebay_large", 0.55), ("forebay_large_local", 0.13), ("forebay_tls_large", 2.6))),
)
# Whole shards out of the nodes' memory, of what loopback TCP carries with as many connections as there are readers.
SHARES_OF_TCP = (("forebay_large", 0.85), ("forebay_tls_large", 0.25))


def document(workloads, cold, training, folder, without=()):
    for workload in workloads:
        workload["medians"] = [medians(workload, subject, readers) for subject in workload["subjects"]
                               for readers in workload["readers"] if runs_of(workload, subject["key"], readers)]
    return {"schema_version": 1, "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "machine": machine(folder), "versions": versions(), "workloads": workloads, "cold": cold,
            "training": training, "without": list(without),
            "to_hold": [line for workload in workloads for line in to_hold(workload)]
                       + (list(bench_cold.to_hold(cold)) if cold else [])
                       + [line for part in training for line in bench_epochs.to_hold(part)]}


def alone_document(what, measured, folder):
    """Of a bench without a cluster."""
    lines = measured.pop("to_hold")
    return {**document([], None, [], folder), "versions": {}, what: measured, "to_hold": lines}


def machine(folder):
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {"cpus": len(os.sched_getaffinity(0)), "cpu": cpu[1] if cpu else platform.machine(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "kernel": platform.release(),
            "file_system": first_line("findmnt", "-no", "FSTYPE", "-T", folder)}


def versions():
    return {"libfuse": version("fusermount3", "--version"), "s3fs": version("s3fs", "--version"),
            "rclone": version("rclone", "version"), "ceph": version("radosgw", "--version")}


def first_line(*command):
    try:
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return result.stdout.partition("\n")[0].strip() or None


def version(*command):
    found = re.search(r"\d+(\.\d+)+", first_line(*command) or "")
    return found[0] if found else None


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


def line_of(workload, what, measured, wanted, holds, decides):
    """`holds` is None where something is missing that it takes."""
    return {"workload": workload["name"], "what": what, "measured": measured, "wanted": wanted, "holds": holds,
            "decides": decides}


def to_hold(workload):
    yield from counts(workload)
    readers, keys = workload["readers"][-1], {subject["key"] for subject in workload["subjects"]}

    def figure(what, measured, wanted, holds):
        return line_of(workload, f"{what}, {readers} readers", measured, wanted, holds, False)

    for name, key, reference, least in RATIOS:
        if name == workload["name"] and key in keys and (reference in keys or reference.startswith(("s3fs", "rclone"))):
            found = ratio(workload, key, reference, readers)
            yield figure(f"files/s of {spoken(key)} against {spoken(reference)}",
                         "not measured" if found is None else f"{found:.2f}x", f">= {least}x",
                         None if found is None else found >= least)
    for key, least in SHARES_OF_TCP:
        runs = runs_of(workload, key, readers)
        if workload["raw_tcp_gb_per_second"] and runs:
            share = statistics.median(runs[number]["gb_per_second"] / raw
                                      for number, raw in enumerate(workload["raw_tcp_gb_per_second"], 1))
            yield figure(f"GB/s of {spoken(key)} against raw loopback TCP", f"{share:.2f}x", f">= {least}x", share >= least)
    for name, key, most in CPU_PER_GB:
        runs = runs_of(workload, key, readers).values()
        if name == workload["name"] and runs:
            cpu = statistics.median(map(cpu_per_gb, runs))
            yield figure(f"CPU s/GB of {spoken(key)}", f"{cpu:.2f}", f"<= {most}", cpu <= most)


def spoken(key):
    return key.replace("_", " ")


def counts(workload):
    """What is exact whatever the machine's speed and whoever else works on it."""
    ours = [subject for subject in workload["subjects"] if subject["forebay"]]
    blocks = workload["blocks"]
    if workload["name"].startswith("small"):
        runs = [run for subject in ours for readers in workload["readers"]
                for run in runs_of(workload, subject["key"], readers).values()]
        # Each reader may open a file, and close it, before the kernel has learnt that nobody wants to know.
        most = max(messages(run) - workload["files"] - 2 * run["readers"] for run in runs)
        yield line_of(workload, "FUSE messages after a walk beyond 1 a file and 2 a reader, of any run", f"{max(0, most)}", "= 0",
                      most <= 0, True)
        lookups = max(run["fuse_ops"].get("lookup", 0) for run in runs)
        yield line_of(workload, "LOOKUPs after a walk, of any run", f"{lookups}", "= 0", not lookups, True)
    pieces = workload["unit"] == "pieces/s"
    for title, field in (("at S3", "gets"), ("as the nodes count", "gets_of_nodes")):
        cold = [visit[field] for subject in ours if subject["cold"] for visit in visits_of(workload, subject["key"])]
        warm = [visit[field] for subject in ours if not subject["cold"] for visit in visits_of(workload, subject["key"])]
        shown = sorted({f"{gets / blocks:.3f}" for gets in cold})
        # Where a block's first reader wants bytes far behind its front the GET begins there, and what lies before takes another.
        yield line_of(workload, f"GETs a {'touched ' * pieces}block in epoch 1, {title}", " to ".join(shown[:1] + shown[1:][-1:]),
                      f"<= {MOST_GETS_OF_PIECES}.000" if pieces else "= 1.000",
                      all(gets <= MOST_GETS_OF_PIECES * blocks if pieces else gets == blocks for gets in cold), True)
        yield line_of(workload, f"GETs afterwards, all rounds, {title}", f"{sum(warm):,}", "= 0", not any(warm), True)
    failed = len(workload["failed"])
    yield line_of(workload, "reads that failed or had wrong bytes", f"{failed:,}", "= 0", not failed, True)


def counts_hold(result):
    return all(line["holds"] for line in result["to_hold"] if line["decides"])


def print_document(result, say):
    for name, part in (("store", bench_store), ("eviction", bench_eviction), ("namespace", bench_namespace),
                       ("bandwidth", bench_bandwidth)):
        if name in result:
            part.print_tables(result[name], say)
            print_to_hold(result, say)
            return print_machine(result, say)
    return print_tables(result, say)


def print_tables(result, say):
    for layer in result["without"]:
        say(f"Left out: {bench_cluster.WITHOUT[layer]}.")
    for workload in result["workloads"]:
        print_workload(workload, say)
    if result["cold"]:
        bench_cold.print_cold(result["cold"], say)
    for training in result["training"]:
        bench_epochs.print_training(training, say)
    print_to_hold(result, say)
    for workload in result["workloads"] + ([result["cold"]] if result["cold"] else []) + result["training"]:
        for failure in workload["failed"][:3]:
            say(f"  failed: {failure}")
    print_machine(result, say)
    if not result["workloads"]:
        return
    shares = [run["cpu_share_of_others"] for workload in result["workloads"] for run in workload["runs"]]
    say(f"What was not part of a subject (S3, the kernel's own threads, other programs) had {statistics.median(shares):.0%} "
        f"of the CPU time in the median run, {max(shares):.0%} at most.")


def print_to_hold(result, say):
    say("\nto hold (counts decide the exit code, times never)")
    width, first = (max(len(line[key]) for line in result["to_hold"]) for key in ("what", "workload"))
    for line in result["to_hold"]:
        verdict = {True: "ok", False: "NOT REACHED", None: "-"}[line["holds"]]
        say(f"  {line['workload']:{first + 2}}{line['what']:{width}}{line['measured']:>14}  {line['wanted']:14}{verdict}")


def print_machine(result, say):
    here, other = result["machine"], result["versions"]
    say(f"\n{here['cpus']} CPUs ({here['cpu']}), {here['memory_bytes'] / (1 << 30):.0f} GiB of memory, Linux "
        f"{here['kernel']}, {here['file_system']}"
        + "".join(f"{'; ' if i == 0 else ', '}{name} {number}"
                  for i, (name, number) in enumerate((key, value) for key, value in other.items() if value)))


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
        fuse = f"{row['messages_per_file']:.3f}" if subject["forebay"] else "-"
        gets = "-" if subject["key"].startswith("native") else f"{row['gets_per_block']:.3f}"
        against = [row["against"][reference] for reference in ("native_hot", "native_cold", subject["peer"])]
        say(f"{subject['title']:42}" + "".join(f"{rate_text(rate, unit):>9}" for rate in rates)
            + f"{row['gb_per_second']:>8.2f}{row['cpu_seconds_per_gb']:>10.2f}{fuse:>11}{gets:>12}"
            + "".join(f"{'-' if value is None else f'{value:.2f}':>8}" for value in against))
    if workload["raw_tcp_gb_per_second"]:
        say(f"raw loopback TCP, messages of 1 MiB, {last} connections: "
            f"{statistics.median(workload['raw_tcp_gb_per_second']):.2f} GB/s")
    say(f"\nFUSE messages a {'piece' if pieces else 'file'} by operation:")
    for subject in workload["subjects"]:
        if subject["forebay"]:
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


def rate_text(row, unit):
    if row is None:
        return "-"
    return f"{row['gb_per_second']:.2f}" if unit == "GB/s" else f"{row['files_per_second']:,.0f}"
