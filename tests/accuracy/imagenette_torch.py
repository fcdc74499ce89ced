#!/usr/bin/env python3
"""ResNet-50 from scratch on Imagenette with PyTorch: the yardstick of tests/accuracy/imagenette.

The same network, recipe, crops and evaluation as ours; prints a line per evaluation and, at the
end, `accuracy X`."""

import argparse
import math
import pathlib
import sys
import time

import numpy
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import torch_train  # noqa: E402  the network of the benchmark

MEAN = torch.tensor([123.68, 116.78, 103.94]).view(3, 1, 1)


class PoolSame(nn.Module):
    """TensorFlow's SAME padding, as ours: on even sizes only behind."""

    def forward(self, x):
        return functional.max_pool2d(functional.pad(x, (0, 1, 0, 1), value=-math.inf), 3, 2)


def initialize(network):
    """As TensorFlow's official ResNet: truncated normal by fan-in, N(0, 0.01) at the end."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            fan_in = module.weight[0].numel()
            deviation = math.sqrt(1 / fan_in) / 0.87962566103423978
            nn.init.trunc_normal_(module.weight, 0, deviation, -2 * deviation, 2 * deviation)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
            nn.init.zeros_(module.bias)


def read_split(directory):
    """Whole pictures as uint8 [3, H, W], and their classes."""
    classes = sorted(path.name for path in directory.iterdir() if path.is_dir())
    pictures, labels = [], []
    for label, name in enumerate(classes):
        for path in sorted((directory / name).iterdir()):
            pixels = numpy.array(Image.open(path).convert("RGB"))
            pictures.append(torch.from_numpy(pixels).permute(2, 0, 1).contiguous())
            labels.append(label)
    return pictures, torch.tensor(labels)


def random_box(random, height, width):
    """As TensorFlow's sample_distorted_bounding_box, and ours: an aspect of 3/4 to 4/3, then any of
    the heights with which 5 to 100 % of the area is covered; 100 tries, else everything. (Drawing
    the area instead gives larger crops, which are easier to learn.)"""
    area = height * width
    for _ in range(100):
        aspect = random.uniform(3 / 4, 4 / 3)
        least = round(math.sqrt(0.05 * area / aspect))
        most = min(round(math.sqrt(area / aspect)), int((width + 0.5 - 1e-7) / aspect), height)
        h = random.integers(least, most + 1) if least < most else most
        w = round(h * aspect)
        if 0 < w <= width and 0 < h <= height and 0.05 * area <= w * h <= area:
            return random.integers(0, height - h + 1), random.integers(0, width - w + 1), h, w
    return 0, 0, height, width


def sample(random, picture, size):
    top, left, height, width = random_box(random, *picture.shape[1:])
    crop = picture[:, top:top + height, left:left + width].float()[None]
    # Our decoder averages while it scales down; so does this.
    out = functional.interpolate(crop, (size, size), mode="bilinear", antialias=True)[0]
    return (out.flip(2) if random.random() < 0.5 else out) - MEAN


def centre(picture, size):
    short = size * 256 // 224
    height, width = picture.shape[1:]
    scale = short / min(height, width)
    target = (round(height * scale), round(width * scale))
    out = functional.interpolate(picture.float()[None], target, mode="bilinear")[0]
    top, left = (target[0] - size) // 2, (target[1] - size) // 2
    return out[:, top:top + size, left:left + size] - MEAN


def accuracy(network, pictures, labels, size):
    network.eval()
    right = 0
    with torch.no_grad():
        for first in range(0, len(pictures), 50):
            batch = torch.stack([centre(p, size) for p in pictures[first:first + 50]])
            right += (network(batch).argmax(1) == labels[first:first + 50]).sum().item()
    network.train()
    return right / len(pictures)


def rate_at(step, per_epoch, options):
    warmup, total = options.warmup_epochs * per_epoch, options.epochs * per_epoch
    if step < warmup:
        return options.lr * step / warmup
    return options.lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def train(options):
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    random = numpy.random.default_rng(options.seed)
    pictures, labels = read_split(options.data / "train")
    held_out, held_labels = read_split(options.data / "val")
    network = torch_train.resnet50(10)
    network[3] = PoolSame()
    initialize(network)
    network = network.to(memory_format=torch.channels_last).train()
    recipe = {"decay": options.weight_decay, "rate": options.lr, "momentum": 0.9}
    optimizer = torch_train.optimizer_for(network, recipe)
    per_epoch = len(pictures) // options.batch
    step, start = 0, time.time()
    for epoch in range(options.epochs):
        order, losses = random.permutation(len(pictures)), []
        for index in range(per_epoch):
            rows = order[index * options.batch:(index + 1) * options.batch]
            batch = torch.stack([sample(random, pictures[i], options.size) for i in rows])
            for group in optimizer.param_groups:
                group["lr"] = rate_at(step, per_epoch, options)
            optimizer.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(
                network(batch.contiguous(memory_format=torch.channels_last)), labels[rows],
                label_smoothing=options.label_smoothing)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
        if (epoch + 1) % options.eval_every == 0 or epoch + 1 == options.epochs:
            score = accuracy(network, held_out, held_labels, options.size)
            print(f"epoch {epoch + 1}/{options.epochs} train loss {numpy.mean(losses):.4f} "
                  f"accuracy {score:.4f} {time.time() - start:.0f} s", flush=True)
    print(f"accuracy {score:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.016)
    parser.add_argument("--weight-decay", type=float, default=5e-4)
    parser.add_argument("--warmup-epochs", type=int, default=2)
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--eval-every", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
