"""Percentiles of a stream of pixels against numpy on all of them."""

import numpy as np
import pytest
from permafrost.data.bands.statistics import ValueCounts

RANDOM = np.random.default_rng(7)
PERCENTS = (0, 2, 37.5, 50, 98, 100)


def streamed(values: np.ndarray, parts: int = 7) -> ValueCounts:
    found = ValueCounts()
    for part in np.array_split(values, parts):
        found.merge(ValueCounts.of(part))
    return found


@pytest.mark.parametrize("count", [1, 2, 51, 9_973])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_percentiles_of_integers_are_exact(dtype, count):
    limits = np.iinfo(dtype)
    values = RANDOM.integers(limits.min, limits.max, count, dtype, endpoint=True)
    found = streamed(values, parts=min(count, 7))
    for percent in PERCENTS:
        assert found.percentile(percent) == pytest.approx(np.percentile(values, percent), rel=1e-12)


@pytest.mark.parametrize(
    "values",
    [
        RANDOM.gamma(3, 0.04, 50_000).astype(np.float32),
        RANDOM.normal(-12, 6, 50_000),
        RANDOM.normal(290, 5, 50_000).astype(np.float32),
        RANDOM.pareto(0.5, 50_000),
        RANDOM.normal(0, 1e-6, 5_001).astype(np.float32),
        RANDOM.integers(-(2**31), 2**31 - 1, 5_000),
        RANDOM.integers(0, 2**32, 5_000).astype(np.uint32),
        RANDOM.normal(0, 100, 5_000).astype(np.float16),
        np.repeat([0.0, 0.25], [40, 60]),
    ],
)
def test_percentiles_of_other_numbers_are_near_by_the_stated_share(values):
    found = streamed(values)
    # numpy interpolates between two pixels, which may lie far apart: each has the stated error
    low, high = (np.percentile(values, PERCENTS, method=method) for method in ("lower", "higher"))
    wanted = np.percentile(values.astype(float), PERCENTS)
    error = np.maximum(np.abs(low), np.abs(high)).astype(float) / 2048 + 2.0**-40
    assert (np.abs([found.percentile(percent) for percent in PERCENTS] - wanted) <= error).all()


def test_any_order_gives_the_same():
    values = RANDOM.normal(0, 1, 4_000)
    one, other = streamed(values), streamed(values[::-1], parts=3)
    assert one.low == other.low and (one.counts == other.counts).all()


def test_nothing_has_no_percentile():
    assert np.isnan(ValueCounts().percentile(2))
