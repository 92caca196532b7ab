"""Support vector machines, of features with mean 0 and standard deviation 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from permafrost.core.options import Above0, Different, Options, Positive
from permafrost.core.targets import Labels
from permafrost.probes.embeddings.arithmetic import centre_and_scale, scaled
from permafrost.probes.embeddings.features import Features, check_splits, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.knn.centroids import of_all_classes
from permafrost.probes.learners.shared import Scores, fitted, prediction_of, validation_value


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
    make = partial(
        SVC if isinstance(train.targets, Labels) else SVR,
        kernel=options.kernel,
        gamma=1.0 / train.embeddings.shape[1],
    )
    models, values = [], []
    for c in options.c:
        models.append(fitted(partial(make, C=c), train))
        if not len(val.labels):
            break
        values.append(validation_value(val, _decisions(models[-1], val)))
    best = int(np.argmax(values)) if values else 0
    settings = {
        "kernel": options.kernel,
        "c": options.c[best],
        "val_score": values[best] if values else None,
        "n_fitted": len(train.labels),
    }
    on_edge = len(values) > 1 and best in (0, len(values) - 1)
    gates = ["best_c_on_edge"] if on_edge else []
    return prediction_of(train, _decisions(models[best], test), settings, gates)


run = on_embeddings(run_svm)


def _drawn(train: Features, most: int, seed: int) -> Features:
    """At most this many samples, in their order."""
    count = len(train.labels)
    if count <= most:
        return train
    rows = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
    return Features(
        train.embeddings[rows], train.labels[rows], train.samples.take(rows), train.attributes
    )


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
    return of_all_classes(models[0].classes_, scores, len(asked.classes))
