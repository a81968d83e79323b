#!/usr/bin/python3
"""A mount that is a service: it goes on when its supervisor and its worker are killed together, and when the service is
restarted, since the service manager keeps its descriptors. played_service.py is that manager.

FOREBAY_KILLS is how often each series under load kills it (4 unless set)."""

import os
import random
import signal
import subprocess
import sys
import time

from e2e import PROGRAMS, drop_page_cache, eventually, main
from mixed_reader import objects
from mount_state import mounts_below, worker_of
from played_service import PlayedService
from supervisor_test import LARGE, SMALL, SupervisorTest

KILLS = int(os.environ.get("FOREBAY_KILLS", "4"))


class OpenFile:
    """A file that another process holds open: the one that starts services must not, for its children close what they
    inherit, a close of such a file asks the mount, and the mount is what they are about to serve."""

    _HOLD = ("import os, sys\n"
             "file = os.open(sys.argv[1], os.O_RDONLY)\n"
             "for size in sys.stdin:\n"
             "    sys.stdout.buffer.write(os.pread(file, int(size), 0))\n"
             "    sys.stdout.buffer.flush()\n")

    def __init__(self, test, path):
        self.process = subprocess.Popen([sys.executable, "-c", self._HOLD, str(path)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=0)
        test.addCleanup(self.close)

    def read(self, size):
        """The first `size` bytes, of which there are as many."""
        self.process.stdin.write(f"{size}\n".encode())
        found = b""
        while len(found) < size:
            more = self.process.stdout.read(size - len(found))
            if not more:
                raise AssertionError(f"the file has {len(found)} bytes")
            found += more
        return found

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


class MountServiceTest(SupervisorTest):
    def service(self, *options, source="data", name="m1", **how):
        """A service that mounts; not started."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        folder = self.folder / f"{name}.service"
        folder.mkdir(exist_ok=True)
        command = [PROGRAMS / "forebay-mount", source, path, "--foreground", "--coordinator", self.cluster.address,
                   "--state-dir", self.folder / f"{name}.state", "--job-id", name, *options]
        service = PlayedService(command, self.cluster.client_env, folder, **how)
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=False, stderr=subprocess.DEVNULL)
        self.addCleanup(service.close)
        return service, path

    def sample_service(self, *options, changes=False, **how):
        self.take_sample(changes)
        service, path = self.service(*options, **how)
        service.start()
        return service, path

    @staticmethod
    def worker_in(service):
        return eventually(lambda: worker_of(service.pid), "a worker", 30)

    def kill(self, service):
        """The whole of it, at once."""
        worker = self.worker_in(service)
        self.assertEqual(service.end((service.pid, signal.SIGKILL), (worker, signal.SIGKILL)), -signal.SIGKILL)
        eventually(lambda: not os.path.exists(f"/proc/{worker}"), "the worker has gone", 10)

    def under_load(self, mode, fault, what):
        service, mount = self.sample_service("--mode", mode)
        before = os.stat(mount)
        load = self.load(mount)
        rng = random.Random(KILLS)
        kept = []
        for i in range(KILLS):
            # When in its life it is hit is left to chance: the fault, not a wait for anything.
            time.sleep(0.1 + 0.4 * rng.random())
            if i % 3 == 0:
                drop_page_cache()
            done = load.done()
            fault(service)
            service.start()
            eventually(lambda past=done: load.done() > past + 10, f"reads after fault {i}", 30)
            kept.append(len(service.kept))
        self.assert_unharmed(load, f"{mode} mode, {what}: {KILLS}")
        now = os.stat(mount)
        self.assertEqual((now.st_dev, now.st_ino), (before.st_dev, before.st_ino), "it is the same mount")
        self.assertEqual((mount / ".forebay/errors").read_text(), "")
        self.assertEqual(len(set(kept[1:])), 1, f"what is kept does not grow: {kept}")
        self.assertEqual(service.end((service.pid, signal.SIGTERM)), 0)
        self.assertEqual((mounts_below(mount), service.kept), ({}, {}))

    def rest(self, service):
        self.assertEqual(service.end((service.pid, signal.SIGUSR2)), 0, service.log.read_text()[-3000:])
        self.assertGreater(len(service.kept), 0)


class UnderLoad(MountServiceTest):
    def test_no_reader_sees_a_kill_of_all_of_it_in_small_mode(self):
        self.under_load("small", self.kill, "supervisor and worker killed")

    def test_nor_in_large_mode(self):
        self.under_load("large", self.kill, "supervisor and worker killed")

    def test_nor_a_restart_of_the_service(self):
        self.under_load("small", self.rest, "restarts of the service")


class WhatGoesOn(MountServiceTest):
    def test_open_files_of_earlier_listings(self):
        service, mount = self.sample_service(changes=True)
        name = "d1/s0001.bin"
        old = objects(SMALL, LARGE)[name]
        replaced = OpenFile(self, mount / name)
        self.assertEqual(replaced.read(len(old)), old)  # the node has it
        self.put({name: b"new"})
        self.cluster.cli("refresh", "data")
        eventually(lambda: (mount / name).read_bytes() == b"new", "the new version is shown", 15)
        self.kill(service)
        service.start()
        drop_page_cache()
        self.assertEqual(replaced.read(len(old)), old)
        self.assertEqual((mount / name).read_bytes(), b"new")
        replaced.close()
        service.end((service.pid, signal.SIGTERM))

    def test_every_link_of_all(self):
        self.put({"x/one": b"1", "y/two": b"22"})
        self.start()
        self.link("x", "x/")
        self.link("y", "y/")
        service, mount = self.service(source="/", name="all")
        service.start()
        one, two = OpenFile(self, mount / "x/one"), OpenFile(self, mount / "y/two")
        for fault in (self.kill, self.rest, self.kill):
            fault(service)
            service.start()
            drop_page_cache()
            self.assertEqual((one.read(1), two.read(2)), (b"1", b"22"))
        one.close()
        two.close()
        self.assertEqual(service.end((service.pid, signal.SIGTERM)), 0)
        self.assertEqual((mounts_below(mount), service.kept), ({}, {}))

    def test_other_numbers_of_threads_and_other_workers_than_before(self):
        service, mount = self.sample_service("--threads", "2")
        self.kill(service)
        service.command[service.command.index("--threads") + 1] = "4"
        service.start()
        self.assertIn("with 2 threads until it is mounted anew", service.log.read_text())
        worker = self.worker_in(service)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: (worker_of(service.pid) or worker) != worker, "the next worker", 30)
        self.assertEqual(len((mount / "d1/s0001.bin").read_bytes()), 30_000)
        service.end((service.pid, signal.SIGTERM))


class WhatDoesNot(MountServiceTest):
    def test_what_was_unmounted_meanwhile_is_mounted_anew(self):
        service, mount = self.sample_service()
        self.kill(service)
        subprocess.run(["umount", "-l", mount], check=True)
        service.start()
        self.assertIn("has been unmounted", service.log.read_text())
        self.assertEqual(len((mount / "d1/s0001.bin").read_bytes()), 30_000)
        self.assertEqual(service.end((service.pid, signal.SIGTERM)), 0)
        self.assertEqual((mounts_below(mount), service.kept), ({}, {}))

    def test_another_mount_does_not_take_it_and_does_not_leave_it_either(self):
        service, mount = self.sample_service()
        other = self.folder / "m2"
        other.mkdir()
        self.addCleanup(subprocess.run, ["umount", "-l", other], check=False, stderr=subprocess.DEVNULL)
        self.kill(service)
        service.command[service.command.index(str(mount))] = str(other)
        service.start()
        self.assertIn("is another mount than", service.log.read_text())
        self.assertEqual(len((other / "d1/s0001.bin").read_bytes()), 30_000)
        self.assertEqual(mounts_below(mount), {})
        self.assertEqual(service.end((service.pid, signal.SIGTERM)), 0)
        self.assertEqual((mounts_below(other), service.kept), ({}, {}))

    def test_an_unmount_ends_the_service_and_leaves_nothing(self):
        service, mount = self.sample_service()
        subprocess.run(["umount", mount], check=True)
        self.assertEqual(service.end(), 0)
        self.assertEqual(service.kept, {})

    def test_where_nobody_keeps_it_the_signal_of_a_restart_changes_nothing(self):
        service, mount = self.sample_service(store=False)
        os.kill(service.pid, signal.SIGUSR2)
        eventually(lambda: "SIGUSR2 leaves a mount" in service.log.read_text(), "it says so", 10)
        self.assertEqual(len((mount / "d1/s0001.bin").read_bytes()), 30_000)
        self.assertEqual(service.end((service.pid, signal.SIGTERM)), 0)
        self.assertEqual(service.kept, {})

    def test_the_watchdog_hears_of_the_process_that_serves(self):
        service, _ = self.sample_service(watchdog_usec=1_000_000)
        worker = self.worker_in(service)
        eventually(lambda: worker in service.fed_by, "the worker says that it works", 10)
        service.end((service.pid, signal.SIGTERM))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: a service mounts as root", file=sys.stderr)
        sys.exit(77)
    main()
