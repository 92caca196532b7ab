"""What the learners share: a model per label, and predictions from scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, cast

import numpy as np

from permafrost.core.targets import Labels
from permafrost.probes.embeddings.arithmetic import score_on_validation
from permafrost.probes.embeddings.features import Features, class_gates
from permafrost.probes.embeddings.predictions import Prediction

#: scores of a split: (N, K) of classes or labels, (N, 1) numbers
type Scores = np.ndarray


class _OneClass:
    """The model of targets that are all the same, which the library does not fit."""

    def __init__(self, value) -> None:
        self.classes_ = np.array([value])

    def decision_function(self, rows) -> np.ndarray:
        return np.zeros((len(rows), 1))

    def staged_predict_proba(self, rows) -> Iterator[np.ndarray]:
        return repeat(np.ones((len(rows), 1)))


def fitted(make: Callable[[], Any], train: Features) -> list:
    """A model, or one per label."""
    columns = train.labels.T if train.labels.ndim == 2 else [train.labels]
    labels = isinstance(train.targets, Labels)
    return [
        _OneClass(column[0])
        if labels and (column == column[0]).all()
        else make().fit(train.embeddings, column)
        for column in columns
    ]


def shares_of_ones(known: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(N,) shares of the value 1 of a label."""
    return shares[:, list(known).index(1)] if 1 in known else np.zeros(len(shares))


def validation_value(val: Features, scores: Scores) -> float:
    """The validation metric; of numbers the negative mean squared error."""
    targets = val.targets
    if not isinstance(targets, Labels):
        return -float(np.mean((scores[:, 0] - val.labels) ** 2))
    return score_on_validation(val.labels, scores, targets.answers(scores), val.task)


def prediction_of(
    train: Features, scores: Scores, settings: dict, gates: list[str] | None = None
) -> Prediction:
    """The prediction of these scores, with a warning for each class that train lacks."""
    targets = train.targets
    if not isinstance(targets, Labels):
        return Prediction(scores[:, 0], None, settings, gates or [])
    scores = scores.astype(np.float32)
    missing = class_gates(train.labels, train.task, len(train.classes))
    answers = cast("Labels", targets).answers(scores)
    return Prediction(answers, scores, settings, [*(gates or []), *missing])
