#!/usr/bin/python3
"""Preloads and tasks: nothing is fetched twice, nothing is called done that is not there. (Kills: preload_kill_test.)"""

import json
import os
import signal
import subprocess
import time

from e2e import E2eTest, eventually, main, read_all, tree_of

# Few connections, so that a preload takes long enough to be looked at, and a kill loses little.
SLOW = ("--s3-max-connections", "8")


class PreloadTest(E2eTest):
    def upload(self, files, prefix=""):
        source = self.folder / "source"
        for name, body in files.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        self.rgw.upload(source, self.bucket, prefix)

    def start_command(self, *words):
        """`forebay WORD…` in the background."""
        return subprocess.Popen([str(self.cluster.programs / "forebay"), "--coordinator", self.cluster.address, *words],
                                env=self.cluster.client_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def check(self, target):
        return json.loads(self.cluster.cli("-o", "json", "check", target, check=False).stdout)

    def task(self, task):
        return self.cluster.json("task", "show", task)["task"]

    def tasks(self):
        return self.cluster.json("tasks")["tasks"]

    def preloads(self):
        return [task for task in self.tasks() if task["kind"] == "preload"]

    def fails(self, code, *words):
        """The command ends with this exit code and one sentence, which is answered."""
        result = self.cluster.cli(*words, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stderr


class Preload(PreloadTest):
    def test_an_epoch_after_a_preload_costs_no_get(self):
        files = {f"d{i % 7}/f{i:04d}": os.urandom(20_000 + i) for i in range(600)}
        files["big"] = os.urandom(10_000_000)
        files["empty"] = b""
        self.upload(files)
        self.start()
        self.link()
        blocks = 600 + 3
        size = sum(map(len, files.values()))
        dry = self.cluster.json("preload", "data", "--dry-run")
        self.assertEqual((dry["objects"], dry["bytes"], dry["blocks"], dry["gets"], dry["cached_objects"]),
                         (602, size, blocks, blocks, 1))
        self.assertAlmostEqual(dry["price_usd"], blocks * 0.4 / 1e6, places=6)
        self.assertEqual(self.gets()["gets"], 0)

        mount = self.cluster.mount("data", "m1")
        self.assertEqual((mount / "d0" / "f0000").read_bytes(), files["d0/f0000"])
        done = self.cluster.json("preload", str(mount), "--skip-existing")["task"]
        self.assertEqual(
            (done["state"], done["total"], done["done"], done["failed"], done["not_kept"], done["bytes"], done["total_bytes"],
             done["fetched_blocks"], done["fetched_bytes"]),
            ("done", 602, 602, 0, 0, size, size, blocks - 1, size - len(files["d0/f0000"])))
        self.assertEqual(self.cluster.cli("check", "data", check=False).returncode, 0)
        gets = self.gets()
        self.assertEqual((gets["gets"], gets["repeated_gets"], gets["failed_gets"], gets["get_bytes"]), (blocks, 0, 0, size))

        self.assertEqual(read_all(mount), size)
        self.assertEqual(tree_of(mount), files)
        self.assertEqual(self.gets()["gets"], blocks)
        stats = self.link_stats()
        self.assertEqual((stats["s3_gets"], stats["s3_bytes"], stats["misses"], stats["cached_bytes"]), (blocks, size, 1, size))
        self.assertEqual(self.preloads(), [done])
        again = self.cluster.json("preload", "data", "--verify")["task"]
        self.assertEqual((again["state"], again["done"], again["fetched_blocks"]), ("done", 602, 0))
        self.assertEqual(self.cluster.json("preload", "data", "--dry-run")["gets"], 0)
        metrics = self.metrics(self.cluster.coordinator)
        self.assertEqual(metrics["forebay_preload_bytes", 'link="data",state="done"'], size)

    def test_a_reader_overtakes_a_preload(self):
        files = {f"f{i:04d}": os.urandom(50_000) for i in range(400)}
        self.upload(files)
        self.start(nodes=["n1"], node_options=SLOW)
        self.link()
        mount = self.cluster.mount("data", "m1")
        task = self.cluster.cli("preload", "data", "--rate-limit", "1MB/s", "--detach").stdout.strip()
        for name in ("f0399", "f0200", "f0000"):
            self.assertEqual((mount / name).read_bytes(), files[name])
        running = self.task(task)
        self.assertEqual(running["state"], "running", "the readers did not wait for its end")
        self.assertLess(running["done"], 400)
        self.assertEqual(self.cluster.cli("task", "cancel", task).returncode, 0)
        self.cluster.cli("preload", "data")
        self.assertEqual((self.gets()["gets"], self.gets()["repeated_gets"]), (400, 0))

    def test_ctrl_c_and_timeout_leave_it_running_and_say_how_to_come_back(self):
        self.upload({f"f{i:03d}": os.urandom(100_000) for i in range(60)})
        self.start()
        self.link()
        slow = ("preload", "data", "--rate-limit", "500KB/s")
        command = self.start_command(*slow)
        task = eventually(self.preloads, "the preload begins")[0]["id"]
        time.sleep(0.3)  # until it waits: a signal before that ends any program
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=20)
        self.assertEqual(command.returncode, 130)
        self.assertIn(f"forebay task wait {task}", said)
        self.assertIn(f"forebay task cancel {task}", said)
        self.assertEqual(self.task(task)["state"], "running")
        self.assertIn(task, self.fails(4, *slow, "--timeout", "1s"))
        self.assertIn(task, self.fails(4, "task", "wait", task, "--timeout", "1s"))
        self.assertEqual(len(self.preloads()), 1)

        self.assertIn("is cancelled", self.cluster.cli("task", "cancel", task).stdout)
        self.assertIn("already", self.cluster.cli("task", "cancel", task).stdout)
        self.assertEqual(self.task(task)["state"], "cancelled")
        self.assertIn("only one that failed", self.fails(2, "task", "retry", task))
        self.assertIn("no task", self.fails(1, "task", "cancel", "t-none"))
        done = self.cluster.json("preload", "data")["task"]
        self.assertIn("nothing to cancel", self.fails(2, "task", "cancel", done["id"]))
        self.assertEqual(self.cluster.cli("task", "wait", done["id"]).returncode, 0)
        self.assertEqual(self.gets()["repeated_gets"], 0)
        self.assertEqual([task["kind"] for task in self.tasks()], ["link", "preload", "preload"])

    def test_lists_choose_and_order(self):
        files = {f"{'ab'[i % 2]}/f{i:03d}": os.urandom(40_000) for i in range(80)}
        self.upload(files)
        self.start()
        self.link()
        names = sorted(name.removeprefix("a/") for name in files if name.startswith("a/"))
        (self.folder / "list").write_text("\n".join(names[:10]) + "\n")
        done = self.cluster.json("preload", "data/a", "-f", self.folder / "list")["task"]
        self.assertEqual((done["total"], done["done"], done["fetched_blocks"]), (10, 10, 10))
        self.assertEqual(self.check("data")["cached_objects"], 10)

        (self.folder / "order").write_text("\n".join(reversed(names)) + "\n")
        task = self.cluster.cli("preload", "data/a", "--order", self.folder / "order", "--rate-limit", "100KB/s",
                                "--detach").stdout.strip()
        eventually(lambda: self.cluster.cli("check", f"data/a/{names[-1]}", check=False).returncode == 0,
                   "the first of the list is fetched")
        self.assertEqual(self.cluster.cli("check", f"data/a/{names[12]}", check=False).returncode, 3)
        self.cluster.cli("task", "cancel", task)

        half = self.cluster.json("preload", "data", "--until", "60%")["task"]
        check = self.check("data")
        self.assertEqual(half["state"], "done")
        self.assertGreaterEqual(check["cached_bytes"], 0.6 * check["bytes"])
        self.assertLess(check["cached_bytes"], 0.6 * check["bytes"] + 2 * 40_000)

        (self.folder / "list").write_text("f000\nnope\n")
        before = self.gets()["gets"]
        self.assertIn("1 of the 2 names", self.fails(1, "preload", "data/a", "-f", self.folder / "list"))
        self.assertIn("cannot read", self.fails(2, "preload", "data", "-f", self.folder / "none"))
        self.assertIn("there is no", self.fails(1, "preload", "data/none"))
        self.assertEqual(self.gets()["gets"], before)
        self.assertEqual(list((self.folder / "coordinator" / "preload").glob("*")), [])

    def test_more_than_fits_is_said_and_not_called_cached(self):
        files = {f"f{i:04d}": os.urandom(60_000) for i in range(3000)}  # 180 MB
        self.upload(files)
        self.start(nodes=["n1"], cache="64MiB")
        self.link()
        result = self.cluster.cli("-o", "json", "preload", "data", check=False)
        self.assertEqual(result.returncode, 3)
        warning = json.loads(result.stderr.splitlines()[0])["warning"]
        self.assertIn("needs 176 MiB that is not cached yet, and 62.0 MiB is free", warning)
        done = json.loads(result.stdout)["task"]
        check = self.cluster.json("stats")["links"][0]
        self.assertEqual(done["state"], "done")
        self.assertEqual(done["done"] + done["not_kept"], 3000)
        self.assertEqual((done["bytes"], done["bytes"] + done["not_kept_bytes"]), (check["cached_bytes"], 180_000_000))
        self.assertGreater(done["done"], 900)
        # A full cache is not paid for with a GET for each block that finds no room: those cost one that were on their
        # way when the store refused one (the background's share of the slots: 15/32 of 512), and one a second behind it.
        # The store may refuse for other reasons before it is full: hence twice that, of some 1,900.
        self.assertLess(self.gets()["gets"], done["done"] + 2 * 240)

    def test_an_object_that_is_gone_is_reported_and_a_retry_fetches_what_came_back(self):
        files = {f"f{i:03d}": os.urandom(30_000) for i in range(50)}
        self.upload(files)
        self.start()
        # Any other link would be listed again, and then have 49 objects.
        self.link("data", "", "--refresh", "immutable")
        self.s3.delete_object(Bucket=self.bucket, Key="f007")
        said = self.fails(1, "preload", "data")
        self.assertIn("1 of 50 objects", said)
        task = self.preloads()[0]["id"]
        self.assertIn(f"forebay task retry {task}", said)
        shown = self.task(task)
        self.assertEqual((shown["state"], shown["done"], shown["failed"]), ("failed", 49, 1))
        self.assertEqual([failure["key"] for failure in shown["failures"]], ["f007"])
        self.assertIn("f007", self.cluster.cli("task", "show", task).stdout)
        # The same bytes have the same ETag.
        self.s3.put_object(Bucket=self.bucket, Key="f007", Body=files["f007"])
        self.assertIn("50 of 50", self.cluster.cli("task", "retry", task).stdout)
        self.assertEqual(self.task(task)["fetched_blocks"], 1)
        gets = self.gets()
        self.assertEqual((gets["gets"], gets["repeated_gets"]), (50, 0))


if __name__ == "__main__":
    main()
