#!/usr/bin/python3
"""The ways to mount: a directory of a link, every link, and mount(8) with its fstab."""

import contextlib
import hashlib
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from e2e import OWN_CRASHES, PROGRAMS, E2eTest, eventually, is_dead, main
from mount_state import masks_of, mounts_below, worker_of


# Privately and writable: what is changed in memory is the reader's own.
MAPPED_PRIVATELY = """import hashlib, mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
print(hashlib.sha256(mapped).hexdigest())
mapped[:5] = b"xxxxx"
"""


def in_namespaces(*commands, env):
    """Runs shell commands in a mount and a process namespace of their own, with which all ends that they mount and start;
    answers the completed process. In a bare chroot, whose / is no mount point, what they mount would show outside, too."""
    mountinfo = pathlib.Path("/proc/self/mountinfo").read_text()
    if not any(line.split()[4] == "/" for line in mountinfo.splitlines()):
        raise unittest.SkipTest("/ is no mount point here (mount --bind a chroot onto itself first)")
    return subprocess.run(["unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c", "\n".join(commands)], env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)


class MountTest(E2eTest):
    NODES = ("n1",)

    def refused_mount(self, source, *says):
        """forebay-mount says one clear sentence and mounts nothing."""
        place = self.folder / "refused"
        place.mkdir(exist_ok=True)
        result = subprocess.run(
            [PROGRAMS / "forebay-mount", source, place, "--coordinator", self.cluster.address, "--state-dir",
             self.folder / "s"], env=self.cluster.client_env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(mounts_below(place), {})
        lines = result.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, result.stderr)
        for word in says:
            self.assertIn(word, lines[0])


class Totals(MountTest):
    LINE = re.compile(r"data: (\d+) reads \((\d+) failed\), half within ([\d.e-]+) s, 99 % within ([\d.e-]+) s; (.*)$", re.MULTILINE)

    def test_an_unmount_leaves_one_line_of_what_the_mount_did(self):
        files = {f"f{i}": bytes([i]) * 10_000 for i in range(20)}
        self.put({**files, "gone": b"x"})
        self.start()
        self.link("data", "", "--refresh", "immutable")
        mount = self.cluster.mount("data", "m", "--mode", "large")
        for name, data in files.items():
            self.assertEqual((mount / name).read_bytes(), data)
        self.s3.delete_object(Bucket=self.bucket, Key="gone")
        with self.assertRaises(OSError):
            (mount / "gone").read_bytes()
        reads = json.loads((mount / ".forebay/stats").read_text())["reads"]
        log = self.cluster.mounts["m"].log
        self.assertEqual(self.LINE.findall(log.read_text()), [], "not before it is unmounted")
        self.assertEqual(self.cluster.unmount("m"), 0)
        lines = self.LINE.findall(log.read_text())
        self.assertEqual(len(lines), 1, log.read_text())
        total, failed, half, most, tiers = lines[0]
        self.assertGreaterEqual(int(total), max(reads, len(files)))
        self.assertGreaterEqual(int(failed), 1)
        self.assertGreater(float(most), 0)
        self.assertLessEqual(float(half), float(most))
        for tier in ("local", "peer", "s3"):
            self.assertRegex(tiers, rf"from {tier} in [\d.]+ s")


class Cpus(MountTest):
    def test_a_node_and_a_mount_keep_to_theirs_also_after_an_upgrade(self):
        self.put({"a": bytes(3 << 20)})
        self.start(node_options=("--cpu-limit", "1"))
        self.link()
        mount = self.cluster.mount("data", "m", "--cpu-limit", "1", "--threads", "4")
        self.assertEqual((mount / "a").read_bytes(), bytes(3 << 20))
        supervisor = self.cluster.mounts["m"].pid
        last = frozenset({max(os.sched_getaffinity(0))})
        self.assertEqual(json.loads((mount / ".forebay/config").read_text())["threads"], 1)
        for name, pid in (("node", self.cluster.nodes["n1"].pid), ("mount", worker_of(supervisor))):
            masks = masks_of(pid)
            self.assertGreater(len(masks), 2, name)
            self.assertEqual({frozenset(mask) for mask in masks}, {last}, name)
        before = worker_of(supervisor)
        subprocess.run([PROGRAMS / "forebay-mount", "--upgrade", mount], env=self.cluster.client_env, check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        eventually(lambda: worker_of(supervisor) not in (None, before), "another worker serves")
        self.assertEqual({frozenset(mask) for mask in masks_of(worker_of(supervisor))}, {last})


class Bandwidth(MountTest):
    def test_what_comes_over_the_network_keeps_to_it_and_what_this_machine_has_is_not_counted(self):
        files = {f"f{i:02d}": random.Random(i).randbytes(1 << 20) for i in range(12)}
        self.put(files)
        self.start()
        self.link()
        far = self.cluster.mount("data", "far", "--max-bandwidth", "4MiB", "--local-reads", "network")
        began = time.monotonic()
        for name, data in files.items():
            self.assertEqual((far / name).read_bytes(), data)
        # From below alone: 250 ms of it may come at once, and the last read is paid for by whoever comes next.
        self.assertGreaterEqual(time.monotonic() - began, 12 / 4 - 0.25 - 0.25)
        self.assertGreater(self.metrics(self.cluster.mounts["far"])["forebay_receive_wait_seconds_total", ""], 1)
        near = self.cluster.mount("data", "near", "--max-bandwidth", "4MiB")
        for name, data in files.items():
            self.assertEqual((near / name).read_bytes(), data)
        self.assertEqual(self.metrics(self.cluster.mounts["near"])["forebay_receive_wait_seconds_total", ""], 0)


class SubPaths(MountTest):
    def test_a_directory_of_a_link_is_mounted_as_a_root(self):
        self.put({"a/b/c/file": b"deep", "a/b/other": b"near", "a/out": b"outside"})
        self.start()
        self.link()
        mount = self.cluster.mount("data/a/b", "m1")
        self.assertEqual(sorted(os.listdir(mount)), ["c", "other"])
        self.assertEqual((mount / "c" / "file").read_bytes(), b"deep")
        self.assertEqual(json.loads((mount / ".forebay/config").read_text())["sub_path"], "a/b")
        # The CLI takes paths inside it for what they are in the link.
        listed = self.cluster.cli("-o", "json", "ls", str(mount / "c"))
        self.assertIn("file", listed.stdout)

    def test_what_is_no_directory_of_the_link_is_one_sentence_and_no_mount(self):
        self.put({"a/file": b"x"})
        self.start()
        self.link()
        self.refused_mount("data/a/nothing", "data", "a/nothing", "no directory")
        self.refused_mount("data/a/file", "data", "a/file", "is a file")
        self.refused_mount("data/../etc", "data", "no directory")


class EveryLink(MountTest):
    def three_links(self):
        self.put({"x/one": b"1", "y/two": b"22", "z/three": b"333"})
        self.start()
        for name in "xyz":
            self.link(name, f"{name}/")

    def test_each_link_is_a_directory_with_a_connection_of_its_own(self):
        self.three_links()
        mount = self.cluster.mount("/", "all")
        self.assertEqual(os.listdir(mount), ["x", "y", "z"])
        self.assertEqual((mount / "x/one").read_bytes() + (mount / "z/three").read_bytes(), b"1333")
        self.assertEqual(len({os.stat(mount / name).st_dev for name in ("", "x", "y", "z")}), 4)
        self.assertEqual(json.loads((mount / "y/.forebay/config").read_text())["link"], "y")
        with self.assertRaises(OSError) as caught:
            (mount / "new").mkdir()
        self.assertEqual(caught.exception.strerror, "Read-only file system")
        # One process serves them all, and tells them apart.
        metrics = self.metrics(self.cluster.mounts["all"])
        read = {name: sum(value for (metric, labels), value in metrics.items()
                          if metric == "forebay_read_bytes_total" and f'link="{name}"' in labels) for name in "xyz"}
        self.assertEqual(read, {"x": 1, "y": 0, "z": 3})
        self.assertEqual(self.cluster.unmount("all"), 0)
        self.assertEqual(mounts_below(mount), {})

    def test_links_come_and_go_within_seconds(self):
        self.three_links()
        mount = self.cluster.mount("/", "all")
        with open(mount / "y/two", "rb") as held:
            self.link("late", "x/")
            self.cluster.cli("unlink", "x")
            self.cluster.cli("unlink", "y")
            eventually(lambda: sorted(os.listdir(mount)) == ["late", "z"], "links have come and gone", 10)
            self.assertEqual((mount / "late/one").read_bytes(), b"1")
            self.assertFalse((mount / "x").exists())
            # What is open stays open; its name has gone.
            self.assertFalse((mount / "y").exists())
            self.assertEqual(os.fstat(held.fileno()).st_size, 2)
        # The same name again, for other data.
        self.link("y", "z/")
        eventually(lambda: (mount / "y/three").exists(), "the new link is there", 10)
        self.assertEqual((mount / "y/three").read_bytes(), b"333")

    def test_it_begins_with_no_link_and_from_disk(self):
        self.put({"x/one": b"1"})
        self.start()
        mount = self.cluster.mount("/", "all")
        self.assertEqual(os.listdir(mount), [])
        self.link("x", "x/")
        eventually(lambda: os.listdir(mount) == ["x"], "the first link is there", 10)
        self.assertEqual((mount / "x/one").read_bytes(), b"1")
        self.assertEqual(self.cluster.unmount("all"), 0)
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        mount = self.cluster.mount("/", "all")
        self.assertEqual((mount / "x/one").read_bytes(), b"1")
        self.cluster.start_coordinator()

    def test_an_unmount_of_the_top_ends_all(self):
        self.three_links()
        mount = self.cluster.mount("/", "all")
        self.assertEqual(len(mounts_below(mount)), 4)
        subprocess.run(["umount", "-R", mount], check=True)
        self.assertEqual(self.cluster.mounts["all"].wait(), 0)
        self.assertEqual(mounts_below(mount), {})

    def test_a_lazy_unmount_leaves_readers_in_peace(self):
        self.three_links()
        mount = self.cluster.mount("/", "all")
        daemon = self.cluster.mounts["all"]
        with open(mount / "z/three", "rb") as held:
            subprocess.run(["umount", "-l", mount], check=True)
            self.assertEqual(mounts_below(mount), {})
            self.assertEqual(held.read(), b"333")
            self.assertTrue(daemon.running())
        self.assertEqual(daemon.wait(), 0)

    def test_sigterm_leaves_nothing_even_in_use(self):
        self.three_links()
        mount = self.cluster.mount("/", "all")
        held = os.open(mount / "z/three", os.O_RDONLY)
        self.assertEqual(self.cluster.mounts["all"].stop(), 0)
        self.assertEqual(mounts_below(mount), {})
        with self.assertRaises(OSError):
            os.read(held, 1)
        with contextlib.suppress(OSError):  # it has lost its file system
            os.close(held)

    def test_a_crash_leaves_nothing(self):
        self.three_links()
        self.cluster.client_env.update(OWN_CRASHES)
        mount = self.cluster.mount("/", "all")
        daemon = self.cluster.mounts.pop("all")
        daemon.kill(signal.SIGSEGV)
        self.assertEqual(daemon.wait(), -signal.SIGSEGV)
        daemon.process.stdout.close()
        self.assertEqual(mounts_below(mount), {})
        self.assertEqual(os.listdir(mount), [])

    def test_what_sigkill_leaves_is_cleared_by_the_next_start(self):
        self.three_links()
        mount = self.cluster.mount("/", "all")
        self.cluster.mounts.pop("all").kill(signal.SIGKILL)
        self.assertEqual(len(mounts_below(mount)), 4)
        eventually(lambda: is_dead(mount), "the process that served has ended")
        with self.assertRaises(OSError):
            os.listdir(mount)
        mount = self.cluster.mount("/", "all")
        self.assertEqual(len(mounts_below(mount)), 4)
        self.assertEqual((mount / "x/one").read_bytes(), b"1")

    def as_nobody(self, place):
        """A folder of a user who is not root with an empty folder `place`; the words before his commands; the command that gives him
        /dev/fuse, and his fuse.conf; the environment."""
        user = pwd.getpwnam("nobody")
        home = self.home / "user" / place
        shutil.copytree(self.folder / "run", home / "run", ignore=shutil.ignore_patterns("*.sock"))
        (home / place).mkdir()
        (home / "fuse.conf").touch()
        os.chmod(self.home, 0o755)
        for path in [home, *home.rglob("*")]:
            os.chown(path, user.pw_uid, user.pw_gid)
        # Everybody may open /dev/fuse where udev made it; here that is so for this test alone.
        prepare = (f"mknod {home}/fuse c 10 229; chmod 666 {home}/fuse && mount --bind {home}/fuse /dev/fuse && "
                   f"mount --bind {home}/fuse.conf /etc/fuse.conf || exit 99")
        return (home, f"setpriv --reuid={user.pw_uid} --regid={user.pw_gid} --clear-groups", prepare,
                {**self.cluster.client_env, "FOREBAY_RUNTIME_DIR": str(home / "run")})

    def test_a_user_who_is_not_root_reads_and_maps_shards(self):
        shard = random.Random(5).randbytes((3 << 20) + 77)
        self.put({"shard": shard})
        self.start()
        self.link()
        home, as_user, prepare, env = self.as_nobody("shards")
        place = home / "shards"
        done = in_namespaces(
            prepare, f"{as_user} {PROGRAMS}/forebay-mount data {place} --mode large --coordinator {self.cluster.address} "
            f"--state-dir {home}/state --log-file {home}/log; echo $?",
            f"{as_user} sha256sum {place}/shard", f"{as_user} {sys.executable} -c '{MAPPED_PRIVATELY}' {place}/shard",
            f"{as_user} cat {place}/.forebay/config; echo; {as_user} cat {place}/.forebay/errors",
            f"{as_user} fusermount3 -u {place}; echo $?", env=env)
        log = (home / "log").read_text() if (home / "log").exists() else ""
        self.assertEqual(done.returncode, 0, (done, log))
        _, started, read, mapped, *config, ended = done.stdout.splitlines()  # the first: it is ready
        wanted = hashlib.sha256(shard).hexdigest()
        self.assertEqual((started, read.split()[0], mapped, ended), ("0", wanted, wanted, "0"), (done, log))
        self.assertEqual(json.loads("".join(config))["mode"], "large")

    def test_a_user_who_is_not_root_mounts_all_links(self):
        self.three_links()
        home, as_user, prepare, env = self.as_nobody("all")
        mount = (f"{as_user} {PROGRAMS}/forebay-mount / {home}/all --coordinator {self.cluster.address} "
                 f"--state-dir {home}/state --log-file {home}/log")
        (home / "fuse.conf").write_text("# nothing\n")
        refused = in_namespaces(prepare, mount, f"grep -c {home}/all /proc/self/mountinfo", env=env)
        self.assertEqual(refused.stdout, "0\n")
        self.assertEqual(len(refused.stderr.strip().splitlines()), 1, refused.stderr)
        self.assertIn("user_allow_other in /etc/fuse.conf", refused.stderr)
        (home / "fuse.conf").write_text("user_allow_other\n")
        done = in_namespaces(
            prepare, mount, "echo $?", "pkill -KILL -f worker-of-a-mount",
            f"{as_user} cat {home}/all/x/one {home}/all/z/three; echo",
            f"{as_user} touch {home}/all/new", f"setpriv --reuid=12 --clear-groups ls {home}/all",
            f"{as_user} fusermount3 -uz {home}/all; echo $?", f"grep -c {home}/all /proc/self/mountinfo", env=env)
        log = (home / "log").read_text() if (home / "log").exists() else ""
        self.assertEqual(done.stdout.splitlines()[1:], ["0", "1333", "0", "0"], (done, log))
        self.assertIn("Read-only file system", done.stderr)
        self.assertIn("Permission denied", done.stderr)  # to others


class MountHelper(MountTest):
    """mount(8) looks for its helpers in /sbin: each test has a mount namespace of its own, in which that holds ours. What
    it mounts and starts ends with the namespaces."""

    def in_namespace(self, *commands):
        """Runs shell commands where mount(8) finds our helper; answers the completed process."""
        for place in ("mnt", "mnt2"):
            (self.folder / place).mkdir(exist_ok=True)
        env = {**self.cluster.client_env, "FOREBAY_MOUNT_STATE_DIR": str(self.folder / "s")}
        return in_namespaces(
            f"mount -t tmpfs tmpfs /usr/sbin && ln -s {PROGRAMS}/mount.forebay /usr/sbin || exit 99", *commands, env=env)

    def sample(self):
        self.put({"a/file": b"hello"})
        self.start()
        self.link()
        return f"{self.cluster.address}/data"

    def test_mount_returns_when_the_mount_is_ready(self):
        source = self.sample()
        place = self.folder / "mnt"
        done = self.in_namespace(
            f"mount -t forebay {source} {place} -o ro,_netdev,nofail,allow_other,noatime,user,x-systemd.automount,"
            "job_id=j7,uid=12,failover-timeout=2s",
            "echo $?", f"cat {place}/a/file", f"stat -c ' %u' {place}/a/file", f"umount {place}")
        self.assertEqual((done.stdout.splitlines()[-1], done.stderr), ("hello 12", ""), done)
        self.assertIn("0", done.stdout.splitlines())

    def test_writable_and_defaults_are_taken_with_one_warning(self):
        source = self.sample()
        place = self.folder / "mnt"
        done = self.in_namespace(f"mount -t forebay {source}/a {place} -o defaults,rw,exec",
                                 f"cat {place}/file", f"touch {place}/new", f"umount {place}")
        self.assertIn("hello", done.stdout)
        warnings = [line for line in done.stderr.splitlines() if line.startswith("mount.forebay")]
        self.assertEqual(len(warnings), 1, done.stderr)
        self.assertIn("Read-only file system", done.stderr)

    def test_an_unknown_option_names_the_nearest_and_mounts_nothing(self):
        source = self.sample()
        place = self.folder / "mnt"
        done = self.in_namespace(f"mount -t forebay {source} {place} -o ro,job_di=3; echo $?", f"mountpoint {place}")
        self.assertIn("job_id", done.stderr)
        self.assertEqual(done.stdout.splitlines()[0], "1")
        self.assertIn("not a mountpoint", done.stdout + done.stderr)

    def test_failures_have_the_status_that_mount_expects(self):
        self.sample()
        place = self.folder / "mnt"
        done = self.in_namespace(f"mount -t forebay {self.cluster.address}/dta {place} -o ro; echo $?",
                                 f"mount -t forebay {self.cluster.address}/data/no {place} -o ro; echo $?",
                                 f"mount -f -t forebay {self.cluster.address}/data {place} -o ro; echo $?")
        self.assertEqual([line for line in done.stdout.splitlines() if line.isdigit()], ["32", "32", "0"])
        self.assertIn("the nearest is 'data'", done.stderr)

    def test_lines_of_fstab_are_mounted_once_by_mount_a(self):
        source = self.sample()
        fstab = self.folder / "fstab"
        one, every = self.folder / "mnt", self.folder / "mnt2"
        fstab.write_text(f"{source} {one} forebay ro,_netdev,nofail,allow_other,job_id=j 0 0\n"
                         f"{self.cluster.address}/ {every} forebay ro,noauto 0 0\n")
        done = self.in_namespace(f"mount -a -T {fstab}; echo first $?", f"cat {one}/a/file; echo",
                                 f"mount -a -T {fstab}; echo second $?", f"grep -c ' {one} ' /proc/self/mountinfo",
                                 f"mount -T {fstab} {every}; echo third $?", f"cat {every}/data/a/file; echo",
                                 f"umount {one}", f"umount -R {every}; echo $?")
        self.assertEqual(done.stdout.splitlines(), ["first 0", "hello", "second 0", "1", "third 0", "hello", "0"], done)

    def test_an_ipv6_address_stands_in_brackets(self):
        self.put({"a/file": b"hello"})
        self.cluster.start_coordinator("--listen", "[::1]:0")
        self.link()
        place = self.folder / "mnt"
        done = self.in_namespace(f"mount -t forebay {self.cluster.address},127.0.0.1:9/data {place} -o ro",
                                 f"ls {place}/a", f"umount {place}")
        self.assertEqual((done.stdout.splitlines()[-1:], done.stderr), (["file"], ""), done)


if __name__ == "__main__":
    main()
