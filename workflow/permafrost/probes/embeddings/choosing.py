"""How a probe's settings are compared on validation: by the metric that the task is ranked by."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.classification import accuracy, micro_average_precision


def score_on_validation(labels, scores, prediction, task: str) -> float:
    """Accuracy of `prediction`, or micro-AP of `scores` for ``multilabel``.

    Raises
    ------
    PermafrostError : no validation sample, or none with a label.
    """
    labels = np.asarray(labels)
    if not len(labels) or (task == "multilabel" and not labels.any()):
        lacking = "has any label, so micro-AP is undefined" if len(labels) else "is there"
        raise PermafrostError(
            f"no validation sample {lacking}",
            where="validation split",
            remedy="split the dataset so that validation holds samples with labels",
        )
    if task == "multilabel":
        return float(micro_average_precision(labels, scores))
    return float(accuracy(labels, prediction))


def validation_metric(task: str) -> dict:
    """What `score_on_validation` gives, as an entry of a probe's settings."""
    return {"val_metric": "micro_ap" if task == "multilabel" else "accuracy"}
