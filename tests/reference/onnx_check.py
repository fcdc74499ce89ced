#!/usr/bin/python3
"""PyTorch writes networks as ONNX; run_onnx evaluates and trains the files; every output, gradient,
loss and trained weight is compared with what PyTorch itself computes in double precision.

usage: onnx_check.py RUN_ONNX [--only TEXT]

The last line is "N passed, N failed"."""
import argparse
import copy
import os
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
from torch import nn

import onnx_networks as networks
import tensor_file

warnings.filterwarnings("ignore")


class Case:
    """A network, the size of its pictures and how it is written down."""

    def __init__(self, name, network, shape, classes, batch=4, steps=0, training=False,
                 dynamic=True, opset=13, tolerance=1e-5, rate=0.01, drawn=True, fold=True,
                 strict=True, kinks=True):
        self.name, self.network, self.shape, self.classes = name, network, shape, classes
        self.batch, self.steps, self.training, self.dynamic = batch, steps, training, dynamic
        self.opset, self.tolerance, self.rate, self.drawn = opset, tolerance, rate, drawn
        self.fold, self.kinks = fold, kinks
        # In a deep network some input of a ReLU is so near zero that rounding decides about its
        # gradient, here as in PyTorch's own single precision, though not for the same input.
        self.training_tolerance = {"losses": 1e-5, "gradient": 1e-4, "trained": 1e-5} if strict \
            else {"losses": 1e-4, "gradient": 1e-2, "trained": 2e-3}

    def export(self, module, path):
        mode = torch.onnx.TrainingMode.TRAINING if self.training else torch.onnx.TrainingMode.EVAL
        example = torch.randn(1 if not self.dynamic else 2, *self.shape)
        axes = {"input": {0: "batch"}, "output": {0: "batch"}} if self.dynamic else None
        torch.onnx.export(module, example, path, opset_version=self.opset, training=mode,
                          input_names=["input"], output_names=["output"], dynamic_axes=axes,
                          do_constant_folding=self.fold and not self.training)


def cases():
    small = {"steps": 8}
    grey, colour = (1, 28, 28), (3, 64, 64)
    yield Case("mlp", networks.mlp, grey, 10, **small)
    yield Case("mlp of flat numbers", lambda: nn.Sequential(nn.Linear(784, 20), nn.ReLU(),
                                                            nn.Linear(20, 10)), (784,), 10, **small)
    for opset in (9, 11, 13, 15, 16):
        yield Case(f"cnn, opset {opset}", networks.cnn, grey, 10, opset=opset)
    yield Case("cnn for training", networks.cnn, grey, 10, training=True, batch=8, **small)
    yield Case("cnn with a fixed batch", networks.cnn, grey, 10, dynamic=False)
    yield Case("views and products", networks.Views, grey, 10, **small)
    yield Case("views and products with a fixed batch", networks.Views, grey, 10, dynamic=False)
    yield Case("views and products, nothing folded", networks.Views, grey, 10, fold=False)
    yield Case("mixed", networks.Mixed, (3, 31, 28), 7, opset=13, **small)
    yield Case("mixed, opset 16", networks.Mixed, (3, 31, 28), 7, opset=16)
    yield Case("resnet18", networks.resnet18, colour, 1000)
    yield Case("resnet18 for training", lambda: networks.resnet18(10), colour, 10, training=True,
               steps=3, rate=0.001, batch=8, strict=False)
    yield Case("resnet50", networks.resnet50, colour, 1000)
    yield Case("vgg with zero biases", lambda: networks.VGG(False, 10, 8, 64), (3, 224, 224), 10,
               drawn=False, steps=2, batch=2)
    yield Case("vgg with batch norm", lambda: networks.VGG(True, 10, 8, 64), (3, 224, 224), 10,
               batch=2)
    yield Case("mobilenet_v2", lambda: networks.MobileNetV2(), colour, 1000)
    yield Case("mobilenet_v2 for training", lambda: networks.MobileNetV2(10), colour, 10,
               training=True, steps=3, rate=0.001, batch=8, kinks=False)


def without_dropout(module):
    """Masks are each program's own: here nothing is dropped."""
    for child in module.modules():
        if isinstance(child, nn.Dropout):
            child.p = 0.0
    return module


def logits_of(module, x):
    """Without a last softmax: cross-entropy brings its own. (A logarithm of one may stay: it does
    not change the loss.)"""
    if isinstance(module, nn.Sequential) and isinstance(module[-1], nn.Softmax):
        return module[:-1](x)
    return module(x)


class Expected:
    """What PyTorch computes, in the precision of the images."""

    def __init__(self, case, module, images, labels):
        self.arrays = {}
        module = copy.deepcopy(module).to(images.dtype)
        with torch.no_grad():
            logits = logits_of(module.eval(), images[0])
            whole = module(images[0])
        kind = "logits" if not isinstance(module, networks.Views) else "log_probabilities"
        self.arrays[kind] = logits.numpy()
        if whole.shape == logits.shape and not torch.equal(whole, logits):
            self.arrays["probabilities"] = whole.numpy()
        if case.steps:
            self.train(case, module, images, labels)

    def train(self, case, module, images, labels):
        module.train(case.training)
        optimizer = torch.optim.SGD(module.parameters(), case.rate, 0.9)
        losses = []
        for x, y in zip(images, labels):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(logits_of(module, x), y)
            loss.backward()
            losses.append(loss.item())
            if len(losses) == 1:
                self.gradients = {name: tensor.grad.clone().numpy()
                                  for name, tensor in module.named_parameters()}
            optimizer.step()
        self.arrays["losses"] = numpy.array(losses)
        self.trained = {name: tensor.detach().numpy()
                        for name, tensor in module.named_parameters()}


def memory_order(images):
    """Pictures as data gives them: N, H, W, C; flat numbers are a picture to us."""
    if images.dim() == 2:
        return images.reshape(-1, 28, 28, 1)
    return images.permute(0, 2, 3, 1)


def apart(got, wanted):
    got, wanted = numpy.asarray(got, numpy.float64), numpy.asarray(wanted, numpy.float64)
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)}, expected {list(wanted.shape)}"
    return float(numpy.abs(got - wanted).max() / (numpy.abs(wanted).max() + 1e-30))


class Judge:
    def __init__(self, case):
        self.case, self.failures, self.worst = case, [], 0.0

    def look(self, what, got, wanted, single, tolerance):
        """Single precision is allowed more where PyTorch's own strays as far, as it does behind
        batch norms of few numbers."""
        if got is None:
            self.failures.append(f"{what} is missing")
            return
        tolerance = max(tolerance, 5 * apart(single, wanted))
        error = apart(got, wanted)
        if isinstance(error, str) or not error <= tolerance:
            self.failures.append(f"{what}: {error} of the largest, allowed {tolerance}")
        else:
            self.worst = max(self.worst, error / tolerance)


def check(case, program, folder):
    torch.manual_seed(3)
    module = without_dropout(case.network())
    if case.drawn:
        networks.draw(module, 5)
    if not case.kinks:
        networks.keep_from_kinks(module)
    path = os.path.join(folder, "network.onnx")
    case.export(module, path)       # for training it runs once, which moves its statistics
    steps = max(case.steps, 1)
    images = torch.randn(steps, case.batch, *case.shape)
    labels = torch.randint(0, case.classes, (steps, case.batch))
    expected = Expected(case, module, images.double(), labels)
    single = Expected(case, module, images, labels)
    together = memory_order(images.reshape(steps * case.batch, *case.shape)).contiguous()
    tensors = {"input/image": together.numpy(),
               "input/label": labels.reshape(-1).to(torch.int32).numpy()}
    tensor_file.write(os.path.join(folder, "case"), tensors,
                      {"batch": case.batch, "steps": steps, "rate": case.rate})
    done = subprocess.run([program, path, os.path.join(folder, "case"),
                           os.path.join(folder, "result")], stderr=subprocess.PIPE, text=True)
    judge = Judge(case)
    if done.returncode:
        judge.failures.append(done.stderr.strip())
        return judge
    compare(case, judge, expected, single, tensor_file.read(os.path.join(folder, "result")))
    return judge


def compare(case, judge, expected, single, actual):
    for mode in ("evaluate", "serve"):
        for kind in expected.arrays:
            if kind != "losses":
                judge.look(f"{mode} {kind}", actual.get(f"{mode}/{kind}"), expected.arrays[kind],
                           single.arrays[kind], case.tolerance)
    if not case.steps:
        return
    judge.look("losses", actual.get("losses"), expected.arrays["losses"], single.arrays["losses"],
               case.training_tolerance["losses"])
    # An evaluating export joins batch norm with the convolution before it: then the parameters are
    # others than the module's.
    for name in expected.gradients:
        if case.training or f"gradient/{name}" in actual:
            for kind, wanted, near in (("gradient", expected.gradients, single.gradients),
                                       ("trained", expected.trained, single.trained)):
                got = actual.get(f"{kind}/{name}")
                if got is not None and got.shape != wanted[name].shape:
                    got = got.T         # products keep their weights as [O, K]
                judge.look(f"{kind} {name}", got, wanted[name], near[name],
                           case.training_tolerance[kind])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    arguments = parser.parse_args()
    passed = failed = 0
    for case in cases():
        if arguments.only not in case.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            judge = check(case, arguments.program, folder)
        for line in judge.failures[:6]:
            print(f"{case.name}: {line}")
        print(f"{case.name}: {'failed' if judge.failures else 'agrees'}, worst "
              f"{judge.worst:.2f} of the tolerance", flush=True)
        passed += not judge.failures
        failed += bool(judge.failures)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
