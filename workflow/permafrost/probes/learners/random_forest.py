"""A random forest. Answers of trees are added in their order, so no result depends on the number of threads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from permafrost.core.options import Options, Positive
from permafrost.core.targets import Labels
from permafrost.probes.embeddings.features import Features, check_splits, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.knn.centroids import of_all_classes
from permafrost.probes.learners.shared import prediction_of, shares_of_ones


@dataclass(frozen=True, kw_only=True)
class RandomForestOptions(Options):
    """A random forest; each split of a tree sees the square root of the number of features (of numbers, a third)."""

    trees: Positive = 500
    """Number of trees."""
    leaf: Positive = 1
    """Smallest number of training images in a leaf."""


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
        scores = np.stack([shares_of_ones(*one) for one in zip(known, shares, strict=True)], axis=1)
    else:
        scores = of_all_classes(known[0], shares[0], len(train.classes), missing=0.0)
    return prediction_of(train, scores / options.trees, settings)


run = on_embeddings(run_random_forest)


def _threads() -> int:
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return int(threads) if threads.isdecimal() and int(threads) else 1
