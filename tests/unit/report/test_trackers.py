"""Runs for experiment trackers: their numbers are the leaderboard's; and the trackers' own readers find them."""

from __future__ import annotations

import sys

import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from helpers.results.tables import make_score_rows, score_table
from permafrost.core.tables import write_table
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import current_plan, read_plan
from permafrost.report.tables.trackers import runs_of
from permafrost.stages.cli import main
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard


@pytest.fixture
def results(tmp_path, monkeypatch):
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    record_plan(make_plan(root), "results")
    rows = [
        score_table(make_score_rows(dataset=dataset, backbone=backbone, probe=probe))
        for dataset in CONFIG["datasets"]
        for backbone in CONFIG["backbones"]
        for probe in CONFIG["probes"]
    ]
    table = build_leaderboard(rows)
    about = {"fingerprint": make_plan(root).aggregate().fingerprint}
    write_table(root / "results/leaderboard.parquet", table, about)
    return table


def test_a_run_of_each_evaluation_has_all_metrics_with_their_intervals(results):
    plan = read_plan(current_plan("results"))
    runs = list(runs_of(results.to_pylist(), plan))
    count = len(CONFIG["datasets"]) * len(CONFIG["backbones"]) * len(CONFIG["probes"])
    assert len({run.name for run in runs}) == len(runs) == count
    (run,) = runs_of(results.to_pylist(), plan, dataset="world", backbone="net", probe="knn")
    assert run.options["k"] == 5 and run.labels["seed"] == "0"
    rows = [
        row
        for row in results.to_pylist()
        if (row["dataset"], row["backbone"], row["probe"]) == ("world", "net", "knn")
        and row["class"] is None
        and row["setting"] is None
    ]
    assert rows and {row["metric"] for row in rows} <= {*run.metrics}
    for row in rows:
        ends = [run.metrics[f"{row['metric']}{end}"] for end in ("", "_lower", "_upper")]
        assert ends == [row["value"], row["lower"], row["upper"]]


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_library_that_is_not_installed_is_one_error(results, monkeypatch, capsys, name):
    monkeypatch.setitem(sys.modules, name, None)
    assert main(["export", "--format", name]) == 1
    said = capsys.readouterr().err
    assert f"the library {name} is not installed" in said and "pip install" in said


def test_names_that_are_not_in_the_results_are_refused(results, capsys):
    assert main(["export", "--format", "mlflow", "--probe", "nosuch"]) == 1
    assert "nosuch" in capsys.readouterr().err
    assert main(["export", "--format", "mlflow", "--group", "all"]) == 1
    assert "runs have no group" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("eval-results",), "--hub OWNER/NAME"),
        (("eval-results", "--hub", "name"), "--hub OWNER/NAME"),
        (("every-eval-ever",), "--organization NAME"),
        (("eval-results", "--hub", "lab/geo"), None),
        (("every-eval-ever", "--organization", "Lab"), None),
    ],
)
def test_what_the_results_do_not_know_is_asked_for(results, tmp_path, capsys, arguments, wanted):
    output = tmp_path / "out"
    status = main(["export", "--format", *arguments, "--output", str(output)])
    if wanted is None:
        count = len(CONFIG["backbones"]) + (arguments[0] == "eval-results")
        assert status == 0 and len([one for one in output.rglob("*.*") if one.is_file()]) == count
    else:
        assert status == 1 and wanted in capsys.readouterr().err and not output.exists()


def test_mlflow_reads_what_was_written(results, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    folder = tmp_path / "mlruns"
    for _ in range(2):  # a second time adds runs to the same experiment
        assert (
            main(["export", "--format", "mlflow", "--output", str(folder), "--probe", "knn"]) == 0
        )
    client = mlflow.MlflowClient(tracking_uri=folder.resolve().as_uri())
    (experiment,) = [one for one in client.search_experiments() if one.name == "permafrost"]
    runs = client.search_runs([experiment.experiment_id], "tags.dataset = 'world'")
    assert len(runs) == 2 * len(CONFIG["backbones"])
    plan = read_plan(current_plan("results"))
    expected = {run.name: run for run in runs_of(results.to_pylist(), plan)}
    for run in runs:
        assert run.data.metrics == expected[run.info.run_name].metrics
        assert run.data.params["k"] == "5" and run.info.status == "FINISHED"


def test_wandb_writes_offline_runs(results, tmp_path):
    pytest.importorskip("wandb")
    asked = ["--format", "wandb", "--output", str(tmp_path), "--probe", "knn", "--dataset", "world"]
    assert main(["export", *asked]) == 0
    runs = list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(runs) == len(CONFIG["backbones"])
    assert all(b"accuracy" in path.read_bytes() for path in runs)
