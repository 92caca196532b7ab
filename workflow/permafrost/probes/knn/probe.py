"""The nearest-neighbour probe: feature stores of a backbone in, test predictions out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.device import resolve_device
from permafrost.core.options import Options, Positive
from permafrost.core.targets import Labels
from permafrost.probes.embeddings.arithmetic import check_labels
from permafrost.probes.embeddings.features import Features, class_gates, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.knn.search import mean_vote, neighbours, vote
from permafrost.probes.knn.ties import tie_gates
from permafrost.probes.options import Metric


@dataclass(frozen=True, kw_only=True)
class KnnOptions(Options):
    """Predicts from the nearest training images."""

    k: Positive = 5
    """Number of neighbours."""
    metric: Metric = "l2"
    """Distance between embeddings."""


def run_knn(
    splits: dict[str, Features], options: KnnOptions, *, device: str, seed: int
) -> Prediction:
    """Predict the test split from its neighbours in train; validation and `seed` are not used.

    Classes by vote, other targets as the mean of the neighbours. `ties` reports predictions decided by ties.
    """
    train, test = splits["train"], splits["test"]
    settings, classes = {"k": options.k, "metric": options.metric}, len(train.classes)
    rows = (train.embeddings, test.embeddings)
    where = {"metric": options.metric, "device": resolve_device(device, "faiss")}
    votes, labels = isinstance(train.targets, Labels), train.labels
    if votes:
        labels = check_labels(labels, len(train.embeddings), classes, train.task, "knn, train")
    # one more neighbour, which may be tied with the last
    more = options.k + (options.k < len(train.embeddings))
    found = neighbours(*rows, more, **where)

    def answer(near: np.ndarray, _=None) -> tuple[np.ndarray | None, np.ndarray]:
        if votes:
            return vote(near, labels, n_classes=classes, task=train.task)
        return None, mean_vote(near, labels)

    scores, prediction = answer(found[:, : options.k])
    gates = tie_gates(*rows, found, answer, k=options.k, **where)
    gates += class_gates(train.labels, train.task, classes)
    return Prediction(prediction, scores, settings, gates)


run = on_embeddings(run_knn, streams=True)
