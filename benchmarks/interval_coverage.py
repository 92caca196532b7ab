"""How often intervals of 95 % hold the truth, and how often equal backbones differ at 5 %, on made-up test sets.

    envs/run python benchmarks/interval_coverage.py [--sets 400] [--cells masks,numbers] [--groups 0,15] \
        [--seed 0] [--no-before] [--json FILE]

Every cell draws test sets of one kind, each with the predictions of two backbones that are equally good. The
truth is the metric of a test set so large that chance no longer matters. "Before" are percentiles of 400
bootstrap resamples, "after" is what `bootstrap_scores` and `compare` give. A table in Markdown is printed.

Groups have effects of their own on how hard their images are (shared by both backbones, and in part each
backbone's own), such that accuracy varies 2.2 times as much as among independent images. Where sizes of groups
are unequal, they are lognormal with a sigma of 0.7: the largest of 15 is about nine times the smallest.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # many small products: threads cost more than they save

import numpy as np
from permafrost.data.labels.objects import Objects
from permafrost.metrics.objects.detected import Detected
from permafrost.statistics.predictions.confusions import ChangeConfusions, Confusions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.predictions.objects import DetectedObjects, ObjectScoring
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare

RESAMPLES = 400
FEW_GROUPS = (3, 5, 8, 12, 15, 30, 40, 100)
SIDE = 200.0
CHIP, REACH, AT_ONCE = (
    64,
    4.0,
    500,
)  # pixels of a scene's side, of the reach of its fields; scenes in memory
WIDE = 640.0  # of an image whose objects have COCO's sizes


class Groups:
    """Groups of the images of one test set; None of them where images are independent."""

    def __init__(self, rng, images: int, count: int, unequal: bool) -> None:
        self.rng, self.images, self.count = rng, images, count
        self.index = None
        if count and unequal:
            share = rng.lognormal(0, 0.7, count)
            drawn = rng.choice(count, images - count, p=share / share.sum())
            self.index = np.concatenate((np.arange(count), drawn))
        elif count:
            self.index = np.arange(images) % count

    @property
    def names(self):
        if self.index is None:
            return None
        return np.array([f"group {k:05}" for k in range(self.count)], object)[self.index]

    def effect(self, sd: float) -> np.ndarray:
        """(images,) one draw per group; 0 where there are none."""
        if self.index is None:
            return np.zeros(self.images)
        return self.rng.normal(0, sd, self.count)[self.index]


def names_of(images: int) -> list[str]:
    return [f"{i:07}" for i in range(images)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def classification(rng, groups: Groups, shares):
    n, classes = groups.images, len(shares)
    if groups.index is None:
        target = rng.choice(classes, n, p=shares)
    else:
        mixture = rng.dirichlet(8 * shares, groups.count).cumsum(axis=1)[groups.index]
        target = np.minimum((rng.random((n, 1)) > mixture).sum(axis=1), classes - 1)
    easy = 1 + groups.effect(0.8) + rng.normal(0, 1, n) + np.linspace(0.5, -0.5, classes)[target]
    wrong = shares[:-1] / shares[:-1].sum()
    for _ in range(2):
        hit = rng.random(n) < sigmoid(easy + groups.effect(0.4))
        other = (target + 1 + rng.choice(classes - 1, n, p=wrong)) % classes
        scores = np.zeros((n, classes), np.float32)
        yield labelled(groups, target, np.where(hit, target, other), scores, "classification")


def labelled(groups: Groups, target, prediction, scores, task):
    return LabelledSamples.from_arrays(
        names_of(len(target)),
        target,
        prediction,
        scores,
        task=task,
        classes=[str(k) for k in range(scores.shape[1])],
        groups=groups.names,
    )


def balanced(rng, groups):
    return classification(rng, groups, np.full(10, 0.1))


def imbalanced(rng, groups):
    """Eight classes, the largest twenty times as frequent as the smallest."""
    shares = 0.65 ** np.arange(8)
    return classification(rng, groups, shares / shares.sum())


def nearly_always_right(rng, groups):
    """Top-5 accuracy 0.9974."""
    n, classes = groups.images, 10
    target = rng.integers(0, classes, n)
    for _ in range(2):
        scores = rng.random((n, classes)).astype(np.float32)
        scores[np.arange(n), target] = np.where(rng.random(n) < 0.9974, 2, -1)
        yield labelled(groups, target, scores.argmax(axis=1), scores, "classification")


def masks(rng, groups):
    """Six classes of unequal area; where there are groups, each has its own mixture of them."""
    n, area = groups.images, np.array([3, 2, 1, 0.6, 0.4, 0.3])
    if groups.index is None:
        mixture = np.tile(area, (n, 1))
    else:
        mixture = (rng.gamma(1.5, 1, (groups.count, 6)) * area)[groups.index] + 0.02
    pixels = rng.gamma(mixture, 1) + 1e-9
    truth = np.round(4096 * pixels / pixels.sum(axis=1, keepdims=True)).astype(int)
    easy = 1.3 + groups.effect(0.6) + rng.normal(0, 0.6, n)
    each = np.arange(6)
    for _ in range(2):
        right = sigmoid(easy + groups.effect(0.3) + rng.normal(0, 0.2, n))
        hits = rng.binomial(truth, right[:, None] * np.linspace(1, 0.75, 6))
        confusion = np.zeros((n, 6, 6), np.int64)
        confusion[:, each, each] = hits
        confusion[:, each, (each + 1) % 6] += (truth - hits) // 2
        confusion[:, each, (each + 2) % 6] += truth - hits - (truth - hits) // 2
        yield Confusions.from_arrays(
            names_of(n), confusion, classes=list("abcdef"), groups=groups.names
        )


def change(rng, groups):
    """Scenes of 64 x 64 pixels, half of which have changed by 2 to 10 %; truth and errors are smooth fields.

    How much has changed and how much is called changed differ between groups, or without them between scenes.
    """
    n = groups.images
    effect = groups.effect if groups.index is not None else lambda sd: rng.normal(0, sd, n)
    least = 1.6 + effect(0.45) + rng.normal(0, 0.2, n)
    lenient = least - effect(0.25)
    own = [lenient - effect(0.15) for _ in range(2)]
    found = np.zeros((2, n, 2, 2), np.int64)
    for start in range(0, n, AT_ONCE):
        rows = slice(start, min(start + AT_ONCE, n))
        count = rows.stop - rows.start
        field, shared = smooth_fields(rng, count), smooth_fields(rng, count)
        truth = field > least[rows, None, None]
        for backbone in range(2):
            score = field + 0.45 * shared + 0.35 * smooth_fields(rng, count)
            cells = 2 * truth + (score > own[backbone][rows, None, None])
            for cell in range(4):
                found[backbone, rows, cell // 2, cell % 2] = (cells == cell).sum(axis=(1, 2))
    for confusion in found:
        yield ChangeConfusions.from_arrays(
            names_of(n), confusion, classes=["same", "changed"], groups=groups.names
        )


def smooth_fields(rng, count: int) -> np.ndarray:
    """(count, CHIP, CHIP) normal fields of variance 1, whose correlation falls to 1 / e over 2 `REACH` pixels."""
    along = np.exp(-2 * (np.pi * REACH * np.fft.fftfreq(CHIP)) ** 2)
    kernel = np.outer(along, along[: CHIP // 2 + 1])
    noise = np.fft.rfft2(rng.standard_normal((count, CHIP, CHIP)))
    # the variance of white noise after this filter
    spread = np.sqrt((np.outer(along, along) ** 2).mean())
    return np.fft.irfft2(noise * kernel, (CHIP, CHIP)) / spread


def labels(rng, groups):
    """Ten labels, true of 40 % of the images down to 5 %."""
    n, shares = groups.images, np.geomspace(0.4, 0.05, 10)
    if groups.index is not None:
        logits = np.log(shares / (1 - shares)) + rng.normal(0, 0.7, (groups.count, 10))
        shares = sigmoid(logits)[groups.index]
    target = (rng.random((n, 10)) < shares).astype(int)
    base = rng.normal(0, 0.7, (n, 10))
    for _ in range(2):
        scores = 1.6 * target + base + rng.normal(0, 0.7, (n, 10)) + groups.effect(0.4)[:, None]
        scores = scores.astype(np.float32)
        yield labelled(groups, target, (scores > 1).astype(int), scores, "multilabel")


def numbers(rng, groups, noise=None):
    n = groups.images
    noise = noise or (lambda: rng.normal(0, 1, n))
    target = rng.normal(0, 1, n) + groups.effect(0.8)
    shared = noise()
    for _ in range(2):
        errors = 0.5 * shared + 0.4 * noise() + groups.effect(0.3)
        yield PredictedNumbers.from_arrays(
            names_of(n), target, target + errors, groups=groups.names
        )


def heavy_tailed(rng, groups):
    """Residuals like Student's t with five degrees of freedom."""
    return numbers(rng, groups, lambda: rng.standard_t(5, groups.images))


def objects(rng, groups, *, points: bool):
    """Two classes, about five objects and three false alarms an image."""
    n, truth = groups.images, []
    found_share, many = groups.effect(0.7), np.exp(groups.effect(0.4))
    for image in range(n):
        count = rng.poisson(5 * many[image])
        corners = rng.uniform(0, 0.8 * SIDE, (count, 2))
        boxes = np.concatenate([corners, corners + _sides(rng, count, points)], axis=1)
        truth.append(Objects.of(boxes, rng.integers(0, 2, count), crowd=np.zeros(count, bool)))
    for _ in range(2):
        own = 1 + found_share + groups.effect(0.3)
        yield DetectedObjects.from_arrays(
            names_of(n),
            truth,
            [_detected(rng, one, sigmoid(own[i]), points) for i, one in enumerate(truth)],
            [(int(SIDE), int(SIDE))] * n,
            scoring=ObjectScoring(
                task="point_detection" if points else "detection",
                classes=["a", "b"],
                score_threshold=0.4,
                max_detections=100,
                match_distance=10.0 if points else None,
            ),
            groups=groups.names,
        )


def _sides(rng, count: int, points: bool):
    return rng.uniform(8, 60, (count, 2)) * (not points)


def _detected(rng, truth: Objects, share: float, points: bool) -> Detected:
    seen = np.flatnonzero(rng.random(len(truth)) < share)
    moved = rng.normal(0, 3, (len(seen), 2, 2))
    if points:
        moved[:, 1] = moved[:, 0]
    hits = np.sort(truth.boxes[seen].reshape(-1, 2, 2) + moved, axis=1).reshape(-1, 4)
    corners = rng.uniform(0, 0.8 * SIDE, (rng.poisson(3), 2))
    alarms = np.concatenate([corners, corners + _sides(rng, len(corners), points)], axis=1)
    return Detected(
        np.concatenate([hits, alarms]),
        np.concatenate([truth.classes[seen], rng.integers(0, 2, len(alarms))]),
        np.concatenate([rng.beta(4, 2, len(seen)), rng.beta(2, 4, len(alarms))]),
    )


def boxes(rng, groups):
    return objects(rng, groups, points=False)


def points(rng, groups):
    return objects(rng, groups, points=True)


RARE = np.concatenate([np.full(10, 0.3), np.geomspace(0.2, 0.01, 30)])


def detections(rng, groups: Groups, shares):
    """Two equally good detectors; `shares` (K,) are those of the images that hold each class."""
    n, known = groups.images, np.linspace(0.8, 0.0, len(shares))
    easy, truth = groups.effect(0.7), []
    for _ in range(n):
        held = np.where(rng.random(len(shares)) < shares, 1 + rng.poisson(1.2, len(shares)), 0)
        classes = np.repeat(np.arange(len(shares)), held)
        truth.append(
            Objects.of(_sized_boxes(rng, len(classes)), classes, crowd=np.zeros(len(classes), bool))
        )
    hard = [rng.normal(0, 1, len(each)) for each in truth]
    for _ in range(2):
        own = easy + groups.effect(0.3)
        found = []
        for i, each in enumerate(truth):
            logit = 0.6 + known[each.classes] + own[i] + 0.8 * hard[i]
            found.append(_found_of_classes(rng, each, sigmoid(logit), shares))
        yield DetectedObjects.from_arrays(
            names_of(n),
            truth,
            found,
            [(int(WIDE), int(WIDE))] * n,
            scoring=ObjectScoring(
                task="detection",
                classes=[f"class {k}" for k in range(len(shares))],
                score_threshold=0.05,
                max_detections=100,
            ),
            groups=groups.names,
        )


def _sized_boxes(rng, count: int) -> np.ndarray:
    sides = np.exp(rng.normal(4, 0.8, (count, 1)) + rng.normal(0, 0.2, (count, 2))).clip(6, 400)
    corners = rng.uniform(0, 1, (count, 2)) * (WIDE - sides)
    return np.concatenate([corners, corners + sides], axis=1)


def _found_of_classes(rng, truth: Objects, chances: np.ndarray, shares) -> Detected:
    seen = np.flatnonzero(rng.random(len(truth)) < chances)
    boxes = truth.boxes[seen]
    sides = np.tile(boxes[:, 2:] - boxes[:, :2], 2)
    moved = boxes + rng.normal(0, 1, boxes.shape) * sides * rng.choice(
        [0.02, 0.06, 0.15], (len(seen), 1)
    )
    moved[:, 2:] = np.maximum(moved[:, 2:], moved[:, :2] + 1)
    alarms = np.repeat(np.arange(len(shares)), rng.poisson(3 * shares / shares.sum() + 0.02))
    return Detected(
        np.concatenate([moved, _sized_boxes(rng, len(alarms))]),
        np.concatenate([truth.classes[seen], alarms]),
        np.concatenate([rng.beta(4, 2, len(seen)), rng.beta(2, 4, len(alarms))]),
    )


def many_classes(rng, groups):
    return detections(rng, groups, RARE)


OF_CLASSES = ("accuracy", "balanced_accuracy", "macro_f1")
OF_NUMBERS = ("r2", "rmse", "mae")
# generator, metrics, images in a group, numbers of independent images
GENERATORS = {
    "balanced classes": (balanced, OF_CLASSES, 40, (100, 300, 1000)),
    "imbalanced classes": (imbalanced, OF_CLASSES, 40, (200, 500, 2000)),
    "top-5 near 1": (nearly_always_right, ("top5_accuracy",), 33, (100, 300, 1000)),
    "masks": (masks, ("mean_iou", "pixel_accuracy"), 12, (100, 300)),
    "change": (change, ("change_f1", "change_iou"), 6, (10, 20, 50)),
    "labels": (labels, ("micro_ap", "macro_ap", "micro_f1"), 20, (100, 200, 400)),
    "numbers": (numbers, OF_NUMBERS, 30, (100, 400)),
    "heavy tails": (heavy_tailed, OF_NUMBERS, 30, (100, 400, 2000)),
    "boxes": (boxes, ("AP", "AR"), 6, (60, 200)),
    "points": (points, ("point_ap", "point_f1"), 8, (60, 200)),
    "boxes of 40 classes": (many_classes, ("AP", "AR"), 10, (400,)),
}
# made more slowly, so that fewer group counts are tried
SLOW = {
    "change": (10, 20, 50),
    "labels": (5, 8, 10, 15, 20, 40, 50),
    "boxes": (5, 8, 15, 40),
    "points": (5, 8, 15, 40),
    "boxes of 40 classes": (),
    "top-5 near 1": (12,),
}
# sets with unequal groups
UNEQUAL = {name: (5, 8, 15, 40) for name in ("balanced classes", "masks", "numbers")}
UNEQUAL["change"] = (10, 20, 50)
# images of a large test set, and how many of them tell the truth
LARGE = {
    "change": (20_000, 4),
    **dict.fromkeys(("boxes", "points", "boxes of 40 classes"), (8000, 1)),
}


def cells_of(name: str):
    """(images, groups, whether they are unequal) of each cell of a generator."""
    _, _, of_group, independent = GENERATORS[name]
    for count in SLOW.get(name, FEW_GROUPS):
        yield count * of_group, count, False
        if count in UNEQUAL.get(name, ()):
            yield count * of_group, count, True
    for images in independent:
        yield images, 0, False


def truth_of(name: str, of_group: int, count: int, unequal: bool, seed: int) -> dict[str, float]:
    """Mean over large test sets of both backbones."""
    make, metrics, *_ = GENERATORS[name]
    images, times = LARGE.get(name, (100_000, 8))
    rng = np.random.default_rng([seed, 1])
    found: dict[str, list[float]] = {metric: [] for metric in metrics}
    for _ in range(times):
        groups = Groups(rng, images, images // of_group if count else 0, unequal)
        for predictions in make(rng, groups):
            values = predictions.evaluate()
            for metric in metrics:
                found[metric].append(values[metric])
    return {metric: float(np.mean(values)) for metric, values in found.items()}


def run(name, images, count, unequal, truth, *, sets, seed, before) -> list[dict]:
    """Shares of the test sets whose interval holds the truth, and whose equal backbones differ."""
    make, metrics, *_ = GENERATORS[name]
    rng = np.random.default_rng([seed, images, count, unequal])
    held = {(kind, metric): 0 for kind in ("before", "after") for metric in metrics}
    differ, methods, shared = dict(held), {}, {}
    for number in range(sets):
        pair = dict(zip("ab", make(rng, Groups(rng, images, count, unequal)), strict=True))
        for row in bootstrap_scores(pair["a"], resamples=RESAMPLES, seed=number):
            metric = row["metric"]
            if metric in metrics and row["class"] is None:
                held["after", metric] += row["lower"] <= truth[metric] <= row["upper"]
                methods[metric] = row["method"]
        for metric in metrics:
            (row,) = compare(pair, metric=metric, resamples=RESAMPLES, seed=number)
            differ["after", metric] += row["p_value"] <= 0.05
        if before:
            for metric, (low, high), (less, more) in percentiles(pair, metrics, shared):
                held["before", metric] += low <= truth[metric] <= high
                differ["before", metric] += less > 0 or more < 0
    return [
        {
            "generator": name,
            "images": images,
            "groups": count,
            "unequal": unequal,
            "metric": metric,
            "truth": truth[metric],
            "method": methods[metric],
            "sets": sets,
            **{f"held_{kind}": held[kind, metric] / sets for kind in ("before", "after")},
            **{f"differ_{kind}": differ[kind, metric] / sets for kind in ("before", "after")},
        }
        for metric in metrics
    ]


def percentiles(pair: dict, metrics, shared: dict):
    """Each metric's percentile interval of one backbone, and that of the difference of both."""
    one = pair["a"]
    units = find_units(len(one), sample_ids=one.sample_ids, groups=one.groups)
    if units.count not in shared:
        shared[units.count] = draw_resamples(units.count, RESAMPLES, 5)
    first, second = (
        each.family(units.index).replicates(shared[units.count], metrics) for each in pair.values()
    )
    for metric in metrics:
        yield (
            metric,
            np.nanpercentile(first[metric], [2.5, 97.5]),
            np.nanpercentile(first[metric] - second[metric], [2.5, 97.5]),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=400, help="test sets of each cell")
    parser.add_argument("--cells", default="", help="generators, separated by commas; default all")
    parser.add_argument(
        "--groups", default="", help="numbers of groups, separated by commas; 0 for none"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-before", action="store_true", help="leave percentiles out")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    chosen = [name for name in arguments.cells.split(",") if name] or list(GENERATORS)
    if unknown := {*chosen} - {*GENERATORS}:
        parser.error(f"--cells: {', '.join(unknown)} is none of {', '.join(GENERATORS)}")
    counts = {int(count) for count in arguments.groups.split(",") if count}
    print(
        "| test sets | images | groups | metric | interval | before | after | reject before | after |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    results, truths = [], {}
    for name in chosen:
        for images, count, unequal in cells_of(name):
            if counts and count not in counts:
                continue
            kind = (name, bool(count), unequal)
            if kind not in truths:
                of_group = GENERATORS[name][2]
                truths[kind] = truth_of(name, of_group, count, unequal, arguments.seed)
            results += run(
                name,
                images,
                count,
                unequal,
                truths[kind],
                sets=arguments.sets,
                seed=arguments.seed,
                before=not arguments.no_before,
            )
            for row in results[-len(GENERATORS[name][1]) :]:
                print_row(row, before=not arguments.no_before)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


def print_row(row: dict, *, before: bool) -> None:
    groups = f"{row['groups']}{', unequal' * row['unequal']}" if row["groups"] else "–"
    cells = [row["generator"], str(row["images"]), groups, row["metric"], row["method"]]
    for name in ("held", "differ"):
        old = f"{row[f'{name}_before']:.3f}" if before else ""
        cells += [old, f"{row[f'{name}_after']:.3f}"]
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
