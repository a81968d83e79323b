#!/usr/bin/python3
"""S3 throttles: readers wait and get their bytes, what is cached is read as ever, S3 is asked for little more than what
is needed, and the rate comes back."""

import os
import pathlib
import threading
import time

import scripted_s3
from e2e import eventually, main

FILES = 3000
READERS = 8


def fault(what, **how):
    return {"do": what, **how}


class S3Throttle(scripted_s3.ScriptedS3Test):
    def begin(self, count):
        files = {f"f/{i:05d}": os.urandom(600 + i % 100) for i in range(count)}
        self.put(files)
        self.start()
        # Whose GETs would be counted with those of the readers.
        self.link("data", "", "--no-background-fill")
        return files, pathlib.Path(self.cluster.mount("data", "m1"))

    def read_in_parallel(self, mount, files):
        """Each file once; answers what went wrong."""
        errors = []

        def read(names):
            for name in names:
                try:
                    if (mount / name).read_bytes() != files[name]:
                        errors.append(f"{name}: wrong bytes")
                except OSError as error:
                    errors.append(f"{name}: {error}")

        names = sorted(files)
        threads = [threading.Thread(target=read, args=(names[i::READERS],)) for i in range(READERS)]
        for thread in threads:
            thread.start()
        return threads, errors

    def throttled(self):
        return sum(value for node in self.cluster.nodes.values() for (name, _), value in node.metrics().items()
                   if name == "forebay_s3_throttled_total")

    def limits(self):
        return [value for node in self.cluster.nodes.values() for (name, _), value in node.metrics().items()
                if name == "forebay_s3_request_limit"]

    def test_what_nodes_meet_comes_back_as_leases(self):
        """From the S3 of a node to its metrics, with its heartbeat to the coordinator, and back with a share."""
        files, mount = self.begin(400)
        self.assertFalse(any(self.limits()), "nothing is limited yet")
        self.s3.script(fault("status", op="GET", every=2, status=503, code="SlowDown"))
        readers, errors = self.read_in_parallel(mount, files)
        eventually(lambda: self.throttled() >= 5, "S3 throttles")
        eventually(lambda: len([limit for limit in self.limits() if limit > 0]) == len(self.cluster.nodes),
                   "each node has a lease")
        eventually(lambda: any(a["name"] == "s3_throttled" for a in self.json_of("status")["alerts"]), "status says so")
        self.s3.script()
        for reader in readers:
            reader.join(60)
            self.assertFalse(reader.is_alive(), "the readers are done")
        self.assertEqual(errors, [])
        self.assertEqual(self.errors_of(mount), "", "0 EIO")

    def test_half_of_all_requests_refused_costs_no_error_and_little_more(self):
        files, mount = self.begin(FILES)
        warm = {name: files[name] for name in sorted(files)[:200]}
        for name, body in warm.items():
            self.assertEqual((mount / name).read_bytes(), body)
        cold = {name: body for name, body in files.items() if name not in warm}
        self.s3.script(fault("status", op="GET", every=2, status=503, code="SlowDown"))
        cached = scripted_s3.Reader(mount, warm)
        self.addCleanup(cached.stop)
        readers, errors = self.read_in_parallel(mount, cold)
        eventually(lambda: self.throttled() >= 10, "S3 throttles")
        eventually(lambda: any(self.limits()), "the nodes hold back")
        status = eventually(lambda: next((a for a in self.json_of("status")["alerts"] if a["name"] == "s3_throttled"),
                                         None), "status says so")
        self.assertRegex(status["message"], r"S3 throttles s3://\S+: the cluster keeps to \d+ requests/s")
        # What is cached is read on, many times over, while hardly anything comes from S3.
        before, gets = cached.reads, self.gets()
        eventually(lambda: cached.reads > before + 2000, "cached reads go on")
        self.assertLess(self.gets() - gets, 1000)
        refused = self.s3.counts()["rules"][0]["made"]
        self.s3.script()
        for reader in readers:
            reader.join(240)
            self.assertFalse(reader.is_alive(), "the readers are done")
        self.assertEqual((errors, cached.stop()[1]), ([], []))
        self.assertEqual(self.errors_of(mount), "", "0 EIO")
        self.assertGreater(refused, 0)
        self.assertLessEqual(len(cold) + refused, 1.2 * len(cold), "requests over needed ones")
        self.assertEqual(self.link_stats()["s3_gets"], len(files))

    def test_a_limited_origin_is_kept_to_and_used(self):
        files, mount = self.begin(FILES)
        self.s3.script(requests_per_s=200)
        begin = time.monotonic()
        readers, errors = self.read_in_parallel(mount, files)
        for reader in readers:
            reader.join(240)
            self.assertFalse(reader.is_alive(), "the readers are done")
        print(f"\n    {FILES} objects in {time.monotonic() - begin:.1f} s", flush=True)
        self.assertEqual(errors, [])
        counts = self.s3.counts()
        self.assertGreater(counts["refused"], 0, "the limit was felt")
        self.assertLessEqual(counts["requests"]["GET"], 1.2 * FILES)
        self.assertEqual(self.errors_of(mount), "")

    def test_shares_are_kept_while_the_coordinator_is_away(self):
        files, mount = self.begin(FILES)
        self.s3.script(requests_per_s=150)
        readers, errors = self.read_in_parallel(mount, files)
        eventually(lambda: any(self.limits()), "the nodes have leases")
        self.cluster.coordinator.kill()
        eventually(lambda: self.gets() > FILES * 2 // 3, "cold fills go on")
        self.assertTrue(any(self.limits()), "each node still holds back")
        self.cluster.start_coordinator()
        for reader in readers:
            reader.join(240)
            self.assertFalse(reader.is_alive(), "the readers are done")
        self.assertEqual(errors, [])
        self.assertLessEqual(self.s3.requests("GET"), 1.3 * FILES)


if __name__ == "__main__":
    main()
