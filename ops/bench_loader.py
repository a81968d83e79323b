#!/usr/bin/python3
"""A training job that only loads: what the loaders of ops/bench epochs and scale run.

  ops/bench_loader.py files  LIST ROOT   each file is a sample, in a random order, as a map-style data set has it
  ops/bench_loader.py shards LIST ROOT   shards in a random order, each read from front to back, cut into samples

Says what it loads with, in one line of JSON; then reads an epoch for each line of standard input, the seed of its order, and
says in one line what it cost. One process has all epochs, as in a training: PyTorch is 300 MB to load.
Samples come in batches out of 0 to 16 worker processes, as PyTorch's DataLoader has them: with torch, where it is installed,
else with the same division of work in plain Python (worker I of N makes the batches I, I+N, ...; each has two waiting).
Nothing is decoded and no model is trained: what is left is the loading."""

import argparse
import json
import multiprocessing
import os
import pathlib
import queue as queues_of
import random
import resource
import sys
import time

AHEAD = 2  # batches that a worker has ready; DataLoader's prefetch_factor


def read_file(path):
    """A sample; its length stands for it, as decoding would use up the bytes in the worker."""
    with open(path, "rb") as file:
        return len(file.read())


def samples_of(shard, sample_bytes):
    with open(shard, "rb") as file:
        while piece := file.read(sample_bytes):
            yield len(piece)


def batches_of(samples, size):
    batch = []
    for sample in samples:
        batch.append(sample)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


class Work:
    """The epoch, and which part of it worker `index` of `count` does."""

    def __init__(self, options, seed):
        self.options = options
        self.paths = [os.path.join(options.root, line) for line in options.list.read_text().splitlines()]
        random.Random(seed).shuffle(self.paths)

    def batches(self, index, count):
        size = self.options.batch
        if self.options.kind == "shards":
            shards = self.paths[index::count]
            yield from batches_of((sample for path in shards for sample in samples_of(path, self.options.sample_bytes)), size)
            return
        for begin in range(index * size, len(self.paths), count * size):
            yield [read_file(path) for path in self.paths[begin:begin + size]]


def put_batches(work, index, count, queue):
    try:
        for batch in work.batches(index, count):
            queue.put(batch)
        queue.put(None)
    except OSError as error:
        queue.put(str(error))


def plain(work):
    """Batches in the order in which DataLoader gives them: one of each worker by turns."""
    count = work.options.workers
    if count == 0:
        yield from work.batches(0, 1)
        return
    queues = [multiprocessing.Queue(AHEAD) for _ in range(count)]
    workers = [multiprocessing.Process(target=put_batches, args=(work, index, count, queue), daemon=True)
               for index, queue in enumerate(queues)]
    for worker in workers:
        worker.start()
    left = list(queues)
    while left:
        for queue in list(left):
            try:
                batch = queue.get(timeout=work.options.timeout)
            except queues_of.Empty as error:
                raise OSError(f"no batch came within {work.options.timeout} s") from error
            if isinstance(batch, str):
                raise OSError(batch)
            if batch is None:
                left.remove(queue)
            else:
                yield batch
    for worker in workers:
        worker.join()


def with_torch(torch, work):
    class Files(torch.utils.data.Dataset):
        def __len__(self):
            return len(work.paths)

        def __getitem__(self, place):
            return read_file(work.paths[place])

    class Batches(torch.utils.data.IterableDataset):
        def __iter__(self):
            here = torch.utils.data.get_worker_info()
            return work.batches(here.id, here.num_workers) if here else work.batches(0, 1)

    how = {"num_workers": work.options.workers, "collate_fn": list, "timeout": work.options.timeout if work.options.workers else 0}
    if work.options.workers:
        how["prefetch_factor"] = AHEAD
    files = work.options.kind == "files"
    yield from torch.utils.data.DataLoader(Files() if files else Batches(), work.options.batch if files else None, **how)


def cpu_seconds():
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF,
                                                                                  resource.RUSAGE_CHILDREN)))


def epoch(batches, options, seed):
    cpu, begin = cpu_seconds(), time.monotonic()
    first = None
    samples = total = 0
    for batch in batches(Work(options, seed)):
        first = first or time.monotonic() - begin
        samples += len(batch)
        total += sum(batch)
    seconds = time.monotonic() - begin
    return {"samples": samples, "bytes": total, "seconds": seconds, "first_batch_seconds": first,
            "samples_per_second": samples / seconds, "gb_per_second": total / seconds / 1e9,
            "cpu_seconds": cpu_seconds() - cpu}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("files", "shards"))
    parser.add_argument("list", type=pathlib.Path, help="paths below ROOT, one a line")
    parser.add_argument("root")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batch", type=int, default=32, help="samples in one; default 32")
    parser.add_argument("--sample-bytes", type=int, default=115_000, help="shards: of one sample")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a batch may take")
    parser.add_argument("--no-torch", action="store_true", help="plain Python, also where torch is installed")
    options = parser.parse_args()
    try:
        if options.no_torch:
            raise ImportError
        import torch.utils.data  # pylint: disable=import-outside-toplevel
        loader, batches = f"PyTorch {torch.__version__}", lambda work: with_torch(torch, work)
    except ImportError:
        loader, batches = "python", plain

    print(json.dumps({"loader": loader}), flush=True)
    for line in sys.stdin:
        try:
            print(json.dumps(epoch(batches, options, int(line))), flush=True)
        except (OSError, RuntimeError) as error:
            sys.exit(f"bench_loader: {error}")


if __name__ == "__main__":
    main()
