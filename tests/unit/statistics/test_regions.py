"""Intervals over regions that are left out in turn, by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.scores.bootstrap import bootstrap_scores

IMAGES, WIDTH = 40, 3


def region(rng, count=IMAGES):
    """Two classes of images whose features a region shifts, and how far they are apart there."""
    labels = np.arange(count) % 2
    apart = 1 + 0.4 * rng.normal()
    shift = 0.4 * rng.normal(size=WIDTH)
    centres = np.outer(labels - 0.5, np.eye(WIDTH)[0]) * 2 * apart
    return labels, centres + shift + rng.normal(size=(count, WIDTH))


def answers(train, x):
    """Of the nearest class mean."""
    labels, known = (np.concatenate(each) for each in zip(*train, strict=True))
    means = [known[labels == one].mean(axis=0) for one in (0, 1)]
    far = [((x - mean) ** 2).sum(axis=1) for mean in means]
    return (far[1] < far[0]).astype(int)


def folds(regions):
    """Right answers where each region is answered by what is trained on the others."""
    return [
        answers(regions[:i] + regions[i + 1 :], x) == labels
        for i, (labels, x) in enumerate(regions)
    ]


@pytest.mark.parametrize("count", [6, 12])
def test_intervals_cover_the_accuracy_in_another_region(count):
    """The fold's regions are the units; images as units would be far too certain."""
    true = np.mean(
        [
            np.mean(answers([region(rng) for _ in range(count - 1)], x) == labels)
            for rng in [np.random.default_rng(9)]
            for _ in range(1500)
            for labels, x in [region(rng)]
        ]
    )
    covered = {"regions": 0, "images": 0}
    trials = 250
    for seed in range(trials):
        rng = np.random.default_rng([seed, count])
        right = np.concatenate(folds([region(rng) for _ in range(count)]))
        names = np.repeat([f"region {i}" for i in range(count)], IMAGES).tolist()
        ids = [f"image{i:04d}" for i in range(len(right))]
        scores = np.eye(2, dtype=np.float32)[right.astype(int)]
        for units, groups in (("regions", names), ("images", None)):
            found = LabelledSamples.from_arrays(
                ids,
                np.ones(len(right), int),
                right.astype(int),
                scores,
                task="classification",
                classes=["wrong", "right"],
                groups=groups,
            )
            (row,) = (row for row in bootstrap_scores(found, seed=0) if row["primary"])
            covered[units] += row["lower"] <= true <= row["upper"]
    assert 0.91 <= covered["regions"] / trials <= 0.99, covered
    assert covered["images"] / trials < 0.85, covered
