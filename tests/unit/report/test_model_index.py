"""Scores for model hubs: the hub's own library and the schema of Every Eval Ever read them back."""

from __future__ import annotations

import json
from pathlib import Path

import helpers
import pytest
import yaml
from helpers.results.tables import make_score_rows, score_table
from huggingface_hub import ModelCard, parse_eval_result_entries
from jsonschema import Draft7Validator
from permafrost.core.errors import PermafrostError
from permafrost.report.tables.every_eval_ever import SCHEMA_VERSION, records
from permafrost.report.tables.model_index import eval_results, model_cards
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard

PLAN = {
    "plan": "0123456789abcdef",
    "backbones": {
        "net": {"title": "Net: the <b>first</b>", "url": "https://huggingface.co/lab/Net-1.0"}
    },
    "datasets": {"eurosat": {"title": "EuroSAT"}},
}


def rows() -> list[dict]:
    tables = [
        score_table(make_score_rows(dataset=dataset, backbone=backbone, probe=probe, value=value))
        for dataset, backbone, probe, value in (
            ("eurosat", "net", "knn", 0.5),
            ("eurosat", "net", "linear", 0.75),
            ("trees", "net", "knn", 0.25),
            ("eurosat", "old/net", "knn", 0.125),
        )
    ]
    return build_leaderboard(tables).to_pylist()


def test_the_hubs_library_reads_the_scores_with_their_intervals():
    table = rows()
    cards = model_cards(table, PLAN)
    assert len(cards) == 2 and not any("/" in name for name in cards)
    card = ModelCard(cards["net.md"]).data
    assert card.model_name == "Net: the <b>first</b>"
    found = {(one.dataset_type, one.metric_args["probe"]): one for one in card.eval_results}
    assert {key: one.metric_value for key, one in found.items()} == {
        ("eurosat", "knn"): 0.5,
        ("eurosat", "linear"): 0.75,
        ("trees", "knn"): 0.25,
    }
    one = found["eurosat", "linear"]
    assert (one.task_type, one.dataset_name, one.metric_type) == (
        "image-classification",
        "EuroSAT",
        "accuracy",
    )
    (row,) = (
        row
        for row in table
        if (row["dataset"], row["backbone"], row["probe"]) == ("eurosat", "net", "linear")
        and row["primary"]
    )
    assert (one.metric_args["lower"], one.metric_args["upper"]) == (row["lower"], row["upper"])


def test_what_is_asked_for_alone_is_written():
    assert list(model_cards(rows(), PLAN, dataset="trees")) == ["net.md"]
    with pytest.raises(PermafrostError, match="no scores are left"):
        model_cards(rows(), PLAN, dataset="nowhere")


def test_the_hubs_library_reads_the_files_of_eval_results():
    files = eval_results(rows(), PLAN, benchmark="lab/geo", source="https://lab.org", probe="knn")
    tasks = {one["id"]: one["config"] for one in yaml.safe_load(files.pop("eval.yaml"))["tasks"]}
    assert tasks == {"eurosat-knn": "eurosat", "trees-knn": "trees"}
    assert len(files) == 2 and "net/.eval_results/permafrost.yaml" in files
    entries = parse_eval_result_entries(yaml.safe_load(files["net/.eval_results/permafrost.yaml"]))
    assert [(one.dataset_id, one.task_id, one.value) for one in entries] == [
        ("lab/geo", "eurosat-knn", 0.5),
        ("lab/geo", "trees-knn", 0.25),
    ]
    assert entries[0].source_url == "https://lab.org"
    assert "95 % interval" in entries[0].notes and "plan 0123456789ab." in entries[0].notes


# every_eval_ever 0.3.0, MIT licence beside it
SCHEMA = Path(helpers.__file__).parent / "results/every_eval_ever/eval.schema.json"


def test_every_eval_evers_schema_accepts_the_records_with_their_intervals():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert schema["version"] == SCHEMA_VERSION
    table = rows()
    files = records(table, PLAN, made=1, organization="Lab")
    assert files == records(table, PLAN, made=1, organization="Lab")
    made = {name.rpartition("/")[0]: json.loads(text) for name, text in files.items()}
    assert sorted(made) == [
        "data/permafrost/lab/Net-1.0",
        next(one for one in made if one.startswith("data/permafrost/unknown/old-net-")),
    ]
    for record in made.values():
        Draft7Validator(schema).validate(record)
    record = made["data/permafrost/lab/Net-1.0"]
    assert record["model_info"]["id"] == "lab/Net-1.0"
    primary = {
        f"{row['dataset']}/{row['probe']}/{row['metric']}": row
        for row in table
        if row["backbone"] == "net" and row["primary"]
    }
    results = {one["evaluation_result_id"]: one for one in record["evaluation_results"]}
    assert results.keys() == primary.keys() and len(results) == 3
    for name, one in results.items():
        row, details = primary[name], one["score_details"]
        found = details["uncertainty"]["confidence_interval"]
        assert details["score"] == row["value"]
        assert (found["lower"], found["upper"]) == (row["lower"], row["upper"])
        assert (one["metric_config"]["min_score"], one["metric_config"]["max_score"]) == (0, 1)


@pytest.mark.parametrize(
    ("metric", "higher", "bounds"),
    [
        ("rmse", False, (0, "Infinity")),
        ("r2", True, ("-Infinity", 1)),
        ("recall_at_5", True, (0, 1)),
    ],
)
def test_records_of_other_metrics_and_without_an_interval(metric, higher, bounds):
    missing = {"lower": float("nan"), "upper": None, "gates": "test_duplicates_in_train:3"}
    changed = {"metric": metric, "higher_is_better": higher, **missing}
    table = [row | changed for row in rows() if row["primary"]]
    for text in records(table, PLAN, made=1, organization="Lab", first_party=True).values():
        record = json.loads(text)
        Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(record)
        assert record["source_metadata"]["evaluator_relationship"] == "first_party"
        for one in record["evaluation_results"]:
            config = one["metric_config"]
            assert (config["min_score"], config["max_score"]) == bounds
            assert config["lower_is_better"] is not higher
            assert "confidence_interval" not in one["score_details"]["uncertainty"]
            assert one["score_details"]["details"]["warnings"].startswith("Leakage in ")
    assert (
        "interval"
        not in eval_results(table, PLAN, benchmark="a/b")["net/.eval_results/permafrost.yaml"]
    )
