#!/usr/bin/python3
"""What another user of a machine, and the same one with a debugger, sees of a program: nothing that helps to open a lock."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

PROGRAMS = pathlib.Path(os.environ.get("FOREBAY_BIN", "")).resolve()
NOBODY = 65534
OTHER = 65533
SECRET = "wJalrXUtnFEMIsecretKEY"
PATIENCE_SECONDS = 30


@unittest.skipUnless(os.geteuid() == 0, "only root can start programs as other users")
class Secrets(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-s-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        for name in ("run", "state", "cache", "mnt"):
            (self.folder / name).mkdir()
            os.chown(self.folder / name, NOBODY, NOBODY)
        for name in ("run", "state", "cache"):
            (self.folder / name).chmod(0o700)
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
                            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true",
                            "FOREBAY_RUNTIME_DIR": str(self.folder / "run")}

    def start(self, *words, stdin=subprocess.DEVNULL):
        """The process, as a user who is not root, and its log."""
        log = self.folder / f"{pathlib.Path(words[0]).name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(list(map(str, words)), env=self.environment, stdin=stdin, stdout=out, stderr=out,
                                       user=NOBODY, group=NOBODY, extra_groups=[])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, log

    def said(self, process, log, words):
        """Waits until the log has `words`; its text."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in (text := log.read_text(errors="replace")):
            self.assertIsNone(process.poll(), text)
            self.assertLess(time.monotonic(), deadline, text)
            time.sleep(0.02)
        return text

    @staticmethod
    def sees(user, path):
        return subprocess.run(["cat", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user, group=user,
                              extra_groups=[], check=False).returncode == 0

    def assert_closed(self, process, log):
        place = pathlib.Path("/proc") / str(process.pid)
        self.assertIn(f"Uid:\t{NOBODY}\t{NOBODY}\t", (place / "status").read_text())
        # proc(5): of a process that cannot be dumped the files belong to root, and only root may trace it.
        for name in ("environ", "maps"):
            self.assertEqual((place / name).stat().st_uid, 0, name)
            for who in (NOBODY, OTHER):
                self.assertFalse(self.sees(who, place / name), (name, who))
        self.assertNotIn(SECRET.encode(), (place / "cmdline").read_bytes())
        self.assertNotIn(SECRET, log.read_text(errors="replace"))

    def started_joining(self, address):
        """A command line that waits for its token and has prepared its process."""
        process, log = self.start(PROGRAMS / "forebay", "join", address, "--token", "-", stdin=subprocess.PIPE)
        self.addCleanup(process.stdin.close)
        deadline = time.monotonic() + PATIENCE_SECONDS
        place = pathlib.Path("/proc") / str(process.pid)
        while (place / "environ").stat().st_uid != 0:
            self.assertIsNone(process.poll(), log.read_text(errors="replace"))
            self.assertLess(time.monotonic(), deadline, "it can be dumped")
            time.sleep(0.02)
        return process, log

    def test_a_process_that_is_not_ours_can_be_looked_at(self):
        """Or the other test would show nothing."""
        process, _ = self.start("/bin/sleep", "60")
        place = pathlib.Path("/proc") / str(process.pid)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (place / "comm").read_text().strip() != "sleep":
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual((place / "environ").stat().st_uid, NOBODY)
        self.assertTrue(self.sees(NOBODY, place / "environ"))

    def test_no_program_can_be_dumped_and_no_secret_is_in_its_arguments_or_its_log(self):
        coordinator, log = self.start(PROGRAMS / "forebay-coordinator", "--listen", "127.0.0.1:0", "--state-dir",
                                      self.folder / "state", "--metrics-listen", "127.0.0.1:0", "--log-level", "debug")
        ready = self.said(coordinator, log, " ready listen=")
        self.assert_closed(coordinator, log)
        address = ready.split(" ready listen=")[1].split()[0]
        node, log = self.start(PROGRAMS / "forebay-node", "--listen", "127.0.0.1:0", "--coordinator", address, "--cache-dir",
                               f"{self.folder}/cache=256MiB", "--state-dir", self.folder / "state/node", "--metrics-listen",
                               "127.0.0.1:0", "--log-level", "debug")
        self.said(node, log, " ready listen=")
        self.assert_closed(node, log)
        if pathlib.Path("/dev/fuse").exists() and pathlib.Path("/dev/fuse").stat().st_mode & 0o006 == 0o006:
            # It waits for a coordinator; what it will be is what it is already.
            mount, log = self.start(PROGRAMS / "forebay-mount", "nothing", self.folder / "mnt", "--foreground", "--coordinator",
                                    "127.0.0.1:1", "--state-dir", self.folder / "state/mount", "--log-level", "debug")
            self.said(mount, log, "coordinator")
            self.assert_closed(mount, log)
        self.assert_closed(*self.started_joining(address))
        for path in (self.folder / "run").rglob("*"):
            self.assertEqual(path.lstat().st_mode & 0o077, 0, path)
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.terminate()
            node.wait(PATIENCE_SECONDS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
