"""Scores of finding nothing, and of finding the same grid in every image, beside a run's detection heads.

    python benchmarks/detection_baselines.py --results results/detection

For each dataset with objects in the results, from its recorded test truth:

  nothing   no detection at all
  grid      boxes of the median size of the train objects, as close as they can lie without touching; of
            points, a square lattice with as many points per area as train has. Every class has the
            grid, and all scores are equal

The heads' rows are those of the leaderboard. A head that is not above `grid` has learned how many
objects there are, and how large they are, and not where.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from permafrost.core.stores import Store
from permafrost.core.tables import read_table
from permafrost.data.labels.objects import objects_of
from permafrost.metrics.objects.detected import Detected
from permafrost.statistics.predictions.objects import DetectedObjects

SHOWN = {
    "detection": ("AP", "AP50", "box_recall", "box_precision", "box_f1"),
    "point_detection": ("point_ap", "point_recall", "point_precision", "point_f1", "count_mae"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=Path("results"))
    results = parser.parse_args().results
    rows = read_table(results / "leaderboard.parquet")[0].to_pylist()
    for dataset in sorted({row["dataset"] for row in rows if row["task"] in SHOWN}):
        show(results, dataset, [row for row in rows if row["dataset"] == dataset])


def show(results: Path, dataset: str, rows: list[dict]) -> None:
    """The table of one dataset: baselines, then the heads by their primary metric."""
    names = SHOWN[rows[0]["task"]]
    lines = {}
    for row in rows:
        key = (row["backbone"], row["probe"], f"seed {row['seed']}")
        if row["class"] is None and row["metric"] in names:
            lines.setdefault(key, {})[row["metric"]] = row["value"]
    table = min((results / "predictions" / dataset).rglob("*.parquet"))
    found = DetectedObjects.from_table(*read_table(table))
    count = sum(len(each) for each in found.objects)
    print(f"\n{dataset}: {len(found)} test images, {count} objects")
    print(f"{'':44}" + "".join(f"{name:>16}" for name in names))
    for name, detections in baselines(results, dataset, found).items():
        scoring = replace(found.scoring, score_threshold=0.0)
        values = replace(found, detections=detections, scoring=scoring).evaluate()
        print_line(name, [values[metric] for metric in names])
    for key, values in sorted(lines.items(), key=lambda item: -(item[1][names[0]] or 0)):
        print_line(" ".join(key), [values[metric] for metric in names])


def print_line(name: str, values) -> None:
    cells = ("-" if value is None or value != value else f"{value:.3f}" for value in values)
    print(f"{name:44}" + "".join(f"{cell:>16}" for cell in cells))


def baselines(results: Path, dataset: str, found: DetectedObjects) -> dict[str, list[Detected]]:
    """Detected of each baseline for every test image."""
    train = Store(results / "images" / dataset / "train.zarr").samples()
    seen: dict[str, tuple[set[int], int, int]] = {}
    wholes = zip(
        train["image_id"].to_pylist(),
        objects_of(train["objects"]),
        train["image_height"].to_pylist(),
        train["image_width"].to_pylist(),
        strict=True,
    )
    kept = []
    for name, objects, height, width in wholes:
        # a window lists what it meets, so an object may be listed by several
        new = [n not in seen.get(name, (set(),))[0] for n in objects.numbers.tolist()]
        numbers = seen.get(name, (set(), 0, 0))[0] | set(objects.numbers.tolist())
        seen[name] = (numbers, height, width)
        kept.append(objects.take(np.array(new, bool) & ~objects.crowd))
    boxes = np.concatenate([each.boxes for each in kept])
    area = sum(height * width for _, height, width in seen.values())
    if found.task == "point_detection":
        step, size = np.full(2, np.sqrt(area / max(len(boxes), 1))), np.zeros(2)
    else:
        size = np.median(boxes[:, 2:] - boxes[:, :2], axis=0)
        step = size
    classes = len(found.classes)
    nothing = Detected(np.empty((0, 4)), np.empty(0, np.int64), np.empty(0))
    grids = [grid(height, width, step, size, classes) for height, width in found.sizes.tolist()]
    return {"nothing": [nothing] * len(found), "grid": grids}


def grid(height: int, width: int, step, size, classes: int) -> Detected:
    """Boxes of `size` (width, height) around middles that are `step` apart, of every class."""
    across, down = (
        np.arange(length // step[axis]) * step[axis] + (length % step[axis] + step[axis]) / 2
        for axis, length in enumerate((width, height))
    )
    middles = np.stack(np.meshgrid(across, down), axis=-1).reshape(-1, 2)
    boxes = np.concatenate([middles - size / 2, middles + size / 2], axis=1)
    labels = np.repeat(np.arange(classes), len(boxes))
    return Detected(np.tile(boxes, (classes, 1)), labels, np.ones(len(labels)))


if __name__ == "__main__":
    main()
