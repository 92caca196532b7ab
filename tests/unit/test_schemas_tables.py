"""Every column of every result table is described by a schema, and real rows keep to it."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from _dense import make_dense_card, make_dense_predictions, score
from _tables import (
    make_card,
    make_comparison_table,
    make_predictions,
    make_score_rows,
    score_table,
)
from jsonschema import Draft202012Validator
from permafrost.core.tables import read_table
from permafrost.report.leaderboard import build_leaderboard
from permafrost.report.summary import build_summary
from permafrost.statistics.comparison_table import compare_predictions
from permafrost.statistics.score_table import score_predictions

SCHEMAS = Path(__file__).parents[2] / "workflow" / "schemas"
TABLES = (
    "predictions",
    "predictions_segmentation",
    "predictions_detection",
    "scores",
    "comparisons",
    "leaderboard",
    "summary",
)


def schema(name: str) -> dict:
    return yaml.safe_load((SCHEMAS / f"{name}.schema.yaml").read_text())


def check(name: str, table: pa.Table) -> None:
    """Columns in order, arrow types, and every row against the JSON schema."""
    described = schema(name)
    columns = {n: e for n, e in described["properties"].items() if n in table.column_names}
    assert table.column_names == list(columns) and columns.keys() >= set(described["required"])
    for column, entry in columns.items():
        allowed = entry["x-arrow"] if isinstance(entry["x-arrow"], list) else [entry["x-arrow"]]
        found = re.sub(r"<element: (\w+)>\[\d+\]|<item: (\w+)>\[\d+\]",
                       lambda m: f"<{m[1] or m[2]}>", str(table.schema.field(column).type))  # fmt: skip
        assert found in allowed, column
    validator = Draft202012Validator(described)
    for row in table.to_pylist():
        validator.validate(row)


@pytest.mark.parametrize("name", TABLES)
def test_schemas_are_valid_and_say_what_every_column_means(name):
    described = schema(name)
    Draft202012Validator.check_schema(described)
    assert described["additionalProperties"] is False
    for column, entry in described["properties"].items():
        assert len(entry["description"]) > 10, column


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_predictions_keep_to_their_schema(tmp_path, task):
    card = make_card(task=task, classes=5, counts=(60, 20, 30))
    made = make_predictions(tmp_path / "p.parquet", card, backbone="rcf")
    check("predictions", read_table(made["path"])[0])


@pytest.mark.parametrize("boundary", [False, True])
def test_predicted_masks_and_their_scores_keep_to_their_schemas(tmp_path, boundary):
    scores = []
    for backbone in ("a", "b"):
        made = make_dense_predictions(tmp_path / f"{backbone}.parquet", make_dense_card(), backbone=backbone,
                                      boundary=boundary)  # fmt: skip
        table = read_table(made["path"])[0]
        assert ("boundary_union" in table.column_names) == boundary
        check("predictions_segmentation", table)
        scores.append(score(tmp_path / "s.parquet", made))
        check("scores", scores[-1])
        named = schema("scores")["properties"]["metric"]["description"]
        assert all(name in named for name in scores[-1]["metric"].to_pylist())
    check("leaderboard", build_leaderboard(scores))


def test_all_columns_are_required_but_those_of_boundaries():
    for name in TABLES:
        described = schema(name)
        optional = set(described["properties"]) - set(described["required"])
        assert optional == (
            {"boundary_intersection", "boundary_union"} if "segm" in name else set()
        )


def test_scores_keep_to_their_schema_also_when_undefined():
    rows = make_score_rows(backbone="rcf", classes=["a", "b"])
    rows += make_score_rows(backbone="bad", value=float("nan"), half=float("nan"))
    check("scores", score_table(rows))


def test_comparisons_keep_to_their_schema():
    check("comparisons", make_comparison_table("eurosat", "linear", ["a", "b", "c"]))


def test_the_leaderboard_keeps_to_its_schema():
    tables = [score_table(make_score_rows(backbone=name, classes=["x"])) for name in ("a", "b")]
    check("leaderboard", build_leaderboard(tables))


@pytest.mark.parametrize("datasets", [["one"], ["one", "two", "three"]])
def test_the_summary_keeps_to_its_schema(datasets):
    rows = [
        make_score_rows(dataset=dataset, backbone=name)
        for dataset in datasets
        for name in ("a", "b")
    ]
    summary = build_summary(
        build_leaderboard([score_table(row) for row in rows]), resamples=50, confidence=0.9, seed=0
    )
    check("summary", summary)
    assert summary["mean_rank"].null_count == 0
    assert (summary["mean_lower"].null_count == 0) == (len(datasets) > 1)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_tables_as_the_statistics_write_them_keep_to_their_schemas(tmp_path, task):
    card = make_card("demo", task=task, classes=4, counts=(60, 20, 40))
    options = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
    fingerprints, scores = {}, []
    for backbone in ("a", "b"):
        path = tmp_path / "demo" / backbone / "seed0" / "knn.parquet"
        made = make_predictions(path, card, backbone=backbone, probe="knn")
        fingerprints[f"{backbone}/seed0"] = made["fingerprint"]
        spec = {"stage": "bootstrap", "dataset": "demo", "options": options,
                "inputs": {"predictions": made["fingerprint"]}}  # fmt: skip
        score_predictions(path, tmp_path / f"{backbone}.parquet", spec=spec, fingerprint="f")
        scores.append(read_table(tmp_path / f"{backbone}.parquet")[0])
        check("scores", scores[-1])
    check("leaderboard", build_leaderboard(scores))
    spec = {"stage": "compare", "dataset": "demo", "probe": "knn", "options": options,
            "inputs": {"predictions": fingerprints}}  # fmt: skip
    compare_predictions(tmp_path, tmp_path / "c.parquet", spec=spec, fingerprint="f")
    check("comparisons", read_table(tmp_path / "c.parquet")[0])


def test_a_column_that_is_not_described_is_noticed():
    table = score_table(make_score_rows(backbone="rcf"))
    with pytest.raises(AssertionError):
        check("scores", table.append_column("extra", pa.array([0] * len(table))))
