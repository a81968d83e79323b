#!/usr/bin/python3
"""A mount that is a service: it goes on when its supervisor and its worker are killed together, and when the service is
restarted, since the service manager keeps its descriptors. played_service.py is that manager.

FOREBAY_KILLS is how often each series under load kills it (4 unless set)."""

import os
import signal
import subprocess
import sys

from e2e import drop_page_cache, eventually, main
from kept_mount import KeptMountTest, OpenFile
from mount_state import mounts_below, worker_of


class MountServiceTest(KeptMountTest):
    def kept(self, service):
        return len(service.kept)

    def stop(self, service, mount):
        self.assertEqual(service.end((service.pid, signal.SIGTERM)), 0)

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
        service, _ = self.read_on_over_a_kill()
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
