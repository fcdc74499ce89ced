"""What the peers' scripts have in common: options, timing, and the line of JSON they print.

A script describes one training step; everything around it is the same for all of them, so that no
framework is measured in a way of its own."""

import argparse
import json
import os
import resource
import statistics
import time

# Read before a framework is imported: OMP_PROC_BIND then leaves this thread a single core.
CORES = len(os.sched_getaffinity(0))

IMAGENET_CLASSES = 1001  # as in the TensorFlow recipes: one for "background"
RESNET_BLOCKS = (3, 4, 6, 3)
VGG_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))

# The recipes of lockstep's own models. What they cost is the same for any rate.
RECIPES = {
    "resnet50": dict(rate=0.016, momentum=0.9, decay=1e-4),
    "vgg16": dict(rate=0.005, momentum=0.0, decay=4e-5),
    "mnist": dict(rate=0.01, momentum=0.0, decay=0.0),
}


def parser(description):
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--model", choices=sorted(RECIPES), required=True)
    options.add_argument("--batch", type=int, required=True)
    options.add_argument("--steps", type=int, default=5, help="steps that are timed")
    options.add_argument("--warmup", type=int, default=2, help="steps before them, at least 1")
    options.add_argument("--threads", type=int, default=CORES)
    options.add_argument("--seed", type=int, default=1)
    return options


def seconds_since_process_start():
    """The kernel notes the start of a process in ticks since boot: imports and all are in it."""
    with open("/proc/self/stat", encoding="ascii") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_turns(steps, options, framework):
    """As bench/scaling.c: turns of options.steps steps of each kind, `steps` being functions by name;
    the first step of a turn is not timed."""
    turns = []
    for number in range(options.turns):
        names = list(steps) if number % 2 else list(reversed(steps))
        turns.append({name: statistics.median(timed(steps[name]) for _ in range(options.steps))
                      for name in names if steps[name]() is not None})
    print(json.dumps({"framework": framework, "turns": turns}), flush=True)


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def measure(step, options, framework):
    """Calls `step()`, which trains on one batch and returns the loss as a float, and prints the
    result. The first call counts as warm-up whatever the options say."""
    loss = step()
    first_step_seconds = seconds_since_process_start()
    for _ in range(options.warmup - 1):
        loss = step()
    step_seconds = []
    for _ in range(options.steps):
        start = time.perf_counter()
        loss = step()
        step_seconds.append(time.perf_counter() - start)
    median = statistics.median(step_seconds)
    print(json.dumps({
        "framework": framework,
        "model": options.model,
        "batch": options.batch,
        "threads": options.threads,
        "median_step_seconds": median,
        "step_seconds": [round(seconds, 6) for seconds in step_seconds],
        "examples_per_second": options.batch / median,
        "first_step_seconds": first_step_seconds,
        "peak_rss_bytes": peak_rss_bytes(),
        "loss": loss,
    }), flush=True)
