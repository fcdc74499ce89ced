#!/usr/bin/python3
"""Writes the ONNX files of test_onnx.sh into a directory: onnx_models.py DIRECTORY"""
import sys
import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore")
folder = sys.argv[1]


def export(name, module, shape, **options):
    torch.onnx.export(module, torch.randn(2, *shape), f"{folder}/{name}.onnx", opset_version=13,
                      input_names=["input"], output_names=["output"],
                      dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}}, **options)


torch.manual_seed(1)
export("mlp", nn.Sequential(nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10)),
       (1, 28, 28))
export("cnn", nn.Sequential(nn.Conv2d(1, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
                            nn.MaxPool2d(2), nn.Dropout(0.1), nn.Flatten(),
                            nn.Linear(8 * 13 * 13, 10)),
       (1, 28, 28), training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
export("colour", nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                               nn.Flatten(), nn.Linear(8, 5)), (3, 32, 32))
export("unknown", nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4),
                                nn.PReLU(), nn.Flatten(), nn.Linear(4 * 26 * 26, 10)), (1, 28, 28))
