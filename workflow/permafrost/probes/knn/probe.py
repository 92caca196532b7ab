"""The nearest-neighbour probe: feature stores of a backbone in, test predictions out."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.core.device import resolve_device
from permafrost.probes.embeddings.features import Features, class_gates, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.knn.search import knn_predict, mean_vote, neighbours


@dataclass(frozen=True)
class KnnOptions:
    """See ``knn`` in the schema of the configuration."""

    k: int
    metric: str


def run_knn(
    splits: dict[str, Features], options: KnnOptions, *, device: str, seed: int
) -> Prediction:
    """Predict the test split by its neighbours in train; validation and `seed` are not used.

    Classes by vote; numbers as the mean of the neighbours'.
    """
    train, test = splits["train"], splits["test"]
    settings = {"k": options.k, "metric": options.metric}
    if train.task == "regression":
        found = neighbours(
            train.embeddings, test.embeddings, **settings, device=resolve_device(device, "faiss")
        )
        return Prediction(mean_vote(found, train.labels), None, settings)
    scores, prediction = knn_predict(
        train.embeddings,
        train.labels,
        test.embeddings,
        k=options.k,
        metric=options.metric,
        n_classes=len(train.classes),
        task=train.task,
        device=resolve_device(device, "faiss"),
    )
    return Prediction(
        prediction, scores, settings, class_gates(train.labels, train.task, len(train.classes))
    )


run = on_embeddings(run_knn, streams=True)
