"""IoU and other metrics of segmentation, from counts of pixels.

Classes of the means
--------------------
Ignored pixels are not counted. Means over classes cover the classes that occur in the truth
*or* the prediction, as in torchmetrics (``average="macro"``). A dead class, one that the dataset
never contains or declares dead, is in none of them and has no IoU. Pixels predicted as a dead class
are errors of their true class. Pixels of a dead class, if there are any, are errors of the
predicted class and in pixel accuracy.
Without scored pixels all metrics are NaN, while torchmetrics has NaN for IoU and 0 for the others.

Change
------
In masks of change, class 0 is no change, and the others are kinds of change. ``change_f1``, ``change_iou``,
``change_precision`` and ``change_recall`` are means over the kinds by the same rules. With one kind they are the
values of this class, as in OSCD and LEVIR-CD. With several they are arithmetic means, while xView2 uses the
harmonic mean of the F1 of each kind of damage on pixels of buildings. If nothing changed, they are NaN if no change
is predicted, else 0.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.targets import NO_CHANGE
from permafrost.core.tasks import targets_of
from permafrost.metrics.ratios import divide, macro_means, mean_of_defined
from permafrost.metrics.segmentation.confusion import class_counts
from permafrost.metrics.tasks import class_metrics, overall_metrics


def evaluate(
    confusion, *, task: str = "segmentation", dead_classes: Iterable[int] = (), boundary=None
) -> dict:
    """Compute all metrics of a task with masks.

    Parameters
    ----------
    confusion : (…, K, K) counts, rows truth, columns predictions; summed over a test set, or one
        matrix per image along the leading axes.
    dead_classes : ids of classes that no mean includes. Add the `ignore_index` if it is one of the
        classes: it has no true pixels, but may be predicted.
    boundary : (intersection, union) of boundaries, (…, K) each, from `boundary_counts`; None omits
        boundary metrics.

    Returns
    -------
    Metric name to an array of the leading shape, then metric name to (…, K) per class; NaN where
    undefined.
    """
    boundary = None if boundary is None else [np.moveaxis(counts, -1, 0) for counts in boundary]
    counts = class_counts(confusion)
    values = evaluate_counts(*counts, task=task, dead_classes=dead_classes, boundary=boundary)
    for name in class_metrics(task, boundary=boundary is not None):
        values[name] = np.moveaxis(values[name], 0, -1)
    return values


def evaluate_counts(
    hits,
    truths,
    predictions,
    *,
    task: str = "segmentation",
    dead_classes: Iterable[int] = (),
    boundary=None,
) -> dict:
    """Compute the metrics of `evaluate` from `class_counts`; classes are the first axis.

    Parameters
    ----------
    hits, truths, predictions : (K, …) counts; floats if sums exceed the range of integers.
    boundary : (intersection, union), (K, …) each.

    Returns
    -------
    Metric name to (…), then metric name to (K, …) per class.
    """
    alive = np.ones(len(hits), bool)
    alive[_known(dead_classes, len(hits))] = False
    iou = _ratio(hits, truths + predictions - hits, alive)
    values = {
        "mean_iou": mean_of_defined(iou),
        "frequency_weighted_iou": _weighted(iou, truths, alive),
        "pixel_accuracy": divide(hits.sum(axis=0), truths.sum(axis=0)),
        **macro_means(hits[alive], truths[alive], predictions[alive]),
    }
    each = {"iou": iou}
    if targets_of(task).of_pairs:
        values |= _of_change(hits, truths, predictions, iou, alive)
        each["f1"] = _ratio(2 * hits, truths + predictions, alive)
    if boundary is not None:
        each["boundary_iou"] = _ratio(*boundary, alive)  # type: ignore[call-arg]  # unpacks a pair
        values["mean_boundary_iou"] = mean_of_defined(each["boundary_iou"])
    wanted = {*overall_metrics(task, len(hits), boundary=True), *each}
    return {name: value for name, value in (values | each).items() if name in wanted}


def _of_change(hits, truths, predictions, iou, alive: np.ndarray) -> dict:
    kinds = alive.copy()
    kinds[NO_CHANGE] = False
    means = macro_means(hits[kinds], truths[kinds], predictions[kinds])
    renamed = {name.replace("macro", "change"): value for name, value in means.items()}
    return {**renamed, "change_iou": mean_of_defined(iou[kinds])}


def _ratio(numerator, denominator, alive: np.ndarray) -> np.ndarray:
    ratio = divide(numerator, denominator)
    ratio[~alive] = np.nan
    return ratio


def _weighted(iou: np.ndarray, truths, alive: np.ndarray) -> np.ndarray:
    # a class with true pixels has an IoU, so no undefined value gets weight
    weighted = np.where(truths[alive] > 0, iou[alive] * truths[alive], 0.0)
    return divide(weighted.sum(axis=0), truths[alive].sum(axis=0))


def _known(dead_classes: Iterable[int], classes: int) -> list[int]:
    dead = sorted(set(dead_classes))
    if dead and not 0 <= dead[0] <= dead[-1] < classes:
        raise PermafrostError(
            f"dead classes {', '.join(map(str, dead))} of a dataset of {classes} classes",
            remedy="name class ids from 0 on",
        )
    return dead
