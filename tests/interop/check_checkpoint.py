#!/usr/bin/env python3
"""A real TensorFlow reads every tensor of a checkpoint that a training saved: found by
tf.train.latest_checkpoint, bit by bit what weights.safetensors of the same step holds."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import numpy
import tensorflow as tf

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
passed = failed = 0


def check(good, what):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL: {what}")


def run(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def read_safetensors(path):
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    data = raw[8 + length:]
    return {name: numpy.frombuffer(data[slice(*entry["data_offsets"])], "<f4")
            .reshape(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}


def train(folder, *words):
    run("train", *words, "--checkpoint-dir", folder / "run", "--output-dir", folder / "weights",
        "--quiet")


def compare(folder, step):
    prefix = tf.train.latest_checkpoint(str(folder / "run"))
    check(prefix and prefix.endswith(f"step-{step:012}/model"), f"latest_checkpoint is {prefix}")
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    weights = read_safetensors(folder / "weights/weights.safetensors")
    for name, expected in weights.items():
        check(name in shapes and reader.get_tensor(name).tobytes() == expected.tobytes(),
              f"{name} is not what weights.safetensors has")
    shown = json.loads(run("checkpoint", "show", folder / "run", "--json", "-"))
    for tensor in shown["tensors"]:
        check(list(reader.get_tensor(tensor["name"]).shape) == tensor["shape"],
              f"{tensor['name']}: another shape")
    check(len(shown["tensors"]) == len(shapes), "another number of tensors")
    check(reader.get_tensor("global_step") == step, "global_step")
    return set(shapes) - set(weights) - {"global_step"}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        train(folder / "a", "mnist_custom", "--data", "digits", "--examples", 640, "--steps", 7,
              "--eval-data", "none")
        slots = compare(folder / "a", 7)
        check("optimizer/dense/weights/m" in slots, f"Adam's slots: {sorted(slots)[:3]}")
        train(folder / "b", "resnet50", "--data", "synthetic", "--image-size", 32, "--batch-size",
              4, "--classes", 10, "--steps", 2, "--eval-data", "none")
        compare(folder / "b", 2)
        train(folder / "c", "wide_deep", "--data", "synthetic", "--embedding-rows", 50, "--steps",
              3, "--eval-data", "none")
        slots = compare(folder / "c", 3)
        check(any(name.endswith("/linear") for name in slots), "FTRL's slots")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
