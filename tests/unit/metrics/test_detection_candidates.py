"""Huge cells: only pairs that may meet are visited, and none that meets is missed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.detections import coco_case
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection import pairs
from permafrost.metrics.detection.pairs import candidate_pairs


def meeting(detected, true):
    """All pairs with a common area, by the evaluator's own arithmetic."""
    low = np.maximum(detected[:, None, :2], true[None, :, :2])
    high = np.minimum(
        (detected[:, :2] + detected[:, 2:])[:, None], (true[:, :2] + true[:, 2:])[None]
    )
    return {tuple(pair) for pair in np.argwhere((high > low).all(axis=2)).tolist()}


def boxes(rng, count, spread, sizes):
    corner = rng.uniform(-spread, spread, (count, 2))
    return np.concatenate(
        [corner, rng.choice(sizes, (count, 1)) * rng.uniform(0, 1, (count, 2))], 1
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_pair_that_meets_is_missed_and_none_comes_twice(seed):
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.0, 1e-3, 1.0, 100.0, 1e5, 1e15])
    sizes = [[0.0], [1.0], [0.0, 1e-9, 1e-3, 1.0, 30.0, 1e4], [1e12, 1.0]][seed % 4]
    detected, true = boxes(rng, 60, spread, sizes), boxes(rng, 70, spread, sizes)
    if seed % 3 == 0:  # edges and corners in common
        detected, true = np.round(detected), np.round(true)
    if seed % 5 == 0:
        detected[:20] = true[:20]
    for block in (7, 1 << 16):
        found = [
            pair
            for i, j in candidate_pairs(detected, true, block)
            for pair in zip(i, j, strict=True)
        ]
        assert len(found) == len(set(found))
        assert meeting(detected, true) <= {(int(i), int(j)) for i, j in found}


def test_what_is_visited_grows_as_the_image_does():
    visited = []
    for side in (20, 40):
        corner = (
            np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=2).reshape(-1, 2) * 50.0
        )
        true = np.concatenate([corner, np.full_like(corner, 40.0)], axis=1)
        visited.append(sum(len(i) for i, _ in candidate_pairs(true + 3, true, 1 << 16)) / len(true))
    # per object: all of them would be 400 and 1600
    assert max(visited) < 13


def test_nothing_pairs_with_nothing():
    some = np.ones((3, 4))
    assert (
        list(candidate_pairs(some[:0], some, 10)) == list(candidate_pairs(some, some[:0], 10)) == []
    )


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "boundary"])
@pytest.mark.parametrize("lowest", [0.3, 0.0])
def test_huge_cells_score_as_others(monkeypatch, iou_type, lowest):
    geometry = "bbox" if iou_type == "bbox" else "segm"
    truth, results = coco_case(
        3, images=2, truths=30, detections=60, categories=1, geometry=geometry
    )
    options = {"iou_type": iou_type, "iou_thresholds": [lowest, 0.5], "max_dets": [500]}
    plain = evaluate(truth, results, **options)
    monkeypatch.setattr(pairs, "_HUGE", 1)
    dense = evaluate(truth, results, **options)
    assert plain.stats[0] > 0
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(getattr(plain, name), getattr(dense, name))
    for name in ("rows", "columns", "similarity"):
        assert np.array_equal(getattr(plain.pairs, name), getattr(dense.pairs, name))
