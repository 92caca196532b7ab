"""Names that would command a terminal, turn text around or fill the screen: escaped on screen, whole in files."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from helpers.predictions.crowns import random_crowns
from helpers.predictions.detections import coco_case
from helpers.predictions.panoptic import panoptic_case, write_panoptic
from helpers.predictions.rasters import write as write_raster
from permafrost.core.tables import read_table
from permafrost.stages import cli

HOSTILE = "\x1b[31mred\x9b0m\u202egnp\u2066\u200f\x07"
ESCAPED = r"\x1b[31mred\x9b0m\u202egnp\u2066\u200f\x07"
LONG = "n" * 100_000


def _detections(folder) -> list:
    truth, results = coco_case(2, images=6)
    truth["categories"][0]["name"], truth["categories"][1]["name"] = HOSTILE, LONG
    rows = [
        {"key": image["id"], f"axis {HOSTILE}": (HOSTILE, LONG)[place % 2]}
        for place, image in enumerate(truth["images"])
    ]
    options = ["evaluate-detections", "--iou-type", "bbox", "--baseline", LONG]
    contents = {"truth": truth, "predictions": results, "slices": {"rows": rows}}
    for name, content in contents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
        options += [f"--{name}", folder / f"{name}.json"]
    return options


def _boxes(folder) -> list:
    options = ["evaluate-boxes"]
    cases = random_crowns(np.random.default_rng(1), "box", 6)
    for name, rows in zip(("truth", "predictions"), cases, strict=True):
        table = pd.DataFrame(rows)
        labels = dict(zip(sorted(set(table["label"])), (HOSTILE, LONG), strict=False))
        table["label"] = table["label"].map(lambda label, new=labels: new.get(label, label))
        table.to_csv(folder / f"{name}.csv", index=False)
        options += [f"--{name}", folder / f"{name}.csv"]
    return options


def _raster(folder) -> list:
    codes = np.random.default_rng(2).integers(0, 2, (2, 64, 64)).astype(np.uint8)
    options = ["evaluate-raster", "--class-names", f"{HOSTILE},{LONG}", "--block", "16"]
    for name, values in zip(("reference", "prediction"), codes, strict=True):
        options += [f"--{name}", write_raster(folder / f"{name}.tif", values)]
    return options


def _panoptic(folder) -> list:
    truth, predictions = panoptic_case(4)
    truth[0]["categories"][0]["name"], truth[0]["categories"][1]["name"] = HOSTILE, LONG
    options = ["evaluate-panoptic"]
    for side, name in ((truth, "truth"), (predictions, "prediction")):
        path, masks = write_panoptic(folder, name, *side)
        plural = name + "s" * (name != "truth")
        options += [f"--{plural}", path, f"--{name}-masks", masks]
    return options


@pytest.mark.parametrize("make", [_detections, _boxes, _raster, _panoptic])
def test_names_are_shown_escaped_and_short_and_written_in_full(make, tmp_path, capsys):
    out = tmp_path / "out"
    options = [*make(tmp_path), "--resamples", 5, "--output", out / "s.json", "--tables", out]
    assert cli.main([str(option) for option in options]) == 0
    text = capsys.readouterr().out
    assert ESCAPED in text and not set(text) & set(HOSTILE[:1] + "\x9b\u202e\u2066\u200f\x07")
    assert max(map(len, text.split("\n"))) < 1001 and "nnn…nnn" in text
    classes = {row["class"] for row in json.loads((out / "s.json").read_text())["scores"]}
    assert classes >= {HOSTILE, LONG}
    assert {HOSTILE, LONG} <= set(read_table(out / "scores.parquet")[0]["class"].to_pylist())


@pytest.mark.parametrize("name", [HOSTILE, LONG[:200]])
def test_errors_show_names_of_files_and_ids_escaped(name, tmp_path, capsys):
    options = _detections(tmp_path)
    results = json.loads((tmp_path / "predictions.json").read_text())
    results[0]["image_id"] = LONG + HOSTILE
    hostile = tmp_path / f"{name}.json"
    hostile.write_text(json.dumps(results))
    options[options.index(tmp_path / "predictions.json")] = hostile
    assert cli.main([str(option) for option in options]) == 1
    text = capsys.readouterr().err
    assert (ESCAPED in text or name in text) and "\x1b" not in text and "\u202e" not in text
    assert len(text) < 4000


def test_half_of_a_character_is_refused_by_name(tmp_path, capsys):
    options = _detections(tmp_path)
    path = tmp_path / "truth.json"
    for raw in (rb"\ud800", b"\xed\xa0\x80", rb"\\\udc00", rb"\udc00\ud83c"):
        content = path.read_bytes().replace(b"kind 3", raw, 1)
        assert raw in content
        (tmp_path / "bad.json").write_bytes(content)
        given = [tmp_path / "bad.json" if part == path else part for part in options]
        assert cli.main([str(option) for option in given]) == 1
        text = capsys.readouterr().err
        assert "bad.json: not a JSON file" in text and "Traceback" not in text
    for raw in (rb"\ud83c\udf33", rb"\\ud800", b"\xf0\x9f\x8c\xb3"):
        (tmp_path / "good.json").write_bytes(path.read_bytes().replace(b"kind 3", raw, 1))
        given = [tmp_path / "good.json" if part == path else part for part in options]
        assert cli.main([*(str(option) for option in given), "--resamples", "2"]) == 0


def _command(options: list, **options_of_process) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "permafrost.stages.cli", *options, "--resamples", "2"]
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        timeout=120,
        check=False,
        **options_of_process,
    )


@pytest.mark.parametrize("make", [_detections, _boxes])
def test_predictions_may_come_through_a_pipe(make, tmp_path):
    options = make(tmp_path)
    path = options[options.index("--predictions") + 1]
    piped = ["/dev/stdin" if part == path else part for part in options]
    for name, given, content in (("a", options, b""), ("b", piped, path.read_bytes())):
        done = _command([*given, "--output", tmp_path / name], input=content)
        assert done.returncode == 0, done.stderr
    one, two = (json.loads((tmp_path / name).read_text()) for name in "ab")
    assert one["scores"] == two["scores"]
    digests = [content["options"]["predictions"]["sha256"] for content in (one, two)]
    assert digests[0] == digests[1]


def test_what_is_read_twice_may_be_no_pipe(tmp_path):
    options = _detections(tmp_path)
    slices = options[options.index("--slices") + 1]
    piped = ["/dev/stdin" if part == slices else part for part in options]
    done = _command(piped, input=slices.read_bytes())
    assert done.returncode == 1 and b"/dev/stdin: is a pipe" in done.stderr
