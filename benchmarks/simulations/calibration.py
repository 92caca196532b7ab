"""How often intervals of calibration hold the truth, of good and of nearly perfect classifiers.

An item has one of ten classes; its logits are noise, and `margin` more for the right class (which sets the
accuracy), times `sharpness` (which makes probabilities too sure or too cautious). Groups have margins of their own.
The truth is the metric of very many items.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from permafrost.metrics import calibration
from permafrost.metrics.tasks import BRIER, SCALED, TEMPERATURE
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.scores.bootstrap import bootstrap_scores

TITLE = "Coverage of 95 % intervals of calibration, in brackets the share with a warning"
DOCUMENT = "docs/simulations.md"
FULL, SMALL = 300, 1

CLASSES, POPULATION = 10, 100_000
METRICS = {
    BRIER: "Brier score",
    "expected_calibration_error": "ECE",
    "brier_score_scaled": "Brier score, scaled",
    TEMPERATURE: "temperature",
}
MARGINS = (4.75, 4.0, 2.3)
SHARPNESS = {"too sure": 2.0, "about right": 1.0}
# items and groups of a test set
SIZES = {
    "50 images": (50, 0),
    "100": (100, 0),
    "500": (500, 0),
    "8 groups": (160, 8),
    "15 groups": (300, 15),
    "40 groups": (800, 40),
}


def table(draws: int, seed: int) -> str:
    """Rows: accuracy, sharpness and metric; columns: sizes of the test set."""
    lines = ["| accuracy, probabilities | metric |" + "".join(f" {name} |" for name in SIZES)]
    lines.append("|---|---|" + "---|" * len(SIZES))
    for margin in MARGINS:
        for name, sharpness in SHARPNESS.items():
            rng = np.random.default_rng((seed, round(100 * margin), round(100 * sharpness)))
            make = partial(_items, rng, margin=margin, sharpness=sharpness)
            truths = [_truth(*make(POPULATION, groups)) for groups in (0, POPULATION // 20)]
            columns = [
                _cell(rng, make, *size, truths[size[1] > 0], draws) for size in SIZES.values()
            ]
            accuracy = truths[0]["accuracy"]
            lines += [
                f"| {accuracy:.3f}, {name} | {said} |"
                + "".join(f" {_written(column[metric])} |" for column in columns)
                for metric, said in METRICS.items()
            ]
    return "\n".join(lines)


def _cell(rng, make, size: int, groups: int, truth: dict, draws: int) -> dict:
    """Metric to (draws, 2): whether the interval holds the truth, and whether the row has a gate."""
    found = {metric: [] for metric in METRICS}
    for _ in range(draws):
        target, scores, group = make(size, groups)
        predictions = LabelledSamples.from_arrays(
            [f"item {place}" for place in range(size)],
            target,
            scores.argmax(axis=1),
            scores,
            task="classification",
            classes=[str(one) for one in range(CLASSES)],
            groups=None if group is None else [f"group {one}" for one in group],
        )
        drawn = int(rng.integers(1 << 30))
        for row in bootstrap_scores(predictions, seed=drawn, calibration={"bins": 15}):
            if row["metric"] in found:
                value = truth[row["metric"]]
                held = row["lower"] <= value <= row["upper"]
                found[row["metric"]].append((held, bool(row["flags"])))
    return found


def _truth(target, scores, _) -> dict:
    """The metrics, accuracy too, of very many items; the temperature is that of all of them."""
    fitted = calibration.fit_temperature(target, scores, task="classification").value
    values = calibration.evaluate(target, scores, task="classification")
    scaled = calibration.scale(scores, fitted, task="classification")
    after = calibration.evaluate(target, scaled, task="classification")
    accuracy = float(np.mean(scores.argmax(axis=1) == target))
    values |= {f"{name}{SCALED}": value for name, value in after.items()}
    return {"accuracy": accuracy, TEMPERATURE: fitted, **values}


def _items(rng, count: int, groups: int, margin: float, sharpness: float):
    """(N,) targets, (N, K) probabilities, and (N,) groups or None."""
    group = None
    if groups:
        group = np.arange(count) % groups
        margin = margin + 0.7 * rng.normal(size=groups)[group]
    target = rng.integers(0, CLASSES, count)
    logits = rng.normal(size=(count, CLASSES))
    logits[np.arange(count), target] += margin
    shares = np.exp(sharpness * logits)
    return target, shares / shares.sum(axis=1, keepdims=True), group


def _written(found: list[tuple[bool, bool]]) -> str:
    held, marked = np.mean(found, axis=0)
    return f"{held:.2f}" + (f" ({marked:.2f})" if marked else "")
