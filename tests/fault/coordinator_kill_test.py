#!/usr/bin/python3
"""The coordinator is killed (SIGKILL) in each phase of a refresh and of an eviction: whoever asked is told so in a sentence,
nobody ever sees half of a listing or wrong bytes, the same verb does the rest afterwards, and what did not change is not
fetched again. (Kills in a link: e2e link_test; in a preload: preload_test.)"""

import os
import pathlib
import signal
import subprocess
import sys

import scripted_s3
from e2e import drop_page_cache, eventually, main
from mount_state import state_of
from verified_load import Void, fault_made, unless_void

OBJECTS, CHANGED, ADDED = 12_000, 400, 200
FIRST, SECOND = b"first version", b"the second version"
PAGE = 1000
PAGE_MS = 150
# Of the pages of the listing, at which the coordinator is killed; behind the last one it makes and publishes a generation.
MOMENTS = (0.0, 0.5, 1.0)
READ = 2_000  # objects that are cached
FOLDERS = 200
EVICTED = 10  # of the folders


class CoordinatorKills(scripted_s3.ScriptedS3Test):
    def start_verb(self, *words):
        verb = subprocess.Popen(
            [self.cluster.programs / "forebay", "--coordinator", self.cluster.address, "--timeout", "20s", *words],
            env=self.cluster.client_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(verb.communicate)
        self.addCleanup(verb.kill)
        return verb

    def kill_coordinator(self):
        pid = self.cluster.coordinator.pid
        self.cluster.coordinator.kill()
        self.assertIsNone(state_of(pid))

    def told(self, verb):
        """The exit code and the sentence of a verb whose coordinator was killed: it was done, or says why not; never silence."""
        said = verb.communicate(timeout=60)[1].strip()
        self.assertEqual((said.count("\n"), bool(said)), (0, verb.returncode != 0), said)
        return verb.returncode, said

    @staticmethod
    def path_of(mount, number):
        return mount / f"d{number % FOLDERS:03}" / f"f{number:06}"

    def sizes(self, folder):
        """How many files have which size, as the kernel says."""
        sizes = {}
        for parent, _, names in os.walk(folder):
            for name in names:
                size = os.stat(os.path.join(parent, name)).st_size
                sizes[size] = sizes.get(size, 0) + 1
        return sizes

    def read(self, mount, second=0):
        """The first READ objects past the page cache, of which the first `second` are of the second version."""
        drop_page_cache()
        for number in range(READ):
            self.assertEqual(self.path_of(mount, number).read_bytes(), SECOND if number < second else FIRST, number)

    def generation(self):
        return self.link_stats()["generation"]

    @unless_void
    def test_a_refresh(self):
        self.s3.put_many(self.bucket, "d", OBJECTS, FIRST)
        self.start()
        self.link("data", "", "--no-background-fill")
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        self.read(mount)
        self.assertEqual(self.gets(), READ)
        self.whole = [{len(FIRST): OBJECTS}]  # what each listing may show, and nothing between them
        self.s3.put_many(self.bucket, "d", CHANGED, SECOND)
        for phase, moment in enumerate(MOMENTS, 1):
            self.s3.put_many(self.bucket, f"e{phase}", ADDED, SECOND)
            self.whole.append({len(FIRST): OBJECTS - CHANGED, len(SECOND): CHANGED + phase * ADDED})
            self.kill_in_refresh(mount, int(OBJECTS // PAGE * moment))
        self.s3.script()
        self.cluster.cli("refresh", "data")
        eventually(lambda: self.sizes(mount) == self.whole[-1], "the mount has the whole generation")
        self.read(mount, CHANGED)
        again = self.gets() - CHANGED
        print(f"\n    {again} of {READ - CHANGED} unchanged blocks fetched again", file=sys.stderr)
        self.assertGreaterEqual(again, 0)
        self.assertLessEqual(again, (READ - CHANGED) // 100)

    def kill_in_refresh(self, mount, pages):
        """Once S3 was asked for so many pages."""
        # Counts begin anew with the rules.
        self.s3.script({"do": "delay", "op": "LIST", "ms": PAGE_MS})
        generation = self.generation()
        verb = self.start_verb("refresh", "data")
        fault_made(lambda: self.s3.requests("LIST") >= max(1, pages), "S3 is asked for pages")
        listed = self.s3.requests("LIST")
        self.kill_coordinator()
        self.cluster.start_coordinator()
        code, said = self.told(verb)
        print(f"\n    killed in a refresh after {listed} of {OBJECTS // PAGE} pages: exit code {code}: {said}", file=sys.stderr)
        if code == 0:
            self.assertGreater(self.generation(), generation, "the verb says that it is done, and it is not")
        link = next(link for link in self.cluster.json("links")["links"] if link["name"] == "data")
        self.assertIn(link["objects"], [sum(sizes.values()) for sizes in self.whole], "half of a listing")
        # A mount goes from one generation to the next at once. A walk takes longer, and counts where none came meanwhile.
        before = self.generation()
        sizes = self.sizes(mount)
        if self.generation() == before == generation:
            self.assertIn(sizes, self.whole, "half of a listing")

    @unless_void
    def test_an_eviction(self):
        self.s3.put_many(self.bucket, "d", READ, FIRST)
        self.start()
        self.link("data", "", "--no-background-fill")
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        self.read(mount)
        self.assertEqual(self.gets(), READ)
        gone = READ // FOLDERS * EVICTED
        self.kill_in_eviction("a verb has just been sent", lambda: True)
        node = self.cluster.nodes["n2"]
        node.kill(signal.SIGSTOP)
        self.addCleanup(node.kill, signal.SIGCONT)
        fault_made(lambda: state_of(node.pid) == "T", "n2 is stopped")
        held = self.held("n1")
        # Everybody is asked what there is before anything goes, and one does not answer.
        self.kill_in_eviction("a node does not say what it has", lambda: not any(verb.poll() for verb in self.verbs), node)
        self.assertEqual(self.held("n1"), held)
        held = self.held("n1") + self.held("n2")
        self.kill_in_eviction("some blocks are evicted", lambda: self.held("n1") + self.held("n2") < held)
        # Right bytes, whatever is cached; the same verbs do the rest; what they do not name is never fetched again.
        self.read(mount)
        for number in range(EVICTED):
            self.cluster.cli("evict", f"data/d{number:03}", "--yes", "--force")
        before = self.gets()
        self.assertLessEqual(before, READ + 3 * gone + (READ - gone) // 100)
        self.read(mount)
        self.assertEqual(self.gets() - before, gone, "what is evicted is fetched once, and nothing else")

    def held(self, name):
        return self.cluster.nodes[name].metrics().get(("forebay_index_entries", ""), 0)

    def kill_in_eviction(self, what, reached, stopped=None):
        """Of EVICTED folders, each by a verb of its own, once the phase is reached."""
        self.verbs = [self.start_verb("evict", f"data/d{number:03}", "--yes", "--force") for number in range(EVICTED)]
        fault_made(reached, what)
        self.kill_coordinator()
        if stopped:
            stopped.kill(signal.SIGCONT)
        self.cluster.start_coordinator()
        told = [self.told(verb) for verb in self.verbs]
        in_flight = sum("the connection was lost:" in said for _, said in told)
        print(f"\n    killed in an eviction when {what}: {sum(code == 0 for code, _ in told)} of {len(told)} verbs were done, "
              f"{in_flight} in flight: {told[0][1]}", file=sys.stderr)
        if stopped:
            self.assertNotIn(0, [code for code, _ in told], "done, though a node was not asked")
            if in_flight == 0:
                raise Void("the coordinator was killed before it had heard of any verb")
        eventually(lambda: {node["state"] for node in self.cluster.json("stats")["nodes"]} == {"up"}, "the nodes are up")


if __name__ == "__main__":
    main()
