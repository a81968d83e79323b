#!/usr/bin/python3
"""A training script with tf.data, as TensorFlow's guides have it: it knows nothing of Forebay, only a folder.

  training_job_tensorflow.py ROOT KIND… [--parallel N]

files    tf.data over the list of ROOT/files: shuffled, read_file, batched, prefetched
globbed  the same files by Dataset.list_files and a pattern
records  TFRecord files of ROOT/records, interleaved
images   ROOT/images by image_dataset_from_directory
cached   `files` with Dataset.cache(): later epochs read nothing

Prints what training_job.py prints. `save` writes ROOT/records and ROOT/images in place of that."""

import argparse
import hashlib
import json
import pathlib

import tensorflow as tf
from training_job import BATCH, digest_of

IMAGE_PIXELS = 64


def read(path):
    return path, tf.io.read_file(path)


def batches_of(paths, options):
    """Pairs of a path and its bytes, in another order in each epoch."""
    return paths.map(read, num_parallel_calls=options.parallel).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def files(options):
    paths = sorted(str(path) for path in pathlib.Path(options.root, "files").rglob("*") if path.is_file())
    return batches_of(tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)), options)


def globbed(options):
    return batches_of(tf.data.Dataset.list_files(f"{options.root}/files/*/*"), options)


def cached(options):
    return files(options).cache()


def records(options):
    shards = tf.data.Dataset.list_files(f"{options.root}/records/*.tfrecord")
    rows = shards.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=min(options.parallel, 4))
    return rows.map(lambda row: (tf.strings.substr(row, 0, 8), row)).shuffle(64).batch(BATCH).prefetch(tf.data.AUTOTUNE)


def images(options):
    return tf.keras.utils.image_dataset_from_directory(
        str(pathlib.Path(options.root, "images")), labels="inferred", batch_size=BATCH, image_size=(IMAGE_PIXELS, IMAGE_PIXELS),
        verbose=False)


KINDS = {"files": files, "globbed": globbed, "records": records, "images": images, "cached": cached}


def samples(batch, kind, root):
    first, second = (part.numpy() for part in batch)
    if kind == "images":
        return [(int(label), image.tobytes()) for image, label in zip(first, second, strict=True)]
    # Not the folder that it is read from.
    return [(key.decode("latin-1").removeprefix(str(root)), bytes(data)) for key, data in zip(first, second, strict=True)]


def save(root):
    generator = tf.random.Generator.from_seed(9)
    (root / "records").mkdir()
    for shard in range(5):
        with tf.io.TFRecordWriter(str(root / "records" / f"{shard}.tfrecord")) as writer:
            for row in range(30):
                noise = tf.cast(generator.uniform((4000 + row,), 0, 256, tf.int32), tf.uint8).numpy()
                writer.write(f"{shard:03d}{row:05d}".encode() + noise.tobytes())
    for i in range(40):
        path = root / "images" / f"class{i % 2}" / f"{i:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = tf.cast(generator.uniform((IMAGE_PIXELS, IMAGE_PIXELS, 3), 0, 256, tf.int32), tf.uint8)
        path.write_bytes(tf.io.encode_jpeg(noise).numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("kinds", nargs="+", choices=(*KINDS, "save"))
    parser.add_argument("--parallel", type=int, default=tf.data.AUTOTUNE, help="elements that are read at once; else tf.data decides")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    if "save" in options.kinds:
        save(options.root)
        return
    for kind in options.kinds:
        data = KINDS[kind](options)
        for epoch in range(options.epochs):
            found = [digest_of(key, value) for batch in data for key, value in samples(batch, kind, options.root)]
            whole = hashlib.sha256(b"".join(sorted(found))).hexdigest()
            print(json.dumps({"kind": kind, "epoch": epoch, "samples": len(found), "digest": whole}), flush=True)


if __name__ == "__main__":
    main()
