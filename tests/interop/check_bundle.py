#!/usr/bin/env python3
"""A real TensorFlow reads the tensor bundles that we write, and we read those that it writes.

usage: check_bundle.py BUNDLE_TOOL [DATA]    (DATA/tf-made has bundles of an older TensorFlow)
The program is built from bundle_tool.c, which says what is in ours."""
import glob
import os
import subprocess
import sys
import tempfile
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import numpy as np
import tensorflow as tf

PROGRAM, DATA = sys.argv[1], (sys.argv + [""])[2]
TINY = 4000


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, **options).stdout


def tiny_name(i):
    return (f"{i * 2654435761 % 2**32:08x}/block_{i}/a_rather_long_name_for_a_small_thing/"
            "of_which_hardly_anything_is_shared/v")


def expected_of_ours():
    """What bundle_tool.c writes, in its order."""
    large = np.arange(11 * 454546, dtype=np.float32) / np.float32(3)
    octets = np.arange(256, dtype=np.uint8)
    tensors = {
        "z/large": large.reshape(11, -1),
        "bytes": octets[:256].reshape(2, 2, 2, 2, 2, 8),
        "layer/integers": np.array([[-2**31, -1, 0], [1, 2**31 - 1, 7]], np.int32),
        "layer/odd": np.array([0x7fc00001, 0xff800000, 0x80000000, 1], np.uint32).view(np.float32),
        "layer": large[1],
        "empty": np.zeros((3, 0, 2), np.float32),
        "strings": np.array([b"", b"a\0b", b"long enough"], object),
        'gr\u00fcn "q"': octets[9:10],
    }
    for i in range(TINY):
        tensors[tiny_name(i)] = np.int64(i**3 * (-1 if i % 2 else 1))
    return tensors


def as_array(value):
    # As a plain bytes array a string would lose the zeros at its end.
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)


def assert_same(name, got, expected):
    got, expected = as_array(got), as_array(expected)
    assert got.dtype == expected.dtype and got.shape == expected.shape, (name, got, expected)
    if expected.dtype == object:
        assert list(got.flat) == list(expected.flat), (name, got, expected)
    else:
        assert got.tobytes() == expected.tobytes(), name


def tensorflow_reads_ours(directory):
    prefix = os.path.join(directory, "ours")
    run("write", prefix)
    expected = expected_of_ours()
    shapes = dict(tf.train.list_variables(prefix))
    assert set(shapes) == set(expected), set(shapes) ^ set(expected)
    reader = tf.train.load_checkpoint(prefix)
    for name, value in expected.items():
        assert shapes[name] == list(value.shape), name
        assert_same(name, reader.get_tensor(name), value)
    dtypes = [tf.as_dtype(value.dtype if value.dtype != object else tf.string)
              for value in expected.values()]
    restored = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=list(expected),
                                    shape_and_slices=[""] * len(expected), dtypes=dtypes)
    for (name, value), got in zip(expected.items(), restored):
        assert_same(name, got.numpy(), value)


def ours_are_the_bytes_of_tensorflow(directory):
    theirs, ours = os.path.join(directory, "theirs"), os.path.join(directory, "ours")
    save(theirs, expected_of_ours())
    run("copy", theirs, ours)
    for ending in ("index", "data-00000-of-00001"):
        with open(f"{theirs}.{ending}", "rb") as a, open(f"{ours}.{ending}", "rb") as b:
            assert a.read() == b.read(), ending


def save(prefix, tensors, slices=None):
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=list(tensors),
                      shape_and_slices=slices or [""] * len(tensors),
                      tensors=[tf.constant(value) if value.dtype != object else
                               tf.constant(list(value.flat), shape=value.shape)
                               for value in tensors.values()])


def ours_of(prefix, name, dtype, shape):
    raw = run("read", prefix, name)
    if dtype != tf.string:
        return np.frombuffer(raw, dtype.as_numpy_dtype).reshape(shape)
    values = []
    while raw:
        length, raw = raw.split(b":", 1)
        values.append(raw[:int(length)])
        raw = raw[int(length):]
    return np.array(values + [None], object)[:-1].reshape(shape)


def compare_with_reader(prefix):
    """All that both can read is the same; returns how many tensors that was."""
    reader = tf.train.load_checkpoint(prefix)
    dtypes, shapes = reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()
    lines = [line.split("\t") for line in run("list", prefix).decode().splitlines()]
    assert {line[0] for line in lines} == set(dtypes), lines
    compared = 0
    for name, dtype, *shape in lines:
        if not shape:
            continue
        assert tf.as_dtype(dtype) == dtypes[name] and shape == [str(shapes[name])], name
        assert_same(name, ours_of(prefix, name, dtypes[name], shapes[name]),
                    reader.get_tensor(name))
        compared += 1
    return compared


def we_read_what_savev2_wrote(directory):
    prefix = os.path.join(directory, "savev2")
    random = np.random.default_rng(1)
    tensors = {
        "floats": random.normal(size=(3, 5, 7)).astype(np.float32),
        "scalar": np.float32(-0.0),
        "i32": random.integers(-2**31, 2**31, (11,), np.int32),
        "i64": random.integers(-2**63, 2**63, (2, 1, 3), np.int64),
        "u8": random.integers(0, 256, (1, 2, 3, 4, 5, 6), np.uint8),
        "large": random.normal(size=(3_000_001,)).astype(np.float32),
        "empty": np.zeros((0, 4), np.float32),
        "strings": np.array([[b"a", b""], [b"\0" * 300, b"x:1"]], object),
        "half": np.ones(3, np.float16), "double": np.ones(3), "flag": np.array([True]),
        "complex": np.ones(2, np.complex64),
    }
    for i in range(3000):
        tensors[tiny_name(i)] = np.float32(i)
    save(prefix, tensors)
    assert compare_with_reader(prefix) == len(tensors) - 4


def we_read_what_a_checkpoint_object_wrote(directory):
    model = tf.Module()
    model.kernel = tf.Variable(tf.random.normal([20, 30]), name="kernel")
    model.steps = tf.Variable(7, dtype=tf.int64)
    model.layers = [tf.Variable(tf.random.normal([i, 3])) for i in range(5)]
    path = tf.train.Checkpoint(model=model).save(os.path.join(directory, "object"))
    assert compare_with_reader(path) >= 9


def slices_are_listed_but_not_read(directory):
    prefix = os.path.join(directory, "slices")
    save(prefix, {"whole": np.ones((2, 3), np.float32), "plain": np.ones(2, np.float32)},
         ["4 3 0,2:-", ""])
    lines = run("list", prefix).decode().splitlines()
    assert lines == ["plain\tfloat32\t[2]",
                     "whole\tit is kept in slices, as a partitioned variable"], lines


def we_read_several_data_files(directory):
    parts = [os.path.join(directory, f"part{i}") for i in range(3)]
    for i, part in enumerate(parts):
        save(part, {f"part{i}/{j}": np.full((i + 1, j), i * 10 + j, np.float32)
                    for j in range(4)})
    merged = os.path.join(directory, "merged")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=merged)
    assert len(glob.glob(merged + ".data-*-of-00003")) == 3
    assert compare_with_reader(merged) == 12


def we_read_older_bundles(directory):
    found = glob.glob(os.path.join(DATA, "tf-made", "**", "*.index"), recursive=True)
    if not found:
        print("      (none in", DATA or "DATA", "- nothing was compared)")
    for path in found:
        assert compare_with_reader(path[:-len(".index")]) > 0, path


def tensorflow_finds_the_newest(directory):
    for newest in ("model.ckpt-30", 'step "3"\' gr\u00fcn\n/bundle'):
        prefix = os.path.join(directory, newest)
        os.makedirs(os.path.dirname(prefix), exist_ok=True)
        save(prefix, {"x": np.ones(1, np.float32)})
        run("state", directory, "back\\slash", newest)
        assert tf.train.latest_checkpoint(directory) == prefix
        state = tf.train.get_checkpoint_state(directory)
        assert list(state.all_model_checkpoint_paths) == [
            os.path.join(directory, name) for name in ("back\\slash", newest)]


CHECKS = [tensorflow_reads_ours, ours_are_the_bytes_of_tensorflow, we_read_what_savev2_wrote,
          we_read_what_a_checkpoint_object_wrote, slices_are_listed_but_not_read,
          we_read_several_data_files, we_read_older_bundles, tensorflow_finds_the_newest]


def main():
    failed = 0
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory() as directory:
            try:
                check(directory)
                print("ok   ", name)
            except subprocess.CalledProcessError as error:
                print("FAIL ", name, error.stderr.decode()[-500:])
                failed += 1
            except (AssertionError, tf.errors.OpError, ValueError, KeyError):
                print("FAIL ", name, traceback.format_exc()[-1000:])
                failed += 1
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
