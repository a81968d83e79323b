"""What the tests of training scripts share: a data set of each kind that training_job.py reads, and its runs over the mount
and over the folder that was uploaded."""

import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile

import numpy as np
from e2e import E2eTest, blocks_of

JOB = pathlib.Path(__file__).with_name("training_job.py")
FILES = 120
SHARDS = ("rows.npy", "saved.pt")  # larger than a block; of two blocks each
SECONDS = 300
# Of training scripts: such as that of a virtual environment with another PyTorch than Debian's.
PYTHON = os.environ.get("FOREBAY_TRAINING_PYTHON", sys.executable)


def has(*modules):
    """Whether training scripts can import them."""
    program = f"import importlib.util as i, sys; sys.exit(not all(i.find_spec(name) for name in {modules!r}))"
    return subprocess.run([PYTHON, "-c", program], check=False).returncode == 0


def fill(folder):
    rng = random.Random(6)
    for i in range(FILES):
        path = folder / "files" / f"c{i % 5}" / f"{i:04d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.randbytes(2000 + 37 * i))
    np.save(folder / "rows.npy", np.random.default_rng(6).standard_normal((300, 4096)).astype("float32"))  # two blocks
    (folder / "tars").mkdir()
    for shard in range(5):
        with tarfile.open(folder / "tars" / f"{shard:06d}.tar", "w") as tar:
            for i in range(20):
                member = tarfile.TarInfo(f"{shard:02d}{i:04d}.jpg")
                member.size = 9000 + i
                tar.addfile(member, io.BytesIO(rng.randbytes(member.size)))


class TrainingTest(E2eTest):
    NODES = ("n1", "n2")
    JOB, LOADER = JOB, ()  # the training script, and more options for it

    def setUp(self):
        super().setUp()
        self.source = self.folder / "source"
        self.source.mkdir()
        self.fill()
        self.put({str(path.relative_to(self.source)): path.read_bytes() for path in self.source.rglob("*") if path.is_file()})
        self.start()
        self.link()
        self.mount = self.cluster.mount("data", "m1")
        self.before = self.gets()

    def fill(self):
        fill(self.source)

    def environment(self):
        """Programs find the modules of this folder."""
        return {**self.cluster.client_env, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(JOB.parent)}

    def python(self, program, *words):
        return subprocess.run([PYTHON, "-B", "-c", program, *map(str, words)], env=self.environment(),
                              capture_output=True, text=True, timeout=SECONDS, check=False)

    def begin(self, root, *words):
        return subprocess.Popen([PYTHON, "-B", self.JOB, str(root), *map(str, words), *self.LOADER], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.environment())

    def end(self, process):
        said, errors = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, errors[-2000:])
        return [json.loads(line) for line in said.splitlines()]

    def epochs(self, root, *words):
        return self.end(self.begin(root, *words))

    def check(self, kinds, ways):
        """Every way of reading gives what the uploaded folder gives, and all of them together fetch each byte of S3 once. (A
        block of which a piece is wanted first may take two GETs.)"""
        wanted = self.epochs(self.source, *kinds)
        for kind in kinds:
            digests = {row["digest"] for row in wanted if row["kind"] == kind}
            self.assertEqual(len(digests), 1, "each epoch is of all samples")
        for words in ways:
            with self.subTest(" ".join(words)):
                self.assertEqual(self.epochs(self.mount, *kinds, *words), wanted)
        sizes = [path.stat().st_size for path in self.source.rglob("*") if path.is_file()]
        gets = self.gets()
        self.assertEqual(gets["get_bytes"] - self.before["get_bytes"], sum(sizes))
        self.assertTrue(blocks_of(sizes) <= gets["gets"] - self.before["gets"] <= blocks_of(sizes) + len(SHARDS), gets)
        self.assertEqual(set(self.stats()["failed_reads"].values()), {0})

    def check_ranks(self, *words):
        """Two processes share a data set: each reads half of it, and what both read is the whole."""
        processes = [self.begin(self.mount, "files", "--ranks", 2, "--rank", rank, *words) for rank in range(2)]
        parts = [self.end(process) for process in processes]
        local = [self.epochs(self.source, "files", "--ranks", 2, "--rank", rank) for rank in range(2)]
        self.assertEqual(parts, local)
        self.assertEqual([row["samples"] for part in parts for row in part], [FILES // 2] * 6)
        # The rest of the link may be filled behind them.
        gets = self.gets()
        self.assertGreaterEqual(gets["gets"] - self.before["gets"], FILES)
        self.assertEqual(gets["repeated_gets"], 0, gets)

    def stats(self):
        return json.loads((self.mount / ".forebay/stats").read_text())


def python_of(document):
    """The Python in a page of docs/, for a test that runs it."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs" / document).read_text()
    return "\n".join(part.split("```")[0] for part in text.split("```python\n")[1:])


__all__ = ["FILES", "JOB", "PYTHON", "SECONDS", "TrainingTest", "has", "python_of"]
