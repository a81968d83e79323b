"""The files that ops/try and ops/bench upload: the same bytes each time."""

import random

SHARD_BYTES = 110_000_000
_NOISE_BYTES = 16 << 20
_CLASSES = 50


class SampleData:
    """Makes files out of pieces of one random noise, which nothing compresses."""

    def __init__(self):
        self._rng = random.Random(1)
        self._noise = self._rng.randbytes(_NOISE_BYTES)

    def _piece(self, size):
        begin = self._rng.randrange(len(self._noise) - size)
        return self._noise[begin:begin + size]

    def small_files(self, folder, count):
        """Files as in image sets: about 39 KB each in 50 classes."""
        for number in range(count):
            path = folder / f"class{number % _CLASSES:02d}" / f"img{number:05d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._piece(self._rng.randrange(30_000, 48_000)))

    def shards(self, folder, count):
        """Files of 110 MB, as big data sets are packed in."""
        folder.mkdir(parents=True)
        for number in range(count):
            with open(folder / f"shard-{number:04d}.tar", "wb") as shard:
                for _ in range(SHARD_BYTES // 1_000_000):
                    shard.write(self._piece(1_000_000))
