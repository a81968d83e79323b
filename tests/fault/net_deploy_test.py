#!/usr/bin/python3
"""docs/DEPLOY.md, typed in as it stands: four machines with addresses, names, file systems, processes and users of their
own, from the packages to the first epoch, and on to three coordinators. No file is shared but the packages; S3 is reached
past this network. What systemd does is done by played_systemctl.py, which says what of a unit it leaves out.

The commands are the page's. Put in are only what the page leaves open: the tokens for "…" that an earlier command printed,
and the bucket. `scp` is played by a tar file."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from e2e import PROGRAMS, drop_page_cache, eventually, main  # noqa: E402
from netns import Network, Tunnel, skip_if_missing  # noqa: E402
from verified_load import VerifiedTest  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "DEPLOY.md"
SYSTEMCTL = HERE / "played_systemctl.py"
CACHES = ("cache-1", "cache-2", "cache-3")
MACHINES = (*CACHES, "gpu-1")
FILES = 600  # of one block each
# /etc, /var, /usr and /root are the real ones below, so that nothing of this machine changes; the rest is empty.
OWN = """
mount -t tmpfs tmpfs "$1"
for top in etc var usr root; do
  mkdir -p "$1/$top.upper" "$1/$top.work"
  mount -t overlay -o "lowerdir=/$top,upperdir=$1/$top.upper,workdir=$1/$top.work" overlay "/$top"
done
mkdir -p "$1/packages" /var/lib/etcd
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
SCP = """#!/bin/bash
set -eu
[ "$1" != -p ] || shift
target=${!#}
mkdir -p /run/outgoing
number=$(ls /run/outgoing | wc -l)
tar -C / -cf "/run/outgoing/$number.tar" -h "${@:1:$#-1}" 2> /dev/null
echo "${target%%:*} ${target#*:}" > "/run/outgoing/$number.to"
"""


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
        eventually(self._is_up, f"{machine.name} is up", 60)

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

    def put(self, path, text, mode="0644"):
        (self.root / path.lstrip("/")).write_text(text)
        self.run(f"chmod {mode} {path}")

    def pid_of(self, unit):
        """In the host's own numbers."""
        return (self.root / f"run/{unit}.played.pid").read_text().strip()

    def end(self):
        self.run("umount -l /mnt/imagenet", check=False)
        self.holder.kill()
        self.holder.wait()


def commands(block):
    """What a person would type at once: a line, one with the text that it takes, or a loop."""
    lines = block.splitlines()
    while lines:
        words = [lines.pop(0)]
        while words[-1].endswith("\\"):
            words.append(lines.pop(0))
        if ending := re.search(r"<<'?(\w+)'?$", words[0]):
            while words[-1] != ending[1]:
                words.append(lines.pop(0))
        if words[0].startswith("for "):
            while words[-1] != "done":
                words.append(lines.pop(0))
        yield "\n".join(words)


def blocks(title):
    """(machines, commands) of a section, in the order of the page."""
    page = PAGE.read_text(encoding="utf-8")
    part = page[page.index(f"\n## {title}\n"):]
    part = part[:part.index("\n## ", 3)]
    for text, block in re.findall(r"([^\n]*)\n```\n(.*?)```", part, re.DOTALL):
        names = re.search(r"(?:^|\. )On ((?:(?:, | and )?(?:cache-\d|gpu-\d))+)", text)
        assert names, f"whose commands are these? {text}"
        yield re.findall(r"cache-\d|gpu-\d", names[1]), block


class DeployPage(VerifiedTest):
    FILES = FILES

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rgw.upload(cls.home / "source", cls.shared_bucket, "train/")
        cls.packages = cls.home / "packages"
        cls.packages.mkdir()
        made = subprocess.run(["cpack", "--config", PROGRAMS.parent / "CPackConfig.cmake", "-B", cls.packages,
                               "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none"],
                              cwd=cls.packages, capture_output=True, text=True, check=False)
        if made.returncode:
            raise AssertionError(made.stdout + made.stderr)

    def setUp(self):
        super().setUp()
        self.tokens = {}
        self.network = Network(MACHINES)
        self.addCleanup(self.network.close)
        port = urllib.parse.urlsplit(self.rgw.env["AWS_ENDPOINT_URL"]).port
        tunnel = Tunnel([self.network[name] for name in CACHES], port)
        self.addCleanup(tunnel.close)
        hosts = "".join(f"{self.network[name].address} {name}\n" for name in MACHINES)
        page = PAGE.read_text(encoding="utf-8")
        # As the page says: what on machines that cache, and what on one that trains.
        caching, training = re.search(r"Install `(\./.*?\.deb)` on cache-1 to cache-3\s+and `(\./.*?\.deb)` on gpu-1", page).groups()
        self.hosts = {}

        def set_up(name):
            self.hosts[name] = host = Host(self.network[name], self.folder / f"{name}.machine", self.packages)
            self.addCleanup(host.end)
            host.put("/usr/local/bin/systemctl", SYSTEMCTL.read_text(encoding="utf-8"), "0755")
            host.put("/usr/local/bin/scp", SCP, "0755")
            host.put("/etc/hosts", f"127.0.0.1 localhost\n{hosts}")
            host.run(f"apt install {training if name == 'gpu-1' else caching}")
            if name in CACHES:
                host.put("/etc/forebay/aws-credentials", "[default]\naws_access_key_id = {AWS_ACCESS_KEY_ID}\n"
                         "aws_secret_access_key = {AWS_SECRET_ACCESS_KEY}\n".format(**self.rgw.env), "0600")
                host.put("/etc/default/forebay", "AWS_REGION={AWS_REGION}\nAWS_ENDPOINT_URL={AWS_ENDPOINT_URL}\n".format(
                    **self.rgw.env))

        with concurrent.futures.ThreadPoolExecutor(len(MACHINES)) as machines:
            list(machines.map(set_up, MACHINES))

    def type_in(self, name, block):
        """One command after the other, on that machine."""
        for command in commands(block):
            role = "client" if name == "gpu-1" else "node"
            typed = command.split(" #")[0] if "\n" not in command else command
            typed = typed.replace("…", self.tokens.get(role, "…")).replace("s3://BUCKET/", f"s3://{self.bucket}/")
            said = self.hosts[name].run(typed).stdout
            if made := re.search(r"--token (\S+)", said):
                self.tokens["node" if command.startswith("forebay init") else "client"] = made[1]
            self.deliver(self.hosts[name])

    def deliver(self, source):
        """What the played scp has packed."""
        folder = source.root / "run/outgoing"
        for order in sorted(folder.glob("*.to")) if folder.exists() else ():
            to, path = order.read_text().split()
            target = "-C " + path if path.endswith("/") else "-O"
            with open(order.with_suffix(".tar"), "rb") as packed:
                self.hosts[to].run(f"tar {target} --no-same-owner --transform='s|.*/||' -xf - " +
                                   ("" if path.endswith("/") else f"> {path} && case {path} in *.key) chmod 0600 {path};; esac"),
                                   stdin=packed)
            order.unlink()
            order.with_suffix(".tar").unlink()

    def replay(self, title):
        for names, block in blocks(title):
            for name in names:
                self.type_in(name, block)

    def on(self, name, script):
        return self.hosts[name].run(script).stdout

    def leader(self, names=CACHES):
        """Of the coordinators on these machines."""
        for name in names:
            said = self.hosts[name].run("curl -s --max-time 5 http://127.0.0.1:7450/metrics", check=False).stdout
            if re.search(r"^forebay_coordinator_is_leader 1$", said, re.MULTILINE):
                return name
        return None

    def epoch(self, what, passes=1):
        load = self.load(self.hosts["gpu-1"].root / "mnt/imagenet", passes=passes, readers=2)
        return lambda: self.finish(load, what, rate=0)

    def test_the_page_leads_from_packages_to_three_coordinators(self):
        self.replay("Several machines")
        nodes = self.on("cache-1", "forebay nodes")
        for name in CACHES:
            self.assertRegex(nodes, rf"{name} .*\bup\b")
        self.assertEqual(self.fetched(), FILES, "the first epoch reads S3 once")
        drop_page_cache()
        self.epoch("from three caches")()
        self.assertEqual(self.fetched(), FILES, "and the second one does not")
        self.assert_secrets_are_where_they_belong()
        self.assertIn('\nadvertise = "cache-1:7441"\n', self.on("cache-1", "cat /etc/forebay/forebay.toml"))
        address = self.network["cache-2"].address
        self.assertIn(f'\nadvertise = "{address}:7441"\n', self.on("cache-2", "cat /etc/forebay/forebay.toml"))
        self.assertFalse((self.hosts["gpu-1"].root / "usr/sbin/forebay-node").exists(), "a machine that trains has no server")

        self.change_the_authority()
        nodes = self.on("cache-1", "forebay nodes")
        self.assertEqual(len(re.findall(r"\bup\b", nodes)), len(CACHES), "who administers has renewed, too")
        drop_page_cache()
        self.epoch("under another authority")()
        self.assertEqual(self.fetched(), FILES)

        self.replay("Several coordinators")
        eventually(self.leader, "a coordinator leads")
        links = lambda name: self.hosts[name].run("forebay links", check=False).stdout  # noqa: E731
        for name in CACHES:
            eventually(lambda name=name: "imagenet" in links(name), f"{name} knows the link")
            eventually(lambda name=name: len(re.findall(r"\bup\b", self.on(name, "forebay nodes"))) == 3, "all nodes are up")
            eventually(lambda name=name: list((self.hosts[name].root / "var/lib/forebay/coordinator").rglob("*.fbs")),
                       f"{name} has the listing")
        drop_page_cache()
        finish = self.epoch("the leader is killed", passes=0)
        lost = eventually(self.leader, "a coordinator leads")
        self.on(lost, f"kill -9 {self.hosts[lost].pid_of('forebay-coordinator')}")
        others = [name for name in CACHES if name != lost]
        successor = eventually(lambda: self.leader(others), "another one leads")
        self.assertIn("imagenet", self.on(successor, "forebay links"))
        self.on(successor, "forebay quota imagenet 1GiB")
        drop_page_cache()
        finish()
        self.assertEqual(self.fetched(), FILES, "nothing is fetched again")

    def change_the_authority(self):
        """By three steps: with the second one everybody who runs renews."""
        for step in ("believed beside", "the new authority issues", "believed no more"):
            def taken():
                return self.hosts["cache-1"].run("forebay init --rotate-ca", check=False).stdout
            self.assertIn(step, eventually(taken, f"the step of --rotate-ca after which {step}", 60))

    def assert_secrets_are_where_they_belong(self):
        for name in MACHINES[1:]:
            self.assertFalse((self.hosts[name].root / "etc/forebay/trust/ca.key").exists(), name)
        said = self.on("cache-1", "stat -c '%U %a' /etc/forebay/trust/*.key")
        self.assertEqual(set(said.splitlines()), {"forebay 600"})
        # The node's service, whose user owns them all, sees its own alone.
        enter = f"nsenter --mount --target {self.hosts['cache-1'].pid_of('forebay-node')}"
        seen = self.on("cache-1", f"{enter} setpriv --reuid forebay --regid forebay --init-groups sh -c "
                       "'for key in /etc/forebay/trust/*.key; do if cat $key; then echo $key; fi; done 2> /dev/null | grep ^/'")
        self.assertEqual(seen.split(), ["/etc/forebay/trust/node.key"])


if __name__ == "__main__":
    for program in ("setpriv", "unshare", "nsenter", "cpack", "dpkg-shlibdeps", "etcd", "openssl", "curl"):
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed", file=sys.stderr)
            sys.exit(77)
    if os.geteuid() != 0:
        print("skipped: it plays machines of their own, and only root can", file=sys.stderr)
        sys.exit(77)
    if skipped := skip_if_missing():
        sys.exit(skipped)
    main()
