"""Files of detections read piece by piece say what they say when read as a whole."""

from __future__ import annotations

import json
import os
import threading

import numpy as np
import pytest
from helpers.predictions.detections import coco_case
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.inputs import plain
from permafrost.metrics.detection.inputs.plain import plain_columns


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(plain, "_PIECE", 100)


def usual(geometry="bbox"):
    truth, results = coco_case(2, images=4, geometry=geometry)
    if geometry == "segm":
        results = [e for e in results if isinstance(e["segmentation"]["counts"], str)]
    return truth, results


@pytest.mark.parametrize("layout", [{}, {"indent": 1}, {"separators": (",", ":")}])
@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints"])
@pytest.mark.parametrize("piece", [3, 100, 1 << 17])
def test_pieces_score_as_the_whole(iou_type, piece, layout, tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "_PIECE", piece)
    truth, results = usual(iou_type)
    path = tmp_path / "found.json"
    path.write_text(json.dumps(results, **layout) + "\n")
    assert plain_columns(path, drop=False) is not None
    one = evaluate(truth, path, iou_type=iou_type)
    two = evaluate(truth, results, iou_type=iou_type)
    assert one.stats[0] > 0
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert list(one.detections.segmentations or []) == list(two.detections.segmentations or [])


WRONG = [
    {"score": float("nan")},
    {"score": "high"},
    {"score": True},
    {"image_id": 987654},
    {"image_id": 1.5},
    {"image_id": 10**30},
    {"category_id": 987654},
    {"bbox": [1, 2, 3]},
    {"bbox": [1, 2, 3, -4]},
    {"bbox": [1, 2, 3, 1e16]},
    {"bbox": [1, 2, True, 4]},
    {"bbox": None},
    {"segmentation": {"size": [1, 1], "counts": "1"}},
    {"segmentation": {"size": [1, 1]}},
    {"segmentation": 5},
    {"id": 5},
    {"keypoints": [1, 2, 3]},
    {"keypoints": [1, 2, True] * 17},
    {"keypoints": [1, 2, "3"] * 17},
    {"keypoints": [1, 2, float("inf")] * 17},
    {"note": "a }, { b"},
]


@pytest.mark.parametrize("wrong", WRONG, ids=[str(wrong) for wrong in WRONG])
@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints"])
@pytest.mark.parametrize("mode", ["strict", "corrected"])
@pytest.mark.parametrize("invalid", ["error", "drop"])
def test_what_is_wrong_is_named_as_in_the_whole(wrong, iou_type, mode, invalid, tmp_path):
    truth, results = usual(iou_type)
    results[len(results) // 2].update(wrong)
    path = tmp_path / "found.json"
    path.write_text(json.dumps(results))
    said = []
    for given in (path, results):
        try:
            found = evaluate(truth, given, iou_type=iou_type, mode=mode, invalid=invalid)
            said.append((found.dropped, found.stats.tobytes()))
        except PermafrostError as error:
            said.append((error.problem, error.where.split(": ")[1:]))
    assert said[0] == said[1]


@pytest.mark.parametrize("box", [True, False])
@pytest.mark.parametrize("mode", ["strict", "corrected"])
def test_keypoints_with_boxes_and_ids_are_read_by_pieces_too(box, mode, tmp_path):
    truth, results = usual("keypoints")
    for number, entry in enumerate(results):
        entry["id"] = 900 - number
        if box:
            entry["bbox"] = [1.5, 2, 30, 40]
    path = tmp_path / "found.json"
    path.write_text(json.dumps(results))
    assert plain_columns(path, drop=False) is not None
    one, two = (
        evaluate(truth, given, iou_type="keypoints", mode=mode) for given in (path, results)
    )
    assert one.stats[0] > 0 and np.array_equal(one.stats, two.stats)
    for name in ("boxes", "areas", "ids", "keypoints"):
        assert np.array_equal(getattr(one.detections, name), getattr(two.detections, name))


def test_other_numbers_of_keypoints_are_named_by_their_entry(tmp_path):
    truth, results = usual("keypoints")
    for entry in results:
        entry["keypoints"] = entry["keypoints"][:-3]
    path = tmp_path / "found.json"
    path.write_text(json.dumps(results))
    with pytest.raises(PermafrostError, match=r"found.json: \[0\].*not a list of 51 numbers"):
        evaluate(truth, path, iou_type="keypoints")


def test_text_without_an_end_of_an_entry_is_not_gathered_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "_LONGEST", 1000)
    taken = []
    monkeypatch.setattr(plain.Gathered, "take", lambda _, entries: taken.append(entries))
    path = tmp_path / "found.json"
    path.write_text('[{"image_id": "' + 100_000 * "x" + '"}]')
    assert plain_columns(path, drop=False) is None and not taken
    with open(path, "rb") as file:
        with pytest.raises(ValueError, match="no end"):
            list(plain._pieces(file))
        assert file.tell() < 2000


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "[ ]",
        "[{}]",
        "[1, 2]",
        "{}",
        '[{"image_id": 1}, {"image_id": 2}',
        '[{"a": 1}],[{"a": 1}]',
        '[{"a": 1},]',
        '[,{"a": 1}]',
        '[{"a": "}, {"}]',
        "\ufeff[]",
        "",
    ],
)
def test_what_is_no_usual_file_is_left_to_the_whole(text, tmp_path):
    (tmp_path / "found.json").write_text(text)
    assert plain_columns(tmp_path / "found.json", drop=False) is None
    assert plain_columns(tmp_path / "absent.json", drop=False) is None


def test_a_break_inside_of_a_string_is_no_break(tmp_path):
    truth, results = usual("segm")
    # } and { are no digits of a mask, but stand where a piece could end
    results[1]["segmentation"]["counts"] = "0" * 90 + "}, {" + "0" * 90
    path = tmp_path / "found.json"
    path.write_text(json.dumps(results))
    assert plain_columns(path, drop=False) is None
    with pytest.raises(PermafrostError, match=r"found.json: \[1\].*outside of"):
        evaluate(truth, path, iou_type="segm")


@pytest.mark.parametrize("wrong", [{}, {"score": "high"}])
def test_a_pipe_is_read_once(wrong, tmp_path):
    truth, results = usual()
    results[1].update(wrong)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[json.dumps(results)])
    writer.start()
    try:
        if wrong:
            with pytest.raises(PermafrostError, match=r"pipe: \[1\].*not a number"):
                evaluate(truth, pipe, iou_type="bbox")
        else:
            assert evaluate(truth, pipe, iou_type="bbox").stats[0] > 0
    finally:
        writer.join()
