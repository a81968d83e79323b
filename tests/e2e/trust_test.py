#!/usr/bin/python3
"""A cluster with certificates: init, join, reads over TLS, and who is not let in."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

from e2e import Daemon, E2eTest, eventually, main
from shifted_clock import ShiftedClock

PACKAGED = pathlib.Path(__file__).resolve().parents[2] / "ops" / "debian" / "forebay.toml"
HEARD_SECONDS = 30  # between two steps of a change of the authority (docs/SECURITY.md)


class Trust(E2eTest):
    def run_cli(self, *words, trust=None, code=0):
        """`forebay WORD…` with the certificates of `trust`; of the administrator by default."""
        env = {**self.cluster.client_env, "FOREBAY_TRUST_DIR": str(trust or self.folder / "trust")}
        result = subprocess.run([str(word) for word in (self.cluster.programs / "forebay", *words)], env=env,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, code, (words, result.stdout, result.stderr))
        return result

    def token(self, role, *options):
        made = json.loads(self.run_cli("--coordinator", self.cluster.address, "-o", "json", "token", "create",
                                       "--role", role, *options).stdout)
        return made["join"].split(" --token ")[1], made["token"]["id"]

    def join(self, token, trust, *options, code=0):
        return self.run_cli("join", self.cluster.address, "--token", token, *options, trust=trust, code=code)

    def refused(self, token, sentence, *options, trust=None, code=1):
        """The join fails with one sentence, and leaves nothing."""
        target = trust or self.folder / "stranger.trust"
        before = sorted(os.listdir(target)) if target.exists() else None
        result = self.join(token, target, *options, code=code)
        self.assertIn(sentence, result.stderr)
        self.assertEqual(sorted(os.listdir(target)) if target.exists() else None, before)

    def begin(self, *options):
        """init and a coordinator; answers the token of the join line."""
        line = self.run_cli("init", "--advertise", "127.0.0.1:7440", *options).stdout
        self.assertEqual(len(line.splitlines()), 1)
        self.cluster.start_coordinator()
        return line.split(" --token ")[1].strip()

    def ends(self, process):
        return self.metrics(process)["forebay_certificate_expiry_timestamp_seconds", ""]

    def start_node(self, name, token):
        trust = self.folder / f"{name}.trust"
        self.join(token, trust, "--id", name)
        self.cluster.start_node(name, "256MiB", "--trust-dir", trust)
        # As on another machine: a mount has TCP alone, and so TLS.
        (self.folder / "run" / f"node-{name}.sock").unlink()

    def give_clock(self):
        """To all programs that are started from now on."""
        clock = ShiftedClock(self.folder / "clock")
        for env in (self.cluster.server_env, self.cluster.client_env):
            env.update(clock.env)
        return clock

    def test_machines_join_and_a_mount_reads_over_tls(self):
        files = {f"train/{i:03d}": os.urandom(150_000) for i in range(40)}
        self.put(files)
        first = self.begin()
        for name in ("n1", "n2"):
            self.start_node(name, first)
        client, _ = self.token("client")
        self.join(client, self.folder / "trust", "--id", "gpu-1")
        self.link("data", "", "--no-background-fill", "--refresh", "immutable")
        mount = self.cluster.mount("data", "m")
        [row] = eventually(lambda: json.loads(self.admin("-o", "json", "mounts", "data").stdout)["mounts"], "it is listed", 10)
        self.assertEqual((row["host"], row["mountpoint"], row["source"], row["client"]),
                         (socket.gethostname(), str(mount), "data", "gpu-1"))
        for epoch in range(2):
            for name, body in files.items():
                self.assertEqual((mount / name).read_bytes(), body, (epoch, name))
        self.assertEqual(self.gets()["gets"], len(files), "S3 was read once")
        # New certificates, without a restart and under an open mount.
        again, _ = self.token("node")
        ends = self.metrics(self.cluster.nodes["n1"])["forebay_certificate_expiry_timestamp_seconds", ""]
        self.join(again, self.folder / "n1.trust", "--id", "n1")
        self.cluster.nodes["n1"].kill(1)  # SIGHUP
        eventually(lambda: self.metrics(self.cluster.nodes["n1"])[
            "forebay_certificate_expiry_timestamp_seconds", ""] >= ends and self.reads(mount, files), "reads go on", 20)
        with open(self.cluster.nodes["n1"].log, encoding="utf-8") as log:
            self.assertNotIn("stay in force", log.read())
        self.meet_a_copy(mount, files)

    def meet_a_copy(self, mount, files):
        """n1's machine was copied, with its certificate and its cache; the copy has an address of its own."""
        member = self.cluster.nodes["n1"]
        empty, full = (self.copy_of("n1", name) for name in ("empty", "full"))
        self.assertEqual(self.cluster.nodes.pop("empty").end_stop(), 2, "without a cache it ends")
        self.assertIn(f"node id n1 is held by the live process at {member.addresses['listen']}: stop one of the two",
                      empty.log.read_text())
        full.wait_ready()
        alert = eventually(self.doubled, "the administrator is told", 60)
        self.assertIn(f"node n1: the one at {member.addresses['listen']} is the member, and the one at "
                      f"{full.addresses['listen']} is refused", alert["message"])
        self.assertIn(alert["message"], self.admin("status", code=3).stdout)
        self.assertIn("forebay join HOST:PORT --token T --id NEW", alert["action"])
        self.assertEqual(full.log.read_text().count("refuses this node"), 1)
        self.assertEqual(self.address_of("n1"), member.addresses["listen"])
        self.assertTrue(self.reads(mount, files))
        # The first one is taken away: the copy has been meant.
        self.assertEqual(self.cluster.nodes.pop("n1").stop(), 0)
        self.cluster.nodes["n1"] = self.cluster.nodes.pop("full")
        eventually(lambda: self.address_of("n1") == full.addresses["listen"], "the copy is the member")
        self.assertIsNone(self.doubled())

    def copy_of(self, name, copy):
        """A node that knows what `name` does; only `full` has something in its cache directory."""
        cache = self.folder / copy
        cache.mkdir(mode=0o700)
        if copy == "full":
            shutil.copy(self.folder / name / "cluster_state", cache)
        self.cluster.nodes[copy] = Daemon(copy, [
            self.cluster.programs / "forebay-node", "--cache-dir", f"{cache}=256MiB", "--coordinator", self.cluster.address,
            "--state-dir", self.folder / f"{copy}.state", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
            "--trust-dir", self.folder / f"{name}.trust", "--local-socket", self.folder / f"{copy}.sock"],
            self.cluster.server_env, self.folder / f"{copy}.log")
        return self.cluster.nodes[copy].start(wait=False)

    def stats(self):
        return json.loads(self.admin("-o", "json", "stats").stdout)

    def doubled(self):
        return next((alert for alert in self.stats()["alerts"] if alert["name"] == "node_doubled"), None)

    def address_of(self, name):
        return next(node["address"] for node in self.stats()["nodes"] if node["id"] == name)

    def reads(self, mount, files):
        return all((mount / name).read_bytes() == body for name, body in files.items())

    def admin(self, *words, code=0):
        return self.run_cli("--coordinator", self.cluster.address, *words, code=code)

    def test_everybody_renews_in_time_under_a_mount_that_reads(self):
        files = {f"train/{i:03d}": os.urandom(50_000) for i in range(20)}
        self.put(files)
        clock = self.give_clock()
        first = self.begin("--member-lifetime", "1m")
        self.start_node("n1", first)
        client, _ = self.token("client")
        self.join(client, self.folder / "trust", "--id", "m1")
        self.link("data", "", "--no-background-fill", "--refresh", "immutable")
        mount = self.cluster.mount("data", "m")
        daemons = (self.cluster.coordinator, self.cluster.nodes["n1"])
        before = [self.ends(each) for each in daemons]
        with open(self.folder / "trust" / "client.pem", encoding="ascii") as file:
            client_before = file.read()

        def renewed():
            self.assertTrue(self.reads(mount, files))
            with open(self.folder / "trust" / "client.pem", encoding="ascii") as file:
                mine = file.read() != client_before
            return mine and all(self.ends(each) > old for each, old in zip(daemons, before))

        clock.set(21)  # a third of their time has passed
        eventually(renewed, "coordinator, node and mount have new certificates", 30)
        rows = {(row["role"], row["id"]): row for row in json.loads(
            self.admin("-o", "json", "member", "list").stdout)["members"]}
        self.assertEqual(set(rows), {("node", "n1"), ("client", "m1"), ("admin", "admin")})
        self.assertEqual([row["failure"] for row in rows.values()], [None] * 3)
        self.assertNotIn("certificate", self.admin("-o", "json", "status").stdout)

    def test_a_mount_renews_a_certificate_that_has_ended_before_it_asks(self):
        self.put({"train/1": b"one"})
        clock = self.give_clock()
        first = self.begin("--member-lifetime", "1m")
        client, _ = self.token("client")
        self.join(client, self.folder / "trust", "--id", "m1")
        self.start_node("n1", first)
        self.link("data", "", "--no-background-fill")
        client = self.folder / "trust" / "client.pem"
        daemons, before = (self.cluster.coordinator, self.cluster.nodes["n1"]), client.read_text()
        ends = [self.ends(each) for each in daemons]
        clock.set(61)
        eventually(lambda: all(self.ends(each) > old for each, old in zip(daemons, ends)), "all that run renew theirs", 30)
        self.assertEqual(client.read_text(), before)
        mount = self.cluster.mount("data", "m")
        self.assertNotEqual(client.read_text(), before)
        self.assertEqual((mount / "train/1").read_bytes(), b"one")

    def test_an_empty_coordinator_takes_no_link_away(self):
        self.put({"train/1": b"one"})
        first = self.begin()
        client, _ = self.token("client")
        self.join(client, self.folder / "trust", "--id", "m1")
        self.start_node("n1", first)
        self.link("data", "", "--no-background-fill")
        everything = self.cluster.mount("/", "all")
        self.cluster.mount("/", "later")
        self.assertEqual(self.cluster.unmount("later"), 0)
        # By then the node knows the link, too.
        self.assertEqual((everything / "data/train/1").read_bytes(), b"one")
        self.admin("backup", self.folder / "state.backup")
        self.cluster.coordinator.kill()
        (self.folder / "coordinator").rename(self.folder / "lost")
        self.cluster.start_coordinator()
        self.assertEqual(json.loads(self.admin("-o", "json", "links").stdout)["links"], [])
        # Not from who is there, nor from who comes now.
        log = self.cluster.mounts["all"].log
        eventually(lambda: "has an empty state" in log.read_text(), "the mount has asked it", 20)
        later = self.cluster.mount("/", "later")
        for mount in (everything, later):
            self.assertEqual((mount / "data/train/1").read_bytes(), b"one")
        self.admin("restore", self.folder / "state.backup")
        rows = lambda: json.loads(self.admin("-o", "json", "links").stdout)["links"]
        eventually(lambda: [row["state"] for row in rows()] == ["ready"], "the link is listed again")
        for mount in (everything, later):
            self.assertEqual((mount / "data/train/1").read_bytes(), b"one")
        # The last link that there is: now it has gone.
        self.admin("unlink", "data", "--force")
        eventually(lambda: not any([*everything.iterdir(), *later.iterdir()]), "the link has gone", 20)

    def test_a_revoked_member_is_out_at_once(self):
        files = {f"train/{i:03d}": os.urandom(50_000) for i in range(10)}
        self.put(files)
        first = self.begin()
        self.start_node("n1", first)
        client, _ = self.token("client")
        self.join(client, self.folder / "trust", "--id", "m1")
        self.link("data", "", "--no-background-fill", "--refresh", "immutable")
        mount = self.cluster.mount("data", "m")
        self.assertTrue(self.reads(mount, files))
        self.admin("member", "revoke", "client", "m1")
        self.assertIn("revoked", self.admin("member", "list").stdout)
        # The coordinator knows it at once, the node when it next asks.
        other = self.admin("member", "revoke", "admin", "admin", code=2)
        self.assertIn("another administrator", other.stderr)

        def cut_off(daemon):
            with open(daemon.log, encoding="utf-8") as log:
                return re.search(r"closed the connection of forebay-mount.*revoked", log.read())

        for daemon in (self.cluster.coordinator, self.cluster.nodes["n1"]):
            eventually(lambda: cut_off(daemon), f"{daemon.name} ends its connection", 30)  # pylint: disable=W0640
        with open(self.cluster.coordinator.log, encoding="utf-8") as log:
            self.assertIn('RevokeMember role="client" id="m1": done', log.read())
        again, _ = self.token("client")
        self.join(again, self.folder / "trust", "--id", "m1")
        # Of a node, too: who looks for it sees why it is silent.
        self.admin("member", "revoke", "node", "n1")
        alert = lambda: next((row for row in self.stats()["alerts"] if row["name"] == "node_suspect"), None)  # noqa: E731
        eventually(alert, "the node is silent", 30)
        self.assertIn("node n1 at ", alert()["message"])
        self.assertIn("was revoked", alert()["message"])
        self.assertIn("token create --role node", alert()["action"])

    def test_a_client_sees_and_reads_its_links_alone(self):
        self.put({"a/x": b"a" * 5000, **{f"b/{i:03d}": b"b" * 5000 for i in range(200)}})
        first = self.begin()
        self.start_node("n1", first)
        self.link("one", "a/", "--refresh", "immutable")
        self.link("two", "b/", "--refresh", "immutable")
        client, _ = self.token("client", "--links", "one")
        self.join(client, self.folder / "trust", "--id", "m1")
        mount = self.cluster.mount("/", "all")
        eventually(lambda: os.listdir(mount) == ["one"], "its link alone is there", 20)
        self.assertEqual((mount / "one" / "x").read_bytes(), b"a" * 5000)
        self.cluster.unmount("all")
        # A mount of the other link that began with the right to: it is the node that says no, asking nobody.
        wide, _ = self.token("client")
        self.join(wide, self.folder / "trust", "--id", "m1")
        mount = self.cluster.mount("two", "other")
        self.assertEqual((mount / "000").read_bytes(), b"b" * 5000)
        narrow, _ = self.token("client", "--links", "one")
        self.join(narrow, self.folder / "trust", "--id", "m1")
        self.cluster.mounts["other"].kill(1)  # SIGHUP
        unread = [f"{i:03d}" for i in range(1, 200)]

        def refused():
            try:
                return (mount / unread.pop()).read_bytes() != b"b" * 5000
            except OSError:
                return True

        eventually(refused, "a link that was not granted is not read", 30)
        with open(self.cluster.mounts["other"].log, encoding="utf-8") as log:
            self.assertIn("is not among those that client m1 may read", log.read())
        missing = self.run_cli("--coordinator", self.cluster.address, "token", "create", "--role", "client",
                               "--links", "three", code=1)
        self.assertIn("three", missing.stderr)

    def test_a_viewer_looks_and_changes_nothing(self):
        self.put({f"a/{i}": b"a" * 5000 for i in range(4)})
        self.start_node("n1", self.begin())
        self.link("data", "a/", "--refresh", "immutable", "--no-background-fill")
        self.admin("preload", "data")
        token, _ = self.token("viewer", "--uses", "2")
        trust = self.folder / "ann" / "trust"
        self.assertIn("viewer ann of cluster", self.join(token, trust, "--id", "ann").stdout)
        self.assertEqual(os.listdir(trust.parent), ["trust"], "a command reads no configuration")

        def ask(*words, code=0):
            return self.run_cli("--coordinator", self.cluster.address, *words, trust=trust, code=code)

        for words in (("status",), ("stats",), ("nodes",), ("links",), ("pins",), ("ls", "data", "--cached"), ("check", "data"),
                      ("explain", "data/0")):
            ask(*words)
        tasks = json.loads(ask("-o", "json", "tasks").stdout)["tasks"]
        ask("task", "show", tasks[0]["id"])
        seen = ask("export").stdout
        self.assertIn("data", seen)
        changes = [("evict", "data", "--yes"), ("unlink", "data"), ("pin", "data"), ("preload", "data"), ("refresh", "data"),
                   ("pause", "fills"), ("node", "drain", "n1"), ("token", "create", "--role", "viewer"),
                   ("member", "revoke", "node", "n1")]
        for words in (*changes, ("check", "data", "--verify"), ("token", "list"), ("member", "list"),
                      ("backup", self.folder / "backup")):
            refused = ask(*words, code=1)
            self.assertRegex(refused.stderr, r"^forebay: viewer ann may look and change nothing: .* needs an administrator's "
                             r"certificate \(`forebay token create --role admin`\)\n$", words)
            self.assertEqual(refused.stdout, "")
        self.assertEqual((ask("export").stdout, ask("check", "data").returncode), (seen, 0))
        self.assertEqual(json.loads(ask("-o", "json", "nodes").stdout)["nodes"][0]["state"], "up")
        self.assertEqual(len(json.loads(ask("-o", "json", "tasks").stdout)["tasks"]), len(tasks))
        self.assertNotIn("audit: viewer", self.cluster.coordinator.log.read_text())
        # It reads nothing, and sees everything.
        (self.folder / "m").mkdir()
        mount = subprocess.run([self.cluster.programs / "forebay-mount", "--coordinator", self.cluster.address, "data",
                                self.folder / "m"], env={**self.cluster.client_env, "FOREBAY_TRUST_DIR": str(trust)},
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(mount.returncode, 2, mount.stderr)
        self.assertIn("no certificate of a client", mount.stderr)
        bounded = self.admin("token", "create", "--role", "viewer", "--links", "data", code=2)
        self.assertIn("--links is for tokens of clients", bounded.stderr)
        # As any other member it is revoked, and joins again.
        self.admin("member", "revoke", "viewer", "ann")
        self.assertIn("certificate", ask("links", code=1).stderr)
        rows = json.loads(self.admin("-o", "json", "member", "list").stdout)["members"]
        self.assertEqual([row["revoked"] is None for row in rows if row["role"] == "viewer"], [False])
        self.join(token, trust, "--id", "ann")
        ask("links")

    def test_the_authority_changes_without_stopping_anything(self):
        files = {f"train/{i:03d}": os.urandom(50_000) for i in range(10)}
        self.put(files)
        first = self.begin()
        self.start_node("n1", first)
        client, _ = self.token("client")
        self.join(client, self.folder / "trust", "--id", "m1")
        self.link("data", "", "--no-background-fill", "--refresh", "immutable")
        mount = self.cluster.mount("data", "m")
        late, _ = self.token("client")
        self.join(late, self.folder / "late.trust", "--id", "m2")
        # Half a minute must lie between the steps. It passes for the command alone, which nobody else asks for the time,
        # and only when all have heard of the step before. The files of the mount say that of its certificate alone: whom it
        # believes stands in the command's folder, too.
        clock = ShiftedClock(self.folder / "clock")

        def rotate():
            return subprocess.run([self.cluster.programs / "forebay", "--coordinator", self.cluster.address, "-o", "json", "init",
                                   "--rotate-ca"], env={**self.cluster.client_env, **clock.env}, capture_output=True, text=True,
                                  timeout=60, check=False)

        def step(word):
            result = rotate()
            self.assertTrue(self.reads(mount, files))
            return result.returncode == 0 and json.loads(result.stdout)["rotation"] == word

        def believed(folder):
            return (self.folder / folder / "ca.pem").read_text()

        def asked():
            rows = json.loads(self.admin("-o", "json", "member", "list").stdout)["members"]
            return [row["seen"] for row in rows if row["role"] == "client"]

        old, members = believed("trust"), (self.folder / "n1.trust" / "node.pem", self.folder / "trust" / "client.pem")
        issued = [path.read_text() for path in members]
        node = self.cluster.nodes["n1"]
        node.kill(signal.SIGSTOP)
        self.addCleanup(node.kill, signal.SIGCONT)
        self.assertEqual(json.loads(rotate().stdout)["rotation"], "begun")
        clock.set(HEARD_SECONDS)
        # However long ago the step before is: who runs and has not heard of it would be shut out.
        eventually(lambda: "node n1" in rotate().stderr, "the next step waits for the node", HEARD_SECONDS)
        clock.set(0)
        node.kill(signal.SIGCONT)
        self.assertFalse(step("switched"), "too early")
        eventually(lambda: believed("n1.trust") == believed("trust") != old, "the node believes both", HEARD_SECONDS)
        for times in ("once", "again, with what it heard in force"):
            before = asked()
            eventually(lambda past=before: asked() != past, f"the mount asks {times}", HEARD_SECONDS)
        clock.set(HEARD_SECONDS)
        eventually(lambda: step("switched"), "switched", HEARD_SECONDS)
        self.assertIn(old.strip(), believed("trust"))
        self.assertFalse(step("ended"), "too early")
        eventually(lambda: all(path.read_text() != before for path, before in zip(members, issued)),
                   "node and mount have certificates of the new one", HEARD_SECONDS)
        clock.set(2 * HEARD_SECONDS)
        eventually(lambda: step("ended"), "ended", HEARD_SECONDS)
        new = believed("trust")
        self.assertNotIn(old, new)
        # Nobody asked the coordinator, and its audit has it all the same.
        words = ["init cluster=", "init rotate-ca=begun", "init rotate-ca=switched", "init rotate-ca=ended"]
        log = self.cluster.coordinator.log
        eventually(lambda: all(word in log.read_text() for word in words), "the audit has each step", 30)
        lines = [line for line in log.read_text().splitlines() if "audit: admin" in line and ": init " in line]
        self.assertEqual(len(lines), len(words), lines)
        for line, word in zip(lines, words, strict=True):
            self.assertRegex(line, rf"audit: admin '.*' on the coordinator's machine, .* UTC \(forebay .*\): {word}.*: done$")
        eventually(lambda: believed("n1.trust") == new, "the node believes it alone", 20)
        self.assertTrue(self.reads(mount, files))
        states = {row["outdated"] for row in json.loads(self.admin("-o", "json", "token", "list").stdout)["tokens"]}
        self.assertEqual(states, {True}, "the tokens of before are good no more")
        self.assertIn("of a replaced authority", self.admin("token", "list").stdout)
        # Who was away all the time has the old authority alone, of the same cluster, and needs no more than a token.
        self.join(self.token("client")[0], self.folder / "late.trust", "--id", "m2")
        self.assertEqual(believed("late.trust"), new)
        self.run_cli("init", "--advertise", "127.0.0.1:7440", trust=self.folder / "foreign")
        self.refused(self.token("client")[0], "belongs to another cluster than the token", trust=self.folder / "foreign", code=2)
        self.start_node("n2", self.token("node")[0])
        self.admin("nodes")

    def test_strangers_are_not_let_in(self):
        first = self.begin()
        self.start_node("n1", first)
        node = self.cluster.nodes["n1"].addresses["listen"]
        # Without a certificate, and with another cluster's.
        result = self.run_cli("--coordinator", self.cluster.address, "nodes", trust=self.folder / "none", code=1)
        self.assertIn("lets in who has a certificate alone", result.stderr)
        self.assertIn(f"{self.folder / 'none'} holds none", result.stderr)
        foreign = self.folder / "foreign"
        self.run_cli("init", "--advertise", "127.0.0.1:7440", trust=foreign)
        result = self.run_cli("--coordinator", self.cluster.address, "nodes", trust=foreign, code=1)
        self.assertIn("authority", result.stderr)
        # A member in another role: a client's certificate is no administrator's, a node no coordinator.
        client, _ = self.token("client")
        disguised = self.folder / "disguised"
        self.join(client, disguised)
        for ending in ("pem", "key"):
            shutil.copy(disguised / f"client.{ending}", disguised / f"admin.{ending}")
        result = self.run_cli("--coordinator", self.cluster.address, "nodes", trust=disguised, code=2)
        self.assertIn("is the certificate of client", result.stderr)
        result = self.run_cli("--coordinator", node, "links", code=1)
        self.assertIn("is node n1", result.stderr)
        # A node whose machine has a client's certificate alone does not start.
        env = {**self.cluster.server_env, "FOREBAY_TRUST_DIR": str(disguised)}
        daemon = subprocess.run([self.cluster.programs / "forebay-node", "--cache-dir", self.folder / "x", "--coordinator",
                                 self.cluster.address, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"],
                                env=env, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(daemon.returncode, 2, daemon.stderr)
        self.assertIn("forebay join", daemon.stderr)
        self.assertEqual([row["id"] for row in json.loads(self.run_cli(
            "--coordinator", self.cluster.address, "-o", "json", "stats").stdout)["nodes"]], ["n1"])

    def test_a_token_that_is_not_good_is_refused_with_a_sentence(self):
        self.begin()
        used, _ = self.token("node", "--uses", "1")
        self.refused(used, "is for a node, and not for a client", "--role", "client")
        (self.folder / "file").write_text("")
        self.refused(used, "the token was not used", trust=self.folder / "file" / "trust", code=2)
        self.join(used, self.folder / "n1.trust", "--id", "n1")
        self.refused(used, "is used up")
        revoked, name = self.token("node")
        self.run_cli("--coordinator", self.cluster.address, "token", "revoke", name)
        self.refused(revoked, "was revoked")
        short, name = self.token("client", "--ttl", "1s")
        rows = lambda: json.loads(self.run_cli(  # noqa: E731
            "--coordinator", self.cluster.address, "-o", "json", "token", "list").stdout)["tokens"]
        self.assertIn(name, [row["id"] for row in rows()])

        def ended():
            result = subprocess.run([self.cluster.programs / "forebay", "join", self.cluster.address, "--token", short,
                                     "--role", "admin"], env={**self.cluster.client_env, "FOREBAY_TRUST_DIR": str(
                                         self.folder / "stranger.trust")}, capture_output=True, text=True, check=False)
            return "ended at" in result.stderr  # until then: it is for another role

        eventually(ended, "the token ends", 10)
        self.refused(short, "ended at")
        # Another cluster's token.
        line = self.run_cli("init", "--advertise", "127.0.0.1:7440", trust=self.folder / "foreign").stdout
        self.refused(line.split(" --token ")[1].strip(), "not of the cluster that the token is of")
        self.refused(used[:-1], "no join token", code=2)
        # A machine of this cluster keeps what it has.
        self.refused(line.split(" --token ")[1].strip(), "not of the cluster that the token is of", trust=self.folder / "n1.trust")

    def test_who_joins_needs_no_configuration_by_hand(self):
        """In the configuration that the package ships."""
        first = self.begin()
        config = self.folder / "machine" / "forebay.toml"
        config.parent.mkdir()
        shipped = PACKAGED.read_text()
        config.write_text(shipped)
        trust = config.parent / "trust"
        said = self.join(first, trust, "--id", "n1", "--advertise", "n1.example:7447").stdout
        added = f'coordinator = ["{self.cluster.address}"], listen = "0.0.0.0:7447", advertise = "n1.example:7447"'
        self.assertIn(f'{config} says now [trust] dir = "{trust}", [node] {added}\n'
                      f"services of this machine that run read {config} when they are restarted\n", said)
        node = [self.cluster.programs / "forebay-node", "--config", config]
        env = {key: value for key, value in self.cluster.server_env.items() if not key.startswith("FOREBAY_TRUST")}
        self.assertIn("good", subprocess.run([*node, "--check-config"], env=env, capture_output=True, text=True, check=True).stdout)
        printed = subprocess.run([*node, "--print-config"], env=env, capture_output=True, text=True, check=True).stdout
        for line in [*added.split(", "), 'cache_dir = ["/var/cache/forebay"]']:
            self.assertIn(line, printed)
        client, _ = self.token("client", "--uses", "2")
        made = json.loads(self.join(client, trust, "--id", "m1", "-o", "json").stdout)
        self.assertEqual(made["config"], str(config))
        whole = config.read_text()
        self.assertTrue(whole.endswith(f'[mount]\n# By forebay join.\ncoordinator = ["{self.cluster.address}"]\n'), whole)
        lines = whole.splitlines()
        self.assertEqual([line for line in shipped.splitlines() if line not in lines], [])
        # Once more: nothing lacks, and what an administrator has set stays.
        made = json.loads(self.join(client, trust, "--id", "m1", "-o", "json").stdout)
        self.assertEqual((made["config"], config.read_text()), (None, whole))
        config.write_text(whole.replace("n1.example:7447", "10.9.9.9:1"))
        said = self.join(first, trust, "--id", "n1", "--advertise", "n1.example:7447").stdout
        self.assertIn(f'{config} keeps its own [node] advertise = "10.9.9.9:1"\n', said)
        self.assertIn('advertise = "10.9.9.9:1"', config.read_text())
        # What nothing can be added to is left, and said.
        config.write_text("[node\n")
        result = self.join(first, trust, "--id", "n1")
        self.assertIn(f'not changed, and needs [trust] dir = "{trust}", [node] coordinator = ', result.stderr)
        self.assertEqual(config.read_text(), "[node\n")
        self.refused(first, "--advertise is for a node", "--role", "client", "--advertise", "m1:1", code=2)
        self.refused(first, "is no address that others can use", "--advertise", "0.0.0.0:7441", code=2)

    def test_a_folder_is_named_from_where_one_stands(self):
        """What services read later, from anywhere, has the whole name."""
        self.begin()
        token, _ = self.token("node")
        for words in (("join", self.cluster.address, "--token", token, "--trust-dir", "n1/"), ("backup", "state"),
                      ("restore", "state")):
            subprocess.run([self.cluster.programs / "forebay", "--coordinator", self.cluster.address, *words], cwd=self.folder,
                           env={**self.cluster.client_env, "FOREBAY_TRUST_DIR": "trust"}, capture_output=True, timeout=60,
                           check=True)
        self.assertIn(f'dir = "{self.folder / "n1"}"', (self.folder / "forebay.toml").read_text())

    def test_a_coordinator_beyond_loopback_needs_certificates_or_the_word_insecure(self):
        command = [self.cluster.programs / "forebay-coordinator", "--state-dir", self.folder / "state", "--listen",
                   "0.0.0.0:0", "--metrics-listen", "", "--check-config"]
        alone = {**self.cluster.client_env, "FOREBAY_TRUST_DIR": str(self.folder / "none")}
        bare = subprocess.run(command, env=alone, capture_output=True, text=True, check=False)
        self.assertEqual(bare.returncode, 2)
        self.assertIn("--insecure-plain-tcp", bare.stderr)
        self.assertEqual(subprocess.run([*command, "--insecure-plain-tcp"], env=alone, capture_output=True,
                                        check=False).returncode, 0)
        self.run_cli("init", "--advertise", "127.0.0.1:7440")
        self.assertEqual(subprocess.run(command, env=self.cluster.client_env, capture_output=True,
                                        check=False).returncode, 0)

    def test_the_etcd_of_another_machine_is_asked_over_tls_or_with_the_word_insecure(self):
        here, elsewhere = "http://127.0.0.1:9", "http://192.0.2.1:2379"  # RFC 5737: nobody's
        command = [self.cluster.programs / "forebay-coordinator", "--state-dir", self.folder / "state", "--listen",
                   "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--etcd"]
        for urls in (elsewhere, f"{here},{elsewhere}"):
            refused = subprocess.run([*command, urls], env=self.cluster.server_env, stdin=subprocess.DEVNULL,
                                     capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(refused.returncode, 2)
            error = [line for line in refused.stderr.splitlines() if " error " in line]
            self.assertEqual(len(error), 1, refused.stderr)
            self.assertIn(f"{elsewhere} is on another machine and not encrypted: use https, or --insecure-plain-tcp", error[0])
            self.assertFalse((self.folder / "state").exists(), "something is left of it")
        # With the word it waits for its etcd as any other whose etcd does not answer.
        taken = Daemon("coordinator", [*command, elsewhere, "--insecure-plain-tcp"], self.cluster.server_env,
                       self.folder / "etcd.log").start()
        self.assertEqual(taken.stop(), 0)


if __name__ == "__main__":
    main()
