"""Intervals of detection scores, of their slices, and of the differences of two evaluations."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError, near_names
from permafrost.metrics.detection import Evaluation
from permafrost.metrics.detection.resampled import replicates
from permafrost.metrics.detection.summarise import Statistic

from .carriers import Carriers, Name, Replicated, without_parts
from .intervals import check_method, percentile_interval, reflected
from .jackknife import part_sizes
from .p_values import bootstrap_p_value
from .paired import tested
from .resamples import draw_resamples
from .standalone import defined
from .units import Units, find_units

# kinds of intervals, and how many resamples each takes: the first needs them for the bias alone
INTERVALS = {"jackknife_t": 400, "basic": 1000, "percentile": 1000}
JACKKNIFE = "jackknife_t"


class DetectionScores:
    """Values and their replicates, and which units carry them.

    The statistics of the summary and, where there are several categories, average precision per
    category (``AP``, and ``AP50`` where 0.5 was evaluated). NaN where COCO says -1.
    """

    def __init__(self, evaluation: Evaluation, *, classes: bool = True) -> None:
        self.evaluation = evaluation
        cap = evaluation.axes.max_dets[-1]
        self.per_class = []
        if classes and evaluation.cells.buckets > 1:
            self.per_class.append(Statistic("AP", "precision", None, "all", cap))
            if 0.5 in evaluation.axes.thresholds:
                self.per_class.append(Statistic("AP50", "precision", 0.5, "all", cap))
        # a comparison asks for what the rows have asked for
        self._last: tuple[np.ndarray, dict] | None = None

    @cached_property
    def values(self) -> dict[Name, float]:
        """Every figure by its name and class."""
        found = self.evaluation
        out: dict[Name, float] = {}
        for statistic in found.statistics:
            out[statistic.name, None] = found.value(statistic)
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
        statistics = [*self.per_class, *self.evaluation.statistics]
        found = replicates(self.evaluation, statistics, counts, each=len(self.per_class))
        named = zip(self.evaluation.statistics, found.values[len(self.per_class) :], strict=True)
        out: dict[Name, np.ndarray] = {(item.name, None): values for item, values in named}
        for statistic, values in zip(self.per_class, found.categories, strict=True):
            out.update(zip(self._names(statistic), values, strict=True))
        return out

    def carriers(self, units: Units) -> dict[Name, Carriers]:
        """The units that hold truth of the classes and area range of every figure."""
        found = self.evaluation
        held = self._held(units)
        labels = class_names(found) if found.settings.use_categories else [None]
        groups = found.truths.categories.frequencies or ()
        out = {}
        for item in found.statistics:
            chosen = list(range(len(labels)))
            if item.frequency is not None:
                chosen = [place for place in chosen if groups[place:][:1] == (item.frequency,)]
            out[item.name, None] = self._carriers(item.area, labels, chosen, held, units)
        for item in self.per_class:
            for place, name in enumerate(self._names(item)):
                out[name] = self._carriers(item.area, labels, [place], held, units)
        return out

    def _carriers(self, area: str, labels, chosen, held: dict, units: Units) -> Carriers:
        # a range that was not evaluated has no figure
        counts = held.get(area, np.zeros(len(labels), np.int64))
        has = "has truth" if area == "all" else f"has {area} truth"
        names = [labels[place] for place in chosen]
        return Carriers.of(names, counts[chosen], units, has=has)

    def _held(self, units: Units) -> dict[str, np.ndarray]:
        """(K,) units with truth that counts, per area range."""
        cells = self.evaluation.cells
        unit = units.index[cells.truth_cell % max(cells.images, 1)]
        held = {}
        for place, area in enumerate(self.evaluation.axes.area_names):
            counted = ~self.evaluation.matching.truth_ignored[:, place]
            pairs = np.unique(cells.truth_bucket[counted] * units.count + unit[counted])
            held[area] = np.bincount(pairs // units.count, minlength=cells.buckets)
        return held

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
    method: str = JACKKNIFE,
) -> list[dict]:
    """Value and interval of every figure.

    Parameters
    ----------
    resamples : 0 gives rows without bounds.
    method : ``jackknife_t``, Student's t on the standard error from leaving units out, with the bias of
        precision from resamples (`carriers.Replicated`); or of resamples alone ``basic``, which
        reflects them at the value (`intervals.reflected`), and ``percentile``. The first and second are
        cut to what is possible.

    Returns
    -------
    Rows as of `standalone.score_rows`, with ``bias``: mean of the replicates minus the value. Precision
    is biased, recall is not.
    """
    check_interval(method, confidence)
    names = list(scores.values)
    bounds: dict = {}
    drawn: dict = {}
    carriers: dict = scores.carriers(units) if resamples else {}
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
        # a crowd that counts can take recall, and its replicates, beyond 1
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


def gate_of(carriers: dict[Name, Carriers], name: Name, value) -> str:
    """Why the interval of a figure is not to be trusted, or nothing; `value` None: there is none."""
    return "" if value is None or name not in carriers else carriers[name].gate


def check_interval(method: str, confidence: float = 0.95) -> None:
    """Refuse an unknown kind of interval, and a confidence outside (0, 1)."""
    if method not in INTERVALS:
        raise PermafrostError(
            f"no interval is called {method!r}", remedy=near_names(method, INTERVALS)
        )
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
    """Differences of two evaluations of one truth, on the same units.

    Parameters
    ----------
    method : ``jackknife_t`` tests a difference by Student's t on its standard error, see `paired`;
        the others take its resamples.

    Returns
    -------
    Rows ``metric, class, value, against, difference (value - against), lower, upper, p_value,
    n_undefined, resamples (None where the p-value counts none), gates``; the p-values are those of
    single figures, not adjusted for their number.

    Raises
    ------
    PermafrostError : other images, categories, truths or axes.
    """
    check_interval(method, confidence)
    _check_same(scores.evaluation, other.evaluation)
    values, others = scores.values, other.values
    carriers = scores.carriers(units) if resamples else {}
    found: dict = {}
    if units.count > 1 and resamples:
        if method == JACKKNIFE:
            found = _tested(scores, other, units, carriers, confidence)
        else:
            counts = draw_resamples(units.count, resamples, seed).counts[units.index]
            found = _resampled(scores, other, counts, confidence, method)
    rows = []
    for name, value in values.items():
        tested_here = name in found and not carriers[name].alone
        cells = found[name] if tested_here else (math.nan,) * 3 + (0,)
        row = {
            "metric": name[0],
            "class": name[1],
            "value": value,
            "against": others[name],
            "difference": value - others[name],
            **dict(zip(("lower", "upper", "p_value"), cells, strict=False)),
        }
        row = {key: defined(cell) for key, cell in row.items()}
        row["n_undefined"] = cells[3]
        row["resamples"] = resamples if tested_here and method != JACKKNIFE else None
        row["gates"] = gate_of(carriers, name, row["difference"])
        rows.append(row)
    return rows


def _tested(scores, other, units: Units, carriers: dict, confidence: float) -> dict[Name, tuple]:
    """Lower, upper, p-value and 0 of every difference."""
    names = list(scores.values)
    counts = without_parts(units)
    values, left_out = [], []
    for each in (scores, other):
        without = each.replicates(counts)
        values.append([each.values[name] for name in names])
        left_out.append(np.stack([without[name] for name in names]))
    _, lower, upper, p_value, _ = tested(
        np.array(values),
        left_out,
        part_sizes(units),
        np.array([carriers[name].effective for name in names]),
        confidence,
        most_df=np.array([carriers[name].df for name in names]),
    )
    cells = zip(lower.tolist(), upper.tolist(), p_value.tolist(), [0] * len(names), strict=True)
    return dict(zip(names, cells, strict=True))


def _resampled(scores, other, counts, confidence: float, method: str) -> dict[Name, tuple]:
    """Lower, upper, p-value and number of undefined resamples of every difference."""
    first, second = scores.replicates(counts), other.replicates(counts)
    found = {}
    for name, value in scores.values.items():
        moved = first[name] - second[name]
        if method == "basic":
            moved = reflected(value - other.values[name], moved)
        undefined = int(np.count_nonzero(np.isnan(moved)))
        bounds = percentile_interval(moved, confidence)
        found[name] = (*bounds, bootstrap_p_value(moved), undefined)
    return found


def slice_rows(
    parts, groups=None, *, resamples: int, confidence: float, seed: int, method: str = JACKKNIFE
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
