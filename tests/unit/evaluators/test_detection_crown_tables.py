"""Detection scores from tables in DeepForest's columns: those of the same boxes as COCO JSON."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pandas as pd
import pytest
from helpers.predictions.crowns import as_coco, box, scored_crowns
from permafrost.core.errors import PermafrostError
from permafrost.evaluators import detection
from permafrost.evaluators.crowns import evaluate as evaluate_crowns
from permafrost.evaluators.crowns.coco import evaluate_precision
from permafrost.stages import evaluate_detections


def cases(seed: int = 0):
    """Truth and predictions on the same images, the latter of known labels."""
    truth, predictions = scored_crowns(np.random.default_rng(seed), 7)
    listed = {row["image_path"] for row in truth}
    return truth, [r for r in predictions if r["label"] != "c" and r["image_path"] in listed]


@pytest.fixture
def files(tmp_path):
    paths = tmp_path / "truth.csv", tmp_path / "predictions.csv"
    for path, rows in zip(paths, cases(), strict=True):
        pd.DataFrame(rows).to_csv(path, index=False)
    return paths


@pytest.mark.parametrize("mode", ["corrected", "strict"])
@pytest.mark.parametrize("seed", range(4))
def test_scores_are_those_of_the_same_boxes_as_coco_json(seed, mode, tmp_path):
    truth, predictions = cases(seed)
    expected = detection.evaluate(*as_coco(truth, predictions), iou_type="bbox", mode=mode)
    frames = pd.DataFrame(truth), pd.DataFrame(predictions)
    paths = [str(tmp_path / "t.csv"), tmp_path / "p.CSV"]
    for path, frame in zip(paths, frames, strict=True):
        frame.to_csv(path, index=False)
    for given in (paths, frames):
        found = detection.evaluate(*given, iou_type="bbox", mode=mode)
        assert found.stats.tolist() == expected.stats.tolist() and 0 < found.stats[0] < 1
        assert found.truths.categories.names == ("a", "b")
    if mode == "corrected":
        # and those of evaluate-boxes
        assert (
            evaluate_precision(evaluate_crowns(*paths)).stats.tolist() == found.stats[:3].tolist()
        )


def test_images_without_boxes_and_polygons_are_read():
    truth = [box("b.png", (0, 0, 9, 9)), box("a.png", (0, 0, 0, 0))]
    shape = "POLYGON ((0 0, 9 0, 9 9, 4 5, 0 9, 0 0))"
    found = [{"image_path": "b.png", "label": "Tree", "geometry": shape, "score": 0.5}]
    found = detection.evaluate(pd.DataFrame(truth), pd.DataFrame(found), iou_type="bbox")
    assert found.truths.images.ids.tolist() == ["a.png", "b.png"]
    assert found.detections.boxes.tolist() == [[0, 0, 9, 9]] and found.stats[0] == pytest.approx(1)


def command(*options) -> None:
    parser = argparse.ArgumentParser()
    evaluate_detections.add_arguments(parser)
    evaluate_detections.run(parser.parse_args([str(option) for option in options]))


def test_the_command_reads_tables(files, tmp_path, capsys):
    truth, predictions = files
    other = tmp_path / "other.csv"
    pd.read_csv(predictions).iloc[::2].to_csv(other, index=False)
    command(
        "--truth",
        truth,
        "--predictions",
        predictions,
        "--against",
        other,
        "--resamples",
        30,
        "--output",
        tmp_path / "s.json",
        "--tables",
        tmp_path / "out",
    )
    printed = capsys.readouterr().out
    written = json.loads((tmp_path / "s.json").read_text())
    expected = detection.evaluate(*as_coco(*cases()), iou_type="bbox").stats[0]
    assert written["stats"]["AP"] == expected and "bbox by COCO's rules" in printed
    assert f"Difference to {other}" in printed and (tmp_path / "out/comparison.parquet").exists()


def test_wrong_rows_are_refused_by_line_or_left_out(files):
    truth, predictions = files
    rows = pd.read_csv(predictions)
    rows.loc[2, "xmax"] = rows.loc[2, "xmin"] - 1
    rows.to_csv(predictions, index=False)
    with pytest.raises(PermafrostError, match=r"predictions.csv: line 4: the box"):
        detection.evaluate(truth, predictions, iou_type="bbox")
    found = detection.evaluate(truth, predictions, iou_type="bbox", invalid="drop")
    assert len(found.detections) == len(rows) - 1
    (what,) = found.dropped
    assert "line 4" in what and any("left out 1" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.assign(image_path="none.png"), r"\(id 2\): image_id is not among"),
        (lambda frame: frame.assign(label="Fir"), "category_id is not among"),
        (lambda frame: frame.drop(columns="score"), "there is no column 'score'"),
        (lambda frame: frame.drop(columns="label"), "there is no column 'label'"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(files, change, words):
    truth, predictions = files
    change(pd.read_csv(predictions)).to_csv(predictions, index=False)
    with pytest.raises(PermafrostError, match=f"predictions.csv.*{words}"):
        detection.evaluate(truth, predictions, iou_type="bbox")


def test_tables_hold_boxes_and_go_with_tables(files, tmp_path):
    truth, predictions = files
    with pytest.raises(PermafrostError, match=r"truth.csv: a table of crowns holds no segm"):
        detection.evaluate(truth, predictions, iou_type="segm")
    json_truth = tmp_path / "truth.json"
    json_truth.write_text(json.dumps(as_coco(*cases())[0]))
    with pytest.raises(PermafrostError, match="names images, but the truth numbers them"):
        detection.evaluate(json_truth, predictions, iou_type="bbox")


def test_batches_may_be_tables(files):
    truth, predictions = files
    rows = pd.read_csv(predictions)
    expected = detection.evaluate(truth, predictions, iou_type="bbox")
    with detection.DetectionStream(detection.prepare(truth, iou_type="bbox")) as stream:
        for name in pd.read_csv(truth)["image_path"].unique():
            batch = rows[rows["image_path"] == name]
            stream.update([name], batch)
        assert stream.finalize().stats.tolist() == expected.stats.tolist()
