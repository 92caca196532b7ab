"""Wrong ground truth and predictions: one error that names the entry, or a count of what was left out."""

from __future__ import annotations

import copy
import json
import math

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.analysis.calibration import calibrate

NAN, INF = math.nan, math.inf


def small(geometry="bbox"):
    return coco_case(3, images=3, truths=6, detections=6, geometry=geometry)


def run(truth, results, **options):
    return evaluate(truth, results, **{"iou_type": "bbox", **options})


def broken_truth(change, geometry="bbox"):
    truth, results = small(geometry)
    change(truth)
    return truth, results


TRUTHS = {
    "no images": (lambda t: t.pop("images"), "has no images"),
    "images no list": (lambda t: t.update(images={"id": 1}), "must be a list"),
    "image no object": (lambda t: t["images"].append(3), r"images\[3\].*not an object"),
    "image twice": (lambda t: t["images"].append(t["images"][0]), r"images\[3\].*occurs twice"),
    "image without id": (lambda t: t["images"][1].pop("id"), r"images\[1\].*has no id"),
    "category twice": (lambda t: t["categories"].append({"id": 2}), "occurs twice"),
    "no category at all": (lambda t: t.pop("categories"), "truth has no categories"),
    "annotation twice": (
        lambda t: t["annotations"][4].update(id=t["annotations"][2]["id"]),
        r"annotations\[4\].*occurs twice",
    ),
    "unknown image": (lambda t: t["annotations"][1].update(image_id=77), r"annotations\[1\].*77"),
    "unknown category": (lambda t: t["annotations"][1].update(category_id=78), "78"),
    "word for a number": (lambda t: t["annotations"][0].update(area="5"), "area is not a number"),
    "truth for a number": (lambda t: t["annotations"][0].update(area=True), "not a number"),
    "NaN area": (lambda t: t["annotations"][0].update(area=NAN), "area is not finite"),
    "negative area": (lambda t: t["annotations"][0].update(area=-1), "area is negative"),
    "infinite box": (lambda t: t["annotations"][0]["bbox"].__setitem__(2, INF), "not finite"),
    "gigantic box": (lambda t: t["annotations"][0]["bbox"].__setitem__(2, 1e200), "gigantic"),
    "gigantic integer": (lambda t: t["annotations"][0]["bbox"].__setitem__(2, 10**400), "bbox"),
    "negative size": (lambda t: t["annotations"][0]["bbox"].__setitem__(3, -2), "negative size"),
    "three numbers": (lambda t: t["annotations"][0]["bbox"].pop(), "not a list of 4 numbers"),
    "box of words": (lambda t: t["annotations"][0].update(bbox=["1", 2, 3, 4]), "4 numbers"),
    "crowd of two": (lambda t: t["annotations"][0].update(iscrowd=2), "neither 0 nor 1"),
    "id beyond 64 bits": (lambda t: t["annotations"][0].update(id=1 << 70), "not a whole number"),
    "half an id": (lambda t: t["annotations"][0].update(id=1.5), "not a whole number"),
}


@pytest.mark.parametrize("mode", ["strict", "corrected"])
@pytest.mark.parametrize("name", TRUTHS)
def test_wrong_truth_is_named(name, mode):
    change, message = TRUTHS[name]
    truth, results = broken_truth(change)
    if mode == "strict" and name in ("unknown image", "unknown category"):
        return  # the peers pass over these, see the parity tests
    with pytest.raises(PermafrostError, match=message):
        run(truth, results, mode=mode)


DETECTIONS = {
    "no object": (lambda r: r.__setitem__(2, [1]), r"\[2\].*not an object"),
    "unknown image": (lambda r: r[2].update(image_id=77), r"\[2\].*77"),
    "unknown category": (lambda r: r[2].update(category_id=78), r"\[2\].*78"),
    "no score": (lambda r: r[2].pop("score"), r"\[2\].*has no score"),
    "NaN score": (lambda r: r[2].update(score=NAN), r"\[2\].*score is not finite"),
    "null score": (lambda r: r[2].update(score=None), r"\[2\].*has no score"),
    "no box": (lambda r: r[2].pop("bbox"), r"\[2\].*has no bbox"),
    "empty box": (lambda r: r[2].update(bbox=[]), "4 numbers"),
    "NaN box": (lambda r: r[2]["bbox"].__setitem__(0, NAN), r"\[2\].*bbox is not finite"),
    "negative size": (lambda r: r[2]["bbox"].__setitem__(2, -1.0), "negative size"),
    "category is a word": (lambda r: r[2].update(category_id="tree"), "not a whole number"),
}


@pytest.mark.parametrize("name", DETECTIONS)
def test_wrong_detections_are_named_or_left_out(name):
    change, message = DETECTIONS[name]
    truth, results = small()
    good = [entry for i, entry in enumerate(copy.deepcopy(results)) if i != 2]
    change(results)
    with pytest.raises(PermafrostError, match=message) as caught:
        run(truth, results)
    assert "predictions" in str(caught.value)
    kept = run(truth, results, invalid="drop")
    assert sum(kept.dropped.values()) == 1 and len(kept.detections) == len(good)
    assert any("left out 1" in text for text in kept.warnings)
    assert np.array_equal(kept.stats, run(truth, good).stats)


def mask(counts, size=None):
    return {"size": size or [60, 80], "counts": counts}


SEGMENTATIONS = {
    "no polygon": ([], "no polygon"),
    "numbers, not polygons": ([1.0, 2.0, 3.0], "lists of numbers"),
    "two points": ([[1, 1, 5, 5]], "fewer than three points"),
    "odd": ([[1, 1, 5, 5, 9, 1, 4]], "odd number"),
    "words": ([[1, 1, 5, 5, 9, "1"]], "not a number"),
    "NaN": ([[1, 1, 5, 5, 9, NAN]], "gigantic or not finite"),
    "far away": ([[1, 1, 5, 5, 9, 1e18]], "gigantic or not finite"),
    "a number": (7, "neither polygons nor run lengths"),
    "no counts": ({"size": [60, 80]}, "neither a list nor a string"),
    "no size": ({"counts": "abc"}, "size is not"),
    "size of floats": (mask("abc", [60.5, 80]), "size is not"),
    "negative size": (mask("abc", [-60, 80]), "not an image size"),
    "gigantic size": (mask("abc", [1 << 40, 1 << 40]), "not an image size"),
    "another size": (mask([4800], [80, 60]), "80 high and 60 wide"),
    "too few pixels": (mask([4799]), "do not add up"),
    "too many pixels": (mask([1, 1 << 62]), "do not add up"),
    "negative run": (mask([4801, -1]), "negative run"),
    "half a run": (mask([4800.5]), "not a whole number"),
    "empty string": (mask(""), "do not add up"),
    "foreign characters": (mask("~~~"), "outside of"),
    "foreign script": (mask("é0"), "outside of"),
    "unfinished": (mask("PPP"), "not finished"),
    "endless number": (mask("o" * 500 + "0"), "more than seven digits"),
    "gigantic run": (mask("oooooo7"), "do not add up|negative"),
}


@pytest.mark.parametrize("name", SEGMENTATIONS)
@pytest.mark.parametrize("side", ["truth", "detection"])
def test_wrong_masks_are_named_or_left_out(name, side):
    truth, results = small("segm")
    image = next(i for i in truth["images"] if (i["height"], i["width"]) == (60, 80))
    entries = truth["annotations"] if side == "truth" else results
    place = next(i for i, entry in enumerate(entries) if entry["image_id"] == image["id"])
    given, message = SEGMENTATIONS[name]
    entries[place]["segmentation"] = given
    with pytest.raises(PermafrostError, match=message) as caught:
        run(truth, results, iou_type="segm")
    assert f"[{place}]" in str(caught.value)
    kept = run(truth, results, iou_type="segm", invalid="drop")
    assert sum(kept.dropped.values()) == 1
    del entries[place]
    assert np.array_equal(kept.stats, run(truth, results, iou_type="segm").stats)


def test_what_is_wrong_on_both_sides_is_counted_on_each():
    truth, results = small("segm")
    truth["annotations"][0]["segmentation"] = results[0]["segmentation"] = []
    kept = run(truth, results, iou_type="segm", invalid="drop")
    assert len(kept.dropped) == 2 and sum(kept.dropped.values()) == 2


def test_a_box_is_no_mask_in_corrected_mode():
    truth, results = small("segm")
    del results[4]["segmentation"]
    with pytest.raises(PermafrostError, match=r"\[4\].*no segmentation"):
        run(truth, results, iou_type="segm")


def test_masks_need_the_size_of_their_image():
    truth, results = small("segm")
    del truth["images"][0]["height"]
    with pytest.raises(PermafrostError, match=r"images\[0\].*no height"):
        run(truth, results, iou_type="segm")


def test_keypoints_of_wrong_length_are_named():
    truth, results = coco_case(3, images=3, truths=6, detections=6, geometry="keypoints")
    results[1]["keypoints"] = results[1]["keypoints"][:-1]
    with pytest.raises(PermafrostError, match=r"\[1\].*51 numbers"):
        run(truth, results, iou_type="keypoints")


def test_empty_and_damaged_files_are_named(tmp_path):
    truth, _ = small()
    path = tmp_path / "found.json"
    for content, message in (
        (b"", "the file is empty"),
        (b"[{", "not a JSON file"),
        (b"{}", "must be a list"),
        (b"\xff\xfe", "not a JSON file"),
        (b'[{"a":' * 100_000, "not a JSON file"),
        (b"[" * 100_000, "list of objects, not of lists"),
        (b" [ [1, 1, 10, 10, 20, 20, 0.9]]", "list of objects, not of lists"),
        (b"3", "must be a list"),
    ):
        path.write_bytes(content)
        with pytest.raises(PermafrostError, match=message) as caught:
            run(truth, path)
        assert "found.json" in str(caught.value)
    with pytest.raises(PermafrostError, match="cannot be read"):
        run(truth, tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("side", "content", "message"),
    [
        ("predictions", "[[1, 1, 10, 10, 20, 20, 0.9]]", "not of lists.*an array"),
        ("predictions", '\ufeff {"annotations": []}', "not an object.*is ground truth"),
        ("truth", '[{"image_id": 1}]', "must be an object with images.*predictions"),
    ],
)
def test_another_shape_is_refused_before_the_file_is_parsed(
    side, content, message, tmp_path, monkeypatch
):
    truth, results = small()
    given = {"truth": truth, "predictions": results, side: tmp_path / "given.json"}
    given[side].write_text(content)

    def parse(*_):
        raise AssertionError("parsed")

    monkeypatch.setattr("permafrost.metrics.detection.inputs.parsing.parse", parse)
    with pytest.raises(PermafrostError, match=message):
        run(given["truth"], given["predictions"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {**t, "images": {"1": {}}}, "images: must be a list of objects, not an object"),
        (lambda t: {**t, "annotations": {"1": {}}}, "must be a list of objects, not an object"),
        (lambda t: {**t, "annotations": "none"}, "must be a list of objects, not str"),
        (lambda t: {"1": t}, "has no images"),
    ],
)
def test_truth_of_another_shape_is_named(change, message, tmp_path):
    truth, results = small()
    (tmp_path / "truth.json").write_text(json.dumps(change(truth)))
    with pytest.raises(PermafrostError, match=message):
        run(tmp_path / "truth.json", results)


def test_lists_among_objects_are_left_out_and_counted(tmp_path):
    truth, results = small()
    (tmp_path / "found.json").write_text(json.dumps([[1, 2], *results]))
    kept = run(truth, tmp_path / "found.json", invalid="drop")
    assert kept.dropped == {"detections: not an object": 1}


def test_nan_in_a_file_is_named(tmp_path):
    truth, results = small()
    results[1]["score"] = NAN
    (tmp_path / "found.json").write_text(json.dumps(results))
    with pytest.raises(PermafrostError, match=r"found.json: \[1\].*not finite"):
        run(truth, tmp_path / "found.json")


def test_boxes_that_look_like_corners_are_doubted():
    truth, results = coco_case(5, whole=False)
    assert not run(truth, results).warnings
    for entry in results:
        x, y, w, h = entry["bbox"]
        x, y = max(x, 0.5), max(y, 0.5)
        size = next(i for i in truth["images"] if i["id"] == entry["image_id"])
        entry["bbox"] = [x, y, min(x + w, size["width"]), min(y + h, size["height"])]
    assert any("look like corners" in text for text in run(truth, results).warnings)


@pytest.mark.parametrize("count", [1, 3])
def test_few_corners_are_doubted_even_where_some_end_outside(count):
    truth, _ = coco_case(5, images=1)
    image = truth["images"][0]
    width, height = image["width"], image["height"]
    corners = [[width * 0.6, height * 0.6, width * 1.01, height * 0.9]] * count
    results = [
        {"image_id": image["id"], "category_id": 2, "bbox": box, "score": 0.5 + 0.1 * i}
        for i, box in enumerate(corners)
    ]
    assert any("look like corners" in text for text in run(truth, results).warnings)
    for entry in results:
        entry["bbox"] = [width * 0.6, height * 0.6, width * 0.4, height * 0.3]
    assert not run(truth, results).warnings


def test_no_detections_and_scores_beyond_one_and_copies_are_said():
    truth, results = coco_case(5, ties=False)
    assert not run(truth, results).warnings
    assert any("no detections" in text for text in run(truth, []).warnings)
    results[0]["score"] = 87.5
    found = run(truth, results)
    assert any(f"1 of {len(results)} scores lie outside 0 to 1" in t for t in found.warnings)
    with pytest.raises(PermafrostError, match="not probabilities"):
        calibrate(found)
    results[0]["score"] = 0.5
    # a copy of one detection in a hundred may be chance, more are not
    few = results[:50]
    assert any("exact copies" in text for text in run(truth, few + few[:1]).warnings)
    many = (few * 4)[:200]
    for place, entry in enumerate(many := [dict(entry) for entry in many]):
        entry["score"] = place / 1000
    assert not run(truth, many + many[:2]).warnings
    assert run(truth, many + many[:3]).warnings


@pytest.mark.parametrize("kernel", ["bbox", "segm"])
@pytest.mark.parametrize("mode", ["strict", "corrected"])
def test_a_missing_area_is_that_of_the_geometry(kernel, mode):
    truth, results = coco_case(3, geometry=kernel, crowds=0)
    known = run(truth, results, iou_type=kernel, mode=mode)
    for entry, area in zip(truth["annotations"], (5000.0, 3000.0), strict=False):
        entry["area"] = area
    for entry in truth["annotations"][2:]:
        entry.pop("area")
    truth["annotations"][3]["area"] = None
    found = run(truth, results, iou_type=kernel, mode=mode)
    assert any(f"{len(found.truths) - 2} annotations have no area" in t for t in found.warnings)
    assert found.truths.areas[:2].tolist() == [5000.0, 3000.0]
    if kernel == "bbox":
        expected = known.truths.boxes[2:, 2] * known.truths.boxes[2:, 3]
    else:
        expected = known.problem.truth_masks.areas()[2:]
    assert found.truths.areas[2:].tolist() == expected.tolist()


@pytest.mark.parametrize("side", ["truth", "predictions"])
def test_a_key_that_occurs_twice_is_refused(side, tmp_path):
    truth, results = small()
    contents = {"truth": json.dumps(truth), "predictions": json.dumps(results)}
    broken = contents[side].replace('"image_id": ', '"image_id": 77, "image_id": ', 1)
    for name, content in (contents | {side: broken}).items():
        (tmp_path / name).write_text(content)
    with pytest.raises(PermafrostError, match=f"{side}.*'image_id' occurs twice"):
        run(tmp_path / "truth", tmp_path / "predictions")


def test_more_categories_than_memory_are_refused_by_name():
    truth, results = small()
    truth["categories"] += [{"id": 1000 + i, "name": "x"} for i in range(40_000)]
    with pytest.raises(PermafrostError, match="40004 categories would take .* GB"):
        run(truth, results)
    assert run(truth, results, use_categories=False).stats[0] >= 0


def test_curves_are_refused_where_there_is_no_memory_for_them(monkeypatch):
    from permafrost.metrics.detection import accumulate

    monkeypatch.setattr(accumulate, "_MANY_BYTES", 1000)
    for free, refused in ((10**6, True), (10**9, False), (None, False)):
        monkeypatch.setattr(accumulate, "available_bytes", lambda free=free: free)
        if refused:
            with pytest.raises(PermafrostError, match=r"4 categories would take .* are free\)"):
                run(*small())
        else:
            assert run(*small()).stats[0] >= 0


def test_categories_without_truths_change_no_number():
    truth, results = small()
    expected = run(truth, results)
    truth["categories"] += [{"id": 1000 + i, "name": "x"} for i in range(50)]
    found = run(truth, results)
    assert np.array_equal(found.stats, expected.stats)
    for name in ("precision", "scores"):
        assert np.array_equal(getattr(found, name)[:, :, :4], getattr(expected, name))
        assert (getattr(found, name)[:, :, 4:] == -1).all()
    assert (found.recall[:, 4:] == -1).all()


def test_how_many_entries_are_wrong_is_said():
    truth, results = small()
    for entry in results[:3]:
        entry["image_id"] = 999
    for mode in ("strict", "corrected"):
        message = f"not among the images of the truth .*999.*2 more of {len(results)}"
        with pytest.raises(PermafrostError, match=message):
            run(truth, results, mode=mode)


@pytest.mark.parametrize("key", ["image_id", "category_id"])
def test_ids_of_another_kind_are_named_as_what_they_are(key):
    truth, results = small()
    words = [{**entry, key: str(entry[key])} for entry in results]
    with pytest.raises(
        PermafrostError, match=f"{key} is no id of .*whole numbers, these are words"
    ):
        run(truth, words)
    section = {"image_id": "images", "category_id": "categories"}[key]
    named = copy.deepcopy(truth)
    for entry in named[section]:
        entry["id"] = str(entry["id"])
    message = rf"annotations\[0\].*{key} is no id of the {section}: those are words"
    with pytest.raises(PermafrostError, match=message):
        run(named, results)
    for entry in named["annotations"]:
        entry[key] = str(entry[key])
    with pytest.raises(PermafrostError, match=f"{key} is no id of .*words, these are whole"):
        run(named, results)
    assert np.array_equal(run(named, words).stats, run(truth, results).stats)


def test_categories_may_be_missing_where_they_are_pooled():
    truth, results = small()
    pooled = run(truth, results, use_categories=False).stats
    for change in (lambda t: t.pop("categories"), lambda t: t["categories"].clear()):
        less = copy.deepcopy(truth)
        change(less)
        assert np.array_equal(run(less, results, use_categories=False).stats, pooled)
        with pytest.raises(PermafrostError, match="the ground truth has no categories"):
            run(less, results, invalid="drop")
    truth.pop("categories")
    with pytest.raises(PermafrostError, match="the ground truth has no categories"):
        run(truth, results, mode="strict", use_categories=False)


OPTIONS = [
    ({"iou_type": "box"}, "did you mean 'bbox'"),
    ({"mode": "exact"}, "no mode"),
    ({"iou_thresholds": [1.5]}, "in \\[0, 1\\]"),
    ({"iou_thresholds": []}, "in \\[0, 1\\]"),
    ({"iou_thresholds": [0.5, 0.5]}, "twice"),
    ({"max_dets": [0]}, "positive"),
    ({"max_dets": [10, 10, 20]}, "distinct"),
    ({"max_dets": [10], "mode": "strict"}, "three caps"),
    ({"area_ranges": {"small": (0, 5)}}, "one range named 'all'"),
    ({"area_ranges": {"all": (5, 0)}}, "low <= high"),
    ({"boundary_ratio": 0}, "between 0 and 1"),
    ({"sigmas": [0.1] * 17}, "sigmas change nothing of bbox"),
    ({"detection_area": "mask"}, "no segmentation to take the area from"),
    ({"lvis": True}, "neg_category_ids"),
    ({"lvis": True, "iou_type": "keypoints"}, "no keypoints"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_wrong_options_are_named(options, message):
    truth, results = small()
    with pytest.raises(PermafrostError, match=message):
        run(truth, results, **options)


def test_a_category_cannot_be_absent_and_partly_annotated():
    truth, results = small()
    truth = federate(truth, 0)
    truth["images"][0]["neg_category_ids"] = [2]
    truth["images"][0]["not_exhaustive_category_ids"] = [2]
    with pytest.raises(PermafrostError, match="neg_category_ids and in"):
        run(truth, results, lvis=True)


def test_asking_for_what_was_not_evaluated_is_an_error():
    found = run(*small())
    for options in ({"threshold": 0.51}, {"area": "tiny"}, {"cap": 7}):
        with pytest.raises(PermafrostError):
            found.average_precision(**options)
