"""Compares fingerprint64 with a real TensorFlow on random strings. The library hides internal
names, so the source is compiled here."""
import ctypes
import os
import random
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COUNT = 100_000
BUCKETS = [2**63 - 1, 1000, 10_000, 7]


def load():
    directory = tempfile.mkdtemp()
    path = os.path.join(directory, "fingerprint.so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", os.path.join(ROOT, "src"), "-o", path,
                    os.path.join(ROOT, "src/data/fingerprint.c")], check=True)
    function = ctypes.CDLL(path).fingerprint64
    function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    return function


def main():
    fingerprint = load()
    draw = random.Random(1)
    texts = [draw.randbytes(draw.randint(0, 300)) for _ in range(COUNT)]
    ours = [fingerprint(text, len(text)) for text in texts]
    failed = 0
    for buckets in BUCKETS:
        theirs = tf.strings.to_hash_bucket_fast(tf.constant(texts), buckets).numpy()
        wrong = sum(mine % buckets != int(his) for mine, his in zip(ours, theirs))
        print(f"{buckets} buckets: {wrong} of {COUNT} strings differ")
        failed += wrong > 0
    print(f"{len(BUCKETS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
