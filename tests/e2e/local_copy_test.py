#!/usr/bin/python3
"""Files of a mount in mode large are copied to a local disk (--local-copy), and the kernel reads the copies by itself."""

import json
import mmap
import os
import random
import signal

from e2e import BLOCK, E2eTest, eventually, main
from mount_state import worker_of

SIZE = 3 * BLOCK + 12345
FILES = 4


def body(name, size=SIZE):
    return random.Random(name).randbytes(size)


def try_kernel(test):
    """The rest of the test needs a kernel with passthrough, and root."""
    config = json.loads((test.mount / ".forebay/config").read_text())
    if not config["local_copy"]["active"]:
        if os.geteuid() == 0 and "passthrough" in config["kernel_features"].split():
            raise AssertionError("this kernel has passthrough, and the mount does not use it")
        test.skipTest("no passthrough here")


class LocalCopy(E2eTest):
    NODES = ("n1",)

    def begin(self, files, *options, copies=None):
        self.files = {name: body(name, size) for name, size in files.items()}
        self.put(self.files)
        self.start()
        self.link()
        self.copies = self.folder / "copies"
        self.options = ("--mode", "large", "--local-copy", copies or self.copies, *options)
        self.mount = self.cluster.mount("data", "m", *self.options)
        try_kernel(self)

    def stats(self):
        return json.loads((self.mount / ".forebay/stats").read_text())

    def copied(self):
        return self.stats()["local_copies"]

    def check(self, *names):
        for name in names or self.files:
            self.assertEqual((self.mount / name).read_bytes(), self.files[name], name)

    def copy_all(self):
        self.check()
        eventually(lambda: self.copied()["files_copied"] == len(self.files), "all is copied")

    def check_by_kernel(self, *names):
        """Reads them, and nobody asks the mount for a byte."""
        before = self.stats()
        self.check(*names)
        after = self.stats()
        self.assertEqual(after["reads"], before["reads"])
        self.assertEqual(after["local_copies"]["opens"] - before["local_copies"]["opens"], len(names or self.files))

    def check_by_mount(self, name):
        before = self.stats()
        self.check(name)
        after = self.stats()
        self.assertGreater(after["reads"], before["reads"])
        self.assertEqual(after["local_copies"]["opens"], before["local_copies"]["opens"])

    def copy_of(self, name):
        """By its bytes: the only one that begins so."""
        begin = self.files[name][:4096]
        for path in self.copies.glob("*/*"):
            with open(path, "rb") as file:
                if file.read(4096) == begin:
                    return path
        return None

    def damage(self, name, offset):
        with open(self.copy_of(name), "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1]))

    def kill_worker(self):
        supervisor = self.cluster.mounts["m"].pid
        worker = eventually(lambda: worker_of(supervisor), "a worker")
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: worker_of(supervisor) not in (None, worker), "the next worker")

    def test_the_second_open_is_the_kernels_own(self):
        files = {f"f{i}": SIZE for i in range(FILES)} | {"small": 5, "empty": 0, "whole": BLOCK}
        self.begin(files)
        self.check_by_mount("f0")
        self.copy_all()
        self.assertEqual(self.copied()["bytes_copied"], sum(files.values()))
        self.check_by_kernel()
        self.check_by_kernel("f1", "f1", "f1")
        stats = self.stats()["local_copies"]
        self.assertEqual((stats["folder"]["copies"], stats["folder"]["bytes"]), (len(files), sum(files.values())))
        self.assertEqual((stats["open_now"], stats["damaged"], stats["files_failed"]), (0, 0, 0))
        metrics = self.metrics(self.cluster.mounts["m"])
        self.assertEqual(metrics["forebay_local_copy_opens_total", ""], stats["opens"])
        self.assertEqual(metrics["forebay_local_copies_total", 'result="made"'], len(files))
        self.assertEqual(metrics["forebay_local_copies_total", 'result="damaged"'], 0)
        self.assertEqual(metrics["forebay_local_copy_bytes_total", ""], sum(files.values()))
        self.assertEqual((self.mount / ".forebay/errors").read_text(), "")
        # What programs do to a file.
        before = self.stats()["reads"]
        want = self.files["f2"]
        with open(self.mount / "f2", "rb") as file:
            for access in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
                with mmap.mmap(file.fileno(), 0, flags=access, prot=mmap.PROT_READ) as mapped:
                    self.assertEqual(mapped[:], want)
            self.assertEqual(os.pread(file.fileno(), 777, BLOCK - 5), want[BLOCK - 5:BLOCK + 772])
            self.assertEqual(os.pread(file.fileno(), 10, SIZE), b"")
            self.assertEqual(os.fstat(file.fileno()).st_size, SIZE)
            self.assertEqual(self.copied()["open_now"], 1)
        direct = os.open(self.mount / "f2", os.O_RDONLY | os.O_DIRECT)
        try:
            buffer = mmap.mmap(-1, 1 << 20)
            self.assertEqual(os.preadv(direct, [buffer], BLOCK), 1 << 20)
            self.assertEqual(buffer[:], want[BLOCK:BLOCK + (1 << 20)])
        finally:
            os.close(direct)
        self.assertEqual(self.stats()["reads"], before)
        with self.assertRaises(OSError):
            open(self.mount / "f2", "r+b")
        # The copies are there for the next mount.
        self.assertEqual(self.cluster.unmount("m"), 0)
        self.mount = self.cluster.mount("data", "m", *self.options)
        eventually(lambda: json.loads((self.mount / ".forebay/config").read_text())["local_copy"]["active"], "copies")
        self.check_by_kernel()
        self.assertEqual(self.copied()["files_copied"], 0)

    def test_a_file_has_one_way_until_all_have_closed_it(self):
        self.begin({"f": SIZE})
        with open(self.mount / "f", "rb") as held, mmap.mmap(held.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            self.copy_all()
            self.check_by_mount("f")
            self.assertEqual(mapped[:], self.files["f"])
        eventually(lambda: self.check("f") or self.copied()["opens"] > 0, "the way changes")
        self.check_by_kernel("f")

    def test_a_killed_worker_changes_nothing(self):
        self.begin({"f0": SIZE, "f1": SIZE})
        self.check("f0")
        eventually(lambda: self.copied()["files_copied"] == 1, "f0 is copied")
        with open(self.mount / "f0", "rb") as held, open(self.mount / "f1", "rb") as slow, \
                mmap.mmap(held.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            for _ in range(3):
                self.kill_worker()
                self.assertEqual(mapped[:], self.files["f0"])
                self.assertEqual(os.pread(held.fileno(), SIZE, 0), self.files["f0"])
                self.assertEqual(os.pread(slow.fileno(), SIZE, 0), self.files["f1"])
                self.check("f0", "f1")  # each joins those who have it open
                self.assertEqual(self.copied()["open_now"], 1)
        eventually(lambda: self.copied()["open_now"] == 0, "all is closed")
        eventually(lambda: self.check("f1") or self.copied()["folder"]["copies"] == 2, "f1 is copied")
        eventually(lambda: self.copied()["open_now"] == 0, "all is closed")
        self.check_by_kernel("f0", "f1")
        self.assertEqual((self.mount / ".forebay/errors").read_text(), "")

    def test_a_damaged_copy_is_withdrawn(self):
        self.begin({"f0": SIZE, "f1": SIZE})
        self.copy_all()
        # As after a restart of the machine: all is verified before its first use.
        self.damage("f0", SIZE - 1)
        (self.copies / "boot").write_text("another run of the machine")
        self.kill_worker()
        self.check("f0", "f1")
        eventually(lambda: self.copied()["damaged"] == 1, "the damage is found")
        eventually(lambda: self.copied()["folder"]["unverified"] == 0, "all is verified")
        self.check_by_kernel("f1")
        errors = (self.mount / ".forebay/errors").read_text()
        self.assertIn('"f0"', errors)
        self.assertIn("local copy", errors)
        eventually(lambda: self.check("f0") or self.copied()["folder"]["copies"] == 2, "f0 is copied again")
        eventually(lambda: self.copied()["open_now"] == 0, "all is closed")
        self.check_by_kernel("f0")

    def test_when_the_folder_is_full_the_rest_is_read_as_without_it(self):
        self.copies = self.home / "c/copies"
        self.begin({f"f{i}": SIZE for i in range(FILES)}, copies=f"{self.copies}={2 * SIZE + 100}")
        self.check()
        eventually(lambda: (lambda now: now["files_copied"] == 2 and now["files_without_room"] >= 2)(self.copied()), "it is full")
        kept = [name for name in self.files if self.copy_of(name)]
        self.assertEqual(len(kept), 2)
        for _ in range(2):
            self.check_by_kernel(*kept)
            for name in set(self.files) - set(kept):
                self.check_by_mount(name)
        self.assertTrue(self.copied()["folder"]["full"])

    def test_a_changed_object_is_another_file(self):
        self.begin({"f0": SIZE, "f1": SIZE})
        self.copy_all()
        old = self.files["f0"]
        with open(self.mount / "f0", "rb") as held:
            self.assertEqual(os.pread(held.fileno(), SIZE, 0), old)
            self.files["f0"] = body("changed", SIZE + 1)
            self.put({"f0": self.files["f0"]})
            self.cluster.cli("refresh", "data")
            eventually(lambda: (self.mount / "f0").stat().st_size == SIZE + 1, "the change is shown")
            self.check()
            self.assertEqual(os.pread(held.fileno(), SIZE, 0), old)
            eventually(lambda: self.check("f0") or self.copied()["files_copied"] == 3, "the new one is copied")
        self.check_by_kernel("f1")

    def test_an_unusable_folder_costs_speed_alone(self):
        self.files = {"f": body("f")}
        self.put(self.files)
        self.start()
        self.link()
        blocked = self.folder / "file"
        blocked.write_text("no folder")
        self.mount = self.cluster.mount("data", "m", "--mode", "large", "--local-copy", blocked / "copies")
        self.check()
        self.check()
        self.assertEqual(self.copied()["opens"], 0)
        self.assertEqual((self.folder / "m.log").read_text().count("without local copies"), 1)
        self.assertFalse(json.loads((self.mount / ".forebay/config").read_text())["local_copy"]["active"])


if __name__ == "__main__":
    main()
