"""DOTA's text files are the truth and detections that the same boxes in JSON are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.predictions.detection_command import command
from helpers.predictions.oriented import in_form, oriented_case, ring
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import evaluate, evaluate_voc

NAMES = {1: "plane", 2: "small-vehicle", 3: "ship"}
HEAD = "acquisition dates:2016-05-04\nimagesource:GoogleEarth\ngsd:0.146343590398\n"


def write_dota(folder, truth, found, hard=()):
    """Folders of labels and detections; objects with an id in `hard` are difficult."""
    labels, tasks = folder / "labelTxt", folder / "results"
    labels.mkdir(parents=True)
    tasks.mkdir()
    for image in truth["images"]:
        own = [e for e in truth["annotations"] if e["image_id"] == image["id"]]
        lines = [
            f"{' '.join(map(repr, ring(e)))} {NAMES[e['category_id']]} {int(e['id'] in hard)}\n"
            for e in own
        ]
        # heads may be missing, and line ends may be Windows'
        text = (HEAD if image["id"] % 2 else "") + "".join(lines)
        (labels / f"P{image['id']:04}.txt").write_bytes(text.replace("\n", "\r\n").encode())
    for category, name in NAMES.items():
        lines = [
            f"P{e['image_id']:04} {e['score']} {' '.join(map(repr, ring(e)))}\n"
            for e in found
            if e["category_id"] == category
        ]
        (tasks / f"Task1_{name}.txt").write_text("".join(lines))
    return labels, tasks


def case(tmp_path):
    truth, found = oriented_case(20)
    truth["annotations"] = [{**e, "iscrowd": 0} for e in truth["annotations"]]
    hard = {e["id"] for e in truth["annotations"][::5]}
    return truth, found, hard, write_dota(tmp_path, truth, found, hard)


def as_json(truth, found, hard):
    """The same in JSON, by the names and in the order of the folders."""

    def named(entry):
        return {"poly": ring(entry), "image_id": f"P{entry['image_id']:04}"}

    annotations = in_form(truth["annotations"], named)
    for entry in annotations:
        entry["ignore"] = int(entry["id"] in hard)
        entry.pop("area")
        entry["category_id"] = NAMES[entry["category_id"]]
    detections = in_form(found, named)
    for entry in detections:
        entry["category_id"] = NAMES[entry["category_id"]]
    images = [{"id": f"P{image['id']:04}"} for image in truth["images"]]
    categories = [{"id": name, "name": name} for name in NAMES.values()]
    return {"images": images, "categories": categories, "annotations": annotations}, detections


def test_folders_are_scored_as_the_same_boxes_in_json(tmp_path):
    truth, found, hard, (labels, tasks) = case(tmp_path)
    ours = evaluate(labels, tasks, iou_type="oriented")
    expected = evaluate(*as_json(truth, found, hard), iou_type="oriented")
    assert np.array_equal(ours.stats, expected.stats) and 0 < ours.stats[0] < 1
    assert ours.truths.ignored.sum() == len(hard)
    assert len(ours.truths.images) == len(truth["images"])
    # all classes of DOTA are known, also those without an object here
    assert len(ours.truths.categories) == 15
    assert str(ours.truths.ids[0]).startswith("P0") and ":" in str(ours.truths.ids[0])
    upright = evaluate(labels, tasks, iou_type="bbox")
    assert 0 < upright.stats[0] < 1 and upright.stats[0] != ours.stats[0]


def test_other_classes_and_upright_detections(tmp_path):
    labels, tasks = tmp_path / "labels", tmp_path / "tasks"
    labels.mkdir()
    tasks.mkdir()
    (labels / "a.txt").write_text("0 0 10 0 10 10 0 10 liner\n20 20 30 20 30 30 20 30 liner 2\n")
    (tasks / "Task2_liner.txt").write_text("a 0.9 0 0 10 10\na 0.8 20 20 30 30\n")
    found = evaluate(labels, tasks, iou_type="bbox")
    assert found.truths.categories.names == ("liner",)
    assert found.truths.ignored.tolist() == [False, True]
    assert found.stats[0] == pytest.approx(1)
    assert found.detections.ids.tolist() == [
        "Task2_liner.txt:1",
        "Task2_liner.txt:2",
    ]
    with pytest.raises(PermafrostError, match="has no oriented box"):
        evaluate(labels, tasks, iou_type="oriented")


def test_upright_truths_of_nwpu_and_of_vocs_xml_are_scored_by_vocs_rules(tmp_path):
    nwpu, xml, tasks = tmp_path / "nwpu", tmp_path / "xml", tmp_path / "tasks"
    for folder in (nwpu, xml, tasks):
        folder.mkdir()
    boxes = {"001": [(1, 1, 10, 10), (20, 20, 29, 29)], "002": [], "003": [(5, 5, 8, 8)]}
    for name, own in boxes.items():
        lines = [f"({x0}, {y0}),({x1},{y1}),7 \r\n" for x0, y0, x1, y1 in own]
        (nwpu / f"{name}.txt").write_text("".join(lines))
        objects = [
            f"<object><name>7</name><difficult>{int(name == '003')}</difficult><bndbox><xmin>{x0}</xmin>"
            f"<ymin>{y0}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
            for x0, y0, x1, y1 in own
        ]
        (xml / f"{name}.xml").write_text(f"<annotation>{''.join(objects)}</annotation>")
    # 6 of 10 columns overlap: 5 / 9 of the sides without the last pixel, 60 / 100 with it
    (tasks / "comp4_det_test_7.txt").write_text(
        "001 0.9 1 1 10 10\n002 0.8 1 1 10 10\n001 0.7 20 20 25 29\n003 0.6 5 5 8 8\n"
    )
    for threshold, right in ((0.55, 2), (0.58, 1)):
        options = {"iou_type": "bbox", "protocol": "voc12", "iou_thresholds": [threshold]}
        plain = evaluate_voc(xml, tasks, **options)
        assert plain.right.sum() == right and plain.positives.sum() == 2
        edges = evaluate_voc(xml, tasks, inclusive=True, **options)
        # right, wrong, right; the difficult object is neither
        assert edges.average_precision[0, 0] == pytest.approx((1 + 2 / 3) / 2)
        ours = evaluate_voc(nwpu, tasks, inclusive=True, **options)
        assert ours.average_precision[0, 0] == pytest.approx((1 + 3 / 4 + 3 / 4) / 3)
    assert plain.truths.ids.tolist() == ["001.xml:1", "001.xml:2", "003.xml:1"]
    (xml / "004.xml").write_text("<annotation><object><name>7</name></object></annotation>")
    with pytest.raises(
        PermafrostError, match=r"object 1 has no <bndbox>.*004.xml|004.xml.*object 1"
    ):
        evaluate_voc(xml, tasks, **options)
    dropped = evaluate_voc(xml, tasks, invalid="drop", **options).truths.notes.dropped
    assert dropped == {"a file that is not VOC's XML": 1}


def test_oriented_boxes_of_xml_are_those_of_dotas_text(tmp_path):
    xml, text, tasks = tmp_path / "xml", tmp_path / "text", tmp_path / "tasks"
    for folder in (xml, text, tasks):
        folder.mkdir()
    ring_of_box = [3, 1, 11, 5, 9, 9, 1, 5]
    tags = [
        f"{axis}_{c}"
        for c in ("left_top", "right_top", "right_bottom", "left_bottom")
        for axis in "xy"
    ]
    sides = "".join(f"<{t}>{v}</{t}>" for t, v in zip(tags, ring_of_box, strict=True))
    (xml / "a.xml").write_text(
        f"<annotation><object><name>ship</name><robndbox>{sides}</robndbox></object></annotation>"
    )
    numbers = " ".join(map(str, ring_of_box))
    (text / "a.txt").write_text(f"{numbers} ship 0\n")
    (tasks / "Task1_ship.txt").write_text(f"a 0.9 {numbers}\n")
    ours, expected = (
        evaluate(folder, tasks, iou_type="oriented", iou_thresholds=[0.999])
        for folder in (xml, text)
    )
    assert ours.truths.corners == pytest.approx(expected.truths.corners)
    assert ours.stats[0] == expected.stats[0] == pytest.approx(1)


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("labelTxt/P0002.txt", "1 2 3 4 5 6 7 plane 0", r"P0002.txt:\d+: the line is not: x1"),
        ("labelTxt/P0002.txt", "1 2 3 4 5 6 7 8 plane hard", "the line is not: x1"),
        ("labelTxt/P0002.txt", "1 2 3 4 5 6 7 8 ball court 0", "the line is not: x1"),
        ("results/Task1_plane.txt", "P0002 0.5 1 2 3", r"Task1_plane.txt:\d+: the line is not: im"),
        ("results/Task1_plane.txt", "P0002 0.5 1 2 3 4 5 6 7 nan", "poly is not finite"),
        ("results/Task1_plane.txt", "P9 0.5 1 2 3 4 5 6 7 8", "not among the images of the truth"),
    ],
)
def test_a_wrong_line_is_refused_or_dropped(tmp_path, file, line, message):
    *_, (labels, tasks) = case(tmp_path)
    expected = evaluate(labels, tasks, iou_type="oriented")
    with (tmp_path / file).open("a") as stream:
        stream.write(f"{line}\n")
    with pytest.raises(PermafrostError, match=message):
        evaluate(labels, tasks, iou_type="oriented")
    ours = evaluate(labels, tasks, iou_type="oriented", invalid="drop")
    assert sum(ours.dropped.values()) == 1
    assert np.array_equal(ours.precision, expected.precision)


def test_a_folder_without_text_files_is_refused(tmp_path):
    *_, (labels, _) = case(tmp_path / "set")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PermafrostError, match=r"no text file.*Task1_CLASS.txt"):
        evaluate(labels, tmp_path / "empty", iou_type="oriented")


def test_the_command_records_what_was_in_the_folders(tmp_path, capsys):
    *_, (labels, tasks) = case(tmp_path)
    digests = []
    for _ in range(2):
        output = tmp_path / "scores.json"
        command(
            *("--truth", labels, "--predictions", tasks, "--iou-type", "oriented"),
            *("--against", tasks, "--output", output, "--resamples", 0),
        )
        content = json.loads(output.read_text())
        assert {row["difference"] for row in content["comparison"] if row["value"]} == {0}
        digests.append(content["options"]["predictions"]["sha256"])
        with (tasks / "Task1_ship.txt").open("a") as stream:
            stream.write("P0002 0.01 1 1 2 1 2 2 1 2\n")
    assert digests[0] != digests[1]
    assert "oriented by COCO's rules" in capsys.readouterr().out


@pytest.mark.parametrize("protocol", ["voc07", "voc12"])
def test_the_command_scores_by_vocs_rules(tmp_path, capsys, protocol):
    *_, (labels, tasks) = case(tmp_path)
    output = tmp_path / "scores.json"
    options = ("--truth", labels, "--predictions", tasks, "--iou-type", "oriented")
    command(
        *options,
        *("--protocol", protocol, "--iou-thresholds", "0.5,0.75", "--output", output),
        *("--against", tasks, "--tables", tmp_path / "tables"),
    )
    content = json.loads(output.read_text())
    rows = {(row["metric"], row["class"]): row for row in content["scores"]}
    expected = evaluate_voc(
        labels, tasks, iou_type="oriented", protocol=protocol, iou_thresholds=[0.5, 0.75]
    )
    # classes without an object are in no mean
    assert rows["AP50", "harbor"]["value"] is None
    assert rows["AP50", None]["value"] == pytest.approx(np.nanmean(expected.average_precision[0]))
    assert rows["AP50", None]["lower"] < rows["AP50", None]["value"]
    assert {row["difference"] for row in content["comparison"] if row["value"]} == {0}
    assert content["difficult"] > 0 and (tmp_path / "tables" / "curves.parquet").exists()
    assert "by VOC's rules" in capsys.readouterr().out
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    (nothing / "Task1_ship.txt").touch()
    command(*options, "--protocol", protocol, "--against", nothing)
    assert f"{nothing}: there are no detections" in capsys.readouterr().out
    for wrong, message in (
        (("--protocol", "voc"), "did you mean 'voc07'|voc12"),
        (("--protocol", protocol, "--max-dets", "10"), "used with --protocol coco"),
        (("--inclusive",), "used with --protocol voc07 or voc12"),
        (("--protocol", protocol, "--inclusive"), "edges of pixels"),
        (("--protocol", protocol, "--counts", "best"), "used with --protocol coco"),
        (("--protocol", protocol, "--group-weight", "0"), "used with --protocol open_images"),
        (("--protocol", "open_images"), "Open Images' rules know no oriented"),
    ):
        with pytest.raises(PermafrostError, match=message):
            command(*options, *wrong)
