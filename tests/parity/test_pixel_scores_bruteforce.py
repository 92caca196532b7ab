"""Scores and intervals of numbers per pixel against all pixels at once, drawn again image by image."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.labels import naive_t_test
from permafrost.probes.dense.tables import image_sums
from permafrost.statistics.predictions.pixel_numbers import RANGES, SUMS, PredictedPixels
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare
from sklearn import metrics


def rasters(seed=0, count=12, offset=0.0, noise=1.0):
    """True and predicted rasters of several sizes, some pixels (and one image) without data."""
    rng = np.random.default_rng(seed)
    truths, said = [], []
    for i in range(count):
        shape = (5 + i % 3, 4 + i % 4)
        truth = rng.normal(size=shape) * 3 + rng.normal() + offset
        truth[rng.random(shape) < 0.3] = np.nan
        if i == 4:
            truth[:] = np.nan
        truths.append(truth)
        said.append(np.where(np.isnan(truth), 0, truth) + noise * rng.normal(size=shape))
    return truths, said


def predictions(truths, said, centre=0.0, groups=None) -> PredictedPixels:
    found = [image_sums(t, p, centre) for t, p in zip(truths, said, strict=True)]
    sums = [[one[name] for name in SUMS] for one in found]
    ranges = [[np.nan if one[n] is None else one[n] for n in RANGES] for one in found]
    ids = [f"{i:03}" for i in range(len(found))]
    return PredictedPixels.from_arrays(ids, sums, ranges, centre=centre, groups=groups)


def of_pixels(truths, said, images) -> dict[str, float]:
    y = np.concatenate([truths[i].ravel() for i in images])
    p = np.concatenate([said[i].ravel() for i in images])
    known = ~np.isnan(y)
    y, p = y[known], p[known]
    return {
        "r2": metrics.r2_score(y, p),
        "rmse": metrics.root_mean_squared_error(y, p),
        "mae": metrics.mean_absolute_error(y, p),
    }


def test_scores_are_those_of_all_pixels_with_data():
    truths, said = rasters()
    assert predictions(truths, said).evaluate() == pytest.approx(of_pixels(truths, said, range(12)))


def test_a_centre_near_the_truth_saves_the_digits():
    truths, said = rasters(offset=1e7)
    expected = of_pixels([t - 1e7 for t in truths], [s - 1e7 for s in said], range(12))
    assert predictions(truths, said, centre=1e7).evaluate() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_every_resample_is_that_of_its_images_pixels(grouped):
    truths, said = rasters()
    groups = [f"g{i // 3}" for i in range(12)] if grouped else None
    found = predictions(truths, said, groups=groups)
    units = np.arange(12) // 3 if grouped else np.arange(12)
    resamples = draw_resamples(4 if grouped else 12, 60, 5)
    values = found.family(units).replicates(resamples)
    for column, counts in enumerate(resamples.counts.T):
        images = np.repeat(np.arange(12), counts[units])
        for name, value in of_pixels(truths, said, images).items():
            assert values[name][column] == pytest.approx(value, rel=1e-9), name


def test_intervals_are_percentiles_of_scores_of_drawn_images():
    truths, said = rasters(noise=2.0)
    found = predictions(truths, said)
    rows = {
        row["metric"]: row
        for row in bootstrap_scores(found, resamples=100, seed=7, method="percentile")
    }
    counts = draw_resamples(12, 100, 7).counts
    units = find_units(12, sample_ids=found.sample_ids).index
    drawn = [of_pixels(truths, said, np.repeat(np.arange(12), c[units])) for c in counts.T]
    for name, row in rows.items():
        low, high = np.quantile([one[name] for one in drawn], [0.025, 0.975])
        assert (row["lower"], row["upper"]) == pytest.approx((low, high))
        assert (row["unit"], row["n_units"], row["n_test"]) == ("image", 12, 12)
    assert [name for name, row in rows.items() if row["primary"]] == ["r2"]


def test_images_without_data_change_no_score():
    truths, said = rasters()
    kept = [i for i in range(12) if i != 4]
    with_it = predictions(truths, said).evaluate()
    without = predictions([truths[i] for i in kept], [said[i] for i in kept]).evaluate()
    assert with_it == without


def test_differences_of_backbones_are_paired_on_the_same_images():
    truths, near = rasters(noise=0.5)
    far = [t + 3 * np.random.default_rng(i).normal(size=t.shape) for i, t in enumerate(truths)]
    found = {"near": predictions(truths, near), "far": predictions(truths, far)}
    (row,) = compare(found, metric="rmse", resamples=200, seed=3)
    without = []
    for left_out in range(12):
        images = np.delete(np.arange(12), left_out)
        without.append(
            of_pixels(truths, far, images)["rmse"] - of_pixels(truths, near, images)["rmse"]
        )
    expected = naive_t_test(row["difference"], np.array(without))
    # one image has no data, and so one degree of freedom less
    assert [row["lower"], row["upper"]] == pytest.approx(expected[:2], rel=5e-3)
