"""What `permafrost evaluate-detections` offers beyond plain figures: categories, recalls, slices, analyses."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from helpers.predictions.detection_command import command, given, write
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.evaluators.detection import evaluate
from permafrost.metrics.detection.analysis import calibrate, error_kinds, optimal_lrp


def test_slices_are_scored_apart(coco_files, tmp_path, capsys):
    ids = sorted(image["id"] for image in json.loads(coco_files[0].read_text())["images"])
    manifest = tmp_path / "m.csv"
    lines = [f"{i},{'fog' if n < 5 else 'sun'},{'ab'[n % 2]}" for n, i in enumerate(ids[:-1])]
    manifest.write_text("\n".join(["image_id,sky,site", *lines]))
    command(
        *(
            *given(coco_files),
            "--slices",
            manifest,
            "--cross-slices",
            "--output",
            tmp_path / "s.json",
        )
    )
    printed = capsys.readouterr().out
    assert "sky = fog, 5 images" in printed and "sky & site = fog & a, 3 images" in printed
    assert "site = __unassigned__, 1 images" in printed
    rows = json.loads((tmp_path / "s.json").read_text())["slices"]
    fog = [row for row in rows if row["label"] == "fog"]
    assert [row["metric"] for row in fog] == list(evaluate(*coco_files, iou_type="bbox").names)
    alone = evaluate(*coco_files, iou_type="bbox", images=ids[:5])
    assert fog[0]["value"] == alone.stats[0] and fog[0]["lower"] <= fog[0]["value"]
    assert fog[0]["truths"] == len(alone.truths)


def test_robustness_against_a_baseline(coco_files, tmp_path, capsys):
    ids = sorted(image["id"] for image in json.loads(coco_files[0].read_text())["images"])
    manifest = tmp_path / "m.csv"
    lines = [f"{i},{('clear', 'fog', 'rain')[n % 3]},{'ab'[n % 2]}" for n, i in enumerate(ids)]
    manifest.write_text("\n".join(["image_id,sky,site", *lines]))
    out = tmp_path / "s.json"
    options = ("--slices", manifest, "--baseline", "clear", "--output", out)
    command(*given(coco_files), *options)
    printed = capsys.readouterr().out
    assert re.search(r"mPC of AP +sky, 2 slices against clear +0\.\d+ +\[", printed)
    assert re.search(r"rPC of AP50 +sky, 2 slices against clear +\d\.\d+ +\[", printed)
    content = json.loads(out.read_text())
    ap = {row["label"]: row["value"] for row in content["slices"] if row["metric"] == "AP"}
    mpc, rpc = content["robustness"][:2]
    assert mpc["value"] == (ap["fog"] + ap["rain"]) / 2
    assert rpc["value"] == mpc["value"] / ap["clear"]
    assert {row["axis"] for row in content["robustness"]} == {"sky"}
    assert content["options"]["baseline"] == "clear"
    with pytest.raises(PermafrostError, match="there is no image labelled 'dry'"):
        command(*given(coco_files), "--slices", manifest, "--baseline", "dry")
    with pytest.raises(
        PermafrostError, match="--baseline changes nothing here: it is used with --slices"
    ):
        command(*given(coco_files), "--baseline", "clear")


def test_some_categories_and_groups_of_them(tmp_path, capsys):
    truth, results = coco_case(3, ties=False, detections=12)
    coco_files = write(tmp_path, truth, results)
    out = tmp_path / "s.json"
    options = ["--categories", "kind 3, kind 1,kind 0", "--output", out, "--tables", tmp_path / "t"]
    command(*given(coco_files), *options, "--category-groups", "odd=kind 1,kind 3;kind 0=kind 0")
    printed = capsys.readouterr().out
    assert "only 3 of 4 categories are evaluated" in printed
    content = json.loads(out.read_text())
    assert content["category_groups"] == {"odd": ["kind 1", "kind 3"], "kind 0 (group)": ["kind 0"]}
    rows = {(row["metric"], row["class"]): row for row in content["scores"]}
    for label, names in (
        ("odd", ["kind 1", "kind 3"]),
        ("kind 0 (group)", ["kind 0"]),
        (None, None),
    ):
        names = ["kind 0", "kind 1", "kind 3"] if names is None else names
        alone = evaluate(*coco_files, iou_type="bbox", categories=names)
        for metric, value in zip(alone.names, alone.stats.tolist(), strict=True):
            assert rows[metric, label]["value"] == (None if value == -1 else value)
    odd = rows["AP", "odd"]
    assert odd["lower"] < odd["value"] < odd["upper"]
    assert re.search(rf"AP +odd +{odd['value']:.3f}  \[{odd['lower']:.3f}, ", printed)
    assert "AR@100  odd" in printed and "AR@1 " not in printed
    table = read_table(tmp_path / "t" / "scores.parquet")[0].to_pylist()
    assert {row["class"] for row in table} >= {"odd", "kind 0 (group)", "kind 0"}
    # the same from a file
    (tmp_path / "g.csv").write_text("category,group\nkind 1,odd\nkind 3,odd\nkind 0,kind 0\n")
    command(*given(coco_files), *options, "--category-groups", tmp_path / "g.csv")
    again = json.loads(out.read_text())
    assert again["scores"] == content["scores"]
    assert again["options"]["category_groups"]["sha256"]
    assert content["options"]["category_groups"] == "odd=kind 1,kind 3;kind 0=kind 0"
    command(*given(coco_files), "--category-groups", tmp_path / "g.csv", "--against", coco_files[1])
    assert re.search(r"AP50 +odd +0.000 +\[", capsys.readouterr().out.split("Difference to")[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--categories", "kind 9"], "there is no category 'kind 9'"),
        (["--categories", "kind 1,,kind 2"], "has an empty item between two commas"),
        (["--category-groups", "a=kind 9"], "--category-groups: a: there is no category 'kind 9'"),
        (["--category-groups", "a=kind 1;a=kind 2"], "'a=kind 2' is not a new group"),
        (["--category-groups", "a="], "'a=' is not a new group"),
        (["--category-groups", "absent.csv"], "absent.csv: the file does not exist"),
        (["--categories", "kind 1", "--category-groups", "a=kind 2"], "no category 'kind 2'"),
        (["--no-categories", "--category-groups", "a=kind 1"], "changes nothing here"),
        (["--recall-grid", "0.5,0.2"], "must ascend"),
        (["--recall-grid", "0:2:0.5"], r"must be numbers in \[0, 1\]"),
        (["--partial", "p", "--no-analysis"], "--no-analysis changes nothing here"),
    ],
)
def test_wrong_categories_groups_and_recalls_are_refused(coco_files, options, words):
    truth = json.loads(coco_files[0].read_text())
    truth["categories"][1]["name"] = "kind 1"
    coco_files[0].write_text(json.dumps(truth))
    with pytest.raises(PermafrostError, match=words):
        command(*given(coco_files), *options)


def test_recalls_of_ones_own(coco_files, tmp_path, capsys):
    out = tmp_path / "s.json"
    command(*given(coco_files), "--recall-grid", "0:1:0.1", "--output", out)
    found = evaluate(*coco_files, iou_type="bbox", recall_grid=np.linspace(0, 1, 11))
    content = json.loads(out.read_text())
    assert (
        content["stats"]["AP"] == found.stats[0] != evaluate(*coco_files, iou_type="bbox").stats[0]
    )
    assert content["axes"]["recall_grid"] == np.linspace(0, 1, 11).tolist()
    assert "read at 11 recalls from 0 to 1, not at COCO's 101" in capsys.readouterr().out
    command(*given(coco_files), "--recall-grid", "0:1:0.01", "--output", out)
    assert "read at" not in capsys.readouterr().out


def test_parts_know_their_categories_and_recalls(coco_files, tmp_path):
    ids = [image["id"] for image in json.loads(coco_files[0].read_text())["images"]]
    parts = {}
    for number, more in enumerate(([], [], ["--recall-grid", "0,1"], ["--categories", "kind 2"])):
        listed = tmp_path / f"{number}.txt"
        listed.write_text("\n".join(map(str, ids[number % 2 :: 2])))
        common = [] if number == 3 else ["--categories", "kind 2,kind 3"]
        parts[number] = tmp_path / f"part{number}"
        options = [*common, *more, "--images", listed, "--partial", parts[number]]
        command(*given(coco_files), *options, resamples=0)
    out = tmp_path / "m.json"
    command("--merge", parts[0], parts[1], "--category-groups", "a=kind 3", "--output", out)
    merged = json.loads(out.read_text())
    found = evaluate(*coco_files, iou_type="bbox", categories=["kind 2", "kind 3"])
    assert list(merged["stats"].values()) == [None if v != v else v for v in found.stats.tolist()]
    alone = evaluate(*coco_files, iou_type="bbox", categories=["kind 3"])
    rows = {(row["metric"], row["class"]): row["value"] for row in merged["scores"]}
    assert rows["AP", "a"] == alone.stats[0]
    for other, words in ((2, "another recall_grid"), (3, "another categories")):
        with pytest.raises(PermafrostError, match=words):
            command("--merge", parts[1], parts[other], "--incomplete")


def test_errors_olrp_and_calibration_are_printed_and_written(coco_files, tmp_path, capsys):
    out = tmp_path / "s.json"
    command(*given(coco_files), "--output", out)
    printed = capsys.readouterr().out
    found = evaluate(*coco_files, iou_type="bbox")
    written = json.loads(out.read_text())["analysis"]
    kinds, olrp, calibration = error_kinds(found), optimal_lrp(found), calibrate(found)
    assert written["tide"]["gains"] == kinds.gain and written["tide"]["counts"] == kinds.counts
    assert written["tide"]["ap"] == kinds.precision == found.stats[0]
    assert written["olrp"] == olrp.means
    assert written["calibration"]["expected_calibration_error"] == calibration.expected
    assert written["calibration"]["mean_over_categories"] == calibration.macro
    assert written["missing"] == {}
    for kind, gain in kinds.gain.items():
        line = next(line for line in printed.splitlines() if line.startswith(f"    {kind} "))
        assert line.split()[1] == f"{gain:+.3f}".replace("-", "−")
        assert line.split()[2] == str(kinds.counts[kind])
    assert f"mean oLRP {olrp.means['olrp']:.3f} (localisation " in printed
    assert f"calibration error {calibration.expected:.3f} (mean over categories" in printed
    command(*given(coco_files), "--output", out, "--no-analysis")
    assert "analysis" not in json.loads(out.read_text())
    assert "oLRP" not in capsys.readouterr().out


def test_analyses_that_an_evaluation_has_not_are_named_with_the_reason(tmp_path, capsys):
    truth, results = coco_case(1, images=8, truths=8.0, crowds=0.0)
    results = [{**entry, "score": 3 * entry["score"]} for entry in results]
    coco_files = write(tmp_path, federate(truth, 1), results)
    out = tmp_path / "s.json"
    command(*given(coco_files), "--lvis", "--output", out)
    printed = capsys.readouterr().out
    written = json.loads(out.read_text())["analysis"]
    assert (
        written["tide"] is None and written["calibration"] is None and written["olrp"]["olrp"] < 1
    )
    assert "no TIDE: errors are not sorted for keypoints and LVIS" in printed
    assert "no calibration: scores outside 0 to 1 are not probabilities" in printed
    assert set(written["missing"]) == {"tide", "calibration"}
    coco_files = write(tmp_path, truth, [])
    command(*given(coco_files), "--output", out)
    written = json.loads(out.read_text())["analysis"]
    assert written["tide"]["counts"]["missed"] > 0 and written["olrp"]["localisation"] is None
    assert "no counted detection" in written["missing"]["calibration"]


def test_curves_are_written_as_csv(coco_files, tmp_path):
    command(*given(coco_files), "--tables", tmp_path / "t", "--table-format", "csv", resamples=0)
    lines = (tmp_path / "t" / "curves.csv").read_text().splitlines()
    head = '"category_id","category","iou_threshold","area","max_dets","recall","precision","score"'
    assert lines[0] == head
    found = evaluate(*coco_files, iou_type="bbox")
    # four categories and their mean, at 0.5, 0.75 and the mean of all thresholds
    assert len(lines) - 1 == 5 * 3 * 101
    first = lines[1].split(",")
    assert float(first[6]) == found.precision[0, 0, 0, 0, -1]
