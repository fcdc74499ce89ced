#!/usr/bin/python3
"""Compares lockstep with PyTorch: draws networks and numbers, lets run_case compute them, and
looks at every output, loss, gradient and running statistic.

usage: check.py RUN_CASE [--only TEXT] [--list] [--worst]

One line per failure with both values; the last line is "N passed, N failed"."""
import argparse
import gzip
import math
import multiprocessing
import os
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy
import torch

import cases
import networks
import oracle
import tensor_file

ALL_PASSES = ("train", "evaluate", "serve", "train_inputs", "evaluate_inputs", "train_unfused",
              "evaluate_unfused", "serve_unfused", "serve_alone", "evaluate_alone")
# A sum of n products in single precision is off by about sqrt(n) * 2^-24 of its size; four of these
# allow for cancellation, and each operation on the way adds its share.
ROUNDING = 4 * 2.0 ** -24
# No relu input and no tie of a max pool may be nearer to its kink than this, relative to the
# largest: on the other side the gradient is another, and rightly so.
KINK = 3e-5


class Case:
    """A network, its numbers, and what should come out."""

    def __init__(self, name, text, batch, network, seed, passes=ALL_PASSES, tolerances=None):
        self.name, self.text, self.batch, self.network = name, text, batch, network
        self.seed, self.passes = seed, passes
        self.tolerances = tolerances    # by kind of result; None: from the operations' lengths
        self.small = tolerances is None
        self.threads = 0
        self.cost = 0

    def prepare(self):
        """Draws numbers until no kink is near; gives (tensors of the case file, expected)."""
        for attempt in range(50):
            self.parameters = oracle.Parameters(self.seed + 1000 * attempt)
            inputs = self.draw_inputs(numpy.random.RandomState(self.seed + 1000 * attempt + 1))
            train = oracle.Expected(self.network, self.parameters, inputs, True, self.small)
            if not self.small or cases.TIES in self.name or train.walk.kink > KINK:
                break
        else:
            raise RuntimeError(f"{self.name}: no numbers away from the kinks")
        evaluate = oracle.Expected(self.network, self.parameters, inputs, False)
        if self.small:
            walk = train.walk
            tolerance = max(4e-6, ROUNDING * math.sqrt(walk.longest) * walk.depth)
            self.tolerances = {"": tolerance * walk.magnification}
        tensors = {f"input/{name}": array for name, array in inputs.items()}
        for number, array in enumerate(self.parameters.plain):
            tensors[f"parameter/{number}"] = array
        return tensors, {"train": train.arrays, "evaluate": evaluate.arrays}

    def draw_inputs(self, random):
        inputs, classes = {}, count_classes(self.text)
        for line in self.text.splitlines():
            word, *rest = line.split()
            if word == "image":
                channels, height, width = map(int, rest[1:4])
                inputs["image"] = normal(random, (self.batch, height, width, channels))
            elif word == "input" and rest[1] == "i32":
                shape = (self.batch, *map(int, rest[2:]))
                inputs[rest[0]] = random.randint(0, classes, shape).astype(numpy.int32)
            elif word == "input" and rest[0] == "label":
                shape = (self.batch, *map(int, rest[2:]))
                inputs[rest[0]] = random.randint(0, 2, shape).astype(numpy.float32)
            elif word == "input":
                inputs[rest[0]] = normal(random, (self.batch, *map(int, rest[2:])))
        if cases.TIES in self.name:
            inputs = {name: numpy.round(array) for name, array in inputs.items()}
        return inputs

    def notes(self):
        return {"network": self.text, "batch": self.batch, "passes": ",".join(self.passes),
                "threads": self.threads}

    def compare(self, expected, actual):
        """Failures as lines of text, and the worst error in units of its tolerance."""
        failures, worst = [], 0.0
        for name in self.passes:
            wanted = expected["train" if name.startswith("train") else "evaluate"]
            largest = largest_gradient(wanted)
            for key, value in wanted.items():
                if name.startswith("serve") and key == "loss":
                    continue
                if key.startswith("input_gradient/") and (name in ("train", "train_direct") or "label" in key):
                    continue
                ratio, line = self.compare_one(f"{name}/{key}", value, actual, largest)
                worst = max(worst, ratio)
                if line:
                    failures.append(line)
        return failures, worst

    def compare_one(self, key, wanted, actual, largest):
        got = actual.get(key)
        if got is None:
            return math.inf, f"{key} is missing"
        if key.endswith("input_gradient/image"):
            wanted = wanted.transpose(0, 3, 1, 2)       # logical, though the image is stored N, H, W, C
        if got.shape != wanted.shape:
            return math.inf, f"{key}: shape {list(got.shape)}, expected {list(wanted.shape)}"
        tolerance = self.tolerance(key)
        scale = numpy.abs(wanted).max()
        if "gradient/" in key and self.small:
            # The gradient of a bias before batch norm is a sum that cancels to nothing; what is
            # left over is to be measured by what went into it.
            scale = max(scale, 0.05 * largest)
        apart = numpy.abs(got.astype(numpy.float64) - wanted)
        at = numpy.unravel_index(numpy.nanargmax(numpy.where(numpy.isnan(apart), math.inf, apart)),
                                 apart.shape)
        error = apart[at] / scale if scale > 0 else apart[at]
        if error <= tolerance:
            return error / tolerance, None
        place = "[" + ", ".join(map(str, at)) + "]"
        return error / tolerance, (f"{key}{place}: {got[at]:.9g}, expected {wanted[at]:.9g}, "
                                   f"off by {error:.3g} of the largest, allowed {tolerance:.3g}")

    def tolerance(self, key):
        for kind, value in self.tolerances.items():
            if kind and f"/{kind}" in f"/{key}":
                return value
        return self.tolerances[""]


class ModelCase(Case):
    """One of lockstep's own networks against its second writing in networks.py."""

    def __init__(self, model, size, channels, batch, classes, passes, tolerances, cost, seed=7):
        name = f"{model} at {size}x{size}, batch {batch}, {classes} classes"
        text = f"model {model} classes={classes} image_size={size}"
        super().__init__(name, text, batch, networks.NETWORKS[model](classes), seed, passes,
                         tolerances)
        self.shape, self.classes, self.cost = (batch, size, size, channels), classes, cost

    def draw_inputs(self, random):
        return {"image": normal(random, self.shape),
                "label": random.randint(0, self.classes, self.batch).astype(numpy.int32)}


class WideDeepCase(Case):
    """Categories and numbers; some categories are missing, most are read several times."""

    def __init__(self, batch, rows, dim, columns, units, passes):
        name = f"wide_deep, batch {batch}, {columns} columns of {rows} rows of {dim}, {units} units"
        text = (f"model wide_deep embedding_rows={rows} embedding_dim={dim} "
                f"categoricals={columns} hidden={units}")
        super().__init__(name, text, batch, networks.wide_deep(rows, dim, [units]), 13, passes,
                         {"output": 2e-5, "loss": 2e-5, "gradient": 1e-4, "": 1e-4})
        self.columns, self.cost = columns, 5

    def draw_inputs(self, random):
        texts = random.randint(0, 2 ** 63, 40).astype(numpy.uint64) * numpy.uint64(2)
        texts[0] = networks.MISSING
        category = texts[random.randint(0, 40, (self.batch, self.columns))]
        return {"numeric": normal(random, (self.batch, 13)),
                "category": category.view(numpy.int64),
                "label": random.randint(0, 2, self.batch).astype(numpy.float32)}


class WideDeepCurve(WideDeepCase):
    """Twenty steps by FTRL and Adagrad, written out as their formulas."""

    STEPS, RATE, WIDE = 20, 0.01, 0.05

    def __init__(self, batch):
        super().__init__(batch, 50, 8, 5, 32, ("curve",))
        self.name = f"{self.STEPS} steps of wide_deep by ftrl and adagrad, batch {batch}"

    def prepare(self):
        random = numpy.random.RandomState(self.seed)
        batches = [self.draw_inputs(random) for _ in range(self.STEPS)]
        inputs = {name: numpy.stack([each[name] for each in batches]) for name in batches[0]}
        parameters = oracle.Parameters(self.seed)
        losses = self.train(parameters, batches)
        tensors = {f"input/{name}": array for name, array in inputs.items()}
        for number, array in enumerate(parameters.plain):
            tensors[f"parameter/{number}"] = array
        return tensors, {"evaluate": {"losses": losses}}

    def train(self, parameters, batches):
        squares, linear, losses = {}, {}, []
        for inputs in batches:
            leaves = {name: torch.tensor(array) for name, array in inputs.items()}
            leaves["numeric"] = leaves["numeric"].double()
            for tensor in parameters.tensors:
                tensor.grad = None
            _, loss = self.network(leaves, oracle.Walk(parameters, True))
            loss.mean().backward()
            losses.append(float(loss.mean()))
            wide = len(parameters.tensors) - 2      # the last two: table and bias
            for number, tensor in enumerate(parameters.tensors):
                if tensor.grad is not None:
                    self.step(number, tensor, number >= wide, squares, linear)
        return numpy.array(losses)

    def step(self, number, tensor, wide, squares, linear):
        gradient = tensor.grad
        old = squares.setdefault(number, torch.full_like(tensor, 0.1))
        new = squares[number] = old + gradient ** 2
        with torch.no_grad():
            if not wide:
                tensor -= self.RATE * gradient / new.sqrt()
                return
            z = linear.setdefault(number, torch.zeros_like(tensor))
            z = linear[number] = z + gradient - (new.sqrt() - old.sqrt()) / self.WIDE * tensor
            # Rows that were not read keep their first value, as in TensorFlow's sparse update.
            tensor.copy_(torch.where(gradient == 0, tensor, -z * self.WIDE / new.sqrt()))

    def notes(self):
        return {**super().notes(), "steps": self.STEPS, "optimizer": "adagrad", "rate": self.RATE,
                "wide_factor": self.WIDE / self.RATE}

class CurveCase(Case):
    """Fifty steps on MNIST, from the same weights with the same batches."""

    STEPS = 50

    def __init__(self, optimizer, rate, batch, data):
        name = f"{self.STEPS} steps of mnist_custom by {optimizer}, batch {batch}"
        super().__init__(name, "model mnist_custom", batch, networks.mnist_custom(10), 11,
                         ("curve",), {"": 0.01})
        self.optimizer, self.rate, self.data, self.cost = optimizer, rate, data, batch

    def prepare(self):
        images, labels = self.data
        random = numpy.random.RandomState(self.seed)
        order = random.permutation(len(labels))[:self.STEPS * self.batch]
        images = images[order].astype(numpy.float32).reshape(self.STEPS, self.batch, 28, 28, 1)
        inputs = {"image": images / numpy.float32(255),
                  "label": labels[order].astype(numpy.int32).reshape(self.STEPS, self.batch)}
        parameters = oracle.Parameters(self.seed, torch.float32)
        losses = self.train(parameters, inputs)
        tensors = {f"input/{name}": array for name, array in inputs.items()}
        for number, array in enumerate(parameters.plain):
            tensors[f"parameter/{number}"] = array
        return tensors, {"evaluate": {"losses": losses}}

    def train(self, parameters, inputs):
        optimizer, losses = None, []
        for step in range(self.STEPS):
            leaves = {name: torch.tensor(array[step]) for name, array in inputs.items()}
            _, loss = self.network(leaves, oracle.Walk(parameters, True))
            if optimizer is None:
                kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[self.optimizer]
                optimizer = kind(parameters.tensors, lr=self.rate)
            optimizer.zero_grad()
            loss.mean().backward()
            optimizer.step()
            losses.append(float(loss.mean()))
        return numpy.array(losses)

    def notes(self):
        return {**super().notes(), "steps": self.STEPS, "optimizer": self.optimizer,
                "rate": self.rate, "epsilon": 1e-8}

    def compare_one(self, key, wanted, actual, largest):
        """Each step's loss; one below a tenth of the mean is measured by that."""
        got = actual.get(key)
        if got is None:
            return math.inf, f"{key} is missing"
        scale = numpy.maximum(wanted, 0.1 * wanted.mean())
        error = numpy.abs(got - wanted) / scale
        step = int(numpy.nanargmax(numpy.where(numpy.isnan(error), math.inf, error)))
        ratio = error[step] / 0.01
        line = f"{key}[{step}]: {got[step]:.6g}, PyTorch's {wanted[step]:.6g}, more than 1 % apart"
        return ratio, None if ratio <= 1 else line


WideDeepCurve.compare_one = CurveCase.compare_one


def normal(random, shape):
    return random.standard_normal(shape).astype(numpy.float32)


def count_classes(text):
    """How many labels there are: the width of what the softmax gets."""
    for line in text.splitlines():
        words = line.split()
        if words[0] == "softmax_cross_entropy" and words[2] == "x":
            return int(text.split()[3])
    return cases.CLASSES


def largest_gradient(wanted):
    return max((numpy.abs(value).max() for key, value in wanted.items() if "gradient/" in key),
               default=0.0)


def read_idx(path):
    with gzip.open(path) as file:
        data = file.read()
    dims = data[3]
    shape = struct.unpack(f">{dims}I", data[4:4 + 4 * dims])
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dims).reshape(shape)


def mnist():
    """(images, labels), or None where the files are absent."""
    folder = os.path.join(os.environ.get("LOCKSTEP_DATA", "../shared/data"), "mnist")
    try:
        return (read_idx(os.path.join(folder, "train-images-idx3-ubyte.gz")),
                read_idx(os.path.join(folder, "train-labels-idx1-ubyte.gz")))
    except FileNotFoundError:
        return None


def model_cases():
    most = ("train", "evaluate", "serve")
    # Single precision against double, largest difference of each tensor relative to its largest
    # element. Deep networks round once per layer, and a tie in a max pool that rounding decides
    # sends a gradient to the pixel beside.
    shallow = {"output": 2e-5, "loss": 2e-5, "gradient": 1e-4, "": 1e-4}
    deep = {"output": 2e-5, "loss": 2e-5, "gradient": 5e-4, "": 1e-4}
    # At this size rounding decides some of 13 million ReLUs and pools, and one that carries much of
    # the gradient of five classes shows: PyTorch's own single precision is off by 7e-6, 1.5e-2, 2e-3,
    # 6e-3 and 4e-2 for five draws. Direct convolutions, those of AVX2 and those of AVX-512, decide all
    # that matter of this draw as double precision does; Winograd's, whose layers are checked at these
    # sizes in cases.py, need not.
    either = {"train/gradient": 5e-2, **deep}
    yield ModelCase("vgg16", 224, 3, 1, 5, ("train", "train_direct"), either, 100, 13)
    yield ModelCase("resnet50", 224, 3, 2, 5, most, deep, 80)
    yield ModelCase("resnet50", 64, 3, 2, 7, ALL_PASSES, deep, 20)
    # The same at 64 pixels: of the draws 1, 2, 7, 14 and 15 direct convolutions are off by up to 3e-2 in the
    # last two. This is one in which no kink decides, for them and for Winograd's.
    yield ModelCase("vgg16", 64, 3, 2, 7, (*most, "train_direct"), deep, 20, 1)
    yield ModelCase("vgg16", 32, 3, 3, 10, ALL_PASSES, deep, 10)
    yield WideDeepCase(64, 50, 8, 5, 32, ALL_PASSES)
    yield WideDeepCase(3, 1000, 32, 26, 128, ALL_PASSES)
    yield WideDeepCase(1, 7, 1, 1, 5, ALL_PASSES)
    yield WideDeepCurve(64)
    for model in ("mnist_keras", "mnist_custom"):
        for batch in (1, 3, 64):
            yield ModelCase(model, 28, 1, batch, 10, ALL_PASSES, shallow, 5)


def all_cases(data):
    yield from model_cases()
    if data:
        # Rates at which training is calm: at larger ones it is chaotic, and two precisions of
        # PyTorch itself part by more than 1 % within fifty steps.
        for optimizer, rate in (("sgd", 0.01), ("adam", 5e-4)):
            for batch in (64, 3, 1):
                yield CurveCase(optimizer, rate, batch, data)
    for number, (name, lines, batch) in enumerate(cases.all_cases()):
        text = "\n".join(lines)
        case = Case(name, text, batch, lambda inputs, walk, text=text: oracle.run_lines(
            text, inputs, walk), number)
        case.threads = number % 3       # all there are, one, two
        yield case


def run_program(program, folder, count):
    """Runs cases 0..count-1 of a folder; a crash loses one case, not those behind it. Gives the
    message of each case that has no result."""
    messages, first = {}, 0
    while first < count:
        pairs = [os.path.join(folder, f"{number}.{kind}") for number in range(first, count)
                 for kind in ("case", "result")]
        done = subprocess.run([program] + pairs, capture_output=True, text=True)
        number, refused = first - 1, {}
        for line in done.stdout.splitlines():
            if line.startswith("failed: "):
                refused[number] = line
            else:
                number += 1
        number = max(number, first)
        missing = not os.path.exists(pairs[2 * (number - first) + 1])
        if number not in refused and (missing or (done.returncode != 0 and not refused)):
            refused[number] = f"status {done.returncode}: " + first_error(done.stderr)
        messages.update(refused)
        first = number + 1
    return messages


def first_error(text):
    """The line of a sanitizer's report that says what happened, else the last."""
    lines = text.strip().splitlines() or ["nothing on standard error"]
    return next((line for line in lines if "ERROR" in line or "runtime error" in line), lines[-1])


def check_group(program, group):
    """(name, failures, worst) of each case. Runs in a process of its own."""
    torch.set_num_threads(1)
    folder = tempfile.mkdtemp(prefix="lockstep-reference-")
    try:
        expected = []
        for number, case in enumerate(group):
            tensors, wanted = case.prepare()
            tensor_file.write(os.path.join(folder, f"{number}.case"), tensors, case.notes())
            expected.append(wanted)
        messages = run_program(program, folder, len(group))
        return [judge(case, expected[number], folder, number, messages)
                for number, case in enumerate(group)]
    finally:
        shutil.rmtree(folder)


def judge(case, expected, folder, number, messages):
    if number in messages:
        return case.name, [messages[number]], math.inf
    actual = tensor_file.read(os.path.join(folder, f"{number}.result"))
    failures, worst = case.compare(expected, actual)
    return case.name, failures, worst


def check_numbered(arguments):
    program, numbers = arguments
    return check_group(program, [CASES[number] for number in numbers])


def group_cases(chosen):
    """Numbers of cases to run together: large ones alone and first, small ones by the dozen."""
    large = sorted((number for number in range(len(chosen)) if chosen[number].cost),
                   key=lambda number: -chosen[number].cost)
    small = [number for number in range(len(chosen)) if not chosen[number].cost]
    return [[number] for number in large] + [small[i:i + 24] for i in range(0, len(small), 24)]


CASES = []      # set before the workers fork, so that they have it too


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--worst", action="store_true", help="print each case's worst error")
    arguments = parser.parse_args()
    data = mnist()
    if not data:
        if os.environ.get("LOCKSTEP_REQUIRE_DATA") == "1":
            sys.exit("mnist: no files, and LOCKSTEP_REQUIRE_DATA=1 asks for them")
        print("6 cases skipped: no MNIST files (LOCKSTEP_DATA says where data is)")
    CASES.extend(case for case in all_cases(data) if arguments.only in case.name)
    if arguments.list:
        print("\n".join(case.name for case in CASES))
        return 0
    return run_all(arguments)


def run_all(arguments):
    passed = failed = 0
    work = [(arguments.program, numbers) for numbers in group_cases(CASES)]
    with multiprocessing.Pool(min(2, os.cpu_count() or 1)) as pool:
        for results in pool.imap_unordered(check_numbered, work):
            for name, failures, worst in results:
                if arguments.worst:
                    print(f"{worst:8.3f} of the tolerance: {name}")
                for line in failures:
                    print(f"{name}: {line}")
                passed += not failures
                failed += bool(failures)
                sys.stdout.flush()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
