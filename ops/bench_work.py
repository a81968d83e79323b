#!/usr/bin/python3
"""What reading out of the nodes' memory over TCP costs each process: system calls, page faults and context switches are
counted, CPU time is measured.

  ops/bench_work.py                              the release build of this tree
  ops/bench_work.py --subject ... --subject ...  several are visited in turn, round by round, and compared with the first:
                                                 words like programs=FOLDER mount=--threads=1 node=--threads=1
                                                 env=NAME=VALUE nodes=1 tls=1 batch=1 (all threads under SCHED_BATCH)

Each round is a new mount, so that its page cache holds nothing, and the nodes' files are read before it, so that theirs
holds everything. The counts of system calls come from a run of their own under strace, whose CPU times would say nothing."""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import bench_cluster
from local_cluster import REPOSITORY, ClusterError, Rgw, remove, without_settings

COUNTS = ("cpu_us", "faults", "switches")
READ_SECONDS = 300


def work_of(pid):
    """What the process has done so far, all its threads that live."""
    total = collections.Counter()
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        total["cpu_us"] += int((thread / "schedstat").read_text().split()[0]) / 1000
        total["faults"] += int((thread / "stat").read_text().rsplit(")", 1)[1].split()[7])
        total["switches"] += sum(int(n) for n in re.findall(r"ctxt_switches:\s+(\d+)", (thread / "status").read_text()))
    return total


class Subject:
    """One way to run a cluster, its nodes warm."""

    def __init__(self, folder, words, rgw, options):
        self.name, self.options, self.folder = " ".join(words) or "this tree", options, folder
        given = collections.defaultdict(list)
        for word in words:
            key, value = word.split("=", 1)
            given[key].append(value)
        self.programs = pathlib.Path(given["programs"][-1]) if given["programs"] else REPOSITORY / "build/release/bin"
        self.of_mounts, self.batch = given["mount"], "batch" in given
        self.nodes = [f"n{number + 1}" for number in range(int(given["nodes"][-1]) if given["nodes"] else 3)]
        self.cluster = bench_cluster.BenchCluster(folder, self.programs, rgw.env, tls="tls" in given)
        extra = dict(word.split("=", 1) for word in given["env"])
        self.cluster.client_env.update(extra)
        self.cluster.server_env.update(extra)
        self.figures, self.calls, self.rounds = [], {}, 0
        self.cluster.start_coordinator()
        for name in self.nodes:
            self.cluster.start_node(name, "1GiB", *given["node"])
        self.cluster.cli("link", "s3://work/", "--as", "data")
        self.round()

    def round(self, trace=False):
        """Files/s, and by process what a file cost."""
        self.rounds += 1
        name = f"m{self.rounds}"
        root = self.cluster.mount("data", name, *self.of_mounts)
        try:
            names = sorted(os.listdir(root))
            pids = self._pids(name)
            if self.batch:
                for pid in pids.values():
                    subprocess.run(["chrt", "--batch", "--all-tasks", "--pid", "0", str(pid)], check=True)
            for node in self.nodes:
                subprocess.run(["cat", *(str(p) for p in (self.folder / node).rglob("*") if p.is_file())], check=True,
                               stdout=subprocess.DEVNULL)
            tracers = self._trace(pids) if trace else {}
            before = {who: work_of(pid) for who, pid in pids.items()}
            result = self._read(root, names)
            after = {who: work_of(pid) for who, pid in pids.items()}
            if trace:
                self._count_calls(tracers, len(names))
                return
        finally:
            self.cluster.unmount(name)
        per = lambda who, what: (after[who][what] - before[who][what]) / len(names)
        figures = {"rate": len(names) / result["seconds"], "bytes": result["bytes"] / len(names),
                   "reader cpu_us": result["cpu_seconds"] * 1e6 / len(names)}
        for what in COUNTS:
            figures[f"mount {what}"] = per("mount", what)
            figures[f"nodes {what}"] = sum(per(node, what) for node in self.nodes)
        figures["all cpu_us"] = sum(figures[f"{who} cpu_us"] for who in ("reader", "mount", "nodes"))
        figures["cpu_s_per_gb"] = figures["all cpu_us"] * 1e3 / figures["bytes"]
        self.figures.append(figures)

    def _pids(self, name):
        guardian = self.cluster.mounts[name].pid
        workers = subprocess.run(["pgrep", "-P", str(guardian)], capture_output=True, text=True, check=False).stdout.split()
        return {"mount": int(workers[0]) if workers else guardian, **{node: self.cluster.nodes[node].pid for node in self.nodes}}

    def _read(self, root, names):
        listing = self.folder / "list"
        listing.write_text("".join(f"{name}\n" for name in names))
        command = [self.programs / "read_files", listing, root, "--threads", self.options.readers, "--seed", self.rounds]
        result = subprocess.run([str(word) for word in command], env=without_settings(os.environ), capture_output=True, text=True,
                                timeout=READ_SECONDS, check=False)
        if result.returncode != 0:
            raise ClusterError(f"read_files ended with {result.returncode}: {result.stdout} {result.stderr}")
        return json.loads(result.stdout)

    def _trace(self, pids):
        tracers = {}
        for who, pid in pids.items():
            log = self.folder / f"{who}.calls"
            command = ["strace", "-f", "-c", "-o", str(log), "-p", str(pid)]
            # pylint: disable-next=consider-using-with
            tracers[who] = (subprocess.Popen(command, stderr=subprocess.PIPE, text=True), log)
        for tracer, _ in tracers.values():
            tracer.stderr.readline()  # "Process N attached"
        time.sleep(1)  # with its threads
        return tracers

    def _count_calls(self, tracers, files):
        for tracer, _ in tracers.values():
            tracer.send_signal(signal.SIGINT)
        for who, (tracer, log) in tracers.items():
            tracer.communicate()
            side = "mount" if who == "mount" else "nodes"
            counts = self.calls.setdefault(side, collections.Counter())
            for line in log.read_text().splitlines():
                words = line.split()
                if len(words) >= 5 and re.fullmatch(r"[\d.]+", words[0]) and words[-1] != "total":
                    counts[words[-1]] += int(words[3]) / files
                    if len(words) > 5:
                        counts[f"{words[-1]} failed"] += int(words[4]) / files

    def median(self):
        return {what: statistics.median(figure[what] for figure in self.figures) for what in self.figures[0]}


def report(subjects):
    for i, subject in enumerate(subjects):
        print(f"[{i}] {subject.name}")
    print("medians of", len(subjects[0].figures), "rounds, for each file:")
    medians = [subject.median() for subject in subjects]
    for what in medians[0]:
        cells = "".join(f"{median[what]:12.2f}" for median in medians)
        ratios = [statistics.median(b[what] / a[what] for a, b in zip(subjects[0].figures, other.figures, strict=True) if a[what])
                  for other in subjects[1:] if any(a[what] for a in subjects[0].figures)]
        print(f"  {what:18}{cells}   {'  '.join(f'x {ratio:.3f}' for ratio in ratios)}")
    for side in ("mount", "nodes"):
        calls = sorted({call for subject in subjects for call, n in subject.calls.get(side, {}).items() if n >= 0.01})
        for call in calls:
            print(f"  {side} {call:18}" + "".join(f"{subject.calls[side][call]:10.2f}" for subject in subjects))
        if calls:
            print(f"  {side} {'all calls':18}" + "".join(f"{sum(n for call, n in subject.calls[side].items() if ' ' not in call):10.2f}" for subject in subjects))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subject", nargs="*", action="append", metavar="KEY=VALUE")
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--bytes", type=int, default=40960, help="of a file")
    parser.add_argument("--readers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", action="store_true", help="count system calls, too")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-work-"))
    rgw, subjects = Rgw(folder / "rgw"), []
    try:
        rgw.start("4GiB")
        source = folder / "source"
        source.mkdir()
        body = random.Random(1).randbytes(options.bytes + options.files)
        for i in range(options.files):
            (source / f"f{i:06d}").write_bytes(body[i:i + options.bytes])
        rgw.upload(source, "work")
        for i, words in enumerate(options.subject or [[]]):
            subjects.append(Subject(folder / f"c{i}", words, rgw, options))
        for subject in subjects:
            subject.figures.clear()
        for number in range(options.rounds):
            for subject in subjects if number % 2 == 0 else reversed(subjects):
                subject.round()
        for subject in subjects if options.calls else []:
            subject.round(trace=True)
        report(subjects)
    finally:
        for subject in subjects:
            subject.cluster.stop()
        rgw.stop()
        remove(folder)


if __name__ == "__main__":
    sys.exit(main())
