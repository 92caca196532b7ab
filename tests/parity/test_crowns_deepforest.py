"""Crown evaluation against DeepForest's: its formulas written out slowly, one crown at a time.

Written from the published behaviour of ``deepforest.evaluate.evaluate_geometry`` and
``preprocess.split_raster`` (release 2.1.0); no code of theirs. Polygons by shapely.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import shapely
from helpers.predictions.crowns import CORNERS, random_crowns
from permafrost.data.deepforest.reading import read_annotations
from permafrost.data.files.windows import cut_windows
from permafrost.evaluators.crowns import DEEPFOREST, evaluate
from permafrost.evaluators.crowns.tiles import cut_annotations
from scipy.optimize import linear_sum_assignment


def shape_of(row: dict):
    if "xmin" in row:
        return shapely.box(*(row[name] for name in CORNERS))
    return row["geometry"] if "geometry" in row else shapely.Point(row["x"], row["y"])


def slow_image(truths: list[dict], predictions: list[dict], kind: str):
    """Per truth: index of its prediction, IoU or distance, whether that is a match."""
    matrix = np.zeros((len(truths), len(predictions)))
    for i, truth in enumerate(truths):
        for j, prediction in enumerate(predictions):
            one, other = shape_of(truth), shape_of(prediction)
            matrix[i, j] = one.distance(other) if kind == "point" else one.intersection(other).area
    rows, columns = linear_sum_assignment(matrix, maximize=kind != "point")
    partner = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    found = []
    for i, truth in enumerate(truths):
        if i not in partner:
            found.append((None, math.inf if kind == "point" else 0.0, False))
            continue
        j = partner[i]
        if kind == "point":
            found.append((j, matrix[i, j], matrix[i, j] < 10))
        else:
            union = shape_of(truth).union(shape_of(predictions[j])).area
            found.append((j, matrix[i, j] / union, matrix[i, j] / union > 0.4))
    return found


def slow_evaluation(truth: list[dict], predictions: list[dict], kind: str) -> dict:
    recalls, precisions, quality, labels = [], [], {}, []
    for image in sorted({row["image_path"] for row in truth}):
        own = [row for row in truth if row["image_path"] == image]
        other = [row for row in predictions if row["image_path"] == image]
        if not other:
            recalls.append(0)
            quality[image] = [math.inf if kind == "point" else 0.0] * len(own)
            continue
        found = slow_image(own, other, kind)
        quality[image] = [measure for _, measure, _ in found]
        recalls.append(sum(match for *_, match in found) / len(own))
        precisions.append(sum(match for *_, match in found) / len(other))
        labels += [
            (own[i]["label"], other[j]["label"]) for i, (j, _, match) in enumerate(found) if match
        ]
    classes = {}
    for label in {name for pair in labels for name in pair}:
        right = labels.count((label, label))
        true, predicted = (sum(pair[side] == label for pair in labels) for side in (0, 1))
        classes[label] = (
            right / true if true else 0,
            right / predicted if predicted else 0,
            true,
        )
    return {
        "recall": np.mean(recalls),
        "precision": np.mean(precisions) if precisions else math.nan,
        "quality": quality,
        "classes": classes,
    }


@pytest.mark.parametrize("kind", ["box", "polygon", "point"])
@pytest.mark.parametrize("whole", [False, True])
def test_values_qualities_and_class_figures_equal_deepforests(kind, whole):
    rng = np.random.default_rng(3)
    for _ in range(12):
        truth, predictions = random_crowns(rng, kind, int(rng.integers(1, 5)), whole=whole)
        if not truth or not predictions:
            continue
        slow = slow_evaluation(truth, predictions, kind)
        ours = evaluate(truth, predictions, **DEEPFOREST)
        values = ours.values
        assert values["recall", None] == pytest.approx(slow["recall"], abs=1e-12)
        assert values["precision", None] == pytest.approx(slow["precision"], abs=1e-12, nan_ok=True)
        for image, rows in zip(
            ours.truth.images, ours.truth.by_image(ours.truth.images), strict=True
        ):
            np.testing.assert_allclose(ours.quality[rows], slow["quality"][image], atol=1e-9)
        for label, (recall, precision, size) in slow["classes"].items():
            assert values["deepforest_class_recall", label] == pytest.approx(recall)
            assert values["deepforest_class_precision", label] == pytest.approx(precision)
            assert ours.class_sizes()[label]["deepforest_class_size"] == size


def slow_offsets(length: int, size: int, overlap: float) -> list[int]:
    size = min(size, length)
    offsets, step = [], size - int(size * overlap)
    while not offsets or offsets[-1] + step + size <= length:
        offsets.append(offsets[-1] + step if offsets else 0)
    return offsets if offsets[-1] + size == length else [*offsets, length - size]


@pytest.mark.parametrize(("size", "overlap"), [(200, 0.05), (190, 0.05), (150, 0.0), (900, 0.1)])
def test_windows_are_those_of_split_raster(size, overlap):
    windows = cut_windows(733, 411, size=size, overlap=overlap)
    assert [(w.x, w.y) for w in windows] == [
        (x, y) for x in slow_offsets(733, size, overlap) for y in slow_offsets(411, size, overlap)
    ]
    assert {(w.width, w.height) for w in windows} == {(min(size, 733), min(size, 411))}


def test_the_last_window_is_moved_back_to_the_edge():
    assert [w.x for w in cut_windows(400, 200, size=200, overlap=0.05)] == [0, 190, 200]


@pytest.mark.parametrize(
    ("size", "overlap", "rows"),
    [(200, 0.05, 137), (200, 0.25, 125), (150, 0.0, 76), (300, 0.5, 138)],
)
def test_real_crowns_fall_into_windows_as_deepforest_puts_them(shared_data, size, overlap, rows):
    truth = read_annotations(shared_data / "neon_trees" / "annotations.csv", "truth")
    sizes = {name: (400, 400) for name in truth.images}
    cut, sources = cut_annotations(truth, sizes, size=size, overlap=overlap)
    of_image = np.array([name.startswith("OSBS_029") for name in cut.images])
    # 61 crowns; the counts were measured with DeepForest
    assert np.count_nonzero(of_image[cut.image]) == rows
    area = np.prod(cut.shape[:, 2:] - cut.shape[:, :2], axis=1)
    whole = truth.shape[sources]
    assert (area > 0.5 * np.prod(whole[:, 2:] - whole[:, :2], axis=1)).all()
    assert (cut.shape >= 0).all() and (cut.shape <= size).all()
