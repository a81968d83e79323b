#!/usr/bin/python3
"""One machine with all roles, from the packages: the coordinator's user and the node's can each do what the service needs
and nothing with what is the other one's, also when certificates and the authority have changed (docs/adr/0050). And one
machine beside it that is a node and nothing else."""

import pathlib
import re
import sys

from played_machines import CLOCKED, FILES, FromPackages, skip_without

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from e2e import drop_page_cache, eventually, main  # noqa: E402

NAME, NODE = "cache-1", "cache-2"  # with all roles, and with a node alone
RENEWED_SECONDS = 40  # after a third of a certificate's two minutes
OF_COORDINATOR = {f"/etc/forebay/trust/{name}.key" for name in ("admin", "ca", "coordinator")}
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "DEPLOY.md"


def of_page(beginning):
    """The first commands after a line that begins like that."""
    return re.search(rf"\n{beginning}.*?```\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]


# A mount as a service; what the page adds to its options are lines of its file.
MOUNT_SERVICE = of_page("## A mount as a service").replace("\nEND\n", "\n" + CLOCKED.replace(" ", "\n") + "\nEND\n")
# What a release before the node's user has left behind: as the page goes back to it.
AS_BEFORE = of_page("Back to that release") + """
rm -rf /run/forebay-node
[ ! -d /mnt/disk ] || chown -R forebay: /mnt/disk/forebay
"""
UPGRADE = "/var/lib/dpkg/info/forebay.postinst configure 0.0.1"


class Users(FromPackages):
    MACHINES = CACHES = (NAME, NODE)

    def packages_of(self, name):
        return "./build/release/forebay*.deb" if name == NAME else "./build/release/forebay_*.deb ./build/release/forebay-cli_*.deb"

    def setUp(self):
        super().setUp()
        self.run_here(f"echo {CLOCKED} | tr ' ' '\\n' >> /etc/default/forebay")

    def run_here(self, script):
        return self.on(NAME, script)

    def as_user(self, user, script, service=None):
        """What a shell of that user says, in what the service sees of the machine, or in all of it."""
        enter = f"nsenter --mount --target {self.hosts[NAME].pid_of(service)} " if service else ""
        self.hosts[NAME].put("/tmp/tried", script, "0755")
        return self.run_here(f"{enter}setpriv --reuid {user} --regid {user} --init-groups sh -s < /tmp/tried 2> /dev/null || true")

    def assert_apart(self):
        """Neither user reads or writes what is the other one's, in its service or beside it."""
        keys = set(self.run_here("find /etc/forebay -name '*.key'").split())
        self.assertTrue(OF_COORDINATOR <= keys, keys)
        own = {"forebay": keys - {"/etc/forebay/node-trust/node.key"}, "forebay-node": {"/etc/forebay/node-trust/node.key"}}
        for user, service in (("forebay", "forebay-coordinator"), ("forebay-node", "forebay-node")):
            for place in (service, None):
                said = self.as_user(user, "\n".join(f"cat {key} > /dev/null && echo {key}" for key in sorted(keys)), place)
                self.assertEqual(set(said.split()), own[user], f"what {user} reads, in {place}")
        folders = ("/etc/forebay", "/etc/forebay/trust", "/var/lib/forebay", "/var/lib/forebay/coordinator", "/run/forebay")
        for place in ("forebay-node", None):
            said = self.as_user("forebay-node", "\n".join(
                f"touch {folder}/mine && echo {folder}; mv {folder}/ca.pem {folder}/gone && echo {folder}; "
                f"ls {folder}/. > /dev/null && echo seen {folder}" for folder in folders), place)
            self.assertEqual(set(said.splitlines()), {"seen /etc/forebay", "seen /var/lib/forebay"}, place)
        self.assertEqual(self.run_here("find /etc/forebay/trust /var/lib/forebay/coordinator -user forebay-node"), "")

    def up(self):
        return re.search(r"\bup\b", self.hosts[NAME].run("forebay nodes", check=False).stdout)

    def read_all(self, what):
        """Through a mount of the machine, past the page cache; answers how much came out of the node's own files."""
        drop_page_cache()
        self.finish(self.load(self.hosts[NAME].root / "mnt/imagenet", passes=1, readers=2), what, rate=0)
        said = self.run_here("cat /mnt/imagenet/.forebay/stats")
        return int(re.search(r'"local": *(\d+)', said)[1])

    def mount(self):
        self.run_here(f"mkdir -p /mnt/imagenet; {CLOCKED} forebay-mount imagenet /mnt/imagenet")

    def test_a_machine_without_certificates_has_one_secret_for_both(self):
        for order in ("forebay-coordinator forebay-node", "forebay-node forebay-coordinator"):
            self.run_here("rm -rf /run/forebay /run/forebay-node")
            self.run_here(f"systemctl start --no-block {order}")
            self.wait_until_up(NAME)
            secrets = self.run_here("stat -c '%U %a' /run/forebay/secret /run/forebay-node/secret").splitlines()
            self.assertEqual(secrets, ["forebay 600", "forebay-node 600"])
            self.run_here("systemctl stop forebay-node forebay-coordinator")
        self.run_here("systemctl start forebay-coordinator forebay-node")
        self.run_here(f"forebay link s3://{self.bucket}/train/ --as imagenet --wait")
        self.mount()
        self.assertGreaterEqual(self.read_all("the first epoch"), 0)
        self.assertGreater(self.read_all("the second one"), 0, "root's mount reads the files of the node's user")
        self.assertEqual(self.fetched(), FILES)

    def test_neither_user_has_what_is_the_other_ones(self):
        self.make_cluster()
        self.assert_apart()
        hidden = "mount -t tmpfs tmpfs /etc/forebay/trust; forebay nodes"
        refused = self.hosts[NAME].run(f"unshare --mount --propagation private bash -c '{hidden}'", check=False)
        self.assertIn("the node of this machine belongs to a cluster", refused.stderr, "nobody goes on without certificates")
        before = self.made()
        self.hosts[NAME].pass_time(RENEWED_SECONDS)
        authority = self.begin_change_of_authority(NAME)  # all hear of it while they renew
        self.assert_apart()
        eventually(lambda: all(new != old for new, old in zip(self.made(), before)), "all renew, the mount's service, too")
        self.assert_apart()
        self.assertTrue(self.up(), "who administers has renewed, too")
        self.end_change_of_authority(NAME, authority, self.assert_apart)
        self.assertTrue(self.up(), "and takes part in a change of the authority")
        self.assertGreater(self.read_all("under another authority"), 0)
        self.assertEqual(self.fetched(), FILES)

        self.upgrade_from_one_user()
        self.purge()

    def make_cluster(self):
        self.run_here("""install -d -o forebay-node -g forebay-node -m 0700 /mnt/disk/forebay
sed -i 's|^cache_dir = .*|cache_dir = ["/var/cache/forebay", "/mnt/disk/forebay"]|' /etc/forebay/forebay.toml
mkdir -p /etc/systemd/system
sed 's|^ReadWritePaths=.*|&\\nReadWritePaths=/mnt/disk/forebay|' /usr/lib/systemd/system/forebay-node.service \
  > /etc/systemd/system/forebay-node.service""")
        said = self.run_here(f"forebay init --advertise {NAME}:7440 --member-lifetime 2m")
        self.run_here("systemctl enable --now forebay-coordinator")
        self.run_here(re.search(r"forebay join .*", said)[0])
        self.run_here("systemctl enable --now forebay-node")
        self.wait_until_up(NAME)
        self.run_here(f"forebay link s3://{self.bucket}/train/ --as imagenet --wait")
        self.run_here(re.search(r"forebay join .*", self.run_here("forebay token create --role client"))[0])
        self.run_here(MOUNT_SERVICE)
        self.read_all("the first epoch")

    def made(self):
        """The private keys of all four, by their sums."""
        return self.run_here("sha256sum /etc/forebay/trust/coordinator.key /etc/forebay/trust/admin.key "
                             "/etc/forebay/trust/client.key /etc/forebay/node-trust/node.key").splitlines()

    def upgrade_from_one_user(self):
        self.run_here(AS_BEFORE)
        self.run_here(UPGRADE)
        owners = self.run_here("find /var/lib/forebay/node /var/cache/forebay /mnt/disk/forebay /etc/forebay/node-trust -printf '%u\\n'")
        self.assertEqual(set(owners.split()), {"forebay-node"})
        self.run_here("systemctl start forebay-node")
        self.wait_until_up(NAME)
        self.assert_apart()
        self.read_all("after the upgrade")
        self.assertEqual(self.fetched(), FILES, "nothing is fetched again")

    def purge(self):
        self.run_here("systemctl stop forebay-mount@imagenet forebay-node forebay-coordinator; dpkg -P forebay")
        left = self.run_here("find /etc/forebay /var/lib/forebay /var/cache/forebay /run/forebay* "
                             "\\( -user forebay-node -o -name '*.key' -o -path '*/coordinator/*' \\) 2> /dev/null || true")
        self.assertEqual(left.split(), ["/etc/forebay/trust/client.key"], "the mount's own")
        self.run_here("dpkg -P forebay-client forebay-cli")
        self.assertEqual(self.run_here("ls -d /etc/forebay 2> /dev/null || true"), "")

    def on_node(self, script):
        return self.on(NODE, script)

    def keys_on_node(self):
        return self.on_node("stat -c '%n %U %a' /etc/forebay/*trust/*.key").splitlines()

    def start_on_node(self):
        self.on_node("systemctl restart forebay-node")
        self.wait_until_up(NAME)

    def test_a_node_goes_back_and_forth_with_its_certificate_and_obeys_a_folder_that_is_named(self):
        """On a machine that is a node and nothing else."""
        join = re.search(r"forebay join .*", self.on(NAME, f"forebay init --advertise {NAME}:7440"))[0]
        self.on(NAME, "systemctl enable --now forebay-coordinator")
        self.on_node(join)
        self.start_on_node()
        self.on_node(AS_BEFORE)
        self.assertEqual(self.keys_on_node(), ["/etc/forebay/trust/node.key forebay 600"])
        self.on_node(UPGRADE)
        self.assertEqual(self.keys_on_node(), ["/etc/forebay/node-trust/node.key forebay-node 600"])
        self.start_on_node()

        self.on_node("""systemctl stop forebay-node; rm -r /etc/forebay/node-trust
printf '[trust]\\ndir = "/etc/forebay/trust"\\n' >> /etc/forebay/forebay.toml""")
        self.on_node(join)
        self.assertEqual(self.keys_on_node(), ["/etc/forebay/trust/node.key forebay-node 600"])
        self.start_on_node()
        self.on_node(AS_BEFORE.splitlines()[0] + "; chown -R forebay: /etc/forebay/trust")
        self.assertIn("[trust] dir is /etc/forebay/trust", self.hosts[NODE].run(UPGRADE).stderr)
        self.assertEqual(self.keys_on_node(), ["/etc/forebay/trust/node.key forebay 600"])

        self.on_node("systemctl stop forebay-node; sed -i '/^.trust/,$d' /etc/forebay/forebay.toml; rm -r /etc/forebay/trust")
        self.on_node(f"{join} --trust-dir /etc/forebay/trust")
        self.assertIn('dir = "/etc/forebay/trust"', self.on_node("cat /etc/forebay/forebay.toml"))
        self.start_on_node()
        self.assertIn('keeps its own [trust] dir = "/etc/forebay/trust"', self.on_node(f"{join} --trust-dir /etc/forebay/node-trust"))

        # For what it does not become another cluster's folder is no matter.
        self.on_node("""systemctl stop forebay-node; sed -i '/^.trust/,$d' /etc/forebay/forebay.toml; rm -r /etc/forebay/*trust
forebay init --advertise localhost:7440""")
        self.assertIn("/etc/forebay/trust belongs to another cluster", self.hosts[NODE].run(join, check=False).stderr)
        self.on_node(f"{join} --role node")
        self.assertIn("/etc/forebay/node-trust/node.key forebay-node 600", self.keys_on_node())
        self.start_on_node()


if __name__ == "__main__":
    if skipped := skip_without():
        sys.exit(skipped)
    main()
