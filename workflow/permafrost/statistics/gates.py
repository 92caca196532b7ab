"""Sanity gates: signs that a score should not be believed. They are recorded, never acted upon."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.classification.evaluate import PRIMARY, check_task

BELOW_CHANCE = "below_chance"
ONE_CLASS = "one_class_predictions"
MISSING_IN_TEST = "class_missing_in_test"


def chance_level(target, task: str) -> float:
    """What the primary metric gives without looking at the images.

    For accuracy, the share of the most frequent class of the test set (always answering it). For
    micro-AP, the share of positives among all entries (the expected precision of a random order).
    """
    check_task(task)
    target = np.asarray(target)
    if task == "multilabel":
        return float(np.count_nonzero(target)) / target.size
    return int(np.bincount(target).max()) / len(target)


def below_chance(target, rows: list[dict], task: str) -> list[str]:
    """``below_chance`` if the interval of the primary metric ends at or below `chance_level`.

    It takes the upper end, so a backbone that may still be better than chance is not accused. On
    a test set of one class nothing is better than chance, and the gate says so.

    Parameters
    ----------
    target : (N,) or (N, L) of the test set.
    rows : of `bootstrap_scores` for it.
    """
    chance = chance_level(target, task)
    upper = [row["upper"] for row in rows if row["metric"] == PRIMARY[task]]
    return [BELOW_CHANCE] if any(end <= chance for end in upper) else []


def one_class_predictions(target, prediction) -> list[str]:
    """``one_class_predictions`` if all predictions are the same though the targets are not.

    For multi-label arrays, if every image is given the same set of labels.
    """
    return [ONE_CLASS] if _constant(prediction) and not _constant(target) else []


def class_missing_in_test(target, task: str, classes: int) -> list[str]:
    """``class_missing_in_test:c`` for every class id c without a (positive) test sample."""
    check_task(task)
    target = np.asarray(target)
    if task == "multilabel":
        present = np.count_nonzero(target, axis=0)
    else:
        present = np.bincount(target, minlength=classes)
    return [f"{MISSING_IN_TEST}:{label}" for label in np.flatnonzero(present == 0)]


def score_gates(target, prediction, rows: list[dict], *, task: str, classes: int) -> list[str]:
    """All gates of this module, in a fixed order; arguments as above."""
    return [
        *below_chance(target, rows, task),
        *one_class_predictions(target, prediction),
        *class_missing_in_test(target, task, classes),
    ]


def _constant(values) -> bool:
    values = np.asarray(values)
    return bool((values == values[:1]).all())
