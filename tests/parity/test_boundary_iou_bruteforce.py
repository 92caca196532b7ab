"""Boundary counts equal the definition written out: a binary mask per class, eroded step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.predictions.masks import IGNORE, masks
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.metrics.segmentation import boundary_counts


def erode(mask: np.ndarray) -> np.ndarray:
    """A pixel stays if it and its eight neighbours are set."""
    height, width = mask.shape
    out = np.zeros_like(mask)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            out[y, x] = mask[y - 1 : y + 2, x - 1 : x + 2].all()
    return out


def band(mask: np.ndarray, ratio: float) -> np.ndarray:
    """The mask without what is left of it after eroding, the image padded by one pixel of 0."""
    height, width = mask.shape
    times = int(round(ratio * math.sqrt(height**2 + width**2)))
    padded = np.pad(mask, 1)
    for _ in range(max(1, times)):
        padded = erode(padded)
    return mask & ~padded[1:-1, 1:-1]


def slow_counts(truth, prediction, classes, ratio, ignore_index):
    scored = truth != ignore_index
    counts = []
    for label in range(classes):
        true = band((truth == label) & scored, ratio)
        guess = band((prediction == label) & scored, ratio)
        counts.append(((true & guess).sum(), (true | guess).sum()))
    return [list(each) for each in zip(*counts, strict=True)]


@pytest.mark.parametrize("ratio", [0.01, 0.05, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("ignored", [0, 0.01])
@pytest.mark.parametrize("shape", [(24, 24), (24, 9), (1, 7), (1, 1)])
def test_boundary_counts_equal_the_definition(ratio, ignored, shape):
    # few wrong pixels, so that something is left to be eroded
    truth, prediction = masks(n=1, size=24, classes=3, skill=0.99, ignored=ignored)
    truth, prediction = truth[0][: shape[0], : shape[1]], prediction[0][: shape[0], : shape[1]]
    found = boundary_counts(truth, prediction, 3, ratio, IGNORE)
    assert [each.tolist() for each in found] == slow_counts(truth, prediction, 3, ratio, IGNORE)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_boundary_counts_of_any_small_mask(data):
    height, width = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 14))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    # long runs of one class, so that bands have insides
    truth, prediction = (np.sort(rng.integers(0, 3, (height, width)), axis=1) for _ in "ab")
    truth[rng.random(truth.shape) < data.draw(st.sampled_from([0, 0.05]))] = IGNORE
    ratio = data.draw(st.floats(0.01, 0.4))
    found = boundary_counts(truth, prediction, 3, ratio, IGNORE)
    assert [each.tolist() for each in found] == slow_counts(truth, prediction, 3, ratio, IGNORE)
