"""One number per backbone and probe over many datasets: mean, interquartile mean, mean rank.

A backbone's value on a dataset is its mean over seeds; all three are taken over these values, so
that a dataset weighs the same whatever the number of its seeds.

Which scale
-----------
Scores of different datasets are averaged raw by default: their differences keep their meaning, and
adding a backbone changes no other mean. Where datasets differ much in difficulty, `bounds` map each
dataset's score to (score - low) / (high - low). Taking the worst and best of the evaluated
backbones as bounds is common and unstable, for every new backbone can change every score; so
bounds are an argument that must name every dataset (chance level and 1, say, or a frozen file that
is kept with its version), and are never made from the scores at hand.
Where datasets have different primary metrics, raw means mix them: prefer the mean rank there.

Intervals
---------
Datasets are drawn with replacement, and for each drawn dataset its seeds (a bootstrap of two
levels): they say how much the aggregate depends on which datasets and seeds were chosen. They do
not contain the uncertainty of finite test sets, which each score row has for itself. With one
dataset there is none. All backbones are drawn on the same datasets.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.ranks import (
    mean_rank_rows,
    per_backbone,
    primary_results,
)
from permafrost.statistics.resampling.intervals import check_method, percentile_interval


def aggregate_scores(
    table: pa.Table,
    *,
    bounds: dict[str, tuple[float, float]] | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int,
) -> list[dict]:
    """Aggregates of the primary metric per probe and backbone.

    Parameters
    ----------
    table : score rows.
    bounds : dataset to (low, high) for normalising; None for raw scores.

    Returns
    -------
    Rows ``probe, backbone, n_datasets, mean, mean_lower, mean_upper, iqm, iqm_lower, iqm_upper,
    mean_rank, missing, normalised, confidence, resamples, bootstrap_seed``. ``missing`` lists what
    other backbones have under the probe and this one lacks; then it has no aggregates (None),
    since an average over other datasets is not comparable. Intervals are None with one dataset.
    """
    check_method("percentile", confidence)
    results = primary_results(table, "value")
    scores = {
        (probe, backbone): by_dataset
        for probe in {probe for probe, _ in results}
        for backbone, by_dataset, _ in per_backbone(results, probe)
    }
    common = {
        "normalised": bounds is not None,
        "confidence": confidence,
        "resamples": resamples,
        "bootstrap_seed": seed,
    }
    rows = []
    for ranked in mean_rank_rows(table):
        row = ranked | dict.fromkeys(_AGGREGATES) | common
        by_dataset = scores[ranked["probe"], ranked["backbone"]]
        if not ranked["missing"]:
            on_scale = {name: normalise(name, by_dataset[name], bounds) for name in by_dataset}
            row |= _aggregate(on_scale, resamples, confidence, seed)
        rows.append(row)
    return rows


_AGGREGATES = ("mean", "mean_lower", "mean_upper", "iqm", "iqm_lower", "iqm_upper")


def normalise(dataset: str, scores, bounds: dict[str, tuple[float, float]] | None) -> np.ndarray:
    """`scores` on the dataset's scale: bounds[dataset] go to 0 and 1; unchanged without bounds.

    Raises
    ------
    PermafrostError : the dataset has no bounds, or high is not above low.
    """
    scores = np.asarray(scores, np.float64)
    if bounds is None:
        return scores
    if dataset not in bounds:
        raise PermafrostError(
            f"the dataset {dataset!r} has no normalisation bounds",
            remedy="give (low, high) for every dataset that is averaged",
        )
    low, high = bounds[dataset]
    if not high > low:
        raise PermafrostError(
            f"the normalisation bounds of {dataset!r} are ({low}, {high})",
            remedy="give a high that is above the low",
        )
    return (scores - low) / (high - low)


def interquartile_mean(values, axis: int = -1) -> np.ndarray:
    """Mean of the middle half: floor(n / 4) values are cut from either end (= scipy's trim_mean).

    Less sensitive to one failed dataset than the mean, and less noisy than the median.
    Source: Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice
    (2021).
    """
    values = np.sort(np.asarray(values, np.float64), axis=axis)
    cut = values.shape[axis] // 4
    return np.take(values, np.arange(cut, values.shape[axis] - cut), axis=axis).mean(axis=axis)


def _aggregate(by_dataset: dict[str, np.ndarray], resamples, confidence, seed) -> dict:
    """Mean and IQM over datasets of one backbone's values, with intervals."""
    scores = list(by_dataset.values())
    values = np.array([seeds.mean() for seeds in scores])
    row = {"mean": float(values.mean()), "iqm": float(interquartile_mean(values))}
    if len(values) < 2:
        return row
    drawn = _draw(scores, resamples, seed)
    for name, over in (("mean", drawn.mean(axis=1)), ("iqm", interquartile_mean(drawn))):
        row[f"{name}_lower"], row[f"{name}_upper"] = percentile_interval(over, confidence)
    return row


def _draw(scores: list[np.ndarray], resamples: int, seed) -> np.ndarray:
    """(B, D) values of datasets drawn with replacement, each the mean of its seeds drawn anew."""
    datasets = len(scores)
    generator = np.random.Generator(np.random.PCG64(seed))
    which = generator.integers(0, datasets, size=(resamples, datasets))
    values = np.empty(which.shape)
    for dataset, seeds in enumerate(scores):
        runs = generator.integers(0, len(seeds), size=(*which.shape, len(seeds)))
        chosen = which == dataset
        values[chosen] = seeds[runs[chosen]].mean(axis=1)
    return values
