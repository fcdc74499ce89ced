#!/usr/bin/python3
"""Are the drawn digits worth learning? A linear classifier must stay under 93 %, a small
convolutional network must pass 98 %, as with real handwriting.

usage: digits_difficulty.py DUMP_DATA; the last line is "N passed, N failed"."""
import subprocess
import sys
import time

import numpy
import torch
from torch import nn

TRAIN, EVALUATE = 30000, 5000
EXAMPLE = numpy.dtype([("image", "<f4", (28, 28)), ("label", "<i4")])


def load(program, split, count):
    raw = subprocess.run([program, "digits", split, str(count)], check=True,
                         stdout=subprocess.PIPE).stdout
    examples = numpy.frombuffer(raw, EXAMPLE)
    assert len(examples) == count
    return (torch.from_numpy(examples["image"].copy()).reshape(-1, 1, 28, 28),
            torch.from_numpy(examples["label"].astype("int64")))


def accuracy(network, images, labels):
    network.eval()
    with torch.no_grad():
        right = sum((network(x).argmax(1) == y).sum().item()
                    for x, y in zip(images.split(1000), labels.split(1000)))
    return right / len(labels)


def train(network, images, labels, batch, epochs, rate):
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    steps = epochs * (len(labels) // batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(epochs):
        network.train()
        order = torch.randperm(len(labels))
        for rows in order[:len(labels) // batch * batch].split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()


def main():
    torch.manual_seed(1)
    torch.set_num_threads(2)
    program = sys.argv[1]
    images, labels = load(program, "train", TRAIN)
    evaluation = load(program, "evaluate", EVALUATE)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    convolutional = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(16, 32, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 25, 64), nn.ReLU(), nn.Linear(64, 10))
    verdicts = []
    for name, network, batch, epochs, rate, good in (
            ("linear, below 93 %", linear, 256, 8, 5e-3, lambda a: 0.80 < a < 0.93),
            ("convolutional, above 98 %", convolutional, 64, 2, 3e-3, lambda a: a > 0.98)):
        start = time.monotonic()
        train(network, images, labels, batch, epochs, rate)
        reached = accuracy(network, *evaluation)
        verdicts.append(good(reached))
        print(f"{'ok' if verdicts[-1] else 'FAIL'}    {name}: {100 * reached:.2f} % "
              f"({time.monotonic() - start:.0f} s)")
    print(f"{sum(verdicts)} passed, {len(verdicts) - sum(verdicts)} failed")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
