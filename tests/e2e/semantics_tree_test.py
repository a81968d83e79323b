#!/usr/bin/python3
"""docs/SEMANTICS.md, the second half: names, attributes, and the programs that walk and copy trees."""

import ctypes
import errno
import json
import mmap
import os
import pwd
import shutil
import stat
import subprocess
import time

from e2e import eventually, main
from semantics import LARGE, SMALL, Semantics, made_bytes

LIBC = ctypes.CDLL(None, use_errno=True)
NAMES = {"with space": b"1", "ünïcode": b"2", "pct%2Fx": b"3", "new\nline": b"4", "tab\there": b"5", "back\\slash": b"6",
         "quote'\"": b"7", "-dash": b"8", "*?[x]": b"9", "Case": b"10", "case": b"11"}


def system_call(name, *arguments):
    """Raises OSError as os functions do."""
    if getattr(LIBC, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Tree(Semantics):
    MODE = "small"
    FILES = {"top": made_bytes(1, SMALL), "deep/er/still/file": made_bytes(2, LARGE), "empty": b"", "deep/one": b"1",
             **{f"names/{name}": body for name, body in NAMES.items()}}
    BLOCK_BYTES = 128 * 1024
    OTHER_KEYS = {"marker/": b"", "/lead": b"x", "dou//ble": b"x", "dot/../up": b"x", "deep/er": b"shadowed"}

    def run_tool(self, *command, **options):
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def local_copy(self):
        target = self.folder / "copy"
        target.mkdir()
        self.addCleanup(shutil.rmtree, target, True)
        return target

    def assert_holds_all(self, folder):
        found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        self.assertEqual(found, self.files)
        self.assertTrue((folder / "marker").is_dir())

    # Names

    def test_the_tree(self):
        self.assert_holds_all(self.mount)
        self.assertEqual(os.listdir(self.mount / "marker"), [])

    def test_names_are_bytes(self):
        self.assertEqual({os.fsdecode(name) for name in os.listdir(os.fsencode(self.mount / "names"))}, set(NAMES))
        for name, body in NAMES.items():
            self.assertEqual((self.mount / "names" / name).read_bytes(), body)

    def test_order(self):
        names = [os.fsencode(entry.name) for entry in os.scandir(self.mount / "names")]
        self.assertEqual(names, sorted(names))

    def test_hidden_keys(self):
        hidden = {"/lead", "dou//ble", "dot/../up", "deep/er"}
        config = json.loads((self.mount / ".forebay/config").read_text())
        self.assertEqual(config["hidden_keys"], len(hidden))
        listed = self.cluster.json("ls", "data", "--hidden")
        self.assertTrue(hidden <= {entry["key"] for entry in listed["entries"]}, listed)
        self.assertTrue((self.mount / "deep/er").is_dir())

    def test_missing_names(self):
        self.assert_errno(errno.ENOENT, os.stat, self.mount / "nothing")
        self.assert_errno(errno.ENOENT, os.stat, self.mount / "TOP")
        self.assert_errno(errno.ENOTDIR, os.stat, self.mount / "top/below")
        self.assert_errno(errno.ENAMETOOLONG, os.stat, self.mount / ("x" * 256))
        self.assert_errno(errno.EISDIR, os.open, self.mount / "deep", os.O_RDWR)
        self.assert_errno(errno.ENOTDIR, os.listdir, self.mount / "top")

    # Attributes

    def test_stat_of_files(self):
        head = self.s3.head_object(Bucket=self.bucket, Key="top")
        got = os.stat(self.mount / "top")
        self.assertEqual((stat.S_IFMT(got.st_mode), stat.S_IMODE(got.st_mode)), (stat.S_IFREG, 0o644))
        self.assertEqual((got.st_size, got.st_nlink, got.st_uid, got.st_gid), (SMALL, 1, os.geteuid(), os.getegid()))
        self.assertEqual((got.st_blocks, got.st_blksize), (-(-SMALL // 512), self.BLOCK_BYTES))
        modified = int(head["LastModified"].timestamp())
        self.assertEqual((int(got.st_mtime), int(got.st_ctime), int(got.st_atime)), (modified, modified, modified))

    def test_stat_of_directories(self):
        got = os.stat(self.mount / "deep")
        self.assertEqual((stat.S_IFMT(got.st_mode), stat.S_IMODE(got.st_mode)), (stat.S_IFDIR, 0o755))
        self.assertEqual((got.st_size, got.st_nlink, got.st_blocks), (0, 1, 0))
        newest = max(os.stat(path).st_mtime for path in (self.mount / "deep").rglob("*"))
        self.assertEqual(got.st_mtime, newest)

    def test_owner_and_modes(self):
        mount = self.another_mount("data", "modes", "--uid", "12", "--gid", "34", "--file-mode", "0440", "--dir-mode", "0550")
        got, folder = os.stat(mount / "top"), os.stat(mount / "deep")
        self.assertEqual((got.st_uid, got.st_gid, stat.S_IMODE(got.st_mode)), (12, 34, 0o440))
        self.assertEqual((folder.st_uid, folder.st_gid, stat.S_IMODE(folder.st_mode)), (12, 34, 0o550))

    def test_inodes(self):
        inodes = {path: os.lstat(path).st_ino for path in self.mount.rglob("*")}
        self.assertEqual(len(set(inodes.values())), len(inodes))
        other = self.another_mount("data", "inodes")
        for path, inode in inodes.items():
            self.assertEqual(os.lstat(other / path.relative_to(self.mount)).st_ino, inode)

    def test_extended_attributes(self):
        head = self.s3.head_object(Bucket=self.bucket, Key="deep/one")
        one = self.mount / "deep/one"
        self.assertEqual(sorted(os.listxattr(one)), ["user.forebay.etag", "user.forebay.key"])
        self.assertEqual(os.getxattr(one, "user.forebay.etag").decode(), head["ETag"].strip('"'))
        self.assertEqual(os.getxattr(one, "user.forebay.key"), b"deep/one")
        self.assert_errno(errno.ENODATA, os.getxattr, one, "user.other")
        self.assertEqual(os.listxattr(self.mount / "deep"), [])

    def test_owner_and_cached(self):
        file = self.mount / "deep/er/still/file"
        owners = os.getxattr(file, "user.forebay.owner").decode().split(",")
        self.assertEqual(sorted(owners), ["n1", "n2"])
        self.cluster.cli("evict", "data/deep", "--yes", "--force")
        self.assertEqual(os.getxattr(file, "user.forebay.cached").decode(), f"0/{LARGE}")
        with open(file, "rb", buffering=0) as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while opened.read(1 << 20):
                pass
        # A reader has its bytes before the block is on the disk.
        eventually(lambda: os.getxattr(file, "user.forebay.cached").decode() == f"{LARGE}/{LARGE}", "all of it is cached", 10)

    def test_permissions(self):
        user = pwd.getpwnam("nobody")
        # As far as our own folders go, everybody may pass.
        os.chmod(self.home, 0o755)
        others = self.another_mount("data", "others", "--allow-other")

        def read_by_nobody(mount):
            return subprocess.run(["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "cat",
                                   mount / "deep/one"], capture_output=True, text=True, check=False)

        self.assertIn("Permission denied", read_by_nobody(self.mount).stderr)
        self.assertEqual(read_by_nobody(others).stdout, "1")
        closed = self.another_mount("data", "closed", "--allow-other", "--file-mode", "0600")
        self.assertIn("Permission denied", read_by_nobody(closed).stderr)

    # Writing

    def test_every_write_fails(self):
        mount = self.mount
        file, folder = mount / "top", mount / "deep"
        attempts = {
            "open for writing": lambda: os.open(file, os.O_WRONLY), "open for both": lambda: os.open(file, os.O_RDWR),
            "append": lambda: os.open(file, os.O_WRONLY | os.O_APPEND),
            "truncate at open": lambda: os.open(file, os.O_RDONLY | os.O_TRUNC),
            "create": lambda: os.open(mount / "new", os.O_WRONLY | os.O_CREAT),
            "create without a name": lambda: os.open(mount, os.O_WRONLY | os.O_TMPFILE),
            "truncate": lambda: os.truncate(file, 0), "unlink": lambda: os.unlink(file), "mkdir": lambda: os.mkdir(mount / "d"),
            "rmdir": lambda: os.rmdir(mount / "marker"), "rename": lambda: os.rename(file, folder / "top"),
            "link": lambda: os.link(file, folder / "top"), "symlink": lambda: os.symlink("x", mount / "s"),
            "mknod": lambda: os.mknod(mount / "n"), "mkfifo": lambda: os.mkfifo(mount / "f"),
            "chmod": lambda: os.chmod(file, 0o600), "chown": lambda: os.chown(file, 1, 1), "utime": lambda: os.utime(file),
            "setxattr": lambda: os.setxattr(file, "user.x", b"y"),
            "removexattr": lambda: os.removexattr(file, "user.forebay.key")}
        for name, attempt in attempts.items():
            with self.subTest(name):
                self.assert_errno(errno.EROFS, attempt)
        self.assertFalse(os.access(file, os.W_OK))
        self.assert_holds_all(mount)

    def test_writes_through_what_is_open_for_reading(self):
        with open(self.mount / "top", "rb") as file:
            self.assert_errno(errno.EBADF, os.write, file.fileno(), b"x")
            self.assert_errno(errno.EINVAL, os.ftruncate, file.fileno(), 0)
            with self.assertRaises(PermissionError):
                mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_WRITE)
            self.assert_errno(errno.EBADF, system_call, "fallocate", file.fileno(), 0, ctypes.c_long(0), ctypes.c_long(9))

    # Programs

    def test_df(self):
        total = sum(map(len, self.files.values()))
        totals = os.statvfs(self.mount)
        self.assertEqual(totals.f_blocks, -(-total // totals.f_frsize))
        self.assertEqual((totals.f_bfree, totals.f_bavail, totals.f_ffree), (0, 0, 0))
        self.assertGreaterEqual(totals.f_files, len(self.files))
        self.assertIn("100%", self.run_tool("df", "--output=pcent", self.mount))

    def test_du(self):
        self.assertEqual(int(self.run_tool("du", "-s", "--apparent-size", "-B1", self.mount).split()[0]),
                         sum(map(len, self.files.values())))
        self.assertEqual(int(self.run_tool("du", "-s", "-B512", self.mount).split()[0]),
                         sum(-(-len(body) // 512) for body in self.files.values()))

    def test_find(self):
        found = self.run_tool("find", self.mount, "-type", "f", "-print0").split("\0")[:-1]
        self.assertEqual({os.path.relpath(path, self.mount) for path in found}, set(self.files))
        self.assertEqual(self.run_tool("find", self.mount, "-type", "f", "-size", "+1M").strip(),
                         str(self.mount / "deep/er/still/file"))
        self.assertEqual(self.run_tool("find", self.mount, "-name", ".forebay"), "")

    def test_tar(self):
        target = self.local_copy()
        self.run_tool("sh", "-c", f"tar -C {self.mount} -cf - . | tar -C {target} -xf -")
        self.assert_holds_all(target)

    def test_cp(self):
        target = self.local_copy()
        self.run_tool("cp", "-a", f"{self.mount}/.", target)
        self.assert_holds_all(target)
        self.assertEqual(int((target / "top").stat().st_mtime), int((self.mount / "top").stat().st_mtime))
        # Where a file comes from goes along; where its blocks are does not.
        self.assertEqual(os.getxattr(target / "top", "user.forebay.key"), b"top")

    def test_rsync(self):
        target = self.local_copy()
        self.run_tool("rsync", "-a", f"{self.mount}/", target)
        self.assert_holds_all(target)
        self.assertEqual(self.run_tool("rsync", "-a", "--itemize-changes", f"{self.mount}/", target), "")

    def test_walk_without_reads(self):
        before = self.gets()["gets"]
        mount = self.another_mount("data", "walked")
        self.run_tool("ls", "-lR", mount)
        ops = self.fuse_ops("walked")
        self.assertEqual((ops.get("read", 0), self.gets()["gets"]), (0, before))


class Links(Semantics):
    MODE = "small"
    FILES = {"kept": b"read before", **{f"cold{i}": b"never read" for i in range(20)}}

    def test_removed_links(self):
        self.assertEqual((self.mount / "kept").read_bytes(), b"read before")
        jobs = lambda: self.cluster.json("stats", "--jobs")["jobs"]
        eventually(jobs, "the coordinator has heard of the job")
        [job] = jobs()
        answer = self.cluster.cli("unlink", "data", check=False)
        self.assertEqual(answer.returncode, 2, answer)
        self.assertIn(f"'{job['id']}'", answer.stderr)
        self.cluster.cli("unlink", "data", "--force")
        config = lambda: json.loads((self.mount / ".forebay/config").read_text())
        eventually(lambda: config()["link_removed"], "the mount has heard of it", 10)
        begin = time.monotonic()
        for i in range(20):
            self.assert_errno(errno.ESTALE, (self.mount / f"cold{i}").read_bytes)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual((self.mount / "kept").read_bytes(), b"read before")
        [line] = self.errors_of(self.mount).splitlines()
        self.assertRegex(line, r'ESTALE "\." \d+x \w+: the link "data" was removed, .* unmount it, or link it again')
        self.assertEqual(self.cluster.mounts["m"].log.read_text().count("was removed"), 1)
        # The name is another link's by now, which this mount does not take for its own.
        self.link("data", "")
        eventually(lambda: "made anew" in self.errors_of(self.mount), "the sentence says so", 10)
        self.assert_errno(errno.ESTALE, (self.mount / "cold0").read_bytes)
        self.assertEqual((self.another_mount("data", "anew") / "cold0").read_bytes(), b"never read")


class TreeLarge(Tree):
    """The same past the page cache."""

    MODE = "large"
    BLOCK_BYTES = 1 << 20


if __name__ == "__main__":
    main()
