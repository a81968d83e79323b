#!/usr/bin/python3
"""The mount survives the death of the process that serves it, and a new program takes it over.

FOREBAY_KILLS is how often each of the four series under load kills it (5 unless set). From 100 on the slow tests run, too."""

import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

from e2e import PROGRAMS, E2eTest, drop_page_cache, eventually, main
from mixed_reader import Load, objects
from mount_state import mounts_below, state_of, worker_of
from verified_load import DAEMON_STALL_SECONDS, held

KILLS = int(os.environ.get("FOREBAY_KILLS", "5"))
SMALL, LARGE = 400, 3
# The promise is 2 s. A figure of time proves little on a busy machine; ten times the promise is no pause any more.
STALL_MAX_SECONDS = held(DAEMON_STALL_SECONDS, 20)


class SupervisorTest(E2eTest):
    NODES = ("n1",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample_bucket = f"sample{os.getpid()}"
        source = cls.home / "sample"
        for name, body in objects(SMALL, LARGE).items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(body)
        cls.rgw.upload(source, cls.sample_bucket)

    def take_sample(self, changes=False):
        """A cluster with a link of the sample: of the class's bucket, or of an own one for a test that changes it."""
        if changes:
            self.put(objects(SMALL, LARGE))
        else:
            self.bucket = self.sample_bucket
        self.start()
        self.link()

    def sample(self, mount=("data", "m1"), *options, changes=False):
        self.take_sample(changes)
        return self.cluster.mount(*mount, *options)

    def worker(self, name="m1", after=None):
        """The worker of a mount, when it is another one than `after`."""
        supervisor = self.cluster.mounts[name].pid
        return eventually(lambda: (worker_of(supervisor) or after) != after and worker_of(supervisor), "a worker", 30)

    def kill_worker(self, name="m1", number=signal.SIGKILL):
        """Kills it and answers the next one."""
        worker = self.worker(name)
        os.kill(worker, number)
        return self.worker(name, after=worker)

    def log_of(self, name="m1"):
        return (self.folder / f"{name}.log").read_text()

    def load(self, mount):
        def start(command):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.addCleanup(self.end, process)
            return process
        load = Load(start, mount, SMALL, LARGE, self.folder / "done")
        eventually(lambda: load.done() > 20, "the readers read")
        return load

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def assert_unharmed(self, load, what, kills=()):
        result = load.finish()
        stall = result["longest_seconds"]
        print(f"{what}, longest stall {stall:.3f} s (bound {DAEMON_STALL_SECONDS} s), errors {len(result['errors'])}; done: {result['done']}", flush=True)
        if len(kills) >= 100:
            # Of each kill the longest wait that ended before the next one.
            longest = sorted(max((seconds for ended, seconds in result["waits"] if begin <= ended < end), default=0)
                             for begin, end in zip(kills, [*kills[1:], float("inf")], strict=True))
            print(f"{what}: longest wait of each, maximum {longest[-1]:.3f} s, p99 {longest[-(-99 * len(longest) // 100) - 1]:.3f} s, "
                  f"median {longest[len(longest) // 2]:.3f} s", flush=True)
        self.assertEqual((result["errors"], result["wrong"]), ([], []))
        self.assertLess(stall, STALL_MAX_SECONDS)
        self.assertEqual(set(result["done"]), {"random_small", "mapped", "whole_large", "walk", "metadata"})


class UnderLoad(SupervisorTest):
    """`auto` takes the sample for a large one, so each series says in which mode it is."""

    def kill_under_load(self, mode, resend):
        if not resend:
            self.cluster.client_env["FOREBAY_NO_RESEND"] = "1"
        mount = self.sample(("data", "m1"), "--mode", mode)
        config = json.loads((mount / ".forebay/config").read_text())
        resends = "resend" in config["kernel_features"].split()
        self.assertEqual(config["mode"], mode)
        if resend and not resends:
            self.skipTest("this kernel has no RESEND: the series without it is what happens here")
        self.assertEqual(resends, resend)
        load = self.load(mount)
        rng = random.Random(KILLS)
        # Of many, most workers serve for the half second that ends a row of deaths (restart_pace.h).
        pause_max = 0.5 if KILLS < 10 else 1.0
        answered, kills = 0, []
        for i in range(KILLS):
            # When in its life it is hit is left to chance: the fault, not a wait for anything.
            time.sleep(0.1 + pause_max * rng.random())
            if i % 4 == 0:
                drop_page_cache()  # names and directories are asked for again
            done = load.done()
            kills.append(time.monotonic())
            self.kill_worker()
            eventually(lambda past=done: load.done() > past + 10, f"reads after kill {i}", 30)
            answered += 1
        self.assert_unharmed(load, f"{mode} mode, {'with' if resend else 'without'} RESEND: kills {answered}", kills)
        self.assertEqual(answered, KILLS)
        self.assertEqual((mount / ".forebay/errors").read_text(), "")
        log = self.log_of()
        self.assertGreaterEqual(log.count("was killed by signal 9"), KILLS)
        # Each successor says how it came to what was under way.
        way, other = "comes again from the kernel", "is in its slots"
        if not resend:
            way, other = other, way
        self.assertGreaterEqual(log.count(f"left unanswered {way}"), KILLS)
        self.assertNotIn(f"left unanswered {other}", log)
        self.assertEqual(self.cluster.unmount("m1"), 0)
        self.assertEqual(mounts_below(mount), {})

    def test_no_reader_sees_a_kill_in_small_mode(self):
        self.kill_under_load("small", True)

    def test_nor_in_large_mode(self):
        self.kill_under_load("large", True)

    def test_nor_where_the_kernel_resends_nothing_in_small_mode(self):
        self.kill_under_load("small", False)

    def test_nor_where_the_kernel_resends_nothing_in_large_mode(self):
        self.kill_under_load("large", False)

    def test_nor_a_stop_of_the_worker_alone(self):
        mount = self.sample()
        load = self.load(mount)
        for _ in range(3):
            done = load.done()
            self.kill_worker(number=signal.SIGTERM)
            eventually(lambda past=done: load.done() > past + 10, "reads go on", 30)
        # As it ends when something in it is wrong; of a SIGSEGV a sanitizer would speak.
        self.kill_worker(number=signal.SIGABRT)
        self.assert_unharmed(load, "4 restarts")
        self.assertNotIn("of m1 is still in use", self.log_of())

    def test_every_link_of_all_survives(self):
        self.put({"x/one": b"1", "y/two": b"22"})
        self.put(objects(SMALL, LARGE), "data/")
        self.start()
        self.link("data", "data/")
        self.link("x", "x/")
        self.link("y", "y/")
        mount = self.cluster.mount("/", "all")
        before = {name: os.stat(mount / name) for name in ("", "data", "x", "y")}
        load = self.load(mount / "data")
        with open(mount / "y/two", "rb") as held:
            self.kill_worker("all")
            self.cluster.cli("unlink", "y")
            eventually(lambda: not (mount / "y").exists(), "the link has gone", 10)
            self.kill_worker("all")
            self.kill_worker("all")
            # Nobody fetches what is not linked, but the file system of what is open is there.
            self.assertEqual(os.fstatvfs(held.fileno()).f_namemax, 255)
            self.link("late", "x/")
            eventually(lambda: sorted(os.listdir(mount)) == ["data", "late", "x"], "the new link is there", 15)
            self.kill_worker("all")
            self.assertEqual((mount / "late/one").read_bytes() + (mount / "x/one").read_bytes(), b"11")
        self.assert_unharmed(load, "4 kills below /")
        for name in ("", "data", "x"):
            now = os.stat(mount / name)
            self.assertEqual((now.st_dev, now.st_ino), (before[name].st_dev, before[name].st_ino), name)
        subprocess.run(["umount", mount / "x"], check=True)
        eventually(lambda: sorted(os.listdir(mount)) == ["data", "late"], "x has been unmounted", 10)
        self.kill_worker("all")
        self.assertEqual(sorted(os.listdir(mount)), ["data", "late"])
        self.assertEqual(self.cluster.unmount("all"), 0)
        self.assertEqual(mounts_below(mount), {})


class WhatSurvives(SupervisorTest):
    def test_open_files_of_earlier_listings(self):
        mount = self.sample(changes=True)
        name = "d1/s0001.bin"
        old = objects(SMALL, LARGE)[name]
        with open(mount / name, "rb", buffering=0) as replaced, open(mount / "d2/s0002.bin", "rb", buffering=0) as gone:
            self.assertEqual(replaced.read(), old)  # the node has it
            self.assertEqual(gone.read(), objects(SMALL, LARGE)["d2/s0002.bin"])
            self.put({name: b"new"})
            self.s3.delete_object(Bucket=self.bucket, Key="d2/s0002.bin")
            self.cluster.cli("refresh", "data")
            eventually(lambda: (mount / name).read_bytes() == b"new", "the new version is shown", 15)
            self.kill_worker()
            drop_page_cache()
            self.assertEqual(os.pread(replaced.fileno(), len(old), 0), old)
            self.assertEqual(os.pread(gone.fileno(), 10, 0), objects(SMALL, LARGE)["d2/s0002.bin"][:10])
            self.assertEqual((mount / name).read_bytes(), b"new")
            self.assertFalse((mount / "d2/s0002.bin").exists())
        # And what comes after is followed by the successor.
        self.put({"d2/s0002.bin": b"back"})
        self.cluster.cli("refresh", "data")
        eventually(lambda: (mount / "d2/s0002.bin").exists(), "the next listing is shown", 15)

    def test_counters_errors_and_the_address_of_metrics(self):
        mount = self.sample(changes=True)
        for i in range(50):
            (mount / f"d{i % 8}/s{i:04d}.bin").read_bytes()
        self.s3.delete_object(Bucket=self.bucket, Key="d0/s0200.bin")
        with self.assertRaises(OSError):
            (mount / "d0/s0200.bin").read_bytes()
        before = json.loads((mount / ".forebay/stats").read_text())
        self.assertGreaterEqual(before["reads"], 50)
        self.kill_worker(number=signal.SIGTERM)  # it leaves everything; a killed one's last second is lost
        after = json.loads((mount / ".forebay/stats").read_text())
        self.assertGreaterEqual(after["reads"], before["reads"])
        self.assertEqual(after["failed_reads"], before["failed_reads"])
        self.assertEqual([(job["id"], job["reads"]) for job in after["jobs"]],
                         [(job["id"], job["reads"]) for job in before["jobs"]])
        self.assertIn("s0200.bin", (mount / ".forebay/errors").read_text())
        metrics = self.metrics(self.cluster.mounts["m1"])
        read = sum(value for (name, _), value in metrics.items() if name == "forebay_read_bytes_total")
        self.assertGreaterEqual(read, 50 * 30_000)

    def test_the_inodes_that_the_kernel_holds(self):
        """It is given a million by walks; a bound that began anew with each worker would be none."""
        mount = self.sample(("data", "m1"), "--mode", "small")
        for _ in mount.rglob("*"):
            pass
        held = json.loads((mount / ".forebay/stats").read_text())["kernel_inodes"]
        self.assertGreaterEqual(held["mount"], SMALL * 9 // 10)
        self.kill_worker()
        after = json.loads((mount / ".forebay/stats").read_text())["kernel_inodes"]
        # Not one by one: the kernel may forget some meanwhile, and two may share a bit.
        self.assertGreaterEqual(after["mount"], held["mount"] // 2)
        self.assertEqual(after["mount"], after["process"])

    def test_without_a_coordinator(self):
        mount = self.sample()
        (mount / "d2/s0002.bin").read_bytes()  # the node knows the link
        self.cluster.coordinator.stop()
        name = "d1/s0001.bin"
        self.kill_worker()
        self.assertEqual((mount / name).read_bytes(), objects(SMALL, LARGE)[name])
        self.cluster.start_coordinator()


class Ends(SupervisorTest):
    def test_an_unmount_ends_all_processes(self):
        mount = self.sample()
        worker = self.kill_worker()
        subprocess.run(["umount", mount], check=True)
        self.assertEqual(self.cluster.mounts["m1"].wait(), 0)
        self.assertIsNone(state_of(worker))

    def test_an_unmount_while_nobody_serves(self):
        mount = self.sample()
        # A successor that does not get far enough to serve.
        os.kill(self.worker(), signal.SIGSTOP)
        subprocess.run(["umount", "-l", mount], check=True)
        os.kill(self.worker(), signal.SIGKILL)
        self.assertEqual(self.cluster.mounts["m1"].wait(), 0)

    def test_a_killed_supervisor_takes_the_mount_with_it(self):
        mount = self.sample()
        worker = self.worker()
        self.cluster.mounts.pop("m1").kill(signal.SIGKILL)
        eventually(lambda: state_of(worker) is None, "the worker has ended")
        with self.assertRaises(OSError) as caught:
            os.listdir(mount)
        self.assertEqual(caught.exception.strerror, "Transport endpoint is not connected")
        # The next start clears it.
        mount = self.cluster.mount("data", "m1")
        self.assertEqual(len(os.listdir(mount)), 9)

    def test_in_the_background_too(self):
        self.put(objects(8, 0))
        self.start()
        self.link()
        place = self.folder / "m1"
        place.mkdir()
        # The processes do not stay in the folder where they were started.
        (self.folder / "cwd").mkdir()
        done = subprocess.run(
            [PROGRAMS / "forebay-mount", "data", "../m1", "--coordinator", self.cluster.address, "--state-dir",
             self.folder / "state", "--log-file", self.folder / "log"], cwd=self.folder / "cwd", env=self.cluster.client_env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertIn("forebay-mount ready", done.stdout)
        log = self.folder / "log"
        eventually(lambda: "is mounted" in log.read_text(), "the log")
        supervisor = next(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_supervisor(pid, "../m1"))
        for _ in range(2):
            worker = eventually(lambda: worker_of(supervisor), "a worker")
            os.kill(worker, signal.SIGKILL)
            eventually(lambda gone=worker: worker_of(supervisor) not in (None, gone), "the next worker")
            self.assertEqual(len((place / "d1/s0001.bin").read_bytes()), 30_000)
        self.assertEqual(os.readlink(f"/proc/{supervisor}/cwd"), "/")
        subprocess.run(["umount", place], check=True)
        eventually(lambda: state_of(supervisor) is None, "it has ended")

    @unittest.skipIf(KILLS < 100, "takes a minute: FOREBAY_KILLS=100")
    def test_readers_get_an_error_when_no_worker_lives(self):
        mount = self.sample()
        supervisor = self.cluster.mounts["m1"].pid
        begin = time.monotonic()
        reader = subprocess.Popen(["stat", "-f", mount], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, reader)
        deaths = 0
        while reader.poll() is None or reader.returncode == 0:
            if reader.poll() == 0:
                reader = subprocess.Popen(["stat", "-f", mount], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                          text=True)
                self.addCleanup(self.end, reader)
            worker = worker_of(supervisor)
            if worker:
                os.kill(worker, signal.SIGKILL)
                deaths += 1
            self.assertLess(time.monotonic() - begin, 60)
            time.sleep(0.005)
        self.assertIn("Input/output error", reader.stderr.read())
        self.assertGreater(time.monotonic() - begin, 25)
        self.assertLess(deaths, 40)  # it is no busy loop
        # Left alone it comes back, and says what was.
        name = "d1/s0001.bin"
        eventually(lambda: subprocess.run(["cat", mount / name], capture_output=True, check=False).returncode == 0,
                   "the mount is served again", 30)
        eventually(lambda: "requests were refused" in (mount / ".forebay/errors").read_text(), "the reason")


def is_supervisor(pid, place):
    """Of the mount that was called `place` when it was started."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"forebay-mount") and str(place).encode() in words and b"--worker-of-a-mount" not in words


class Upgrades(SupervisorTest):
    def upgrade(self, program, mount):
        return subprocess.run([program, "--upgrade", mount], env=self.cluster.client_env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)

    def program(self, name):
        folder = self.folder / name
        folder.mkdir()
        return shutil.copy2(PROGRAMS / "forebay-mount", folder / "forebay-mount")

    def assert_runs(self, process, program):
        """Soon: a new process has its supervisor's program until it runs its own."""
        eventually(lambda: os.readlink(f"/proc/{process}/exe") == program, f"{process} runs {program}", 10)

    def test_a_new_program_takes_over_under_load(self):
        old, new = self.program("old"), self.program("new")
        self.take_sample()
        self.cluster.programs = self.folder / "old"
        mount = self.cluster.mount("data", "m1")
        self.cluster.programs = PROGRAMS
        self.assertEqual(os.readlink(f"/proc/{self.worker()}/exe"), str(old))
        load = self.load(mount)
        worker = self.worker()
        done = self.upgrade(new, mount)
        self.assertEqual((done.returncode, done.stderr), (0, ""), self.log_of())
        self.assertIn("is now served by forebay-mount", done.stdout)
        self.assert_runs(self.worker(after=worker), str(new))
        # What comes after it is of the new program too, wherever that file has gone.
        os.unlink(new)
        successor = self.kill_worker()
        self.assert_runs(successor, f"{new} (deleted)")
        past = load.done()
        eventually(lambda: load.done() > past + 10, "reads go on")
        self.assert_unharmed(load, "an upgrade and a kill")

    def test_what_cannot_take_over_changes_nothing(self):
        mount = self.sample()
        worker = self.worker()
        # A program of another format, as an old supervisor sees it.
        sockets = list((self.folder / "run").glob("mount-*.sock"))
        self.assertEqual([path.stat().st_mode & 0o777 for path in sockets], [0o600])
        key, version = b"999", b"9.9"
        message = struct.pack("<IIII", 0x59425246, 1, len(key), len(version)) + key + version
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(str(sockets[0]))
            socket.send_fds(asking, [message], [0])
            answer = asking.recv(100_000)
        self.assertIn(b"refused", answer)
        self.assertIn(b"unmount it and mount it again", answer)
        # A program that is none of ours.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking, open("/bin/true", "rb") as program:
            asking.connect(str(sockets[0]))
            message = struct.pack("<IIII", 0x59425246, 1, 1, 1) + b"1" + b"x"
            socket.send_fds(asking, [message], [program.fileno()])
            answer = asking.recv(100_000)
        self.assertIn(b"ended with code 0", answer)
        self.assertEqual(self.worker(), worker)
        self.assertEqual((mount / "d1/s0001.bin").read_bytes(), objects(SMALL, LARGE)["d1/s0001.bin"])
        nowhere = self.upgrade(PROGRAMS / "forebay-mount", self.folder)
        self.assertEqual(nowhere.returncode, 1)
        self.assertIn("no forebay-mount of this user serves", nowhere.stderr)


if __name__ == "__main__":
    main()
