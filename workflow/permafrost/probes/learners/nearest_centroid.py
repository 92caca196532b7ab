"""The class whose mean is nearest."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.core.options import Options
from permafrost.probes.embeddings.features import Features, check_splits, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.knn.centroids import Centroids
from permafrost.probes.learners.shared import prediction_of
from permafrost.probes.options import Metric


@dataclass(frozen=True, kw_only=True)
class NearestCentroidOptions(Options):
    """The class whose mean over the training images is nearest."""

    metric: Metric = "l2"
    """Distance to the mean; for cosine it is the mean of features of length 1."""


def run_nearest_centroid(
    splits: dict[str, Features], options: NearestCentroidOptions, *, device: str, seed: int
) -> Prediction:
    """Predict the class with the nearest mean; validation is not used. Equal distances go to the lowest class."""
    check_splits(splits, where="nearest_centroid")
    train, test = splits["train"], splits["test"]
    means = Centroids(train.embeddings, train.labels, len(train.classes), options.metric)
    return prediction_of(train, means.scores(test.embeddings), {"metric": options.metric})


run = on_embeddings(run_nearest_centroid)
