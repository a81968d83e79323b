#!/usr/bin/python3
"""What a kernel lacks costs speed, never correctness: the mount takes one feature after the other for missing and shows the
same bytes, maps and names. (FOREBAY_KERNEL_LACKS, fuse-client/fuse_offer.h; a real older kernel is another matter.)"""

import hashlib
import json
import mmap
import os
import random

from e2e import E2eTest, drop_page_cache, main

MIB = 1 << 20
DIRECTORIES, PER_DIRECTORY = 5, 40
# What a mount is to live without, and in which modes it matters.
LACKING = ("resend", "async_read", "parallel_dirops", "readdirplus", "no_open", "no_opendir", "explicit_inval_data", "max_pages",
           "direct_io_allow_mmap", "no_opendir,cache_dir", "no_open,no_opendir",
           "resend,async_read,parallel_dirops,readdirplus,no_open,no_opendir,explicit_inval_data,max_pages,direct_io_allow_mmap,cache_dir")
# No features of their own in `kernel_features`.
UNNAMED = {"max_pages", "cache_dir"}


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
        mount = self.cluster.mount("data", "m", "--mode", mode)
        config = json.loads((mount / ".forebay/config").read_text())
        missing = set(lacking.split(",")) - {""}
        self.assertEqual(config["mode"], mode)
        self.assertEqual(set(config["kernel_features"].split()) & missing, set())
        if "direct_io_allow_mmap" in missing:
            self.assertFalse(config["direct_reads"])
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


if __name__ == "__main__":
    main()
