"""``permafrost evaluate-detections``: JSON in, printed and written figures out."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from helpers.predictions.detection_command import command, given, write
from helpers.predictions.detections import coco_case, federate
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.evaluators.detection import evaluate
from permafrost.stages.lists import area_ranges, lines_of, thresholds, values_of


def test_figures_are_those_of_python_with_intervals(coco_files, tmp_path, capsys):
    command(*given(coco_files), "--output", tmp_path / "s.json", "--tables", tmp_path / "t")
    found = evaluate(*coco_files, iou_type="bbox")
    written = json.loads((tmp_path / "s.json").read_text())
    assert written["stats"] == dict(zip(found.names, found.stats.tolist(), strict=True))
    rows = {(row["metric"], row["class"]): row for row in written["scores"]}
    for name, value in zip(found.names, found.stats, strict=True):
        assert rows[name, None]["value"] == (None if value == -1 else value)
    # two categories of one name are told apart
    each = dict(
        zip(
            ("kind 0 (2)", "kind 0 (7)", "kind 2", "kind 3"), found.average_precision(), strict=True
        )
    )
    assert {name: rows["AP", name]["value"] for name in each} == pytest.approx(each)
    headline = rows["AP", None]
    assert headline["lower"] < headline["value"] < headline["upper"]
    assert written["n_units"] == 12 and written["options"]["truth"]["sha256"]
    printed = capsys.readouterr().out
    assert "on 12 images: bbox by COCO's rules\ncorrected mode, see " in printed
    for line in found.lines():
        assert line in printed
    assert (
        f"= {headline['value']:.3f} [{headline['lower']:.3f}, {headline['upper']:.3f}]" in printed
    )
    assert "leaving out each of 12 images; bias from 50 resamples" in printed


def test_every_table_is_written_with_nulls_for_what_is_undefined(coco_files, tmp_path):
    command(*given(coco_files), "--tables", tmp_path / "t", resamples=2)
    names = {path.stem for path in (tmp_path / "t").iterdir()}
    assert names == {
        *("images", "categories", "curves", "detections", "pairs", "confusion", "errors", "olrp"),
        *("calibration", "calibration_categories", "scores"),
    }
    tables = {name: read_table(tmp_path / "t" / f"{name}.parquet")[0] for name in names}
    assert tables["images"].num_rows == 12 and tables["categories"].num_rows == 4
    found = evaluate(*coco_files, iou_type="bbox")
    assert tables["detections"].num_rows == len(found.detections)
    confusion = tables["confusion"].to_pydict()
    misses = [p == "__none__" for p in confusion["predicted_category"]]
    assert [i is None for i in confusion["predicted_category_id"]] == misses and any(misses)
    assert tables["errors"]["kind"].to_pylist()[-1] == "all false alarms"
    ious = tables["images"]["tp50_mean_iou"].to_pylist()
    assert None in ious and not any(value != value for value in ious if value is not None)


def test_a_category_without_truths_has_no_figures(tmp_path, capsys):
    truth, results = coco_case(7)
    truth["categories"].append({"id": 99, "name": "unicorn"})
    command(*given(write(tmp_path, truth, results)), "--tables", tmp_path / "t", resamples=5)
    table = read_table(tmp_path / "t" / "categories.parquet")[0].to_pylist()[-1]
    assert table["name"] == "unicorn" and table["n_gt"] == 0
    assert all(value is None for name, value in table.items() if name[:2] in ("ap", "ar"))
    assert re.search(r"AP +unicorn +–\n", capsys.readouterr().out)


def test_the_kind_of_interval_can_be_chosen(tmp_path, capsys):
    # a finer grid of scores than images: the envelope of a resample is clearly higher
    truth, results = coco_case(2, ties=False, images=40, detections=20)
    coco_files = write(tmp_path, truth, results)
    found = {}
    for kind, words in (
        ("basic", "the intervals correct for it"),
        ("percentile", "do not correct"),
    ):
        command(
            *given(coco_files), "--interval", kind, "--output", tmp_path / "s.json", resamples=200
        )
        printed = capsys.readouterr().out
        assert f"200 resamples, {kind}" in printed and words in printed
        found[kind] = json.loads((tmp_path / "s.json").read_text())["scores"][0]
    basic, plain = found["basic"], found["percentile"]
    assert basic["bias"] == plain["bias"] > 0
    assert basic["lower"] == pytest.approx(2 * plain["value"] - plain["upper"])
    assert basic["upper"] == pytest.approx(2 * plain["value"] - plain["lower"])
    with pytest.raises(PermafrostError, match="there is no interval named 'bca'"):
        command(*given(coco_files), "--interval", "bca")


def test_tables_that_do_not_exist_are_named(coco_files, tmp_path, capsys):
    command(
        *given(coco_files),
        "--no-categories",
        "--iou-thresholds",
        "0.75",
        "--tables",
        tmp_path / "t",
    )
    printed = capsys.readouterr().out
    for name in ("confusion", "errors", "detections", "olrp", "calibration"):
        assert f"No table {name}: " in printed
    assert (tmp_path / "t" / "pairs.parquet").exists()


def test_options_reach_the_evaluation(coco_files, tmp_path, capsys):
    command(
        *given(coco_files),
        *("--mode", "strict", "--max-dets", "1,3,100", "--iou-thresholds", "0.5:0.95:0.05"),
        *("--output", tmp_path / "s.json"),
        resamples=0,
    )
    found = evaluate(*coco_files, iou_type="bbox", mode="strict", max_dets=[1, 3, 100])
    written = json.loads((tmp_path / "s.json").read_text())
    assert list(written["stats"].values()) == found.stats.tolist()
    assert all(row["lower"] is None for row in written["scores"])
    printed = capsys.readouterr().out
    assert "strict mode" in printed and "has the id 0" in printed and "none asked for" in printed
    command(*given(coco_files), "--area-ranges", "tiny=0:400", "--output", tmp_path / "s.json")
    ranges = {"all": (0, 1e10), "tiny": (0, 400)}
    found = evaluate(*coco_files, iou_type="bbox", area_ranges=ranges)
    written = json.loads((tmp_path / "s.json").read_text())
    assert written["stats"] == dict(zip(found.names, found.stats.tolist(), strict=True))


def test_lvis_has_its_own_summary(tmp_path, capsys):
    truth, results = coco_case(2)
    command(*given(write(tmp_path, federate(truth, 0), results)), "--lvis")
    printed = capsys.readouterr().out
    assert "by LVIS's rules" in printed and "frequency=r" in printed and "maxDets=300" in printed


def test_wrong_entries_can_be_dropped_and_are_counted(tmp_path, capsys):
    truth, results = coco_case(3)
    coco_files = write(tmp_path, truth, [*results, {**results[0], "score": "high"}])
    with pytest.raises(PermafrostError, match=f"predictions.json: .{len(results)}."):
        command(*given(coco_files))
    command(*given(coco_files), "--invalid", "drop")
    assert "Note: left out 1: detections" in capsys.readouterr().out


def test_groups_are_resampled_together(coco_files, tmp_path, capsys):
    ids = sorted(image["id"] for image in json.loads(coco_files[0].read_text())["images"])
    table = tmp_path / "groups.csv"
    lines = [f"{identity},{n % 3}" for n, identity in enumerate(ids[:-2])]
    table.write_text("\n".join(["image_id,site", *lines, "9999,1"]))
    command(*given(coco_files), "--groups", table, "--group-column", "site")
    printed = capsys.readouterr().out
    assert "leaving out each of 5 groups" in printed and "2 images have no group" in printed
    assert "1 images of the manifest are not in the truth" in printed
    with pytest.raises(PermafrostError, match="no column 'group'"):
        command(*given(coco_files), "--groups", table)


def test_two_prediction_files_are_compared_on_the_same_resamples(tmp_path, capsys):
    coco_files = write(tmp_path, *coco_case(2, ties=False, images=40, detections=20))
    results = json.loads(coco_files[1].read_text())
    rng = np.random.default_rng(0)
    for entry in results:
        entry["bbox"] = (np.array(entry["bbox"]) * rng.uniform(0.5, 1.5, 4)).tolist()
    other = write(tmp_path, json.loads(coco_files[0].read_text()), results, "worse")[1]
    command(*given(coco_files), "--against", other, "--output", tmp_path / "s.json", resamples=200)
    printed = capsys.readouterr().out
    assert f"Difference to {other} on the same images" in printed and "p = 0.0" in printed
    written = json.loads((tmp_path / "s.json").read_text())
    rows = {(row["metric"], row["class"]): row for row in written["comparison"]}
    for row in rows.values():
        if row["difference"] is not None:
            assert row["difference"] == row["value"] - row["against"]
    headline = rows["AP", None]
    assert headline["against"] == evaluate(coco_files[0], other, iou_type="bbox").stats[0]
    assert 0 < headline["lower"] < headline["difference"] < headline["upper"]
    assert headline["p_value"] < 0.05
    # the pairing takes away what is common: narrower than the intervals of the scores themselves
    score = next(row for row in written["scores"] if row["metric"] == "AP")
    assert headline["upper"] - headline["lower"] < score["upper"] - score["lower"]
    command(*given(coco_files), "--against", coco_files[1], "--output", tmp_path / "s.json")
    same = json.loads((tmp_path / "s.json").read_text())["comparison"][0]
    assert same["difference"] == 0 and same["p_value"] == 1


def test_parts_merge_to_the_same_figures(coco_files, tmp_path, capsys):
    ids = [image["id"] for image in json.loads(coco_files[0].read_text())["images"]]
    parts = []
    for number in range(2):
        listed = tmp_path / f"{number}.txt"
        listed.write_text("\n".join(map(str, ids[number::2])) + "\n\n")
        parts.append(tmp_path / f"part{number}")
        command(*given(coco_files), "--images", listed, "--partial", parts[-1], resamples=0)
    assert "only 6 of 12 images are evaluated" in capsys.readouterr().out
    command("--merge", *parts, "--output", tmp_path / "m.json", "--tables", tmp_path / "m")
    command(*given(coco_files), "--output", tmp_path / "w.json", "--tables", tmp_path / "w")
    merged, whole = (json.loads((tmp_path / f"{n}.json").read_text()) for n in "mw")
    for name in ("stats", "scores", "axes", "images", "truths", "detections"):
        assert merged[name] == whole[name]
    for path in (tmp_path / "w").iterdir():
        assert read_table(path)[0].equals(read_table(tmp_path / "m" / path.name)[0])
    with pytest.raises(PermafrostError, match="6 of 12 images are in no part"):
        command("--merge", parts[0])
    command("--merge", parts[0], "--incomplete")
    with pytest.raises(PermafrostError, match="--truth and --merge exclude each other"):
        command("--merge", *parts, "--truth", coco_files[0])


def test_what_is_missing_is_named(coco_files):
    with pytest.raises(PermafrostError, match="--iou-type is missing"):
        command("--truth", coco_files[0], "--predictions", coco_files[1])


def test_a_single_image_has_no_interval(tmp_path, capsys):
    truth, results = coco_case(4, images=1)
    command(*given(write(tmp_path, truth, results)))
    printed = capsys.readouterr().out
    assert "a single image cannot be resampled" in printed and "[0." not in printed


def test_resamples_without_anything_to_find_are_counted(tmp_path, capsys):
    truth, results = coco_case(5, images=3)
    keep = truth["images"][0]["id"]
    truth["annotations"] = [a for a in truth["annotations"] if a["image_id"] == keep]
    command(*given(write(tmp_path, truth, results)))
    assert "of 50 resamples, some hold nothing to find and are left out: AP " in (
        capsys.readouterr().out
    )


def test_many_categories_are_not_printed(tmp_path, capsys):
    truth, results = coco_case(6, categories=25)
    command(*given(write(tmp_path, truth, results)))
    printed = capsys.readouterr().out
    assert "25 categories: --output and --tables" in printed
    assert "  kind 3" not in printed


# --- lists --------------------------------------------------------------------------------------


def test_lists_of_numbers():
    assert values_of(None, int) is None and values_of("1, 2", int) == [1, 2]
    assert thresholds("0.5,0.75") == [0.5, 0.75]
    assert np.array_equal(thresholds("0.5:0.95:0.05"), np.linspace(0.5, 0.95, 10))
    assert area_ranges("a=0:4,all=0:9") == {"a": (0, 4), "all": (0, 9)}


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (lambda text: values_of(text, int), "1,x", "not a list of whole numbers"),
        (thresholds, "0.5:0.9", "not first:last:step"),
        (thresholds, "0.5:0.9:0", "not first:last:step"),
        (thresholds, "0.5:0.9:0.3", "do not lead from 0.5 to 0.9"),
        (thresholds, "0:1:1e-9", "do not lead"),
        (area_ranges, "a=3", "not a new name=low:high"),
        (area_ranges, "a=0:1,a=1:2", "not a new name=low:high"),
        (area_ranges, "=0:1", "not a new name=low:high"),
    ],
)
def test_wrong_lists_are_refused(read, text, words):
    with pytest.raises(PermafrostError, match=words):
        read(text)


def test_a_list_of_images_that_cannot_be_read(tmp_path):
    with pytest.raises(PermafrostError, match="cannot be read"):
        lines_of(tmp_path / "absent")


def test_the_command_loads_nothing_heavy():
    code = (
        "import permafrost.stages.evaluate_detections, permafrost.evaluators.intervals.detection, sys;"
        "print(*({'torch', 'scipy', 'shapely', 'rasterio', 'pandas', 'pyarrow', 'pycocotools',"
        " 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_nothing_to_find_is_an_error_that_says_why(tmp_path, capsys):
    truth, results = coco_case(7)
    for entry in truth["annotations"]:
        entry["iscrowd"] = 1
    with pytest.raises(
        PermafrostError, match="the truth has no object: all annotations .* are crowds"
    ):
        command(*given(write(tmp_path, truth, results)), "--output", tmp_path / "s.json")
    truth["annotations"] = []
    with pytest.raises(
        PermafrostError, match="the truth has no object: the truth has no annotation"
    ):
        command(*given(write(tmp_path, truth, results)), "--output", tmp_path / "s.json")
    assert not (tmp_path / "s.json").exists() and not capsys.readouterr().out


# --- categories, groups, recalls, analyses -------------------------------------------------------
