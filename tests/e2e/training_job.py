#!/usr/bin/python3
"""A training script as others write it: it knows nothing of Forebay, only a folder. It loads, and trains nothing.

  training_job.py ROOT KIND… [--workers N] …

files   a file is a sample: ROOT/files                      images  torchvision's ImageFolder of ROOT/images
mapped  rows of ROOT/rows.npy by numpy.memmap               saved   torch.load of ROOT/saved.pt
tars    samples in the tar files of ROOT/tars, read as a stream from front to back, each by one worker

Samples come out of worker processes in batches: of PyTorch's DataLoader, or with --plain of the same division of work
without PyTorch (a worker is forked or spawned, hears which batches it makes, and sends them through a pipe). Prints a line
of JSON for each kind and epoch: how many samples, and a digest of them all, whatever their order."""

import argparse
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import tarfile

import numpy as np

BATCH = 8
PATIENCE_SECONDS = 120  # that a batch may take


def digest_of(key, data):
    return hashlib.sha256(f"{key}:".encode() + bytes(data)).digest()


class Files:
    """Sample i is (i, its bytes as an array)."""

    def __init__(self, root):
        self.paths = sorted(str(path) for path in pathlib.Path(root, "files").rglob("*") if path.is_file())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        with open(self.paths[i], "rb") as file:
            return i, np.frombuffer(file.read(), np.uint8)


class Rows:
    """Mapped once, before the workers begin: those that are forked have the mapping, others map anew."""

    def __init__(self, root):
        self.path = os.path.join(root, "rows.npy")
        self.rows = np.load(self.path, mmap_mode="r")

    def __getstate__(self):
        return self.path

    def __setstate__(self, path):
        self.path, self.rows = path, np.load(path, mmap_mode="r")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return i, np.array(self.rows[i]).view(np.uint8)


class Tars:
    """`count` workers have every count-th shard each."""

    def __init__(self, root):
        self.paths = sorted(str(path) for path in pathlib.Path(root, "tars").iterdir())

    def samples(self, index, count):
        for path in self.paths[index::count]:
            with tarfile.open(path, "r|") as shard:
                for member in shard:
                    yield member.name, np.frombuffer(shard.extractfile(member).read(), np.uint8)


def in_batches(samples):
    batch = []
    for sample in samples:
        batch.append(sample)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


class Work:
    """Which batches there are in an epoch, and what worker `index` of `count` makes of them."""

    def __init__(self, data):
        self.data = data

    def batches(self, order, index, count):
        if isinstance(self.data, Tars):
            yield from in_batches(self.data.samples(index, count))
            return
        for begin in range(index * BATCH, len(order), count * BATCH):
            yield [self.data[i] for i in order[begin:begin + BATCH]]


def serve(work, index, count, pipe):
    """A worker: makes its part of each order that it hears, until it hears None."""
    while (order := pipe.recv()) is not None:
        for batch in work.batches(order, index, count):
            pipe.send(batch)
        pipe.send(None)


class PlainLoader:
    """What DataLoader does: batches of each worker by turns; workers live for an epoch or for all."""

    def __init__(self, data, order_of, options):
        self.work, self.order_of, self.options, self.workers = Work(data), order_of, options, []

    def _begin(self):
        context = multiprocessing.get_context(self.options.method)
        for index in range(self.options.workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(self.work, index, self.options.workers, theirs), daemon=True)
            process.start()
            theirs.close()
            self.workers.append((process, ours))

    def close(self):
        for process, pipe in self.workers:
            pipe.send(None)
            process.join(PATIENCE_SECONDS)
        self.workers = []

    def __iter__(self):
        order = self.order_of()
        if self.options.workers == 0:
            yield from self.work.batches(order, 0, 1)
            return
        if not self.workers:
            self._begin()
        for _, pipe in self.workers:
            pipe.send(order)
        left = [pipe for _, pipe in self.workers]
        while left:
            for pipe in list(left):
                if not pipe.poll(PATIENCE_SECONDS):
                    raise TimeoutError("no batch came")
                batch = pipe.recv()
                if batch is None:
                    left.remove(pipe)
                else:
                    yield batch
        if not self.options.persistent:
            self.close()


def plain_loader(kind, options):
    data = {"files": Files, "mapped": Rows, "tars": Tars}[kind](options.root)
    seeds = iter(range(options.epochs))

    def order_of():
        order = list(range(len(data))) if kind != "tars" else []
        random.Random(next(seeds)).shuffle(order)
        return order[options.rank::options.ranks]

    return PlainLoader(data, order_of, options)


def torch_loader(kind, options):
    import training_job_torch  # pylint: disable=import-outside-toplevel
    return training_job_torch.loader(kind, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("kinds", nargs="+", choices=("files", "images", "mapped", "tars", "saved"))
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--method", choices=("fork", "spawn"), default="fork")
    parser.add_argument("--persistent", action="store_true", help="workers live for all epochs")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rank", type=int, default=0, help="which of --ranks processes this is: each has its part")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="without PyTorch")
    options = parser.parse_args()
    for kind in options.kinds:
        loader = (plain_loader if options.plain else torch_loader)(kind, options)
        for epoch in range(options.epochs):
            found = [digest_of(key, data) for batch in loader for key, data in batch]
            whole = hashlib.sha256(b"".join(sorted(found))).hexdigest()
            print(json.dumps({"kind": kind, "epoch": epoch, "samples": len(found), "digest": whole}), flush=True)
        if options.plain:
            loader.close()


if __name__ == "__main__":
    main()
