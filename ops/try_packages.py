#!/usr/bin/python3
"""Tries the Debian packages as systemd runs them: in a Debian of its own, booted in a container without a network.

  ops/try_packages.py PACKAGES [--suite bookworm] [--s3 build/release/tests/scripted_s3] [--root TAR]

PACKAGES is a folder with forebay_*.deb, forebay-cli_*.deb and forebay-client_*.deb, built on the same release of Debian: packages name the
libraries of the one that they are built on. It installs them, makes a cluster of one machine with certificates, starts the
services, mounts a link as a service, changes the authority, reads the mount under restarts, SIGKILLs and an upgrade, removes
and purges all, and looks at what is left. Needs root, mmdebstrap and systemd-container; about five minutes, two of which make
the Debian (--root keeps it in a file and takes it from there the next time). Nothing of this machine is changed."""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
INCLUDED = "systemd,systemd-sysv,dbus,adduser,iproute2,procps,python3-minimal"
UNITS = ("forebay-coordinator.service", "forebay-node.service", "forebay-mount@imagenet.service")
MOUNT = "forebay-mount@imagenet"
FILES, FILE_BYTES = 64, 300_000
# What any installation of any package changes.
ELSEWHERE = re.compile(r"/(?:var/(?:log|tmp|lib/(?:dpkg|apt|systemd|dbus)|cache/(?:apt|ldconfig|debconf|man))|tmp|run|proc|sys|dev|root)(?:/|$)"
                       r"|/etc/(?:ld\.so\.cache|passwd-?|group-?|g?shadow-?|subuid-?|subgid-?|\.pwd\.lock|mtab)$|.*\.pyc$|.*/__pycache__$")
KEYS = "[default]\naws_access_key_id = AKTEST\naws_secret_access_key = none-looks\n"
# What `forebay init` and `forebay join` write into the package's own configuration.
WRITTEN = {"coordinator": ['listen = "0.0.0.0:7440"'],
           "node": ['coordinator = ["cache-1:7440"]', 'listen = "0.0.0.0:7441"', 'advertise = "cache-1:7441"'],
           "mount": ['coordinator = ["cache-1:7440"]']}
INSTANCE = "FOREBAY_MOUNT_SOURCE=imagenet\nFOREBAY_MOUNT_MOUNTPOINT=/mnt/imagenet\nFOREBAY_MOUNT_ALLOW_OTHER=true\n"
# Reads all files again and again with one of them open all the time; ends with standard input, and says what it saw.
READER = r"""
import hashlib, os, select, sys, time
folder, wanted, reads, errors, longest = sys.argv[1], dict(line.split() for line in open("/root/sums")), 0, [], 0.0
held = os.open(f"{folder}/f00", os.O_RDONLY)
print("reading", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    for name, digest in wanted.items():
        began = time.monotonic()
        try:
            with open(f"{folder}/{name}", "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                whole = file.read(1 << 20)
                while more := file.read(1 << 20):
                    whole += more
            if hashlib.sha256(whole).hexdigest() != digest:
                errors.append(f"{name}: wrong bytes")
            os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)
            os.pread(held, 1, 5)
        except OSError as error:
            errors.append(f"{name}: {error}")
        reads, longest = reads + 1, max(longest, time.monotonic() - began)
print(reads, len(errors), f"{longest:.3f}", *errors[:3], flush=True)
"""


def step(text):
    print(f"== {text}", flush=True)


def fail(text):
    raise SystemExit(f"try_packages.py: {text}")


def check(found, wanted, what):
    if found != wanted:
        fail(f"{what}: {found!r}, not {wanted!r}")


def eventually(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            fail(f"not so within {seconds} s: {what}")
        time.sleep(0.1)
    return found


def make_root(arguments, packages, folder):
    """A Debian with what the packages need, and without the packages."""
    tar = arguments.root or folder / "root.tar"
    if not tar.exists():
        step(f"a Debian {arguments.suite}")
        fields = (subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True,
                                 check=True).stdout.strip() for package in packages)
        needs = ", ".join(need for field in fields for need in field.split(", ") if not need.startswith("forebay"))
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={INCLUDED}",
                        f"--customize-hook=chroot \"$1\" apt-get -y -qq satisfy '{needs}' > /dev/null 2>&1", arguments.suite, tar,
                        *arguments.mirror], check=True)
    root = folder / "root"
    root.mkdir()
    subprocess.run(["tar", "-C", root, "--exclude=./dev/*", "-xf", tar], check=True)
    (root / "etc/hosts").write_text("127.0.0.1 localhost cache-1\n")
    (root / "etc/hostname").write_text("cache-1\n")
    return root


class Machine:
    """The booted Debian."""

    def __init__(self, root):
        self.root = root
        of_systemd = pathlib.Path("/run/systemd/system").exists()
        # systemd from 257 on asks for this word where the machine has cgroups of version 1.
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--quiet", f"--directory={root}", f"--machine=forebay-try-{os.getpid()}", "--private-network",
             "--register=no", "--bind=/dev/fuse", "--console=pipe",
             *(["--property=DeviceAllow=/dev/fuse rwm"] if of_systemd else ["--keep-unit"]), "--boot",
             "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.first = None
        try:
            eventually(self._is_up, "it boots")
            check(self.run("systemctl is-system-running --wait || true"), "running", "the state of the system")
        except BaseException:
            self.end()
            raise

    def _is_up(self):
        if self.process.poll() is not None:
            fail(f"systemd-nspawn ended with {self.process.returncode}")
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.first = children[0] if children else None
        return self.first and self.run("systemctl is-system-running", check=False) in ("starting", "running", "degraded")

    def command(self, *words):
        return ["nsenter", f"--target={self.first}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", *words]

    def run(self, script, check=True):  # pylint: disable=redefined-outer-name
        try:
            done = subprocess.run(self.command("bash", "-euo", "pipefail", "-c", script), capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=180, check=False,
                                  env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"})
        except subprocess.TimeoutExpired as expired:
            self._tell_journal()
            fail(f"{script}\nnot within {expired.timeout:.0f} s")
        if check and done.returncode:
            self._tell_journal()
            fail(f"{script}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def _tell_journal(self):
        print(subprocess.run(self.command("journalctl", "--no-pager", "-n", "40"), capture_output=True, text=True,
                             check=False).stdout, file=sys.stderr)

    def end(self):
        if self.first and self.process.poll() is None:
            os.kill(int(self.first), signal.SIGKILL)  # with it all that runs there
        elif self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)

    def files(self):
        return {path for path in self.run("find / -xdev").splitlines() if not ELSEWHERE.match(path)}

    def listeners(self):
        """Addresses of TCP and UDP."""
        return self.run("ss -Hltun | awk '{print $5}' | sort -u").split()

    def active(self, unit):
        return self.run(f"systemctl is-active {unit}", check=False)


class S3:
    """The scripted one of the tests, on the loopback of the machine."""

    def __init__(self, machine, program):
        self.machine = machine
        self.process = subprocess.Popen(["nsenter", f"--target={machine.first}", "--net", program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.endpoint = re.search(r"endpoint=(\S+)", self.process.stdout.readline())[1]

    def put(self, key, body):
        subprocess.run(["nsenter", f"--target={self.machine.first}", "--net", "curl", "--silent", "--fail", "--request", "PUT",
                        "--data-binary", "@-", f"{self.endpoint}/bucket/{key}"], input=body, stdout=subprocess.DEVNULL, check=True)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(30)


class Readers:
    """Compare all files until finish()."""

    def __init__(self, machine):
        (machine.root / "root/reader.py").write_text(READER)
        self.process = subprocess.Popen(machine.command("python3", "-B", "/root/reader.py", "/mnt/imagenet"),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check(self.process.stdout.readline(), "reading\n", "the readers")

    def finish(self, what):
        said, _ = self.process.communicate("end\n", timeout=120)
        reads, errors, longest, *which = said.split(" ", 3)
        print(f"   {what}: {reads} reads, {errors} errors, longest {longest.strip()} s", flush=True)
        if int(errors) or int(reads) < FILES:
            fail(f"{what}: {which}")


def install(machine, listeners):
    step("install")
    machine.run("dpkg -i /root/*.deb")
    check(machine.listeners(), listeners, "what listens after the installation")
    for unit in UNITS:
        check(machine.active(unit), "inactive", unit)
    said = machine.run("systemd-analyze verify --man=no " + " ".join(UNITS) + " 2>&1 || true")
    check(said, "", "systemd-analyze verify")
    for unit in UNITS:
        print("   " + machine.run(f"systemd-analyze security --no-pager --offline=yes {unit} | tail -n 1"), flush=True)


def check_keys(machine):
    """The service of a node sees its own alone."""
    keys = machine.run("find /etc/forebay -name '*.key'")
    seen = machine.run(f"nsenter --mount --target $(systemctl show -P MainPID forebay-node) setpriv --reuid forebay-node --regid "
                       f"forebay-node --clear-groups sh -c 'for key; do [ ! -r $key ] || echo $key; done' - {' '.join(keys.split())}")
    check(seen.split(), ["/etc/forebay/node-trust/node.key"], f"which of {keys.split()} the service of a node sees")


def change_authority(machine):
    step("another authority")
    for said in ("believed beside", "the new authority issues", "believed no more"):
        eventually(lambda said=said: said in machine.run("forebay init --rotate-ca 2>&1 || true"), said, 90)
        check_keys(machine)
    if not re.search(r"\bup\b", machine.run("forebay nodes")):
        fail("the node is not up under another authority")
    # Also of the mount, which is another user than whose the folder is.
    if "not renewed" in (said := machine.run("forebay status || true")):
        fail(f"a certificate is not renewed under another authority: {said}")
    machine.run("cat /mnt/imagenet/* > /dev/null")


def make_cluster(machine, s3):
    step("init, join, link, mount")
    shipped = (machine.root / "etc/forebay/forebay.toml").read_text().splitlines()
    for path, text in (("etc/forebay/aws-credentials", KEYS),
                       ("etc/default/forebay", f"AWS_REGION=us-east-1\nAWS_ENDPOINT_URL={s3.endpoint}\n")):
        (machine.root / path).write_text(text)
    said = machine.run("forebay init --advertise cache-1:7440")
    token = re.search(r"--token (\S+)", said)[1]
    machine.run("systemctl enable --now forebay-coordinator")
    machine.run(f"forebay join cache-1:7440 --token {token} --id cache-1")
    machine.run("systemctl enable --now forebay-node")
    eventually(lambda: re.search(r"\bup\b", machine.run("forebay nodes")), "the node is up")
    check_keys(machine)
    machine.run("forebay link s3://bucket/train/ --as imagenet --wait")
    token = re.search(r"--token (\S+)", machine.run("forebay token create --role client"))[1]
    machine.run(f"forebay join cache-1:7440 --token {token} --id cache-1")
    config = (machine.root / "etc/forebay/forebay.toml").read_text()
    for section, lines in WRITTEN.items():
        by = "init" if section == "coordinator" else "join"
        added = "\n".join([f"[{section}]", f"# By forebay {by}.", *lines, ""])
        if added not in config:
            fail(f"join and init have written otherwise than {added!r}: {config}")
    check([line for line in shipped if line not in config.splitlines()], [], "lines of the package's configuration that are gone")
    machine.run("mkdir -p /etc/forebay/mounts /mnt/imagenet")
    (machine.root / "etc/forebay/mounts/imagenet.env").write_text(INSTANCE)
    machine.run(f"systemctl enable --now {MOUNT}")
    check(machine.run("ls /mnt/imagenet | wc -l"), str(FILES), "files in the mount")


def pids(machine):
    return machine.run(f"cat /sys/fs/cgroup/$(systemctl show -P ControlGroup {MOUNT})/cgroup.procs 2> /dev/null || "
                       f"cat /sys/fs/cgroup/systemd/$(systemctl show -P ControlGroup {MOUNT})/cgroup.procs").split()


def under_readers(machine, what, fault):
    before, device = set(pids(machine)), machine.run("stat -c %d /mnt/imagenet")
    readers = Readers(machine)
    fault()
    eventually(lambda: machine.active(MOUNT) == "active" and before.isdisjoint(pids(machine)), f"{what}: it runs anew")
    # Through what runs now, and not what the kernel remembers.
    machine.run("cat /mnt/imagenet/* > /dev/null")
    readers.finish(what)
    check(machine.run("stat -c %d /mnt/imagenet"), device, f"{what}: the mount is the same")


def restart(machine):
    step("restarts under readers")
    under_readers(machine, "systemctl restart", lambda: machine.run(f"systemctl restart {MOUNT}"))
    under_readers(machine, "SIGKILL of the whole service", lambda: machine.run(f"systemctl kill -s KILL {MOUNT}"))
    under_readers(machine, "upgrade of the packages", lambda: machine.run("dpkg -i /root/*.deb"))
    for unit in UNITS:
        check(machine.active(unit), "active", unit)
    held = machine.run(f"systemctl show -P NFileDescriptorStore {MOUNT}")
    print(f"   systemd holds {held} descriptors of the mount", flush=True)
    machine.run(f"systemctl stop {MOUNT}")
    check(machine.run("mountpoint -q /mnt/imagenet && echo mounted || true"), "", "after systemctl stop")
    check(machine.run(f"systemctl show -P NFileDescriptorStore {MOUNT}"), "0", "descriptors that are held after a stop")
    machine.run(f"systemctl start {MOUNT}")


def remove(machine, files, listeners):
    step("remove and purge the servers, and the mount stays")
    trust = machine.root / "etc/forebay/trust"
    machine.run("dpkg -r forebay")
    check([line for line in machine.listeners() if line not in listeners], [], "what listens after the removal")
    if not (trust / "ca.key").exists():
        fail("the removal took the key of the authority")
    machine.run("dpkg -P forebay")
    check(sorted(path.name for path in trust.parent.rglob("*.key")), ["client.key"], "private keys after the purge")
    machine.run(f"systemctl restart {MOUNT}")
    check(machine.run("ls /mnt/imagenet | wc -l"), str(FILES), "files in a mount that was restarted without any server")

    step("remove and purge the mount")
    machine.run("dpkg -r forebay-client")
    check(machine.run("mountpoint -q /mnt/imagenet && echo mounted || true"), "", "after the removal")
    check(machine.run("pgrep -l forebay || true"), "", "processes after the removal")
    machine.run("dpkg -P forebay-client; dpkg -P forebay-cli; rm -f /etc/default/forebay; rmdir /mnt/imagenet")
    check(sorted(machine.files() - files), [], "what is left of it")
    check(machine.run("systemctl --failed --no-legend"), "", "services that failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=pathlib.Path)
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--mirror", action="append", default=[], help="of mmdebstrap; the usual one unless given")
    parser.add_argument("--s3", type=pathlib.Path, default=REPOSITORY / "build/release/tests/scripted_s3")
    parser.add_argument("--root", type=pathlib.Path, help="a file for the Debian, made where it is not there")
    arguments = parser.parse_args()
    for program in ("mmdebstrap", "systemd-nspawn", "curl"):
        if shutil.which(program) is None:
            fail(f"{program} is not installed: apt install mmdebstrap systemd-container curl")
    if os.geteuid() != 0:
        fail("it boots a system of its own, and only root can")
    packages = sorted(arguments.packages.glob("forebay*.deb"))
    if len(packages) != 3:
        fail(f"{arguments.packages} does not hold three packages: make them with cpack (docs/DEPLOY.md)")
    signal.signal(signal.SIGTERM, lambda *_: fail("ended by SIGTERM"))  # with all that it has made
    folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-try-packages-"))
    machine = s3 = None
    try:
        root = make_root(arguments, packages, folder)
        machine = Machine(root)
        files = machine.files()
        s3 = S3(machine, arguments.s3)
        bodies = {f"f{i:02}": bytes([i]) + os.urandom(FILE_BYTES) for i in range(FILES)}
        for name, body in bodies.items():
            s3.put(f"train/{name}", body)
        listeners = machine.listeners()
        (root / "root/sums").write_text("".join(f"{name} {hashlib.sha256(body).hexdigest()}\n" for name, body in bodies.items()))
        for package in packages:
            shutil.copy(package, root / "root")
        install(machine, listeners)
        make_cluster(machine, s3)
        change_authority(machine)
        restart(machine)
        remove(machine, files, listeners)
        step("nothing is left")
    finally:
        if s3:
            s3.stop()
        if machine:
            machine.end()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
