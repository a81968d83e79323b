"""A disk that can be made to fail: ext4 on a loop device of its own, for the tests that need a real one. Needs root."""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

SKIPPED = 77  # ctest's word for a test that cannot run here
_BLKIO = pathlib.Path("/sys/fs/cgroup/blkio")


def missing():
    """What is not here that a LoopDisk needs, in a sentence; None when it can be made."""
    if os.geteuid() != 0:
        return "a loop device needs root"
    if not pathlib.Path("/dev/loop-control").exists():
        return "this machine has no /dev/loop-control, so no loop device can be made"
    found = subprocess.run(["losetup", "--find"], capture_output=True, text=True, check=False)
    return None if found.returncode == 0 else f"no loop device is free: {found.stderr.strip()}"


def skip_if_missing():
    if reason := missing():
        print(f"skipped: {reason}", file=sys.stderr)
        sys.exit(SKIPPED)


def can_throttle():
    """Slow and hung disks need the blkio controller of cgroup v1 (v2 would need a delegated `io`)."""
    return (_BLKIO / "blkio.throttle.read_bps_device").exists()


def run(*words):
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


def drop_clean_pages():
    """As drop_page_cache of the harness, but without sync, which would wait for a hung disk."""
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n", encoding="ascii")


class LoopDisk:
    """Mounted at `path`. Every fault has its end; close() ends all of them and removes the disk."""

    def __init__(self, folder, name, mib):
        self.path = pathlib.Path(folder) / name
        self.image = pathlib.Path(folder) / f"{name}.img"
        self.copy = pathlib.Path(folder) / f"{name}.copy"
        self.group = _BLKIO / f"forebay-{os.getpid()}-{name}"
        self.frozen = False
        self.path.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(mib << 20)
        run("mkfs.ext4", "-q", "-F", self.image)
        self.device = subprocess.run(["losetup", "--show", "--find", "--direct-io=on", self.image], check=True,
                                     capture_output=True, text=True).stdout.strip()
        try:
            run("mount", "-o", "noatime,errors=remount-ro", self.device, self.path)
        except BaseException:
            run("losetup", "-d", self.device)
            raise

    def truncate(self):
        """Reads of what lies there answer EIO, or zeros where something was written since."""
        os.sync()
        run("cp", "--sparse=always", self.image, self.copy)
        os.truncate(self.image, 1 << 20)
        drop_clean_pages()

    def restore(self):
        """Ends truncate(): what was written meanwhile is lost, as with a controller that lied."""
        if self.copy.exists():
            run("dd", f"if={self.copy}", f"of={self.image}", "bs=1M", "conv=notrunc", "status=none")
            self.copy.unlink()

    def stop_writing(self):
        """The kernel makes the file system read-only, as it does after an error of its own; for good."""
        name = pathlib.Path(self.device).name
        pathlib.Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("a test\n", encoding="ascii")

    def freeze(self):
        """Writers wait in the kernel, where no signal reaches them; what is in memory can be read."""
        run("fsfreeze", "-f", self.path)
        self.frozen = True

    def thaw(self):
        if self.frozen:
            run("fsfreeze", "-u", self.path)
        self.frozen = False

    def throttle(self, bytes_per_s, *pids):
        """What these processes read and write themselves is held to this rate, together; 0 lifts the limit."""
        self.group.mkdir(exist_ok=True)
        number = pathlib.Path(f"/sys/block/{pathlib.Path(self.device).name}/dev").read_text(encoding="ascii").strip()
        for direction in ("read", "write"):
            (self.group / f"blkio.throttle.{direction}_bps_device").write_text(f"{number} {bytes_per_s}\n",
                                                                              encoding="ascii")
        for pid in pids:
            (self.group / "cgroup.procs").write_text(f"{pid}\n", encoding="ascii")

    def unthrottle(self):
        if self.group.exists():
            for pid in (self.group / "cgroup.procs").read_text(encoding="ascii").split():
                with contextlib.suppress(OSError):  # it has ended
                    (_BLKIO / "cgroup.procs").write_text(f"{pid}\n", encoding="ascii")
            number = pathlib.Path(f"/sys/block/{pathlib.Path(self.device).name}/dev").read_text(encoding="ascii").strip()
            for direction in ("read", "write"):
                (self.group / f"blkio.throttle.{direction}_bps_device").write_text(f"{number} 0\n", encoding="ascii")

    def close(self):
        self.thaw()
        self.restore()
        self.unthrottle()
        deadline = time.monotonic() + 20
        while subprocess.run(["umount", self.path], capture_output=True, check=False).returncode != 0:
            if time.monotonic() > deadline:
                subprocess.run(["umount", "-l", self.path], capture_output=True, check=False)
                break
            time.sleep(0.05)
        subprocess.run(["losetup", "-d", self.device], capture_output=True, check=False)
        if self.group.exists():
            with contextlib.suppress(OSError):
                self.group.rmdir()
        self.image.unlink(missing_ok=True)
        self.path.rmdir()
