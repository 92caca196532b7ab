"""The stages that measure features: what they write, on which rows, and what they say of bad input."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from helpers.stages.measuring import OPTIONS, measure, mixture, pair, write_features
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.tables import read_table
from permafrost.metrics.representation import LABELLED, MEASURES, cka_matrix, measures
from permafrost.statistics.measures import similarities
from permafrost.statistics.measures.rows import read_rows
from permafrost.statistics.resampling.intervals import expanded
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units

GROUPS = [f"scene {i // 5}" for i in range(90)]


def run(folder, features, labels=None, *, options=None, **store) -> dict[str, dict]:
    """Rows of the stage by the name of the measure, with their notes."""
    path = write_features(folder / "train.zarr", features, labels, **store)
    measure(path, folder / "measures.parquet", **(options or {}))
    rows = read_table(folder / "measures.parquet")[0].to_pylist()
    return {row["metric"]: {**row, "notes": json.loads(row["settings"])} for row in rows}


def test_values_and_intervals_are_those_of_the_measures_by_the_effect_of_each_group(tmp_path):
    """Student's t by hand: the error is that of the terms about their mean, times (U / (U - 1)) ** 1.5."""
    quantile = pytest.importorskip("scipy.stats").t.ppf
    features, labels = mixture()
    rows = run(tmp_path, features, labels, groups=GROUPS)
    units = find_units(len(GROUPS), groups=GROUPS).index
    found = measures(features, labels, seed=0, units=units)
    counts = draw_resamples(18, 60, derive_seed("bootstrap", "demo", 0)).counts
    assert list(rows) == list(MEASURES)
    for name, row in rows.items():
        assert row["value"] == pytest.approx(found[name].value, nan_ok=True)
        one = found[name]
        assert (row["unit"], row["n_units"], row["n_rows"]) == ("group", 18, 90)
        if one.scale == "count":
            drawn = expanded(one.replicates(counts), 18, 0.9)
            ends = np.quantile(drawn, [0.05, 0.95])
            assert (row["method"], row["resamples"]) == ("percentile", 60)
        elif one.terms is not None:
            terms = one.terms[:, 0] - one.terms.mean()
            error = (18 / 17) ** 1.5 * np.sqrt(np.sum(terms**2))
            kurtosis = 18 * np.sum(terms**4) / np.sum(terms**2) ** 2
            half = quantile(0.95, min(2 * 18 / (kurtosis - 1), 17)) * error
            about = np.log(one.value) if one.scale == "log" else one.value
            ends = np.array([about - half, about + half])
            ends = np.exp(ends) if one.scale == "log" else ends
            assert row["method"] == f"jackknife_{'log' if one.scale == 'log' else 't'}"
        else:
            ends = [np.nan, np.nan]
        assert [row["lower"], row["upper"]] == pytest.approx(list(ends), rel=1e-4, nan_ok=True)


def test_no_row_can_be_ranked(tmp_path):
    for row in run(tmp_path, *mixture()).values():
        assert row["primary"] is False and row["higher_is_better"] is None
        assert (row["n_train"], row["n_val"], row["n_test"]) == (90, None, None)


def test_measures_are_switched_by_name_and_keep_their_order(tmp_path):
    options = {"names": ["silhouette", "rankme", "uniformity"]}
    rows = run(tmp_path, *mixture(), options=options)
    assert list(rows) == ["uniformity", "rankme", "silhouette"]


def test_of_many_samples_the_same_ones_are_drawn_for_every_backbone(tmp_path):
    features, labels = mixture(200)
    drawn = np.random.Generator(np.random.PCG64(derive_seed("measures", "demo", 3)))
    rows = np.sort(drawn.choice(200, 70, replace=False))
    expected = measures(features[rows], labels[rows], seed=0)
    found = run(tmp_path, features, labels, options={"max_rows": 70, "seed": 3})
    for name, row in found.items():
        assert row["value"] == pytest.approx(expected[name].value, nan_ok=True)
        assert row["notes"]["rows"] == 70 and row["notes"]["drawn_from"] == 200
        assert (row["n_units"], row["n_rows"], row["n_train"]) == (70, 70, 200)


@pytest.mark.parametrize(
    ("task", "labels", "reason"),
    [
        ("segmentation", None, "samples of the task 'segmentation' have no class"),
        ("regression", np.arange(90) / 7, "samples of the task 'regression' have no class"),
        ("multilabel", np.eye(3, dtype=np.uint8)[np.arange(90) % 3], "not single classes"),
    ],
)
def test_measures_of_classes_are_undefined_with_the_reason_where_there_are_none(
    tmp_path, task, labels, reason
):
    features, _ = mixture()
    rows = run(tmp_path, features, labels, task=task)
    for name, row in rows.items():
        if name in LABELLED:
            assert np.isnan(row["value"]) and reason in row["notes"]["undefined"]
            assert row["n_undefined"] == row["resamples"]
        elif name != "alpha_req":  # which takes 21 dimensions
            assert np.isfinite([row["value"], row["lower"], row["upper"]]).all()


def test_collapsed_features_are_undefined_or_flagged_everywhere(tmp_path):
    rows = run(tmp_path, np.full((40, 30), 0.7, np.float32), np.arange(40) % 2)
    for name, row in rows.items():
        assert ("undefined" in row["notes"]) == bool(np.isnan(row["value"])), name
        assert {"undefined", "flag"} & set(row["notes"]), name
    assert rows["rankme"]["value"] == pytest.approx(1, abs=1e-4)


def test_duplicates_and_classes_of_one_row_are_counted(tmp_path):
    features, labels = mixture(60)
    labels = labels.copy()
    labels[labels == 2] = 1
    labels[0] = 2
    features[1] = features[2] = features[3]
    rows = run(tmp_path, features, labels)
    assert {row["notes"]["duplicates"] for row in rows.values()} == {2}
    for name in LABELLED:
        assert rows[name]["notes"]["singletons"] == 1


def test_few_rows_leave_what_needs_more_undefined(tmp_path):
    rows = run(tmp_path, *mixture(4))
    assert {name for name, row in rows.items() if "undefined" in row["notes"]} >= {
        "dimension_two_nn",
        "dimension_mle",
        "alpha_req",
    }
    assert np.isfinite(rows["rankme"]["value"])


def test_a_single_group_has_values_and_no_intervals(tmp_path):
    rows = run(tmp_path, *mixture(), groups=["one"] * 90)
    row = rows["rankme"]
    assert np.isfinite(row["value"]) and np.isnan([row["lower"], row["upper"]]).all()
    assert (
        row["notes"]["interval"]
        == "no interval: a single group does not show how far others would move it"
    )


def test_few_groups_are_marked(tmp_path):
    for groups, marked in ((5, True), (6, False)):
        folder = tmp_path / str(groups)
        folder.mkdir()
        rows = run(folder, *mixture(), groups=[f"{row % groups}" for row in range(90)])
        assert {row["gates"] for row in rows.values()} == {"few_units" if marked else ""}


def test_nan_names_the_sample_and_the_store(tmp_path):
    features, labels = mixture(80)
    features[41, 3] = np.nan
    with pytest.raises(PermafrostError, match="1 embeddings.*'sample 0041'") as caught:
        run(tmp_path, features, labels)
    assert "train.zarr" in str(caught.value.where)


def test_an_empty_split_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(PermafrostError, match="no samples to measure") as caught:
        run(tmp_path, np.zeros((0, 4), np.float32))
    assert "split" in caught.value.remedy


def test_the_log_says_what_is_undefined(tmp_path):
    features, _ = mixture()
    path = write_features(tmp_path / "train.zarr", features, task="detection")
    line = measure(path, tmp_path / "m.parquet")
    assert line.startswith("demo | net: 8 measures of 90 samples of train, undefined: alpha_req")


# --- pairs --------------------------------------------------------------------------------------


def slow_cka(x, y) -> float:
    """From Gram matrices without diagonals, as Song et al. write the unbiased estimator."""

    def hsic(a, b):
        n = len(a)
        k, m = a @ a.T, b @ b.T
        np.fill_diagonal(k, 0)
        np.fill_diagonal(m, 0)
        total = np.trace(k @ m) + k.sum() * m.sum() / ((n - 1) * (n - 2))
        return (total - 2 / (n - 2) * (k @ m).sum()) / (n * (n - 3))

    x, y = x.astype(np.float64), y.astype(np.float64)
    return hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y))


def three(folder, rows: int = 90, **store) -> dict[str, np.ndarray]:
    """Stores of three backbones: one, the same turned and noisy, and one that never varies."""
    features, labels = mixture(rows)
    generator = np.random.default_rng(1)
    turned = features @ generator.normal(size=(12, 20)) + generator.normal(size=(rows, 20))
    found = {"b": features, "a": turned.astype(np.float32), "c": np.ones((rows, 4), np.float32)}
    for name, values in found.items():
        write_features(folder / f"demo/{name}/train.zarr", values, labels, **store)
    return found


def pairs(folder, names, **options) -> dict[tuple, dict]:
    pair(folder, folder / "s.parquet", names, **options)
    rows = read_table(folder / "s.parquet")[0].to_pylist()
    return {(row["backbone_a"], row["backbone_b"]): row for row in rows}


def test_every_pair_is_measured_once_with_an_interval(tmp_path):
    features = three(tmp_path, groups=GROUPS)
    found = pairs(tmp_path, ["b", "a", "c"])
    assert list(found) == [("a", "b"), ("a", "c"), ("b", "c")]
    row = found["a", "b"]
    assert row["value"] == pytest.approx(slow_cka(features["a"], features["b"]), rel=1e-9)
    assert row["lower"] < row["value"] < row["upper"] and row["n_units"] == 18
    for other in (found["a", "c"], found["b", "c"]):
        assert np.isnan([other["value"], other["lower"]]).all()
        assert "all rows of one backbone are equal" in json.loads(other["notes"])["undefined"]


def test_pairs_are_measured_on_the_rows_that_single_backbones_are_measured_on(tmp_path):
    features = three(tmp_path, 200)
    generator = np.random.Generator(np.random.PCG64(derive_seed("measures", "demo", 0)))
    rows = np.sort(generator.choice(200, 50, replace=False))
    row = pairs(tmp_path, ["a", "b"], max_rows=50)["a", "b"]
    expected = slow_cka(features["a"][rows], features["b"][rows])
    assert row["value"] == pytest.approx(expected, rel=1e-9)
    assert row["n_rows"] == 50 and json.loads(row["notes"])["drawn_from"] == 200


def test_each_store_is_read_once_though_nothing_of_it_is_kept(tmp_path, monkeypatch):
    three(tmp_path, 200)
    write_features(tmp_path / "demo/d/train.zarr", *mixture(200, seed=5))
    names = ["a", "b", "c", "d"]
    expected = pairs(tmp_path, names, max_rows=50)
    read = []

    def counted(path, *arguments, **options):
        read.append(path.parent.name)
        return read_rows(path, *arguments, **options)

    monkeypatch.setattr(similarities, "read_rows", counted)
    monkeypatch.setattr(similarities, "cka_matrix", partial(cka_matrix, kept_bytes=0))
    before = sorted(tmp_path.iterdir())
    assert str(pairs(tmp_path, names, max_rows=50)) == str(expected)
    assert sorted(read) == ["a", "b", "c", "d"]
    assert sorted(tmp_path.iterdir()) == before


def test_features_of_different_samples_are_never_compared(tmp_path):
    three(tmp_path)
    features, labels = mixture()
    ids = [f"sample {89 - i:04}" for i in range(90)]
    write_features(tmp_path / "demo/d/train.zarr", features, labels, ids=ids)
    with pytest.raises(PermafrostError, match="'a' and 'd' are of different samples"):
        pairs(tmp_path, ["a", "d"])


def test_options_are_those_that_a_plan_gives():
    assert OPTIONS.keys() == {"split", "max_rows", "seed", "names", "bootstrap"}
