#!/usr/bin/python3
"""Reads our weights with a dozen lines of numpy, and lets us read what numpy wrote.

usage: weights_check.py COPY_WEIGHTS; the last line is "N passed, N failed"."""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy


def load(path):
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data, "<f4", offset=entry["data_offsets"][0],
                                   count=int(numpy.prod(entry["shape"]))).reshape(entry["shape"])
            for name, entry in header.items()}


def save(path, tensors):
    """Without padding, and in another order: both are allowed."""
    header, data, used = {}, [], 0
    for name in sorted(tensors, reverse=True):
        numbers = tensors[name].astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape),
                        "data_offsets": [used, used + len(numbers)]}
        data.append(numbers)
        used += len(numbers)
    text = json.dumps(header).encode()
    text += b" " * ((1 - len(text)) % 4)        # never aligned for floats
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def check(program, model, directory):
    ours, theirs, copied = (os.path.join(directory, name) for name in ("ours", "theirs", "copied"))
    subprocess.run([program, model, ours], check=True)
    tensors = load(ours)
    assert all(numpy.isfinite(tensor).all() for tensor in tensors.values())
    assert any(tensor.ndim == 4 and tensor.std() > 0 for tensor in tensors.values())
    generator = numpy.random.RandomState(1)
    changed = {name: generator.standard_normal(tensor.shape).astype("<f4")
               for name, tensor in tensors.items()}
    save(theirs, changed)
    subprocess.run([program, model, copied, theirs], check=True)
    back = load(copied)
    assert set(back) == set(changed)
    for name in changed:
        assert (back[name] == changed[name]).all(), name
    return len(tensors)


def main():
    failed = 0
    models = ("mnist_custom", "mnist_keras", "resnet50")
    for model in models:
        with tempfile.TemporaryDirectory() as directory:
            try:
                print(f"ok    {model}: {check(sys.argv[1], model, directory)} tensors")
            except (AssertionError, OSError, ValueError, subprocess.CalledProcessError) as error:
                print(f"FAIL  {model}: {error!r}")
                failed += 1
    print(f"{len(models) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
