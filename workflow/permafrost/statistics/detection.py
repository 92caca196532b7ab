"""Intervals of detection scores, of their slices, and of the differences of two evaluations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from permafrost.core.errors import PermafrostError, near_names
from permafrost.metrics.detection import Evaluation
from permafrost.metrics.detection.resampled import replicates
from permafrost.metrics.detection.summarise import Statistic, of_groups

from .intervals import reflected
from .resamples import draw_resamples
from .standalone import difference_rows, score_rows
from .units import Units, find_units

INTERVALS = ("basic", "percentile")

Name = tuple[str, str | None]  # statistic, class (None: overall)


class DetectionScores:
    """What `standalone.score_rows` asks of an evaluation: values and their replicates.

    The statistics of the summary and, where there are several categories, average precision per
    category (``AP``, and ``AP50`` where 0.5 was evaluated). NaN where COCO says -1.

    Parameters
    ----------
    groups : groups of categories, of `categories.find_groups`: their statistics are figures too, whose
        class is the label of the group, see `group_labels`.
    """

    def __init__(
        self, evaluation: Evaluation, *, classes: bool = True, groups: dict | None = None
    ) -> None:
        self.evaluation = evaluation
        self.group_labels = _group_labels(evaluation, groups or {})
        self.of_groups = of_groups(evaluation.statistics, groups or {})
        cap = evaluation.axes.max_dets[-1]
        self.per_class = []
        if classes and evaluation.cells.buckets > 1:
            self.per_class.append(Statistic("AP", "precision", None, "all", cap))
            if 0.5 in evaluation.axes.thresholds:
                self.per_class.append(Statistic("AP50", "precision", 0.5, "all", cap))
        self._last: tuple[np.ndarray, dict] | None = None

    @property
    def values(self) -> dict[Name, float]:
        """Every figure by its name and class."""
        found = self.evaluation
        out: dict[Name, float] = {}
        for statistic in found.statistics:
            out[statistic.name, None] = found.value(statistic)
        for statistic in self.of_groups:
            out[statistic.name, self.group_labels[statistic.group]] = found.value(statistic)
        for statistic in self.per_class:
            each = found.average_precision(threshold=statistic.threshold)
            out.update(zip(self._names(statistic), each.tolist(), strict=True))
        return {name: math.nan if value == -1 else value for name, value in out.items()}

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) of every figure on resamples of the images, which `counts` (I, B) describes."""
        if self._last is None or not np.array_equal(self._last[0], counts):
            self._last = counts, self._compute(counts)
        return self._last[1]

    def _compute(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        statistics = [*self.per_class, *self.evaluation.statistics, *self.of_groups]
        found = replicates(self.evaluation, statistics, counts, each=len(self.per_class))
        named = zip(statistics, found.values, strict=True)
        out: dict[Name, np.ndarray] = {
            (item.name, self.group_labels.get(item.group)): values
            for item, values in list(named)[len(self.per_class) :]
        }
        for statistic, values in zip(self.per_class, found.categories, strict=True):
            out.update(zip(self._names(statistic), values, strict=True))
        return out

    def _names(self, statistic: Statistic) -> list[Name]:
        return [(statistic.name, label) for label in class_names(self.evaluation)]


def class_names(evaluation: Evaluation) -> list[str]:
    """Names of the categories; those that share a name are told apart by their ids."""
    categories = evaluation.truths.categories
    twice = {name for name in categories.names if categories.names.count(name) > 1}
    return [
        f"{name} ({identity})" if name in twice else name
        for name, identity in zip(categories.names, categories.ids.tolist(), strict=True)
    ]


def _group_labels(evaluation: Evaluation, groups: dict) -> dict[str, str]:
    """What a group is called among the classes: its name, marked where a category has it too."""
    if groups and not evaluation.settings.use_categories:
        raise PermafrostError(
            "categories are pooled, so they have no groups",
            where="category groups",
            remedy="evaluate with categories, or leave the groups out",
        )
    known = set(class_names(evaluation))
    return {name: f"{name} (group)" if name in known else name for name in groups}


def image_units(evaluation: Evaluation, groups=None) -> Units:
    """The units of the images; `groups` (I,) are their groups, None for an image of its own."""
    return find_units(
        len(evaluation.truths.images),
        sample_ids=evaluation.truths.images.ids.tolist(),
        groups=groups,
    )


def detection_rows(
    scores: DetectionScores,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    method: str = "basic",
) -> list[dict]:
    """Rows as of `standalone.score_rows`, with ``bias``: mean of the replicates minus the value.

    Precision is biased, and so are its replicates; ``basic`` intervals take both biases away, see
    `intervals.reflected`. Recall has no such bias.

    Parameters
    ----------
    resamples : 0 gives rows without bounds.
    method : ``basic``, cut to [0, 1], or ``percentile``.
    """
    check_interval(method)
    if resamples == 0:
        units = replace(units, count=min(units.count, 1))
    source = _Reflected(scores) if method == "basic" else scores
    rows = score_rows(source, units, resamples=resamples, confidence=confidence, seed=seed)
    drawn = {}
    if units.count > 1:
        drawn = scores.replicates(draw_resamples(units.count, resamples, seed).counts[units.index])
    for row in rows:
        moved = drawn.get((row["metric"], row["class"]), np.empty(0))
        moved = moved[~np.isnan(moved)]
        known = moved.size and row["value"] is not None
        row["bias"] = float(moved.mean()) - row["value"] if known else None
        if row["lower"] is not None:
            # a crowd that counts can take recall, and its replicates, beyond 1
            highest = max(1.0, float(moved.max())) if moved.size else 1.0
            row["lower"], row["upper"] = max(row["lower"], 0.0), min(row["upper"], highest)
    return rows


def check_interval(method: str) -> None:
    """Refuse an unknown kind of interval."""
    if method not in INTERVALS:
        raise PermafrostError(
            f"no interval is called {method!r}", remedy=near_names(method, INTERVALS)
        )


class _Reflected:
    """Scores whose replicates are reflected at their values."""

    def __init__(self, scores: DetectionScores) -> None:
        self.scores, self.values = scores, scores.values

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) 2 value - replicate of every figure."""
        drawn = self.scores.replicates(counts)
        return {name: reflected(self.values[name], moved) for name, moved in drawn.items()}


def comparison_rows(
    scores: DetectionScores,
    other: DetectionScores,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    method: str = "basic",
) -> list[dict]:
    """Differences of two evaluations of one truth: rows of `standalone.difference_rows`.

    Raises
    ------
    PermafrostError : other images, categories, truths or axes.
    """
    check_interval(method)
    _check_same(scores.evaluation, other.evaluation)
    return difference_rows(
        scores,
        other,
        units,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        mirrored=method == "basic",
    )


def slice_rows(
    parts, groups=None, *, resamples: int, confidence: float, seed: int, method: str = "basic"
) -> list[dict]:
    """Rows of every slice: ``axis, label, images, truths, detections`` and the columns of a score.

    Parameters
    ----------
    parts : of `metrics.detection.slices`.
    groups : (I,) groups of all images, or None.
    """
    rows = []
    for part in parts:
        found = part.evaluation
        own = None if groups is None else [groups[i] for i in np.flatnonzero(part.chosen)]
        head = {
            "axis": part.axis,
            "label": part.label,
            "images": len(found.truths.images),
            "truths": len(found.truths),
            "detections": len(found.detections),
        }
        scored = detection_rows(
            DetectionScores(found, classes=False),
            image_units(found, own),
            resamples=resamples,
            confidence=confidence,
            seed=seed,
            method=method,
        )
        rows += [{**head, **row} for row in scored]
    return rows


def _check_same(one: Evaluation, other: Evaluation) -> None:
    pairs = {
        "images": (one.truths.images.ids, other.truths.images.ids),
        "categories": (one.truths.categories.ids, other.truths.categories.ids),
        "annotations": (one.truths.ids, other.truths.ids),
        "IoU thresholds": (one.axes.thresholds, other.axes.thresholds),
        "area ranges": (one.axes.areas, other.axes.areas),
        "caps": (np.array(one.axes.max_dets), np.array(other.axes.max_dets)),
    }
    for what, (first, second) in pairs.items():
        if not np.array_equal(first, second):
            raise PermafrostError(
                f"the two evaluations have different {what}",
                where="comparison",
                remedy="evaluate both predictions against the same truth with the same options",
            )
    if one.settings != other.settings:
        raise PermafrostError("the two evaluations have different options", where="comparison")
