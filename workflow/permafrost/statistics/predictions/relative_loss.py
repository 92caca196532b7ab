"""The loss of a score on harder images, relative to the score on the same images as they are.

Both are on the same test images with the same probe, so their errors go together. The interval is Fieller's (Some
Problems in Interval Estimation, 1954): the ratios r for which harder - r clean does not differ from 0, by the jackknife
of both scores. It is also valid for a clean score near 0; if that does not differ from 0, no ratio can be excluded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.derived import OTHER_BANDS, UNCHANGED
from permafrost.metrics.tasks import metric_of, primary_metric
from permafrost.statistics.predictions.formulas import evaluated, family_of
from permafrost.statistics.predictions.reading import Predictions, read_predictions
from permafrost.statistics.predictions.settings import Gain, ScoredSetting
from permafrost.statistics.replicates.families import Family
from permafrost.statistics.resampling.intervals import same_in_all_units
from permafrost.statistics.resampling.jackknife import PARTS, ROUNDING
from permafrost.statistics.resampling.resamples import iter_jackknife
from permafrost.statistics.resampling.student_t import t_quantile
from permafrost.statistics.resampling.units import Units

#: name of the setting
RELATIVE_LOSS = "relative loss"


@dataclass(frozen=True)
class RelativeLoss(Gain):
    """Of the primary metric, of which more is better: 1 - harder / clean.

    `first` are the predictions on harder images, `second` those on clean ones. Undefined if the clean score is not
    above 0.
    """

    @property
    def largest_difference(self) -> float:
        clean = float(evaluated(self.second)[primary_metric(self.task)])
        return 1 / clean if clean > 0 else 1.0

    def evaluate(self) -> dict:
        name = primary_metric(self.task)
        harder, clean = (np.asarray(evaluated(one)[name]) for one in (self.first, self.second))
        return {name: float(_loss(harder, clean))}

    def family(self, units: np.ndarray) -> _Losses:  # type: ignore[override]
        return _Losses(
            primary_metric(self.task), *(family_of(one, units) for one in (self.first, self.second))
        )

    def ratio_interval(
        self, units: Units, quantile: float, confidence: float
    ) -> tuple[float, float]:
        """Fieller's interval of the loss; NaN, NaN if the clean score does not differ from 0.

        Parameters
        ----------
        quantile : of Student's t. confidence : for scores whose ratio is the same without any of the units.
        """
        metric, parts = primary_metric(self.task), min(PARTS, units.count)
        values = [float(evaluated(one)[metric]) for one in (self.first, self.second)]
        left_out = [
            np.concatenate(
                [
                    one.replicates(part, {metric})[metric]
                    for part in iter_jackknife(units.count, parts)
                ]
            )
            for one in self.family(units.index).both
        ]
        effects = np.array(values)[:, None] - left_out
        # rounding is no effect
        effects[np.abs(effects) <= ROUNDING * np.abs(values)[:, None]] = 0.0
        ratio = values[0] / values[1]
        same = np.all(np.abs(effects[0] - ratio * effects[1]) <= ROUNDING * abs(values[0]))
        if same:
            # a loss without error has no degrees of freedom of its own
            quantile = float(t_quantile(confidence, parts - 1))
        errors = quantile**2 * (parts - 1) / parts * effects @ effects.T
        (of_harder, of_both), (_, of_clean) = np.outer(values, values) - errors
        if not of_clean > 0:
            return np.nan, np.nan
        if same:
            bound = (metric_of(metric).bounds == "unit") / values[1]
            half = same_in_all_units(units.count, confidence) * bound
            return 1 - ratio - half, 1 - ratio + half
        half = np.sqrt(of_both**2 - of_harder * of_clean)
        return float(1 - (of_both + half) / of_clean), float(1 - (of_both - half) / of_clean)


class _Losses:
    """Relative losses of two families on the same resamples."""

    has_formulas = True

    def __init__(self, metric: str, harder: Family, clean: Family) -> None:
        self.metric, self.both = metric, (harder, clean)
        self.holders = getattr(harder, "holders", lambda _: None)

    def replicates(self, resamples, metrics=None) -> dict[str, np.ndarray]:
        harder, clean = (one.replicates(resamples, {self.metric}) for one in self.both)
        return {self.metric: _loss(harder[self.metric], clean[self.metric])}


def _loss(harder: np.ndarray, clean: np.ndarray) -> np.ndarray:
    return 1 - np.divide(harder, clean, out=np.full(np.shape(clean), np.nan), where=clean > 0)


def as_losses(rows: list[dict], severity: int) -> list[dict]:
    """Rows of scores of a `RelativeLoss`: less is better, and metrics in [0, 1] lose no more than everything.

    At severity 0 the images are the clean ones: the loss is 0, without an interval.
    """
    known = [{**row, "higher_is_better": False} for row in rows]
    for row in known:
        if not severity:
            row |= dict.fromkeys(("lower", "upper"), np.nan)
        elif metric_of(row["metric"]).bounds == "unit":
            row["upper"] = min(row["upper"], 1.0)
    return known


def relative_loss(
    harder: Predictions,
    path: Path,
    *,
    expect: str,
    about: Mapping,
    metadata: Mapping,
    scratch: Path,
) -> RelativeLoss:
    """The loss of predictions against those on clean images, at `path`.

    Parameters
    ----------
    expect : fingerprint of the predictions on clean images.
    about : ``of`` (dataset), ``degradation`` and ``severity``. metadata : of the predictions on harder images.

    Raises
    ------
    PermafrostError : the two are on other images.
    """
    clean, _, _ = read_predictions(path, expect=expect, scratch=scratch)
    if not _named_alike(harder.sample_ids.tolist(), clean.sample_ids.tolist()):
        raise PermafrostError(
            f"the test images of {metadata['dataset']} are not those of {about['of']}",
            where=path,
            remedy="leave other_bands out, or name datasets with the same test images; else delete both tables and run"
            " snakemake again",
        )
    settings = {**about, "clean": float(evaluated(clean)[primary_metric(clean.task)])}
    # of harder images, the features say so
    same = about["degradation"] == OTHER_BANDS and _same(harder, clean)
    counts, gates = (metadata["n_train"], metadata["n_val"]), [UNCHANGED] if same else []
    setting = ScoredSetting(RELATIVE_LOSS, settings, *counts, gates)
    return RelativeLoss(harder, clean, setting)


def _same(harder: Predictions, clean: Predictions) -> bool:
    """Whether a probe gave all images the same scores, or numbers, which it does for equal features."""
    name = "scores" if hasattr(clean, "scores") else "prediction"
    return np.array_equal(*(np.asarray(getattr(one, name)) for one in (harder, clean)))


def _named_alike(harder: list[str], clean: list[str]) -> bool:
    """Whether names are equal, but for the dataset before each name of a pair of datasets."""
    before = harder[0].removesuffix(clean[0])
    return harder == [before + name for name in clean]
