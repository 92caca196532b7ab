"""Sanity checks (gates): warnings that a score is unreliable. They change no score.

The truth of a test set, ``truth`` below, is (N,) class ids; (N, L) of 0 and 1 for ``multilabel``;
(N, K) pixels of each class and image for ``segmentation`` and ``change``; (N, K) objects of each
class and image, without crowds, for ``detection`` and ``point_detection``; (N,) numbers for
``regression``; (N, 2) smallest and largest number of each image, NaN without any, for
``pixel_regression``; or (N,) relevant shares of the gallery for ``retrieval``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.targets import (
    NO_CHANGE,
    ChangeMask,
    ClassMask,
    ManyLabels,
    OneClass,
    Relevance,
    by_targets,
)
from permafrost.core.tasks import targets_of
from permafrost.metrics.detection.cut import Cut
from permafrost.metrics.tasks import primary_metric
from permafrost.statistics.resampling.carriers import ENOUGH_UNITS, FEW_UNITS, ONE_UNIT

if TYPE_CHECKING:
    from permafrost.statistics.predictions.reading import Predictions

BELOW_CHANCE = "below_chance"
ONE_CLASS = "one_class_predictions"
CONSTANT_PREDICTIONS = "constant_predictions"
CONSTANT_TEST = "constant_target_in_test"
NO_DETECTIONS = "no_detections"
DETECTIONS_CUT = "detections_cut"
MISSING_IN_TEST = "class_missing_in_test"
HEAVY_TAIL = "heavy_tail"
EQUAL = "equal_in_all_units"
OUT_OF_REACH = "significance_out_of_reach"


def chance_level(truth, task: str, dead_classes: Iterable[int] = ()) -> float:
    """The value of the primary metric without any information from the images.

    Accuracy: the share of the most frequent class of the test set (always predicting it).
    micro-AP: the share of positives among all entries (the expected precision of a random order).
    Mean IoU: assigning the most frequent class to every pixel gives its share of the pixels divided
    by the number of classes of the test set. NaN if the test set contains dead classes only.
    F1 of change: predicting the same change everywhere gives 2 p / (1 + p) for the share p of
    changed pixels; with several kinds, the value of the most frequent one divided by the number of
    kinds of the test set. Predicting no change gives 0. NaN if nothing changed.
    Average precision: 0, for no detections, because random boxes or points hardly ever match.
    R²: 0, for always predicting the mean of the test set. NaN for targets without a known level.
    Mean average precision of retrieval: the mean relevant share of the gallery (the precision of a
    random order), over queries with relevant images.
    """
    targets = targets_of(task)
    if targets.chance is not None:
        return targets.chance
    known = by_targets(_CHANCE, targets)
    return float("nan") if known is None else known(np.asarray(truth), dead_classes)


def below_chance(
    truth, rows: list[dict], task: str, dead_classes: Iterable[int] = (), *, constant: bool = False
) -> list[str]:
    """``below_chance`` if the interval of the primary metric ends at or below `chance_level`.

    It uses the upper end, so a backbone that may be better than chance gets no warning. On a test
    set of one class nothing is better than chance, and the warning is given. For objects, and for
    numbers with constant predictions, a value at or below chance suffices, because no test set
    could give more.

    Parameters
    ----------
    rows : from `bootstrap_scores` for this test set.
    constant : whether all predictions are the same, so that R² cannot be above 0.
    """
    chance = chance_level(truth, task, dead_classes)
    targets, primary = targets_of(task), primary_metric(task)
    known = targets.objects or (targets.numbers and constant)
    rows = [row for row in rows if row["metric"] == primary]
    ends = [row["value"] if known and row["value"] <= chance else row["upper"] for row in rows]
    return [BELOW_CHANCE] if any(end <= chance for end in ends) else []


def one_class_predictions(truth, answers, task: str) -> list[str]:
    """``one_class_predictions`` if all predictions are the same although the truth varies.

    For numbers, ``constant_predictions``.

    For multi-label arrays, if every image gets the same set of labels; for masks, if every pixel of
    every image gets the same class; for objects, if all detections have the same class.
    """
    targets = targets_of(task)
    if targets.ranked or (targets.objects and not np.any(answers)):
        return []
    same = [_one_class(values, task) for values in (answers, truth)]
    gate = CONSTANT_PREDICTIONS if targets.numbers else ONE_CLASS
    return [gate] if same == [True, False] else []


def constant_target_in_test(truth, task: str) -> list[str]:
    """``constant_target_in_test`` if all numbers are equal, so that R² is undefined."""
    return [CONSTANT_TEST] if targets_of(task).numbers and _one_class(truth, task) else []


def no_detections(truth, answers, task: str) -> list[str]:
    """``no_detections`` if no image of the test set has a detection although there are objects."""
    found_none = targets_of(task).objects and np.any(truth) and not np.any(answers)
    return [NO_DETECTIONS] if found_none else []


def detections_cut(predictions: Predictions) -> list[str]:
    """``detections_cut:90 detections and 50 objects`` if images contain more objects of a class
    than average precision counts detections (``max_detections``). More detections alone are common
    and lose only the lowest scores."""
    targets = targets_of(predictions.task)
    if targets.points or not targets.objects:
        return []
    images = np.repeat(np.arange(len(predictions.truth)), predictions.truth.shape[-1])
    cut = Cut.of(
        predictions.answers.ravel(), predictions.truth.ravel(), images, predictions.rules[0]
    )
    return [f"{DETECTIONS_CUT}:{cut.words()}"] if cut.objects else []


def one_unit(rows: list[dict]) -> list[str]:
    """``one_unit`` if the test set is a single group or image, without a valid interval."""
    return [ONE_UNIT] if any(row["n_units"] == 1 for row in rows) else []


def few_units(rows: list[dict]) -> list[str]:
    """``few_units`` if there are too few units (2 to 5) for a reliable interval.

    It is still computed, by Student's t, and covers if units are similar in size and kind, which so
    few units cannot show.
    """
    return [FEW_UNITS] if any(1 < row["n_units"] < ENOUGH_UNITS for row in rows) else []


def heavy_tail(share: float, n_units: int) -> list[str]:
    """``heavy_tail:40 %`` if one unit has this `share`, in [0, 1], of all errors of a metric.

    The threshold is twelve times the fair share 1 / U, at least 10 % and, except in very small test
    sets, at most 30 %. Normal errors rarely reach it. If errors are skewed or have outliers,
    similar ones were probably missed in sampling, and no interval from the data includes them.
    """
    if n_units < 2 or share < max(0.1, min(0.3, 12 / n_units), 2 / n_units):
        return []
    return [f"{HEAVY_TAIL}:{100 * share:.0f} %"]


def comparison_gates(
    n_units: int, resamples: int, confidence: float, *, detectable=(), room: float = np.inf
) -> list[str]:
    """`one_unit`, `few_units` and ``significance_out_of_reach`` for comparisons on a test set.

    The last one means that no p-value of a family can reach 1 - confidence, whatever the data. With
    a number, the tests need differences of this median size, at least the whole `room` between
    chance and the best value.

    Causes are too few resamples, because an adjusted p-value is at least 1 / (resamples + 1), and
    too few units: if two backbones are equal, one of them is ahead on all of U units with
    probability 2^(1 - U), so no test of paired units can have a smaller p-value.
    """
    smallest = max(1 / (resamples + 1), 2.0 ** (1 - n_units))
    rows = [{"n_units": n_units}]
    gates = [*one_unit(rows), *few_units(rows)]
    if smallest > 1 - confidence:
        return [*gates, OUT_OF_REACH]
    # NaN: no difference is large enough
    needed = np.nan_to_num(np.asarray(detectable, np.float64), nan=np.inf)
    half = float(np.median(needed)) if needed.size else 0.0
    if half >= room:
        gates.append(f"{OUT_OF_REACH}:{half:.2g}" if np.isfinite(half) else OUT_OF_REACH)
    return gates


def class_missing_in_test(
    truth, task: str, classes: int, dead_classes: Iterable[int] = ()
) -> list[str]:
    """``class_missing_in_test:c`` for every class id c without a (positive) test sample, pixel or object.

    Dead classes are always missing, as the dataset card reports, and are not repeated here.
    """
    targets, truth = targets_of(task), np.asarray(truth)
    if not targets.classes:
        return []
    if targets.one_class:
        present = targets.counts(truth, classes)
    else:
        present = np.count_nonzero(truth, axis=0)
    missing = sorted(set(np.flatnonzero(present == 0).tolist()) - set(dead_classes))
    return [f"{MISSING_IN_TEST}:{label}" for label in missing]


def score_gates(predictions: Predictions, rows: list[dict]) -> list[str]:
    """All warnings of this module, in a fixed order; `rows` from `bootstrap_scores` for them."""
    truth, task, dead = predictions.truth, predictions.task, predictions.dead_classes
    constant = one_class_predictions(truth, predictions.answers, task)
    return [
        *below_chance(truth, rows, task, dead, constant=bool(constant)),
        *constant,
        *constant_target_in_test(truth, task),
        *no_detections(truth, predictions.answers, task),
        *detections_cut(predictions),
        *one_unit(rows),
        *few_units(rows),
        *class_missing_in_test(truth, task, len(predictions.classes), dead),
    ]


def _most_frequent(truth: np.ndarray, _) -> float:
    return int(np.bincount(truth).max()) / len(truth)


def _positives(truth: np.ndarray, _) -> float:
    return float(np.count_nonzero(truth)) / truth.size


def _relevant(truth: np.ndarray, _) -> float:
    return float(truth[truth > 0].mean()) if truth.any() else float("nan")


def _one_mask(truth: np.ndarray, dead_classes: Iterable[int]) -> float:
    """Mean IoU of the most frequent class everywhere, from (N, K) pixels of each class."""
    pixels = truth.sum(axis=0)
    alive = np.delete(pixels, list(dead_classes))
    present = np.count_nonzero(alive)
    return float(alive.max() / pixels.sum() / present) if present else float("nan")


def _always_changed(truth: np.ndarray, dead_classes: Iterable[int]) -> float:
    """The best F1 of change for one class everywhere, from the (N, K) pixels of each class."""
    pixels = truth.sum(axis=0)
    kinds = np.delete(pixels, [NO_CHANGE, *dead_classes])
    present = np.count_nonzero(kinds)
    if not present:
        return float("nan")
    return float(2 * kinds.max() / (kinds.max() + pixels.sum()) / present)


#: form of targets to the function that computes the chance level from the truth
_CHANCE = {
    OneClass: _most_frequent,
    ManyLabels: _positives,
    ClassMask: _one_mask,
    ChangeMask: _always_changed,
    Relevance: _relevant,
}


def _one_class(values, task: str) -> bool:
    values, targets = np.asarray(values), targets_of(task)
    # counts per class and image
    if targets.masks or targets.objects:
        return np.count_nonzero(values.sum(axis=0)) <= 1
    if targets.pixels:
        values = values[~np.isnan(values)]
    return bool((values == values[:1]).all())
