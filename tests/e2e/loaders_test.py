#!/usr/bin/python3
"""Training scripts read as PyTorch's DataLoader does, without PyTorch: worker processes that are forked or spawned, files,
mappings and streams of tar files. torch_test.py has the same with PyTorch."""

from e2e import main
from training import TrainingTest


class Loaders(TrainingTest):
    LOADER = ("--plain",)

    def test_workers_of_every_kind_read_every_byte_and_s3_is_read_once(self):
        self.check(("files", "mapped", "tars"), (
            (), ("--workers", "2"), ("--workers", "2", "--persistent"), ("--workers", "2", "--method", "spawn"),
            ("--workers", "2", "--method", "spawn", "--persistent"), ("--workers", "16")))

    def test_two_processes_share_an_epoch(self):
        self.check_ranks("--workers", 2)


if __name__ == "__main__":
    main()
