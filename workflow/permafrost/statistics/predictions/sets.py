"""Prediction sets, on a test set and on many resamples of its units at once.

Validation items are part of what most probes learned from, so only the test set is left to calibrate on: one half of
its units gives the thresholds, the other half is evaluated, then the halves change roles
(`metrics.calibration.conformal`). A threshold of a group needs items of the group itself, so for sets by group the
items of each group are halved.
"""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np

from permafrost.core.options import build
from permafrost.core.tasks import targets_of
from permafrost.metrics.calibration import PredictionSets, halves_of, prediction_sets
from permafrost.metrics.calibration.confidence import check
from permafrost.metrics.ratios import divide
from permafrost.metrics.tasks import OF_SETS
from permafrost.statistics.options import CalibrationOptions, PredictionSetsOptions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.resampling.carriers import units_of_each
from permafrost.statistics.resampling.resamples import Resamples
from permafrost.statistics.resampling.units import Units

FEW_TO_CALIBRATE = "few_to_calibrate"
# bytes of the weights of items that are used together
_WEIGHTS_BYTES = 32 << 20


class Sets:
    """The metrics `metrics.tasks.OF_SETS` of one test set; those by group only if some group has a threshold.

    Parameters
    ----------
    predictions : of one class per item, with probabilities.
    seed : of the halves.
    """

    def __init__(
        self, predictions: LabelledSamples, units: Units, options: PredictionSetsOptions, seed: int
    ) -> None:
        self.target, scores = check(predictions.target, predictions.scores, predictions.task)
        self.units, self.classes = units, len(predictions.classes)
        found = partial(
            prediction_sets, self.target, scores, alpha=options.alpha, kind=options.score
        )

        # one unit has no halves
        self.found: dict[str, PredictionSets | None] = {"": None, "_by_class": None}
        if units.count > 1:
            whole = halves_of(np.zeros(units.count), options.repeats, seed)[:, units.index]
            self.found = {"": found(whole), "_by_class": found(whole, strata="class")}
        if units.kind == "group":
            halves = halves_of(units.index, options.repeats, seed)
            by_group = found(halves, strata=units.index)
            # units without known groups are copies of one image, too few for a threshold
            if by_group.infinite < by_group.thresholds:
                self.found["_by_group"] = by_group
        # items sorted by class: sums over classes are sums of adjacent items
        self._order = np.argsort(self.target, kind="stable")
        self._present, self._starts = np.unique(self.target[self._order], return_index=True)

    # means of shares vary at most like the shares of one repeat
    proportions = frozenset(
        f"{name}{suffix}" for suffix in OF_SETS for name in ("set_coverage", "class_set_coverage")
    )

    @property
    def values(self) -> dict[str, np.ndarray]:
        """Every metric on the whole test set, () or (K,) per class; NaN if undefined."""
        once = Resamples.of(np.ones((self.units.count, 1), np.uint8))
        return {name: value[..., 0] for name, value in self.replicates(once).items()}

    def holders(self, metric: str) -> np.ndarray | None:
        """As in `families.SingleLabel`."""
        return self._held if "class_set_coverage" in metric else None

    @cached_property
    def _held(self) -> np.ndarray:
        return units_of_each(self.target, self.units.index, self.classes)

    def flags(self, metric: str) -> list[str]:
        """``few_to_calibrate:3 of 40`` if 3 of 40 thresholds had too few items."""
        suffix = max((one for one in self.found if metric.endswith(one)), key=len)
        sets = self.found[suffix]
        if sets is None or not sets.infinite:
            return []
        return [f"{FEW_TO_CALIBRATE}:{sets.infinite} of {sets.thresholds}"]

    def widened(self, row: dict) -> dict:
        """No set holds more than all classes."""
        if not row["metric"].startswith("set_size"):
            return {}
        return {"upper": float(np.minimum(row["upper"], self.classes))}

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,), or (K, B) per class, on each resample, with the same sets; NaN if undefined."""
        step = max(1, _WEIGHTS_BYTES // (8 * len(self.target)))
        parts = [
            self._replicates(resamples.counts[:, start : start + step], metrics)
            for start in range(0, len(resamples), step)
        ]
        return {name: np.concatenate([one[name] for one in parts], axis=-1) for name in parts[0]}

    def _replicates(self, counts: np.ndarray, metrics) -> dict[str, np.ndarray]:
        weights = counts[self.units.index[self._order]].astype(np.float64)
        items = self._of_classes(weights)
        values: dict[str, np.ndarray] = {}
        for suffix, sets in self.found.items():
            names = [metric.name for metric in OF_SETS[suffix]]
            if metrics is not None and not {*names} & {*metrics}:
                continue
            values |= dict(zip(names, self._evaluated(sets, weights, items), strict=True))
        return {name: values[name] for name in values if metrics is None or name in metrics}

    def _evaluated(self, sets: PredictionSets | None, weights: np.ndarray, items: np.ndarray):
        """The metrics of one of `found`, in the order of `OF_SETS`."""
        if sets is None:
            none = np.full(items.shape[1], np.nan)
            return none, none, none, none, np.full(items.shape, np.nan)
        covered, size, single = (
            self._of_classes(weights * one[self._order, None])
            for one in (sets.covered, sets.size, sets.single)
        )
        each, all_items = divide(covered, items), items.sum(axis=0)
        share, *others = (divide(one.sum(axis=0), all_items) for one in (covered, size, single))
        # other items would have moved the thresholds, until the coverage of each stratum is what it was
        strata = each if len(sets.coverage) > 1 else share[None]
        gained = np.nan_to_num(strata[: len(sets.coverage)] - sets.coverage[:, None])
        others = [
            np.maximum(own - slopes @ gained, 0.0)
            for own, slopes in zip(others, sets.slopes, strict=True)
        ]
        worst = np.where(np.isnan(each), np.inf, each).min(axis=0)
        return share, *others, np.where(np.isinf(worst), np.nan, worst), each

    def _of_classes(self, weights: np.ndarray) -> np.ndarray:
        """(K, B) sums of the (N, B) weights over the items of each class."""
        sums = np.zeros((self.classes, weights.shape[1]))
        sums[self._present] = np.add.reduceat(weights, self._starts, axis=0)
        return sums


def sets_of(predictions, units: Units, options: dict) -> list[Sets]:
    """The `Sets` of predictions that `calibration.calibration_of` accepts, if `options` of
    `CalibrationOptions` ask for them and each item has one class."""
    chosen = build(CalibrationOptions, options)
    if chosen.sets is None or not targets_of(predictions.task).one_class:
        return []
    return [Sets(predictions, units, chosen.sets, chosen.seed)]
