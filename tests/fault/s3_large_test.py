#!/usr/bin/python3
"""The largest object that a link shows, 16 TiB, through a mount: sizes of 64 bits everywhere, the right bytes at any place,
and a GET for each block that is touched and for no other. What is larger is hidden, with its reason."""

import os
import pathlib

import scripted_s3
from e2e import BLOCK, drop_page_cache, eventually, main

SIZE = (1 << 44) - 1
AROUND = ((0, "the first byte"), ((1 << 32) - 8, "the 32-bit border"), (SIZE // 2 + 12345, "the middle"),
          (SIZE - 20, "the last bytes"))


class S3Large(scripted_s3.ScriptedS3Test):
    NODES = ("n1",)

    def begin(self, size):
        self.put({"beside": b"small"})
        self.s3.put_made(self.bucket, "huge", size)
        self.start()
        self.link()
        self.s3.script()
        return pathlib.Path(self.cluster.mount("data", "m1"))

    def test_sixteen_tebibytes(self):
        path = self.begin(SIZE) / "huge"
        status = path.stat()
        self.assertEqual(status.st_size, SIZE)
        self.assertEqual(status.st_blocks, -(-SIZE // 512))
        self.assertEqual(self.link_stats()["bytes"], SIZE + 5)
        touched = set()
        with open(path, "rb", buffering=0) as file:
            # Nothing that nobody asked for is read.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for begin, what in AROUND:
                want = scripted_s3.made_bytes(begin, min(16, SIZE - begin))
                self.assertEqual(os.pread(file.fileno(), len(want), begin), want, what)
                touched |= {begin // BLOCK, (begin + len(want) - 1) // BLOCK}
            self.assertEqual(os.pread(file.fileno(), 100, SIZE - 3), scripted_s3.made_bytes(SIZE - 3, 3), "cut at the end")
            self.assertEqual(os.pread(file.fileno(), 100, SIZE), b"", "nothing behind it")
            self.assertEqual(os.lseek(file.fileno(), 0, os.SEEK_END), SIZE)
        # A block whose wanted bytes are far behind its front takes two GETs (docs/adr/0032), the second after its reader went.
        second = lambda: sum(value for (name, _), value in self.cluster.nodes["n1"].metrics().items()  # noqa: E731
                             if name == "forebay_s3_second_gets_total")
        eventually(lambda: self.gets() == len(touched) + second(), "a GET for each block, and the second ones")
        self.assertLessEqual(second(), 2, "the others' bytes are at the front")
        # From the cache, without another one.
        drop_page_cache()
        before = self.gets()
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for begin, what in AROUND:
                self.assertEqual(os.pread(file.fileno(), 8, begin), scripted_s3.made_bytes(begin, 8), what)
        self.assertEqual(self.gets(), before)

    def test_its_blocks_are_counted_by_explain(self):
        path = self.begin(SIZE) / "huge"
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            self.assertEqual(os.pread(file.fileno(), 1, SIZE - 1), scripted_s3.made_bytes(SIZE - 1, 1))
        file = self.cluster.json("explain", str(path))
        self.assertEqual((file["size"], file["blocks"]), (SIZE, -(-SIZE // BLOCK)))
        self.assertEqual(file["s3_now"]["state"], "as-listed")
        described = file["described"]
        self.assertEqual([block["offset"] for block in described], [i * BLOCK for i in range(len(described))])

    def test_a_larger_one_is_hidden_with_its_reason(self):
        self.put({"beside": b"small"})
        self.s3.put_made(self.bucket, "larger", SIZE + 1)
        self.s3.put_made(self.bucket, "largest", 50 * 10**12)
        self.start()
        self.s3.script()
        self.link("data", "", "--posix-metadata")
        # A look at the bucket, and the page.
        self.assertEqual((self.s3.requests("LIST"), self.s3.requests("HEAD")), (2, 1), "nothing is asked for again")
        hidden = {row["key"]: row["reason"] for row in self.cluster.json("ls", "data", "--hidden")["entries"]}
        self.assertEqual(set(hidden), {"larger", "largest"})
        for reason in hidden.values():
            self.assertIn("or it is 16 TiB or larger", reason)
        self.assertEqual(os.listdir(self.cluster.mount("data", "m1")), ["beside"])

    def test_sizes_around_a_block_and_32_bits(self):
        self.put({"a": b"x"})
        sizes = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 1]
        for size in sizes:
            if size == 0:
                self.s3.put(self.bucket, "s0", b"")
            else:
                self.s3.put_made(self.bucket, f"s{size}", size)
        self.start()
        self.link()
        mount = pathlib.Path(self.cluster.mount("data", "m1"))
        for size in sizes:
            path = mount / f"s{size}"
            self.assertEqual(path.stat().st_size, size)
            with open(path, "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                begin = max(0, size - 10)
                self.assertEqual(os.pread(file.fileno(), 100, begin), scripted_s3.made_bytes(begin, size - begin), size)


if __name__ == "__main__":
    main()
