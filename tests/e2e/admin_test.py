#!/usr/bin/python3
"""What an administrator decides: pins, quotas, the limit of S3, a pause; and what the cluster says about what it cannot know."""

import concurrent.futures
import json
import os
import signal
import time

from e2e import E2eTest, drop_page_cache, eventually, main, read_all


class Admin(E2eTest):
    def cached(self, target):
        result = self.cluster.cli("-o", "json", "check", target, check=False)
        return json.loads(result.stdout)

    def refused(self, *words, code=2, says=()):
        result = self.cluster.cli(*words, check=False)
        self.assertEqual(result.returncode, code, (words, result.stdout, result.stderr))
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        for word in says:
            self.assertIn(word, result.stderr)

    def test_a_pinned_folder_stays_cached_while_another_data_set_is_read_thrice(self):
        keep = {f"keep/f{i:02d}": os.urandom(400_000) for i in range(20)}  # 8 MB
        rest = {f"rest/f{i:02d}": os.urandom(400_000) for i in range(40)}
        noise = {f"f{i:03d}": os.urandom(800_000) for i in range(260)}  # 208 MB over 192 MiB of cache
        self.put({**keep, **rest}, "a/")
        self.put(noise, "b/")
        self.start(cache="64MiB")
        self.link("data", "a/")
        self.link("noise", "b/")
        mount = self.cluster.mount("data", "m1")
        # Half of it before the pin, half after.
        for name in list(keep)[:10]:
            (mount / name).read_bytes()
        pin = self.cluster.json("pin", "data/keep")
        self.assertEqual((pin["pin"]["objects"], pin["pin"]["bytes"]), (20, 8_000_000))
        self.assertFalse(self.cluster.json("pin", "data/keep")["changed"])
        for name in keep:
            (mount / name).read_bytes()
        eventually(lambda: self.link_stats()["pinned_bytes"] == 8_000_000, "all of it is pinned", 10)
        # A restarted node knows its pins before a coordinator tells it anything.
        self.cluster.nodes["n2"].kill(signal.SIGKILL)
        self.cluster.start_node("n2", "64MiB")
        noisy = self.cluster.mount("noise", "m2")
        for epoch in range(3):
            drop_page_cache()
            read_all(noisy, order=epoch)
            self.assertEqual(self.cached("data/keep")["cached_ratio"], 1.0)
        self.assertEqual(self.link_stats()["pinned_bytes"], 8_000_000)

        freed = self.cluster.cli("evict", "data", "--yes", "--force")
        self.assertIn("pinned", freed.stdout)
        self.assertEqual(self.cached("data/keep")["cached_ratio"], 1.0)
        self.assertEqual(self.cached("data/rest")["cached_bytes"], 0)
        self.refused("unlink", "data", says=["pinned"])
        [row] = self.cluster.json("pins")["pins"]
        self.assertEqual((row["target"], row["cached_bytes"]), ("data/keep", 8_000_000))
        self.cluster.cli("unpin", "data/keep/")
        self.cluster.cli("evict", "data", "--yes", "--force")
        self.assertEqual(self.cached("data")["cached_bytes"], 0)
        self.assertEqual(self.cluster.cli("check", "data", check=False).returncode, 3)

    def test_pins_and_quotas_that_cannot_be_are_refused_with_both_numbers(self):
        self.put({f"f{i}": os.urandom(30_000_000) for i in range(3)})
        self.start(nodes=["n1"], cache="64MiB")
        self.link()
        self.refused("pin", "data", says=["85.9 MiB on disk", "62.0 MiB for blocks", "nothing was pinned"])
        self.cluster.cli("pin", "data/f0", "--ttl", "1h")
        self.refused("quota", "data", "20MB", says=["nothing was changed"])
        self.cluster.cli("quota", "data", "40MB")
        self.refused("pin", "data/f1", says=["quota", "nothing was pinned"])
        self.refused("pin", "data/nothing", code=1, says=["nothing"])
        self.refused("pin", "dta", code=1, says=["data"])
        self.refused("pin", "data/f0", "--for-job", "ghost", code=1, says=["ghost"])
        self.refused("quota", "dta", "1GB", code=1, says=["data"])
        self.assertEqual([pin["target"] for pin in self.cluster.json("pins")["pins"]], ["data/f0"])
        self.assertEqual(self.link_stats()["quota_bytes"], 40_000_000)

    def test_a_quota_holds_to_the_block(self):
        files = {f"f{i:03d}": os.urandom(100_000) for i in range(120)}
        self.put(files)
        self.start()
        self.link("data", "", "--block-size", "256KiB")
        mount = self.cluster.mount("data", "m1")
        self.refused("quota", "data", "10", says=["a quota of 10 B is less than one block", "256 KiB"])
        self.cluster.cli("quota", "data", "4MB")
        self.assertEqual(read_all(mount), 12_000_000)
        held = eventually(lambda: self.cached("data")["cached_bytes"], "something is cached", 10)
        self.assertLessEqual(held, 4_000_000)
        self.assertGreater(held, 3_000_000)
        self.cluster.cli("quota", "data", "1MB")
        eventually(lambda: self.cached("data")["cached_bytes"] <= 1_000_000, "the surplus goes", 15)
        self.cluster.cli("quota", "data", "none")
        # Also out of the nodes' memory, where what the store refused is read from for a while.
        self.cluster.cli("evict", "data", "--yes", "--force")
        drop_page_cache()
        read_all(mount)
        eventually(lambda: self.cached("data")["cached_bytes"] == 12_000_000, "all of it is cached again", 10)

    def test_a_pause_stops_gets_and_a_resume_lets_the_same_read_finish(self):
        files = {name: os.urandom(200_000) for name in ("warm", "cold")}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        self.assertEqual((mount / "warm").read_bytes(), files["warm"])
        self.cluster.cli("pause", "fills")
        status = self.cluster.cli("status", check=False)
        self.assertEqual(status.returncode, 3)
        self.assertIn("forebay resume fills", status.stdout)
        # Over a restart of everything that knows it.
        self.cluster.nodes["n1"].stop()
        self.cluster.start_node("n1", self.CACHE)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            cold = pool.submit((mount / "cold").read_bytes)
            with self.assertRaises(concurrent.futures.TimeoutError):
                cold.result(timeout=4)
            drop_page_cache()
            self.assertEqual((mount / "warm").read_bytes(), files["warm"])
            self.assertEqual(self.gets()["gets"], 1)
            self.cluster.cli("resume", "fills")
            self.assertEqual(cold.result(timeout=30), files["cold"])
        self.assertEqual(self.gets()["gets"], 2)
        self.assertEqual(self.cluster.cli("status", check=False).returncode, 0)

    def test_a_limit_bounds_the_gets_of_the_whole_cluster(self):
        files = {f"f{i:03d}": os.urandom(1000) for i in range(200)}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        self.cluster.cli("limit", "s3", "20/s")
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            done = list(pool.map(lambda name: (mount / name).read_bytes() == files[name], list(files)[:80]))
        gets = self.gets()["gets"]
        took = time.monotonic() - begin  # the background goes on fetching until here
        self.assertTrue(all(done))
        # At most the rate, a quarter of a second's burst, and one more for each node.
        self.assertLessEqual(gets, 20 * (took + 0.25) + 3)
        self.cluster.cli("limit", "s3", "none")
        self.assertEqual(read_all(mount), 200_000)

    def test_what_a_silent_node_holds_is_unknown_not_gone(self):
        files = {f"f{i:03d}": os.urandom(10_000) for i in range(60)}
        self.put(files)
        self.start()
        self.link()
        read_all(self.cluster.mount("data", "m1"))
        self.assertEqual(self.cluster.cli("check", "data", "--verify").returncode, 0)
        self.cluster.unmount("m1")
        self.cluster.nodes.pop("n3").kill(signal.SIGKILL)
        eventually(lambda: {node["id"]: node["state"] for node in self.cluster.json("stats")["nodes"]}["n3"] != "up",
                   "n3 is missed", 20)
        checked = self.cached("data")
        self.assertEqual([node["id"] for node in checked["unknown"]], ["n3"])
        self.assertEqual(checked["cached_blocks"] + checked["unknown_blocks"], 60)
        self.assertEqual(self.cluster.cli("check", "data", check=False).returncode, 3)
        self.refused("evict", "data", "--yes", says=["--force", "m1"])
        evicted = self.cluster.cli("evict", "data", "--yes", "--force", check=False)
        self.assertEqual(evicted.returncode, 3)
        self.assertIn("n3", evicted.stdout)


if __name__ == "__main__":
    main()
