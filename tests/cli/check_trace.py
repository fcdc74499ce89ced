#!/usr/bin/env python3
"""Checks a file that --trace wrote against the --json of the same run, all of whose steps it has.

usage: check_trace.py TRACE JSON WARMUP_STEPS"""
import json
import sys
from collections import defaultdict
from statistics import median

PARTS = ["input", "forward", "backward", "reduce", "update"]


def nanoseconds(event):
    """First and last; the file has microseconds with three digits behind the point."""
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


def check_nesting(name, spans):
    """Each span lies in the one around it, or behind the one before."""
    around = []
    for event in spans:
        start, end = nanoseconds(event)
        assert start >= 0 and end >= start, (name, event)
        while around and around[-1][1] <= start and around[-1] != (start, end):
            around.pop()
        assert not around or end <= around[-1][1], (name, event, around[-1])
        around.append((start, end))


def main():
    events = json.load(open(sys.argv[1]))["traceEvents"]
    results = json.load(open(sys.argv[2]))
    warmup = int(sys.argv[3])
    names = {event["tid"]: event["args"]["name"] for event in events
             if event["ph"] == "M" and event["name"] == "thread_name"}
    tracks = defaultdict(list)
    for event in events:
        assert event["ph"] in "XM", event
        if event["ph"] == "X":
            tracks[names[event["tid"]]].append(event)
    for name, spans in tracks.items():
        check_nesting(name, spans)

    training = tracks["training"]
    steps = [event for event in training if event["name"] == "step"]
    assert [step["args"]["step"] for step in steps] == list(range(1, results["steps"] + 1)), steps
    for step in steps:
        start, end = nanoseconds(step)
        inside = [event for event in training if event is not step and
                  start <= nanoseconds(event)[0] and nanoseconds(event)[1] <= end]
        parts = [event for event in inside if event["name"] in PARTS]
        total = sum(event["dur"] for event in parts)
        assert abs(total - step["dur"]) < 0.1, (total, step)
        for part in ("forward", "backward"):
            around, = [event for event in parts if event["name"] == part]
            first, last = nanoseconds(around)
            ops = [event for event in inside if event["cat"].startswith(part) and
                   event["args"].get("kernel") is not None]
            assert ops, (part, step)
            for op in ops:
                assert first <= nanoseconds(op)[0] and nanoseconds(op)[1] <= last, (part, op)
            assert sum(op["dur"] for op in ops) <= around["dur"] + 0.001 * len(ops), part
    seconds = median(step["dur"] for step in steps[warmup:]) / 1e6
    assert abs(seconds - results["median_step_seconds"]) < 2e-9, (seconds, results)

    evaluations = [event for event in training if event["name"] == "evaluation"]
    assert bool(evaluations) == results["evaluated"], evaluations
    loaders = [name for name in tracks if name.startswith("loader ")]
    assert len(loaders) <= results["input_threads"], loaders
    reads = [event for name in loaders or ["training"] for event in tracks[name]
             if event["name"] == "read"]
    rows = sum(event["args"]["rows"] for event in reads)
    assert rows > 0, "nothing was read"
    print(len(events), "events")


main()
