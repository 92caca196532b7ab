"""Every column of every result table is described by a schema, and real rows keep to it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers.results.masks import make_dense_card, make_dense_predictions, score
from helpers.results.tables import (
    make_card,
    make_comparison_table,
    make_predictions,
    make_score_rows,
    score_table,
)
from helpers.schemas import check, generate, schema
from helpers.stages.fine_tune import Scenes
from helpers.stages.measuring import measure, mixture, pair, write_features
from helpers.stages.probe_jobs import configured, job_of, options_of
from helpers.stages.probing import make_splits, write_and_score
from helpers.stages.specifications import specification
from helpers.stages.views import measure_views, write_both
from helpers.stores.targets import linear, run, toy_stores, write_targets
from jsonschema import Draft202012Validator
from permafrost.core.columns import Column, Table
from permafrost.core.tables import read_table
from permafrost.probes.embeddings.features import Features
from permafrost.probes.knn.probe import run_knn
from permafrost.probes.knn.sweep import run_knn_sweep
from permafrost.probes.retrieval import run_retrieval
from permafrost.probes.ridge.probe import run_ridge
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.scores.comparison_table import compare_predictions
from permafrost.statistics.scores.score_table import score_predictions
from permafrost.statistics.tables import ScoreColumns


@pytest.mark.parametrize("name", generate.TABLES)
def test_schemas_are_valid_written_from_columns_and_say_what_every_column_means(name):
    described = schema(name)
    written = (generate.SCHEMAS / f"{name}.schema.yaml").read_text()
    assert written == generate.schema_text(name), "run: envs/run python docs/generate.py"
    Draft202012Validator.check_schema(described)
    assert described["additionalProperties"] is False
    for column, entry in described["properties"].items():
        assert len(entry["description"]) > 10, column


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_predictions_keep_to_their_schema(tmp_path, task):
    card = make_card(task=task, classes=5, counts=(60, 20, 30))
    made = make_predictions(tmp_path / "p.parquet", card, backbone="rcf")
    check("predictions", read_table(made["path"])[0])


def test_predicted_numbers_and_their_scores_keep_to_their_schemas(tmp_path):
    about = {
        "task": "regression",
        "classes": [],
        "target": "height",
        "split_method": "random",
        "spatially_random": False,
    }
    made, scores = make_splits(), []
    splits = {
        name: Features(one.embeddings, one.embeddings[:, 0] * 2.0, one.samples, about)
        for name, one in made.items()
    }
    alphas = {"alpha_min": 0.1, "alpha_max": 10.0, "alpha_count": 3}
    for kind, probe, chosen in (("knn", run_knn, {"k": 3}), ("ridge", run_ridge, alphas)):
        options = configured(kind, **chosen)
        spec = {
            "stage": kind,
            "dataset": "d",
            "backbone": "b",
            "probe": kind,
            "seed": 0,
            "options": options,
            "inputs": {"features": "f" * 32},
        }
        path, output = tmp_path / f"{kind}.parquet", tmp_path / "s.parquet"
        result = probe(splits, options_of(kind, options), device="cpu", seed=0)
        result.write(job_of(spec, output=path), splits)
        check("predictions_regression", read_table(path)[0])
        scoring = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
        scored = {
            "stage": "bootstrap",
            "dataset": "d",
            "options": scoring,
            "inputs": {"predictions": "0" * 32},
        }
        score_predictions(path, output, spec=specification(scored), fingerprint="1" * 32)
        scores.append(read_table(output)[0])
        check("scores", scores[-1])
        named = schema("scores")["properties"]["metric"]["description"]
        assert all(name in named for name in scores[-1]["metric"].to_pylist())
    check("leaderboard", build_leaderboard(scores))


@pytest.mark.parametrize("kind", ["dense_ridge", "dense_knn"])
def test_predicted_rasters_and_their_scores_keep_to_their_schemas(tmp_path, kind):
    stores = toy_stores(tmp_path / "stores")
    maps, targets = linear(4, seed=2)
    targets[1] = np.nan
    stores["test"] = write_targets(tmp_path / "test.zarr", maps, targets, split="test")
    table, _, path = run(stores, tmp_path / "out", kind)
    check("predictions_pixel_regression", table)
    options = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
    spec = {
        "stage": "bootstrap",
        "dataset": "toy",
        "options": options,
        "inputs": {"predictions": "0" * 32},
    }
    score_predictions(path, tmp_path / "s.parquet", spec=specification(spec), fingerprint="1" * 32)
    scores = read_table(tmp_path / "s.parquet")[0]
    check("scores", scores)
    check("leaderboard", build_leaderboard([scores]))


@pytest.mark.parametrize(
    ("task", "name"),
    [("regression", "predictions_regression"), ("segmentation", "predictions_segmentation")],
)
def test_settings_of_numbers_and_masks_keep_to_their_schemas(tmp_path, task, name):
    scenes = Scenes(tmp_path, task, counts=(6, 3, 6))
    table, metadata = scenes.tune({"kind": "imagestats"}, boundary=0.1, head_epochs=1)
    check(name, table)
    assert table.column_names[-1].startswith("setting_") and len(metadata["scored_settings"]) == 2


@pytest.mark.parametrize("boundary", [False, True])
def test_predicted_masks_and_their_scores_keep_to_their_schemas(tmp_path, boundary):
    scores = []
    for backbone in ("a", "b"):
        made = make_dense_predictions(
            tmp_path / f"{backbone}.parquet",
            make_dense_card(),
            backbone=backbone,
            boundary=boundary,
        )
        table = read_table(made["path"])[0]
        assert ("boundary_union" in table.column_names) == boundary
        check("predictions_segmentation", table)
        scores.append(score(tmp_path / "s.parquet", made))
        check("scores", scores[-1])
        named = schema("scores")["properties"]["metric"]["description"]
        assert all(name in named for name in scores[-1]["metric"].to_pylist())
    check("leaderboard", build_leaderboard(scores))


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_calibration_keeps_to_the_schemas(tmp_path, task):
    made = make_predictions(
        tmp_path / "d/b/seed0/linear.parquet",
        make_card(task=task, counts=(60, 20, 30)),
        backbone="b",
    )
    options = {
        "resamples": 20,
        "confidence": 0.95,
        "method": "percentile",
        "seed": 0,
        "calibration": {"bins": 15, "folds": 5, "floor": None},
    }
    scored = {
        "stage": "bootstrap",
        "dataset": "d",
        "options": options,
        "inputs": {"predictions": made["fingerprint"]},
    }
    score_predictions(
        made["path"], tmp_path / "s.parquet", spec=specification(scored), fingerprint="1" * 32
    )
    scores = read_table(tmp_path / "s.parquet")[0]
    check("scores", scores)
    check("leaderboard", build_leaderboard([scores]))
    named = schema("scores")["properties"]["metric"]["description"]
    overall = [row["metric"] for row in scores.to_pylist() if row["class"] is None]
    assert all(name in named for name in overall)
    assert set(scores["method"].to_pylist()) == {"percentile", "basic_square"}
    (tmp_path / "d/c/seed0").mkdir(parents=True)
    (tmp_path / "d/c/seed0/linear.parquet").write_bytes(made["path"].read_bytes())
    compared = {
        "stage": "compare",
        "dataset": "d",
        "probe": "linear",
        "options": options,
        "inputs": {"predictions": dict.fromkeys(("b/seed0", "c/seed0"), made["fingerprint"])},
    }
    compare_predictions(
        tmp_path, tmp_path / "c.parquet", spec=specification(compared), fingerprint="2" * 32
    )
    table = read_table(tmp_path / "c.parquet")[0]
    check("comparisons", table)
    assert table["difference"].to_pylist() == [0, 0, 0, 0]
    assert table["p_value"].to_pylist() == [1, 1, 1, 1]


def test_all_columns_are_required_but_those_of_boundaries_and_of_several_settings():
    optional = {
        "predictions_segmentation": {
            "boundary_intersection",
            "boundary_union",
            "setting_confusions",
        },
        "predictions_regression": {"setting_numbers"},
        "predictions_detection": {"masks", "polygon"},
        "predictions_settings": {"setting_predictions", "setting_scores"},
    }
    for name in generate.TABLES:
        described = schema(name)
        found = set(described["properties"]) - set(described["required"])
        # of predictions of any kind, where a test sample shares something with training or validation
        assert found - {"leak"} == optional.get(name, set())


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_several_settings_and_their_scores_keep_to_their_schemas(tmp_path, task):
    splits = make_splits(task=task)
    options = {
        "k": [1, 5],
        "metrics": ["l2"],
        "weights": ["uniform", "temperature"],
        "temperature": 0.07,
    }
    result = run_knn_sweep(splits, options_of("knn_sweep", options), device="cpu", seed=0)
    (table, _), scores = write_and_score(tmp_path, result, splits, kind="knn_sweep")
    check("predictions_settings", table)
    check("scores", scores)
    check("leaderboard", build_leaderboard([scores]))


def test_retrieval_and_its_scores_keep_to_their_schemas(tmp_path):
    splits = make_splits()
    options = {"relevant": "class", "gallery": "train", "k": [1, 5], "metric": "l2"}
    result = run_retrieval(splits, options_of("retrieval", options))
    (table, _), scores = write_and_score(
        tmp_path, result, splits, kind="retrieval", options=options
    )
    check("predictions_retrieval", table)
    check("scores", scores)


def test_scores_keep_to_their_schema_also_when_undefined():
    rows = make_score_rows(backbone="rcf", classes=["a", "b"])
    rows += make_score_rows(backbone="bad", value=float("nan"), half=float("nan"))
    check("scores", score_table(rows))


@pytest.mark.parametrize("case", ["as usual", "without labels", "collapsed"])
def test_measures_and_pairs_keep_to_their_schemas_also_when_undefined(tmp_path, case):
    for number, backbone in enumerate(("a", "b")):
        features, labels = mixture(seed=number)
        features = features * 0 if case == "collapsed" else features
        path = tmp_path / f"demo/{backbone}/train.zarr"
        write_features(path, features, None if case == "without labels" else labels)
    measure(path, tmp_path / "m.parquet")
    table = read_table(tmp_path / "m.parquet")[0]
    check("measures", table)
    assert table.schema.remove_metadata() == ScoreColumns.arrow()
    check("leaderboard", build_leaderboard([score_table(make_score_rows(backbone="a")), table]))
    pair(tmp_path, tmp_path / "s.parquet", ["a", "b"])
    check("similarity", read_table(tmp_path / "s.parquet")[0])


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_measures_of_views_keep_to_the_schema_also_when_undefined(tmp_path, scale):
    views = scale * np.random.default_rng(0).normal(size=(20, 3, 5))
    rows = measure_views(*write_both(tmp_path, views), tmp_path / "m.parquet")
    table = read_table(tmp_path / "m.parquet")[0]
    check("measures", table)
    named = schema("measures")["properties"]["metric"]["description"]
    assert len(rows) == 14 and all(name in named for name in rows)
    check("leaderboard", build_leaderboard([score_table(make_score_rows(backbone="a")), table]))


def test_comparisons_keep_to_their_schema():
    check("comparisons", make_comparison_table("eurosat", "linear", ["a", "b", "c"]))


def test_the_leaderboard_keeps_to_its_schema():
    tables = [score_table(make_score_rows(backbone=name, classes=["x"])) for name in ("a", "b")]
    check("leaderboard", build_leaderboard(tables))


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_tables_as_the_statistics_write_them_keep_to_their_schemas(tmp_path, task):
    card = make_card("demo", task=task, classes=4, counts=(60, 20, 40))
    options = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
    fingerprints, scores = {}, []
    for backbone in ("a", "b"):
        path = tmp_path / "demo" / backbone / "seed0" / "knn.parquet"
        made = make_predictions(path, card, backbone=backbone, probe="knn")
        fingerprints[f"{backbone}/seed0"] = made["fingerprint"]
        spec = {
            "stage": "bootstrap",
            "dataset": "demo",
            "options": options,
            "inputs": {"predictions": made["fingerprint"]},
        }
        score_predictions(
            path, tmp_path / f"{backbone}.parquet", spec=specification(spec), fingerprint="f"
        )
        scores.append(read_table(tmp_path / f"{backbone}.parquet")[0])
        check("scores", scores[-1])
    check("leaderboard", build_leaderboard(scores))
    spec = {
        "stage": "compare",
        "dataset": "demo",
        "probe": "knn",
        "options": options,
        "inputs": {"predictions": fingerprints},
    }
    compare_predictions(tmp_path, tmp_path / "c.parquet", spec=specification(spec), fingerprint="f")
    check("comparisons", read_table(tmp_path / "c.parquet")[0])


def test_a_column_that_is_not_described_is_noticed():
    table = score_table(make_score_rows(backbone="rcf"))
    with pytest.raises(AssertionError):
        check("scores", table.append_column("extra", pa.array([0] * len(table))))


def test_a_description_is_that_of_the_base_class_and_may_add_to_it():
    class Base(Table):
        """A row.

        Columns
        -------
        a : The first
            column.
        b, c : Others: {names}.
        """

        columns = (Column("a"), Column("b", nullable=True), Column("c", optional=True))
        words = {"names": "b and c"}

    class Further(Base):
        """Another row.

        Columns
        -------
        a : … Always 1.
        d : New.
        """

        columns = Base.changed(*Base.but("a", values=("1",)), Column("d", "int64", least=0))

    described = Further.schema()
    assert described["description"] == "Another row." and described["required"] == ["a", "b", "d"]
    texts = {name: entry["description"] for name, entry in described["properties"].items()}
    others = "Others: b and c."
    assert texts == {"a": "The first column. Always 1.", "b": others, "c": others, "d": "New."}
    assert described["properties"]["a"]["enum"] == ["1"]
    assert described["properties"]["b"]["type"] == ["string", "null"]
    assert described["properties"]["d"]["minimum"] == 0
