#!/usr/bin/env python3
"""A real TensorFlow reads the TFRecords and tf.Examples that we write, plain, GZIP and ZLIB.

usage: check_tfrecord.py WRITE_RECORDS [DATA]    (DATA is not needed)
The program is built from write_records.c, which says what is in the records."""
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import numpy as np
import tensorflow as tf

RECORDS, LARGE = 100, 70000
LARGE_BYTES = bytes(i * 7 % 251 for i in range(LARGE))
FEATURES = {
    "integers": tf.io.FixedLenFeature([4], tf.int64),
    "floats": tf.io.FixedLenFeature([3], tf.float32),
    "text": tf.io.FixedLenFeature([], tf.string),
    "large": tf.io.FixedLenFeature([], tf.string),
    "none": tf.io.VarLenFeature(tf.float32),
}


def check_record(i, message):
    got = tf.io.parse_single_example(message, FEATURES)
    assert list(got["integers"].numpy()) == [i, -i, -2**63, 2**63 - 1], got["integers"]
    expected = np.array([np.float32(i) / np.float32(3), -0.0, np.inf], np.float32)
    assert got["floats"].numpy().tobytes() == expected.tobytes(), got["floats"]
    assert got["text"].numpy() == b"record %d" % i, got["text"]
    assert got["large"].numpy() == LARGE_BYTES[:LARGE // RECORDS * i], i
    assert got["none"].values.shape == (0,)
    # Our bytes are the canonical ones: protobuf writes the same lengths and packed lists.
    example = tf.train.Example.FromString(message.numpy())
    assert len(example.SerializeToString()) == len(message.numpy()), i


def check(program, packing):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "records")
        subprocess.run([program, path, packing], check=True)
        compression = "" if packing == "plain" else packing.upper()
        messages = list(tf.data.TFRecordDataset(path, compression_type=compression))
    assert len(messages) == RECORDS, len(messages)
    for i, message in enumerate(messages):
        check_record(i, message)


def main():
    failed = 0
    for packing in ("plain", "gzip", "zlib"):
        try:
            check(sys.argv[1], packing)
            print("ok    TensorFlow reads our TFRecords,", packing)
        except (AssertionError, subprocess.CalledProcessError, tf.errors.OpError) as error:
            print("FAIL  TFRecords,", packing, repr(error)[:300])
            failed += 1
    print(f"{3 - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
