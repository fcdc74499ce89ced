#!/usr/bin/env python3
"""Trains one of the benchmark's networks with PyTorch on random data; prints one line of JSON."""

import common
import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """ResNet v1.5: the stride is on the 3x3 convolution."""

    def __init__(self, in_channels, channels, stride):
        super().__init__()
        out_channels = 4 * channels
        self.conv1 = nn.Conv2d(in_channels, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, out_channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, 1, stride, bias=False),
                nn.BatchNorm2d(out_channels))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.shortcut is None else self.shortcut(x)
        return self.relu(y)


def resnet50(classes):
    layers = [nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64),
              nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    in_channels = 64
    for stage, blocks in enumerate(common.RESNET_BLOCKS):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(in_channels, 64 << stage, stride))
            in_channels = 4 * (64 << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(in_channels, classes))


def vgg16(classes):
    layers, in_channels = [], 3
    for channels, convolutions in common.VGG_STAGES:
        for _ in range(convolutions):
            layers += [nn.Conv2d(in_channels, channels, 3, padding=1), nn.ReLU(inplace=True)]
            in_channels = channels
        layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for inputs in (512 * 7 * 7, 4096):
        layers += [nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5)]
    return nn.Sequential(*layers, nn.Linear(4096, classes))


def mnist(classes):
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(32 * 13 * 13, 64), nn.ReLU(inplace=True),
                         nn.Linear(64, classes))


def create(options):
    """The network, one batch of images and their labels."""
    if options.model == "mnist":
        network, classes, shape = mnist(10), 10, (1, 28, 28)
    else:
        classes, shape = common.IMAGENET_CLASSES, (3, 224, 224)
        network = {"resnet50": resnet50, "vgg16": vgg16}[options.model](classes)
    images = torch.randn(options.batch, *shape)
    labels = torch.randint(0, classes, (options.batch,))
    if options.channels_last:
        network = network.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    return network.train(), images, labels


def optimizer_for(network, recipe):
    """Weight decay on kernels only; the faster of torch's implementations of SGD here is asked
    for by name."""
    kernels = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() <= 1]
    return torch.optim.SGD([{"params": kernels, "weight_decay": recipe["decay"]},
                            {"params": others, "weight_decay": 0.0}],
                           lr=recipe["rate"], momentum=recipe["momentum"], fused=True)


def main():
    parser = common.parser(__doc__)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true",
                        help="torch.compile; the first step then takes minutes")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1,
                        help="DistributedDataParallel over gloo; one process is started for each")
    parser.add_argument("--turns", type=int, default=0,
                        help="so many times steps with and steps without communication")
    parser.add_argument("--meet", metavar="FILE", help="a file that all ranks can reach")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    network, images, labels = create(options)
    optimizer = optimizer_for(network, common.RECIPES[options.model])
    forward = torch.compile(network) if options.compile else network
    if options.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{options.meet}",
                                             rank=options.rank, world_size=options.ranks)
        # Views into buckets spare a copy; every parameter is used in every step.
        forward = nn.parallel.DistributedDataParallel(forward, gradient_as_bucket_view=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    def step_alone():
        with forward.no_sync():
            return step()

    name = "torch " + torch.__version__
    if options.turns:
        common.measure_turns({"alone": step_alone, "together": step}, options, name)
    else:
        common.measure(step, options, name)
    if options.ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
