#!/usr/bin/python3
"""Writes vectors.h: weights after some of 20 steps of every optimizer, and rates of every schedule.

Everything is computed in double: by PyTorch where it has the rule in our form, else by the
published formula. Run it with a python3 that has torch and numpy:

    ./make_vectors.py > vectors.h
"""
import math

import numpy as np
import torch

COUNT, STEPS = 37, 20
KEPT = (1, 2, 5, 20)


def weight(i):
    """The start; test_optimizers.c computes the same numbers, exact in float32."""
    return np.float32((i * 7919 + 31) % 257 - 128) / np.float32(128)


def gradient(i, step):
    return np.float32((i * 104729 + step * 15485863 + 7) % 513 - 256) / np.float32(256)


def rate(step):
    """A rate that changes, to tell rules apart that keep it inside the velocity."""
    return np.float32(0.0625) if step <= 10 else np.float32(0.03125)


START = np.array([weight(i) for i in range(COUNT)], np.float64)
GRADIENTS = [np.array([gradient(i, s) for i in range(COUNT)], np.float64)
             for s in range(1, STEPS + 1)]


def by_torch(make):
    w = torch.nn.Parameter(torch.tensor(START, dtype=torch.float64))
    optimizer = make([w])
    for step in range(1, STEPS + 1):
        for group in optimizer.param_groups:
            group["lr"] = float(rate(step))
        w.grad = torch.tensor(GRADIENTS[step - 1])
        optimizer.step()
        yield step, w.detach().numpy().copy()


def f32(x):
    """The value an option has once it is a float."""
    return float(np.float32(x))


def rmsprop(momentum, decay_rate, epsilon, weight_decay):
    """TensorFlow's ApplyRMSProp."""
    w, s, v = START.copy(), np.ones(COUNT), np.zeros(COUNT)
    for step in range(1, STEPS + 1):
        g = GRADIENTS[step - 1] + weight_decay * w
        s = decay_rate * s + (1 - decay_rate) * g * g
        v = momentum * v + float(rate(step)) * g / np.sqrt(s + epsilon)
        w = w - v
        yield step, w.copy()


def ftrl(l1, l2, power):
    """TensorFlow's ApplyFtrl."""
    w, n, z = START.copy(), np.full(COUNT, f32(0.1)), np.zeros(COUNT)
    for step in range(1, STEPS + 1):
        g, r = GRADIENTS[step - 1], float(rate(step))
        new = n + g * g
        z = z + g - (new ** -power - n ** -power) / r * w
        y = new ** -power / r + 2 * l2
        w = np.where(np.abs(z) > l1, (np.sign(z) * l1 - z) / y, 0)
        n = new
        yield step, w.copy()


def lars(momentum, trust, weight_decay, excluded):
    """TensorFlow's contrib LARSOptimizer over ApplyMomentum."""
    w, v = START.copy(), np.zeros(COUNT)
    for step in range(1, STEPS + 1):
        g, r = GRADIENTS[step - 1], float(rate(step))
        if not excluded:
            norm = np.linalg.norm
            r *= trust * norm(w) / (norm(g) + weight_decay * norm(w))
            g = g + weight_decay * w
        v = momentum * v + g
        w = w - r * v
        yield step, w.copy()


def settings(**values):
    return ", ".join(f".{key} = {value}" for key, value in values.items())


SGD = torch.optim.SGD
CASES = [
    ("sgd", "sgd", settings(), by_torch(lambda p: SGD(p, lr=1))),
    ("sgd with decay", "sgd", settings(weight_decay=0.01),
     by_torch(lambda p: SGD(p, lr=1, weight_decay=f32(0.01)))),
    ("momentum", "momentum", settings(momentum=0.9),
     by_torch(lambda p: SGD(p, lr=1, momentum=f32(0.9)))),
    ("momentum with decay", "momentum", settings(momentum=0.9, weight_decay=0.01),
     by_torch(lambda p: SGD(p, lr=1, momentum=f32(0.9), weight_decay=f32(0.01)))),
    ("nesterov with decay", "momentum",
     settings(momentum=0.9, weight_decay=0.01, nesterov="true"),
     by_torch(lambda p: SGD(p, lr=1, momentum=f32(0.9), weight_decay=f32(0.01), nesterov=True))),
    ("rmsprop of tf_cnn_benchmarks", "rmsprop",
     settings(momentum=0.9, decay_rate=0.9, epsilon=1.0),
     rmsprop(f32(0.9), f32(0.9), 1.0, 0.0)),
    ("rmsprop without momentum, with decay", "rmsprop",
     settings(momentum=0, decay_rate=0.95, epsilon=0.001, weight_decay=0.01),
     rmsprop(0.0, f32(0.95), f32(0.001), f32(0.01))),
    ("adam", "adam", settings(beta1=0.9, beta2=0.999, epsilon=1e-8),
     by_torch(lambda p: torch.optim.Adam(p, lr=1, betas=(f32(0.9), f32(0.999)), eps=f32(1e-8)))),
    ("adam of Keras with decay", "adam",
     settings(beta1=0.9, beta2=0.999, epsilon=1e-7, weight_decay=0.01),
     by_torch(lambda p: torch.optim.Adam(p, lr=1, betas=(f32(0.9), f32(0.999)), eps=f32(1e-7),
                                         weight_decay=f32(0.01)))),
    ("adagrad", "adagrad", settings(),
     by_torch(lambda p: torch.optim.Adagrad(p, lr=1, initial_accumulator_value=f32(0.1), eps=0))),
    ("adagrad with epsilon and decay", "adagrad", settings(epsilon=0.5, weight_decay=0.01),
     by_torch(lambda p: torch.optim.Adagrad(p, lr=1, initial_accumulator_value=f32(0.1), eps=0.5,
                                            weight_decay=f32(0.01)))),
    ("ftrl", "ftrl", settings(learning_rate_power=-0.5), ftrl(0, 0, -0.5)),
    ("ftrl with l1 and l2", "ftrl", settings(learning_rate_power=-0.5, l1=0.25, l2=0.125),
     ftrl(0.25, 0.125, -0.5)),
    ("ftrl with another power", "ftrl", settings(learning_rate_power=-0.75, l1=0.25),
     ftrl(0.25, 0, -0.75)),
    ("lars", "lars", settings(momentum=0.9, trust=0.001, weight_decay=0.01),
     lars(f32(0.9), f32(0.001), f32(0.01), False)),
    ("lars on an excluded parameter", "lars", settings(momentum=0.9, trust=0.001),
     lars(f32(0.9), f32(0.001), 0, True)),
]

# ---- schedules -------------------------------------------------------------------------------

BASE, WARMUP, TOTAL = 0.5, 50, 1000
AT = (0, 1, 25, 49, 50, 51, 299, 300, 301, 525, 599, 600, 900, 999, 1000, 1500)


def warmed(after):
    return [BASE * step / WARMUP if step < WARMUP else after(step) for step in AT]


def cosine(step):
    """PyTorch's CosineAnnealingLR in closed form."""
    return BASE * (1 + math.cos(math.pi * min(1, (step - WARMUP) / (TOTAL - WARMUP)))) / 2


def polynomial(power):
    return lambda step: BASE * (1 - min(1, (step - WARMUP) / (TOTAL - WARMUP))) ** power


# 10 steps per epoch: the drops are at 300 and 600.
SCHEDULES = [
    ("constant", warmed(lambda step: BASE)),
    ("piecewise:30=0.1,60=0.01",
     warmed(lambda step: BASE * (1, 0.1, 0.01)[(step >= 300) + (step >= 600)])),
    ("polynomial", warmed(polynomial(2))),
    ("polynomial:1", warmed(polynomial(1))),
    ("cosine", warmed(cosine)),
]


def rows(values):
    text = [f"{value:.17g}" for value in values]
    for first in range(0, len(text), 4):
        print("          " + ", ".join(text[first:first + 4]) + ",")


print("/* Written by make_vectors.py; do not edit. */")
print(f"enum {{ VECTOR_COUNT = {COUNT}, VECTOR_STEPS = {STEPS}, KEPT_STEPS = {len(KEPT)} }};")
print(f"static const int kept_steps[KEPT_STEPS] = {{{', '.join(map(str, KEPT))}}};")
print("static const struct optimizer_case {")
print("    const char *title, *optimizer;")
print("    struct optimizer_settings settings;")
print("    double weights[KEPT_STEPS][VECTOR_COUNT];")
print("} optimizer_cases[] = {")
for title, name, chosen, steps in CASES:
    print(f'    {{"{title}", "{name}", {{{chosen or ".momentum = 0"}}},')
    print("     {")
    for step, weights in steps:
        if step in KEPT:
            print("         {")
            rows(weights)
            print("         },")
    print("     }},")
print("};")
print(f"enum {{ SCHEDULE_POINTS = {len(AT)}, SCHEDULE_EPOCH = 10, SCHEDULE_TOTAL = {TOTAL} }};")
print(f"static const int64_t schedule_points[SCHEDULE_POINTS] = {{{', '.join(map(str, AT))}}};")
print("static const struct schedule_case {")
print("    const char *text;")
print("    double rates[SCHEDULE_POINTS];")
print("} schedule_cases[] = {")
for text, rates in SCHEDULES:
    print(f'    {{"{text}",')
    print("     {")
    rows(rates)
    print("     }},")
print("};")
