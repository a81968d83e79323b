"""What the disk faults share: the programs that load and check a store, the sum of what was found, and file systems on
loop devices whose power can be cut."""

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
LINKS = 4
AHEAD = 64  # a load begins so many block numbers behind the last known one; disk_check looks further
PROGRAMS = pathlib.Path(os.environ.get("FOREBAY_TESTS", "build/release/tests"))
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def count(name, usual):
    """How many faults are made: the environment's number, or as many as every change has time for."""
    return int(os.environ.get(name) or usual)


def seeded():
    seed = int(os.environ.get("FOREBAY_FAULT_SEED") or time.time_ns() % 1_000_000)
    print(f"FOREBAY_FAULT_SEED={seed}", flush=True)
    return random.Random(seed)


def take_own_mounts():
    """Begins this program anew with mounts of its own: whoever copies the mounts of a system, as each container does,
    would keep our disks mounted when we have unmounted them, and the next disk would be mixed up with the last."""
    if "FOREBAY_OWN_MOUNTS" not in os.environ:
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv],
                   {**os.environ, "FOREBAY_OWN_MOUNTS": "1"})


def skip_unless_loops_work():
    """Mounts need root and loop devices; without them there is nothing to prove."""
    missing = [tool for tool in ("mkfs.ext4", "mount", "fsfreeze", "filefrag", "blockdev") if not shutil.which(tool)]
    if os.geteuid() != 0 or missing:
        print("skipped: " + (f"{missing[0]} is not installed" if missing else "loop mounts need root"))
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        disk = Disk(pathlib.Path(folder), "try", 16)
        try:
            disk.make()
            disk.mount()
        except RuntimeError as error:
            print(f"skipped: no loop device can be mounted here: {error}")
            sys.exit(SKIPPED)
        finally:
            disk.unmount()


class Disk:
    """An ext4 in a file, which stands for the disk; `folder`/NAME is where it is mounted."""

    def __init__(self, folder, name, megabytes):
        self.image, self.at, self.megabytes = folder / f"{name}.img", folder / name, megabytes
        self.at.mkdir()

    def make(self, *options):
        with open(self.image, "wb") as file:
            file.truncate(self.megabytes << 20)
        run("mkfs.ext4", "-q", "-F", "-b", "4096", *options, self.image)

    def mount(self, options="noatime"):
        run("mount", "-t", "ext4", "-o", f"loop,{options}", self.image, self.at)

    def unmount(self):
        if os.path.ismount(self.at):
            run("umount", self.at)


class FrozenCopies:
    """A disk below the disk, which can be stopped: a copy that is made meanwhile is what one moment left behind."""

    def __init__(self, folder, megabytes):
        self.below = Disk(folder, "below", megabytes)
        self.below.make("-O", "^has_journal")
        self.below.mount()
        self.disk = Disk(self.below.at, "disk", megabytes - 40)
        self.copied = Disk(folder, "copy", megabytes - 40)

    def copy(self):
        # In one shell, which thaws it even when this program is killed: a frozen file system cannot be unmounted.
        run("bash", "-c", 'fsfreeze -f "$0" || exit; cp --sparse=always "$1" "$2"; done=$?; fsfreeze -u "$0"; exit $done',
            self.below.at, self.disk.image, self.copied.image)

    def close(self):
        for disk in (self.copied, self.disk, self.below):
            disk.unmount()


class Load:
    """disk_load on a store, until it is killed. The facts that it states are in `facts`."""

    def __init__(self, directory, megabytes, facts, seed, first, blocks, pause_us, failpoints=""):
        self.facts = facts
        facts.touch()
        self.log = tempfile.TemporaryFile()
        arguments = [PROGRAMS / "disk_load", directory, megabytes, facts, seed, first, blocks, pause_us]
        # A mistake that the tests are to find (disk_mutants_test.py).
        mutant = {"LD_PRELOAD": os.environ["FOREBAY_MUTANT_LIBRARY"], "FOREBAY_LYING_DISK": os.environ["FOREBAY_MUTANT"]} \
            if "FOREBAY_MUTANT" in os.environ else {}
        self.process = subprocess.Popen([str(argument) for argument in arguments], stdout=self.log, stderr=self.log,
                                        env={**os.environ, **mutant, "FOREBAY_FAILPOINTS": failpoints})

    def size(self):
        return self.facts.stat().st_size

    def must_run(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"disk_load ended with {self.process.returncode}: {self.said()}")

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-2000:] + self.facts.read_text()[-200:]

    def wait_until_all_moved(self, since, seconds=60):
        """Each link has admitted a block after `since`: what was under way then has ended, and has been stated."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.must_run()
            with open(self.facts, "rb") as file:
                file.seek(since)
                new = file.read().split(b"\n")[1:-1]
            if len({int(line[2:]) % LINKS for line in new if line[:1] == b"+"}) == LINKS:
                return
            time.sleep(0.005)
        raise RuntimeError("disk_load does not go on")

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return self.process.returncode == -signal.SIGKILL


def next_number(facts):
    numbers = [int(line[2:]) for line in facts.read_text().splitlines() if line[:1] in "+-"]
    return max(numbers, default=0) + AHEAD


def check(directory, megabytes, facts, certain=None, known=None):
    size = facts.stat().st_size
    command = [PROGRAMS / "disk_check", directory, megabytes, facts, size if certain is None else certain,
               size if known is None else known]
    return json.loads(run(*map(str, command)))


class Sum(dict):
    """Of all that the checks found; `bad` says what must never be and was."""

    NEVER = ("wrong", "unknown", "missing_durable", "unpinned", "lost_pins", "unrepaired")

    def __init__(self):
        super().__init__()
        self.bad = []

    def add(self, found, where, never=NEVER):
        for name, value in found.items():
            if isinstance(value, int):
                self[name] = self.get(name, 0) + value
        self.bad += [f"{where}: {found[name]} {name} (block {found['example']})" for name in never if found[name]]
        if found["broken"]:
            self.bad.append(f"{where}: {found['broken']}")

    def require(self, holds, what):
        if not holds:
            self.bad.append(what)

    def end(self, title):
        print(f"{title}: " + ", ".join(f"{value} {name}" for name, value in self.items()))
        for line in self.bad[:20]:
            print(f"FAILED {line}")
        sys.exit(1 if self.bad else 0)


@contextlib.contextmanager
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="forebay-fault-", dir=MEMORY))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
