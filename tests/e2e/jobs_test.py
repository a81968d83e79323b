#!/usr/bin/python3
"""Two jobs on one mount are two: told apart by the cgroups of their processes."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading

from e2e import BLOCK, E2eTest, drop_page_cache, eventually, main

# Reads each file named on stdin once, then says so; ends when stdin does.
READER = """
import sys
for line in sys.stdin:
    with open(line.rstrip("\\n"), "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
    print("read", flush=True)
"""


class Cgroup:
    """A folder of this machine's cgroups, made for a process: /slurm_test…/uid_0/job_N/step_0."""

    def __init__(self, job):
        self.folders = []
        below = pathlib.PurePath(f"slurm_forebay_test_{os.getpid()}_{job}", "uid_0", f"job_{job}", "step_0")
        tried = []
        for hierarchy in self.hierarchies():
            try:
                for depth in range(len(below.parts)):
                    folder = pathlib.Path(hierarchy, *below.parts[:depth + 1])
                    folder.mkdir(exist_ok=True)
                    self.folders.append(folder)
                return
            except OSError as error:
                tried.append(f"{hierarchy}: {error.strerror}")
                self.remove()
        raise AssertionError(f"this test makes cgroups and could not: run it as root ({'; '.join(tried)})")

    @staticmethod
    def hierarchies():
        """Where cgroup file systems are mounted; version 2 first, then controllers that ask nothing of a new folder."""
        found = []
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
            left, right = line.split(" - ")
            kind, _, options = right.split(" ", 2)
            if kind == "cgroup2" or kind == "cgroup" and {"freezer", "pids", "name=systemd"} & set(options.split(",")):
                found.append((kind != "cgroup2", left.split()[4]))
        return [path for _, path in sorted(found)]

    def enter(self):
        (self.folders[-1] / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for folder in reversed(self.folders):
            with contextlib.suppress(OSError):
                folder.rmdir()
        self.folders = []


class Reader:
    """One process, in a cgroup or in none."""

    def __init__(self, cgroup=None):
        self.process = subprocess.Popen([sys.executable, "-c", READER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, preexec_fn=cgroup.enter if cgroup else None)

    def read(self, paths):
        for path in paths:
            self.process.stdin.write(f"{path}\n")
            self.process.stdin.flush()
            if self.process.stdout.readline() != "read\n":
                raise AssertionError(f"{path} could not be read")

    def end(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Jobs(E2eTest):
    def reader(self, job=None):
        cgroup = None
        if job is not None:
            cgroup = Cgroup(job)
            self.addCleanup(cgroup.remove)
        reader = Reader(cgroup)
        self.addCleanup(reader.end)
        return reader

    def jobs(self):
        return {job["id"]: job for job in self.cluster.json("stats", "--jobs")["jobs"]}

    def mount_jobs(self, mount):
        return {job["id"]: job for job in json.loads((mount / ".forebay" / "stats").read_text())["jobs"]}

    def test_two_jobs_on_one_mount_are_two(self):
        files = {f"f{i:03d}": os.urandom(39_000) for i in range(90)}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        paths = [mount / name for name in sorted(files)]
        first, second, plain = self.reader(4711), self.reader(4712), self.reader()
        threads = [threading.Thread(target=reader.read, args=(part,))
                   for reader, part in ((first, paths[:60]), (second, paths[60:80]), (plain, paths[80:]))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        wanted = {"4711": 60, "4712": 20, "m1": 10}
        eventually(lambda: {job: row["reads"] for job, row in self.jobs().items()} == wanted,
                   f"the reads of each job: {wanted}, not {self.jobs()}")
        eventually(lambda: all(row["mounts"] == 1 for row in self.jobs().values()), "a report of the mount")
        eventually(lambda: all(abs(row["progress"] - wanted[job] / 90) <= 0.02 for job, row in self.jobs().items()),
                   "how far each is")
        for job, row in self.jobs().items():
            self.assertEqual((row["link"], row["generation"], row["epoch"]), ("data", 1, 1))
            self.assertEqual(row["hit_ratio"], 0)
            self.assertGreater(row["stall_seconds"], 0)
        self.assertEqual({job: row["reads"] for job, row in self.mount_jobs(mount).items()}, wanted)
        self.assertEqual({job: row["processes"] for job, row in self.mount_jobs(mount).items()},
                         {job: 1 for job in wanted})

        # The same files again: hits, and the second epoch of the part of the link that this job reads.
        drop_page_cache()
        first.read(paths[:60])
        eventually(lambda: self.jobs()["4711"]["reads"] == 120, "the reads of the second pass")
        row = eventually(lambda: (row := self.jobs()["4711"])["epoch"] == 2 and row["progress"] > 0.97 and row,
                         "the second epoch")
        self.assertAlmostEqual(row["hit_ratio"], 60 / 120)
        self.assertEqual(self.jobs()["4712"]["reads"], 20)

        # The last report and one line for each job when the mount goes.
        self.assertEqual(self.cluster.unmount("m1"), 0)
        log = (self.folder / "m1.log").read_text()
        self.assertIn("job 4711 on data: 120 reads", log)
        self.assertIn("job 4712 on data: 20 reads", log)
        eventually(lambda: self.jobs()["4711"]["mounts"] == 0, "the mount no longer reads for it")
        self.assertEqual(self.jobs()["4711"]["reads"], 120)

    def test_a_job_on_two_mounts_is_one(self):
        self.put({f"f{i:02d}": os.urandom(10_000) for i in range(40)})
        self.start()
        self.link()
        reader = self.reader(99)
        for name, part in (("m1", range(0, 20)), ("m2", range(20, 40))):
            mount = self.cluster.mount("data", name)
            reader.read([mount / f"f{i:02d}" for i in part])
        job = eventually(lambda: (row := self.jobs().get("99")) and row["mounts"] == 2 and row["progress"] > 0.97 and row,
                         "one job of two mounts")
        self.assertEqual((job["reads"], job["epoch"]), (40, 1))

    def test_told_to_a_mount_takes_all_reads_for_its_own_job(self):
        self.put({"a": os.urandom(BLOCK + 1)})
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1", "--job-from", "mount")
        self.reader(4711).read([mount / "a"])
        eventually(lambda: list(self.jobs()) == ["m1"], "the mount's own job alone")

    def test_explain_says_what_a_job_waits_for(self):
        files = {f"f{i:03d}": os.urandom(5_000) for i in range(150)}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        reader = self.reader(4711)
        reader.read([mount / name for name in sorted(files)])
        eventually(lambda: self.jobs().get("4711", {}).get("mounts") == 1, "the job")
        told = eventually(lambda: (answer := self.cluster.json("explain", "--job", "4711"))["reads"] == 150 and answer,
                          "a report of all reads")
        self.assertEqual(told["advice"]["kind"], "preload", told)
        self.assertGreater(told["shares"]["s3"], 0.5)
        self.assertAlmostEqual(sum(share for share in told["shares"].values() if share is not None), 1)
        self.assertTrue(self.cluster.cli("explain", "--job", "4711").stdout.splitlines()[-1].startswith("preload data: "))

        # One process that reads one file after the other, out of the cache.
        for _ in range(12):
            drop_page_cache()
            reader.read([mount / name for name in sorted(files)])
        eventually(lambda: self.cluster.json("explain", "--job", "4711")["reads"] == 150 * 13, "a report of all reads")
        told = self.cluster.json("explain", "--job", "4711")
        self.assertLess(told["reads_in_flight"], 1.5)
        # The first epoch's wait for S3 may still be much of it all.
        self.assertEqual(told["advice"]["kind"], "more_workers" if told["shares"]["s3"] < 0.2 else "preload", told)

        unknown = self.cluster.cli("explain", "--job", "4712", check=False)
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("the nearest is '4711'", unknown.stderr)
        self.assertEqual(unknown.stderr.count("\n"), 1)

    def test_a_coordinator_that_restarts_learns_the_jobs_again(self):
        files = {f"f{i:03d}": os.urandom(5_000) for i in range(30)}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        reader = self.reader(4711)
        reader.read([mount / name for name in sorted(files)])
        before = eventually(lambda: (row := self.jobs().get("4711")) and row["reads"] == 30 and row, "the job")
        self.assertEqual(before["epoch"], 1)
        self.cluster.coordinator.kill()
        self.cluster.start_coordinator()
        row = eventually(lambda: (row := self.jobs().get("4711")) and row["mounts"] == 1 and row["reads"] == 30 and row,
                         "the same job")
        self.assertEqual(row["epoch"], 1)
        # A read's end may have been told after the read.
        self.assertGreaterEqual(row["stall_seconds"], before["stall_seconds"])


if __name__ == "__main__":
    main()
