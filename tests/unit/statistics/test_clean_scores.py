"""Scores on the clean test images are those of a table that holds no others; comparisons carry the gates of leakage."""

import numpy as np
import pyarrow as pa
import pytest
from helpers.predictions import masks, objects
from helpers.stages.probing import make_splits, write_and_score
from helpers.stages.specifications import specification
from permafrost.core.identity import fingerprint
from permafrost.core.leakage import CLEAN
from permafrost.core.tables import read_table, write_table
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.embeddings.settings import PredictionsBySetting, Setting
from permafrost.statistics.predictions import columns
from permafrost.statistics.scores.comparison_table import compare_predictions
from permafrost.statistics.scores.score_table import score_predictions

GATE = "test_duplicates_in_train:15 of 40 test images (38 %)"
LEAKS = ["copy" if number % 8 < 3 else None for number in range(40)]
SEEN = np.array([leak is not None for leak in LEAKS])
GROUPS = [f"scene {number // 5}" for number in range(40)]
OPTIONS = {"resamples": 30, "confidence": 0.95, "method": "auto", "seed": 0}


def answered(task: str, answer, splits):
    """A prediction of the test split with some errors."""
    labels = splits["test"].labels
    if task == "multilabel":
        scores = (answer.random(labels.shape) + 0.6 * labels).astype(np.float32)
        return Prediction((scores > 0.5).astype(np.uint8), scores)
    chosen = np.where(answer.random(len(labels)) < 0.7, labels, answer.integers(0, 4, len(labels)))
    scores = (0.1 + 0.6 * np.eye(4)[chosen]).astype(np.float32)
    return Prediction(chosen, scores)


def drawn(splits):
    """One setting that is ranked by the mean of two draws."""
    draws = [
        answered("classification", np.random.default_rng(draw), splits).prediction
        for draw in range(2)
    ]
    settings = [
        Setting("small", answer, {}, n_train=6, n_val=3, draw=draw)
        for draw, answer in enumerate(draws)
    ]
    ranked = Prediction(draws[0], np.eye(4, dtype=np.float32)[draws[0]])
    return PredictionsBySetting(ranked, settings, headline="small")


def scored(table: pa.Table, metadata: dict, folder) -> list[dict]:
    """Rows of scores of a table that is written first."""
    made = fingerprint("predictions", len(table))
    folder.mkdir()
    write_table(folder / "p.parquet", table, {**metadata, "fingerprint": made})
    spec = {"stage": "bootstrap", "dataset": "made", "options": OPTIONS}
    spec["inputs"] = {"predictions": made}
    spec = specification(spec)
    score_predictions(folder / "p.parquet", folder / "s.parquet", spec=spec, fingerprint="s")
    return read_table(folder / "s.parquet")[0].to_pylist()


def tables(tmp_path, kind: str) -> tuple[pa.Table, dict]:
    if kind in ("segmentation", "detection"):
        helper, found = (
            (masks, masks.predictions(groups=[f"s{i % 5}" for i in range(12)]))
            if kind == "segmentation"
            else (objects, objects.predictions("detection"))
        )
        path = tmp_path / "made.parquet"
        helper.write_predictions(path, found)
        return read_table(path)
    if kind == "draws":
        splits = make_splits(groups=GROUPS)
        return write_and_score(tmp_path, drawn(splits), splits, kind="few_shot")[0]
    splits = make_splits(task=kind, groups=GROUPS)
    result = answered(kind, np.random.default_rng(0), splits)
    return write_and_score(tmp_path, result, splits, kind="knn")[0]


KINDS = ("classification", "multilabel", "draws", "segmentation", "detection")


def marked(table: pa.Table, leaks: list[str | None]) -> pa.Table:
    return table.add_column(2, "leak", pa.array(leaks[: len(table)], pa.string()))


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_clean_scores_are_those_of_a_table_of_the_others(tmp_path, monkeypatch, kind, held):
    if not held:
        monkeypatch.setattr(columns, "HELD_BYTES", 0)
    table, metadata = tables(tmp_path, kind)
    seen = SEEN[: len(table)]
    rows = scored(marked(table, LEAKS), metadata, tmp_path / "all")
    alone = scored(table.filter(pa.array(~seen)), metadata, tmp_path / "alone")
    clean = {(row["metric"], row["class"]): row for row in rows if row["setting"] == CLEAN}
    others = {(row["metric"], row["class"]): row for row in alone if row["setting"] is None}
    assert clean.keys() == others.keys()
    for key, row in clean.items():
        for name in ("value", "lower", "upper", "n_units", "n_test", "unit", "gates", "n_train"):
            np.testing.assert_equal(row[name], others[key][name])
        assert not row["primary"]
    count = f"test_duplicates_in_train:{seen.sum()} of {len(table)} test images"
    for row in rows:
        assert (count in row["gates"]) == (row["setting"] != CLEAN)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clean", [0, 1])
def test_of_one_clean_image_and_of_none(tmp_path, kind, clean):
    table, metadata = tables(tmp_path, kind)
    leaks = [*[None] * clean, *["group"] * (len(table) - clean)]
    rows = scored(marked(table, leaks), metadata, tmp_path / "all")
    assert {row["n_test"] for row in rows if row["setting"] == CLEAN} == {1} - {1 - clean}
    gate = f"test_groups_in_train:{len(table) - clean} of {len(table)} test images"
    assert all(gate in row["gates"] for row in rows if row["setting"] != CLEAN)


def test_comparisons_have_the_gates_beside_their_own(tmp_path):
    splits, given = make_splits(groups=GROUPS), {}
    for number, name in enumerate(("one", "two")):
        result = answered("classification", np.random.default_rng(number), splits)
        table, metadata = write_and_score(tmp_path, result, splits, kind="knn", backbone=name)[0]
        path = tmp_path / "made" / name / "seed0" / "knn.parquet"
        path.parent.mkdir(parents=True)
        write_table(path, marked(table, LEAKS), metadata)
        given[f"{name}/seed0"] = metadata["fingerprint"]
    spec = {"stage": "compare", "dataset": "made", "probe": "knn", "options": OPTIONS}
    spec["inputs"] = {"predictions": given}
    compare_predictions(tmp_path, tmp_path / "c", spec=specification(spec), fingerprint="c")
    found = read_table(tmp_path / "c")[0]["gates"].to_pylist()
    assert found and all(GATE in gates.split(";") for gates in found)
