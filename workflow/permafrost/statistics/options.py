"""Options of intervals, of paired differences and of rankings; their defaults are those of the functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Interval, MaxLen, MinLen

from permafrost.core.options import (
    AtLeast0,
    AtLeast2,
    Different,
    Natural,
    Options,
    Positive,
    Share,
    Text,
    Two,
)


@dataclass(frozen=True, kw_only=True)
class Resampling(Options):
    """Intervals from resamples of the test units."""

    confidence: Share = 0.95
    """Of intervals."""
    seed: Natural = 0
    """Draws the resamples."""


@dataclass(frozen=True, kw_only=True)
class Bootstrap(Resampling):
    """Intervals of scores."""

    resamples: AtLeast2 = 200
    """Resamples of the test units."""
    method: Literal["auto", "percentile", "bca"] = "auto"
    """How intervals of scores are formed. auto takes for each metric and number of test units the one that covers
    (docs/intervals.md); percentile and bca are the bootstrap's."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Resampling):
    """Paired differences between backbones, on the same units of the test set."""

    resamples: AtLeast2 = 2000
    """More than for intervals, since an adjusted p-value is no smaller than 1 / (resamples + 1)."""


@dataclass(frozen=True, kw_only=True)
class CalibrationSettings(Options):
    """How calibration is measured."""

    bins: Positive = 15
    """Bins of equal width that confidences are sorted into."""
    like: Literal["torchmetrics", None] = None
    """Whose bins are taken. The last one holds a confidence of exactly 1; torchmetrics' gives it a separate bin."""
    folds: AtLeast2 = 5
    """Folds of the test units. The scores of each are scaled by the temperature that was fitted on the others,
    since probes may have been trained on all the rest. With fewer units, there are as many folds as units."""
    floor: Annotated[float, Interval(gt=0, lt=0.5)] | None = None
    """Probabilities are raised to this before they are scaled. Without it there is no temperature if a right answer
    has probability 0, as of neighbours that all vote for others; half a vote is 1 / (2 k)."""


@dataclass(frozen=True, kw_only=True)
class CalibrationOptions(CalibrationSettings):
    """How calibration is measured, with the seed that assigns units to folds, the same for all backbones of a
    dataset.
    """

    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(Bootstrap):
    """Options of a job that scores predictions."""

    calibration: CalibrationSettings | None = None


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(Comparison):
    """Options of a job that compares backbones."""

    calibration: CalibrationSettings | None = None


@dataclass(frozen=True, kw_only=True)
class BoundsFile(Options):
    """A file of bounds of normalised means."""

    file: Text
    """JSON, such as the normalizer.json of GEO-Bench-2: name to [low, high]."""
    datasets: Annotated[dict[str, str], MinLen(1)]
    """Their name of a dataset to the one here; others in the file are not used."""


@dataclass(frozen=True, kw_only=True)
class RankingSettings(Options):
    """Standings over groups of datasets. Confidence and seed are those of comparison."""

    uncertainty: Literal["both", "datasets", "items"] = "both"
    """Uncertainty that intervals hold. datasets, of their choice; items, of test items and seeds within them."""
    draws: Annotated[int, Ge(100)] = 1000
    """Draws of datasets and items."""
    rope: AtLeast0 = 0.01
    """Differences of scores up to here are practically none."""
    baseline: str | None = "imagestats"
    """Backbone that gains are over; without it in the run there are none."""
    bounds: dict[str, Two[float]] | BoundsFile | None = None
    """Scores that become 0 and 1 in normalised means, dataset to [low, high], or a file that has them."""
    reference: Annotated[Different[str], MinLen(2), MaxLen(2)] | None = None
    """Two backbones, worst and best, whose scores become 0 and 1 in normalised means."""
    missing: Literal["common", "worst", "baseline"] = "common"
    """Without a score of some backbone: common leaves the dataset out; worst gives it the worst score of the others
    there, baseline that of the baseline, and filled-in scores are marked."""
