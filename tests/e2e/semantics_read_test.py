#!/usr/bin/python3
"""docs/SEMANTICS.md, the first half: reading, errors, the life of a mount."""

import array
import contextlib
import errno
import fcntl
import json
import mmap
import os
import pathlib
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
from unittest import mock

import numpy

from e2e import OWN_CRASHES, drop_page_cache, eventually, held_in_page_cache, is_dead, main, pages_in_page_cache
from semantics import LARGE, MANY, SMALL, Semantics, made_bytes

TESTS = pathlib.Path(os.environ.get("FOREBAY_TESTS", "build/release/tests")).resolve()


def running(pid):
    """False while it waits in a system call."""
    with open(f"/proc/{pid}/syscall", encoding="ascii") as call:
        return call.read().startswith("running")


class Reading(Semantics):
    """Through the page cache."""

    MODE = "small"
    FILES = {"a/small": made_bytes(1, SMALL), "large": made_bytes(2, LARGE), "empty": b"",
             **{f"many/f{i:03d}": b"%d" % i for i in range(MANY)}}

    def test_every_byte(self):
        generator = random.Random(7)
        with open(self.mount / "large", "rb", buffering=0) as file:
            for _ in range(300):
                offset, size = generator.randrange(LARGE), generator.randrange(1, 300_000)
                self.assertEqual(os.pread(file.fileno(), size, offset), self.files["large"][offset:offset + size])
        self.assertEqual((self.mount / "a/small").read_bytes(), self.files["a/small"])

    def test_short_reads(self):
        with open(self.mount / "large", "rb", buffering=0) as file:
            self.assertEqual(len(os.pread(file.fileno(), 5 << 20, 1)), 5 << 20)
            self.assertEqual(len(os.pread(file.fileno(), 1000, LARGE - 7)), 7)
            self.assertEqual(os.pread(file.fileno(), 1000, LARGE), b"")
            self.assertEqual(os.pread(file.fileno(), 1000, LARGE + 5000), b"")

    def test_memory_maps(self):
        with open(self.mount / "large", "rb") as file:
            for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
                with mmap.mmap(file.fileno(), 0, flags, mmap.PROT_READ) as mapped:
                    self.assertEqual(mapped[:], self.files["large"])
            # A private map may be written: the file stays as it is.
            with mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapped:
                mapped[:5] = b"xxxxx"
            self.assertEqual(os.pread(file.fileno(), 5, 0), self.files["large"][:5])

    def test_arrays_in_maps(self):
        """Mapped by name, shared, and looked at here and there by element: first as Arrow does it, whose Python is no package of
        Debian; then numpy.memmap itself."""
        words = array.array("q", self.files["large"][:LARGE // 8 * 8])
        drop_page_cache()
        generator = random.Random(9)
        with open(self.mount / "large", "rb") as file:
            mapped = mmap.mmap(file.fileno(), len(words) * 8, mmap.MAP_SHARED, mmap.PROT_READ)
        # The file is closed; the map stays. Copies of what it shows are made by nobody but the reader.
        with mapped, memoryview(mapped).cast("q") as view:
            self.assertEqual(len(view), len(words))
            for _ in range(200):
                at = generator.randrange(len(words) - 1000)
                self.assertEqual(view[at], words[at])
                self.assertEqual(view[at:at + 1000].tolist(), words[at:at + 1000].tolist())
            with self.assertRaises(TypeError):
                view[0] = 1
        by_name = numpy.memmap(self.mount / "large", dtype="<i8", mode="r", shape=(len(words),))
        self.assertEqual(by_name[::4099].tolist(), list(words[::4099]))
        self.assertEqual(int(by_name.max()), max(words))
        del by_name

    def test_io_uring(self):
        for options in ((), ("direct",)):
            drop_page_cache()
            done = subprocess.run([TESTS / "uring_reader", self.mount / "large", *options], capture_output=True, check=False)
            if done.returncode == 77:
                self.skipTest(f"io_uring cannot be tried here: {done.stderr.decode().strip()}")
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertTrue(done.stdout == self.files["large"], options)

    def test_sendfile_and_splice(self):
        here, there = socket.socketpair()
        received = bytearray()

        def receive():
            while part := there.recv(1 << 20):
                received.extend(part)

        reader = threading.Thread(target=receive)
        reader.start()
        with here, open(self.mount / "large", "rb") as file:
            sent = 0
            while part := os.sendfile(here.fileno(), file.fileno(), sent, LARGE):
                sent += part
        reader.join()
        there.close()
        self.assertEqual(bytes(received), self.files["large"])
        with open(self.mount / "a/small", "rb") as file:
            out, into = os.pipe()
            spliced = os.splice(file.fileno(), into, 4096, offset_src=100)
            self.assertEqual(os.read(out, 4096), self.files["a/small"][100:100 + spliced])
            self.assertGreater(spliced, 0)
            os.close(out)
            os.close(into)

    def test_direct_io(self):
        drop_page_cache()
        before, times = self.fuse_ops("m").get("read", 0), 3
        fd = os.open(self.mount / "large", os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, 1 << 20) as buffer:
            for _ in range(times):
                got = os.preadv(fd, [buffer], 4 << 20)
                self.assertEqual(buffer[:got], self.files["large"][4 << 20:5 << 20])
        os.close(fd)
        self.assertEqual(self.fuse_ops("m")["read"] - before, times, "each time the mount is asked, for the MiB")
        self.assertEqual(pages_in_page_cache(self.mount / "large"), 0)

    def test_page_cache(self):
        self.assertFalse(self.direct_reads("m"))
        with held_in_page_cache([self.mount / "a/small"]):
            before = self.fuse_ops("m")["read"]
            for _ in range(10):
                (self.mount / "a/small").read_bytes()
            self.assertEqual(self.fuse_ops("m")["read"], before)
            self.assertEqual(pages_in_page_cache(self.mount / "a/small"), -(-SMALL // mmap.PAGESIZE))

    def test_fork(self):
        with open(self.mount / "large", "rb", buffering=0) as file:
            file.seek(1000)
            child = os.fork()
            if child == 0:
                os._exit(0 if file.read(1000) == self.files["large"][1000:2000] else 1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            # One offset for both, as on any file system.
            self.assertEqual(file.read(1000), self.files["large"][2000:3000])

    def test_many_open_files(self):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(most[0], 20_000), max(most[1], 20_000)))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, most)
        fds = [os.open(self.mount / f"many/f{i % MANY:03d}", os.O_RDONLY) for i in range(10_000)]
        try:
            for i, fd in enumerate(fds):
                self.assertEqual(os.pread(fd, 10, 0), b"%d" % (i % MANY))
        finally:
            for fd in fds:
                os.close(fd)

    def test_many_readers(self):
        drop_page_cache()
        bad = []

        def reader(seed):
            generator = random.Random(seed)
            with open(self.mount / "large", "rb", buffering=0) as file:
                for _ in range(30):
                    offset = generator.randrange(LARGE)
                    if os.pread(file.fileno(), 100_000, offset) != self.files["large"][offset:offset + 100_000]:
                        bad.append((seed, offset))

        threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(bad, [])

    def test_empty_files(self):
        self.assertEqual((self.mount / "empty").read_bytes(), b"")
        self.assertEqual((os.stat(self.mount / "empty").st_size, os.stat(self.mount / "empty").st_blocks), (0, 0))
        gets = self.gets()["gets"]
        drop_page_cache()
        (self.mount / "empty").read_bytes()
        self.assertEqual(self.gets()["gets"], gets)

    def test_no_holes(self):
        with open(self.mount / "a/small", "rb") as file:
            self.assertEqual(os.lseek(file.fileno(), 0, os.SEEK_DATA), 0)
            self.assertEqual(os.lseek(file.fileno(), 0, os.SEEK_HOLE), SMALL)

    def test_locks(self):
        with open(self.mount / "empty", "rb") as mine, open(self.mount / "empty", "rb") as other:
            fcntl.flock(mine, fcntl.LOCK_EX)
            self.assert_errno(errno.EWOULDBLOCK, fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(mine, fcntl.LOCK_UN)
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


class ReadingLarge(Reading):
    """The same past the page cache."""

    MODE = "large"

    test_page_cache = None  # the one that differs

    def test_large_mode(self):
        self.assertTrue(self.direct_reads("m"), "this kernel has no FUSE_DIRECT_IO_ALLOW_MMAP (Linux 6.6)")
        drop_page_cache()
        before, times = self.fuse_ops("m"), 2
        size = len(self.files["large"])
        with open(self.mount / "large", "rb", buffering=0) as file:
            self.assertEqual(os.fstat(file.fileno()).st_blksize, 1 << 20)
            with mmap.mmap(-1, 1 << 20) as buffer:  # on a page's boundary
                for offset in [*range(0, size, 1 << 20)] * times:
                    got = os.preadv(file.fileno(), [buffer], offset)
                    self.assertEqual(buffer[:got], self.files["large"][offset:offset + got])
        after = self.fuse_ops("m")
        self.assertEqual(after["read"] - before["read"], times * -(-size // (1 << 20)), "one message for each MiB, each time")
        self.assertEqual(after["open"] - before["open"], 1)
        self.assertEqual(pages_in_page_cache(self.mount / "large"), 0, "nothing of it is kept by the kernel")
        # A second time the mount is asked again, also with the pages in memory.
        with held_in_page_cache([self.mount / "a/small"]):
            before = self.fuse_ops("m")["read"]
            for _ in range(3):
                self.assertEqual((self.mount / "a/small").read_bytes(), self.files["a/small"])
            self.assertGreaterEqual(self.fuse_ops("m")["read"], before + 3)


class Modes(Semantics):
    FILES = {"big/shard": made_bytes(3, LARGE), "little/a": made_bytes(4, SMALL), "little/b": made_bytes(5, SMALL)}

    def test_modes(self):
        self.cluster.cli("link", f"s3://{self.bucket}/little/", "--as", "little")
        for name, source, options, large in (
                ("auto", "data", (), True), ("little", "little", (), False),
                ("small", "data", ("--mode", "small"), False), ("large", "little", ("--mode", "large"), True)):
            mount = self.another_mount(source, name, *options)
            config = json.loads((mount / ".forebay/config").read_text())
            self.assertEqual((config["mode"], config["direct_reads"]), ("large" if large else "small", large), name)
            if large:
                self.assertIn("direct_io_allow_mmap", config["kernel_features"])
            below = "" if source == "little" else "little/"
            self.assertEqual((mount / f"{below}a").read_bytes(), self.files["little/a"])
        self.assertEqual((self.mount / "big/shard").read_bytes(), self.files["big/shard"])


class Errors(Semantics):
    MODE = "small"
    FILES = {"stays": made_bytes(1, SMALL), "warm": made_bytes(2, SMALL), "changes": b"before" * 1000,
             "goes": b"going" * 1000, **{f"cold{i}": made_bytes(i, SMALL) for i in range(8)}}
    LINK_OPTIONS = ("--refresh", "immutable")  # any other would be listed again where an object has changed

    def cold_reader(self, path, prepare=""):
        """A process that reads a file with read(2) itself, and says what it got: "SIZE" or "errno N"."""
        program = (f"import ctypes, os, signal\n{prepare}\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                   f"fd = os.open({str(path)!r}, os.O_RDONLY)\nbuffer = ctypes.create_string_buffer({SMALL})\n"
                   f"print('reading', flush=True)\ngot = libc.read(fd, buffer, {SMALL})\n"
                   "print(got if got >= 0 else f'errno {ctypes.get_errno()}', flush=True)\n")
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "reading\n")
        return process

    def without_s3(self):
        """Until the function that it answers is called, or the test ends."""
        self.rgw.off()
        door = contextlib.ExitStack()
        door.callback(self.rgw.on)
        self.addCleanup(door.close)
        return door.close

    def test_changed_objects_are_stale(self):
        self.s3.put_object(Bucket=self.bucket, Key="changes", Body=b"after!" * 1000)
        self.s3.delete_object(Bucket=self.bucket, Key="goes")
        self.assert_errno(errno.ESTALE, (self.mount / "changes").read_bytes)
        self.assert_errno(errno.ESTALE, (self.mount / "goes").read_bytes)
        for name in ("changes", "goes"):
            self.assertRegex(self.errors_of(self.mount), f'ESTALE "{name}" ')

    def test_cached_versions_read_on(self):
        self.assertEqual((self.mount / "warm").read_bytes(), self.files["warm"])
        self.s3.put_object(Bucket=self.bucket, Key="warm", Body=b"new")
        drop_page_cache()
        self.assertEqual((self.mount / "warm").read_bytes(), self.files["warm"])

    def test_eio_has_a_reason(self):
        mount = self.another_mount("data", "impatient", "--s3-timeout", "2s")
        self.without_s3()
        self.assert_errno(errno.EIO, (mount / "cold0").read_bytes)
        line = next(line for line in self.errors_of(mount).splitlines() if '"cold0"' in line)
        self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ EIO \"cold0\" \d+x \w+: .+")
        self.assertIn('EIO for "cold0"', self.cluster.mounts["impatient"].log.read_text())

    def test_errors_survive_a_restart(self):
        mount = self.another_mount("data", "again", "--s3-timeout", "1s")
        s3_is_back = self.without_s3()
        self.assert_errno(errno.EIO, (mount / "cold1").read_bytes)
        s3_is_back()
        before = self.errors_of(mount)
        self.assertEqual(self.cluster.unmount("again"), 0)
        mount = self.another_mount("data", "again")
        self.assertEqual(self.errors_of(mount), before)

    def test_cold_reads_wait_for_s3(self):
        s3_is_back = self.without_s3()
        reader = self.cold_reader(self.mount / "cold2")
        with self.assertRaises(subprocess.TimeoutExpired):
            reader.wait(4)
        s3_is_back()
        self.assertEqual(reader.stdout.readline(), f"{SMALL}\n")

    def test_waiting_readers_can_be_killed(self):
        self.without_s3()
        for number, name in ((signal.SIGKILL, "cold3"), (signal.SIGTERM, "cold4")):
            reader = self.cold_reader(self.mount / name)
            eventually(lambda pid=reader.pid: not running(pid), "it waits in read(2)")
            reader.send_signal(number)
            self.assertEqual(reader.wait(5), -number)

    def test_signals_with_handlers(self):
        s3_is_back = self.without_s3()
        reader = self.cold_reader(self.mount / "cold5",
                                  "signal.signal(signal.SIGALRM, lambda *_: None)\n"
                                  "signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)")
        with self.assertRaises(subprocess.TimeoutExpired):
            reader.wait(2)
        s3_is_back()
        self.assertEqual(reader.stdout.readline(), f"{SMALL}\n")

    def test_names_without_s3(self):
        self.without_s3()
        self.assertEqual(len(os.listdir(self.mount)), len(self.files))
        self.assertEqual(os.stat(self.mount / "cold6").st_size, SMALL)
        self.assert_errno(errno.ENOENT, os.stat, self.mount / "cold9")


class ErrorsLarge(Errors):
    """The same past the page cache."""

    MODE = "large"


class Mounts(Semantics):
    MODE = "small"
    FILES = {"file": b"hello", "dir/file": b"below"}

    def linked_anew(self, files):
        """A link of its own, so that what happens to it concerns no other test."""
        name = self._testMethodName.replace("_", "")
        for key, body in files.items():
            self.s3.put_object(Bucket=self.bucket, Key=f"{name}/{key}", Body=body)
        self.cluster.cli("link", f"s3://{self.bucket}/{name}/", "--as", name)
        return name, self.another_mount(name, name)

    def test_the_listing_of_the_mount(self):
        name, mount = self.linked_anew({"dir/file": b"below"})
        self.s3.put_object(Bucket=self.bucket, Key=f"{name}/later", Body=b"x")
        self.assertEqual(os.listdir(mount), ["dir"])
        config = json.loads((mount / ".forebay/config").read_text())
        self.assertEqual((config["generation"], config["objects"]), (1, 1))
        self.cluster.cli("refresh", name)
        eventually(lambda: "later" in os.listdir(mount), "the refresh shows")
        self.assertEqual((mount / "later").read_bytes(), b"x")
        config = json.loads((mount / ".forebay/config").read_text())
        self.assertEqual((config["generation"], config["objects"]), (2, 2))
        self.assertIn("1\tlater\n", (mount / ".forebay/manifest").read_text())

    def test_an_open_file_over_a_refresh(self):
        name, mount = self.linked_anew({"changing": b"old"})
        with open(mount / "changing", "rb", buffering=0) as cached:
            self.assertEqual(cached.read(), b"old")
            cached.seek(0)
            self.s3.put_object(Bucket=self.bucket, Key=f"{name}/changing", Body=b"and new")
            self.cluster.cli("refresh", name)
            eventually(lambda: (mount / "changing").stat().st_size == 7, "the refresh shows")
            self.assertEqual((mount / "changing").read_bytes(), b"and new")
            self.assertEqual(cached.read(), b"old")

    def test_busy(self):
        mount = self.another_mount("data", "busy")
        with open(mount / "file", "rb") as held:
            result = subprocess.run(["umount", mount], capture_output=True, text=True, check=False)
            self.assertIn("busy", result.stderr)
            self.assertEqual((held.read(), (mount / "dir/file").read_bytes()), (b"hello", b"below"))
        subprocess.run(["umount", mount], check=True)
        self.assertEqual(self.cluster.mounts["busy"].wait(), 0)

    def test_lazy_unmount(self):
        mount = self.another_mount("data", "lazy")
        daemon = self.cluster.mounts["lazy"]
        with open(mount / "file", "rb") as held:
            subprocess.run(["umount", "-l", mount], check=True)
            self.assertFalse((mount / "file").exists())
            self.assertEqual(held.read(), b"hello")
            self.assertTrue(daemon.running())
        self.assertEqual(daemon.wait(), 0)

    def test_stop_in_use(self):
        mount = self.another_mount("data", "stopped")
        held = os.open(mount / "dir/file", os.O_RDONLY)
        self.assertEqual(self.cluster.mounts["stopped"].stop(), 0)
        self.assertFalse(os.path.ismount(mount))
        with self.assertRaises(OSError):
            os.read(held, 1)
        with contextlib.suppress(OSError):  # it has lost its file system
            os.close(held)

    def test_restart(self):
        mount = self.another_mount("data", "restarted")
        self.assertEqual(self.direct_reads("restarted"), self.MODE == "large")
        supervisor = self.cluster.mounts["restarted"].pid
        children = pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children")
        inode = os.stat(mount / "dir/file").st_ino
        with open(mount / "file", "rb", buffering=0) as held:
            self.assertEqual(held.read(2), b"he")
            (worker,) = children.read_text().split()
            os.kill(int(worker), signal.SIGKILL)
            os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            self.assertEqual(held.read(), b"llo")
        self.assertEqual((mount / "dir/file").read_bytes(), b"below")
        self.assertEqual(os.stat(mount / "dir/file").st_ino, inode)
        self.assertNotIn(worker, children.read_text().split())
        self.assertEqual(self.errors_of(mount), "")

    def test_crash(self):
        with mock.patch.dict(self.cluster.client_env, OWN_CRASHES):
            mount = self.another_mount("data", "crashed")
        daemon = self.cluster.mounts.pop("crashed")
        daemon.kill(signal.SIGSEGV)
        self.assertEqual(daemon.wait(), -signal.SIGSEGV)
        daemon.process.stdout.close()
        self.assertFalse(os.path.ismount(mount))
        self.assertEqual(os.listdir(mount), [])

    def test_sigkill(self):
        mount = self.another_mount("data", "killed")
        self.cluster.mounts.pop("killed").kill(signal.SIGKILL)
        eventually(lambda: is_dead(mount), "the process that served has ended")
        self.assert_errno(errno.ENOTCONN, os.listdir, mount)
        # By hand: `umount -l`, `fusermount3 -uz`; or by mounting there again.
        mount = self.another_mount("data", "killed")
        self.assertEqual((mount / "file").read_bytes(), b"hello")

    def test_mount_options(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as table:
            line = next(line for line in table if f" {self.mount} " in line)
        self.assertTrue({"ro", "nosuid", "nodev"} <= set(line.split()[5].split(",")), line)
        self.assertIn(" fuse.forebay data ", line)
        self.assertIn("default_permissions", line)

    def test_control_files(self):
        self.assertNotIn(".forebay", os.listdir(self.mount))
        self.assertEqual(sorted(os.listdir(self.mount / ".forebay")), ["attributes.jsonl", "config", "errors", "manifest", "stats"])
        config = json.loads((self.mount / ".forebay/config").read_text())
        self.assertEqual((config["link"], config["generation"], config["objects"]), ("data", 1, 2))
        self.assertRegex(config["digest"], r"^[0-9a-f]{64}$")
        self.assertRegex(config["snapshot_digest"], r"^[0-9a-f]{32}$")
        self.assertLess(config["generation_age_seconds"], 3600)
        self.assertIn("readdirplus", config["kernel_features"])
        reads = json.loads((self.mount / ".forebay/stats").read_text())["reads"]
        drop_page_cache()
        (self.mount / "dir/file").read_bytes()
        self.assertGreater(json.loads((self.mount / ".forebay/stats").read_text())["reads"], reads)
        # A reader keeps the text that it has opened.
        with open(self.mount / ".forebay/stats", encoding="utf-8") as held:
            self.assertEqual(len(held.read()), os.fstat(held.fileno()).st_size)

    def test_manifest(self):
        lines = (self.mount / ".forebay/manifest").read_bytes().splitlines()
        sizes = {re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), path).decode(): int(size)
                 for size, path in (line.split(b"\t") for line in lines)}
        self.assertEqual(sizes, {path: len(body) for path, body in self.files.items()})
        below = self.another_mount("data/dir", "below")
        self.assertEqual((below / ".forebay/manifest").read_bytes(), b"5\tfile\n")


class MountsLarge(Mounts):
    """The same past the page cache."""

    MODE = "large"


if __name__ == "__main__":
    main()
