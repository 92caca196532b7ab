"""A submission to GEO-Bench-2's leaderboard passes the rules of that leaderboard's own check, written down again."""

from __future__ import annotations

import csv
import json

import pytest
from helpers.results.tables import make_score_rows, score_table
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import write_table
from permafrost.report.tables.geobench2 import DATASETS, submission, theirs
from permafrost.report.tables.shown import Shown
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard

CLASSIFICATION = (
    "geobench2-so2sat-s2",
    "geobench2-forestnet",
    "geobench2-benv2",
    "geobench2-treesatai",
)
PLAN = {
    "plan": "abc",
    "backbones": {"net": {"title": "A net", "parameters": 7}, "other": {}},
    "probes": {
        "linear": {"kind": "linear"},
        "mlp": {"kind": "mlp", "learning_rate": 0.1, "batch_size": 64},
    },
}
# of their utils/constants.py
TEXT = [
    "dataset",
    "Metric",
    "experiment_name",
    "partition name",
    "backbone",
    "decoder",
    "batch_size_selection",
    "frozen_or_full_ft",
]
NUMBERS = [
    "early_stop_patience",
    "n_trials",
    "Seed",
    "data_percentages",
    "batch_size",
    "weight_decay",
    "lr",
    "test metric",
]
KEYS = {
    "Paper Link",
    "Code Repository Link ",
    "License",
    "Number of HPO trials",
    "Additional information about submission",
}


def shown(
    datasets=CLASSIFICATION, seeds=(0,), probes=("linear",), backbones=("net", "other")
) -> Shown:
    tables = [
        score_table(
            make_score_rows(
                dataset=dataset, backbone=name, probe=probe, seed=seed, value=0.5 + seed / 100
            )
        )
        for dataset in datasets
        for name in backbones
        for probe in probes
        for seed in seeds
    ]
    board = build_leaderboard(tables)
    rows = [row for row in board.to_pylist() if row["primary"] and row["class"] is None]
    return Shown(board, rows, [], {}, [])


def test_a_submission_passes_their_check():
    for seeds in ((0,), (0, 1, 2, 3, 4)):
        files = submission(shown(seeds=seeds), PLAN)
        assert set(files) == {"results_and_parameters.csv", "additional_info.json"}
        rows = list(csv.DictReader(files["results_and_parameters.csv"].splitlines()))
        assert set(TEXT) | set(NUMBERS) == set(rows[0])
        for row in rows:
            assert all(row[name] for name in TEXT) and all(
                float(row[name]) >= 0 for name in NUMBERS
            )
            assert not any(row[name].replace(".", "").isdigit() for name in TEXT)
            assert row["frozen_or_full_ft"] in ("frozen", "full_ft")
        for backbone in ("net", "other"):
            for dataset in ("so2sat", "forestnet", "benv2", "treesatai"):
                own = [
                    row for row in rows if (row["backbone"], row["dataset"]) == (backbone, dataset)
                ]
                assert len(own) == len({row["Seed"] for row in own}) == 5
        info = json.loads(files["additional_info.json"])
        assert set(info) >= KEYS and all(isinstance(info[key], str) for key in KEYS)
        assert {"model_display_name", "model_size", "unique_backbone_key"} == set(
            info["New model info"][0]
        )
        assert ("draws nothing" in info["Additional information about submission"]) == (
            len(seeds) == 1
        )


def test_scores_and_metrics_are_those_of_the_run():
    rows = list(
        csv.DictReader(
            submission(shown(seeds=range(5)), PLAN)["results_and_parameters.csv"].splitlines()
        )
    )
    assert {row["Metric"] for row in rows} == {"Overall_Accuracy"}
    assert sorted({float(row["test metric"]) for row in rows}) == pytest.approx(
        [0.5, 0.51, 0.52, 0.53, 0.54]
    )
    assert all(
        float(row["test metric"]) == pytest.approx(0.5 + int(row["Seed"]) / 100) for row in rows
    )
    rows = list(
        csv.DictReader(
            submission(shown(probes=("mlp",)), PLAN)["results_and_parameters.csv"].splitlines()
        )
    )
    assert {(row["decoder"], row["lr"], row["batch_size"]) for row in rows} == {
        ("mlp", "0.1", "64")
    }


@pytest.mark.parametrize(
    ("dataset", "name"),
    [
        ("geobench2-pastis-s2-series", "pastis"),
        ("geobench2-pastis-r-s2", "pastis_r"),
        ("geobench2-dynamic-earthnet-planet-series", "dynamic_earthnet"),
        ("geobench2-spacenet6", None),
        ("geobench2-benv2", "benv2"),
        ("benv2", None),
        ("eurosat", None),
    ],
)
def test_entries_have_their_names(dataset, name):
    assert theirs(dataset) == name and len(DATASETS) == 19


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"datasets": ("eurosat",)}, "no score is of a dataset of GEO-Bench-2"),
        ({"probes": ("linear", "mlp")}, "2 probes .linear, mlp."),
        ({"datasets": ("geobench2-benv2", "geobench2-benv2-s1")}, "are both the dataset 'benv2'"),
        ({"seeds": (0, 1, 2)}, "'net' has 3 seeds on .* and 5 are wanted"),
    ],
)
def test_what_cannot_be_submitted_is_refused(made, words):
    with pytest.raises(PermafrostError, match=words):
        submission(shown(**made), PLAN)


def test_the_command_writes_a_whole_folder(tmp_path, monkeypatch, capsys):
    from permafrost.stages.cli import main

    monkeypatch.chdir(tmp_path)
    plans = tmp_path / "results/plans"
    plans.mkdir(parents=True)
    (plans / "abc.json").write_text(json.dumps({**PLAN, "results": "results", "outputs": []}))
    (plans / "current").write_text("abc")
    for name, made, status in (("good", shown(), 0), ("bad", shown(seeds=(0, 1)), 1)):
        write_table(
            tmp_path / "results/leaderboard.parquet", made.leaderboard, {"fingerprint": "f"}
        )
        assert main(["export", "--format", "geobench2", "--output", name]) == status
    assert sorted(path.name for path in (tmp_path / "good").iterdir()) == [
        "additional_info.json",
        "results_and_parameters.csv",
    ]
    assert not (tmp_path / "bad").exists()
    assert main(["published", "good/results_and_parameters.csv"]) == 0
    assert "40 published scores, 2 backbones, 4 datasets" in capsys.readouterr().out
    assert main(["export", "--format", "geobench2", "--output", "bad"]) == 1
    assert "5 are wanted" in capsys.readouterr().err
    assert main(["export", "--format", "geobench2"]) == 1
