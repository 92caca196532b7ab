"""What no figure counts is said: detections and objects beyond the cap, categories without truth."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers.predictions.detection_command import command, given, write
from helpers.predictions.detections import coco_case, federate
from helpers.predictions.objects import predictions
from permafrost.evaluators import detection
from permafrost.report.explanations.gates import explain, explain_at_length
from permafrost.statistics.scores import gates

SIDE = 8
evaluate = partial(detection.evaluate, iou_type="bbox")


def grid(count: int, *, image: int = 1, category: int = 1) -> list[dict]:
    """So many objects that do not touch."""
    return [
        {
            "image_id": image,
            "category_id": category,
            "bbox": [10 * (i % 20), 10 * (i // 20), SIDE, SIDE],
        }
        for i in range(count)
    ]


def crowded(truths: int, found: int) -> tuple[dict, list[dict]]:
    annotations = [
        {**entry, "id": i + 1, "area": SIDE * SIDE, "iscrowd": 0}
        for i, entry in enumerate(grid(truths) + grid(3, image=2))
    ]
    truth = {
        "images": [{"id": i, "width": 200, "height": 200} for i in (1, 2)],
        "categories": [{"id": 1, "name": "tree"}, {"id": 2, "name": "bush"}],
        "annotations": annotations,
    }
    results = [{**e, "score": 0.9 - 1e-4 * i} for i, e in enumerate(grid(found) + grid(3, image=2))]
    return truth, results


@pytest.mark.parametrize("mode", ["strict", "corrected"])
def test_more_objects_than_the_cap_are_said_with_the_option_that_counts_them(mode):
    truth, results = crowded(150, 150)
    found = evaluate(truth, results, mode=mode)
    assert found.stats[0] < 0.7 and found.cut.words() == "50 detections and 50 objects"
    (text,) = found.warnings
    assert "50 detections and 50 objects on 1 of 2 images" in text
    assert "cap of 100 detections of an image and category" in text
    assert "cannot be found" in text and "--max-dets 1,10,150" in text
    more = evaluate(truth, results, mode=mode, max_dets=(1, 10, 150))
    assert more.value(replace(more.statistics[0], cap=150)) == pytest.approx(1)
    assert not more.cut and not more.warnings


@pytest.mark.parametrize(("truths", "found"), [(100, 100), (3, 100)])
def test_as_many_as_the_cap_are_not_cut(truths, found):
    assert not evaluate(*crowded(truths, found)).warnings


def test_only_detections_or_only_objects_beyond_the_cap():
    (text,) = evaluate(*crowded(3, 101)).warnings
    assert "1 detections on 1 of 2 images" in text and "cannot be found" not in text
    (text,) = evaluate(*crowded(101, 3)).warnings
    assert "1 objects on 1 of 2 images" in text and "cannot be found" in text


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pooled", [False, True])
def test_what_is_cut_is_what_counting_by_hand_gives(seed, pooled):
    truth, results = coco_case(seed, detections=12.0, truths=6.0)
    cap = 3
    found = evaluate(truth, results, max_dets=[cap], use_categories=not pooled)

    def cells(entries):
        return Counter((e["image_id"], 0 if pooled else e["category_id"]) for e in entries)

    counted = cells(e for e in truth["annotations"] if not e["iscrowd"])
    detected = cells(results)
    over = [{cell: n - cap for cell, n in each.items() if n > cap} for each in (detected, counted)]
    assert found.cut.detections == sum(over[0].values()) > 0
    assert found.cut.objects == sum(over[1].values())
    assert found.cut.images == len({image for each in over for image, _ in each})
    assert found.cut.most == max([*detected.values(), *counted.values()])


def test_the_cap_of_lvis_is_on_images():
    truth, results = coco_case(3, crowds=0.0, detections=12.0)
    most = Counter(entry["image_id"] for entry in results)
    found = evaluate(federate(truth, 3), results, lvis=True, max_dets=4)
    cut = sum(n - 4 for n in most.values() if n > 4)
    assert any(
        f"{cut} detections on" in text and "LVIS's cap of 4" in text for text in found.warnings
    )
    found = evaluate(federate(truth, 3), results, lvis=True, max_dets=-1)
    assert not any("cap" in text for text in found.warnings)


def test_detections_of_categories_without_truth_are_counted():
    truth, results = crowded(3, 3)
    others = [{**entry, "score": 0.5} for entry in grid(4, image=2, category=2)]
    found = evaluate(truth, results + others)
    assert found.stats[0] == pytest.approx(1) and found.without_truth == {"bush": 4}
    (text,) = found.warnings
    assert "4 of 10 detections count in no figure" in text and text.endswith(": bush")
    assert not evaluate(truth, results + others, use_categories=False).without_truth
    # a crowd is nothing to find
    truth["annotations"].append(
        {**others[0], "id": 99, "area": SIDE * SIDE, "iscrowd": 1, "bbox": [0, 0, 90, 90]}
    )
    assert evaluate(truth, results + others).without_truth == {"bush": 4}
    truth["annotations"][-1]["iscrowd"] = 0
    assert not evaluate(truth, results + others).without_truth


def test_the_command_says_both_and_writes_both(tmp_path, capsys):
    truth, results = crowded(150, 150)
    others = [{**entry, "score": 0.5} for entry in grid(2, image=2, category=2)]
    files = write(tmp_path, truth, results + others)
    against = tmp_path / "other.json"
    against.write_text(json.dumps(results[:120]))
    command(*given(files), "--output", tmp_path / "s.json", "--against", against, resamples=0)
    printed = " ".join(capsys.readouterr().out.split())
    assert "50 detections and 50 objects on 1 of 2 images" in printed
    assert "--max-dets 1,10,150" in printed and "2 of 155 detections count in no figure" in printed
    assert "other.json: 20 detections and 50 objects" in printed
    written = json.loads((tmp_path / "s.json").read_text())
    assert written["cut"] == {
        "cap": 100,
        "detections": 50,
        "objects": 50,
        "images": 1,
        "most": 150,
    }
    assert written["without_truth"] == {"bush": 2}


def test_undefined_figures_look_alike_whatever_the_reason(tmp_path, capsys):
    files = write(tmp_path, *crowded(3, 3))
    command(*given(files), "--iou-thresholds", "0.2", "--output", tmp_path / "s.json", resamples=0)
    printed = capsys.readouterr().out
    assert "nan" not in printed
    lines = [line for line in printed.splitlines() if "@[" in line]
    undefined = [line for line in lines if "= -1.000" in line]
    # AP50 and AP75 were not evaluated; there are no medium or large objects
    assert len(undefined) == 6 and len(lines) == 12
    written = json.loads((tmp_path / "s.json").read_text())
    values = [value for value in written["stats"].values() if value < 0]
    assert values == [-1.0] * 6
    overall = [row["value"] for row in written["scores"] if row["class"] is None]
    assert overall.count(None) == 6


def test_the_pipeline_has_a_gate_for_it():
    found = predictions("detection", images=20)
    assert not gates.detections_cut(found)
    few = replace(found, scoring=replace(found.scoring, max_detections=2))
    cut = [np.maximum(counts - 2, 0).sum() for counts in (few.answers, few.truth)]
    assert min(cut) > 0
    (gate,) = gates.detections_cut(few)
    assert gate == f"detections_cut:{cut[0]} detections and {cut[1]} objects"
    assert explain(gate).endswith("beyond max_detections") and "Raise" in explain_at_length(gate)
    assert gate in gates.score_gates(few, [{"metric": "AP", "value": 1, "upper": 1, "n_units": 20}])
    assert not gates.detections_cut(predictions("point_detection", images=5))
