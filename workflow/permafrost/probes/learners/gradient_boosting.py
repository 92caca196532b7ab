"""Gradient-boosted trees. They are fitted in one thread, so that no result depends on the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from permafrost.core.options import Above0, AtLeast2, Options, Positive
from permafrost.core.targets import Labels
from permafrost.probes.embeddings.features import Features, check_splits, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.knn.centroids import of_all_classes
from permafrost.probes.learners.shared import (
    Scores,
    fitted,
    prediction_of,
    shares_of_ones,
    validation_value,
)


@dataclass(frozen=True, kw_only=True)
class GradientBoostingOptions(Options):
    """Gradient-boosted trees; the number of rounds is chosen on validation."""

    learning_rate: Above0 = 0.1
    """Shrinkage of each round."""
    rounds: Positive = 100
    """Largest number of rounds, each of which adds a tree per class."""
    leaves: AtLeast2 = 31
    """Largest number of leaves of a tree."""


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
        models = fitted(lambda: make(**made), train)
        values = [validation_value(val, scores) for scores in _rounds(models, val, options.rounds)]
        best = int(np.argmax(values)) + 1 if values else options.rounds
        (scores,) = islice(_rounds(models, test, options.rounds), best - 1, best)
    settings = {
        "rounds": best,
        "learning_rate": options.learning_rate,
        "val_score": max(values, default=None),
    }
    return prediction_of(train, scores, settings)


run = on_embeddings(run_gradient_boosting)


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
            yield np.stack([shares_of_ones(one.classes_, shares) for one, shares in pairs], axis=1)
        else:
            yield of_all_classes(models[0].classes_, answers[0], len(asked.classes), missing=0.0)
