"""Machines that have installed the Debian packages: each with an address, a name, file systems, processes and users of its
own, on this one. No file is shared but the packages; S3 is reached past their network. What systemd does is done by
played_systemctl.py, which says what of a unit it leaves out."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from e2e import PROGRAMS, eventually  # noqa: E402
from local_cluster import metrics_at  # noqa: E402
from netns import Network, Tunnel, skip_if_missing  # noqa: E402
from shifted_clock import LIBRARY, ShiftedClock  # noqa: E402
from verified_load import VerifiedTest, nodes_up  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SYSTEMCTL = HERE / "played_systemctl.py"
FILES = 600  # of one block each
HEARD_SECONDS = 30  # between two steps of a change of the authority (docs/SECURITY.md)
CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.DOTALL)
# On each machine: a clock, and the environment of those who have it.
CLOCK_LIBRARY, CLOCK = "/usr/local/lib/shifted_clock.so", "/usr/local/lib/clock"
CLOCKED = f"LD_PRELOAD={CLOCK_LIBRARY} FOREBAY_SHIFTED_CLOCK={CLOCK}"
# /etc, /var, /usr and /root are the real ones below, so that nothing of this machine changes; the rest is empty. What others,
# another test perhaps, have mounted below is not there.
OWN = """
while read -r _ _ _ _ place _; do
  case "$place" in /etc/* | /var/* | /usr/* | /root/* | /run/* | /mnt/* | /tmp/*) umount -l "$place" 2> /dev/null || true ;; esac
done < /proc/self/mountinfo
mount -t tmpfs tmpfs "$1"
for top in etc var usr root; do
  mkdir -p "$1/$top.upper" "$1/$top.work"
  mount -t overlay -o "lowerdir=/$top,upperdir=$1/$top.upper,workdir=$1/$top.work" overlay "/$top"
done
mkdir -p "$1/packages" /var/lib/etcd
rm -f /var/lib/man-db/auto-update  # an index of all pages of this machine, which takes seconds
mount --bind "$2" "$1/packages"
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=0755 tmpfs /mnt
mount --move "$1/packages" /mnt
mkdir -p /root/build/release
cp /mnt/*.deb /root/build/release
umount /mnt
mount -t tmpfs -o mode=1777 tmpfs /tmp
rm -rf /var/lib/etcd/* /var/lib/forebay /etc/forebay /var/cache/forebay
mkdir -m 0700 /var/lib/forebay  # as root once made it who mounted by hand
hostname "$3"
exec sleep infinity
"""


def packages():
    """Begins to make the packages, and answers what waits for them and answers their folder."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-packages-"))
    unittest.addModuleCleanup(shutil.rmtree, folder)
    making = subprocess.Popen(["cpack", "--config", PROGRAMS.parent / "CPackConfig.cmake", "-B", folder,
                               "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none"], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)

    def made():
        said = making.communicate()[0]
        if making.returncode:
            raise AssertionError(said)
        return folder

    return made


class Host:
    """A machine: the network's, with mounts, processes and a name of its own."""

    def __init__(self, machine, folder, packages):
        self.machine = machine
        folder.mkdir()
        with machine.inside():
            self.holder = subprocess.Popen(
                ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
                 "bash", "-euc", OWN, "-", str(folder), str(packages), machine.name], stdin=subprocess.DEVNULL)
        self.first = None
        try:
            eventually(self._is_up, f"{machine.name} is up", 60)
            shutil.copyfile(LIBRARY, self.path(CLOCK_LIBRARY))
        except BaseException:
            self.holder.kill()
            self.holder.wait()
            raise
        self.clock, self.passed_seconds = ShiftedClock(self.path(CLOCK)), 0

    def _is_up(self):
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()
        if not children:
            assert self.holder.poll() is None, f"{self.machine.name} did not come up"
            return False
        self.first = children[0]
        return pathlib.Path(f"/proc/{self.first}/comm").read_text().strip() == "sleep"

    @property
    def root(self):
        """Its file system, as this process reaches it."""
        return pathlib.Path(f"/proc/{self.first}/root")

    def run(self, script, check=True, stdin=None):
        with self.machine.inside(), contextlib.nullcontext(stdin or subprocess.DEVNULL) as given:
            result = subprocess.run(
                ["nsenter", f"--mount=/proc/{self.first}/ns/mnt", f"--pid=/proc/{self.first}/ns/pid",
                 f"--uts=/proc/{self.first}/ns/uts", "bash", "-euo", "pipefail", "-c",
                 f"cd /root\n{script}"],
                env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"},
                stdin=given, capture_output=True, text=True, timeout=300, check=False)
        if check and result.returncode:
            raise AssertionError(f"{self.machine.name}: {script}\n{result.stdout}{result.stderr}\n{self.logs()}")
        return result

    def logs(self):
        return self.run("tail -n 15 /var/log/forebay-*.log /var/log/etcd.log || true", check=False).stdout

    def path(self, path):
        """Of this machine, as this process reaches it."""
        return self.root / path.lstrip("/")

    def pass_time(self, seconds):
        """For all that is CLOCKED, at once."""
        self.passed_seconds += seconds
        self.clock.set(self.passed_seconds)

    def put(self, path, text, mode="0644"):
        self.path(path).write_text(text)
        self.run(f"chmod {mode} {path}")

    def pid_of(self, unit):
        """In the host's own numbers."""
        return (self.root / f"run/{unit}.played.pid").read_text().strip()

    def end(self):
        self.run("umount -l /mnt/imagenet", check=False)
        self.holder.kill()
        self.holder.wait()


class FromPackages(VerifiedTest):
    """Machines of these names; those of CACHES have S3 credentials."""
    FILES = FILES
    PREFIXES = ("train/",)
    MACHINES = ()
    CACHES = ()

    @classmethod
    def setUpClass(cls):
        made = packages()
        super().setUpClass()
        cls.packages = made()

    def packages_of(self, name):
        """What `apt install` is told on that machine, whose own folder is /root."""
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        self.network = Network(self.MACHINES)
        self.addCleanup(self.network.close)
        port = urllib.parse.urlsplit(self.rgw.env["AWS_ENDPOINT_URL"]).port
        tunnel = Tunnel([self.network[name] for name in self.CACHES], port)
        self.addCleanup(tunnel.close)
        hosts = "".join(f"{self.network[name].address} {name}\n" for name in self.MACHINES)
        self.hosts = {}

        def set_up(name):
            self.hosts[name] = host = Host(self.network[name], self.folder / f"{name}.machine", self.packages)
            self.addCleanup(host.end)
            host.put("/usr/local/bin/systemctl", SYSTEMCTL.read_text(encoding="utf-8"), "0755")
            host.put("/etc/hosts", f"127.0.0.1 localhost\n{hosts}")
            host.run(f"apt install {self.packages_of(name)}")
            if name in self.CACHES:
                host.put("/etc/forebay/aws-credentials", "[default]\naws_access_key_id = {AWS_ACCESS_KEY_ID}\n"
                         "aws_secret_access_key = {AWS_SECRET_ACCESS_KEY}\n".format(**self.rgw.env), "0600")
                host.put("/etc/default/forebay", "AWS_REGION={AWS_REGION}\nAWS_ENDPOINT_URL={AWS_ENDPOINT_URL}\n".format(
                    **self.rgw.env))

        with concurrent.futures.ThreadPoolExecutor(len(self.MACHINES)) as machines:
            list(machines.map(set_up, self.MACHINES))

    def on(self, name, script):
        return self.hosts[name].run(script).stdout

    def coordinator_metrics(self, name):
        """Of the coordinator on that machine; none where none answers."""
        with self.hosts[name].machine.inside(), contextlib.suppress(OSError):
            return metrics_at("127.0.0.1:7450")
        return {}

    def wait_until_up(self, name, count=1):
        """Nodes, at the coordinator on that machine; `forebay nodes` would wait for the next heartbeat of each."""
        eventually(lambda: nodes_up(self.coordinator_metrics(name)) == count, f"{count} nodes are up")

    # A change of the authority is three steps on the coordinator's machine; with the second one everybody who runs renews. Half
    # a minute must lie between two. It passes for the command, and for what is CLOCKED there, when all have heard of the first.
    def begin_change_of_authority(self, name):
        """The first step; answers the new authority."""
        old = self.believed(name)
        self.rotate(name, "believed beside")
        new, = set(CERTIFICATE.findall(self.hosts[name].path("/etc/forebay/trust/ca.pem").read_text())) - old
        return new

    def end_change_of_authority(self, name, new, after_each=lambda: None):
        eventually(lambda: all(new in self.believed(other) for other in self.joined()), "all machines believe the new one", 60)
        # A program takes up what another one of its folder has heard before it asks the next time.
        before = self.seen(name)
        eventually(lambda: all(now != then for now, then in zip(self.seen(name), before, strict=True)), "the members ask", 60)
        self.hosts[name].pass_time(HEARD_SECONDS)
        self.rotate(name, "the new authority issues")
        after_each()
        eventually(lambda: all(self.are_issued_by(new, other) for other in self.joined()), "all have certificates of the new one", 60)
        self.hosts[name].pass_time(HEARD_SECONDS)
        self.rotate(name, "believed no more")
        after_each()

    def rotate(self, name, text):
        refused = []

        def taken():
            said = self.hosts[name].run(f"{CLOCKED} forebay init --rotate-ca", check=False)
            refused.append(said.stderr)
            return said.stdout
        try:
            self.assertIn(text, eventually(taken, f"the step of --rotate-ca: {text}", HEARD_SECONDS))
        except AssertionError as error:
            raise AssertionError(f"{error}; {refused[-1]}") from None

    def joined(self):
        """The machines that have certificates."""
        return [name for name, host in self.hosts.items() if any(host.path("/etc/forebay").glob("*trust/ca.pem"))]

    def believed(self, name):
        """The authorities of which all programs of this machine know."""
        files = [path.read_text() for path in self.hosts[name].path("/etc/forebay").glob("*trust/ca.pem")]
        return set.intersection(*(set(CERTIFICATE.findall(text)) for text in files))

    def seen(self, name):
        """When each node and mount last asked, as the coordinator of this machine says."""
        members = json.loads(self.on(name, "forebay -o json member list"))["members"]
        return [row["seen"] for row in members if row["role"] in ("node", "client")]

    def are_issued_by(self, authority, name):
        """All certificates of nodes and mounts on this machine."""
        own = self.folder / "authority.pem"
        own.write_text(authority)
        return all(subprocess.run(["openssl", "verify", "-no_check_time", "-CAfile", own, path], capture_output=True,
                                  check=False).returncode == 0
                   for ending in ("node", "client") for path in self.hosts[name].path("/etc/forebay").glob(f"*trust/{ending}.pem"))


def skip_without(*programs):
    """The exit status of a test that cannot run here; 0 = it can."""
    for program in ("setpriv", "unshare", "nsenter", "cpack", "dpkg-shlibdeps", "openssl", *programs):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed", file=sys.stderr)
            return 77
    if os.geteuid() != 0:
        print("skipped: it plays machines of their own, and only root can", file=sys.stderr)
        return 77
    return skip_if_missing()
