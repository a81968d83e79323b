#!/usr/bin/python3
"""The Debian packages: what they hold, that it is all there is to install, and that the units start what they hold."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["FOREBAY_BIN"]).resolve()
BUILD = BIN.parent
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "DEPLOY.md"
FSTAB_GENERATOR = pathlib.Path("/usr/lib/systemd/system-generators/systemd-fstab-generator")
# Of systemd, of which only the answers differ from call to call: one of two mounts that need the node is up.
SYSTEMCTL = r"""case "$*" in
  show*RequiredBy*) printf '%s\n' 'mnt-a\x2db.mount mnt-idle.mount' other.service ;;
  *is-active*idle*) exit 3 ;;
esac"""


def run(*command, **options):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    if result.returncode:
        raise AssertionError(f"{command}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("dpkg-shlibdeps"):
            raise unittest.SkipTest("dpkg-shlibdeps (package dpkg-dev) is not there")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="forebay-packages-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder, cwd=cls.folder)
        found = {run("dpkg-deb", "-f", path, "Package").strip(): path for path in cls.folder.glob("*.deb")}
        cls.packages = found
        cls.roots = {}
        for name, path in found.items():
            cls.roots[name] = cls.folder / "root" / name
            cls.roots[name].parent.mkdir(exist_ok=True)
            run("dpkg-deb", "-x", path, cls.roots[name])

    def files(self, package):
        root = self.roots[package]
        return {"/" + str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}

    def field(self, package, name):
        return run("dpkg-deb", "-f", self.packages[package], name).strip()

    def test_there_are_three(self):
        self.assertEqual(sorted(self.packages), ["forebay", "forebay-cli", "forebay-client"])

    def test_every_program_and_page_is_in_one_of_them(self):
        held = [path for package in self.packages for path in self.files(package)]
        self.assertEqual(len(held), len(set(held)), "no file is in two")
        programs = {path.name for path in map(pathlib.Path, held) if path.parent.name in ("bin", "sbin")}
        self.assertEqual(programs, {"forebay", "forebay-coordinator", "forebay-node", "forebay-mount", "mount.forebay"})
        pages = {path.name for path in map(pathlib.Path, held) if "/man/" in str(path)}
        self.assertEqual(pages, {path.name for path in (BUILD / "share/man").rglob("*") if path.is_file()})
        self.assertIn("/usr/sbin/mount.forebay", self.files("forebay-client"))
        self.assertIn("/usr/lib/systemd/system/forebay-mount@.service", self.files("forebay-client"))

    def test_whatever_is_installed_can_join(self):
        command = self.files("forebay-cli")
        for path in ("/usr/bin/forebay", "/usr/share/bash-completion/completions/forebay", "/etc/forebay/forebay.toml"):
            self.assertIn(path, command)
        self.assertNotRegex(self.field("forebay-cli", "Depends"), "fuse|rocksdb|forebay")
        version = self.field("forebay-cli", "Version")
        for package in ("forebay", "forebay-client"):
            self.assertIn(f"forebay-cli (>= {version})", self.field(package, "Depends"))
        # The command was in the package of the servers.
        self.assertEqual(self.field("forebay-cli", "Replaces"), f"forebay (<= {version})")
        self.assertEqual(self.field("forebay-cli", "Breaks"), f"forebay (<< {version})")

    def test_they_name_the_libraries_that_they_need(self):
        self.assertRegex(self.field("forebay", "Depends"), r"librocksdb\d")
        self.assertRegex(self.field("forebay-client", "Depends"), r"libfuse3-\d")
        self.assertNotIn("librocksdb", self.field("forebay-client", "Depends"))

    def test_the_configuration_is_the_administrators(self):
        for package in self.packages:
            control = self.scripts_of(package)
            conffiles = control / "conffiles"
            self.assertEqual(set(conffiles.read_text().split()) if conffiles.exists() else set(),
                             {path for path in self.files(package) if path.startswith("/etc/")})
            for script in control.glob("p[or]*"):
                self.assertEqual(script.stat().st_mode & 0o777, 0o755)
                run("sh", "-n", script)
        credentials = self.roots["forebay"] / "etc/forebay/aws-credentials"
        self.assertEqual(credentials.stat().st_mode & 0o777, 0o600)

    def scripts_of(self, package):
        control = self.folder / f"control.{package}"
        shutil.rmtree(control, ignore_errors=True)
        run("dpkg-deb", "-e", self.packages[package], control)
        return control

    def said_by(self, script, *arguments):
        """The calls of a script on a machine that systemd runs; `links` are units that are enabled."""
        tools, said = self.folder / "client-tools", self.folder / "client-said"
        tools.mkdir(exist_ok=True)
        said.write_text("")
        for tool in ("rm", "rmdir", "systemctl"):
            (tools / tool).write_text(f'#!/bin/sh\necho {tool} "$@" >> {said}\n')
            (tools / tool).chmod(0o755)
        text = script.read_text().replace("/run/systemd/system", str(tools)).replace("/etc/systemd/system", str(self.folder))
        run("/bin/sh", "-c", text, script.name, *arguments, env={"PATH": str(tools)})
        return said.read_text().splitlines()

    def purge_here(self, script, trust):
        """As `script` purges, with all its paths in our folder and `trust` for the trust folder."""
        tools = self.folder / "quiet"
        tools.mkdir(exist_ok=True)
        for tool in ("rmdir", "systemctl"):
            (tools / tool).write_text("#!/bin/sh\n")
            (tools / tool).chmod(0o755)
        moved = self.folder / "moved"
        moved.write_text(re.sub(r"(/var|/run|/etc)/", rf"{self.folder}\1/", script)
                         .replace(f"{self.folder}/etc/forebay/trust", str(trust)))
        run("/bin/sh", moved, "purge", env={"PATH": f"{tools}:/bin:/usr/bin"})

    def test_an_upgrade_goes_on_with_mounts_and_a_removal_ends_them(self):
        scripts = self.scripts_of("forebay-client")
        for script in ("postinst", "prerm", "postrm"):
            self.assertEqual((scripts / script).stat().st_mode & 0o777, 0o755)
        restart = "systemctl --no-block try-restart forebay-mount@*.service"
        self.assertIn(restart, self.said_by(scripts / "postinst", "configure", "0.1"))
        self.assertEqual(self.said_by(scripts / "postinst", "configure", ""), ["systemctl daemon-reload"])
        wants = self.folder / "multi-user.target.wants"
        wants.mkdir()
        (wants / "forebay-mount@imagenet.service").symlink_to("/usr/lib/systemd/system/forebay-mount@.service")
        self.assertEqual(self.said_by(scripts / "prerm", "remove"),
                         ["systemctl stop forebay-mount@*.service", "systemctl disable forebay-mount@imagenet.service"])
        self.assertEqual(self.said_by(scripts / "prerm", "upgrade", "0.2"), [])
        self.assertEqual(self.said_by(scripts / "postrm", "remove"), ["systemctl daemon-reload"])
        self.assertIn("rm -rf /var/lib/forebay/mount /etc/forebay/mounts", self.said_by(scripts / "postrm", "purge"))

    def machine(self, owner, *certificates, config='[node]\ncache_dir = ["/var/cache/forebay"]\n', environment=None):
        """A machine's folder, with `owner` for its files and these in the trust folder, and what runs there."""
        place = pathlib.Path(tempfile.mkdtemp(prefix="machine-", dir=self.folder))
        for name in ("run/systemd/system", "etc/forebay/trust", "etc/default", "var/cache/forebay", "var/lib/forebay/node", "mnt/a disk",
                     "tools"):
            (place / name).mkdir(parents=True)
        for name in certificates:
            (place / "etc/forebay/trust" / name).write_text(name)
        (place / "etc/forebay/aws-credentials").touch()
        (place / "etc/forebay/forebay.toml").write_text(config.replace("PLACE", str(place)))
        if environment is not None:
            (place / "etc/default/forebay").write_text(environment.replace("PLACE", str(place)))
        of_node = f'exec {BIN}/forebay-node --config {place}/etc/forebay/forebay.toml "$@"'
        for tool, does in (("adduser", ""), ("chown", ""), ("systemctl", SYSTEMCTL), ("stat", f"[ $1 != -c ] || echo {owner}"),
                           ("forebay-node", of_node)):
            (place / "tools" / tool).write_text(f'#!/bin/sh\nprintf "%s\\n" "{tool} $*" >> {place}/said\n{does}\n')
            (place / "tools" / tool).chmod(0o755)
        return place

    def done_on(self, place, script, *arguments):
        """What the script calls on that machine; and what it says."""
        moved = place / "script"
        moved.write_text(re.sub(r"(?<![\w/])(/var|/run|/etc)/", rf"{place}\1/", script))
        (place / "said").write_text("")
        done = subprocess.run(["/bin/sh", "-e", moved, *arguments], env={"PATH": f"{place}/tools:/bin:/usr/bin"}, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = (place / "said").read_text().replace(str(place), "").splitlines()
        return [line for line in lines if line.startswith(("chown", "systemctl"))], done.stderr.replace(str(place), "")

    def upgraded(self, place):
        return self.done_on(place, (self.scripts_of("forebay") / "postinst").read_text(), "configure", "0.0.1")

    @staticmethod
    def trust_of(place):
        return {path.name: sorted(file.name for file in path.iterdir()) for path in (place / "etc/forebay").glob("*trust*")}

    def test_an_upgrade_gives_the_node_what_was_both_services_while_it_stands_still(self):
        place = self.machine("forebay", "ca.pem", "revoked", "node.pem", "node.key", "client.key")
        said, complaint = self.upgraded(place)
        self.assertEqual(complaint, "")
        last = ["chown -hR forebay-node:forebay-node /etc/forebay/node-trust.draft",
                "chown -hR forebay-node:forebay-node /var/cache/forebay",
                "chown -hR forebay-node:forebay-node /var/lib/forebay/node",
                "systemctl try-restart forebay-coordinator.service",
                # What systemd has unmounted with the node, and was mounted.
                r"systemctl start forebay-node.service mnt-a\x2db.mount"]
        self.assertEqual(said, [
            "systemctl daemon-reload", "systemctl --quiet is-active forebay-node.service",
            "systemctl show --property=RequiredBy --property=BoundBy --value forebay-node.service",
            r"systemctl --quiet is-active mnt-a\x2db.mount", "systemctl --quiet is-active mnt-idle.mount",
            "systemctl stop forebay-node.service", *last])
        self.assertEqual(self.trust_of(place), {"trust": ["ca.pem", "client.key", "revoked"],
                                                "node-trust": ["ca.pem", "node.key", "node.pem", "revoked"]})

    @unittest.skipUnless(FSTAB_GENERATOR.exists(), "systemd is not there")
    def test_the_line_of_fstab_waits_for_the_node_and_does_not_end_with_it(self):
        folder = self.folder / "units"
        folder.mkdir()
        (folder / "fstab").write_text(re.search(r"\n(\S+  /mnt\S*  forebay  .*\n)", PAGE.read_text(encoding="utf-8"))[1])
        run(FSTAB_GENERATOR, folder, folder, folder, env={"SYSTEMD_FSTAB": str(folder / "fstab")})
        unit = (folder / "mnt-imagenet.mount").read_text()
        self.assertIn("After=forebay-node.service\n", unit)
        self.assertNotRegex(unit, "(Requires|BindsTo|PartOf)=.*forebay-node")

    def test_the_way_back_loses_no_certificate(self):
        page = PAGE.read_text(encoding="utf-8")
        back = re.search(r"\nBack to that release.*?```\n(.*?)```", page, re.DOTALL)[1]
        for others in ((), ("client.key", "client.pem")):
            given = sorted(("ca.pem", "revoked", "node.pem", "node.key", *others))
            place = self.machine("forebay", *given)
            self.upgraded(place)
            said, _ = self.done_on(place, back)
            self.assertEqual(self.trust_of(place), {"trust": given})
            self.assertEqual(said, ["systemctl stop forebay-node",
                                    "chown -R forebay: /etc/forebay/trust /var/lib/forebay/node /var/cache/forebay"])

    def test_an_upgrade_reads_the_nodes_environment_as_systemd_does(self):
        given = "chown -hR forebay-node:forebay-node /mnt/a disk"
        for line in ("FOREBAY_NODE_CACHE_DIR=PLACE/mnt/a disk=1GiB", 'FOREBAY_NODE_CACHE_DIR="PLACE/mnt/a disk"',
                     " FOREBAY_NODE_CACHE_DIR = 'PLACE/mnt/a disk' ", "FOREBAY_NODE_CACHE_DIR=PLACE/mnt\\\n/a disk"):
            place = self.machine("forebay", environment=f"NO_PROXY=localhost, 10.0.0.0/8\nA=$(touch PLACE/ran)\n# {line}\n{line}\n"
                                 "FOREBAY_NODE_ZONE=`touch PLACE/ran`\nfalse; exit 1\n")
            said, _ = self.upgraded(place)
            self.assertIn(given, said, line)
            self.assertFalse((place / "ran").exists())
        place = self.machine("forebay", environment="FOREBAY_NODE_CACHE_DIR=PLACE/mnt/a disk")
        self.assertIn(given, self.upgraded(place)[0], "a last line without its end")

    def test_an_upgrade_says_when_it_cannot_read_the_configuration(self):
        said, complaint = self.upgraded(self.machine("forebay", config="[node]\ncache_dri = [\"/a\"]\n"))
        self.assertIn("chown -hR forebay-node:forebay-node /var/cache/forebay", said)
        self.assertRegex(complaint, r"(?s)cache_dri.*cache directories elsewhere are not given to the user forebay-node")
        place = self.machine("forebay")
        (place / "tools/forebay-node").write_text("#!/bin/sh\nexit 1\n")
        self.assertRegex(self.upgraded(place)[1], r"without a word\n.*cache directories elsewhere are not given")

    def test_an_upgrade_takes_a_certificate_from_nobody_who_can_read_it(self):
        files = ("ca.pem", "node.key", "node.pem")
        good, broken = '[node]\ncache_dir = ["/var/cache/forebay"]\n', "[node]\ncache_dri = 1\n"
        for owner, config, environment, moves in (
                ("forebay", broken, None, True),
                ("root", broken, None, True),
                # Joined with --trust-dir /etc/forebay/trust. A drop-in that says so is seen by nobody here.
                ("forebay-node", broken, None, False),
                ("forebay-node", good, None, False),
                ("forebay", broken + "[trust]  # ours\n  dir = 'PLACE/etc/forebay/trust'\n[mount]\n", None, False),
                ("forebay", broken + "# [trust]\ndir = 'a'\n[trust]\n# dir = 'a'\n[mount]\ndir = 'a'\n", None, True),
                ("forebay", broken, "FOREBAY_TRUST_DIR=PLACE/etc/forebay/trust", False)):
            place = self.machine("forebay", *files, config=config, environment=environment)
            (place / "tools/stat").write_text(f'#!/bin/sh\ncase $3 in\n  *.key) echo {owner} ;;\n  *) echo forebay ;;\nesac\n')
            _, complaint = self.upgraded(place)
            self.assertEqual("are not given to the user forebay-node" in complaint, broken in config)
            self.assertEqual(self.trust_of(place), {"node-trust" if moves else "trust": list(files)}, (owner, config, environment))

    def test_an_upgrade_starts_the_node_also_where_the_coordinator_does_not_come_up(self):
        for fails in ("try-restart*", "start*"):
            place = self.machine("forebay")
            with open(place / "tools/systemctl", "a", encoding="utf-8") as file:
                file.write(f'case "$*" in {fails}) exit 1 ;; esac\n')
            said, complaint = self.upgraded(place)
            self.assertEqual(said[-2:], ["systemctl try-restart forebay-coordinator.service",
                                         r"systemctl start forebay-node.service mnt-a\x2db.mount"])
            self.assertIn("not every service came up with the new program", complaint)

    def test_an_upgrade_leaves_the_certificate_where_the_configuration_says(self):
        for named in ("PLACE/etc/forebay/trust", "PLACE/mnt"):
            config = f'[node]\ncache_dir = ["/var/cache/forebay"]\n[trust]\ndir = "{named}"\n'
            place = self.machine("forebay", "ca.pem", "node.pem", "node.key", config=config)
            (place / "mnt/node.key").touch()
            _, complaint = self.upgraded(place)
            self.assertEqual(self.trust_of(place), {"trust": ["ca.pem", "node.key", "node.pem"]})
            self.assertIn(f"[trust] dir is {named.replace('PLACE', '')}, which the user forebay-node cannot read", complaint)

    def test_an_upgrade_of_services_that_are_apart_stops_nobody(self):
        place = self.machine("forebay-node", "ca.pem", "coordinator.key")
        said, complaint = self.upgraded(place)
        self.assertEqual(complaint, "")
        self.assertEqual(said, ["systemctl daemon-reload", "systemctl try-restart forebay-coordinator.service forebay-node.service"])
        self.assertFalse((place / "etc/forebay/node-trust").exists())

    def test_a_purge_takes_the_key_of_the_authority_and_a_removal_does_not(self):
        tools, said = self.folder / "tools", self.folder / "said"
        tools.mkdir()
        for tool in ("rm", "rmdir", "systemctl"):
            (tools / tool).write_text(f'#!/bin/sh\necho {tool} "$@" >> {said}\n')
            (tools / tool).chmod(0o755)
        trust = ("/etc/forebay/trust", "/etc/forebay/node-trust")
        of_servers = (*trust, "/var/lib/forebay", "/var/cache/forebay", "/run/forebay", "/run/forebay-node")
        for package, paths in (("forebay", of_servers), ("forebay-cli", trust)):
            for action, goes in (("remove", False), ("purge", True)):
                said.write_text("")
                run("/bin/sh", self.scripts_of(package) / "postrm", action, env={"PATH": str(tools)})
                removed = [word for line in said.read_text().splitlines() if line.startswith("rm ") for word in line.split()]
                for path in paths:
                    self.assertEqual(path in removed, goes, (package, action, path))
                self.assertEqual("rmdir --ignore-fail-on-non-empty /etc/forebay" in said.read_text(), goes)

    def test_a_purge_of_the_mount_leaves_the_command_its_certificate(self):
        script = (self.scripts_of("forebay-client") / "postrm").read_text()
        for role in ("admin", "viewer", None):
            trust = self.folder / "beside"
            trust.mkdir()
            (trust / "client.key").touch()
            if role:
                (trust / f"{role}.key").touch()
            self.purge_here(script.replace("/usr/sbin/", "/nowhere/"), trust)
            self.assertEqual(trust.exists(), role is not None, role)
            shutil.rmtree(trust, ignore_errors=True)

    def test_a_purge_leaves_a_mount_its_certificate_and_no_other_key(self):
        script = (self.scripts_of("forebay") / "postrm").read_text()
        self.assertIn("[ -e /usr/sbin/forebay-mount ]", script)
        trust = self.folder / "trust"
        trust.mkdir()
        for name in ("ca", "ca.next", "coordinator", "node", "admin", "viewer", "client"):
            (trust / f"{name}.key").touch()
        self.purge_here(script.replace("/usr/sbin/forebay-mount", "/bin/sh"), trust)
        self.assertEqual([path.name for path in trust.iterdir()], ["client.key"])

    def test_the_programs_accept_it(self):
        root, config = self.roots["forebay"], self.roots["forebay-cli"] / "etc/forebay/forebay.toml"
        for program in ("forebay-coordinator", "forebay-node"):
            said = run(root / "usr/sbin" / program, "--config", config, "--check-config")
            self.assertIn("the configuration is good", said)

    def test_the_units_start_what_is_there_and_hide_the_rest(self):
        root = self.roots["forebay"]
        units = sorted((root / "usr/lib/systemd/system").glob("*.service"))
        self.assertEqual([unit.name for unit in units], ["forebay-coordinator.service", "forebay-node.service"])
        # A file system view of its own would hide the mount from the machine.
        mounting = (self.roots["forebay-client"] / "usr/lib/systemd/system/forebay-mount@.service").read_text()
        for word in ("ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateMounts", "ReadWritePaths"):
            self.assertNotRegex(mounting, rf"(?m)^{word}=")
        for line in ("Type=notify", "NoNewPrivileges=yes", "FileDescriptorStoreMax=4096", "Environment=FDSTORE=4096",
                     "RestartKillSignal=SIGUSR2", "DeviceAllow=/dev/fuse rw", "KillMode=mixed"):
            self.assertIn(line + "\n", mounting)
        # A certificate that it renews is to be the user's whose the folder is: both let it. The last filter of calls counts.
        self.assertRegex(mounting, r"(?m)^CapabilityBoundingSet=.*\bCAP_CHOWN\b")
        self.assertRegex(mounting, r"(?ms)^SystemCallFilter=~@privileged$.*^SystemCallFilter=@chown$")
        users = {"forebay-coordinator.service": "forebay", "forebay-node.service": "forebay-node"}
        for unit in units:
            text = unit.read_text()
            for program in re.findall(r"^Exec(?:Start|StartPre)=\+?/(\S+)", text, re.M):
                self.assertTrue(os.access(root / program, os.X_OK), program)
            # File modes hold whatever is renamed; what a unit hides shows again with the next certificate.
            self.assertNotIn("InaccessiblePaths=", text)
            for line in ("Type=notify", f"User={users[unit.name]}", f"Group={users[unit.name]}", "ProtectSystem=strict", "NoNewPrivileges=yes", "CapabilityBoundingSet=",
                         "WatchdogSec=60s", "UMask=0077", "LoadCredential=aws:/etc/forebay/aws-credentials"):
                self.assertIn(line + "\n", text)
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not there; the units' syntax was not looked at")
        for unit in units:
            said = subprocess.run(["systemd-analyze", "verify", "--man=no", f"--root={root}", unit.name], capture_output=True,
                                  text=True, check=False)
            # The root has our files alone: units and programs of the system are not there.
            faults = [line for line in said.stderr.splitlines()
                      if unit.name in line and "not found" not in line and "Command /bin/kill" not in line]
            self.assertEqual(faults, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
