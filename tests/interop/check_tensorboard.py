#!/usr/bin/env python3
"""A real TensorBoard reads the event files of `lockstep train --tensorboard`: with its Python
reader, and as a server (with the loader in Python and with the fast one) over HTTP.

usage: check_tensorboard.py LOCKSTEP [DATA]    (DATA is not needed)"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

STEPS = 20
# Field of --json, tag of the scalar whose last value it is.
PAIRS = [("loss", "eval/loss"), ("accuracy", "eval/accuracy"),
         ("accuracy_top_5", "eval/accuracy_top_5"), ("train_loss", "train/loss"),
         ("train_accuracy", "train/accuracy"), ("auc", "eval/auc"), ("log_loss", "eval/log_loss")]
PARTS = ["total", "input", "forward", "backward", "reduce", "update"]


def train(program, directory, words):
    """The JSON of a run whose events and weights are in `directory`."""
    result = subprocess.run(
        [program, "train", *words, "--threads", "2", "--steps", str(STEPS), "--quiet",
         "--tensorboard", directory, "--tensorboard-histograms", "10",
         "--output-dir", os.path.join(directory, "weights"), "--json", "-"],
        check=True, capture_output=True, timeout=300)
    return json.loads(result.stdout)


def read_weights(directory):
    """The arrays of a safetensors file."""
    with open(os.path.join(directory, "weights", "weights.safetensors"), "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], np.float32)
            for name, entry in header.items() if name != "__metadata__"}


def same(scalar, number):
    """The nearest float32. The mean of two of them is often as near to two, and `number`, written with 15
    digits, does not tell which way it was rounded."""
    return abs(number - scalar) <= float(np.spacing(np.float32(abs(scalar)))) / 2 * (1 + 1e-6)


def check_reader(directory, results):
    reader = EventAccumulator(directory, size_guidance={"scalars": 0, "histograms": 0})
    reader.Reload()
    tags = reader.Tags()["scalars"]
    for field, tag in PAIRS:
        if results[field] is None:
            assert tag not in tags, tag
            continue
        last = reader.Scalars(tag)[-1]
        assert last.step == STEPS and same(last.value, results[field]), (field, last, results[field])
    losses = reader.Scalars("train/loss")
    assert losses[0].step == 1 and losses[-1].step == STEPS, losses
    assert abs(losses[-1].wall_time - time.time()) < 600, losses[-1]
    assert "learning_rate" in tags and "examples_per_second" in tags, tags
    for at, total in enumerate(reader.Scalars("step_seconds/total")):
        parts = sum(reader.Scalars(f"step_seconds/{part}")[at].value for part in PARTS[1:])
        assert abs(parts - total.value) < 1e-3 * total.value, (parts, total)


def check_histograms(directory):
    """Those after the last step are what TensorFlow itself makes of the weights."""
    reader = EventAccumulator(directory, size_guidance={"histograms": 0})
    reader.Reload()
    weights = read_weights(directory)
    assert set(reader.Tags()["histograms"]) == set(weights), reader.Tags()["histograms"]
    for name, values in weights.items():
        ours = reader.Histograms(name)
        assert [each.step for each in ours] == [0, STEPS // 2, STEPS], (name, ours)
        summary = tf.compat.v1.Summary.FromString(
            tf.raw_ops.HistogramSummary(tag=name, values=values).numpy())
        theirs, mine = summary.value[0].histo, ours[-1].histogram_value
        assert list(theirs.bucket_limit) == list(mine.bucket_limit), name
        assert list(theirs.bucket) == list(mine.bucket), name
        assert (theirs.min, theirs.max, theirs.num) == (mine.min, mine.max, mine.num), name
        assert np.isclose(theirs.sum, mine.sum, rtol=1e-9, atol=1e-9), name
        assert np.isclose(theirs.sum_squares, mine.sum_squares, rtol=1e-9), name


class Server:
    """`tensorboard --logdir` on a port that it chose itself."""

    def __init__(self, directory, *words):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", directory, "--port", "0",
             "--host", "127.0.0.1", "--reload_interval", "1", *words],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.address = None
        for line in self.process.stderr:
            found = re.search(r"TensorBoard .* at (http://\S+?)/? ", line)
            if found:
                self.address = found.group(1)
                break
        assert self.address, "TensorBoard said no address"

    def get(self, path, **query):
        address = f"{self.address}/data/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=30) as reply:
            return reply.read().decode()

    def wait(self, path):
        """JSON that is not empty: the server loads in the background."""
        end = time.time() + 60
        while time.time() < end:
            found = json.loads(self.get(path))
            if found:
                return found
            time.sleep(0.3)
        raise AssertionError(f"nothing at {path}")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.process.stderr.close()


def check_server(directory, results, *words):
    server = Server(directory, *words)
    try:
        run, = server.wait("plugin/scalars/tags")
        end = time.time() + 60
        while time.time() < end:  # until the last record is loaded, too
            if "eval/loss" in server.wait("plugin/scalars/tags")[run]:
                break
            time.sleep(0.3)
        for field, tag in PAIRS:
            if results[field] is None:
                continue
            points = json.loads(server.get("plugin/scalars/scalars", run=run, tag=tag))
            assert points[-1][1] == STEPS and same(points[-1][2], results[field]), (tag, points[-1])
        assert server.wait("plugin/graphs/info")[run]["run_graph"]
        graph = server.get("plugin/graphs/graph", run=run)
        for text in ('name: "conv2d/weights"', 'op: "conv2d"', 'input: "conv2d/weights"',
                     '"_output_shapes"', 'op: "Placeholder"'):
            assert text in graph, text
        tags = server.wait("plugin/histograms/tags")[run]
        assert set(tags) == set(read_weights(directory)), tags
        points = json.loads(server.get("plugin/histograms/histograms", run=run,
                                       tag="conv2d/weights"))
        count = len(read_weights(directory)["conv2d/weights"])
        assert [point[1] for point in points] == [0, STEPS // 2, STEPS], points
        assert abs(sum(bucket[2] for bucket in points[-1][2]) - count) < 0.5, count
    finally:
        server.stop()


def check_second_run(program, directory):
    """A run into the same directory: TensorBoard shows the new one, not a mixture."""
    results = train(program, directory, ["mnist_custom", "--examples", "640", "--seed", "2"])
    check_reader(directory, results)
    reader = EventAccumulator(directory, size_guidance={"scalars": 0})
    reader.Reload()
    steps = [event.step for event in reader.Scalars("eval/loss")]
    assert steps == [STEPS], steps


def main():
    program = os.path.abspath(sys.argv[1])
    passed = failed = 0

    def attempt(what, check, *words):
        nonlocal passed, failed
        try:
            check(*words)
            print("ok   ", what)
            passed += 1
        except Exception as error:  # whatever went wrong, the other checks still count
            print("FAIL ", what, repr(error)[:400])
            failed += 1

    with tempfile.TemporaryDirectory() as work:
        pictures, clicks = os.path.join(work, "pictures"), os.path.join(work, "clicks")
        results = train(program, pictures, ["mnist_custom", "--examples", "640"])
        binary = train(program, clicks, ["wide_deep", "--data", "synthetic", "--eval-data",
                                         "synthetic", "--examples", "640", "--embedding-rows",
                                         "100", "--batch-size", "32"])
        assert binary["auc"] is not None and results["auc"] is None
        attempt("TensorBoard reads scalars with the values of --json", check_reader, pictures,
                results)
        attempt("and those of a yes-or-no network", check_reader, clicks, binary)
        attempt("histograms are those that TensorFlow makes", check_histograms, pictures)
        attempt("a server shows scalars, graph and histograms", check_server, pictures, results)
        attempt("with its loader in Python, too", check_server, pictures, results,
                "--load_fast=false")
        attempt("a second run in the same directory replaces the first", check_second_run,
                program, pictures)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
