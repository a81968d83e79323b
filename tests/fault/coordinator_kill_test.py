#!/usr/bin/python3
"""The coordinator is killed (SIGKILL) in each phase of a link, a refresh and an eviction: whoever asked is told so in a
sentence, nobody ever sees half of a listing or wrong bytes, the same verb does the rest afterwards, and what did not change
is not fetched again. Readers of another link go on all the while, and what they have not read yet is filled while there is
no coordinator. (In a preload: e2e preload_kill_test. At each step of a listing: listing_kill_test.)"""

import os
import pathlib
import signal
import subprocess
import sys

import scripted_s3
import verified_reader
from e2e import drop_page_cache, eventually, main
from mount_state import state_of
from verified_load import Bystanders, Void, fault_made, unless_void

OBJECTS, CHANGED, ADDED = 12_000, 400, 200
FIRST, SECOND = b"first version", b"the second version"
PAGE = 1000
PAGE_MS = 150
# Of the pages of the listing, at which the coordinator is killed; behind the last one it makes and publishes a generation.
MOMENTS = (0.0, 0.5, 1.0)
READ = 2_000  # objects that are cached
FOLDERS = 200
EVICTED = 10  # of the folders
VERIFIED = 400  # files of the other readers


class CoordinatorKills(scripted_s3.ScriptedS3Test):
    def start_verb(self, *words):
        verb = subprocess.Popen(
            [self.cluster.programs / "forebay", "--coordinator", self.cluster.address, "--timeout", "20s", *words],
            env=self.cluster.client_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(verb.communicate)
        self.addCleanup(verb.kill)
        return verb

    def start(self, nodes=None, cache=None, node_options=None):
        """With readers of another bucket."""
        super().start(nodes, cache, node_options)
        data = verified_reader.contents(VERIFIED)
        for number in range(VERIFIED):
            self.s3.put("verified", verified_reader.name_of(number), data[verified_reader.window(number)])
        self.others = Bystanders(self, "verified", VERIFIED)
        self.script()

    def script(self, *rules):
        """Counts begin anew with the rules."""
        self.s3.script(*rules)
        self.cold_before = self.others.cold_read

    def kill_and_start(self):
        """In between the others read on: what is cached, and what must be fetched."""
        pid, answered = self.cluster.coordinator.pid, self.answered()
        self.cluster.coordinator.kill()
        self.assertIsNone(state_of(pid))
        self.others.read_cold()
        eventually(lambda: self.answered() > answered + 2 * self.others.COLD_AT_ONCE, "others read on")
        self.cluster.start_coordinator()

    def answered(self):
        """Reads that running nodes have answered."""
        return sum(node.metrics().get(("forebay_read_duration_seconds_count", ""), 0) for node in self.cluster.nodes.values()
                   if state_of(node.pid) != "T")

    def told(self, verb):
        """The exit code and the sentence of a verb whose coordinator was killed: it was done, or says why not; never silence."""
        lines = verb.communicate(timeout=60)[1].strip().splitlines()
        said = "\n".join(line for line in lines if not line.startswith("listing "))  # how far it is
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

    def gets(self):
        """Without those of the others."""
        return super().gets() - (self.others.cold_read - self.cold_before)

    def generation(self):
        return self.link_stats()["generation"]

    @unless_void
    def test_a_link(self):
        self.start()
        for phase, moment in enumerate(MOMENTS):
            name = f"new{phase}"
            self.s3.put_many(self.bucket, f"{name}/d", OBJECTS, FIRST)
            self.script({"do": "delay", "op": "LIST", "ms": PAGE_MS})
            verb = self.start_verb("link", f"s3://{self.bucket}/{name}/", "--as", name, "--no-background-fill")
            fault_made(lambda least=max(1, int(OBJECTS // PAGE * moment)): self.s3.requests("LIST") >= least,
                       "S3 is asked for pages")
            listed = self.s3.requests("LIST")
            self.kill_and_start()
            code, said = self.told(verb)
            print(f"\n    killed in a link after {listed} of {OBJECTS // PAGE} pages: exit code {code}: {said}", file=sys.stderr)
            link = next((link for link in self.cluster.json("links")["links"] if link["name"] == name), None)
            if code == 0:
                self.assertEqual((link["state"], link["objects"]), ("ready", OBJECTS), "the verb says that it is done")
            elif link:
                self.assertIn(link["objects"], (0, OBJECTS), "half of a listing")
            # The same verb does the rest.
            self.cluster.cli("link", f"s3://{self.bucket}/{name}/", "--as", name, "--no-background-fill")
            mount = pathlib.Path(self.cluster.mount(name, name))
            self.assertEqual(self.sizes(mount), {len(FIRST): OBJECTS})
            self.cluster.unmount(name)
        self.others.end("a coordinator killed in links")

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
        self.script()
        self.cluster.cli("refresh", "data")
        eventually(lambda: self.sizes(mount) == self.whole[-1], "the mount has the whole generation")
        self.read(mount, CHANGED)
        again = self.gets() - CHANGED
        print(f"\n    {again} of {READ - CHANGED} unchanged blocks fetched again", file=sys.stderr)
        self.assertGreaterEqual(again, 0)
        self.assertLessEqual(again, (READ - CHANGED) // 100)
        self.others.end("a coordinator killed in refreshes")

    def kill_in_refresh(self, mount, pages):
        """Once S3 was asked for so many pages."""
        self.script({"do": "delay", "op": "LIST", "ms": PAGE_MS})
        generation = self.generation()
        verb = self.start_verb("refresh", "data")
        fault_made(lambda: self.s3.requests("LIST") >= max(1, pages), "S3 is asked for pages")
        listed = self.s3.requests("LIST")
        self.kill_and_start()
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
        callers = self.callers()
        self.kill_in_eviction("a node does not say what it has", lambda: self.callers() >= callers + EVICTED, node)
        self.assertEqual(self.held("n1"), held + self.others.COLD_AT_ONCE)
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
        self.others.end("a coordinator killed in evictions")

    def held(self, name):
        return self.cluster.nodes[name].metrics().get(("forebay_index_entries", ""), 0)

    def callers(self):
        """Programs that are connected to the coordinator."""
        return self.cluster.coordinator.metrics()["forebay_rpc_connections", ""]

    def kill_in_eviction(self, what, reached, stopped=None):
        """Of EVICTED folders, each by a verb of its own, once the phase is reached."""
        self.verbs = [self.start_verb("evict", f"data/d{number:03}", "--yes", "--force") for number in range(EVICTED)]
        fault_made(reached, what)
        self.kill_and_start()
        if stopped:
            stopped.kill(signal.SIGCONT)
        told = [self.told(verb) for verb in self.verbs]
        # Those that were not only looking for a coordinator.
        lost = [said for _, said in told if "the connection was lost:" in said and "no coordinator answers" not in said]
        in_flight = len(lost)
        self.assertEqual([said for said in lost if "whether it was done is not known" not in said], [])
        print(f"\n    killed in an eviction when {what}: {sum(code == 0 for code, _ in told)} of {len(told)} verbs were done, "
              f"{in_flight} in flight: {told[0][1]}", file=sys.stderr)
        if stopped:
            self.assertNotIn(0, [code for code, _ in told], "done, though a node was not asked")
            if in_flight == 0:
                raise Void("the coordinator was killed before it had heard of any verb")
        eventually(lambda: {node["state"] for node in self.cluster.json("stats")["nodes"]} == {"up"}, "the nodes are up")


if __name__ == "__main__":
    main()
