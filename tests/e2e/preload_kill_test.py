#!/usr/bin/python3
"""A preload goes on after each kill of its command, of the coordinator and of its nodes, and fetches next to nothing twice.
Readers of another link notice nothing, and what they have not read yet is filled while the killed one is away."""

import json
import os
import random
import time

import preload_test
import verified_reader
from e2e import eventually, main
from verified_load import Bystanders, unless_void

VERIFIED = 400  # files of the other readers


class PreloadKills(preload_test.PreloadTest):
    def of_data(self):
        return [task for task in self.preloads() if task["target"] == "data"]

    @unless_void
    def test_killed_at_ten_random_moments_it_completes_and_fetches_next_to_nothing_twice(self):
        rng = random.Random(int(os.environ.get("FOREBAY_SEED", time.time_ns() % 1_000_000)))
        seed = rng.randrange(1_000_000)
        rng = random.Random(seed)
        files = {f"d{i % 20}/f{i:04d}": os.urandom(3_000 + i % 100) for i in range(3000)}
        self.upload(files)
        self.start(node_options=preload_test.SLOW)
        self.link()
        verified_reader.write(self.folder / "verified", VERIFIED)
        self.rgw.upload(self.folder / "verified", f"{self.bucket}v")
        others = Bystanders(self, f"{self.bucket}v", VERIFIED)
        # So that there are moments to be killed at.
        command = ("preload", "data", "--rate-limit", "600KB/s")
        waiter = self.start_command(*command)
        task = eventually(self.of_data, "the preload begins")[0]["id"]
        victims = ["cli", "coordinator", "node"] * 3 + ["coordinator"]
        rng.shuffle(victims)
        for victim in victims:
            time.sleep(rng.uniform(0.1, 0.8))
            if victim == "cli":
                waiter.kill()
                waiter.communicate()
                waiter = self.start_command(*rng.choice([command, ("task", "wait", task)]))
            elif victim == "coordinator":
                self.cluster.coordinator.kill()
                others.read_cold()
                self.cluster.start_coordinator()
            else:
                name = rng.choice(self.NODES)
                self.cluster.nodes[name].kill()
                others.read_cold()
                self.cluster.start_node(name, self.CACHE, *preload_test.SLOW)
        waiter.kill()
        waiter.communicate()
        waited = self.cluster.cli("-o", "json", "task", "wait", task)
        done = json.loads(waited.stdout)["task"]
        self.assertEqual((done["state"], done["done"], done["failed"], done["not_kept"]), ("done", 3000, 0, 0), f"seed {seed}")
        self.assertEqual(len(self.of_data()), 1, "each new command joined the same task")
        self.assertEqual(self.cluster.cli("check", "data", check=False).returncode, 0)
        gets = self.gets()
        self.assertEqual(gets["gets"] - gets["repeated_gets"], 3000)
        self.assertLessEqual(gets["repeated_gets"], 30, f"seed {seed}")
        others.end("ten kills in a preload")


if __name__ == "__main__":
    main()
