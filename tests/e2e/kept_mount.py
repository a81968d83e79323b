"""A mount that is started again while somebody keeps it, and goes on: what its tests share.

FOREBAY_KILLS is how often each series under load kills it (4 unless set)."""

import os
import random
import signal
import subprocess
import sys
import time

from e2e import PROGRAMS, drop_page_cache, eventually
from mixed_reader import objects
from mount_state import mounts_below, state_of, worker_of
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


class KeptMountTest(SupervisorTest):
    """A subclass says who keeps the mount: kept(), and how it ends for good: stop()."""

    RUN = ()  # what runs the program

    def service(self, *options, source="data", name="m1", **how):
        """A service that mounts; not started."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        folder = self.folder / f"{name}.service"
        folder.mkdir(exist_ok=True)
        command = [*self.RUN, PROGRAMS / "forebay-mount", source, path, "--foreground", "--coordinator",
                   self.cluster.address, "--state-dir", self.folder / f"{name}.state", "--job-id", name, *options]
        service = PlayedService(command, self.cluster.client_env, folder, **how)
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=False, stderr=subprocess.DEVNULL)
        self.addCleanup(service.close)
        return service, path

    def sample_service(self, *options, changes=False, **how):
        self.take_sample(changes)
        service, path = self.service(*options, **how)
        service.start()
        return service, path

    def kept(self, service):
        """How many descriptors are kept for it."""
        raise NotImplementedError

    def stop(self, service, mount):
        """Unmounts."""
        raise NotImplementedError

    def supervisor_in(self, service):
        return service.pid

    def worker_in(self, service):
        supervisor = self.supervisor_in(service)
        return eventually(lambda: worker_of(supervisor), "a worker", 30)

    def kill(self, service):
        """The whole of it, at once."""
        worker = self.worker_in(service)
        self.assertEqual(service.end((service.pid, signal.SIGKILL), (worker, signal.SIGKILL)), -signal.SIGKILL)
        # It has closed everything before anybody takes note of its end.
        eventually(lambda: state_of(worker) in (None, "Z"), "the worker has ended", 10)

    def under_load(self, mode, fault, what):
        service, mount = self.sample_service("--mode", mode)
        before = os.stat(mount)
        load = self.load(mount)
        rng = random.Random(KILLS)
        kept, faults = [], []
        for i in range(KILLS):
            # When in its life it is hit is left to chance: the fault, not a wait for anything.
            time.sleep(0.1 + 0.4 * rng.random())
            if i % 3 == 0:
                drop_page_cache()
            done = load.done()
            faults.append(time.monotonic())
            fault(service)
            service.start()
            eventually(lambda past=done: load.done() > past + 10, f"reads after fault {i}", 30)
            kept.append(self.kept(service))
        self.assert_unharmed(load, f"{mode} mode, {what}: {KILLS}", faults)
        now = os.stat(mount)
        self.assertEqual((now.st_dev, now.st_ino), (before.st_dev, before.st_ino), "it is the same mount")
        self.assertEqual((mount / ".forebay/errors").read_text(), "")
        self.assertEqual(len(set(kept[1:])), 1, f"what is kept does not grow: {kept}")
        self.stop(service, mount)
        self.assertEqual((mounts_below(mount), self.kept(service)), ({}, 0))

    def put_newer(self, mount, content, name="d1/s0001.bin"):
        """Replaces an object and waits until the mount shows it."""
        self.put({name: content})
        self.cluster.cli("refresh", "data")
        eventually(lambda: (mount / name).read_bytes() == content, f"{content} is shown", 15)

    def read_on_over_a_kill(self, meanwhile=lambda service: None):
        """A file that was open before its object was replaced keeps its bytes over a kill; answers service and mount."""
        service, mount = self.sample_service(changes=True)
        name = "d1/s0001.bin"
        old = objects(SMALL, LARGE)[name]
        replaced = OpenFile(self, mount / name)
        self.assertEqual(replaced.read(len(old)), old)  # the node has it
        self.put_newer(mount, b"new", name)
        self.kill(service)
        meanwhile(service)
        service.start()
        drop_page_cache()
        self.assertEqual(replaced.read(len(old)), old)
        self.assertEqual((mount / name).read_bytes(), b"new")
        replaced.close()
        return service, mount
