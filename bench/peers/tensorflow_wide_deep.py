#!/usr/bin/env python3
"""Trains Wide & Deep on Criteo CSV files with TensorFlow, parsing included; prints one line of
JSON. Variables and fused update operations instead of Keras layers and optimizers: one table for
all columns, row gradients summed by row before the update, as the original Estimator does."""

import argparse
import json
import math
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf  # noqa: E402

NUMERICS, CATEGORIES = 13, 26
WIDTHS = (1024, 512, 256)


def batches(options):
    defaults = [[0.0]] * (1 + NUMERICS) + [[" "]] * CATEGORIES
    offsets = tf.range(CATEGORIES, dtype=tf.int64) * options.rows

    def parse(lines):
        columns = tf.io.decode_csv(lines, defaults)
        numbers = tf.stack(columns[1:1 + NUMERICS], axis=1)
        texts = tf.stack(columns[1 + NUMERICS:], axis=1)
        ids = tf.strings.to_hash_bucket_fast(texts, options.rows) + offsets
        return numbers, ids, columns[0]

    data = tf.data.TextLineDataset(os.path.join(options.data, "train.csv")).repeat()
    data = data.shuffle(20000, seed=options.seed).batch(options.batch, drop_remainder=True)
    data = data.map(parse, num_parallel_calls=options.threads, deterministic=False)
    return data.prefetch(tf.data.AUTOTUNE)


class Network:
    def __init__(self, options):
        total = CATEGORIES * options.rows
        self.deep_table = tf.Variable(
            tf.random.truncated_normal([total, options.dim], stddev=1 / math.sqrt(options.dim)))
        self.wide_table = tf.Variable(tf.zeros([total, 1]))
        self.wide_bias = tf.Variable(tf.zeros([1]))
        self.dense = []
        inputs = CATEGORIES * options.dim + NUMERICS
        for units in (*WIDTHS, 1):
            limit = math.sqrt(6 / (inputs + units))
            self.dense += [tf.Variable(tf.random.uniform([inputs, units], -limit, limit)),
                           tf.Variable(tf.zeros([units]))]
            inputs = units
        self.deep = [self.deep_table, *self.dense]
        self.wide = [self.wide_table, self.wide_bias]
        self.squares = [tf.Variable(tf.fill(v.shape, 0.1)) for v in self.deep + self.wide]
        self.linear = [tf.Variable(tf.zeros_like(v)) for v in self.wide]
        self.low = tf.zeros([NUMERICS])
        self.range = tf.ones([NUMERICS]) * 1000.0

    def loss(self, numbers, ids, labels):
        rows = tf.gather(self.deep_table, ids)
        x = tf.concat([tf.reshape(rows, [tf.shape(ids)[0], -1]), (numbers - self.low) / self.range],
                      axis=1)
        for i in range(len(WIDTHS)):
            x = tf.nn.relu(tf.matmul(x, self.dense[2 * i]) + self.dense[2 * i + 1])
        logits = tf.matmul(x, self.dense[-2]) + self.dense[-1]
        logits += tf.reduce_sum(tf.gather(self.wide_table, ids), axis=1) + self.wide_bias
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits[:, 0]))

    def update(self, gradients):
        for i, variable in enumerate(self.deep):
            gradient, slot = gradients[i], self.squares[i]
            if isinstance(gradient, tf.IndexedSlices):
                values, rows = summed(gradient)
                tf.raw_ops.ResourceSparseApplyAdagradV2(
                    var=variable.handle, accum=slot.handle, lr=0.001, epsilon=0.0, grad=values,
                    indices=rows)
            else:
                tf.raw_ops.ResourceApplyAdagradV2(var=variable.handle, accum=slot.handle, lr=0.001,
                                                  epsilon=0.0, grad=gradient)
        for i, variable in enumerate(self.wide):
            gradient = gradients[len(self.deep) + i]
            common = {"var": variable.handle, "accum": self.squares[len(self.deep) + i].handle,
                      "linear": self.linear[i].handle, "lr": 0.005, "l1": 0.0, "l2": 0.0,
                      "l2_shrinkage": 0.0, "lr_power": -0.5}
            if isinstance(gradient, tf.IndexedSlices):
                values, rows = summed(gradient)
                tf.raw_ops.ResourceSparseApplyFtrlV2(grad=values, indices=rows, **common)
            else:
                tf.raw_ops.ResourceApplyFtrlV2(grad=gradient, **common)


def summed(gradient):
    rows, places = tf.unique(gradient.indices)
    return tf.math.unsorted_segment_sum(gradient.values, places, tf.shape(rows)[0]), rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--inter-op", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.inter_op)
    tf.random.set_seed(options.seed)
    network = Network(options)
    variables = network.deep + network.wide

    @tf.function
    def step(numbers, ids, labels):
        with tf.GradientTape() as tape:
            loss = network.loss(numbers, ids, labels)
        network.update(tape.gradient(loss, variables))
        return loss

    times, loss = [], None
    data = iter(batches(options))
    for number in range(options.warmup + options.steps):
        start = time.perf_counter()
        loss = step(*next(data)).numpy()
        if number >= options.warmup:
            times.append(time.perf_counter() - start)
    median = statistics.median(times)
    print(json.dumps({"program": "tensorflow " + tf.__version__, "median_step_seconds": median,
                      "examples_per_second": options.batch * len(times) / sum(times),
                      "loss": float(loss)}))


if __name__ == "__main__":
    main()
