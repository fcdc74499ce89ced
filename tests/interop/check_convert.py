#!/usr/bin/env python3
"""A real TensorFlow reads what `lockstep data convert` wrote.

check_convert.py LOCKSTEP DATA: converts some class folders of DATA/imagenette and compares every
record with the file it came from: all 15 features with their types, bytes that were copied, sizes
as TensorFlow decodes them, labels by sorted class names. Then once more packed and resized.
"""
import collections
import glob
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf

FEATURES = {
    "image/height": tf.io.FixedLenFeature([], tf.int64),
    "image/width": tf.io.FixedLenFeature([], tf.int64),
    "image/colorspace": tf.io.FixedLenFeature([], tf.string),
    "image/channels": tf.io.FixedLenFeature([], tf.int64),
    "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    "image/class/synset": tf.io.FixedLenFeature([], tf.string),
    "image/class/text": tf.io.FixedLenFeature([], tf.string),
    "image/object/bbox/xmin": tf.io.VarLenFeature(tf.float32),
    "image/object/bbox/xmax": tf.io.VarLenFeature(tf.float32),
    "image/object/bbox/ymin": tf.io.VarLenFeature(tf.float32),
    "image/object/bbox/ymax": tf.io.VarLenFeature(tf.float32),
    "image/object/bbox/label": tf.io.VarLenFeature(tf.int64),
    "image/format": tf.io.FixedLenFeature([], tf.string),
    "image/filename": tf.io.FixedLenFeature([], tf.string),
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
}


CLASSES = 3


def some_folders(source, target):
    """Links to the pictures of the first few classes."""
    for split in ("train", "val"):
        for synset in sorted(os.listdir(os.path.join(source, split)))[:CLASSES]:
            os.makedirs(os.path.join(target, split, synset))
            for path in glob.glob(os.path.join(source, split, synset, "*")):
                os.symlink(os.path.abspath(path),
                           os.path.join(target, split, synset, os.path.basename(path)))


def convert(lockstep, source, target, *options):
    subprocess.run([lockstep, "data", "convert", source, target, *options], check=True,
                   stdout=subprocess.DEVNULL)


def records(target, split, packing=""):
    """Every record of a split, parsed; fails when one has other features than those above."""
    shards = sorted(glob.glob(os.path.join(target, split + "-*-of-*")))
    assert shards, "no shards in " + target
    for raw in tf.data.TFRecordDataset(shards, compression_type=packing):
        example = tf.train.Example.FromString(raw.numpy())
        names = set(example.features.feature)
        assert names == set(FEATURES), names ^ set(FEATURES)
        yield tf.io.parse_single_example(raw, FEATURES)


def check_copies(source, target, split, folder, boxes):
    """Each file of the split is in exactly one record, unchanged."""
    paths = glob.glob(os.path.join(source, folder, "*", "*"))
    files = {os.path.basename(path): path for path in paths}
    classes = sorted(os.listdir(os.path.join(source, "train")))
    seen = collections.Counter()
    for record in records(target, split):
        name = record["image/filename"].numpy().decode()
        seen[name] += 1
        with open(files[name], "rb") as file:
            encoded = file.read()
        assert record["image/encoded"].numpy() == encoded, name
        pixels = tf.io.decode_jpeg(encoded, channels=3)
        assert pixels.shape[0] == record["image/height"].numpy(), name
        assert pixels.shape[1] == record["image/width"].numpy(), name
        synset = os.path.basename(os.path.dirname(files[name]))
        assert record["image/class/synset"].numpy().decode() == synset, name
        assert record["image/class/label"].numpy() == classes.index(synset) + 1, name
        assert record["image/class/text"].numpy().decode() == "called " + synset, name
        assert record["image/colorspace"].numpy() == b"RGB"
        assert record["image/channels"].numpy() == 3
        assert record["image/format"].numpy() == b"JPEG"
        expected = boxes.get(name, [])
        for part, side in enumerate(("xmin", "ymin", "xmax", "ymax")):
            got = record["image/object/bbox/" + side].values.numpy().tolist()
            assert len(got) == len(expected), name
            assert all(abs(a - b[part]) < 1e-6 for a, b in zip(got, expected)), name
        labels = record["image/object/bbox/label"].values.numpy().tolist()
        assert labels == [classes.index(synset) + 1] * len(expected), name
    assert set(seen) == set(files) and set(seen.values()) == {1}
    return len(seen)


def check_small(target, split, packing, side):
    count = 0
    for record in records(target, split, packing):
        pixels = tf.io.decode_jpeg(record["image/encoded"], channels=3)
        assert min(pixels.shape[:2]) <= side
        assert pixels.shape[0] == record["image/height"].numpy()
        assert pixels.shape[1] == record["image/width"].numpy()
        count += 1
    return count


def check(lockstep, source, work):
    """Returns how many records were compared."""
    train = sorted(glob.glob(os.path.join(source, "train", "*", "*")))
    names, boxes = os.path.join(work, "names"), os.path.join(work, "boxes")
    with open(names, "w") as file:
        for synset in os.listdir(os.path.join(source, "train")):
            file.write(f"{synset}\tcalled {synset}\n")
    known = {os.path.basename(train[0]): [(0.1, 0.2, 0.5, 0.75), (0, 0, 1, 1)],
             os.path.basename(train[-1]): [(0.25, 0.25, 0.3, 0.9)]}
    with open(boxes, "w") as file:
        for name, rows in known.items():
            for row in rows:
                file.write(",".join([name, *map(str, row)]) + "\n")
    plain = os.path.join(work, "plain")
    convert(lockstep, source, plain, "--names", names, "--boxes", boxes)
    counts = [check_copies(source, plain, "train", "train", known),
              check_copies(source, plain, "validation", "val", known)]
    for packing in ("gzip", "zlib"):
        packed = os.path.join(work, packing)
        convert(lockstep, source, packed, "--packing", packing, "--resize", "64")
        counts.append(check_small(packed, "train", packing.upper(), 64))
    print(f"records compared: {counts[0]} training, {counts[1]} validation, {counts[2]} in gzip "
          f"and {counts[3]} in zlib files, resized")
    return len(counts)


def main():
    lockstep, data = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as work:
        source = os.path.join(work, "pictures")
        some_folders(os.path.join(data, "imagenette"), source)
        print(check(lockstep, source, work), "passed, 0 failed")


main()
