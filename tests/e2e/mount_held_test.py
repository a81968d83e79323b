#!/usr/bin/python3
"""A mount in a container: it goes on when all processes of the container are killed at once, and when another container
takes its place, since a holder (`forebay-mount --hold`) outside of it keeps its descriptors. A container is played by a
process-id namespace and a mount namespace of its own, whose mounts are seen by all, as with bidirectional propagation.

FOREBAY_KILLS is how often each series under load kills it (4 unless set)."""

import os
import signal
import subprocess
import sys
import time

from e2e import PROGRAMS, Daemon, drop_page_cache, eventually, main
from kept_mount import KeptMountTest, OpenFile
from mixed_reader import objects
from mount_state import mounts_below, worker_of
from supervisor_test import LARGE, SMALL, STALL_MAX_SECONDS

_MOUNTS = ("unshare", "--mount", "--propagation", "unchanged")
_NO_MOUNTS = ("unshare", "--mount", "--propagation", "private")


class MountHeldTest(KeptMountTest):
    RUN = (*_MOUNTS, "--pid", "--fork", "--kill-child", "--mount-proc")

    def setUp(self):
        super().setUp()
        subprocess.run(["mount", "--bind", self.folder, self.folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.folder], check=True)
        subprocess.run(["mount", "--make-shared", self.folder], check=True)
        self.socket = self.folder / "hold/socket"
        self.start_holder()
        self.descriptors = self.descriptors_of_holder()

    def start_holder(self, how=_MOUNTS):
        self.holder = Daemon("holder", [*how, PROGRAMS / "forebay-mount", "--hold", self.socket],
                             self.cluster.client_env, self.folder / "holder.log").start()
        self.addCleanup(self.holder.kill)

    def descriptors_of_holder(self):
        return len(os.listdir(f"/proc/{self.holder.pid}/fd"))

    def service(self, *options, **how):
        return super().service("--held-by", self.socket, *options, store=False, **how)

    def supervisor_in(self, service):
        return eventually(lambda: worker_of(service.pid), "process 1 of the container", 30)

    def kept(self, service):
        """With the line to whoever serves it."""
        return self.descriptors_of_holder() - self.descriptors

    def stop(self, service, mount):
        subprocess.run(["umount", mount], check=True)
        self.assertEqual(service.end(), 0)
        eventually(lambda: self.kept(service) == 0, "nothing is held", 10)

    def kill(self, service):
        """Process 1, and with it the container."""
        supervisor, worker = self.supervisor_in(service), self.worker_in(service)
        self.assertNotEqual(service.end((supervisor, signal.SIGKILL)), 0)
        self.assertFalse(os.path.exists(f"/proc/{worker}"))

    def rest(self, service):
        self.assertEqual(service.end((self.supervisor_in(service), signal.SIGTERM)), 0, service.log.read_text()[-3000:])
        self.assertGreater(self.kept(service), 2)

    def log_of_holder(self):
        return (self.folder / "holder.log").read_text()

    def spell(self, service, old, new):
        """How its mount point is written from the next start on."""
        service.command[service.command.index(str(old))] = str(new)

    def assert_reads(self, mount, name="d1/s0001.bin"):
        drop_page_cache()
        self.assertEqual((mount / name).read_bytes(), objects(SMALL, LARGE)[name])


class UnderLoad(MountHeldTest):
    def test_no_reader_sees_a_kill_of_the_container_in_small_mode(self):
        self.under_load("small", self.kill, "container killed")

    def test_nor_in_large_mode(self):
        self.under_load("large", self.kill, "container killed")

    def test_nor_that_another_container_takes_its_place(self):
        self.under_load("small", self.rest, "container replaced")

    def test_nor_a_kill_of_the_holder(self):
        service, mount = self.sample_service()
        load = self.load(mount)
        self.holder.kill()
        eventually(lambda: "has gone or does not answer: the mount goes on" in service.log.read_text(), "the supervisor says so", 30)
        self.start_holder()
        eventually(lambda: "is held again" in service.log.read_text(), "the next one has the mount", 30)
        self.kill(service)
        service.start()
        done = load.done()
        eventually(lambda: load.done() > done + 10, "reads go on", 30)
        self.assert_unharmed(load, "holder and container killed, one after the other")
        self.stop(service, mount)
        self.assertEqual(mounts_below(mount), {})


class WhatGoesOn(MountHeldTest):
    def test_open_files_where_the_file_system_of_the_container_is_a_new_one(self):
        def lose_state(service):
            """What an earlier container wrote is not there."""
            state = service.command.index("--state-dir") + 1
            service.command[state] = str(self.folder / "other.state")

        service, mount = self.read_on_over_a_kill(lose_state)
        self.put_newer(mount, b"newer")
        self.stop(service, mount)

    def test_open_files_however_the_mount_point_is_written(self):
        self.take_sample()
        service, mount = self.service()
        name = "d1/s0001.bin"
        old = objects(SMALL, LARGE)[name]
        spelled = f"{mount.parent}//./{mount.name}/"
        self.spell(service, mount, spelled)
        service.start()
        file = OpenFile(self, mount / name)
        for now, then in ((spelled, mount), (mount, spelled)):
            self.kill(service)
            self.spell(service, now, then)
            service.start()
            drop_page_cache()
            self.assertEqual(file.read(len(old)), old)
        self.assertNotIn("another mount", service.log.read_text())
        file.close()
        self.stop(service, mount)

    def test_a_holder_that_is_stopped_and_goes_on(self):
        service, mount = self.sample_service(changes=True)
        file = OpenFile(self, mount / "d2/s0002.bin")
        self.holder.kill(signal.SIGSTOP)
        self.addCleanup(self.holder.kill, signal.SIGCONT)
        # A new listing is a descriptor that it is to take.
        self.put({"d1/s0001.bin": b"new"})
        self.cluster.cli("refresh", "data")
        eventually(lambda: "does not answer: the mount goes on" in service.log.read_text(), "the supervisor says so", 30)
        worker = self.worker_in(service)
        os.kill(worker, signal.SIGKILL)
        killed = time.monotonic()
        self.assertEqual((mount / "d1/s0001.bin").read_bytes(), b"new")
        self.assertLess(time.monotonic() - killed, STALL_MAX_SECONDS)
        self.holder.kill(signal.SIGCONT)
        eventually(lambda: "is held again" in service.log.read_text(), "it has the mount again", 30)
        self.kill(service)
        service.start()
        drop_page_cache()
        old = objects(SMALL, LARGE)["d2/s0002.bin"]
        self.assertEqual(file.read(len(old)), old)
        file.close()
        self.stop(service, mount)

    def test_two_mounts_of_one_holder(self):
        one, first = self.sample_service()
        two, second = self.service(name="m2")
        two.start()
        for service in (one, two):
            self.kill(service)
        for service in (two, one):
            service.start()
        self.assert_reads(first)
        self.assert_reads(second)
        for service, mount in ((one, first), (two, second)):
            subprocess.run(["umount", mount], check=True)
            self.assertEqual(service.end(), 0)
        eventually(lambda: self.kept(one) == 0, "nothing is held", 10)

    def test_every_link_of_all(self):
        self.put({"x/one": b"1", "y/two": b"22"})
        self.start()
        self.link("x", "x/")
        self.link("y", "y/")
        service, mount = self.service(source="/", name="all")
        service.start()
        one, two = OpenFile(self, mount / "x/one"), OpenFile(self, mount / "y/two")
        for fault in (self.kill, self.rest):
            fault(service)
            service.start()
            drop_page_cache()
            self.assertEqual((one.read(1), two.read(2)), (b"1", b"22"))
        one.close()
        two.close()
        self.rest(service)
        self.assertEqual(len(mounts_below(mount)), 3)
        self.assertEqual(self.holder.stop(), 0)
        self.assertEqual(mounts_below(mount), {})

    def test_a_served_mount_when_the_holder_alone_is_stopped(self):
        service, mount = self.sample_service()
        self.assertEqual(self.holder.stop(), 0)
        self.assertIn("goes on without a holder", self.log_of_holder())
        self.assert_reads(mount)
        # Nobody would keep it.
        self.assertEqual(service.end((self.supervisor_in(service), signal.SIGTERM)), 0)
        self.assertEqual(mounts_below(mount), {})


class Ends(MountHeldTest):
    def test_a_holder_that_ends_unmounts_what_nobody_serves(self):
        service, mount = self.sample_service()
        self.rest(service)
        self.assertEqual(len(mounts_below(mount)), 1)
        self.assertEqual(self.holder.stop(), 0)
        self.assertEqual(mounts_below(mount), {})

    def test_a_holder_that_does_not_see_the_mount_says_so(self):
        self.holder.kill()
        self.start_holder(_NO_MOUNTS)
        service, mount = self.sample_service()
        self.rest(service)
        self.assertEqual(self.holder.stop(), 0)
        self.assertIn(f"this process sees no mount of forebay at {mount}", self.log_of_holder())
        self.assertNotIn(f"{mount} is unmounted", self.log_of_holder())
        self.assertEqual(len(mounts_below(mount)), 1)

    def test_what_is_unmounted_while_nobody_serves_it_is_let_go(self):
        service, mount = self.sample_service()
        self.kill(service)
        subprocess.run(["umount", "-l", mount], check=True)
        eventually(lambda: self.kept(service) == 0, "nothing is held", 30)
        self.assertIn(f"{mount} was unmounted while nobody served it", self.log_of_holder())
        service.start()
        self.assert_reads(mount)
        self.stop(service, mount)

    def test_a_hang_up_does_not_end_a_holder(self):
        service, mount = self.sample_service()
        self.holder.kill(signal.SIGHUP)
        self.kill(service)
        service.start()
        self.assertNotIn("has gone", service.log.read_text())
        self.assert_reads(mount)
        self.stop(service, mount)
        self.assertEqual(self.holder.stop(), 0)

    def test_the_end_of_all_containers_at_once_unmounts(self):
        service, mount = self.sample_service()
        self.holder.begin_stop()
        self.assertEqual(service.end((self.supervisor_in(service), signal.SIGTERM)), 0)
        self.assertEqual(self.holder.end_stop(), 0)
        self.assertEqual(mounts_below(mount), {})

    def test_a_mount_whose_holder_is_not_there_does_not_start(self):
        self.take_sample()
        self.assertEqual(self.holder.stop(), 0)
        service, mount = self.service()
        with self.assertRaises(AssertionError):
            service.start()
        self.assertEqual(service.process.wait(30), 2)
        log = service.log.read_text()
        self.assertIn(f"no process holds mounts at {self.socket}", log)
        self.assertIn(f"start `forebay-mount --hold {self.socket}` first", log)
        self.assertEqual(mounts_below(mount), {})

    def test_a_second_one_does_not_take_it(self):
        service, mount = self.sample_service()
        second = subprocess.run([PROGRAMS / "forebay-mount", "data", mount, "--held-by", self.socket, "--coordinator",
                                 self.cluster.address, "--state-dir", self.folder / "state"], env=self.cluster.client_env,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((second.returncode, second.stdout), (1, ""))
        self.assertIn("is served by another forebay-mount", second.stderr)
        self.assert_reads(mount)
        self.stop(service, mount)

    def test_another_link_does_not_take_it_and_does_not_leave_it_either(self):
        service, mount = self.sample_service()
        self.link("other")
        self.kill(service)
        service.command[service.command.index("data")] = "other"
        service.start()
        self.assertIn("is another mount than", service.log.read_text())
        self.assert_reads(mount)
        self.assertEqual([source for source, _ in mounts_below(mount).values()], ["other"])
        self.stop(service, mount)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: a container mounts as root", file=sys.stderr)
        sys.exit(77)
    main()
