"""Test images that no backbone gets: errors against loops over images, order, ties, and what the page shows of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers.results.masks import make_dense_card, prepare_dense
from helpers.results.objects import make_object_card, prepare_objects
from helpers.results.pages import build_report, prepare, small
from helpers.results.tables import card_of, make_card, make_image_store, report_text
from permafrost.core.tables import read_table, write_table
from permafrost.metrics.objects.matching import IOU_THRESHOLD
from permafrost.report.material.dataset import Material
from permafrost.report.material.hardest import errors_of, hardest_images
from permafrost.statistics.predictions.objects import DetectedObjects
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

KEYS = [("a", 0, "linear"), ("b", 0, "linear"), ("c", 0, "linear")]


def material(folder: Path, card: dict, answers: list, target, kind: pa.DataType) -> Material:
    """Evaluations of KEYS that give `answers`; the samples of each stand in another order."""
    count = len(target)
    predictions = {}
    for number, (key, answer) in enumerate(zip(KEYS, answers, strict=False)):
        order = np.roll(np.arange(count), number)
        columns = {
            "target": pa.array([target[i] for i in order], kind),
            "prediction": pa.array([answer[i] for i in order], kind),
        }
        names = pa.array([f"s{i}" for i in order])
        predictions[key] = folder / f"{key[0]}.parquet"
        table = pa.table({"sample_id": names, **columns})
        write_table(predictions[key], table, {"fingerprint": "f"})
    return Material("d", card_of(card), [], predictions, {})


def test_classes_are_wrong_or_right_and_equal_ones_stand_by_mean_then_name(tmp_path):
    target = [0, 1, 2, 0, 1]
    answers = [[1, 1, 0, 1, 0], [1, 0, 0, 2, 1], [2, 1, 1, 0, 1]]
    found = hardest_images(
        material(tmp_path, make_card(classes=3), answers, target, pa.int64()), KEYS
    )
    assert (found.sample_ids, found.count) == (["s0", "s2"], 5)
    assert found.least.tolist() == [1, 1]


def test_of_several_labels_the_jaccard_distance_counts(tmp_path):
    target = [[1, 0, 1], [0, 0, 0], [0, 0, 0], [1, 1, 1]]
    answers = [
        [[1, 1, 0], [0, 0, 0], [1, 0, 0], [1, 1, 0]],
        [[0, 1, 0], [1, 0, 0], [0, 1, 0], [1, 1, 1]],
    ]
    card = make_card(task="multilabel", classes=3)
    made = material(tmp_path, card, answers, target, pa.list_(pa.int8(), 3))
    assert errors_of(made, KEYS[0]) == pytest.approx({"s0": 2 / 3, "s1": 0, "s2": 1, "s3": 1 / 3})
    found = hardest_images(made, KEYS[:2])
    assert (found.sample_ids, found.least.tolist()) == (["s2", "s0"], pytest.approx([1, 2 / 3]))


def test_numbers_are_ordered_by_the_closest_backbone_not_by_the_mean(tmp_path):
    target = [1.0, 10.0, -5.0]
    answers = [[2.0, 10.5, -5.0], [100.0, 12.0, 300.0]]
    card = replace(card_of(make_card()), task="regression", target={"unit": "t"})
    made = replace(material(tmp_path, make_card(), answers, target, pa.float64()), card=card)
    found = hardest_images(made, KEYS[:2])
    assert (found.sample_ids, found.least.tolist()) == (["s0", "s1"], [1.0, 0.5])


def test_images_that_one_backbone_lacks_or_whose_answer_is_no_number_are_left_out(tmp_path):
    answers = [[2.0, np.nan, 3.0], [2.0, 2.0, 3.0]]
    card = replace(card_of(make_card()), task="regression", target={"unit": "t"})
    made = replace(material(tmp_path, make_card(), answers, [1.0] * 3, pa.float64()), card=card)
    table, _ = read_table(made.predictions[KEYS[1]])
    write_table(
        made.predictions[KEYS[1]], table.filter(pa.array([True, True, False])), {"fingerprint": "f"}
    )
    left = set(table["sample_id"].to_pylist()[:2]) - {"s1"}
    found = hardest_images(made, KEYS[:2])
    assert set(found.sample_ids) == left and found.count == len(left)


def test_nothing_is_hard_where_each_image_is_right_once(tmp_path):
    made = material(tmp_path, make_card(classes=2), [[0, 0], [1, 1]], [0, 1], pa.int64())
    assert hardest_images(made, KEYS[:2]).sample_ids == []


def test_masks_count_wrong_pixels(tmp_path):
    card = make_dense_card()
    arguments, _ = prepare_dense(tmp_path, card, backbones={"net": 0.1}, probes={"fpn": [0]})
    ((key, path), *_) = arguments["predictions"].items()
    made = Material("town", card_of(card), [], {key[1:]: path}, {})
    table, _ = read_table(path)
    errors = errors_of(made, key[1:])
    for name, counts in zip(
        table["sample_id"].to_pylist(), table["confusion"].to_pylist(), strict=True
    ):
        square = np.reshape(counts, (3, 3))
        right = sum(square[i, i] for i in range(3))
        assert errors[name] == pytest.approx(1 - right / square.sum())


def f1_of(objects: list[dict], detections: list[dict], threshold: float) -> float:
    """F1 of one image by areas of pairs and a largest matching; detections on crowds are left out."""
    corners = ("x_min", "y_min", "x_max", "y_max")

    def shared(one: dict, other: dict) -> float:
        sides = [
            min(one[high], other[high]) - max(one[low], other[low])
            for low, high in zip(corners[:2], corners[2:], strict=True)
        ]
        return max(sides[0], 0) * max(sides[1], 0)

    made = [one for one in detections if one["score"] >= threshold]
    truth = [one for one in objects if not one["crowd"]]
    near = np.zeros((len(truth), len(made)), bool)
    for i, one in enumerate(truth):
        for k, other in enumerate(made):
            both = shared(one, other)
            union = shared(one, one) + shared(other, other) - both
            near[i, k] = both / union > IOU_THRESHOLD
    partner = maximum_bipartite_matching(csr_array(near), perm_type="column")
    hits = int((partner >= 0).sum())
    crowds = [one for one in objects if one["crowd"]]
    excused = [
        k
        for k, one in enumerate(made)
        if k not in partner
        and any(shared(one, crowd) / shared(one, one) > IOU_THRESHOLD for crowd in crowds)
    ]
    both = len(truth) + len(made) - len(excused)
    return 2 * hits / both if both else 1.0


def test_objects_count_f1_of_what_scores_enough(tmp_path):
    card = make_object_card()
    arguments, _ = prepare_objects(tmp_path, card, backbones={"net": 0.9}, probes={"fcos": [0]})
    ((key, path),) = arguments["predictions"].items()
    errors = errors_of(Material("trees", card_of(card), [], {key[1:]: path}, {}), key[1:])
    table, metadata = read_table(path)
    threshold = DetectedObjects.from_table(table, metadata).scoring.score_threshold
    expected = {
        row["sample_id"]: 1 - f1_of(row["objects"], row["detections"], threshold)
        for row in table.to_pylist()
    }
    assert errors == pytest.approx(expected)
    # the first image has no object, and what is found there is wrong
    assert len(set(errors.values())) > 3 and errors["trees-000"] == 1


def test_the_page_shows_them_and_says_so_without_pictures(tmp_path):
    datasets = {"eurosat": small(), "labels": small("labels", task="multilabel")}
    arguments = prepare(tmp_path, datasets=datasets, backbones=["imagestats", "rcf"])
    store = make_image_store(tmp_path / "test.zarr", datasets["eurosat"], size=16)
    build_report(**{**arguments, "images": {("eurosat", "test"): store}})
    text = report_text(tmp_path / "report")
    figures = {path.name for path in (tmp_path / "report/figures").glob("hardest*")}
    assert figures == {"hardest__eurosat.png"}
    assert "are wrong for all 2 backbones" in text and "by the labels that are both" in text


def test_a_single_backbone_has_no_images_that_all_miss(tmp_path):
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["imagestats"])
    build_report(**arguments)
    assert "wrong for all" not in report_text(tmp_path / "report")
