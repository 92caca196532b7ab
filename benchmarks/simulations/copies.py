"""How often intervals hold the truth where test images are there more than once, by what is taken for the unit.

Each distinct image is right with the probability of its class, which is known: the truth. It has 1 + Poisson copies,
and all its copies are answered alike. Scores of images and of units are those of `bootstrap_scores`.
"""

from __future__ import annotations

import numpy as np
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.scores.bootstrap import bootstrap_scores

TITLE = "Coverage of 95 % intervals, copies as separate images → as one unit"
DOCUMENT = "docs/simulations.md"
FULL, SMALL = 400, 2

RIGHT = np.array([0.9, 0.75, 0.6])
METRICS = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy"}
SIZES = (24, 99, 300)
# mean number of further copies of an image
COPIES = {"1 of 10 images twice": 0.1, "twice on average": 1.0, "five times": 4.0}


def table(draws: int, seed: int) -> str:
    """Rows: how many copies there are, and metric; columns: distinct images."""
    lines = ["| copies | metric |" + "".join(f" {size} distinct images |" for size in SIZES)]
    lines.append("|---|---|" + "---|" * len(SIZES))
    for name, copies in COPIES.items():
        rng = np.random.default_rng((seed, round(10 * copies)))
        cells = [_held(rng, size, copies, draws) for size in SIZES]
        for metric, said in METRICS.items():
            shares = [
                " → ".join(f"{share:.2f}".removeprefix("0") for share in cell[metric])
                for cell in cells
            ]
            lines.append(f"| {name} | {said} |" + "".join(f" {share} |" for share in shares))
    return "\n".join(lines)


def _held(rng, size: int, copies: float, draws: int) -> dict[str, np.ndarray]:
    """Metric to the shares of intervals that hold the truth: of images, of units."""
    held = {metric: np.zeros((draws, 2)) for metric in METRICS}
    for draw in range(draws):
        target = np.arange(size) % len(RIGHT)
        answer = np.where(rng.random(size) < RIGHT[target], target, (target + 1) % len(RIGHT))
        image = np.repeat(np.arange(size), 1 + rng.poisson(copies, size))
        for place, groups in enumerate((None, [f"copies of {one}" for one in image])):
            predictions = LabelledSamples.from_arrays(
                [f"image {row}" for row in range(len(image))],
                target[image],
                answer[image],
                np.eye(len(RIGHT), dtype=np.float32)[answer[image]],
                task="classification",
                classes=[str(one) for one in range(len(RIGHT))],
                groups=groups,
            )
            for row in bootstrap_scores(predictions, seed=draw):
                if row["metric"] in held:
                    holds = row["lower"] <= RIGHT.mean() <= row["upper"]
                    held[row["metric"]][draw, place] = holds
    return {metric: found.mean(axis=0) for metric, found in held.items()}
