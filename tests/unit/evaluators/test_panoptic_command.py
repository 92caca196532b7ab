"""Panoptic files: what is read, what is refused, the command."""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.predictions.panoptic import colours, documents, listed, panoptic_case
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.panoptic import evaluate
from permafrost.stages import evaluate_panoptic
from PIL import Image


def test_files_arrays_and_colours_are_the_same(files):
    truth, predictions = panoptic_case(4)
    found, expected = evaluate(*files), evaluate(truth, predictions)
    assert found.digests == expected.digests
    np.testing.assert_array_equal(found.iou, expected.iou)
    coloured = {image: colours(ids) for image, ids in truth[1].items()}
    assert evaluate((truth[0], coloured), predictions).digests == expected.digests


def test_the_order_of_the_predictions_does_not_matter():
    truth, (document, maps) = panoptic_case(4)
    turned = {"annotations": document["annotations"][::-1]}
    np.testing.assert_array_equal(
        evaluate(truth, (turned, maps)).iou, evaluate(truth, (document, maps)).iou
    )


def small():
    """One image: a tree, a pond and grass, found with other ids."""
    ids = np.array([[1, 1, 2, 2], [1, 1, 70000, 70000]])
    truth = {5: (ids, listed(ids, {1: 3, 2: 7, 70000: 11}))}
    predicted = {5: (ids + 1, listed(ids + 1, {2: 3, 3: 7, 70001: 11}))}
    first, second = documents(truth, predicted)
    return copy.deepcopy(first), {5: ids}, copy.deepcopy(second), {5: ids + 1}


def test_a_perfect_prediction_scores_one():
    truth, maps, predictions, others = small()
    for how in ({}, {"mode": "strict"}, {"boundary_ratio": 0.02}):
        values = evaluate((truth, maps), (predictions, others), **how).values
        assert values["pq", None] == values["pq_stuff", None] == values["sq", "pond"] == 1
        assert np.isnan(values["pq", "road"])


def in_truth(path: list, value):
    def change(truth, maps, predictions, others):
        _put(truth, path, value)

    return change


def in_found(path: list, value):
    def change(truth, maps, predictions, others):
        _put(predictions, path, value)

    return change


def _put(document, path: list, value) -> None:
    for step in path[:-1]:
        document = document[step]
    if value is KeyError:
        del document[path[-1]]
    else:
        document[path[-1]] = value


def in_maps(side: int, ids):
    def change(truth, maps, predictions, others):
        (maps, others)[side][5] = np.array(ids)

    return change


def again(name: str):
    def change(truth, maps, predictions, others):
        document = predictions if name == "found" else truth
        listed = document["annotations" if name == "found" else name]
        listed.append(listed[0])

    return change


SEGMENT = ["annotations", 0, "segments_info", 0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (in_truth([*SEGMENT, "category_id"], 99), r"segments_info\[0\]: there is no category 99"),
        (in_found([*SEGMENT, "category_id"], 99), r"segments_info\[0\]: there is no category 99"),
        (in_found([*SEGMENT, "category_id"], KeyError), "category_id is missing"),
        (in_truth([*SEGMENT, "iscrowd"], 2), "iscrowd is 2"),
        (in_truth([*SEGMENT, "id"], 2), "segment id 2 occurs twice"),
        (in_found([*SEGMENT, "id"], 0), "id is 0.*at least 1"),
        (in_found([*SEGMENT, "id"], 256**3), "three bytes"),
        (in_found([*SEGMENT, "id"], 77), "the segment id 2, which segments_info does not list"),
        (in_truth([*SEGMENT, "id"], 77), "the segment id 1, which segments_info does not list"),
        (in_found(["annotations", 0, "image_id"], 8), "image 8 is not in the truth"),
        (in_found(["annotations"], []), "1 images of the truth have no prediction, for example 5"),
        (in_truth(["annotations"], []), "1 images have no annotation"),
        (in_truth(["categories", 0, "isthing"], KeyError), r"categories\[0\]: isthing is missing"),
        (in_truth(["categories", 0, "id"], 7), "category id 7 occurs twice"),
        (in_truth(["categories", 0, "name"], "pond"), "category name 'pond' occurs twice"),
        (in_truth(["categories"], KeyError), "categories is missing"),
        (in_truth(["images", 0, "width"], 9), "4 x 2 pixels large, by the JSON 9 x 2"),
        (in_truth(["images", 0, "width"], "4"), "width is '4'"),
        (again("images"), "the image 5 occurs a second time"),
        (again("annotations"), r"annotations\[1\]: the image 5 occurs a second time"),
        (again("found"), r"annotations\[1\]: the image 5 occurs a second time"),
        (in_maps(1, [[2, 2, 3, 70001]]), "4 x 1 pixels large"),
        (in_maps(1, [[2, 2, 3, 3]] * 2), "lists the segment id 70001, which has no pixel"),
        (in_maps(0, [[1, 1, 2, 2]] * 2), "lists the segment id 70000, which has no pixel"),
        (in_maps(0, [[1.0]]), "the array is float64"),
        (in_maps(0, [[-1, 1]]), "outside of 0"),
        (lambda t, m, p, o: o.clear(), "label map of image 5: there is no such map"),
    ],
)
def test_bad_entries_are_named(change, words):
    parts = small()
    change(*parts)
    with pytest.raises(PermafrostError, match=words):
        evaluate(parts[:2], parts[2:])


@pytest.mark.parametrize("area", [0, None])
def test_strict_needs_areas_and_corrected_does_not(area):
    truth, maps, predictions, others = small()
    if area is None:
        del truth["annotations"][0]["segments_info"][0]["area"]
    else:
        truth["annotations"][0]["segments_info"][0]["area"] = area
    evaluate((truth, maps), (predictions, others))
    with pytest.raises(PermafrostError, match=r"annotations\[0\]: the area of the segment 1 is"):
        evaluate((truth, maps), (predictions, others), mode="strict")


def test_an_unknown_mode_or_ratio():
    parts = small()
    with pytest.raises(PermafrostError, match="did you mean 'strict'"):
        evaluate(parts[:2], parts[2:], mode="strikt")
    with pytest.raises(PermafrostError, match="ratio of 2"):
        evaluate(parts[:2], parts[2:], boundary_ratio=2)


def test_bad_files_are_named(files):
    (truth, masks), (found, others) = files
    picture = others / "2.png"
    content = picture.read_bytes()
    Image.open(picture).convert("P").save(picture)
    with pytest.raises(PermafrostError, match=r"2\.png .*found\.json: annotations\[1\].*mode is P"):
        evaluate(*files)
    picture.write_bytes(content[:50])
    with pytest.raises(PermafrostError, match=r"2\.png .*cannot be read as an image"):
        evaluate(*files)
    picture.unlink()
    with pytest.raises(PermafrostError, match=r"2\.png .*there is no such file"):
        evaluate(*files)
    found.write_text("{")
    with pytest.raises(PermafrostError, match=r"found\.json: not a JSON file"):
        evaluate(*files)
    content = json.loads(truth.read_text())
    del content["annotations"][0]["file_name"]
    truth.write_text(json.dumps(content))
    found.write_text(json.dumps(panoptic_case(4)[1][0]))
    with pytest.raises(PermafrostError, match=r"truth\.json: annotations\[0\]: file_name is miss"):
        evaluate(*files)


def command(files, *more) -> None:
    (truth, masks), (found, others) = files
    parser = argparse.ArgumentParser()
    evaluate_panoptic.add_arguments(parser)
    options = ["--truth", truth, "--truth-masks", masks, "--predictions", found]
    options += ["--prediction-masks", others, *more]
    evaluate_panoptic.run(parser.parse_args([str(option) for option in options]))


def test_the_command_prints_and_writes_the_figures(files, tmp_path, capsys):
    output = tmp_path / "s.json"
    command(files, "--resamples", "50", "--output", output, "--tables", tmp_path / "t")
    expected = evaluate(*files)
    written = json.loads(output.read_text())
    scores = {(row["metric"], row["class"]): row["value"] for row in written["scores"]}
    assert scores == {n: None if np.isnan(v) else v for n, v in expected.values.items()}
    assert written["classes"] == expected.class_counts() and written["n_images"] == 4
    assert written["options"]["truth_masks"]["sha256"] == expected.digests[0]
    assert written["scores"][0]["lower"] < scores["pq", None] < written["scores"][0]["upper"]
    printed = capsys.readouterr().out
    assert "each of 4 images; bias from 50 resamples" in printed and "pq_things" in printed
    assert (tmp_path / "t" / "scores.parquet").is_file()


def test_groups_are_resampled_together(files, tmp_path, capsys):
    groups = tmp_path / "groups.csv"
    groups.write_text("image_id,site\n1,a\n2,a\n3,b\n")
    command(files, "--groups", groups, "--group-column", "site", "--boundary-ratio", "0.02")
    printed = capsys.readouterr().out
    assert "each of 3 groups" in printed and "1 images have no group" in printed
    assert printed.startswith("boundary panoptic quality")
    with pytest.raises(PermafrostError, match="no column 'group'"):
        command(files, "--groups", groups)


def test_the_command_loads_nothing_heavy():
    code = (
        "import permafrost.stages.evaluate_panoptic, permafrost.evaluators.panoptic, sys;"
        "print(*({'torch', 'scipy', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_counts_that_would_fill_the_memory_are_refused(monkeypatch):
    truth, predictions = panoptic_case(4)
    module = importlib.import_module("permafrost.evaluators.panoptic.evaluate")
    monkeypatch.setattr(module, "_MOST_BYTES", 100)
    with pytest.raises(PermafrostError, match="categories in 4 images would take .* GB"):
        evaluate(truth, predictions)


def test_images_without_a_segment_have_no_figures_and_no_traceback(tmp_path, capsys):
    """Also where intervals are asked for: nothing carries a figure."""
    truth, maps, predictions, _ = small()
    for document in (truth, predictions):
        document["annotations"][0]["segments_info"] = []
    for name, document in (("truth.json", truth), ("found.json", predictions)):
        (tmp_path / name).write_text(json.dumps(document))
    for one in {truth["annotations"][0]["file_name"], predictions["annotations"][0]["file_name"]}:
        Image.fromarray(np.zeros((*maps[5].shape, 3), np.uint8)).save(tmp_path / one)
    files = (tmp_path / "truth.json", tmp_path), (tmp_path / "found.json", tmp_path)
    command(files, "--output", tmp_path / "s.json")
    rows = json.loads((tmp_path / "s.json").read_text())["scores"]
    assert {row["value"] for row in rows} == {None}
    assert "nothing of them was matched" in capsys.readouterr().out
