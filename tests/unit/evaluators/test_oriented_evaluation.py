"""Oriented boxes: every way to write them, what is refused, analyses, parts, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.predictions.detection_command import command, write
from helpers.predictions.oriented import CONVENTION, in_form, oriented_case, ring
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.oriented import rotated_of
from permafrost.evaluators.detection import COCO, COCOeval, DetectionStream, evaluate, prepare
from permafrost.evaluators.detection.partial import merge, save_partial
from permafrost.metrics.detection.analysis import confusion_matrix, detection_table, error_kinds

NUMBERS = {"iou_type": "oriented", "box_convention": CONVENTION}


def other(entry: dict, convention: str) -> list[float]:
    corners = np.array(ring(entry)).reshape(1, 4, 2)
    return rotated_of(corners, convention)[0].tolist()


def closed(numbers: list[float]) -> list[float]:
    return [*numbers, *numbers[:2]]


FORMS = {
    "obb of corners": lambda e: {"obb": ring(e)},
    "poly": lambda e: {"poly": ring(e)},
    "poly of pairs": lambda e: {"poly": np.reshape(ring(e), (4, 2)).tolist()},
    "bbox of corners": lambda e: {"bbox": ring(e)},
    "segmentation": lambda e: {"bbox": [1, 2, 3, 4], "segmentation": [ring(e)]},
    "closed ring": lambda e: {"segmentation": [closed(ring(e))]},
}


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_same_scores(form, as_file, tmp_path):
    truth, found = oriented_case(1)
    expected = evaluate(truth, found, **NUMBERS)
    given = [
        {**truth, "annotations": in_form(truth["annotations"], FORMS[form])},
        in_form(found, FORMS[form]),
    ]
    if as_file:
        paths = [tmp_path / "truth.json", tmp_path / "found.json"]
        for path, content in zip(paths, given, strict=True):
            path.write_text(json.dumps(content))
        given = paths
    ours = evaluate(*given, iou_type="oriented")
    assert np.array_equal(ours.precision, expected.precision)
    assert np.array_equal(ours.detections.areas, expected.detections.areas) or np.allclose(
        ours.detections.areas, expected.detections.areas, rtol=1e-12
    )
    run = COCOeval(COCO(given[0]), COCO(given[0]).loadRes(given[1]), "oriented")
    run.evaluate()
    run.accumulate()
    strict = evaluate(truth, found, mode="strict", **NUMBERS)
    assert np.array_equal(run.eval["precision"], strict.precision)


@pytest.mark.parametrize("convention", ["le135-degrees", "oc", "detectron2"])
def test_every_convention_has_the_same_scores(convention):
    truth, found = oriented_case(2)
    expected = evaluate(truth, found, **NUMBERS)
    sides = [
        in_form(side, lambda e: {"bbox": other(e, convention)})
        for side in (truth["annotations"], found)
    ]
    ours = evaluate(
        {**truth, "annotations": sides[0]},
        sides[1],
        iou_type="oriented",
        box_convention=convention,
    )
    assert np.array_equal(ours.precision, expected.precision)


def test_truth_and_detections_may_be_written_differently_and_as_columns():
    truth, found = oriented_case(3)
    expected = evaluate(truth, found, **NUMBERS)
    annotations = in_form(truth["annotations"], lambda e: {"poly": ring(e)})
    columns = {
        key: np.array([entry[key] for entry in found])
        for key in ("image_id", "category_id", "score", "obb")
    }
    ours = evaluate({**truth, "annotations": annotations}, columns, **NUMBERS)
    assert np.array_equal(ours.precision, expected.precision)


def test_sizes_are_those_of_the_oriented_boxes():
    truth, found = oriented_case(4)
    bare = [{k: v for k, v in e.items() if k != "area"} for e in truth["annotations"]]
    ours = evaluate({**truth, "annotations": bare}, found, **NUMBERS)
    assert not ours.warnings
    assert ours.truths.areas == pytest.approx([e["area"] for e in truth["annotations"]], abs=1)
    wrong = [{**e, "area": 2 * e["area"]} for e in truth["annotations"]]
    said = evaluate({**truth, "annotations": wrong}, found, **NUMBERS).warnings
    assert any("not those of their oriented boxes" in text for text in said)


def test_radians_under_a_name_in_degrees_are_noted():
    truth, found = oriented_case(5)
    for convention, noted in (("le90-degrees", True), (CONVENTION, False)):
        ours = evaluate(truth, found, iou_type="oriented", box_convention=convention)
        assert any("may be radians" in text for text in ours.warnings) == noted


def test_outlines_that_cross_themselves_are_counted_and_their_hull_is_used():
    truth, found = oriented_case(5)

    def crossed(entry):
        numbers = ring(entry)
        return {"poly": numbers[:2] + numbers[4:6] + numbers[2:4] + numbers[6:]}

    annotations = in_form(truth["annotations"], crossed)
    ours = evaluate({**truth, "annotations": annotations}, found, **NUMBERS)
    expected = evaluate(truth, found, **NUMBERS)
    assert np.array_equal(ours.precision, expected.precision)
    count = len(annotations)
    assert any(f"outlines of {count} of {count} oriented boxes cross" in w for w in ours.warnings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obb": [1, 2, 3]}, r"found\[1\].*|obb is not a list of 5 numbers"),
        ({"obb": [1, 2, 3, -4, 0]}, "a side of an oriented box is negative"),
        ({"obb": [1, 2, 3, 4, 30]}, "full turn.*le90-degrees"),
        ({"obb": [1, 2, 3, 4, float("nan")]}, "obb is not finite"),
        ({"obb": None}, "has no obb"),
        ({"obb": [1, 2, 3, 1e17, 0]}, "obb is gigantic"),
    ],
)
def test_a_wrong_box_is_refused_or_dropped(change, message):
    truth, found = oriented_case(6)
    bad = [found[0], {**found[1], **change}, *found[2:]]
    with pytest.raises(PermafrostError, match=r"\[1\]") as error:
        evaluate(truth, bad, **NUMBERS)
    with pytest.raises(PermafrostError, match=message):
        raise error.value
    first = evaluate(truth, [bad[1], found[0], *found[2:]], invalid="drop", **NUMBERS)
    without = evaluate(truth, [found[0], *found[2:]], **NUMBERS)
    assert sum(first.dropped.values()) == 1
    assert np.array_equal(first.precision, without.precision)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iou_type": "oriented"}, "five numbers, and their convention.*le90"),
        ({"iou_type": "oriented", "box_convention": "le"}, "le90"),
        ({"iou_type": "bbox", "box_convention": "le90"}, "changes nothing of bbox"),
        ({**NUMBERS, "detection_area": "mask"}, "have no masks"),
        ({**NUMBERS, "lvis": True}, "LVIS has no oriented"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(PermafrostError, match=message):
        evaluate(*oriented_case(7), **options)


def test_an_upright_box_among_five_numbers_is_named_as_such():
    truth, _ = oriented_case(1)
    places = [{"bbox": [0, 0, 9, 9]}, {"bbox": [9, 9, 9, 9, 0.1]}]
    found = [{"image_id": 1, "category_id": 1, "score": 0.5, **place} for place in places]
    with pytest.raises(PermafrostError, match="bbox is not a list of 5 numbers"):
        evaluate(truth, found, **NUMBERS)


def test_nothing_detected_and_nothing_to_find():
    truth, found = oriented_case(8)
    assert evaluate(truth, [], **NUMBERS).stats[0] == 0
    assert evaluate({**truth, "annotations": []}, found, **NUMBERS).stats[0] == -1


def test_error_kinds_and_confusion_by_hand():
    square = {"image_id": 1, "category_id": 1, "obb": [50, 50, 40, 10, 0.7]}
    far = {**square, "obb": [200, 200, 40, 10, 0.7]}
    turned = {**far, "obb": [200, 200, 40, 10, 1.1]}
    truth = {
        "images": [{"id": 1}],
        "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
        "annotations": [{**square, "id": 1}, {**far, "id": 2}],
    }
    found = [
        {**square, "score": 0.9},
        {**square, "score": 0.8},
        {**turned, "score": 0.7},
        {**square, "obb": [100, 10, 9, 9, 0], "score": 0.6},
    ]
    evaluation = evaluate(truth, found, **NUMBERS)
    kinds = error_kinds(evaluation)
    # 40 x 10 turned by 0.4 shares 10 * 10 / sin(0.4) of the area
    shared = 100 / np.sin(0.4)
    assert 0.1 < shared / (800 - shared) < 0.5
    assert kinds.counts == {
        "category": 0,
        "localisation": 1,
        "both": 0,
        "duplicate": 1,
        "background": 1,
        "missed": 1,
    }
    # the other truth is found at rank 3 with the duplicate before it: 51 recalls of 1, 50 of 2 / 3
    assert kinds.gain["localisation"] == pytest.approx((51 + 50 * 2 / 3) / 101 - 51 / 101)
    assert confusion_matrix(evaluation).tolist() == [[1, 0, 1], [0, 0, 0], [3, 0, 0]]


def test_ties_do_not_depend_on_the_order_of_the_file():
    truth, found = oriented_case(9)
    # mirrored boxes have one upright box and one area
    mirrored = [{**e, "obb": [*e["obb"][:4], -e["obb"][4]]} for e in found]
    every = [{**entry, "score": 0.5} for entry in found + mirrored]
    one, two = (evaluate(truth, given, **NUMBERS) for given in (every, every[::-1]))
    assert np.array_equal(one.precision, two.precision)


def test_parts_batches_and_a_prepared_truth_give_the_whole(tmp_path):
    truth, found = oriented_case(10)
    whole = evaluate(truth, found, **NUMBERS)
    ids = [image["id"] for image in truth["images"]]
    paths = []
    for part in range(2):
        paths.append(tmp_path / f"part{part}")
        save_partial(evaluate(truth, found, images=ids[part::2], **NUMBERS), paths[-1])
    with DetectionStream(prepare(truth, **NUMBERS)) as stream:
        for part in range(2):
            stream.update(ids[part::2], [e for e in found if e["image_id"] in ids[part::2]])
        batches = stream.finalize()
    merged = merge(paths)
    for ours in (merged, batches, prepare(truth, **NUMBERS).evaluate(found)):
        assert np.array_equal(ours.precision, whole.precision)
        assert error_kinds(ours) == error_kinds(whole)
    for name, column in detection_table(merged).items():
        expected = detection_table(whole)[name]
        assert np.array_equal(column, expected, equal_nan=column.dtype.kind == "f"), name


def test_the_command_compares_two_files(tmp_path, capsys):
    truth, found = oriented_case(12)
    files = write(tmp_path, truth, found)
    worse = tmp_path / "worse.json"
    shifted = [{**e, "obb": [e["obb"][0] + 4, *e["obb"][1:]]} for e in found]
    worse.write_text(json.dumps(shifted))
    output = tmp_path / "scores.json"
    command(
        *("--truth", files[0], "--predictions", files[1], "--iou-type", "oriented"),
        *("--box-convention", CONVENTION, "--against", worse, "--output", output),
        *("--tables", tmp_path / "tables"),
    )
    said = capsys.readouterr().out
    assert "oriented" in said
    content = json.loads(output.read_text())
    value = {(r["metric"], r["class"]): r["value"] for r in content["scores"]}
    expected = evaluate(truth, found, **NUMBERS)
    assert value["AP", None] == expected.stats[0]
    assert value["AP50", "class-1"] == expected.average_precision(threshold=0.5)[0]
    gap = expected.stats[0] - evaluate(truth, shifted, **NUMBERS).stats[0]
    rows = [r for r in content["comparison"] if (r["metric"], r["class"]) == ("AP", None)]
    assert abs(rows[0]["difference"]) == pytest.approx(abs(gap))
    assert content["analysis"]["tide"]["counts"]
