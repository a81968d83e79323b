#!/usr/bin/python3
"""What a kernel lacks costs speed, never correctness: the mount takes one feature after the other for missing and shows the
same bytes, maps and names. (FOREBAY_KERNEL_LACKS, fuse-client/fuse_offer.h; a real older kernel is another matter.)"""

import ctypes
import errno
import hashlib
import json
import mmap
import os
import pathlib
import random
import re
import subprocess

from e2e import E2eTest, drop_page_cache, main

MIB = 1 << 20
DIRECTORIES, PER_DIRECTORY = 5, 40
# What a mount is to live without, and in which modes it matters.
LACKING = ("resend", "async_read", "parallel_dirops", "readdirplus", "no_open", "no_opendir", "explicit_inval_data", "max_pages",
           "direct_io_allow_mmap", "no_opendir,cache_dir", "no_open,no_opendir",
           "resend,async_read,parallel_dirops,readdirplus,no_open,no_opendir,explicit_inval_data,max_pages,direct_io_allow_mmap,cache_dir")
# No feature of its own in `kernel_features`.
UNNAMED = {"cache_dir"}
# Read-ahead in KiB: the kernel's own, and what mounts of either mode raise it to (fuse-client/link_mount.cc).
READ_AHEAD, RAISED = 128, {"small": 1024, "large": 4096}


def knows_cachestat():
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(451, -1, None, None, 0) != 0 and ctypes.get_errno() == errno.EBADF


def read_ahead_of(mount):
    """The kernel's own file of it."""
    device = os.stat(mount).st_dev
    return pathlib.Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Features(E2eTest):
    NODES = ("n1",)

    def setUp(self):
        super().setUp()
        rng = random.Random(11)
        self.files = {f"d{i}/{i}-{j:03d}.bin": rng.randbytes(2000 + 97 * j) for i in range(DIRECTORIES)
                      for j in range(PER_DIRECTORY)}
        self.files["large.bin"] = rng.randbytes(9 * MIB + 123)
        self.digests = {name: digest(data) for name, data in self.files.items()}
        self.put(self.files)
        self.start()
        self.link()

    def check_bytes(self, mount):
        for name, wanted in self.digests.items():
            self.assertEqual(digest((mount / name).read_bytes()), wanted, name)
        rng = random.Random(12)
        large = self.files["large.bin"]
        with open(mount / "large.bin", "rb", buffering=0) as file:
            for _ in range(30):
                at, size = rng.randrange(len(large)), rng.randrange(1, 300_000)
                self.assertEqual(os.pread(file.fileno(), size, at), large[at:at + size])
            with mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as shared:
                self.assertEqual(digest(shared), self.digests["large.bin"])

    def check_names(self, mount):
        """Twice: the second time the kernel may remember."""
        for _ in range(2):
            found = {os.path.relpath(os.path.join(parent, name), mount): os.stat(os.path.join(parent, name)).st_size
                     for parent, _, names in os.walk(mount) for name in names}
            self.assertEqual(found, {name: len(data) for name, data in self.files.items()})
        with self.assertRaises(FileNotFoundError):
            os.stat(mount / "d0/none")
        self.assertEqual(sorted(os.listdir(mount / "d1")), sorted(name[3:] for name in self.files if name.startswith("d1/")))

    def ops(self, mount):
        return {op: sum(counts.values()) for op, counts in json.loads((mount / ".forebay/stats").read_text())["fuse_ops"].items()}

    def mount_without(self, lacking, mode):
        self.cluster.client_env["FOREBAY_KERNEL_LACKS"] = lacking
        log = self.folder / "m.log"
        logged = log.stat().st_size if log.exists() else 0
        mount = self.cluster.mount("data", "m", "--mode", mode)
        config = json.loads((mount / ".forebay/config").read_text())
        missing = set(lacking.split(",")) - {""}
        self.assertEqual(config["mode"], mode)
        self.assertEqual(set(config["kernel_features"].split()) & missing, set())
        if "direct_io_allow_mmap" in missing:
            self.assertFalse(config["direct_reads"])
        # One line of the log says the same.
        lines = re.findall(r"kernel FUSE \d+\.\d+: (.*)$", log.read_text()[logged:], re.MULTILINE)
        self.assertEqual(lines, [config["kernel_features"]])
        return mount, set(config["kernel_features"].split())

    def check_all(self, mode):
        mount, offered = self.mount_without("", mode)
        self.check_names(mount)
        self.assertEqual(self.cluster.unmount("m"), 0)
        for lacking in LACKING:
            with self.subTest(mode=mode, lacking=lacking):
                if not set(lacking.split(",")) & (offered | UNNAMED):
                    print(f"this kernel has no {lacking} anyway", flush=True)
                    continue
                drop_page_cache()
                mount, _ = self.mount_without(lacking, mode)
                self.check_names(mount)
                self.check_bytes(mount)
                ops = self.ops(mount)
                print(f"{mode} mode without {lacking}: {ops}", flush=True)
                # The switch is a real one: what is missing is seen in the requests.
                if "readdirplus" in lacking:
                    self.assertEqual(ops.get("readdirplus", 0), 0)
                    self.assertGreater(ops["readdir"], 0)
                if "no_opendir" in lacking:
                    self.assertGreater(ops["opendir"], 2 * DIRECTORIES)
                if "no_open" in lacking.split(",") or mode == "large" and "direct_io_allow_mmap" not in lacking:
                    self.assertGreaterEqual(ops["open"], len(self.files))
                elif "direct_io_allow_mmap" in lacking and "no_open" not in lacking.split(","):
                    self.assertLessEqual(ops.get("open", 0), 64)  # as many as were asked before the first answer
                self.assertEqual((mount / ".forebay/errors").read_text(), "")
                self.assertEqual(self.cluster.unmount("m"), 0)

    def test_small_mode_lives_without_each(self):
        self.check_all("small")

    def test_large_mode_lives_without_each(self):
        self.check_all("large")

    def test_both_modes_list_what_the_kernel_has(self):
        listed = {}
        for mode in ("small", "large"):
            mount, listed[mode] = self.mount_without("", mode)
            self.assertEqual(json.loads((mount / ".forebay/config").read_text())["read_ahead_kb"], RAISED[mode])
            self.assertEqual(read_ahead_of(mount).read_text(), f"{RAISED[mode]}\n")
            self.assertEqual(self.cluster.unmount("m"), 0)
        self.assertEqual(listed["small"], listed["large"])
        self.assertIn("max_pages", listed["small"])
        self.assertEqual("cachestat" in listed["small"], knows_cachestat())

    def reads_of_large(self, mount):
        """How many READs a reader from front to back costs, a page at a time."""
        drop_page_cache()
        before, size = self.ops(mount).get("read", 0), len(self.files["large.bin"])
        with open(mount / "large.bin", "rb", buffering=0) as file:
            for at in range(0, size, 4096):
                self.assertEqual(os.pread(file.fileno(), 4096, at), self.files["large.bin"][at:at + 4096])
        return self.ops(mount)["read"] - before

    def test_without_direct_reads_that_can_be_mapped_the_kernel_reads_further_ahead(self):
        size = len(self.files["large.bin"])
        mount, _ = self.mount_without("direct_io_allow_mmap", "large")
        self.assertEqual(json.loads((mount / ".forebay/config").read_text())["read_ahead_kb"], RAISED["large"])
        self.assertEqual(read_ahead_of(mount).read_text(), f"{RAISED['large']}\n")
        raised = self.reads_of_large(mount)
        read_ahead_of(mount).write_text(str(READ_AHEAD))
        as_it_was = self.reads_of_large(mount)
        print(f"{raised} READs of {size / MIB:.1f} MiB with {RAISED['large']} KiB of read-ahead, {as_it_was} with {READ_AHEAD}", flush=True)
        # Messages of a MiB but for the first ones, where the kernel's window grows.
        self.assertLessEqual(raised, 2 * (size // MIB))
        self.assertGreaterEqual(as_it_was, size // (READ_AHEAD << 10))

    def test_read_ahead_that_may_not_be_raised_is_said(self):
        subprocess.run(["mount", "--bind", "/sys", "/sys"], check=True)
        self.addCleanup(subprocess.run, ["umount", "/sys"], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", "/sys"], check=True)
        mount, _ = self.mount_without("direct_io_allow_mmap", "large")
        self.assertEqual(json.loads((mount / ".forebay/config").read_text())["read_ahead_kb"], READ_AHEAD)
        self.assertEqual((self.folder / "m.log").read_text().count("big files are read in pieces of 128 KiB"), 1)
        self.check_bytes(mount)


if __name__ == "__main__":
    main()
