"""Options of intervals, paired differences and rankings, with the functions' defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Interval, MaxLen, MinLen

from permafrost.core.options import (
    AtLeast0,
    AtLeast2,
    Different,
    LeftOut,
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
    """Confidence level of the intervals."""
    seed: Natural = 0
    """Seed of the resamples."""


@dataclass(frozen=True, kw_only=True)
class Bootstrap(Resampling):
    """Intervals of scores."""

    resamples: AtLeast2 = 200
    """Resamples of the test units."""
    method: Literal["auto", "percentile", "bca"] = "auto"
    """How intervals of scores are computed. auto takes for each metric and number of test units the
    method with the right coverage (docs/intervals.md); percentile and bca are bootstrap
    intervals."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Resampling):
    """Paired differences between backbones, on the same units of the test set."""

    resamples: AtLeast2 = 2000
    """More than for intervals, because an adjusted p-value is at least 1 / (resamples + 1)."""


@dataclass(frozen=True, kw_only=True)
class PredictionSetsOptions(Options):
    """Prediction sets of classes, calibrated on one half of the test set and evaluated on the other half."""

    alpha: Share = 0.1
    """Accepted share of sets that do not hold the true class."""
    score: Literal["lac", "aps"] = "lac"
    """Which classes enter a set first. lac: those of the highest probability, up to one threshold; the smallest
    sets. aps: the most probable ones until their probabilities add up to a threshold; sizes follow the difficulty of
    the image."""
    repeats: Positive = 10
    """Random divisions into halves, over which results are averaged."""


@dataclass(frozen=True, kw_only=True)
class CalibrationSettings(Options):
    """How calibration is measured."""

    bins: Positive = 15
    """Number of bins of equal width for confidences."""
    like: Literal["torchmetrics", None] = None
    """Definition of the bins. By default the last bin includes a confidence of exactly 1; that of
    torchmetrics has a separate bin for it."""
    folds: AtLeast2 = 5
    """Folds of the test units. The scores of each fold are scaled by a temperature fitted on the
    other folds, because probes may be trained on all other splits. With fewer units, there are as
    many folds as units."""
    floor: Annotated[float, Interval(gt=0, lt=0.5)] | None = None
    """Smallest probability: lower ones are raised to it before scaling. Without it there is no
    temperature if a right answer has probability 0, as with neighbours that all vote for other
    classes; half a vote is 1 / (2 k)."""
    sets: LeftOut[PredictionSetsOptions] = None
    """Also evaluate conformal prediction sets, for tasks with one class per image
    (docs/which-evaluation-when.md); {}: with these defaults."""


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
    """A file with bounds of normalised means."""

    file: Text
    """JSON, such as the normalizer.json of GEO-Bench-2: name to [low, high]."""
    datasets: Annotated[dict[str, str], MinLen(1)]
    """The file's name of a dataset to ours; other datasets of the file are not used."""


@dataclass(frozen=True, kw_only=True)
class RankingSettings(Options):
    """Standings over groups of datasets. Confidence and seed are those of comparison."""

    uncertainty: Literal["both", "datasets", "items"] = "both"
    """Sources of uncertainty in intervals: datasets, the choice of datasets; items, test items and
    seeds within them; or both."""
    draws: Annotated[int, Ge(100)] = 1000
    """Draws of datasets and items."""
    rope: AtLeast0 = 0.01
    """Score differences up to this are practically equivalent."""
    baseline: str | None = "imagestats"
    """Backbone that gains are relative to; without it in the run there are no gains."""
    bounds: dict[str, Two[float]] | BoundsFile | None = None
    """Scores that become 0 and 1 in normalised means: dataset to [low, high], or a file."""
    reference: Annotated[Different[str], MinLen(2), MaxLen(2)] | None = None
    """Two backbones, worst and best, whose scores become 0 and 1 in normalised means."""
    missing: Literal["common", "worst", "baseline"] = "common"
    """If a backbone lacks a score: common excludes the dataset; worst uses the worst score of the
    others there, baseline the score of the baseline; both mark imputed scores."""
    derived: bool = False
    """Rank and compare derived backbones as all others. If not, they have scores and differences to the backbone
    that they are derived from, and change no rank and no test of others."""
