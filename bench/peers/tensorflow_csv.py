"""Rows per second of Criteo text through tf.data at its best: lines in batches, decode_csv over a
whole batch, to_hash_bucket_fast for the 26 categories. Shuffled by a buffer, as tf.data does it.

    tensorflow_csv.py DIR [THREADS [BATCH]]"""
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

RUNS, RUN_SECONDS = 5, 2
DEFAULTS = [[0]] + [[0.0]] * 13 + [[" "]] * 26


def parse(lines):
    fields = tf.io.decode_csv(lines, DEFAULTS)
    numbers = tf.stack(fields[1:14], axis=1)
    categories = tf.strings.to_hash_bucket_fast(tf.stack(fields[14:], axis=1), 2**62)
    return numbers, categories, fields[0]


def main():
    path = os.path.join(sys.argv[1], "train.csv")
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 512
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    for shuffle in (False, True):
        lines = tf.data.TextLineDataset(path, buffer_size=1 << 20)
        if shuffle:
            lines = lines.shuffle(20 * batch)
        data = lines.batch(batch, drop_remainder=True).map(
            parse, num_parallel_calls=threads, deterministic=False).prefetch(8).repeat()
        options = tf.data.Options()
        options.threading.private_threadpool_size = threads
        batches = iter(data.with_options(options))
        best = best_core = 0
        for _ in range(RUNS):
            rows, start, core_start = 0, time.perf_counter(), time.process_time()
            while time.perf_counter() - start < RUN_SECONDS:
                rows += next(batches)[0].shape[0]
            best = max(best, rows / (time.perf_counter() - start))
            best_core = max(best_core, rows / (time.process_time() - core_start))
        print(f"tf.data, {'shuffled' if shuffle else 'in order'}, {threads} threads, batch {batch}: "
              f"{best:.0f} rows/s, {best_core:.0f} per second of a core")


main()
