#!/usr/bin/env python3
"""Runs a model.onnx in this process, as fast as onnxruntime can: all graph optimizations, as many
threads as it is given, one operator at a time. Prints one JSON object."""

import argparse
import json
import statistics
import time

import numpy
import onnxruntime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--input", help="a .npy file; random pictures without it")
    parser.add_argument("--output", help="where the first answer goes, as plain floats")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    settings = onnxruntime.SessionOptions()
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    settings.intra_op_num_threads = options.threads
    settings.inter_op_num_threads = 1
    settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    session = onnxruntime.InferenceSession(options.model, settings,
                                           providers=["CPUExecutionProvider"])
    taken = session.get_inputs()[0]
    if options.input:
        pictures = numpy.load(options.input)
    else:
        shape = [options.batch] + [int(size) for size in taken.shape[1:]]
        pictures = numpy.random.default_rng(options.seed).standard_normal(shape, numpy.float32)
    feed = {taken.name: pictures}
    answer = session.run(None, feed)[0]
    if options.output:
        answer.tofile(options.output)
    times = []
    for number in range(options.warmup + options.repeats):
        start = time.perf_counter()
        session.run(None, feed)
        if number >= options.warmup:
            times.append(time.perf_counter() - start)
    print(json.dumps({"batch": len(pictures), "threads": options.threads,
                      "median_seconds": statistics.median(times), "min_seconds": min(times),
                      "max_seconds": max(times), "repeats": options.repeats,
                      "onnxruntime": onnxruntime.__version__}))


if __name__ == "__main__":
    main()
