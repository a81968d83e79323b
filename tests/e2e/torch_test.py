#!/usr/bin/python3
"""PyTorch's DataLoader over a mount, with an unchanged script (docs/TRAINING.md). Skipped where PyTorch is not installed;
loaders_test.py has the same reads without it."""

import sys

from e2e import eventually, main
from training import FILES, TrainingTest, has, python_of

HAS_IMAGES = has("torchvision", "PIL")
# A training script with the sampler of the document.
WITH_SAMPLER = """
import sys
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
from training_job import Files
from training_job_torch import Tensors

files = Files(sys.argv[1])
ranks = int(sys.argv[2])
data = Tensors(files)
samplers = [DistributedSampler(data, ranks, rank) for rank in range(ranks)] if ranks > 1 else [RandomSampler(data)]
sampler = Announced(samplers, sys.argv[1], files.paths)
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2, collate_fn=list)
for epoch in range(3):
    if ranks > 1:
        sampler.set_epoch(epoch)
    for batch in loader:
        for key, value in batch:
            assert value.numpy().tobytes() == open(files.paths[key], "rb").read(), files.paths[key]
    print(epoch, flush=True)
"""


class Torch(TrainingTest):
    def fill(self):
        super().fill()
        done = self.python("import sys, training_job_torch as job\njob.save(sys.argv[1] + '/saved.pt')\n"
                           + ("job.save_images(sys.argv[1] + '/images')\n" if HAS_IMAGES else ""), self.source)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_unchanged_script_reads_every_byte_and_s3_is_read_once(self):
        kinds = ("files", "mapped", "tars", "saved", *(("images",) if HAS_IMAGES else ()))
        self.check(kinds, ((), ("--workers", "2"), ("--workers", "4", "--persistent"), ("--workers", "16"),
                           ("--workers", "2", "--method", "spawn", "--persistent")))

    def test_two_processes_share_an_epoch(self):
        self.check_ranks("--workers", 2)

    def test_the_sampler_of_the_document_announces_each_epoch(self):
        program = python_of("TRAINING.md") + WITH_SAMPLER
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                before = sum(self.stats()["hinted"].values())
                done = self.python(program, self.mount, ranks)
                self.assertEqual((done.returncode, done.stdout.split()), (0, ["0", "1", "2"]), done.stderr)
                self.assertNotIn("was not told", done.stderr)
                order, = self.stats()["orders"]
                self.assertEqual((order["job"], order["files"]), ("m1", FILES), "of both ranks")
                eventually(lambda before=before: sum(self.stats()["hinted"].values()) > before, "files are fetched ahead")
                self.assertEqual(self.stats()["hinted"]["failed"], 0)
        self.assertEqual(self.gets()["repeated_gets"], 0)
        jobs = {job["id"] for job in self.cluster.json("stats", "--jobs")["jobs"]}
        self.assertEqual(jobs, {"m1"}, "the workers are of one job")
        self.assertEqual(self.cluster.json("explain", "--job", "m1")["job"], "m1")

    def test_without_a_mount_that_listens_training_goes_on(self):
        program = python_of("TRAINING.md") + WITH_SAMPLER
        done = self.python(program, self.source, 1)
        self.assertEqual((done.returncode, done.stdout.split()), (0, ["0", "1", "2"]), done.stderr)
        self.assertIn("was not told the order", done.stderr)


if __name__ == "__main__":
    if not has("torch"):
        print("skipped: PyTorch is not installed (apt-get install python3-torch)", file=sys.stderr)
        sys.exit(77)
    main()
