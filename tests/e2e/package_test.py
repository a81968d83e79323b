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

    def upgraded(self, owner, *certificates):
        """What the postinst calls on a machine whose node runs, with `owner` for its files and these in the trust folder; and
        the machine's folder."""
        place, tools = self.folder / f"upgraded.{owner}", self.folder / "upgrading"
        for name in ("run/systemd/system", "etc/forebay/trust", "var/cache/forebay", "var/lib/forebay/node"):
            (place / name).mkdir(parents=True)
        for name in certificates:
            (place / "etc/forebay/trust" / name).write_text(name)
        (place / "etc/forebay/aws-credentials").touch()
        tools.mkdir(exist_ok=True)
        said = place / "said"
        for tool, does in (("adduser", ""), ("chown", ""), ("systemctl", ""), ("stat", f"[ $1 != -c ] || echo {owner}")):
            (tools / tool).write_text(f'#!/bin/sh\necho {tool} "$@" >> {said}\n{does}\n')
            (tools / tool).chmod(0o755)
        script = (self.scripts_of("forebay") / "postinst").read_text()
        moved = place / "postinst"
        moved.write_text(re.sub(r"(?<![\w/])(/var|/run|/etc)/", rf"{place}\1/", script))
        run("/bin/sh", moved, "configure", "0.0.1", env={"PATH": f"{tools}:/bin:/usr/bin"})
        return [line.replace(str(place), "") for line in said.read_text().splitlines()], place

    def test_an_upgrade_gives_the_node_what_was_both_services_while_it_stands_still(self):
        said, place = self.upgraded("forebay", "ca.pem", "revoked", "node.pem", "node.key", "client.key")
        last = ["chown -hR forebay-node:forebay-node /etc/forebay/node-trust.draft",
                "chown -hR forebay-node:forebay-node /var/cache/forebay",
                "chown -hR forebay-node:forebay-node /var/lib/forebay/node",
                "systemctl try-restart forebay-coordinator.service", "systemctl start forebay-node.service"]
        self.assertEqual([line for line in said if line.startswith(("chown", "systemctl"))],
                         ["systemctl daemon-reload", "systemctl --quiet is-active forebay-node.service",
                          "systemctl stop forebay-node.service", *last])
        held = {path.name: sorted(file.name for file in path.iterdir()) for path in (place / "etc/forebay").glob("*trust*")}
        self.assertEqual(held, {"trust": ["ca.pem", "client.key", "revoked"],
                                "node-trust": ["ca.pem", "node.key", "node.pem", "revoked"]})

    def test_an_upgrade_of_services_that_are_apart_stops_nobody(self):
        said, place = self.upgraded("forebay-node", "ca.pem", "coordinator.key")
        self.assertEqual([line for line in said if line.startswith(("chown", "systemctl"))],
                         ["systemctl daemon-reload", "systemctl try-restart forebay-coordinator.service forebay-node.service"])
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

    def test_a_purge_of_the_mount_leaves_an_administrator_the_certificate(self):
        script = (self.scripts_of("forebay-client") / "postrm").read_text()
        for administers in (True, False):
            trust = self.folder / "administers"
            trust.mkdir()
            (trust / "client.key").touch()
            if administers:
                (trust / "admin.key").touch()
            self.purge_here(script.replace("/usr/sbin/", "/nowhere/"), trust)
            self.assertEqual(trust.exists(), administers)
            shutil.rmtree(trust, ignore_errors=True)

    def test_a_purge_leaves_a_mount_its_certificate_and_no_other_key(self):
        script = (self.scripts_of("forebay") / "postrm").read_text()
        self.assertIn("[ -e /usr/sbin/forebay-mount ]", script)
        trust = self.folder / "trust"
        trust.mkdir()
        for name in ("ca", "ca.next", "coordinator", "node", "admin", "client"):
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
