"""Results of several derived datasets together: the area under a curve of label shares, and losses of transfers.

Scores that are compared are on the same test images, so that every resample of the images gives all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.derived import PART_OF
from permafrost.metrics.tasks import primary_metric
from permafrost.statistics.predictions.formulas import evaluated, family_of
from permafrost.statistics.predictions.reading import Predictions
from permafrost.statistics.replicates.families import Family
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare

#: gives backbone -> seed -> predictions, of a dataset and probe
Read = Callable[[str, str], Mapping[str, Mapping[int, Predictions]]]


@dataclass(frozen=True)
class Curve:
    """Shares of the labels of a dataset: share -> derived dataset, ascending; the last one is the dataset itself."""

    name: str
    of: str
    datasets: dict[float, str]

    @property
    def weights(self) -> list[float]:
        """Of the scores, so that their sum is the mean of the score over the logarithm of the share (trapezoids)."""
        x = np.log([*self.datasets])
        steps = np.diff(x) / (x[-1] - x[0])
        return (np.append(steps, 0) / 2 + np.append(0, steps) / 2).tolist()


@dataclass(frozen=True)
class Matrix:
    """A transfer: (train, test) -> derived dataset."""

    name: str
    of: list[str]
    datasets: dict[tuple[str, str], str]


def curves_of(datasets: Mapping[str, Mapping]) -> list[Curve]:
    """The curves of label shares among the datasets of a plan."""
    found: dict[str, Curve] = {}
    for name, derived in _parts(datasets):
        if "share" in derived:
            curve = Curve(derived[PART_OF], derived["of"], {1.0: derived["of"]})
            found.setdefault(curve.name, curve).datasets[derived["share"]] = name
    return [Curve(one.name, one.of, dict(sorted(one.datasets.items()))) for one in found.values()]


def matrices_of(datasets: Mapping[str, Mapping]) -> list[Matrix]:
    """The transfers among the datasets of a plan."""
    found: dict[str, Matrix] = {}
    for name, derived in _parts(datasets):
        if "train" in derived:
            matrix = found.setdefault(derived[PART_OF], Matrix(derived[PART_OF], [], {}))
            matrix.datasets[derived["train"], derived["test"]] = name
            if derived["train"] not in matrix.of:
                matrix.of.append(derived["train"])
    return list(found.values())


def _parts(datasets: Mapping[str, Mapping]) -> list[tuple[str, Mapping]]:
    every = ((name, one.get("derived") or {}) for name, one in datasets.items())
    return [(name, derived) for name, derived in every if PART_OF in derived]


@dataclass(frozen=True)
class WeightedMean:
    """The primary metric as a weighted mean of those of several predictions on one test set; attributes of the last."""

    every: tuple[Predictions, ...]
    weights: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.every[-1])

    def __getattr__(self, name: str):
        return getattr(self.every[-1], name)

    def evaluate(self) -> dict:
        metric = primary_metric(self.task)
        values = [evaluated(one)[metric] for one in self.every]
        return {metric: float(np.dot(self.weights, values))}

    def family(self, units: np.ndarray) -> _Weighted:
        families = [family_of(one, units) for one in self.every]
        return _Weighted(primary_metric(self.task), families, self.weights)


class _Weighted:
    """Weighted means of several families on the same resamples."""

    has_formulas = True

    def __init__(self, metric: str, families: list[Family], weights: tuple[float, ...]) -> None:
        self.metric, self.families_of, self.weights = metric, families, weights
        self.holders = getattr(families[-1], "holders", lambda _: None)

    def replicates(self, resamples, metrics=None) -> dict[str, np.ndarray]:
        values = [one.replicates(resamples, {self.metric})[self.metric] for one in self.families_of]
        return {self.metric: np.tensordot(self.weights, values, 1)}


@dataclass(frozen=True)
class Area:
    """The area under a backbone's curve: its mean score over the logarithm of the share, of the seeds' mean.

    Attributes
    ----------
    scores : share -> score. lower, upper : of other test images.
    """

    curve: str
    of: str
    probe: str
    backbone: str
    metric: str
    area: float
    lower: float
    upper: float
    confidence: float
    scores: dict[float, float]


def areas(curve: Curve, probe: str, read: Read, *, seed: int = 0) -> tuple[list[Area], list[dict]]:
    """The area of each backbone with scores at all shares, the best first, and their paired comparisons.

    Parameters
    ----------
    seed : of the resamples.

    Returns
    -------
    Areas, and rows of `compare`, of differences between areas. Both are empty if no backbone has all scores.

    Raises
    ------
    PermafrostError : predictions are on different test images.
    """
    found = {share: read(dataset, probe) for share, dataset in curve.datasets.items()}
    names = set.intersection(*({*one} for one in found.values()))
    runs: dict[str, dict[int, WeightedMean]] = {}
    made = []
    for name in sorted(names):
        seeds = sorted(set.intersection(*({*one[name]} for one in found.values())))
        every = {one: [found[share][name][one] for share in found] for one in seeds}
        for parts in every.values():
            _check_same(parts, [*curve.datasets.values()])
        if not seeds:
            continue
        weights = tuple(curve.weights)
        runs[name] = {one: WeightedMean(tuple(parts), weights) for one, parts in every.items()}
        flat = tuple(part for parts in every.values() for part in parts)
        mean = WeightedMean(flat, tuple(np.tile(weights, len(seeds)) / len(seeds)))
        (row,) = (row for row in bootstrap_scores(mean, seed=seed) if row["primary"])
        metric = row["metric"]
        scores = {
            share: float(np.mean([evaluated(parts[place])[metric] for parts in every.values()]))
            for place, share in enumerate(found)
        }
        about = (curve.name, curve.of, probe, name, metric)
        ends = (row["lower"], row["upper"], row["confidence"])
        made.append(Area(*about, row["value"], *ends, scores))
    # of every primary metric, more is better
    made.sort(key=lambda one: (-one.area, one.backbone))
    # McNemar's test is of answers, and an area has none
    compared = [{**row, "p_mcnemar": None} for row in compare(runs, seed=seed)] if runs else []
    return made, compared


@dataclass(frozen=True)
class Loss:
    """What a backbone loses on `test` if it is trained on `train`, against training on `test` itself.

    Attributes
    ----------
    value, own : the scores, means over the seeds that both have. loss, lower, upper : with its paired interval; above 0
        is a loss. 0 without an interval where train is test.
    """

    matrix: str
    probe: str
    backbone: str
    train: str
    test: str
    metric: str
    value: float
    own: float
    loss: float
    lower: float
    upper: float


def losses(matrix: Matrix, probe: str, read: Read, *, seed: int = 0) -> list[Loss]:
    """The losses of all backbones and pairs with predictions, by backbone; pairs in the order of the matrix.

    Raises
    ------
    PermafrostError : predictions are on different test images.
    """
    found: dict[tuple[str, str], Mapping] = {
        pair: read(name, probe) for pair, name in matrix.datasets.items()
    }
    made = []
    for name in sorted({name for one in found.values() for name in one}):
        for (train, test), runs in found.items():
            each = [one.get(name, {}) for one in (runs, found.get((test, test), {}))]
            seeds = sorted(each[0].keys() & each[1].keys())
            if not seeds:
                continue
            other, own = ({one: by_seed[one] for one in seeds} for by_seed in each)
            metric = primary_metric(own[seeds[0]].task)
            value, of_own = (
                float(np.mean([evaluated(one)[metric] for one in by_seed.values()]))
                for by_seed in (other, own)
            )
            ends = (math.nan, math.nan)
            if train != test:
                (row,) = compare({"a": own, "b": other}, seed=seed)
                ends = row["lower"], row["upper"]
            about = (matrix.name, probe, name, train, test, metric)
            made.append(Loss(*about, value, of_own, of_own - value, *ends))
    return made


def _check_same(parts: list[Predictions], names: list[str]) -> None:
    last = parts[-1]
    for one, name in zip(parts, names, strict=True):
        same = (
            np.array_equal(getattr(one, key), getattr(last, key))
            for key in ("sample_ids", "truth_keys")
        )
        if not all(same):
            raise PermafrostError(
                f"{name} and {names[-1]} were evaluated with different test samples or targets",
                remedy="delete the predictions of both and run snakemake again",
            )
