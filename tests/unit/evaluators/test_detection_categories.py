"""Some of the categories, and means over groups of them, against evaluations of edited truths."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.evaluators.intervals.detection import (
    DetectionScores,
    comparison_rows,
    detection_rows,
    image_units,
)
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
        ([], "no categories are named"),
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


# --- means over groups --------------------------------------------------------------------------

GROUPS = {
    "some": ["kind 0", "kind 2"],
    "kind 3": ["kind 3"],
    "every": [f"kind {i}" for i in range(4)],
}


@pytest.mark.parametrize("options", [{}, {"recall_grid": [0.2, 0.9]}, {"mode": "strict"}], ids=str)
def test_a_group_is_what_an_evaluation_of_its_categories_alone_gives(options):
    truth, results = coco_case(8, ties=False, truths=9, detections=20, scale=2)
    found = evaluate(truth, results, iou_type="bbox", **options)
    groups = find_groups(found.truths.categories, GROUPS)
    scores = DetectionScores(found, groups=groups)
    counts = np.random.default_rng(0).poisson(1, (12, 20))
    values, drawn = scores.values, scores.replicates(counts)
    for name, label in zip(GROUPS, ("some", "kind 3 (group)", "every"), strict=True):
        alone = evaluate(truth, results, iou_type="bbox", categories=GROUPS[name], **options)
        alone_drawn = DetectionScores(alone).replicates(counts)
        for metric, value in zip(alone.names, alone.stats, strict=True):
            expected = np.nan if value == -1 else value
            np.testing.assert_array_equal(values[metric, label], expected)
            np.testing.assert_allclose(
                drawn[metric, label], alone_drawn[metric, None], rtol=0, atol=1e-13
            )
    assert values["AP", "every"] == values["AP", None] > 0
    # the category of that name keeps its row
    assert values["AP", "kind 3"] == pytest.approx(values["AP", "kind 3 (group)"])


def test_categories_with_nothing_to_find_are_left_out_of_their_group():
    truth, results = coco_case(9)
    first = truth["categories"][0]["id"]
    truth["annotations"] = [e for e in truth["annotations"] if e["category_id"] != first]
    found = evaluate(truth, results, iou_type="bbox")
    groups = find_groups(found.truths.categories, {"a": ["kind 0", "kind 1"], "b": ["kind 0"]})
    scores = DetectionScores(found, groups=groups)
    assert scores.values["AP", "a"] == pytest.approx(scores.values["AP", "kind 1"])
    assert np.isnan(scores.values["AP", "b"])
    drawn = {"resamples": 20, "confidence": 0.9, "seed": 0}
    rows = detection_rows(scores, image_units(found), **drawn)
    by_name = {(row["metric"], row["class"]): row for row in rows}
    assert by_name["AP", "b"]["value"] is None and by_name["AP", "b"]["lower"] is None
    assert by_name["AP", "a"]["lower"] <= by_name["AP", "a"]["upper"]
    same = comparison_rows(scores, scores, image_units(found), **drawn)
    assert {row["class"] for row in same} >= {"a", "b"}


def test_pooled_categories_have_no_groups():
    truth, results = coco_case(10)
    found = evaluate(truth, results, iou_type="bbox", use_categories=False)
    groups = find_groups(found.truths.categories, {"a": ["kind 0"]})
    with pytest.raises(PermafrostError, match="pooled, so they have no groups"):
        DetectionScores(found, groups=groups)


def test_lvis_groups_know_no_frequency():
    truth, results = coco_case(3, categories=7, images=8, truths=8.0, detections=20, crowds=0.0)
    found = evaluate(federate(truth, 3), results, iou_type="bbox", lvis=True)
    groups = find_groups(found.truths.categories, {"a": ["kind 0", "kind 4"]})
    names = [name for name, label in DetectionScores(found, groups=groups).values if label == "a"]
    assert names == [name for name in found.names if name not in ("APr", "APc", "APf")]
