"""Calibration of probabilities, on a test set and on many resamples of its units at once.

All values but the areas under the risk-coverage curve are functions of sums over units: of bins and Brier scores
before and after temperature scaling, and, for the temperature, of the derivative of the likelihood on a grid of
temperatures.

Probes may be refitted on train and validation, so only the test split is left for temperatures.
Scores are therefore scaled by temperatures from other test units (`metrics.calibration.cross_fit`).
The scaled scores are then fixed across resamples: intervals include the variation of the errors
with another test set, but not the variation of the fitted temperatures.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.options import build
from permafrost.core.tasks import targets_of
from permafrost.metrics.calibration import (
    Confidence,
    CrossFit,
    Temperature,
    confidence,
    confidence_by_blocks,
    cross_fit,
    entries_of,
    evaluate_sums,
    fit_temperature,
    item_slopes,
    unit_sums,
)
from permafrost.metrics.calibration.temperature import BOUNDS
from permafrost.metrics.tasks import (
    AURC,
    BRIER,
    CALIBRATION,
    CALIBRATION_ERRORS,
    EXCESS_AURC,
    SCALED,
    TEMPERATURE,
)
from permafrost.statistics.options import CalibrationOptions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.replicates.selective import Selection
from permafrost.statistics.replicates.weighted import MANY_UNITS, UnitSums, weighted_by_counts
from permafrost.statistics.resampling.intervals import same_in_all_units
from permafrost.statistics.resampling.resamples import Resamples

FEW_ERRORS, SPARSE_BINS = "few_errors", "sparse_bins"
# with errors in fewer units, resamples do not show how much errors vary a calibration error; with
# fewer entries in a bin, its gap between accuracy and confidence is mostly chance
ENOUGH_ERRORS, ENOUGH_IN_BIN = 5, 100
UNDEFINED, AT_BOUND, FLAT = "temperature_undefined", "temperature_at_bound", "temperature_flat"
_SELECTIVE = (AURC, EXCESS_AURC)
_FLAGS = {"at_bound": AT_BOUND, "flat": FLAT}
# grid positions in standard errors; within this range the derivative is nearly linear
_ERRORS = np.linspace(-4.5, 4.5, 7)
_COARSE = 5
# bytes of resample counts converted to floats at a time, so that they stay in the cache
_FLOAT_BYTES = 4 << 20


class Calibration:
    """The metrics `metrics.tasks.CALIBRATION` of one test set.

    Parameters
    ----------
    target, scores : as in `metrics.calibration.confidence`; scores must be probabilities.
    units : (N,) unit of each sample.
    task : one whose probes can predict probabilities.
    """

    def __init__(self, target, scores, units, *, task: str, options: CalibrationOptions) -> None:
        self.target, self.scores, self.units = target, scores, np.asarray(units)
        self.n_units = int(self.units.max()) + 1
        self.task, self.options = task, options
        self.scaling: dict[str, Any] = {"task": task, "floor": options.floor}
        self.binning: dict[str, Any] = {"n_bins": options.bins, "like": options.like}
        items = confidence(self.target, self.scores, task=self.task, **self.binning)
        self.sums = self._unit_sums(items)
        trust, wrong = entries_of(items, task)
        self.selection, self.wrong = Selection(trust, wrong, self.units), wrong.any(axis=1)
        self.in_bins = np.bincount(items.bin.ravel(), minlength=items.n_bins)

    @property
    def values(self) -> dict[str, float]:
        """Every metric on the whole test set; NaN if undefined, see `flags`."""
        return self.evaluate(CALIBRATION)

    def evaluate(self, metrics) -> dict[str, float]:
        """Some metrics on the whole test set, in the order of `metrics.tasks.CALIBRATION`."""
        once = Resamples.of(np.ones((self.n_units, 1), np.uint8))
        values = {name: float(value[0]) for name, value in self.replicates(once, metrics).items()}
        if TEMPERATURE in values and self.temperature:
            values[TEMPERATURE] = self.temperature.value  # the value on the grid is rounded
        return values

    @property
    def few_errors(self) -> list[str]:
        """``few_errors:3 of 100`` if 3 items are wrong, in fewer than `ENOUGH_ERRORS` units."""
        if self.n_units < 2 or len(np.unique(self.units[self.wrong])) >= ENOUGH_ERRORS:
            return []
        return [f"{FEW_ERRORS}:{np.count_nonzero(self.wrong)} of {len(self.wrong)}"]

    def flags(self, metric: str) -> list[str]:
        """Reasons why a metric or its interval is unreliable or undefined; see the names above.

        `few_errors` for all metrics but the Brier score of independent items, whose interval allows
        for them. ``sparse_bins:9 of 12``, for the largest gap of any bin: of 12 bins with entries,
        9 have fewer than `ENOUGH_IN_BIN`.
        """
        covered = metric == BRIER and self.n_units == len(self.wrong)
        flags = set() if covered else set(self.few_errors)
        if metric.startswith(CALIBRATION_ERRORS[-1]):
            held = self.in_bins[self.in_bins > 0]
            if sparse := np.count_nonzero(held < ENOUGH_IN_BIN):
                flags.add(f"{SPARSE_BINS}:{sparse} of {len(held)}")
        return sorted(flags | self._of_temperatures(metric))

    def widened(self, row: dict) -> dict:
        """Widen a row's interval for errors that the test set cannot show.

        If no item is wrong, a share q of `same_in_all_units` of the units may still be as wrong as
        possible, which changes gaps by that share in either direction, and AURC by q (1 - log q), if
        they are the most certain. A temperature at its bound may have any value.
        """
        metric, value = row["metric"], row["value"]
        if self.n_units < 2 or np.isnan(value):
            return {}
        if metric == TEMPERATURE:
            at_bound = AT_BOUND in self._of_temperatures(metric)
            return dict(zip(("lower", "upper"), BOUNDS, strict=True)) if at_bound else {}
        if self.wrong.any():
            return {}
        most = 2.0 if metric.startswith(BRIER) and targets_of(self.task).one_class else 1.0
        share = same_in_all_units(self.n_units, row["confidence"])
        if metric in _SELECTIVE:
            share *= 1 - np.log(share)
        ends = {"upper": max(row["upper"], value + share * (most - value))}
        if not metric.startswith(BRIER):
            ends["lower"] = min(row["lower"], max(value - share, 0.0))
        return ends

    def _of_temperatures(self, metric: str) -> set[str]:
        if metric == TEMPERATURE:
            fitted = [self.temperature]
        elif metric.endswith(SCALED):
            fitted = self.fitted.temperatures if self.fitted else [None]
        else:
            return set()
        flags = {_FLAGS[one.notes["flag"]] for one in fitted if one and "flag" in one.notes}
        return flags | {UNDEFINED for one in fitted if one is None or np.isnan(one.value)}

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,) on each resample; NaN if undefined on the whole test set."""
        wanted = [name for name in CALIBRATION if metrics is None or name in metrics]
        of_sums = {*wanted} - {TEMPERATURE, *_SELECTIVE}
        before, after = (
            any(name.endswith(SCALED) == scaled for name in of_sums) for scaled in (False, True)
        )
        parts = {"": self.sums} if before else {}
        if after and self.scaled_sums is not None:
            parts[SCALED] = self.scaled_sums
        if TEMPERATURE in wanted and self._moves:
            parts[TEMPERATURE] = self._derivatives[1]
        values: dict[str, np.ndarray] = {}
        sums_by_part = weighted_by_counts(parts, resamples, float_bytes=_FLOAT_BYTES)
        for name, sums in sums_by_part.items():
            if name == TEMPERATURE:
                values[name] = self._temperatures(sums)
            else:
                values |= {f"{one}{name}": each for one, each in evaluate_sums(sums).items()}
        if not {*wanted}.isdisjoint(_SELECTIVE):
            values |= dict(zip(_SELECTIVE, self.selection.areas(resamples), strict=True))
        unmoved = self.temperature.value if TEMPERATURE in wanted and self.temperature else np.nan
        fixed = {TEMPERATURE: unmoved}
        return {
            name: values.get(name, np.full(len(resamples), fixed.get(name, np.nan)))
            for name in wanted
        }

    def without_scores(self) -> Calibration:
        """The same without scores, for metrics that need no temperature: only the sums."""
        light = Calibration.__new__(Calibration)
        light.sums, light.n_units = self.sums, self.n_units
        return light

    @cached_property
    def temperature(self) -> Temperature | None:
        """Temperature of the whole test set; None for a single unit."""
        if self.n_units < 2:
            return None
        return fit_temperature(self.target, self.scores, **self.scaling)

    @cached_property
    def fitted(self) -> CrossFit | None:
        """Scores scaled by temperatures of other units; None for a single unit."""
        if self.n_units < 2:
            return None
        folds = min(self.options.folds, self.n_units)
        return cross_fit(
            self.target,
            self.scores,
            units=self.units,
            folds=folds,
            seed=self.options.seed,
            **self.scaling,
        )

    @cached_property
    def scaled_sums(self) -> np.ndarray | UnitSums | None:
        """Like `sums`, after scaling; None if any of the temperatures is undefined."""
        if self.fitted is None or any(np.isnan(one.value) for one in self.fitted.temperatures):
            return None
        items = confidence_by_blocks(
            self.fitted.answers.target,
            self.fitted.blocks(),
            task=self.task,
            **self.binning,
        )
        return self._unit_sums(items)

    def _unit_sums(self, items: Confidence) -> np.ndarray | UnitSums:
        if self.n_units > MANY_UNITS:
            return _SumsOfItems(items, self.units, self.n_units)
        return unit_sums(items, self.units, self.n_units)

    @property
    def _moves(self) -> bool:
        """Whether the temperature is defined and depends on the data."""
        fitted = self.temperature
        return bool(fitted and not np.isnan(fitted.value) and fitted.notes.get("flag") != "flat")

    def _temperatures(self, drawn: np.ndarray) -> np.ndarray:
        """(B,) temperatures, where the linearly interpolated (G, B) derivatives cross zero."""
        grid, columns = self._derivatives[0], np.arange(drawn.shape[1])
        # derivatives rise along the grid, so the crossing follows the last negative one
        after = np.clip(np.count_nonzero(drawn < 0, axis=0), 1, len(grid) - 1)
        low, high = drawn[after - 1, columns], drawn[after, columns]
        rise = high - low
        share = np.clip(np.divide(-low, rise, out=np.zeros_like(rise), where=rise > 0), 0.0, 1.0)
        return 1.0 / (grid[after - 1] + share * (grid[after] - grid[after - 1]))

    @cached_property
    def _derivatives(self) -> tuple[np.ndarray, np.ndarray]:
        """(G,) inverse temperatures, ascending, and (G, U) derivatives there, summed over each unit."""
        least, most = 1.0 / BOUNDS[1], 1.0 / BOUNDS[0]
        middle = 1.0 / self.temperature.value
        step = 1e-3 * middle
        around = self._slopes(np.array([middle - step, middle, middle + step]))
        curvature = (around[2].sum() - around[0].sum()) / (2 * step)
        error = np.sqrt(np.sum(around[1] ** 2)) / curvature if curvature > 0 else 0.0
        fine = np.clip(middle + error * _ERRORS, least, most)
        grid = np.unique(np.concatenate((np.geomspace(least, most, _COARSE), fine)))
        return grid, self._slopes(grid)

    def _slopes(self, inverses: np.ndarray) -> np.ndarray:
        slopes = item_slopes(self.target, self.scores, inverses, **self.scaling)
        return np.stack([np.bincount(self.units, row, self.n_units) for row in slopes])


class Joined:
    """Families of metrics as one, all evaluated on the same resamples."""

    def __init__(self, *families) -> None:
        self.families = families
        # metrics with exact intervals, see `families.SingleLabel`
        self.proportions = {one for own in families for one in getattr(own, "proportions", ())}

    def holders(self, metric: str) -> np.ndarray | None:
        """As in `families.SingleLabel`."""
        each = (one.holders(metric) for one in self.families if hasattr(one, "holders"))
        return next((found for found in each if found is not None), None)

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to its values on each resample, of all families."""
        values: dict[str, np.ndarray] = {}
        for family in self.families:
            values |= family.replicates(resamples, metrics)
        return values


def calibration_of(predictions, units: np.ndarray, options: dict) -> Calibration:
    """The calibration of `labelled.LabelledSamples`; `options` as in `CalibrationOptions`.

    Raises
    ------
    PermafrostError : predictions without probabilities.
    """
    if not isinstance(predictions, LabelledSamples):
        raise PermafrostError(
            f"{type(predictions).__name__} of the task {predictions.task!r} have no probabilities",
            remedy="leave calibration out for this probe",
        )
    return Calibration(
        predictions.target,
        predictions.scores,
        units,
        task=predictions.task,
        options=build(CalibrationOptions, options),
    )


class _SumsOfItems:
    """`metrics.calibration.unit_sums` for many units, computed for some units at a time."""

    def __init__(self, items: Confidence, units: np.ndarray, n_units: int) -> None:
        if (units[1:] < units[:-1]).any():
            order = np.argsort(units, kind="stable")
            items, units = items.take(order), units[order]
        self._items, self._units = items, units
        self.shape = (3 * items.n_bins + 2, n_units)

    @property
    def nbytes(self) -> int:
        items = self._items
        return sum(each.nbytes for each in (items.confidence, items.hit, items.bin, items.brier))

    def __getitem__(self, key: tuple[slice, slice]) -> np.ndarray:
        start, stop, _ = key[1].indices(self.shape[1])
        rows = slice(*np.searchsorted(self._units, (start, stop)))
        return unit_sums(self._items.take(rows), self._units[rows] - start, stop - start)
