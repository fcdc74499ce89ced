#!/usr/bin/env python3
"""Pictures a second from TFRecord shards to augmented float batches with tf.data, at the best
settings we found; prints one line of JSON. The augmentation is that of TensorFlow's official
ResNet: crop drawn by sample_distorted_bounding_box, only the crop decoded, flipped, resized,
means subtracted."""

import argparse
import glob
import json
import os
import resource
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf  # noqa: E402

MEANS = [123.68, 116.78, 103.94]


def augment(record, size, dct):
    encoded = tf.io.parse_single_example(
        record, {"image/encoded": tf.io.FixedLenFeature([], tf.string)})["image/encoded"]
    whole = tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4])
    begin, extent, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded), whole, min_object_covered=0.0,
        aspect_ratio_range=[3 / 4, 4 / 3], area_range=[0.05, 1.0], max_attempts=100,
        use_image_if_no_bounding_boxes=True)
    window = tf.stack([begin[0], begin[1], extent[0], extent[1]])
    image = tf.io.decode_and_crop_jpeg(encoded, window, channels=3, dct_method=dct)
    image = tf.image.random_flip_left_right(image)
    image = tf.compat.v1.image.resize(image, [size, size], method="bilinear", align_corners=False)
    return image - MEANS


def dataset(args):
    files = sorted(glob.glob(os.path.join(args.directory, "*-of-*")))
    parallel = args.calls if args.calls else tf.data.AUTOTUNE
    data = tf.data.Dataset.from_tensor_slices(files).repeat()
    data = data.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=parallel,
                           deterministic=False)
    data = data.map(lambda record: augment(record, args.size, args.dct),
                    num_parallel_calls=parallel, deterministic=False)
    data = data.batch(args.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    options = tf.data.Options()
    options.threading.private_threadpool_size = args.threads
    options.threading.max_intra_op_parallelism = 1
    options.deterministic = False
    return data.with_options(options)


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--calls", type=int, default=0, help="0: tf.data's own choice")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--dct", default="", help="INTEGER_FAST (the default) or INTEGER_ACCURATE")
    args = parser.parse_args()
    batches = iter(dataset(args))
    end = time.monotonic() + args.seconds / 2
    while time.monotonic() < end:
        next(batches)
    before = processor_seconds()
    count, start = 0, time.monotonic()
    while time.monotonic() < start + args.seconds:
        next(batches)
        count += args.batch
    took = time.monotonic() - start
    spent = (processor_seconds() - before) / count
    print(json.dumps({"pictures_per_second": round(count / took, 1),
                      "processor_ms_per_picture": round(spent * 1000, 4), "threads": args.threads,
                      "pictures": count, "tensorflow": tf.__version__}))


if __name__ == "__main__":
    main()
