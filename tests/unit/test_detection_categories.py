"""Some of the categories, and means over groups of them, against evaluations of edited truths."""

from __future__ import annotations

import json

import numpy as np
import pytest
from detection_cases import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection import evaluate
from permafrost.metrics.detection.categories import find_categories, find_groups, read_groups


def without_others(truth, results, ids):
    """The same truth and detections as if the other categories did not exist."""

    def kept(entries):
        return [entry for entry in entries if entry["category_id"] in ids]

    images = [
        {
            **image,
            **{
                name: [i for i in image[name] if i in ids]
                for name in ("neg_category_ids", "not_exhaustive_category_ids")
                if name in image
            },
        }
        for image in truth["images"]
    ]
    categories = [entry for entry in truth["categories"] if entry["id"] in ids]
    return {
        **truth,
        "images": images,
        "categories": categories,
        "annotations": kept(truth["annotations"]),
    }, kept(results)


@pytest.mark.parametrize("mode", ["strict", "corrected"])
@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints"])
@pytest.mark.parametrize("use_categories", [True, False])
def test_other_categories_are_as_if_they_did_not_exist(iou_type, mode, use_categories):
    truth, results = coco_case(1, geometry=iou_type, images=6, detections=20)
    ids = [truth["categories"][i]["id"] for i in (2, 0)]
    options = {"iou_type": iou_type, "mode": mode, "use_categories": use_categories}
    found = evaluate(truth, results, categories=ids, **options)
    expected = evaluate(*without_others(truth, results, ids), **options)
    for name in ("precision", "recall", "scores", "stats"):
        assert np.array_equal(getattr(found, name), getattr(expected, name), equal_nan=True)
    assert found.truths.categories.ids.tolist() == sorted(ids)
    others = sum(entry["category_id"] not in ids for entry in truth["annotations"])
    missing = sum(entry["category_id"] not in ids for entry in results)
    assert f"only 2 of 4 categories are evaluated; {others} annotations are of others" in (
        found.warnings
    )
    assert f"{missing} detections are of categories that are not evaluated" in found.warnings


def test_names_mean_the_same_as_ids():
    truth, results = coco_case(2)
    for number, category in enumerate(truth["categories"]):
        category["name"] = f"kind {number}"
    one = evaluate(truth, results, iou_type="bbox", categories=["kind 3", "kind 1"])
    ids = [truth["categories"][i]["id"] for i in (1, 3)]
    two = evaluate(truth, results, iou_type="bbox", categories=[str(ids[1]), ids[0]])
    assert np.array_equal(one.precision, two.precision)


@pytest.mark.parametrize("mode", ["strict", "corrected"])
def test_lvis_cuts_images_before_categories_are_chosen(mode):
    truth, results = coco_case(3, categories=7, images=8, truths=8.0, detections=40, crowds=0.0)
    truth = federate(truth, 3)
    ids = [truth["categories"][i]["id"] for i in (0, 2, 5)]
    options = {"iou_type": "bbox", "lvis": True, "mode": mode}
    found = evaluate(truth, results, categories=ids, max_dets=20, **options)
    best = []
    for image in truth["images"]:
        own = [entry for entry in results if entry["image_id"] == image["id"]]
        best += sorted(own, key=lambda entry: -entry["score"])[:20]
    best = [entry for entry in results if any(entry is other for other in best)]
    expected = evaluate(*without_others(truth, best, ids), max_dets=-1, **options)
    assert np.array_equal(found.precision, expected.precision)
    assert np.array_equal(found.recall, expected.recall) and found.stats[0] > 0
    whole = evaluate(truth, results, max_dets=20, **options)
    at = [whole.truths.categories.ids.tolist().index(i) for i in sorted(ids)]
    assert np.array_equal(found.precision, whole.precision[:, :, at])


def test_some_images_of_some_categories(tmp_path):
    truth, results = coco_case(4, images=8)
    ids = [entry["id"] for entry in truth["categories"][:2]]
    images = [entry["id"] for entry in truth["images"][::2]]
    found = evaluate(truth, results, iou_type="bbox", categories=ids, images=images)
    expected = evaluate(*without_others(truth, results, ids), iou_type="bbox", images=images)
    assert np.array_equal(found.precision, expected.precision)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (["kind 7"], "there is no category 'kind 7'"),
        (["kind 1", "kin 2"], "did you mean 'kind 2'"),
        ([], "no category is named"),
        ("kind 1", "must be a list"),
        ([12345], "there is no category 12345"),
        (["kind 1", "kind 1"], "is given twice"),
    ],
)
def test_wrong_categories_are_refused(wanted, words):
    truth, results = coco_case(5)
    with pytest.raises(PermafrostError, match=words):
        evaluate(truth, results, iou_type="bbox", categories=wanted)


def test_a_text_that_means_two_categories_is_refused():
    truth, results = coco_case(5)
    truth["categories"][1]["name"] = truth["categories"][0]["name"]
    with pytest.raises(PermafrostError, match="means 2 categories"):
        evaluate(truth, results, iou_type="bbox", categories=[truth["categories"][0]["name"]])


def test_groups_from_files(tmp_path):
    truth, results = coco_case(6)
    categories = evaluate(truth, results, iou_type="bbox").truths.categories
    (tmp_path / "g.json").write_text(json.dumps({"a": ["kind 0", "kind 2"], "b": ["kind 3"]}))
    (tmp_path / "g.csv").write_text(
        f"\ufeffcategory,group\nkind 0,a\n{categories.ids[2]},a\nkind 3,b\nkind 1,\n"
    )
    for name in ("g.json", "g.csv"):
        found = find_groups(categories, read_groups(tmp_path / name))
        assert {key: places.tolist() for key, places in found.items()} == {"a": [0, 2], "b": [3]}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("g.json", "[1]", "must be an object"),
        ("g.json", '{"a": "kind 0"}', "must be an object with a list"),
        ("g.json", "{", "not a JSON file"),
        ("g.csv", "category,kind\nkind 0,a\n", "needs the columns category"),
        ("g.csv", "category,group\nkind 9,a\n", "there is no category 'kind 9'"),
        ("g.csv", "category,group\nkind 1,\n", "must be a mapping"),
        ("g.csv", b"\xff\xfe\x00", "cannot be read"),
        ("absent.csv", None, "cannot be read"),
    ],
)
def test_wrong_files_of_groups_are_refused(tmp_path, name, content, words):
    truth, results = coco_case(6)
    categories = evaluate(truth, results, iou_type="bbox").truths.categories
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
    with pytest.raises(PermafrostError, match=words):
        find_groups(categories, read_groups(tmp_path / name))


def test_positions_ascend():
    truth, results = coco_case(7)
    categories = evaluate(truth, results, iou_type="bbox").truths.categories
    ids = categories.ids.tolist()
    assert find_categories(categories, [ids[3], "kind 0"]).tolist() == [0, 3]
