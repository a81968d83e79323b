#!/usr/bin/python3
"""What a coordinator must not forget: in a backup, in an old copy of its folder, in a file that people edit."""

import json
import shutil
import stat
import sys

import verified_reader
from e2e import E2eTest, eventually, main
from verified_load import Load

FILES = 200  # of one block each


class Backup(E2eTest):
    NODES = ("n1", "n2")

    def setUp(self):
        super().setUp()
        verified_reader.write(self.home / "source", FILES)
        self.rgw.upload(self.home / "source", self.bucket)
        self.addCleanup(shutil.rmtree, self.home / "source")
        self.start()
        self.link()
        self.mounted = self.cluster.mount("data", "m1")
        self.finish(self.load(passes=1))
        self.fetched = self.gets()["gets"]

    def load(self, passes=0):
        load = Load(self.mounted, passes, 2, FILES)
        self.addCleanup(load.kill)
        return load

    def finish(self, load):
        total = load.stop()
        self.assertEqual((total["errors"][:5], total["wrong"][:5]), ([], []))
        self.assertGreater(total["reads"], 0)

    def states(self):
        return {node["id"]: node["state"] for node in self.cluster.json("stats")["nodes"]}

    def status(self):
        return json.loads(self.cluster.cli("-o", "json", "status", check=False).stdout)

    def generation(self):
        row = self.cluster.json("links")["links"][0]
        return row["generation"] if row["state"] == "ready" else 0

    def lose_coordinator(self, name):
        """Its process is killed, and its folder is another one afterwards."""
        self.cluster.coordinator.kill()
        (self.folder / "coordinator").rename(self.folder / name)

    def test_a_new_coordinator_goes_on_from_a_backup(self):
        self.cluster.cli("pin", "data")
        self.cluster.cli("quota", "data", "1GiB")
        exported = self.cluster.cli("export").stdout
        file = self.folder / "state.backup"
        self.cluster.cli("backup", file)
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        # Into a cluster that has a state of its own it does not go.
        refused = self.cluster.cli("restore", file, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("state of its own (links: 1, pins: 1, ", refused.stderr)
        self.assertEqual(self.cluster.cli("export").stdout, exported)
        before = self.generation()
        everything = self.cluster.mount("/", "all")

        load = self.load()
        self.lose_coordinator("lost")
        self.cluster.start_coordinator()
        self.assertEqual(self.cluster.json("links")["links"], [])
        restored = self.cluster.json("restore", file)
        print(f"\n    restored: {restored}", file=sys.stderr)
        self.assertEqual((restored["links"], restored["answers"]), (1, True))
        eventually(lambda: self.states() == {"n1": "up", "n2": "up"}, "the nodes follow the restored coordinator")
        eventually(lambda: self.generation() > before, "the link is listed again")
        self.assertEqual(self.cluster.cli("export").stdout, exported)
        self.mounted = self.cluster.mount("data", "m2")
        self.finish(self.load(passes=1))
        self.finish(load)
        self.assertEqual(self.gets()["gets"], self.fetched, "what the nodes had cached is theirs still")
        self.assertEqual([entry.name for entry in everything.iterdir()], ["data"])
        # And once more in the same process: what it serves is what was restored.
        self.cluster.cli("unpin", "data")
        self.cluster.cli("quota", "data", "none")
        # The last link that there is: now it has gone.
        self.cluster.cli("unlink", "data", "--force")
        eventually(lambda: not any(everything.iterdir()), "the link has gone", 20)

    def test_an_old_copy_of_the_state_is_refused_and_alarms(self):
        self.cluster.coordinator.stop()
        shutil.copytree(self.folder / "coordinator", self.folder / "copy")
        for _ in range(2):
            self.cluster.start_coordinator()
            eventually(lambda: self.states() == {"n1": "up", "n2": "up"}, "the nodes follow it")
            eventually(lambda: self.status()["state"] == "healthy", "all is well")
            self.cluster.coordinator.stop()
        shutil.rmtree(self.folder / "coordinator")
        (self.folder / "copy").rename(self.folder / "coordinator")
        load = self.load()
        # Each start claims one epoch more: it is never believed for that.
        for _ in range(3):
            self.cluster.start_coordinator()
            eventually(lambda: any(row["name"] == "coordinator_outdated" for row in self.status()["alerts"]), "the alert")
            self.cluster.coordinator.stop()
        self.cluster.start_coordinator()

        def alert(name="coordinator_outdated"):
            return [row for row in self.status()["alerts"] if row["name"] == name]

        # It takes its members for live ones at first, and is refused all the same.
        evicted = self.cluster.cli("evict", "--yes", "data", check=False)
        self.assertNotEqual(evicted.returncode, 0, evicted.stdout)
        self.assertIn("an old one", evicted.stdout + evicted.stderr)
        self.assertTrue(alert("coordinator_refused"))
        row = eventually(alert, "the alert")[0]
        self.assertIn("do not follow this coordinator", row["message"])
        self.assertIn("forebay restore", row["action"])
        self.finish(load)
        self.assertEqual(self.gets()["gets"], self.fetched)

    def test_a_copy_that_was_made_during_the_last_run_is_refused_and_alarms(self):
        """It claims the epoch that a restart would claim: only what was written behind it tells."""
        everything = self.cluster.mount("/", "all")
        shutil.copytree(self.folder / "coordinator", self.folder / "copy")
        self.cluster.cli("link", f"s3://{self.bucket}/", "--as", "later")
        eventually(lambda: {entry.name for entry in everything.iterdir()} == {"data", "later"}, "both are mounted", 20)
        load = self.load()
        self.lose_coordinator("lost")
        (self.folder / "copy").rename(self.folder / "coordinator")
        self.cluster.start_coordinator()
        alert = lambda: [row for row in self.status()["alerts"] if row["name"] == "coordinator_outdated"]  # noqa: E731
        row = eventually(alert, "the alert")[0]
        print(f"\n    {row['message']}", file=sys.stderr)
        evicted = self.cluster.cli("evict", "--yes", "data", check=False)
        self.assertNotEqual(evicted.returncode, 0, evicted.stdout)
        asked = lambda: len(self.cluster.json("mounts")["mounts"])  # noqa: E731
        eventually(lambda: asked() == 2, "both mounts have asked it for their links", 60)
        self.assertEqual({entry.name for entry in everything.iterdir()}, {"data", "later"})
        self.finish(load)
        self.assertEqual(self.gets()["gets"], self.fetched)
        # The right one goes on where it was.
        self.cluster.coordinator.stop()
        shutil.rmtree(self.folder / "coordinator")
        (self.folder / "lost").rename(self.folder / "coordinator")
        self.cluster.start_coordinator()
        eventually(lambda: self.states() == {"n1": "up", "n2": "up"}, "the nodes follow it")
        self.assertFalse(alert())
        self.assertEqual(len(self.cluster.json("links")["links"]), 2)

    def test_a_file_says_what_is_linked_and_pinned(self):
        document = json.loads(self.cluster.cli("export").stdout)
        document["links"][0]["quota"] = "2GiB"
        document["links"].append({**document["links"][0], "name": "twin"})
        document["pins"] = [{"target": "twin", "until": "2088-01-01T00:00:00Z"}]
        file = self.folder / "cluster.json"
        file.write_text(json.dumps(document))
        changes = ["link 'data': quota 2GiB, was none", f"link 'twin' of s3://{self.bucket}/: new",
                   "pin of twin: new, until 2088-01-01T00:00:00Z"]
        dry = self.cluster.json("apply", "-f", file, "--dry-run")
        self.assertEqual((dry["applied"], dry["changes"]), (False, changes))
        self.assertEqual(len(self.cluster.json("links")["links"]), 1)
        done = self.cluster.json("apply", "-f", file)
        self.assertEqual((done["applied"], done["changes"]), (True, changes))
        self.assertEqual(self.cluster.json("apply", "-f", file)["changes"], [])
        exported = json.loads(self.cluster.cli("export").stdout)
        self.assertEqual(exported, document)
        # One option that cannot be changed: nothing of the file is applied.
        document["links"][0].update({"include": ["*.jpg"], "quota": "3GiB"})
        file.write_text(json.dumps(document))
        refused = self.cluster.cli("apply", "-f", file, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("include none, not '*.jpg'", refused.stderr)
        self.assertEqual(json.loads(self.cluster.cli("export").stdout), exported)


if __name__ == "__main__":
    main()
