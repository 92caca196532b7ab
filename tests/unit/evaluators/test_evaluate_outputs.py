"""What the commands share that evaluate given files: checks before the work, files before the text."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from helpers.commands import COMMANDS, run
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.stages import evaluate_detections, standalone


@pytest.mark.parametrize("kind", COMMANDS)
def test_files_are_whole_before_the_first_line_is_printed(kind, request, tmp_path, monkeypatch):
    class NobodyReads(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    options = request.getfixturevalue(kind)
    monkeypatch.setattr(sys, "stdout", NobodyReads())
    out = tmp_path / "out"
    with pytest.raises(BrokenPipeError):
        run(COMMANDS[kind], *options, "--output", out / "s.json", "--tables", out)
    written = json.loads((out / "s.json").read_text())
    assert read_table(out / "scores.parquet")[0].num_rows == len(written["scores"])


def test_a_reader_that_leaves_loses_no_file(detections, tmp_path):
    command = [sys.executable, "-m", "permafrost.stages.cli", "evaluate-detections", *detections]
    command += ["--resamples", "20", "--output", tmp_path / "s.json"]
    with subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 141
    assert json.loads((tmp_path / "s.json").read_text())["scores"]


@pytest.mark.parametrize("kind", COMMANDS)
def test_outputs_appear_all_or_none(kind, request, tmp_path, monkeypatch):
    from permafrost.evaluators.output import score_files

    def full(*_, **__):
        raise PermafrostError("the disk is full")

    options = request.getfixturevalue(kind)
    monkeypatch.setattr(score_files, "write_scores", full)
    out = tmp_path / "out"
    with pytest.raises(PermafrostError, match="the disk is full"):
        run(COMMANDS[kind], *options, "--output", out / "s.json", "--tables", out)
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("detections", ["--cross-slices"], "--cross-slices changes nothing here.* --slices"),
        ("detections", ["--baseline", "fog"], "--baseline changes nothing here.* --slices"),
        ("detections", ["--group-column", "plot"], "--group-column changes nothing.* --groups"),
        ("detections", ["--sigmas", "0.1"], "--sigmas changes nothing.* keypoints"),
        ("detections", ["--boundary-ratio", "0.1"], "--boundary-ratio changes nothing.* boundary"),
        ("detections", ["--table-format", "csv"], "--table-format changes nothing.* --tables"),
        ("boxes", ["--table-format", "csv"], "--table-format changes nothing.* --tables"),
        ("rasters", ["--table-format", "csv"], "--table-format changes nothing.* --tables"),
        ("detections", ["--incomplete"], "--incomplete changes nothing.* --merge"),
        ("boxes", ["--max-pictures", "3"], "--max-pictures changes nothing.* --pictures"),
        ("boxes", ["--images", "."], "--images changes nothing"),
        ("boxes", ["--tile-overlap", "0.3"], "--tile-overlap changes nothing.* --tile-size"),
        ("boxes", ["--stitch-threshold", "0.3"], "--stitch-threshold changes .* --stitch"),
        ("boxes", ["--border", "none"], "--border changes nothing.* --stitch"),
        ("boxes", ["--distance-threshold", "3"], "--distance-threshold changes nothing.* distance"),
        ("boxes", ["--matching", "score", "--distance-threshold", "3"], "changes nothing"),
        ("rasters", ["--threshold", "0.3"], "--threshold changes nothing.* --logits"),
        ("rasters", ["--classes", "9", "--class-names", "a,b,c"], "--classes changes nothing"),
    ],
)
def test_options_that_change_nothing_are_refused_before_the_work(kind, options, words, request):
    with pytest.raises(PermafrostError, match=words):
        run(COMMANDS[kind], *request.getfixturevalue(kind), *options)


def test_options_that_describe_parts_are_refused_beside_merge(tmp_path):
    for options in (["--mode", "strict"], ["--max-dets", "1,5"], ["--lvis"], ["--invalid", "drop"]):
        with pytest.raises(PermafrostError, match=f"{options[0]} and --merge exclude each other"):
            run(evaluate_detections, "--merge", tmp_path / "part", *options)


@pytest.mark.parametrize("kind", COMMANDS)
def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    kind, request, tmp_path, monkeypatch
):
    options = request.getfixturevalue(kind)
    monkeypatch.setattr(standalone, "options_of", None)
    first = options[1]
    text = tmp_path / "text"
    text.write_text("a file")
    cases = (
        (["--output", first], f"--output would overwrite what {options[0]} reads"),
        (["--output", tmp_path], "--output must name a file"),
        (["--tables", text], "--tables must name a folder"),
        (["--output", text / "below" / "s.json"], "text is not a writable folder"),
        (["--tables", text / "below"], "text is not a writable folder"),
    )
    for given, words in cases:
        with pytest.raises(PermafrostError, match=words):
            run(COMMANDS[kind], *options, *given)
    assert text.read_text() == "a file"


def test_files_that_are_missing_are_named_before_the_work(detections, tmp_path, monkeypatch):
    monkeypatch.setattr("permafrost.evaluators.detection.evaluate", None)
    for option in ("--against", "--groups", "--slices", "--images"):
        with pytest.raises(PermafrostError, match=f"nowhere.*does not exist.*check {option}"):
            run(evaluate_detections, *detections, option, tmp_path / "nowhere")


def test_manifests_are_checked_before_the_work(detections, tmp_path, monkeypatch):
    monkeypatch.setattr("permafrost.evaluators.detection.evaluate", None)
    manifest = tmp_path / "m.csv"
    manifest.write_text("image_id,sky,site\n1,fog,a\n2,clear,b\n")
    sliced = [*detections, "--slices", manifest]
    with pytest.raises(PermafrostError, match="m.csv: there is no image labelled 'claer'.*clear"):
        run(evaluate_detections, *sliced, "--baseline", "claer")
    with pytest.raises(PermafrostError, match="there is no image labelled 'clear & a'"):
        run(evaluate_detections, *sliced, "--cross-slices", "--baseline", "clear & a")
    # a label of the combinations is known
    with pytest.raises(TypeError):
        run(evaluate_detections, *sliced, "--cross-slices", "--baseline", "clear & b")
    with pytest.raises(PermafrostError, match="m.csv: there is no column 'group'"):
        run(evaluate_detections, *detections, "--groups", manifest)


@pytest.mark.parametrize("kind", COMMANDS)
def test_tables_as_csv_hold_what_parquet_holds(kind, request, tmp_path):
    options = request.getfixturevalue(kind)
    run(COMMANDS[kind], *options, "--tables", tmp_path / "p", "--output", tmp_path / "p.json")
    form = "--table-format", "csv"
    run(
        COMMANDS[kind], *options, "--tables", tmp_path / "c", *form, "--output", tmp_path / "c.json"
    )
    assert (tmp_path / "p.json").read_text() == (tmp_path / "c.json").read_text()
    names = sorted(path.stem for path in (tmp_path / "p").iterdir())
    assert [path.name for path in sorted((tmp_path / "c").iterdir())] == [f"{n}.csv" for n in names]
    for name in names:
        table = read_table(tmp_path / "p" / f"{name}.parquet")[0]
        with open(tmp_path / "c" / f"{name}.csv", newline="") as stream:
            head, *rows = csv.reader(stream)
        assert head == table.column_names and len(rows) == table.num_rows
        for column, cells in zip(head, zip(*rows, strict=True), strict=True):
            for cell, value in zip(cells, table[column].to_pylist(), strict=True):
                assert cell == "" if value is None else type(value)(cell) == value
    with pytest.raises(PermafrostError, match="tables are not written as 'xlsx'"):
        run(COMMANDS[kind], *options, "--tables", tmp_path / "x", "--table-format", "xlsx")
