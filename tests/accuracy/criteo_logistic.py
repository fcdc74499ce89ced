#!/usr/bin/env python3
"""Hashed logistic regression on Criteo rows by scikit-learn: the yardstick of
tests/accuracy/criteo. Prints the AUC of each fold as JSON.

usage: criteo_logistic.py FOLDER...   (each with train.csv and eval.csv)"""

import csv
import json
import pathlib
import sys

import numpy
from scipy import sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def read(path):
    """Labels, numbers [rows, 13] (0 where missing), categories as "column=text"."""
    labels, numbers, texts = [], [], []
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.reader(file):
            labels.append(int(row[0]))
            numbers.append([float(x or 0) for x in row[1:14]])
            texts.append([f"{i}={x}" for i, x in enumerate(row[14:40])])
    return numpy.array(labels), numpy.array(numbers), texts


def features(numbers, texts, scale):
    """Counts are heavy-tailed: their logarithms, to mean 0 and deviation 1."""
    logs = (numpy.log1p(numpy.maximum(numbers, 0)) - scale[0]) / scale[1]
    hashed = FeatureHasher(n_features=2**18, input_type="string").transform(texts)
    return sparse.hstack([sparse.csr_matrix(logs), hashed]).tocsr()


def fit(x, y, strength):
    return LogisticRegression(C=strength, max_iter=1000).fit(x, y)


def judge(folder):
    y, numbers, texts = read(folder / "train.csv")
    logs = numpy.log1p(numpy.maximum(numbers, 0))
    scale = logs.mean(0), logs.std(0) + 1e-9
    x = features(numbers, texts, scale)
    inner_x, held_x, inner_y, held_y = train_test_split(x, y, test_size=0.2, random_state=1,
                                                        stratify=y)
    best = max(STRENGTHS, key=lambda c: roc_auc_score(
        held_y, fit(inner_x, inner_y, c).decision_function(held_x)))
    y_test, numbers, texts = read(folder / "eval.csv")
    model = fit(x, y, best)
    test = features(numbers, texts, scale)
    return {"auc": roc_auc_score(y_test, model.decision_function(test)),
            "log_loss": log_loss(y_test, model.predict_proba(test)[:, 1]), "strength": best}


print(json.dumps([judge(pathlib.Path(name)) for name in sys.argv[1:]]))
