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

    def small_files(self, folder, count, mean=39_000):
        """Files as in image sets, in 50 classes: of `mean` bytes, a quarter more or less."""
        least, most = mean - mean * 3 // 13, mean + mean * 3 // 13
        for number in range(count):
            path = folder / f"class{number % _CLASSES:02d}" / f"img{number:05d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._piece(self._rng.randrange(least, most)))

    def shards(self, folder, count, size=SHARD_BYTES):
        """Files of `size` bytes, as big data sets are packed in."""
        folder.mkdir(parents=True)
        for number in range(count):
            with open(folder / f"shard-{number:04d}.tar", "wb") as shard:
                while rest := size - shard.tell():
                    shard.write(self._piece(min(rest, 1_000_000)))
