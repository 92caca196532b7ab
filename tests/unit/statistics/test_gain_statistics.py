"""Settings of masks and numbers, and what one setting gains over another: values, intervals, by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers.stages.specifications import specification
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.tables import read_table, write_table
from permafrost.metrics.regression import evaluate as numbers
from permafrost.metrics.segmentation import evaluate
from permafrost.statistics.predictions.settings import settings_from_table
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.score_table import score_predictions

N, K = 24, 3
SCORING = {"resamples": 40, "confidence": 0.95, "method": "percentile", "seed": 0}
GROUPS = [f"g{i // 3}" for i in range(N)]


def answers(task: str) -> tuple[np.ndarray, np.ndarray]:
    """(N,) or (N, K, K) truth or nothing, and (N, 2, …) what two settings say."""
    rng = np.random.default_rng(3)
    if task == "segmentation":
        return np.zeros(N), rng.integers(0, 50, (N, 2, K, K)) + 60 * np.eye(K, dtype=int)
    target = rng.normal(size=N)
    return target, target[:, None] + rng.normal(size=(N, 2)) * (0.3, 0.6)


def fixed(values: np.ndarray) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(values).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, values[0].size)


def scored(folder, task: str, **changes) -> tuple[list[dict], np.ndarray, np.ndarray]:
    target, said = answers(task)
    columns = {"sample_id": [f"s{i:02}" for i in range(N)], "group_id": GROUPS}
    if task == "segmentation":
        columns |= {"confusion": fixed(said[:, 0]), "setting_confusions": fixed(said)}
    else:
        columns |= {"target": target, "prediction": said[:, 0], "setting_numbers": fixed(said)}
    about = {"settings": {"epoch": 2}, "n_train": 9, "n_val": 4, "gates": [], "draw": None}
    metadata = {
        "fingerprint": "f" * 32,
        "dataset": "made",
        "backbone": "net",
        "probe": "tune",
        "seed": 0,
        "kind": "fine_tune",
        "task": task,
        "classes": ["a", "b", "c"] if task == "segmentation" else [],
        "feature_dim": 4,
        "split_method": "given",
        "spatially_random": False,
        "gates": [],
        "settings": {},
        "n_train": 9,
        "n_val": 4,
        "backbone_fingerprint": "b" * 32,
        "headline": None,
        "ignore_index": None,
        "dead_classes": [],
        "paired": ["fine-tuned", "frozen"],
        "scored_settings": [{"name": name, **about} for name in ("fine-tuned", "frozen")],
        **changes,
    }
    write_table(folder / "p.parquet", pa.table(columns), metadata)
    spec = {
        "stage": "bootstrap",
        "dataset": "made",
        "options": SCORING,
        "inputs": {"predictions": "f" * 32},
    }
    score_predictions(
        folder / "p.parquet", folder / "s.parquet", spec=specification(spec), fingerprint="s" * 32
    )
    return read_table(folder / "s.parquet")[0].to_pylist(), target, said


def metric(task: str, target, said, rows) -> float:
    if task == "segmentation":
        return float(evaluate(said[rows].sum(axis=0))["mean_iou"])
    return numbers(target[rows], said[rows])["r2"]


@pytest.mark.parametrize("task", ["segmentation", "regression"])
def test_the_gain_is_the_difference_on_the_same_resamples(tmp_path, task):
    rows, target, said = scored(tmp_path, task)
    name = "mean_iou" if task == "segmentation" else "r2"
    by = {row["setting"]: row for row in rows if row["metric"] == name and row["class"] is None}
    everything = np.arange(N)
    values = [metric(task, target, said[:, k], everything) for k in (0, 1)]
    assert by["fine-tuned"]["value"] == pytest.approx(values[0], abs=1e-12)
    assert by["frozen"]["value"] == pytest.approx(values[1], abs=1e-12)
    gain = by["fine-tuned minus frozen"]
    assert gain["value"] == pytest.approx(values[0] - values[1], abs=1e-12)
    counts = draw_resamples(8, SCORING["resamples"], derive_seed("bootstrap", "made", 0)).counts
    drawn = []
    units = find_units(N, groups=GROUPS).index
    for column in counts.T:
        chosen = np.repeat(everything, column[units])
        drawn.append(np.subtract(*(metric(task, target, said[:, k], chosen) for k in (0, 1))))
    expected = np.quantile(drawn, [0.025, 0.975])
    np.testing.assert_allclose([gain["lower"], gain["upper"]], expected, atol=1e-12)
    # of one test set, the difference is surer than either score
    widths = [by[s]["upper"] - by[s]["lower"] for s in ("fine-tuned", "frozen")]
    assert gain["upper"] - gain["lower"] < sum(widths)


def test_a_gain_has_no_gates_of_scores_and_is_no_draw(tmp_path):
    rows, *_ = scored(tmp_path, "segmentation")
    gain = [row for row in rows if row["setting"] == "fine-tuned minus frozen"]
    assert {row["gates"] for row in gain} == {""} and {row["primary"] for row in gain} == {False}
    assert {row["n_draws"] for row in rows} == {None} and {row["n_train"] for row in gain} == {9}
    assert {row["class"] for row in gain if row["metric"] == "iou"} == {"a", "b", "c"}


def test_a_table_without_a_pair_has_no_gain(tmp_path):
    rows, *_ = scored(tmp_path, "regression", paired=None)
    assert {row["setting"] for row in rows} == {None, "fine-tuned", "frozen"}


def test_a_column_of_another_width_is_refused(tmp_path):
    scored(tmp_path, "segmentation")
    table, metadata = read_table(tmp_path / "p.parquet")
    with pytest.raises(PermafrostError, match="not lists of 27 numbers"):
        settings_from_table(
            table, {**metadata, "scored_settings": metadata["scored_settings"][:1] * 3}
        )
