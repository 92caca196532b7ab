"""How often intervals of scores hold the truth, on made-up test sets of many kinds.

Groups have effects of their own on how hard their images are. The truth is the metric of a test set so large that
chance no longer matters, with as many images in a group. A label of k in 20 scenes is in the same share of its scenes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from permafrost.statistics.predictions.confusions import Confusions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.gates import score_gates

TITLE = "Coverage of 95 % intervals, in brackets the percentage with a warning"
DOCUMENT = "docs/simulations.md"
FULL, SMALL = 200, 1

POPULATION = 40_000
# images and groups of a test set
SIZES = {
    "8 groups": (160, 8),
    "15 groups": (300, 15),
    "40 groups": (800, 40),
    "100 images": (100, 0),
    "500 images": (500, 0),
}
# scenes or images, how many images each has, in how many of them the label is true
RARE = [(20, 20, k) for k in (1, 2, 3, 5, 10)] + [(300, 1, k) for k in (1, 2, 3, 5, 10)]


@dataclass(frozen=True)
class TestSet:
    """What a generator is given: a source of chance, N images, (N,) groups or None, and their number."""

    rng: np.random.Generator
    images: int
    group: np.ndarray | None
    groups: int

    @classmethod
    def of(cls, rng, images: int, groups: int) -> TestSet:
        return cls(rng, images, np.arange(images) % groups if groups else None, groups)

    def effect(self, spread: float) -> np.ndarray:
        """(N,) how much harder or easier images are for their group; 0 without groups."""
        if self.group is None:
            return np.zeros(self.images)
        return spread * self.rng.normal(size=self.groups)[self.group]

    @property
    def names(self) -> dict:
        """Names of images, and of groups where there are any."""
        named = None if self.group is None else [f"scene {each}" for each in self.group]
        return {"sample_ids": [f"{row:06d}" for row in range(self.images)], "groups": named}


def labels(given: TestSet, target: np.ndarray, scores: np.ndarray) -> LabelledSamples:
    """Predictions of labels."""
    names = given.names
    classes = [f"label {place}" for place in range(target.shape[1])]
    return LabelledSamples.from_arrays(
        names["sample_ids"],
        target.astype(np.uint8),
        (scores > 1).astype(np.uint8),
        scores,
        task="multilabel",
        classes=classes,
        groups=names["groups"],
    )


def classes_of(given: TestSet, margin: float, often: np.ndarray) -> LabelledSamples:
    """Predictions of single classes, the right one with `margin` more than noise."""
    target = given.rng.choice(len(often), given.images, p=often)
    scores = given.rng.normal(size=(given.images, len(often)))
    scores[np.arange(given.images), target] += margin + given.effect(0.8)
    names = given.names
    return LabelledSamples.from_arrays(
        names["sample_ids"],
        target,
        scores.argmax(axis=1),
        scores,
        task="classification",
        classes=[f"class {place}" for place in range(len(often))],
        groups=names["groups"],
    )


def balanced(given: TestSet) -> LabelledSamples:
    return classes_of(given, 2.0, np.full(6, 1 / 6))


def unequal(given: TestSet) -> LabelledSamples:
    often = 1 / np.arange(1, 21)
    return classes_of(given, 2.0, often / often.sum())


def nearly_right(given: TestSet) -> LabelledSamples:
    return classes_of(given, 4.5, np.full(10, 0.1))


def twelve_labels(given: TestSet) -> LabelledSamples:
    """True of 50 % to 1 % of the images, some easy to see and some hardly."""
    target = given.rng.random((given.images, 12)) < np.geomspace(0.5, 0.01, 12)
    seen = np.tile([1.0, 2.5, 4.0], 4) + given.effect(0.5)[:, None]
    return labels(given, target, given.rng.normal(size=target.shape) + seen * target)


def easy_labels(given: TestSet) -> LabelledSamples:
    """One image in a hundred looks as if it had, or lacked, a label."""
    target = given.rng.random((given.images, 5)) < np.linspace(0.4, 0.1, 5)
    rate = 0.01 * np.exp(given.effect(0.8) - 0.32 * (given.groups > 0))[:, None]
    like = target ^ (given.rng.random(target.shape) < rate)
    return labels(given, target, given.rng.normal(size=target.shape) + 6 * like)


def masks(given: TestSet) -> Confusions:
    """Five classes, the last in one image of twenty; images are right to very different shares."""
    often = np.array([0.5, 0.25, 0.15, 0.1, 0.05])
    pixels = 1000 * given.rng.dirichlet(np.full(5, 0.4), given.images) * often / often.max()
    pixels[:, 4] *= given.rng.random(given.images) < 0.05
    right = 1 / (1 + np.exp(-1.5 - given.effect(0.6) - 0.7 * given.rng.normal(size=given.images)))
    confusion = np.einsum("nk,kl->nkl", pixels * (1 - right)[:, None], np.full((5, 5), 0.2))
    confusion[:, np.arange(5), np.arange(5)] += pixels * right[:, None]
    confusion = np.rint(confusion).astype(np.int64)
    names = [f"class {place}" for place in range(5)]
    return Confusions.from_arrays(confusion=confusion, classes=names, **given.names)


def numbers(given: TestSet, target: np.ndarray, error: np.ndarray) -> PredictedNumbers:
    return PredictedNumbers.from_arrays(target=target, prediction=target + error, **given.names)


def skewed(given: TestSet) -> PredictedNumbers:
    """Targets are lognormal, errors in proportion to them."""
    target = np.exp(0.7 * given.rng.normal(size=given.images) + given.effect(0.4))
    return numbers(given, target, 0.3 * target * given.rng.normal(size=given.images))


def outliers(given: TestSet) -> PredictedNumbers:
    """Four errors in a hundred are ten times as large."""
    large = np.where(given.rng.random(given.images) < 0.04, 10.0, 1.0)
    error = 0.3 * large * given.rng.normal(size=given.images) + given.effect(0.1)
    return numbers(given, given.rng.normal(size=given.images), error)


def equal_errors(given: TestSet) -> PredictedNumbers:
    """All errors are 1, but one in two hundred is 3."""
    size = np.where(given.rng.random(given.images) < 0.005, 3.0, 1.0)
    sign = np.where(given.rng.random(given.images) < 0.5, 1.0, -1.0)
    return numbers(given, 2 * given.rng.normal(size=given.images), sign * size)


def by_region(given: TestSet) -> PredictedNumbers:
    """Names sorted by region, of which there are ten with errors of their own; units are images."""
    given = TestSet(given.rng, given.images, None, 0)
    region = np.sort(given.rng.integers(0, 10, given.images))
    size = np.geomspace(0.2, 1.5, 10)[region]
    return numbers(
        given,
        region + given.rng.normal(size=given.images),
        size * given.rng.normal(size=given.images),
    )


KINDS: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "6 classes": (balanced, ("accuracy", "balanced_accuracy", "macro_f1")),
    "20 classes, most of them rare": (unequal, ("accuracy", "balanced_accuracy", "macro_f1")),
    "10 classes, nearly all right": (nearly_right, ("accuracy", "macro_f1")),
    "12 labels, 50 % to 1 %": (twelve_labels, ("micro_ap", "macro_ap")),
    "5 labels, nearly all right": (easy_labels, ("micro_ap", "macro_ap")),
    "masks, one rare class": (masks, ("pixel_accuracy", "mean_iou")),
    "numbers, skewed": (skewed, ("rmse", "mae", "r2")),
    "numbers, outliers": (outliers, ("rmse", "mae", "r2")),
    "numbers, errors nearly all equal": (equal_errors, ("rmse", "mae")),
    "numbers, names by region": (by_region, ("rmse", "mae", "r2")),
}


def table(draws: int, seed: int) -> str:
    """Rows: kinds of test sets and metrics, then labels that few scenes or images have."""
    lines = ["| test sets | metric |" + "".join(f" {name} |" for name in (*SIZES, "as named"))]
    lines.append("|---|---|" + "---|" * (len(SIZES) + 1))
    for place, (name, (make, metrics)) in enumerate(KINDS.items()):
        rng = np.random.default_rng((seed, place))
        columns = []
        for images, groups in SIZES.values():
            if groups and make is by_region:
                columns.append(dict.fromkeys(metrics, ""))
                continue
            many = POPULATION // images
            truth = make(TestSet.of(rng, many * images, many * groups)).evaluate()
            sets = (make(TestSet.of(rng, images, groups)) for _ in range(draws))
            columns.append(_cell(sets, {metric: truth[metric] for metric in metrics}))
        lines += [
            f"| {name} | {metric} |" + "".join(f" {column[metric]} |" for column in columns) + " |"
            for metric in metrics
        ]
    return "\n".join([*lines, *_rare(draws, seed)])


def _rare(draws: int, seed: int) -> list[str]:
    lines = []
    for units, images, holding in RARE:
        rng = np.random.default_rng((seed, units, holding))
        many = POPULATION // (units * images)
        truth = _rare_label(rng, units * many, images, holding * many).evaluate()
        sets = (_rare_label(rng, units, images, holding) for _ in range(draws))
        cell = _cell(sets, {"average_precision": truth["average_precision"][0]})
        what = f"a label in {holding} of {units} {'scenes' if images > 1 else 'images'}"
        blank = " |" * len(SIZES)
        lines.append(f"| {what} | average_precision |{blank} {cell['average_precision']} |")
    return lines


def _rare_label(rng, units: int, images: int, holding: int) -> LabelledSamples:
    """A label that is true in half of the images of `holding` scenes, easier to see in some of them."""
    given = TestSet.of(rng, units * images, units if images > 1 else 0)
    unit = np.arange(units * images) % units
    target = (unit < holding) & ((images == 1) | (rng.random(len(unit)) < 0.5))
    target[unit < holding][:1] = True
    seen = 1.5 + given.effect(1.5)
    scores = rng.normal(size=len(unit)) + seen * target
    return labels(given, target[:, None], scores[:, None])


def _cell(sets, truth: dict[str, float]) -> dict[str, str]:
    """Metric to how many of 100 intervals hold the truth, and how many have a gate of their own or of the test set."""
    held: dict[str, list] = {metric: [] for metric in truth}
    for predictions in sets:
        rows = bootstrap_scores(predictions, resamples=20, seed=0)
        met = score_gates(predictions, rows)
        first = {row["metric"]: row for row in reversed(rows) if row["metric"] in truth}
        for metric, row in first.items():
            if not np.isnan(row["value"]):
                inside = row["lower"] <= truth[metric] <= row["upper"]
                held[metric].append((inside, bool(met or row["flags"])))
    return {metric: _written(np.array(each, float)) for metric, each in held.items()}


def _written(each: np.ndarray) -> str:
    if not each.size:
        return "–"
    inside, marked = each.mean(axis=0)
    shown = f"{inside:.2f}".removeprefix("0")
    return f"{shown} ({100 * marked:.0f})" if marked else shown
