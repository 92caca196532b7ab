"""Intervals of detection scores, per slice too, and of the differences of two evaluations."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.evaluators.intervals.replicated import Name, Replicated, Scored
from permafrost.evaluators.intervals.standalone import (
    JACKKNIFE,
    carriers_of,
    defined,
    difference_rows,
    gate_of,
)
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.resampled import replicates
from permafrost.metrics.detection.summarise import Statistic, of_groups
from permafrost.statistics.resampling.carriers import Carriers, units_with_truth
from permafrost.statistics.resampling.intervals import check_method, percentile_interval, reflected
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import Units, find_units

# interval methods and their numbers of resamples; the jackknife uses resamples for the bias only
INTERVALS = {JACKKNIFE: 400, "basic": 1000, "percentile": 1000}


class DetectionScores:
    """Scores, their replicates, and the units that carry them.

    The summary statistics and, with more than one category, average precision per category (``AP``,
    and ``AP50`` if 0.5 was evaluated). NaN where COCO has -1.

    Parameters
    ----------
    groups : groups of categories from `categories.find_groups`: their statistics are scores too,
        with the group's label as class; see `group_labels`.
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
        # a comparison needs the same replicates as the rows before it
        self._last: tuple[np.ndarray, dict] | None = None

    @cached_property
    def values(self) -> dict[Name, float]:
        """Every score by metric and class."""
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
        """(B,) replicates of every score on resamples of the images; `counts` is (I, B)."""
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

    def carriers(self, units: Units) -> dict[Name, Carriers]:
        """The units that hold truth of the classes and area range of every score."""
        found = self.evaluation
        held = units_with_truth(found, units.index)
        labels = class_names(found) if found.settings.use_categories else [None]
        groups = found.truths.categories.frequencies or ()
        out: dict[Name, Carriers] = {}
        for item in found.statistics:
            chosen = list(range(len(labels)))
            if item.frequency is not None:
                chosen = [place for place in chosen if groups[place:][:1] == (item.frequency,)]
            out[item.name, None] = self._carriers(item.area, labels, chosen, held, units)
        for item in self.of_groups:
            name = item.name, self.group_labels[item.group]
            out[name] = self._carriers(item.area, labels, list(item.members), held, units)
        for item in self.per_class:
            for place, name in enumerate(self._names(item)):
                out[name] = self._carriers(item.area, labels, [place], held, units)
        return out

    def _carriers(self, area: str, labels, chosen, held: dict, units: Units) -> Carriers:
        # an area range that was not evaluated has no score
        counts = held.get(area, np.zeros(len(labels), np.int64))
        has = "has truth" if area == "all" else f"has {area} truth"
        names = [labels[place] for place in chosen]
        return Carriers.of(names, counts[chosen], units, has=has)

    def _names(self, statistic: Statistic) -> list[Name]:
        return [(statistic.name, label) for label in class_names(self.evaluation)]


def class_names(evaluation: Evaluation) -> list[str]:
    """Names of the categories; duplicate names get their ids appended."""
    categories = evaluation.truths.categories
    twice = {name for name in categories.names if categories.names.count(name) > 1}
    return [
        f"{name} ({identity})" if name in twice else name
        for name, identity in zip(categories.names, categories.ids.tolist(), strict=True)
    ]


def _group_labels(evaluation: Evaluation, groups: dict) -> dict[str, str]:
    """Label of each group among the classes: its name, marked if a category has the same name."""
    if groups and not evaluation.settings.use_categories:
        raise PermafrostError(
            "categories are pooled, so they have no groups",
            where="category groups",
            remedy="evaluate with categories, or leave the groups out",
        )
    known = set(class_names(evaluation))
    return {name: f"{name} (group)" if name in known else name for name in groups}


def image_units(evaluation: Evaluation, groups=None) -> Units:
    """The units of the images; `groups` (I,) are their groups, None makes each image a unit."""
    return find_units(
        len(evaluation.truths.images),
        sample_ids=evaluation.truths.images.ids.tolist(),
        groups=groups,
    )


def detection_rows(
    scores: Scored,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    method: str = JACKKNIFE,
) -> list[dict]:
    """Value and interval of every score.

    Parameters
    ----------
    resamples : 0 gives rows without bounds.
    method : ``jackknife_t``: Student's t with the jackknife standard error; resamples correct the
        bias of precision (`replicated.Replicated`). ``percentile`` takes quantiles of the
        resamples, and ``basic`` reflects these at the value (`intervals.reflected`).
        ``jackknife_t`` and ``basic`` are truncated to the valid range.

    Returns
    -------
    Rows as in `standalone.score_rows`, with ``bias``: mean of the replicates minus the value.
    Precision is biased, recall is not.
    """
    check_interval(method, confidence)
    names = list(scores.values)
    bounds: dict = {}
    drawn: dict = {}
    carriers: dict = carriers_of(scores, units) if resamples else {}
    if resamples and units.count > 1:
        if method == JACKKNIFE:
            found = Replicated(scores, units, resamples=resamples, seed=seed)
            forms = dict.fromkeys((metric for metric, _ in names), "t")
            bounds, drawn = found.intervals(carriers, confidence, forms), found.drawn
        else:
            drawn = scores.replicates(
                draw_resamples(units.count, resamples, seed).counts[units.index]
            )
            for name, moved in drawn.items():
                turned = reflected(scores.values[name], moved) if method == "basic" else moved
                if not carriers[name].alone:
                    bounds[name] = percentile_interval(turned, confidence)
    rows = []
    for name, value in scores.values.items():
        moved = drawn.get(name, np.empty(0))
        undefined = int(np.count_nonzero(np.isnan(moved)))
        moved = moved[~np.isnan(moved)]
        # crowds that count as truth can raise recall, and its replicates, above 1
        highest = max(1.0, float(moved.max())) if moved.size else 1.0
        lower, upper = bounds.get(name, (math.nan, math.nan))
        row = {
            "metric": name[0],
            "class": name[1],
            "value": value,
            "lower": max(lower, 0.0) if lower == lower else lower,
            "upper": min(upper, highest) if upper == upper else upper,
        }
        row = {key: defined(cell) for key, cell in row.items()}
        row["n_undefined"] = undefined
        known = moved.size and row["value"] is not None
        row["bias"] = float(moved.mean()) - value if known else None
        row["gates"] = gate_of(carriers, name, row["value"])
        rows.append(row)
    return rows


def check_interval(method: str, confidence: float = 0.95) -> None:
    """Refuse an unknown interval method, and a confidence level outside (0, 1)."""
    look_up(INTERVALS, method, "there is no interval named")
    check_method("auto", confidence)


def comparison_rows(
    scores: DetectionScores,
    other: DetectionScores,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    method: str = JACKKNIFE,
) -> list[dict]:
    """Differences of two evaluations of the same truth: rows of `standalone.difference_rows`.

    Raises
    ------
    PermafrostError : the evaluations differ in images, categories, truths or axes.
    """
    check_interval(method, confidence)
    _check_same(scores.evaluation, other.evaluation)
    return difference_rows(
        scores,
        other,
        units,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        method=method,
    )


def slice_rows(
    parts, groups=None, *, resamples: int, confidence: float, seed: int, method: str = JACKKNIFE
) -> list[dict]:
    """Rows of every slice: ``axis, label, images, truths, detections`` and the columns of a score.

    Parameters
    ----------
    parts : from `evaluators.detection.slices`.
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
