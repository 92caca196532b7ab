"""`permafrost show`: the leaderboard, with a word where it is not of the current plan; and closed pipes."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from helpers.results.tables import make_score_rows, score_table
from permafrost.core.tables import read_table, write_table
from permafrost.interface import Results
from permafrost.plan.record import record_plan
from permafrost.stages.cli import main
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The results of a plan with its leaderboard, where `permafrost show` looks."""
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    record_plan(make_plan(root), "results")
    rows = [
        score_table(make_score_rows(dataset=dataset, backbone=backbone, probe=probe))
        for dataset in CONFIG["datasets"]
        for backbone in CONFIG["backbones"]
        for probe in CONFIG["probes"]
    ]
    made = make_plan(root).aggregate().fingerprint
    write_table(
        root / "results/leaderboard.parquet", build_leaderboard(rows), {"fingerprint": made}
    )
    return root / "results"


def shown(capsys) -> str:
    assert main(["show"]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_leaderboard_of_the_current_plan_is_shown_as_it_is(results, capsys):
    said = shown(capsys)
    assert "NOT of the current plan" not in said and "pictures · knn" in said


def test_a_dataset_that_fits_no_backbone_is_named(results, capsys):
    config = copy.deepcopy(CONFIG)
    far = {**config["extra_datasets"]["pictures"], "sensor": "sentinel1", "bands": ["vv", "vh"]}
    config["extra_datasets"]["far"] = {**far, "units": {"unit": "linear_power"}}
    config |= {"backbones": ["stats", "net"], "datasets": [*config["datasets"], "far"]}
    plan = make_plan(results.parent, config)
    assert "far" not in plan.datasets
    record_plan(plan, "results")
    path = results / "leaderboard.parquet"
    write_table(path, read_table(path)[0], {"fingerprint": plan.aggregate().fingerprint})
    assert "No backbone fits far: `permafrost plan` says why." in shown(capsys)


def test_the_suite_of_a_run_is_named_and_whether_it_was_changed(results, capsys):
    path = results / "leaderboard.parquet"
    table, about = read_table(path)
    suite = {"name": "mine", "version": 3, "digest": "1" * 32, "data": "2" * 32, "changed": []}
    write_table(path, table, {**about, "suite": suite})
    said = shown(capsys)
    assert f"Suite mine, version 3 (digest {'1' * 12}, data {'2' * 12}): comparable with" in said
    suite["changed"] = ["extraction.size: 32 instead of 64"]
    write_table(path, table, {**about, "suite": suite})
    assert "Not comparable with runs of this suite: extraction.size: 32" in shown(capsys)
    assert main(["export", str(path), "--format", "latex"]) == 0
    assert "% Suite mine, version 3, changed." in capsys.readouterr().out


def test_a_leaderboard_of_another_plan_says_so_above_and_names_what_differs(results, capsys):
    config = copy.deepcopy(CONFIG)
    config["backbones"] = ["stats", "other"]
    config["extra_backbones"]["other"] = {"kind": "imagestats"}
    config["probes"] = {"knn": {"kind": "knn"}}
    record_plan(make_plan(results.parent, config), "results")
    said = shown(capsys)
    assert said.startswith(
        "NOT of the current plan: it is without backbone other; with backbone net, own"
    )
    assert "with probe linear" in said and "run snakemake" in said
    assert "pictures · knn" in said, "what there is is shown all the same"


def test_a_leaderboard_from_before_a_change_of_an_entry_says_so(results, capsys):
    (results.parent / "data/net.safetensors").write_bytes(b"other weights")
    record_plan(make_plan(results.parent), "results")
    assert "no run of the current plan has ended since" in shown(capsys)


def test_a_leaderboard_that_was_copied_away_is_shown(results, capsys, tmp_path):
    copied = tmp_path / "elsewhere.parquet"
    copied.write_bytes((results / "leaderboard.parquet").read_bytes())
    assert main(["show", str(copied)]) == 0
    assert "NOT of" not in capsys.readouterr().out


def test_a_folder_of_results_or_of_its_project_is_opened(results, capsys):
    known = shown(capsys)
    for place in (results, results.parent, results / "leaderboard.parquet"):
        assert main(["show", str(place)]) == 0
        assert " ".join(capsys.readouterr().out.split()) == known
        assert main(["export", str(place)]) == 0
        assert "pictures" in capsys.readouterr().out
        assert Results(place).folder == results


@pytest.mark.parametrize(
    "command",
    [
        "show FOLDER", "export FOLDER", "published TABLE --leaderboard FOLDER", "stale --plan FOLDER",
        "archive --plan FOLDER", "incomplete --failures FOLDER", "restore FOLDER", "plan --config FOLDER",
        "plan --rates FOLDER", "convert-checkpoint FOLDER new.safetensors", "published FOLDER",
        "evaluate-raster --reference FOLDER --prediction FOLDER", "methods FILE", "stale --results FILE",
        "evaluate-boxes --truth FOLDER --predictions CROWNS", "evaluate-boxes --truth CROWNS --predictions FOLDER",
        "evaluate-boxes --truth CROWNS --predictions CROWNS --images FILE --pictures new",
        "evaluate-detections --iou-type bbox --truth FOLDER --predictions FILE",
    ],
)  # fmt: skip
def test_a_folder_for_a_file_and_a_file_for_a_folder_are_called_so(
    tmp_path, monkeypatch, capsys, command
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "FILE").write_text("{}\n")
    (tmp_path / "CROWNS").write_text(
        "image_path,xmin,ymin,xmax,ymax,label,score\na.png,1,1,9,9,Tree,.9\n"
    )
    (tmp_path / "TABLE").write_text(
        "dataset,name,method,metric_name,metric_value\nm-eurosat,resnet50,knn5,accuracy,0.9\n"
    )
    try:
        status = main(command.split())
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr().err
    assert status == 1 and "Traceback" not in said, said
    words = "is a file, not a folder" if "FILE" in command and "FOLDER" not in command else "folder"
    assert words in said and "delete" not in said and "Remedy" in said, said


@pytest.mark.parametrize("content", [b"", b"not parquet at all", b"PAR1 and so on PAR1"])
def test_what_may_be_somebody_elses_is_left_alone(tmp_path, capsys, content):
    path = tmp_path / "mine.parquet"
    path.write_bytes(content)
    assert main(["show", str(path)]) == 1
    assert "delete" not in capsys.readouterr().err
    pq.write_table(pa.table({"height": [1.0]}), path)
    assert main(["show", str(path)]) == 1
    assert "delete" not in capsys.readouterr().err


def test_a_leaderboard_that_was_edited_is_not_shown(results, capsys):
    path = results / "leaderboard.parquet"
    table = pq.read_table(path)
    values = [1.0, *table["value"].to_pylist()[1:]]
    place = table.column_names.index("value")
    pq.write_table(table.set_column(place, "value", pa.array(values)), path)
    assert main(["show"]) == 1
    said = capsys.readouterr()
    assert "altered since it was written" in said.err and said.out == ""


def ended(*arguments: str, errors: bool = False) -> tuple[int, str]:
    """Exit status of a command nobody reads the output of (or the errors), and what it says elsewhere."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "permafrost.stages.cli", *arguments]
    streams = (
        {"stderr": writer, "stdout": subprocess.PIPE}
        if errors
        else {"stdout": writer, "stderr": subprocess.PIPE}
    )
    with subprocess.Popen(command, text=True, **streams) as process:
        os.close(writer)
        said = (process.stdout if errors else process.stderr).read()
    return process.returncode, said


@pytest.mark.parametrize("arguments", [["show"], ["--help"], ["--version"], []])
def test_a_closed_pipe_ends_a_command_quietly_with_the_conventional_status(results, arguments):
    assert ended(*arguments) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_an_output_on_a_full_disk_is_one_sentence():
    command = [sys.executable, "-m", "permafrost.stages.cli", "--help"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("permafrost: error: standard output") and done.stderr[-1] == "\n"
    assert len(done.stderr.splitlines()) == 1 and "No space left on device" in done.stderr


def test_a_closed_pipe_is_met_quietly_by_the_help_of_a_command():
    assert ended("restore", "--help")[1] == ""


def test_a_closed_pipe_of_errors_is_met_quietly_too(results):
    assert ended("shwo", errors=True) == (141, "")
    assert ended("show", "nothing.parquet", errors=True) == (141, "")


def test_a_pipe_that_broke_elsewhere_is_no_closed_output(results, monkeypatch):
    """A worker that died must not pass for a reader that went away."""
    from permafrost.stages import show

    def run(arguments):
        raise BrokenPipeError("a worker is gone")

    monkeypatch.setattr(show, "run", run)
    with pytest.raises(BrokenPipeError):
        main(["show"])
