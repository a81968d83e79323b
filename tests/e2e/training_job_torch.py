"""The loaders of training_job.py by PyTorch, as its documents have them."""

import inspect
import pathlib

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, get_worker_info
from training_job import BATCH, PATIENCE_SECONDS, Files, Rows, Tars


class Tensors(Dataset):
    """Samples as tensors: they come from the workers in shared memory."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        key, value = self.data[i]
        return key, torch.from_numpy(value.copy())


class Stream(IterableDataset):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        here = get_worker_info()
        for key, value in self.data.samples(here.id if here else 0, here.num_workers if here else 1):
            yield key, torch.from_numpy(value.copy())


class Loader:
    """A DataLoader's batches as lists of (key, bytes); the sampler hears of each epoch."""

    def __init__(self, data, sampler, options, collate=list):
        how = {"multiprocessing_context": options.method, "persistent_workers": options.persistent,
               "timeout": PATIENCE_SECONDS} if options.workers else {}
        self.loader = DataLoader(data, BATCH, sampler=sampler, num_workers=options.workers, collate_fn=collate, **how)
        self.sampler, self.epoch = sampler, 0

    def __iter__(self):
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(self.epoch)
        self.epoch += 1
        for batch in self.loader:
            yield [(int(key) if isinstance(key, torch.Tensor) else key, value.numpy().tobytes()) for key, value in batch]


class Images(Loader):
    """ImageFolder's, with the collation that is DataLoader's own: a tensor of images and one of labels."""

    def __iter__(self):
        for images, labels in self.loader:
            yield [(int(label), image.numpy().tobytes()) for image, label in zip(images, labels, strict=True)]


class Saved:
    """What torch.save wrote, loaded anew for each epoch: mapped where this PyTorch can."""

    def __init__(self, root):
        self.path = str(pathlib.Path(root, "saved.pt"))

    def __iter__(self):
        mapped = {"mmap": True} if "mmap" in inspect.signature(torch.load).parameters else {}  # from PyTorch 2.1 on
        saved = torch.load(self.path, map_location="cpu", **mapped)
        yield [(name, value.numpy().tobytes()) for name, value in saved.items()]


def sampler_of(data, options):
    return DistributedSampler(data, options.ranks, options.rank) if options.ranks > 1 else RandomSampler(data)


def loader(kind, options):
    if kind == "saved":
        return Saved(options.root)
    if kind == "tars":
        return Loader(Stream(Tars(options.root)), None, options)
    if kind == "images":
        from torchvision import datasets, transforms  # pylint: disable=import-outside-toplevel
        images = datasets.ImageFolder(str(pathlib.Path(options.root, "images")), transforms.PILToTensor())
        return Images(images, RandomSampler(images), options, collate=None)
    data = Tensors({"files": Files, "mapped": Rows}[kind](options.root))
    return Loader(data, sampler_of(data, options), options)


def save(path):
    """For `saved`."""
    generator = torch.Generator().manual_seed(7)
    torch.save({"weights": torch.rand(1_500_000, generator=generator), "bias": torch.ones(10)}, path)


def save_images(folder):
    """For `images`; two classes."""
    from PIL import Image  # pylint: disable=import-outside-toplevel
    rng = np.random.default_rng(8)
    for i in range(40):
        path = pathlib.Path(folder, f"class{i % 2}", f"{i:03d}.jpg")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
