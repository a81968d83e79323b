#!/usr/bin/python3
"""docs/DEPLOY.md, typed in as it stands: four machines with addresses, names, file systems, processes and users of their
own, from the packages to the first epoch, and on to three coordinators. No file is shared but the packages; S3 is reached
past this network. What systemd does is done by played_systemctl.py, which says what of a unit it leaves out.

The commands are the page's. Put in are only what the page leaves open: the tokens for "…" that an earlier command printed,
and the bucket. `scp` is played by a tar file."""

import concurrent.futures
import pathlib
import re
import sys

from played_machines import CLOCKED, FILES, HEARD_SECONDS, FromPackages, skip_without

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from e2e import drop_page_cache, eventually, main  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "DEPLOY.md"
CACHES = ("cache-1", "cache-2", "cache-3")
SCP = """#!/bin/bash
set -eu
[ "$1" != -p ] || shift
target=${!#}
mkdir -p /run/outgoing
number=$(ls /run/outgoing | wc -l)
tar -C / -cf "/run/outgoing/$number.tar" -h "${@:1:$#-1}" 2> /dev/null
echo "${target%%:*} ${target#*:}" > "/run/outgoing/$number.to"
"""


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


class DeployPage(FromPackages):
    MACHINES = (*CACHES, "gpu-1")
    CACHES = CACHES

    def setUp(self):
        page = PAGE.read_text(encoding="utf-8")
        # As the page says: what on machines that cache, and what on one that trains.
        self.caching, self.training = re.search(r"Install `(\./.*?\.deb)` on cache-1 to cache-3\s+and `(\./.*?\.deb)` on gpu-1",
                                                page).groups()
        super().setUp()
        self.tokens = {}
        for host in self.hosts.values():
            host.put("/usr/local/bin/scp", SCP, "0755")

    def packages_of(self, name):
        return self.training if name == "gpu-1" else self.caching

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

    def leader(self, names=CACHES):
        """Of the coordinators on these machines."""
        return next((name for name in names if self.coordinator_metrics(name).get(("forebay_coordinator_is_leader", "")) == 1), None)

    def epoch(self, what, passes=1):
        load = self.load(self.hosts["gpu-1"].root / "mnt/imagenet", passes=passes, readers=2)
        return lambda: self.finish(load, what, rate=0)

    def test_the_page_leads_from_packages_to_three_coordinators(self):
        self.replay("Several machines")
        nodes = self.on("cache-1", "forebay nodes")
        for name in CACHES:
            self.assertRegex(nodes, rf"{name} .*\bup\b")
        self.assertEqual(self.fetched(), FILES, "the first epoch reads S3 once")
        self.assert_secrets_are_where_they_belong()
        authority = self.begin_change_of_authority("cache-1")  # all hear of it meanwhile
        drop_page_cache()
        self.epoch("from three caches")()
        self.assertEqual(self.fetched(), FILES, "and the second one does not")
        self.assertIn('\nadvertise = "cache-1:7441"\n', self.on("cache-1", "cat /etc/forebay/forebay.toml"))
        address = self.network["cache-2"].address
        self.assertIn(f'\nadvertise = "{address}:7441"\n', self.on("cache-2", "cat /etc/forebay/forebay.toml"))
        self.assertFalse((self.hosts["gpu-1"].root / "usr/sbin/forebay-node").exists(), "a machine that trains has no server")

        self.end_change_of_authority("cache-1", authority)
        nodes = self.on("cache-1", "forebay nodes")
        self.assertEqual(len(re.findall(r"\bup\b", nodes)), len(CACHES), "who administers has renewed, too")
        drop_page_cache()
        self.epoch("under another authority")()
        self.assertEqual(self.fetched(), FILES)

        self.replay("Several coordinators")
        eventually(self.leader, "a coordinator leads")
        with concurrent.futures.ThreadPoolExecutor(len(CACHES)) as machines:
            list(machines.map(self.wait_for_coordinator, CACHES))
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
        self.on(lost, "systemctl start forebay-coordinator")
        self.wait_for_coordinator(lost)
        self.change_authority_of_three()

    def change_authority_of_three(self):
        """On one of their machines; a step waits until the others have the files of the one before."""
        authority = self.begin_change_of_authority("cache-1")
        self.hosts["cache-1"].pass_time(HEARD_SECONDS)
        refused = self.hosts["cache-1"].run(f"{CLOCKED} forebay init --rotate-ca", check=False)
        self.assertRegex(refused.stderr, r"coordinator cache-[23]:7440|copy this folder's ca\.pem")
        copy = lambda: self.replay("Another authority")  # noqa: E731
        copy()
        self.end_change_of_authority("cache-1", authority, copy)
        eventually(lambda: all(self.believed(name) == {authority} for name in self.joined()), "all believe the new one alone", 60)
        drop_page_cache()
        self.epoch("under another authority, with three coordinators")()
        self.assertEqual(self.fetched(), FILES)

    def wait_for_coordinator(self, name):
        """The machine's own knows what the one before it did."""
        links = lambda: self.hosts[name].run("forebay links", check=False).stdout  # noqa: E731
        eventually(lambda: "imagenet" in links(), f"{name} knows the link")
        eventually(lambda: len(re.findall(r"\bup\b", self.on(name, "forebay nodes"))) == 3, f"{name} knows that all nodes are up")
        listings = lambda: list((self.hosts[name].root / "var/lib/forebay/coordinator").rglob("*.fbs"))  # noqa: E731
        eventually(listings, f"{name} has the listing")

    def assert_secrets_are_where_they_belong(self):
        for name in self.MACHINES[1:]:
            self.assertFalse((self.hosts[name].root / "etc/forebay/trust/ca.key").exists(), name)
        said = self.on("cache-1", "stat -c '%n %U %a' /etc/forebay/*trust/*.key").splitlines()
        trust = "/etc/forebay/trust/{}.key forebay 600"
        self.assertEqual(set(said), {trust.format(name) for name in ("admin", "ca", "coordinator")} |
                         {"/etc/forebay/node-trust/node.key forebay-node 600"})


if __name__ == "__main__":
    if skipped := skip_without("etcd"):
        sys.exit(skipped)
    main()
