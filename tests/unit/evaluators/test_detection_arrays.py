"""Arrays and data frames say what the same list of objects in JSON says, bit for bit and error for error."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.predictions.detections import coco_case
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import DetectionStream, evaluate, from_torchmetrics, prepare

NAN = float("nan")


def columns(rows: list[dict]) -> dict:
    """Arrays of numbers where all values are numbers, else lists."""
    return {
        name: values
        if isinstance((values := [row[name] for row in rows])[0], dict | str)
        or name == "segmentation"
        else np.array(values)
        for name in rows[0]
    }


def as_arrays(truth: dict, results: list[dict]) -> tuple[dict, dict]:
    return {name: columns(rows) for name, rows in truth.items()}, columns(results)


def assert_same(one, two):
    for name in ("precision", "recall", "scores", "stats"):
        assert np.array_equal(getattr(one, name), getattr(two, name), equal_nan=True)
    for side in ("truths", "detections"):
        for name in ("ids", "image", "category", "boxes", "areas"):
            left, right = (getattr(getattr(found, side), name) for found in (one, two))
            assert np.array_equal(left, right, equal_nan=True) and left.dtype == right.dtype
    assert one.warnings == two.warnings and one.dropped == two.dropped


@pytest.mark.parametrize("kernel", ["bbox", "segm", "boundary", "keypoints"])
@pytest.mark.parametrize("mode", ["strict", "corrected"])
def test_arrays_give_what_json_gives(kernel, mode, tmp_path):
    geometry = {"boundary": "segm"}.get(kernel, kernel)
    truth, results = coco_case(8, geometry=geometry)
    for name, content in (("t", truth), ("p", results)):
        (tmp_path / name).write_text(json.dumps(content))
    expected = evaluate(tmp_path / "t", tmp_path / "p", iou_type=kernel, mode=mode)
    assert expected.stats[0] > 0
    arrays = as_arrays(truth, results)
    found = evaluate(*arrays, iou_type=kernel, mode=mode)
    assert_same(found, evaluate(truth, results, iou_type=kernel, mode=mode))
    assert np.array_equal(found.precision, expected.precision)
    if kernel == "keypoints":
        arrays[1]["keypoints"] = arrays[1]["keypoints"].reshape(-1, 17, 3)
        assert_same(evaluate(*arrays, iou_type=kernel, mode=mode), found)


def test_what_is_left_out_of_the_columns_is_what_occurs():
    truth, results = coco_case(8, images=5, truths=6)
    used = {entry["image_id"] for entry in truth["annotations"]}
    results = [entry for entry in results if entry["image_id"] in used]
    full, found = as_arrays(truth, results)
    bare = {name: full["annotations"][name] for name in ("image_id", "category_id", "bbox")}
    bare |= {name: full["annotations"][name] for name in ("area", "iscrowd")}
    expected = evaluate(truth, results, iou_type="bbox")
    # names and sizes of images are not known, no number needs them
    assert np.array_equal(evaluate(bare, found, iou_type="bbox").stats, expected.stats)
    assert np.array_equal(
        evaluate({"annotations": bare}, found, iou_type="bbox").stats, expected.stats
    )
    found["image_id"] = np.append(found["image_id"][1:], 77)
    with pytest.raises(PermafrostError, match="not among the images.*77"):
        evaluate(bare, found, iou_type="bbox")


def test_an_array_of_seven_columns_is_read_as_pycocotools_reads_it():
    truth, results = coco_case(9)
    rows = np.array(
        [[e["image_id"], *e["bbox"], e["score"], e["category_id"]] for e in results], np.float64
    )
    for mode in ("strict", "corrected"):
        found = evaluate(truth, rows, iou_type="bbox", mode=mode)
        assert_same(found, evaluate(truth, results, iou_type="bbox", mode=mode))
    with pytest.raises(PermafrostError, match=r"shape \(3, 6\).*\(N, 7\)"):
        evaluate(truth, rows[:3, :6], iou_type="bbox")
    with pytest.raises(PermafrostError, match="must be an object"):
        evaluate(rows, results, iou_type="bbox")
    rows[3, 0] = 1.5
    with pytest.raises(PermafrostError, match=r"predictions: \[3\].*not a whole number.*1.5"):
        evaluate(truth, rows, iou_type="bbox")


WRONG = [
    ("score", 2, NAN),
    ("score", 2, 1e300),
    ("image_id", 2, 987654),
    ("category_id", 2, 987654),
    ("bbox", (2, 1), NAN),
    ("bbox", (2, 2), -1),
    ("bbox", 2, NAN),
]


@pytest.mark.parametrize(("name", "place", "value"), WRONG)
@pytest.mark.parametrize("invalid", ["error", "drop"])
def test_what_is_wrong_in_an_array_is_named_as_in_a_list(name, place, value, invalid):
    truth, results = coco_case(8)
    arrays = columns(results)
    arrays[name][place] = value
    results = [
        {key: array[row].tolist() for key, array in arrays.items()} for row in range(len(results))
    ]
    if place == 2 and name == "bbox":
        del results[2]["bbox"]
    said = []
    for given in (results, arrays):
        try:
            found = evaluate(truth, given, iou_type="bbox", invalid=invalid)
            said.append((found.dropped, found.stats.tobytes()))
        except PermafrostError as error:
            said.append((error.problem, error.where))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": np.ones(3)}, "the column score has 3 values"),
        ({"score": None}, "must be a list|has no score|not an object"),
        ({"bbox": np.ones((40, 3))}, "not a list of 4 numbers"),
        ({"score": np.ones((40, 2))}, "score is not a number"),
        ({"score": np.ones(40, bool)}, "score is not a number"),
        ({"image_id": np.ones(40, complex)}, "image_id is not a whole number"),
        ({"image_id": np.full(40, 2**63, np.uint64)}, "image_id is not a whole number"),
        ({"image_id": ["10", 3] * 20}, "not a whole number|not a string"),
    ],
)
def test_columns_of_another_shape_are_named(change, message):
    truth, results = coco_case(8)
    given = {name: values[:40] for name, values in columns(results).items()} | change
    with pytest.raises(PermafrostError, match=message):
        evaluate(truth, given, iou_type="bbox")


def test_arrays_of_the_caller_are_not_changed():
    truth, results = as_arrays(*coco_case(8, geometry="keypoints"))
    results["bbox"] = np.full((len(results["score"]), 4), NAN)
    before = {name: values.copy() for name, values in results.items()}
    evaluate(truth, results, iou_type="keypoints", mode="corrected")
    for name, values in before.items():
        assert np.array_equal(values, results[name], equal_nan=True)


@pytest.mark.parametrize("mode", ["strict", "corrected"])
def test_streams_and_prepared_truths_take_arrays(mode):
    truth, results = coco_case(8)
    arrays = as_arrays(truth, results)
    expected = evaluate(truth, results, iou_type="bbox", mode=mode)
    prepared = prepare(arrays[0], iou_type="bbox", mode=mode)
    assert np.array_equal(prepared.evaluate(arrays[1]).stats, expected.stats)
    ids = [image["id"] for image in truth["images"]]
    with DetectionStream(prepared) as stream:
        for some in (ids[:5], ids[5:]):
            rows = np.isin(arrays[1]["image_id"], some)
            stream.update(some, {name: values[rows] for name, values in arrays[1].items()})
        assert np.array_equal(stream.finalize().stats, expected.stats)


def test_tensors_are_arrays():
    torch = pytest.importorskip("torch")
    truth, results = coco_case(8)
    arrays = {name: torch.tensor(values) for name, values in columns(results).items()}
    arrays["score"].requires_grad_()
    found = evaluate(truth, arrays, iou_type="bbox")
    assert_same(found, evaluate(truth, results, iou_type="bbox"))


@pytest.mark.parametrize("kernel", ["bbox", "segm", "keypoints"])
def test_a_frame_that_is_filled_in_part_is_read_as_the_list_is(kernel):
    pandas = pytest.importorskip("pandas")
    truth, results = coco_case(5, ignores=0.3, geometry=kernel)
    for number, entry in enumerate(results):
        if number % 3:
            entry["id"] = 500 + number
    for number, entry in enumerate(truth["annotations"]):
        if number % 2 and kernel == "bbox":
            del entry["area"]
    del truth["categories"][1]["name"]
    frames = {name: pandas.DataFrame(rows) for name, rows in truth.items()}
    frame = pandas.DataFrame(results)
    assert frame["id"].isna().any()
    expected = evaluate(truth, results, iou_type=kernel)
    assert any("detections have an id; all are numbered" in text for text in expected.warnings)
    assert_same(evaluate(frames, frame, iou_type=kernel), expected)
    assert_same(evaluate(frames, frame.convert_dtypes(), iou_type=kernel), expected)
    assert prepare(truth, iou_type=kernel).evaluate(results).warnings == expected.warnings
    nulls = [{"id": None, **entry} for entry in results]
    assert_same(evaluate(truth, nulls, iou_type=kernel), expected)


@pytest.mark.parametrize("mode", ["strict", "corrected"])
def test_detections_keep_the_ids_of_the_user(mode, tmp_path):
    from permafrost.metrics.detection.analysis.tables import detection_table, pair_table

    truth, results = coco_case(5)
    for number, entry in enumerate(results):
        entry["id"] = 7000 - 3 * number
    (tmp_path / "p").write_text(json.dumps(results))
    ids = [entry["id"] for entry in results]
    plain = evaluate(
        truth, [{**entry, "id": None} for entry in results], iou_type="bbox", mode=mode
    )
    for given in (results, tmp_path / "p", columns(results)):
        found = evaluate(truth, given, iou_type="bbox", mode=mode)
        assert found.detections.ids.tolist() == ids
        assert set(detection_table(found)["detection_id"].tolist()) <= set(ids)
        assert set(pair_table(found)["detection_id"].tolist()) <= set(ids)
        assert np.array_equal(found.precision, plain.precision)


def test_strict_mode_numbers_ids_that_pycocotools_never_looks_at():
    truth, results = coco_case(5)
    for wrong in (3, "a", 1.5, {"a": 1}):
        for number, entry in enumerate(results):
            entry["id"] = number if number > 5 else wrong
        found = evaluate(truth, results, iou_type="bbox", mode="strict")
        assert found.detections.ids.tolist() == list(range(1, len(results) + 1))
        assert any("not all different whole numbers" in text for text in found.warnings)
        with pytest.raises(PermafrostError, match="occurs twice|not a whole number"):
            evaluate(truth, results, iou_type="bbox")


def test_long_ids_take_bounded_memory():
    truth, results = coco_case(5)
    for entry in [*truth["annotations"], *results]:
        entry["image_id"] = f"image {entry['image_id']}"
    for image in truth["images"]:
        image["id"] = f"image {image['id']}"
    truth["images"][0]["id"] += "x" * 100_000_000
    with pytest.raises(PermafrostError, match=r"images\[0\].* characters: 12 ids as long"):
        evaluate(truth, results, iou_type="bbox")
    truth["images"][0]["id"] = "image\0"
    with pytest.raises(PermafrostError, match=r"images\[0\].*ends in the character NUL"):
        evaluate(truth, results, iou_type="bbox")


def per_image(truth, results, box_format):
    """What torchmetrics takes, in float64."""
    preds, target = [], []
    # equal scores are ordered by image
    for image in sorted(truth["images"], key=lambda image: image["id"]):
        own = [entry for entry in results if entry["image_id"] == image["id"]]
        true = [entry for entry in truth["annotations"] if entry["image_id"] == image["id"]]
        preds.append(
            {
                "boxes": _boxes(own, box_format),
                "scores": np.array([entry["score"] for entry in own], float),
                "labels": np.array([entry["category_id"] for entry in own], int),
            }
        )
        target.append(
            {
                "boxes": _boxes(true, box_format),
                "labels": np.array([entry["category_id"] for entry in true], int),
                "iscrowd": np.array([entry["iscrowd"] for entry in true], int),
                "area": np.array([entry["area"] for entry in true], float),
            }
        )
    return preds, target


def _boxes(entries, box_format):
    boxes = np.array([entry["bbox"] for entry in entries], float).reshape(-1, 4)
    if box_format == "xyxy":
        boxes[:, 2:] += boxes[:, :2]
    if box_format == "cxcywh":
        boxes[:, :2] += boxes[:, 2:] / 2
    return boxes


@pytest.mark.parametrize("box_format", ["xyxy", "xywh", "cxcywh"])
def test_lists_per_image_give_the_same(box_format):
    # whole and half pixels, so that corners and sizes follow from each other exactly
    truth, results = coco_case(8)
    given = from_torchmetrics(*per_image(truth, results, box_format), box_format=box_format)
    expected = evaluate(truth, results, iou_type="bbox")
    assert np.array_equal(evaluate(*given, iou_type="bbox").stats, expected.stats)


def test_lists_per_image_agree_with_torchmetrics():
    torch = pytest.importorskip("torch")
    detection = pytest.importorskip("torchmetrics.detection")
    truth, results = coco_case(8, scale=3.0, ties=False)
    sides = per_image(truth, results, "xyxy")
    tensors = [[{k: torch.tensor(v) for k, v in image.items()} for image in side] for side in sides]
    # its own grids are of float32, beside COCO's
    grids = np.linspace(0.5, 0.95, 10).tolist(), np.linspace(0, 1, 101).tolist()
    metric = detection.MeanAveragePrecision(iou_thresholds=grids[0], rec_thresholds=grids[1])
    metric.update(*tensors)
    peer = metric.compute()
    stats = evaluate(*from_torchmetrics(*tensors), iou_type="bbox", mode="strict").stats
    names = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
    names += ("mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large")
    assert stats == pytest.approx([float(peer[name]) for name in names], abs=1e-6)


def test_masks_per_image_give_what_run_lengths_give():
    rng = np.random.default_rng(1)
    masks = rng.random((3, 2, 9, 7)) < 0.5
    masks[0, 0], masks[0, 1] = False, True
    masks[0, 0, 0, 0] = True
    target = [{"labels": np.array([1, 2]), "masks": own} for own in masks]
    preds = [{"labels": np.array([1, 2]), "masks": own, "scores": [0.5, 0.6]} for own in masks]
    found = evaluate(*from_torchmetrics(preds, target), iou_type="segm")
    assert found.stats[0] == 1.0
    assert found.problem.truth_masks.areas().tolist() == masks.sum(axis=(2, 3)).ravel().tolist()


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        ([], [{}], "0 images with predictions, 1 with truth"),
        ([{}], [{}], r"preds\[0\]: has no labels"),
        (
            [{"labels": [1], "scores": [1], "boxes": [[1, 2, 3]]}],
            [{}],
            r"preds\[0\]: boxes: \(1, 3\), not \(1, 4\)",
        ),
        ([{"labels": [1], "boxes": [[1, 2, 3, 4]]}], [{}], r"preds\[0\]: has no scores"),
        (
            [{"labels": [], "boxes": [], "scores": []}],
            [{"labels": [1], "boxes": [[1, 2, 3, 4]], "area": [1, 2]}],
            r"target\[0\]: area: \(2,\), not \(1,\)",
        ),
    ],
)
def test_wrong_lists_per_image_are_named(preds, target, message):
    with pytest.raises(PermafrostError, match=message):
        from_torchmetrics(preds, target)
    with pytest.raises(PermafrostError, match="did you mean 'xyxy'"):
        from_torchmetrics(preds, target, box_format="xyxx")
