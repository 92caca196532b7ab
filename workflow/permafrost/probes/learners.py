"""Learners that practitioners use, from scikit-learn, on frozen features.

A random forest, gradient-boosted trees, support vectors, and the nearest class mean. Results do not depend on the
number of threads: answers of trees are added in their order, and boosting runs in one thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import Any, Literal, cast

import numpy as np

from permafrost.core.options import Above0, AtLeast2, Different, Options, Positive
from permafrost.core.targets import Labels
from permafrost.probes.embeddings.arithmetic import (
    centre_and_scale,
    scaled,
    score_on_validation,
)
from permafrost.probes.embeddings.features import (
    Features,
    check_splits,
    class_gates,
    on_embeddings,
)
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.knn.distances import unit
from permafrost.probes.options import Metric

#: scores of a split: (N, K) of classes or labels, (N, 1) numbers
type Scores = np.ndarray


@dataclass(frozen=True, kw_only=True)
class RandomForestOptions(Options):
    """A random forest; each split of a tree sees the square root of the number of features (of numbers, a third)."""

    trees: Positive = 500
    """Number of trees."""
    leaf: Positive = 1
    """Smallest number of training images in a leaf."""


@dataclass(frozen=True, kw_only=True)
class GradientBoostingOptions(Options):
    """Gradient-boosted trees; the number of rounds is chosen on validation."""

    learning_rate: Above0 = 0.1
    """Shrinkage of each round."""
    rounds: Positive = 100
    """Largest number of rounds, each of which adds a tree per class."""
    leaves: AtLeast2 = 31
    """Largest number of leaves of a tree."""


@dataclass(frozen=True, kw_only=True)
class SvmOptions(Options):
    """A support vector machine on standardised features, its C chosen on validation."""

    kernel: Literal["rbf", "linear"] = "rbf"
    """Kernel; the width of rbf is one over the number of features."""
    c: Different[Above0] = field(default_factory=lambda: [0.1, 1.0, 10.0, 100.0])
    """Inverse strengths of regularisation to try; of equally good ones the first is used."""
    max_samples: Positive = 20_000
    """Largest number of training images, since time grows with its square; if there are more, this many are drawn at
    random."""


@dataclass(frozen=True, kw_only=True)
class NearestCentroidOptions(Options):
    """The class whose mean over the training images is nearest."""

    metric: Metric = "l2"
    """Distance to the mean; for cosine it is the mean of features of length 1."""


def run_random_forest(
    splits: dict[str, Features], options: RandomForestOptions, *, device: str, seed: int
) -> Prediction:
    """Fit on train and predict test; validation is not used."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    check_splits(splits, where="random_forest")
    train, test = splits["train"], splits["test"]
    settings: dict[str, Any] = {"trees": options.trees, "leaf": options.leaf}
    made: dict[str, Any] = {
        "n_estimators": options.trees,
        "min_samples_leaf": options.leaf,
        "random_state": seed % 2**32,
        "n_jobs": _threads(),
    }
    if not isinstance(train.targets, Labels):
        forest = RandomForestRegressor(max_features=1 / 3, **made)
        forest.fit(train.embeddings, train.labels)
        trees = sum(tree.predict(test.embeddings) for tree in forest.estimators_)
        return Prediction(trees / options.trees, None, settings)
    forest = RandomForestClassifier(**made).fit(train.embeddings, train.labels)
    several = train.labels.ndim == 2
    known = forest.classes_ if several else [forest.classes_]
    shares = [np.zeros((len(test.embeddings), len(classes))) for classes in known]
    for tree in forest.estimators_:
        answers = tree.predict_proba(test.embeddings)
        for total, one in zip(shares, answers if several else [answers], strict=True):
            total += one
    if several:
        scores = np.stack([_of_ones(*one) for one in zip(known, shares, strict=True)], axis=1)
    else:
        scores = _of_all(known[0], shares[0], len(train.classes), missing=0.0)
    return _labelled(train, scores / options.trees, settings)


def run_gradient_boosting(
    splits: dict[str, Features], options: GradientBoostingOptions, *, device: str, seed: int
) -> Prediction:
    """Fit on train, choose the number of rounds on validation (all if it is empty), and predict test."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    check_splits(splits, where="gradient_boosting")
    train, val, test = (splits[name] for name in ("train", "val", "test"))
    labels = isinstance(train.targets, Labels)
    make = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    made = {
        "learning_rate": options.learning_rate,
        "max_iter": options.rounds,
        "max_leaf_nodes": options.leaves,
        "early_stopping": False,
        "random_state": seed % 2**32,
    }
    # sums of gradients over threads have no order
    with threadpool_limits(1, user_api="openmp"):
        models = _fitted(lambda: make(**made), train)
        values = [_value(val, scores) for scores in _rounds(models, val, options.rounds)]
        best = int(np.argmax(values)) + 1 if values else options.rounds
        (scores,) = islice(_rounds(models, test, options.rounds), best - 1, best)
    settings = {
        "rounds": best,
        "learning_rate": options.learning_rate,
        "val_score": max(values, default=None),
    }
    return _labelled(train, scores, settings)


def run_svm(
    splits: dict[str, Features], options: SvmOptions, *, device: str, seed: int
) -> Prediction:
    """Fit on train with each C, choose on validation (the first C if it is empty), and predict test."""
    from sklearn.svm import SVC, SVR

    check_splits(splits, where="svm")
    train, val, test = (splits[name] for name in ("train", "val", "test"))
    train = _drawn(train, options.max_samples, seed)
    moved = centre_and_scale(train.embeddings, standardize=True)
    train, val, test = (
        Features(scaled(one.embeddings, *moved), one.labels, one.samples, one.attributes)
        for one in (train, val, test)
    )
    labels = isinstance(train.targets, Labels)
    gamma = 1.0 / train.embeddings.shape[1]
    models, values = [], []
    for c in options.c:
        made: dict[str, Any] = {"kernel": options.kernel, "C": c, "gamma": gamma}
        if labels:
            made["decision_function_shape"] = "ovr"
        models.append(_fitted(lambda: (SVC if labels else SVR)(**made), train))  # noqa: B023
        if not len(val.labels):
            break
        values.append(_value(val, _decisions(models[-1], val)))
    best = int(np.argmax(values)) if values else 0
    settings = {
        "kernel": options.kernel,
        "c": options.c[best],
        "val_score": values[best] if values else None,
        "n_fitted": len(train.labels),
    }
    on_edge = len(values) > 1 and best in (0, len(values) - 1)
    gates = ["best_c_on_edge"] if on_edge else []
    return _labelled(train, _decisions(models[best], test), settings, gates)


def run_nearest_centroid(
    splits: dict[str, Features], options: NearestCentroidOptions, *, device: str, seed: int
) -> Prediction:
    """Predict the class with the nearest mean; validation is not used. Equal distances go to the lowest class."""
    check_splits(splits, where="nearest_centroid")
    train, test = splits["train"], splits["test"]
    cosine = options.metric == "cosine"
    rows, asked = (
        unit(one.embeddings) if cosine else np.asarray(one.embeddings, np.float64)
        for one in (train, test)
    )
    known, classes = np.unique(train.labels, return_inverse=True)
    means = np.stack([rows[classes == one].mean(axis=0) for one in range(len(known))])
    if cosine:
        scores = asked @ unit(means).T
    else:
        scores = -np.stack([((asked - one) ** 2).sum(axis=1) for one in means], axis=1)
    scores = _of_all(known, scores, len(train.classes))
    return _labelled(train, scores, {"metric": options.metric})


random_forest = on_embeddings(run_random_forest)
gradient_boosting = on_embeddings(run_gradient_boosting)
svm = on_embeddings(run_svm)
nearest_centroid = on_embeddings(run_nearest_centroid)


def _threads() -> int:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return int(threads) if threads.isdecimal() and int(threads) else 1


def _drawn(train: Features, most: int, seed: int) -> Features:
    """At most this many samples, in their order."""
    count = len(train.labels)
    if count <= most:
        return train
    rows = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
    return Features(
        train.embeddings[rows], train.labels[rows], train.samples.take(rows), train.attributes
    )


class _OneClass:
    """The model of targets that are all the same, which the library does not fit."""

    def __init__(self, value) -> None:
        self.classes_ = np.array([value])

    def decision_function(self, rows) -> np.ndarray:
        return np.zeros((len(rows), 1))

    def staged_predict_proba(self, rows) -> Iterator[np.ndarray]:
        return repeat(np.ones((len(rows), 1)))


def _fitted(make: Callable[[], Any], train: Features) -> list:
    """A model, or one per label."""
    columns = train.labels.T if train.labels.ndim == 2 else [train.labels]
    labels = isinstance(train.targets, Labels)
    return [
        _OneClass(column[0])
        if labels and (column == column[0]).all()
        else make().fit(train.embeddings, column)
        for column in columns
    ]


def _rounds(models: list, asked: Features, rounds: int) -> Iterator[Scores]:
    """Scores after each round of boosting; none without samples."""
    rows, targets = asked.embeddings, asked.targets
    if not len(rows):
        return
    if not isinstance(targets, Labels):
        yield from (numbers[:, None] for numbers in models[0].staged_predict(rows))
        return
    staged = (one.staged_predict_proba(rows) for one in models)
    # labels of one value have endless rounds
    for answers in islice(zip(*staged, strict=False), rounds):
        if targets.several:
            pairs = zip(models, answers, strict=True)
            yield np.stack([_of_ones(one.classes_, shares) for one, shares in pairs], axis=1)
        else:
            yield _of_all(models[0].classes_, answers[0], len(asked.classes), missing=0.0)


def _decisions(models: list, asked: Features) -> Scores:
    """Scores of support vector machines: decision values of classes, of labels their logistic function."""
    rows, targets = asked.embeddings, asked.targets
    if not isinstance(targets, Labels):
        return models[0].predict(rows)[:, None]
    found = [one.decision_function(rows) for one in models]
    if targets.several:
        # of one value, it is certain
        columns = [
            one if one.ndim == 1 else np.full(len(rows), np.inf if model.classes_[0] else -np.inf)
            for model, one in zip(models, found, strict=True)
        ]
        return targets.probabilities(np.stack(columns, axis=1))
    scores = found[0] if found[0].ndim == 2 else np.stack([-found[0], found[0]], axis=1)
    return _of_all(models[0].classes_, scores, len(asked.classes))


def _of_all(
    known: np.ndarray, scores: np.ndarray, classes: int, missing: float | None = None
) -> Scores:
    """(N, K) scores of all classes from those in train; the others get `missing`, by default less than any."""
    lowest = scores.min(axis=1, keepdims=True) - 1.0 if missing is None else missing
    every = np.full((len(scores), classes), 0.0) + lowest
    every[:, known] = scores
    return every


def _of_ones(known: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(N,) shares of the value 1 of a label."""
    return shares[:, list(known).index(1)] if 1 in known else np.zeros(len(shares))


def _value(val: Features, scores: Scores) -> float:
    """The validation metric; of numbers the negative mean squared error."""
    targets = val.targets
    if not isinstance(targets, Labels):
        return -float(np.mean((scores[:, 0] - val.labels) ** 2))
    return score_on_validation(val.labels, scores, targets.answers(scores), val.task)


def _labelled(
    train: Features, scores: Scores, settings: dict, gates: list[str] | None = None
) -> Prediction:
    targets = train.targets
    if not isinstance(targets, Labels):
        return Prediction(scores[:, 0], None, settings, gates or [])
    scores = scores.astype(np.float32)
    missing = class_gates(train.labels, train.task, len(train.classes))
    answers = cast("Labels", targets).answers(scores)
    return Prediction(answers, scores, settings, [*(gates or []), *missing])
