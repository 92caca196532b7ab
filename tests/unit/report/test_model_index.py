"""Heads of model cards: the hub's own library reads the scores back."""

from __future__ import annotations

import pytest
from helpers.results.tables import make_score_rows, score_table
from huggingface_hub import ModelCard
from permafrost.core.errors import PermafrostError
from permafrost.report.tables.model_index import model_cards
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard

PLAN = {
    "plan": "0123456789abcdef",
    "backbones": {"net": {"title": "Net: the <b>first</b>"}},
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
