"""What the detection probe leaves: the table, the images shown, and the folder in COCO's form."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.stores.objects import LEARNS, boxes_of, detections, run, toy_stores
from permafrost.data.labels.objects import Objects, objects_of
from permafrost.evaluators.detection import evaluate
from permafrost.probes.detection.object_splits import ObjectSplit
from permafrost.probes.detection.scoring import hits
from permafrost.probes.detection.shapes import UPRIGHT


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("toy"))


def test_an_image_has_the_unit_and_the_worst_leak_of_its_windows(toy):
    split = ObjectSplit(toy["test"])
    columns = split.samples.to_pydict()
    columns["image_id"] = [f"image {row // 3}" for row in range(12)]
    columns["unit_id"] = [f"unit {row // 6}" for row in range(12)]
    columns["leak"] = ["group", "copy", None, *[None] * 7, "near", "near"]
    split.samples = split.samples.from_pydict(columns)
    assert [image.group for image in split.images] == ["unit 0", "unit 0", "unit 1", "unit 1"]
    assert [image.leak for image in split.images] == ["copy", None, None, "near"]


def test_the_table_has_whole_images_their_objects_and_what_it_was_made_from(toy, tmp_path):
    table, metadata = run(toy, tmp_path, pictures=3)
    test = ObjectSplit(toy["test"])
    assert table["sample_id"].to_pylist() == [f"test-{i}" for i in range(12)]
    assert table["group_id"].to_pylist() == [f"group-test-{i}" for i in range(12)]
    assert set(table["height"].to_pylist()) == {64}
    for found, expected in zip(objects_of(table["objects"]), test.objects, strict=True):
        np.testing.assert_array_equal(found.boxes, expected.boxes)
    for row in detections(table):
        scores = [each["score"] for each in row]
        assert scores == sorted(scores, reverse=True)
        corners = boxes_of(row).reshape(-1, 4)
        assert ((corners >= 0) & (corners <= 64)).all()
        assert (corners[:, :2] < corners[:, 2:]).all()
    assert metadata["detection"] == test.detection and metadata["head"] == "fcos"
    assert metadata["task"] == "detection" and metadata["feature_dim"] == 14
    assert (metadata["n_train"], metadata["n_val"], metadata["n_test"]) == (40, 10, 12)
    assert metadata["layers"] == ["layer2", "layer1"] and metadata["working_size"] == [64, 64]
    shown = table["shown"].to_pylist()
    assert [shown.count(each) for each in ("drawn", "worst", "best")] == [3, 2, 2]


def test_the_worst_and_best_shown_are_so_by_f1_among_images_with_objects(toy, tmp_path):
    table, metadata = run(toy, tmp_path, **LEARNS)
    test, least = ObjectSplit(toy["test"]), metadata["settings"]["score_threshold"]
    from permafrost.metrics.objects.detected import Detected

    rated = {}
    for i, (image, row) in enumerate(zip(test.images, detections(table), strict=True)):
        row = [each for each in row if each["score"] >= least]
        found = Detected(boxes_of(row).reshape(-1, 4), np.zeros(len(row), int), np.ones(len(row)))
        if len(image.objects) and table["shown"][i].as_py() != "drawn":
            rated[i] = hits(test, image, found).f1
    chosen = {label: [] for label in ("worst", "best")}
    for i, label in enumerate(table["shown"].to_pylist()):
        if label in chosen:
            chosen[label].append(rated[i])
    assert sorted(chosen["worst"]) == sorted(rated.values())[:2]
    assert min(chosen["best"]) >= max(chosen["worst"])


def test_the_folder_is_in_cocos_form_and_names_its_plan(toy, tmp_path):
    table, _ = run(toy, tmp_path, coco=tmp_path / "coco")
    truth = json.loads((tmp_path / "coco/truth.json").read_text())
    assert truth["info"]["fingerprint"] == "0" * 32
    table = table.sort_by("sample_id")
    assert [image["file_name"] for image in truth["images"]] == table["sample_id"].to_pylist()
    assert [image["id"] for image in truth["images"]] == list(range(1, 13))
    assert [each["id"] for each in truth["categories"]] == [1, 2]
    found = json.loads((tmp_path / "coco/detections.json").read_text())
    rows = [(i, each) for i, row in enumerate(detections(table), 1) for each in row]
    assert len(found) == len(rows)
    for entry, (number, each) in zip(found, rows, strict=True):
        x, y, width, height = entry["bbox"]
        assert (entry["image_id"], entry["category_id"]) == (number, each["class"] + 1)
        assert (x, y, entry["score"]) == (each["x_min"], each["y_min"], each["score"])
        assert x + width == pytest.approx(each["x_max"])
        assert y + height == pytest.approx(each["y_max"])


def test_detections_of_equal_score_count_in_the_folder_as_in_the_statistics(tmp_path):
    """The order of images decides between them; it must not be that of the table for one of both."""
    from permafrost.metrics.objects.detected import Detected
    from permafrost.probes.detection.coco_json import coco_folder
    from permafrost.probes.detection.object_splits import WholeImage
    from permafrost.statistics.predictions.objects import DetectedObjects, ObjectScoring

    true, wrong = [10, 10, 30, 30], [40, 40, 60, 60]
    images = [
        WholeImage(n, n, np.array([0]), (64, 64), Objects.of([true], [0])) for n in ("b", "a")
    ]
    found = [
        Detected(np.array([box], float), np.zeros(1, int), np.full(1, 0.5)) for box in (true, wrong)
    ]
    split = SimpleNamespace(images=images, classes=["tree"], shape=UPRIGHT)
    with coco_folder(tmp_path / "coco", split, found, info={}):
        pass
    paths = [str(tmp_path / "coco" / name) for name in ("truth.json", "detections.json")]
    scored = DetectedObjects.from_arrays(
        ["b", "a"],
        [image.objects for image in images],
        found,
        [(64, 64)] * 2,
        scoring=ObjectScoring(
            task="detection",
            classes=["tree"],
            score_threshold=0.1,
        ),
    ).evaluate()
    assert evaluate(*paths, iou_type="bbox").stats[0] == scored["AP"]
    assert 0.2 < scored["AP"] < 0.3  # the wrong one of "a" comes first


def test_neither_output_appears_where_one_cannot_be_written(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "permafrost.probes.detection.probe.write_dense_table", lambda *_, **__: 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        run(toy, tmp_path, epochs=1, coco=tmp_path / "coco")
    assert not list(tmp_path.glob("*.parquet")) and not (tmp_path / "coco").exists()
