#!/usr/bin/env python3
"""Our decoded and evaluation pixels against a real TensorFlow's, picture by picture.

usage: check_pictures.py DECODE_PICTURES DATA    (DATA has odd-images/ and imagenette/)
The program is built from decode_pictures.c. Decoded bytes must be the same; numbers after resizing
may differ by rounding in single precision."""
import glob
import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import numpy as np
import tensorflow as tf

SIZE = 224
IMAGENETTE = 50
MOST_DIFFERENCE = 255 * 2.0**-22    # of numbers; the sums have three roundings of values below 256
MEANS = np.array([123.68, 116.78, 103.94], np.float32)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, dtype, count):
        array = np.frombuffer(self.data, dtype, count, self.at)
        self.at += array.nbytes
        return array

    def int(self):
        return int(self.take(np.int32, 1)[0])


def ours(program, files):
    out = Reader(subprocess.run([program, str(SIZE), *files], check=True, stdout=subprocess.PIPE).stdout)
    for _ in files:
        if out.int():
            yield None, out.take(np.uint8, out.int()).tobytes().decode()
            continue
        width, height = out.int(), out.int()
        yield (out.take(np.uint8, width * height * 3).reshape(height, width, 3),
               out.take(np.float32, SIZE * SIZE * 3).reshape(SIZE, SIZE, 3))


def theirs(path):
    """As preprocess_image(is_training=False) of TensorFlow's official ResNet."""
    try:
        image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    except tf.errors.InvalidArgumentError as error:
        return None, error.message
    height, width = np.float32(image.shape[0]), np.float32(image.shape[1])
    ratio = np.float32(SIZE * 256 // 224) / np.minimum(height, width)
    new = [int(height * ratio), int(width * ratio)]
    resized = tf.compat.v1.image.resize(image, new, method=tf.image.ResizeMethod.BILINEAR,
                                        align_corners=False)
    top, left = (new[0] - SIZE) // 2, (new[1] - SIZE) // 2
    return image.numpy(), resized.numpy()[top:top + SIZE, left:left + SIZE] - MEANS


def judge(mine, other):
    """'' when they agree, else why not; and the largest and mean difference of the numbers."""
    if mine[0] is None or other[0] is None:
        same = mine[0] is None and other[0] is None
        return "" if same else f"we: {mine[1] if mine[0] is None else 'fine'}; " \
            f"TensorFlow: {other[1] if other[0] is None else 'fine'}", None
    if mine[0].shape != other[0].shape:
        return f"{mine[0].shape} against {other[0].shape}", None
    bytes_off = np.abs(mine[0].astype(int) - other[0].astype(int))
    off = np.abs(mine[1] - other[1])
    why = []
    if bytes_off.any():
        why.append(f"{np.count_nonzero(bytes_off)} bytes differ, by up to {bytes_off.max()}")
    if off.max() > MOST_DIFFERENCE:
        why.append(f"numbers differ by up to {off.max():.3g}")
    return "; ".join(why), (off.max(), off.mean())


def main():
    program, data = sys.argv[1:3]
    folder = os.path.join(data, "imagenette")
    real = sorted(glob.glob(os.path.join(folder, "**", "*.JPEG"), recursive=True))
    files = sorted(glob.glob(os.path.join(data, "odd-images", "*.[jJp][pPn]*")))
    files += real[::max(1, len(real) // IMAGENETTE)][:IMAGENETTE]
    passed = failed = same = 0
    largest, means = 0.0, []
    for path, mine in zip(files, ours(program, files)):
        why, off = judge(mine, theirs(path))
        if why:
            failed += 1
            print(f"FAIL  {os.path.basename(path)}: {why}")
            continue
        passed += 1
        if off:
            same += off[0] == 0
            largest = max(largest, off[0])
            means.append(off[1])
    print(f"numbers after evaluation: {same} of {len(means)} pictures bitwise the same, largest "
          f"difference {largest:.3g}, mean {np.mean(means):.3g}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
