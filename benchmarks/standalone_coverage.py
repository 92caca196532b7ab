"""How often intervals of the evaluate commands hold the truth, with rare classes and few units, on made-up sets.

    envs/run python benchmarks/standalone_coverage.py [--sets 300] [--cells rare,crowns] [--seed 0] [--json FILE]

Every cell draws test sets of one kind; those of detections come with two detectors that are equally good. The
truth of a figure is that of a set so large that chance no longer matters; where a figure is a mean over
classes, of those that the test set holds. "Before" are intervals of 400 bootstrap resamples (basic for
detections, else percentiles), "after" is what the commands give, apart for figures that they mark in
``gates`` (few_units; those of one unit have no interval) and others. A table in Markdown is printed.

Detections: a class is in a given share of the images, with one to five objects of all sizes; the better the
class is known, the more of them are found. Crowns, rasters and panoptic segments: images (blocks) differ in how
many objects (pixels) they hold and in how hard they are, and the last class is in a third of them.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # many small products: threads cost more than they save

import numpy as np
from interval_coverage import RARE, Groups, detections, names_of, sigmoid
from permafrost.data.deepforest.annotations import Annotations
from permafrost.evaluators.crowns.evaluate import evaluate as evaluate_crowns
from permafrost.evaluators.intervals.detection import (
    DetectionScores,
    comparison_rows,
    detection_rows,
    image_units,
)
from permafrost.evaluators.intervals.standalone import score_rows
from permafrost.evaluators.panoptic.entries import Categories
from permafrost.evaluators.panoptic.result import PanopticEvaluation
from permafrost.evaluators.raster.result import RasterEvaluation
from permafrost.metrics.detection.resampled import replicates
from permafrost.metrics.detection.summarise import statistics
from permafrost.statistics.resampling.intervals import percentile_interval
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units

RESAMPLES = 400
FIGURES = ("AP", "AP50", "APs", "APl", "AR@100", "ARl")
# share of the images that hold each class, images, groups
DETECTIONS = {
    "common": ([0.7, 0.5, 0.4], 150, 0),
    "12 images": ([0.7, 0.5, 0.4], 12, 0),
    "some rare": ([0.7, 0.5, 0.4, 0.1, 0.06, 0.04], 300, 0),
    "rare": ([0.7, 0.5, 0.4, 0.05, 0.03, 0.015], 200, 0),
    "rare in groups": ([0.7, 0.5, 0.4, 0.06, 0.04], 200, 20),
    "40 classes": (RARE, 400, 0),
}
UNITS = (2, 4, 6, 10, 20, 30, 100)


class Scores(DetectionScores):
    """With the statistics that the command prints, which the pipeline's evaluations lack."""

    def __init__(self, evaluation) -> None:
        from dataclasses import replace

        every = statistics("bbox", evaluation.axes, strict=False, lvis=False)
        chosen = tuple(one for one in every if one.name in FIGURES)
        super().__init__(replace(evaluation, statistics=chosen))


def run_detections(name: str, sets: int, seed: int, tally) -> None:
    shares, images, count = DETECTIONS[name]
    shares = np.asarray(shares)
    truth = _truth_of_detections(shares, images // count if count else 0, seed)
    rng = np.random.default_rng([seed, images, len(shares)])
    for number in range(sets):
        groups = Groups(rng, images, count, False)
        one, other = (Scores(each.scores.evaluation) for each in detections(rng, groups, shares))
        units = image_units(one.evaluation, None if groups.names is None else groups.names.tolist())
        drawn = {"confidence": 0.95, "seed": number, "resamples": RESAMPLES}
        carriers = one.carriers(units)
        expected = {}
        for key in one.values:
            labels = carriers[key].labels
            own = truth[key[0]][[int(label.split()[-1]) for label in labels]]
            expected[key] = own.mean() if len(own) else np.nan
        before, after = (
            [
                list_rows(one, units, method=method, **drawn),
                comparison_rows(one, other, units, method=method, **drawn),
            ]
            for method, list_rows in (("basic", detection_rows), ("jackknife_t", detection_rows))
        )
        for old, new, old_test, new_test in zip(
            *before[:1], *after[:1], *before[1:], *after[1:], strict=True
        ):
            figure = new["metric"] + (" of a class" if new["class"] is not None else "")
            key = new["metric"], new["class"]
            tally(name, units.count, figure, expected[key], old, new, old_test, new_test)


def _truth_of_detections(shares, of_group: int, seed: int) -> dict[str, np.ndarray]:
    """(K,) of every figure, on large sets."""
    rng, images, found = np.random.default_rng([seed, 1]), 16_000, []
    groups = Groups(rng, images, images // of_group if of_group else 0, False)
    for each in detections(rng, groups, shares):
        evaluation = each.scores.evaluation
        chosen = Scores(evaluation).evaluation.statistics
        ones = np.ones((images, 1), np.uint8)
        found.append(
            replicates(evaluation, list(chosen), ones, each=len(chosen)).categories[:, :, 0]
        )
    names = [one.name for one in chosen]
    return dict(zip(names, np.mean(found, axis=0), strict=True))


def crowns(rng, units: int):
    """Boxes of two labels, the second in a third of the images."""
    both = []
    many, easy = rng.gamma(3, 3, units), 0.8 + rng.normal(0, 0.7, units)
    own = np.where(rng.random(units) < 1 / 3, 0.4, 0.0)
    counts = 1 + rng.poisson(many)
    image = np.repeat(np.arange(units), counts)
    label = np.where(rng.random(len(image)) < own[image], "rare", "tree").astype(object)
    boxes = np.stack(
        [40.0 * np.arange(len(image)) % 4000, 40.0 * (np.arange(len(image)) // 100)], 1
    )
    boxes = np.concatenate([boxes, boxes + 30], axis=1)
    seen = rng.random(len(image)) < sigmoid(easy[image])
    said = np.where(rng.random(len(image)) < 0.1, "tree", label)
    alarms = np.repeat(np.arange(units), rng.poisson(0.2 * counts))
    shifted = boxes[seen] + rng.normal(0, 2, (seen.sum(), 1))
    both.append((image, label, boxes))
    far = (
        np.tile([[9000.0, 9000, 9030, 9030]], (len(alarms), 1))
        + 50 * np.arange(len(alarms))[:, None]
    )
    both.append(
        (
            np.r_[image[seen], alarms],
            np.r_[said[seen], np.full(len(alarms), "tree")],
            np.r_[shifted, far],
        )
    )
    names = tuple(names_of(units))
    tables = [
        Annotations(
            "box", names, i, np.asarray(who, object), np.full(len(i), 0.5), shape, np.arange(len(i))
        )
        for i, who, shape in both
    ]
    return evaluate_crowns(*tables)


def rasters(rng, units: int) -> RasterEvaluation:
    """Four classes; each block has its own mixture of them."""
    area = np.array([3, 2, 1, 0.7])
    mixture = rng.gamma(1.5, 1, (units, 4)) * area + 0.02
    mixture[:, 3] *= rng.random(units) < 1 / 3
    pixels = np.round(10_000 * mixture / mixture.sum(axis=1, keepdims=True)).astype(int)
    right = sigmoid(1.5 + rng.normal(0, 0.6, (units, 1)) + rng.normal(0, 0.4, (units, 4)))
    hits = rng.binomial(pixels, right)
    counts = np.zeros((units, 4, 4), np.int64)
    each = np.arange(4)
    counts[:, each, each] = hits
    counts[:, each, (each + 1) % 4] += pixels - hits
    cells = np.argwhere(np.ones((4, 4), bool))
    return RasterEvaluation(
        codes=(0, 1, 2, 3),
        names=("a", "b", "c", "rare"),
        cells=cells,
        block_counts=counts[:, cells[:, 0], cells[:, 1]].T,
        mapped=counts.sum(axis=(0, 1)),
        pixels=int(pixels.sum()),
        ignored=0,
        unpredicted=0,
        smooth=0.0,
        class_weights=np.ones(4),
    )


def panoptic(rng, units: int) -> PanopticEvaluation:
    """Three classes of things and two of stuff."""
    rate = np.array([4, 2, 1.0, 1, 1]) * rng.gamma(3, 1 / 3, (units, 5))
    rate[:, [2, 4]] *= rng.random((units, 2)) < 1 / 3
    truths = rng.poisson(rate)
    tp = rng.binomial(truths, sigmoid(0.8 + rng.normal(0, 0.7, (units, 1)) + np.zeros(5)))
    fp = rng.poisson(0.25 * rate)
    quality = np.clip(0.8 + rng.normal(0, 0.05, (units, 5)), 0.5, 1)
    return PanopticEvaluation(
        images=tuple(range(units)),
        categories=Categories((1, 2, 3, 4, 5), tuple("abcde"), np.array([True] * 3 + [False] * 2)),
        tp=tp,
        fp=fp,
        fn=truths - tp,
        iou=tp * quality,
        mode="corrected",
        boundary_ratio=None,
        digests=("", ""),
    )


SUMS = {"crowns": crowns, "rasters": rasters, "panoptic": panoptic}


def run_sums(name: str, sets: int, seed: int, tally) -> None:
    make = SUMS[name]
    whole = make(np.random.default_rng([seed, 2]), 20_000).values
    for count in UNITS:
        rng = np.random.default_rng([seed, count])
        for number in range(sets):
            evaluation, units = make(rng, count), find_units(count)
            rows = score_rows(evaluation, units, resamples=RESAMPLES, seed=number)
            drawn = evaluation.replicates(draw_resamples(count, RESAMPLES, number).counts)
            means = evaluation.means if hasattr(evaluation, "means") else {}
            for new in rows:
                key = new["metric"], new["class"]
                own = [
                    whole[one] for one in means.get(key, []) if not np.isnan(evaluation.values[one])
                ]
                absent = len(own) < len(means.get(key, []))
                expected = float(np.mean(own)) if own and absent else whole[key]
                old = dict(
                    zip(("lower", "upper"), percentile_interval(drawn[key], 0.95), strict=True)
                )
                figure = new["metric"] + (" of a class" if new["class"] is not None else "")
                tally(name, count, figure, expected, old, new)


class Tally:
    """Counts per cell of kind, units, figure, and whether it is marked."""

    def __init__(self) -> None:
        self.cells: dict = defaultdict(lambda: defaultdict(list))

    def __call__(self, kind, units, figure, truth, old, new, old_test=None, new_test=None) -> None:
        if new["value"] is None or np.isnan(truth):
            return
        gate = new["gates"].split(":")[0]
        cell = self.cells[kind, units, figure, gate]
        # figures without an interval are counted as marked
        if new["lower"] is None:
            cell["none"].append(1)
            return
        cell["before"].append(old["lower"] is not None and old["lower"] <= truth <= old["upper"])
        cell["after"].append(new["lower"] - 1e-12 <= truth <= new["upper"] + 1e-12)
        cell["width"].append(new["upper"] - new["lower"])
        if new_test is not None:
            for name, test in (("reject before", old_test), ("reject after", new_test)):
                cell[name].append(test["p_value"] is not None and test["p_value"] <= 0.05)

    def rows(self, kind: str) -> list[dict]:
        found = []
        for (own, units, figure, gate), cell in self.cells.items():
            if own == kind:
                means = {
                    name: float(np.mean(each)) for name, each in cell.items() if name != "none"
                }
                count = len(cell["after"])
                found.append(
                    {
                        "kind": kind,
                        "units": units,
                        "figure": figure,
                        "gate": gate,
                        "intervals": count,
                        "without": len(cell["none"]),
                        **means,
                    }
                )
        return sorted(found, key=lambda row: (row["units"], row["figure"], row["gate"]))


COLUMNS = ("before", "after", "width", "reject before", "reject after")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=300, help="test sets of each cell")
    parser.add_argument("--cells", default="", help="kinds, separated by commas; default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    chosen = [name for name in arguments.cells.split(",") if name] or [*DETECTIONS, *SUMS]
    titles = ("test sets", "units", "figure", "gates", "intervals", "without", *COLUMNS)
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    tally, results = Tally(), []
    for name in chosen:
        (run_detections if name in DETECTIONS else run_sums)(
            name, arguments.sets, arguments.seed, tally
        )
        for row in tally.rows(name):
            cells = [f"{row[column]:.3f}" if column in row else "" for column in COLUMNS]
            head = [
                row["kind"],
                row["units"],
                row["figure"],
                row["gate"] or "–",
                row["intervals"],
                row["without"],
            ]
            print(f"| {' | '.join([*map(str, head), *cells])} |", flush=True)
            results.append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
