#!/usr/bin/python3
"""What the look-ups of a link with a manifest cost, counted by an S3 that counts its requests: a refresh of one key and what a
node finds changed ask for that key alone, and a coordinator that is killed while it looks up or builds asks again only for
what was on its way. killing_disk.cc ends the unchanged program at a chosen step."""

import contextlib
import json
import os
import pathlib
import re
import time

import scripted_s3
from e2e import ClusterError, eventually, main

TESTS = pathlib.Path(os.environ.get("FOREBAY_TESTS", "")).resolve()
KEYS = 100_000  # in S3
STEP = 40  # the manifest names each fortieth of them: too far apart for pages
NAMED = KEYS // STEP
LANES = 44  # at most: one for each 64 names (NameLister)
KEPT_TOGETHER = 8  # requests of a lane that are written down together (NameListerOptions)
SECONDS_MAX = 5


class ManifestLookups(scripted_s3.ScriptedS3Test):
    NODES = ("n1",)

    def put_manifest(self, names, attribute=None):
        lines = (f"s3://{self.bucket}/{name}" if attribute is None else
                 json.dumps({"source-ref": f"s3://{self.bucket}/{name}", "class": attribute}) for name in names)
        self.put({"lists/m": "".join(line + "\n" for line in lines).encode()})

    def link_named(self, *options):
        return self.cluster.cli("link", "named", "--manifest", f"s3://{self.bucket}/lists/m", *options)

    def counting(self, *keys):
        """From now on requests count anew; looked_up() says how often each of these keys was asked for."""
        self.s3.script(*({"do": "delay", "ms": 0, "op": "LIST", "key": key} for key in keys))

    def looked_up(self):
        counts = self.s3.counts()
        requests = {op: number for op, number in counts["requests"].items() if op in ("LIST", "HEAD") and number}
        return requests, [rule["seen"] for rule in counts["rules"]]

    def small_link(self, *options, attribute=None):
        files = {f"data/c{i % 3}/{i:03}": os.urandom(20_000) for i in range(300)}
        self.put(files)
        self.put_manifest(sorted(files)[::2], attribute)
        self.start()
        self.link_named(*options)
        return {key.removeprefix("data/"): files[key] for key in sorted(files)[::2]}

    def wait_for(self, path, body):
        def follows():
            with contextlib.suppress(OSError):
                return path.read_bytes() == body
            return False
        eventually(follows, "the mount shows what S3 has")

    def test_a_refresh_of_one_key_asks_for_it_alone(self):
        files = self.small_link()
        mount = pathlib.Path(self.cluster.mount("named", "m1"))
        self.put({"data/c1/007": b"new", "data/c1/013": b"new, but not asked for"})
        self.counting("data/c1/007")
        refreshed = self.cluster.json("refresh", "named/c1/007")
        self.assertEqual((refreshed["added"], refreshed["removed"], refreshed["changed"]), (0, 0, 1))
        self.assertEqual(self.looked_up(), ({"LIST": 1}, [1]), "one key, and no manifest")
        self.wait_for(mount / "c1/007", b"new")
        self.assertEqual(self.cluster.json("refresh", "named/c1/007")["changed"], 0)
        self.assertEqual(self.looked_up(), ({"LIST": 2}, [2]))
        link = self.cluster.json("links")["links"][0]
        self.assertEqual((link["generation"], link["objects"]), (2, len(files)))
        self.counting()
        self.assertEqual(self.cluster.json("refresh", "named/c1")["changed"], 1)
        self.assertEqual(self.looked_up()[0], {"LIST": 1}, "50 names side by side are a page")
        # Of the whole, the manifest is read as well.
        self.counting()
        self.assertEqual(self.cluster.json("refresh", "named")["changed"], 0)
        self.assertEqual(self.looked_up()[0]["HEAD"], 1)

    def test_what_a_reader_finds_changed_is_looked_up_alone_and_the_link_follows(self):
        files = self.small_link(attribute="cat")
        mount = pathlib.Path(self.cluster.mount("named", "m1"))
        before = (mount / ".forebay/attributes.jsonl").read_text()
        new = os.urandom(30_000)
        self.put({"data/c2/008": new})
        self.counting("data/c2/008")
        with self.assertRaises(OSError):
            (mount / "c2/008").read_bytes()
        begin = time.monotonic()
        self.wait_for(mount / "c2/008", new)
        self.assertLess(time.monotonic() - begin, SECONDS_MAX)
        self.assertEqual(self.looked_up(), ({"LIST": 1}, [1]))
        self.assertEqual((mount / ".forebay/attributes.jsonl").read_text(), before)
        self.assertEqual(json.loads(os.getxattr(mount / "c2/008", "user.forebay.attributes"))["class"], "cat")
        for name in ("c2/002", "c0/000"):
            self.assertEqual((mount / name).read_bytes(), files[name])
        # One that is gone: the link cannot be without it, stays as it was, and says so.
        self.s3.delete(self.bucket, "data/c2/014")
        self.counting("data/c2/014")
        with self.assertRaises(OSError):
            (mount / "c2/014").read_bytes()
        check = eventually(lambda: (c := self.json_of("check", "named"))["changed_objects"] and c, "check knows")
        self.assertEqual([file["path"] for file in check["changed"]], ["c2/014"])
        self.assertEqual(self.looked_up()[0], {"LIST": 1})
        errors = [task["error"] for task in self.cluster.json("tasks")["tasks"] if task["kind"] == "refresh" and task["error"]]
        self.assertEqual(len(errors), 1)
        self.assertIn("data/c2/014 is not there", errors[0])

    # Kills.

    def start_coordinator(self, **settings):
        """With `settings` it is one that can be killed."""
        plain = dict(self.cluster.server_env)
        if settings:
            library = TESTS / "killing_disk.so"
            self.assertTrue(library.exists(), f"{library} is not built")
            self.cluster.server_env.update({"LD_PRELOAD": str(library),
                                            "FOREBAY_KILL_BELOW": str(self.folder / "coordinator"), **settings})
        try:
            self.cluster.start_coordinator()
        finally:
            self.cluster.server_env = plain

    def only_link(self):
        rows = self.cluster.json("links")["links"]
        return rows[0] if rows else None

    def ended(self, before):
        """The link when its task is over. Until then it is exactly what it was `before`."""
        def look():
            runs = any(task["state"] == "running" for task in self.cluster.json("tasks")["tasks"])
            link = self.only_link()
            if link["generation"] == before[2]:
                self.assertEqual((link["objects"], link["digest"], link["generation"]), before)
            return None if runs else link
        return eventually(look, "the link is there")

    def begin(self, refresh, options):
        if refresh:
            return self.cluster.cli("refresh", "named", "--detach")
        return self.link_named("--detach", *options)

    def prepare(self, refresh):
        """A coordinator's folder before what is killed; what the link shows until that is over."""
        if not refresh:
            return 0, None, 0
        self.put_version(b"one")
        self.start_coordinator()
        self.link_named()
        link = self.only_link()
        self.cluster.coordinator.stop()
        self.put_version(b"another")
        return link["objects"], link["digest"], link["generation"]

    def put_version(self, body):
        self.s3.put_many(self.bucket, "data/d", KEYS, body)

    def killed(self, refresh, text, which, looks_up, missing=(), options=()):
        names = sorted(f"data/d{i % 200:03}/f{i:06}" for i in range(KEYS))[::STEP]
        self.put_version(b"another")
        self.put_manifest([*missing, *names], "cat" if missing else None)
        before = self.prepare(refresh)
        # What nobody kills comes to, and what it does to its files.
        log = self.folder / "steps"
        self.start_coordinator(FOREBAY_KILL_LOG=str(log))
        self.s3.script()
        self.begin(refresh, options)
        link = self.ended(before)
        without = self.s3.requests("LIST")
        self.assertEqual(link["objects"], NAMED)
        op, path = text.split(":")
        steps = sum(line.startswith(op + " ") and path in line for line in log.read_text().splitlines())
        self.assertGreater(steps, 0)
        self.cluster.coordinator.stop()
        scripted_s3.remove(self.folder / "coordinator")

        before = self.prepare(refresh)
        # A whole number is that step, a part of one so much of all of them.
        step = which if isinstance(which, int) else max(1, int(steps * which))
        self.start_coordinator(FOREBAY_KILL_AT=f"{text}:{step}")
        self.s3.script()
        with contextlib.suppress(ClusterError):  # it may die before it answers
            self.begin(refresh, options)
        self.assertIsNotNone(self.cluster.coordinator.wait(60), "nobody was killed")
        self.assertEqual(self.cluster.coordinator.process.returncode, -9)
        asked = self.s3.requests("LIST")
        self.start_coordinator()
        link = self.ended(before)
        in_all = self.s3.requests("LIST")
        print(f"{'refresh' if refresh else 'link'} killed at {text} {which}: {asked} LISTs before, {in_all - asked} after, "
              f"{without} without", flush=True)
        self.assertEqual((link["objects"], link["generation"]), (NAMED, before[2] + 1))
        if looks_up and isinstance(which, int):
            self.assertEqual((asked, in_all), (0, without))
        elif looks_up:
            self.assertGreater(asked, 0)
            self.assertLess(asked, without, "it was killed too late")
            self.assertLessEqual(in_all, without + LANES * KEPT_TOGETHER)
        else:
            self.assertEqual(in_all, asked, "what was looked up was looked up again")
        if missing:
            task = next(task for task in self.cluster.json("tasks")["tasks"] if task["kind"] == "link")
            self.assertEqual((task["state"], task["failed"]), ("done", len(missing)))
        self.cluster.cli("link", "fresh", "--manifest", f"s3://{self.bucket}/lists/m", *options)
        digests = {link["name"]: link["digest"] for link in self.cluster.json("links")["links"]}
        self.assertEqual(digests["named"], digests["fresh"], "it shows what a link shows that nobody killed")
        snapshots = self.folder / "coordinator" / "snapshots"
        eventually(lambda: all(re.fullmatch(r"\d+\.fbs|\d+-\d+\.fbd", path.name)
                               for path in snapshots.rglob("*") if path.is_file()), "what the kill left behind is gone")

    def test_a_first_link_killed_in_the_middle_of_its_look_ups(self):
        self.killed(False, "write:.range", 0.5, True)

    def test_a_first_link_killed_before_its_first_question(self):
        self.killed(False, "write:.range", 20, True)

    def test_a_frozen_link_with_names_that_are_missing_killed_in_the_middle(self):
        missing = [f"data/d{i % 200:03}/gone{i:04}" for i in range(300)]
        self.killed(False, "write:.range", 0.5, True, missing, ("--snapshot", "--skip-bad"))

    def test_a_first_link_killed_near_the_end_of_its_look_ups(self):
        self.killed(False, "write:.range", 0.9, True)

    def test_a_refresh_killed_in_the_middle_of_its_look_ups(self):
        self.killed(True, "write:.range", 0.6, True)

    def test_a_first_link_killed_while_it_is_built(self):
        self.killed(False, "write:.fbs.tmp", 1, False)

    def test_a_refresh_killed_before_it_is_published(self):
        self.killed(True, "rename:.fbs", 1, False)


if __name__ == "__main__":
    main()
