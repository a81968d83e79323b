#!/usr/bin/python3
"""From S3 to a program's read(2), through every piece."""

import concurrent.futures
import contextlib
import mmap
import os
import pathlib
import random
import signal

from e2e import BLOCK, E2eTest, blocks_of, drop_page_cache, eventually, main, read_all, shutil, tree_of


def copy_real_tree(target, most=1500):
    """Many of this machine's own files: real names, real sizes, real depth."""
    count = 0
    for source in (pathlib.Path("/usr/include"), pathlib.Path("/usr/share/perl5"), pathlib.Path("/usr/share/doc")):
        for path in sorted(source.rglob("*")):
            if count == most:
                return count
            if path.is_symlink() or not path.is_file() or path.stat().st_size > (1 << 20):
                continue
            copy = target / path.relative_to("/usr")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            count += 1
    return count


class FirstRead(E2eTest):
    def test_a_real_tree_costs_one_get_a_block_and_then_none(self):
        source = self.folder / "source"
        self.assertGreater(copy_real_tree(source), 1000)
        sizes = [path.stat().st_size for path in source.rglob("*") if path.is_file()]
        self.rgw.upload(source, self.bucket, "tree/")
        self.start()
        # A background fill would leave few misses to the readers.
        self.link("data", "tree/", "--no-background-fill")

        mount = self.cluster.mount("data", "m1")
        self.assert_same_tree(source, mount)
        first = self.gets()
        self.assertEqual((first["gets"], first["repeated_gets"], first["failed_gets"]), (blocks_of(sizes), 0, 0))
        self.assertEqual(first["get_bytes"], sum(sizes))

        drop_page_cache()
        self.assertEqual(read_all(mount), sum(sizes))
        second = self.cluster.mount("data", "m2")
        self.assert_same_tree(source, second)
        self.assertEqual(self.gets()["gets"], blocks_of(sizes))

        stats = self.link_stats()
        self.assertEqual((stats["s3_gets"], stats["s3_bytes"], stats["misses"]),
                         (blocks_of(sizes), sum(sizes), blocks_of(sizes)))
        self.assertEqual(stats["hits"] + stats["misses"], stats["reads"])
        self.assertEqual((stats["objects"], stats["bytes"], stats["cached_bytes"]), (len(sizes), sum(sizes), sum(sizes)))
        check = self.cluster.cli("-o", "json", "check", "data", check=False)
        self.assertEqual(check.returncode, 0, check.stdout)

    def test_a_large_object_is_right_however_it_is_read(self):
        size = 5 * BLOCK + 12_345
        body = random.Random(7).randbytes(size)
        self.put({"big.bin": body, "empty": b"", "block": body[:BLOCK], "block+1": body[:BLOCK + 1],
                  "block-1": body[:BLOCK - 1], "one": b"x"})
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        path = mount / "big.bin"
        self.assertEqual(path.stat().st_size, size)
        with open(path, "rb", buffering=0) as file:
            for end in range(size, 0, -700_001):
                begin = max(0, end - 700_001)
                file.seek(begin)
                self.assertEqual(file.read(end - begin), body[begin:end])
            self.assertEqual(os.pread(file.fileno(), 10, size), b"")
            self.assertEqual(os.pread(file.fileno(), 100, size - 5), body[-5:])
        drop_page_cache()

        def reader(seed):
            rng = random.Random(seed)
            with open(path, "rb", buffering=0) as own:
                for _ in range(40):
                    begin = rng.randrange(size)
                    length = rng.randrange(1, 300_000)
                    if os.pread(own.fileno(), length, begin) != body[begin:begin + length]:
                        return begin
            return None

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.assertEqual([bad for bad in pool.map(reader, range(16)) if bad is not None], [])
        drop_page_cache()
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            self.assertEqual(mapped[:], body)
        for name, want in {"empty": b"", "block": body[:BLOCK], "block+1": body[:BLOCK + 1],
                           "block-1": body[:BLOCK - 1], "one": b"x"}.items():
            self.assertEqual((mount / name).read_bytes(), want, name)
        cost = self.gets()
        # Who reads from the back gets the end of each whole block first: what lies before it is a second GET.
        self.assertTrue(0 <= cost["gets"] - (6 + 1 + 2 + 1 + 1) <= 5, cost)
        self.assertEqual(cost["get_bytes"], size + BLOCK + BLOCK + 1 + BLOCK - 1 + 1, "no byte twice")

    def test_sixteen_cold_readers_of_one_block_cost_one_get(self):
        body = os.urandom(3_000_000)
        self.put({"cold": body})
        self.start()
        self.link()
        mounts = [self.cluster.mount("data", f"m{i}") for i in range(2)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda i: (mounts[i % 2] / "cold").read_bytes() == body, range(16)))
        self.assertEqual(answers, [True] * 16)
        self.assertEqual(self.gets()["gets"], 1)

    def test_twice_the_cache_is_read_three_times_without_an_error(self):
        files = {f"f{i:03d}": os.urandom(500_000) for i in range(260)}  # 130 MB
        self.put(files)
        self.start(nodes=["n1"], cache="64MiB")
        self.link()
        mount = self.cluster.mount("data", "m1")
        for epoch in range(3):
            drop_page_cache()
            order = sorted(files)
            random.Random(epoch).shuffle(order)
            for name in order:
                self.assertEqual((mount / name).read_bytes(), files[name], name)
            for node in self.cluster.json("stats")["nodes"]:
                self.assertLessEqual(node["used_bytes"], node["capacity_bytes"])
        stats = self.link_stats()
        self.assertEqual(stats["s3_gets"], self.gets()["gets"])
        # What was kept in the first epoch is hit in the other two: no thrashing.
        self.assertGreater(stats["cached_bytes"], 50_000_000)
        self.assertLess(stats["s3_gets"], 260 + 2 * 260 * 0.65)

    def test_without_s3_cached_data_reads_on_and_cold_reads_wait(self):
        files = {name: os.urandom(200_000) for name in ("warm", "cold")}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        self.assertEqual((mount / "warm").read_bytes(), files["warm"])
        self.rgw.off()
        door = contextlib.ExitStack()
        door.callback(self.rgw.on)
        with door, concurrent.futures.ThreadPoolExecutor(1) as pool:
            drop_page_cache()
            self.assertEqual((mount / "warm").read_bytes(), files["warm"])
            cold = pool.submit((mount / "cold").read_bytes)
            # Far beyond the silence after which a node counts as dead: the read still waits.
            with self.assertRaises(concurrent.futures.TimeoutError):
                cold.result(timeout=6)
            drop_page_cache()
            self.assertEqual((mount / "warm").read_bytes(), files["warm"])
            door.close()
            self.assertEqual(cold.result(timeout=60), files["cold"])

    def test_a_restart_of_everything_keeps_the_cache(self):
        files = {f"f{i:03d}": os.urandom(39_000) for i in range(300)}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        read_all(mount)
        self.assertEqual(self.gets()["gets"], len(files))
        self.assertEqual(self.cluster.unmount("m1"), 0)
        for name in self.NODES[:2]:
            self.assertEqual(self.cluster.nodes[name].stop(), 0)
        self.cluster.nodes["n3"].kill(signal.SIGKILL)
        self.assertEqual(self.cluster.coordinator.stop(), 0)
        self.cluster.start_coordinator()
        for name in self.NODES:
            self.cluster.start_node(name, self.CACHE)
        eventually(lambda: all(node["state"] == "up" for node in self.cluster.json("stats")["nodes"]), "nodes are up")
        mount = self.cluster.mount("data", "m1")
        for name, body in files.items():
            self.assertEqual((mount / name).read_bytes(), body)
        self.assertLessEqual(self.gets()["gets"], len(files) + 3)

    def test_evict_frees_the_disks_and_the_next_read_fetches_again(self):
        files = {f"{'ab'[i % 2]}/f{i:03d}": os.urandom(50_000) for i in range(100)}
        self.put(files)
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        read_all(mount)
        used = sum(node["used_bytes"] for node in self.cluster.json("stats")["nodes"])
        self.assertEqual(self.cluster.cli("evict", "data/a", check=False).returncode, 2)  # nobody to ask
        self.cluster.cli("evict", "data/a", "--yes", "--force")
        left = sum(node["used_bytes"] for node in self.cluster.json("stats")["nodes"])
        self.assertLess(left, used * 0.6)
        self.assertEqual(self.cluster.cli("check", "data", check=False).returncode, 3)
        self.assertEqual(self.cluster.cli("check", f"s3://{self.bucket}/b/", check=False).returncode, 0)
        drop_page_cache()
        self.assertEqual(tree_of(mount), files)
        self.assertEqual(self.gets()["gets"], 150)

    def test_odd_keys_are_shown_or_hidden_and_never_break_a_directory(self):
        shown = {"plain": b"1", "with space": b"2", "ünïcode": b"3", "pct%2Fx": b"4", "plus+x": b"5", "dir/below": b"6",
                 "a=b&c": b"7", "deep/er/still": b"8", "new\nline": b"9", "~tilde*(x)'\"": b"10"}
        hidden = {"/lead": b"x", "dou//ble": b"x", "dot/../up": b"x", "l" * 256: b"x", "dir": b"shadowed"}
        self.put({**shown, **hidden})
        self.s3.put_object(Bucket=self.bucket, Key="emptydir/", Body=b"")
        self.start()
        self.link()
        mount = self.cluster.mount("data", "m1")
        self.assertEqual(tree_of(mount), shown)
        self.assertTrue((mount / "emptydir").is_dir())
        self.assertEqual(self.link_stats()["hidden_keys"], len(hidden))


if __name__ == "__main__":
    main()
