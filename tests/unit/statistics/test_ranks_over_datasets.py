"""Ranks over datasets: ties, missing results, and the mean of the middle half."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.across_datasets.ranks import (
    add_mean_ranks,
    add_ranks,
    kendall_tau,
    mean_rank_rows,
    mean_tied_ranks,
    missing_results,
)
from permafrost.statistics.across_datasets.standings import interquartile_mean

SCORES = {
    # dataset: backbone: accuracy
    "eurosat": {"a": 0.9, "b": 0.8, "c": 0.8},
    "ucmerced": {"a": 0.5, "b": 0.7, "c": 0.6},
    "resisc": {"a": 0.6, "b": 0.4, "c": 0.9},
}


def rows_of(scores=None, probe="knn", seed=0, metric="accuracy", primary=True, name=None):
    return [
        {
            "dataset": dataset,
            "backbone": backbone,
            "probe": probe,
            "seed": seed,
            "metric": metric,
            "class": name,
            "setting": None,
            "value": value,
            "primary": primary,
            "higher_is_better": metric != "error",
        }
        for dataset, found in (scores or SCORES).items()
        for backbone, value in found.items()
    ]


def table_of(*parts):
    schema = {"class": pa.string(), "setting": pa.string(), "value": pa.float64()}
    rows = [row for part in parts for row in part]
    columns = {name: pa.array([row[name] for row in rows], schema.get(name)) for name in rows[0]}
    return pa.table(columns)


def ranks_of(table, column="rank"):
    keys = zip(*(table.column(name).to_pylist() for name in ("dataset", "backbone")), strict=True)
    return dict(zip(keys, table.column(column).to_pylist(), strict=True))


def test_ties_share_the_mean_rank_and_nan_has_none():
    found = mean_tied_ranks([0.5, 0.9, 0.5, np.nan, 0.1, 0.5])
    assert found == pytest.approx([3, 1, 3, np.nan, 5, 3], nan_ok=True)
    assert mean_tied_ranks([2.0, 1.0], higher_is_better=False).tolist() == [2, 1]
    assert mean_tied_ranks([]).tolist() == []


def test_mean_tied_ranks_equal_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(0).integers(0, 8, 40).astype(float)
    assert np.array_equal(mean_tied_ranks(values, False), stats.rankdata(values))


def test_ranks_stay_within_dataset_probe_metric_and_seed():
    table = add_ranks(
        table_of(
            rows_of(),
            rows_of({"eurosat": {"a": 0.1, "b": 0.2}}, probe="linear"),
            rows_of({"eurosat": {"a": 0.3, "b": 0.2}}, seed=1),
            rows_of({"eurosat": {"a": 0.3, "b": 0.2}}, metric="error", primary=False),
            rows_of({"eurosat": {"a": 0.3, "b": 0.2}}, metric="recall", name="x", primary=False),
        )
    )
    first = table.slice(0, 9)
    assert [ranks_of(first)["eurosat", name] for name in "abc"] == [1, 2.5, 2.5]
    assert [ranks_of(first)["ucmerced", name] for name in "abc"] == [3, 1, 2]
    assert table.column("rank").to_pylist()[9:] == [2, 1, 1, 2, 2, 1, None, None]


def test_mean_ranks_average_over_datasets_and_are_sorted():
    rows = mean_rank_rows(add_ranks(table_of(rows_of())))
    assert [row["backbone"] for row in rows] == ["c", "a", "b"]
    means = {row["backbone"]: row["mean_rank"] for row in rows}
    assert means == pytest.approx({"a": 6 / 3, "b": 6.5 / 3, "c": 5.5 / 3})


def test_seeds_are_averaged_before_datasets():
    one, two = {"eurosat": {"a": 0.9, "b": 0.1}}, {"eurosat": {"a": 0.1, "b": 0.9}}
    other = {"resisc": {"a": 0.9, "b": 0.1}}
    table = add_ranks(table_of(rows_of(one), rows_of(two, seed=1), rows_of(other)))
    means = {row["backbone"]: row["mean_rank"] for row in mean_rank_rows(table)}
    assert means == pytest.approx({"a": (1.5 + 1) / 2, "b": (1.5 + 2) / 2})


def test_the_mean_rank_is_that_of_the_mean_over_seeds():
    # b wins two seeds by little and loses one by much
    seeds = [{"a": 0.50, "b": 0.51}, {"a": 0.50, "b": 0.51}, {"a": 0.90, "b": 0.20}]
    table = table_of(*(rows_of({"eurosat": found}, seed=s) for s, found in enumerate(seeds)))
    assert {r["backbone"]: r["mean_rank"] for r in mean_rank_rows(table)} == {"a": 1, "b": 2}
    # the ranks of single scores stay where they were
    assert add_ranks(table).column("rank").to_pylist() == [2, 1, 2, 1, 1, 2]


def test_the_same_scores_from_other_seeds_tie():
    seeds = [{"a": 0.1, "b": 0.3}, {"a": 0.2, "b": 0.2}, {"a": 0.3, "b": 0.1}]
    table = table_of(*(rows_of({"eurosat": found}, seed=s) for s, found in enumerate(seeds)))
    assert [row["mean_rank"] for row in mean_rank_rows(table)] == [1.5, 1.5]


def test_a_metric_of_which_less_is_better_is_ranked_the_other_way():
    seeds = [{"a": 0.1, "b": 0.3}, {"a": 0.4, "b": 0.3}]
    table = table_of(
        *(rows_of({"x": found}, seed=s, metric="error") for s, found in enumerate(seeds))
    )
    assert {r["backbone"]: r["mean_rank"] for r in mean_rank_rows(table)} == {"a": 1, "b": 2}


def test_a_backbone_that_lacks_a_seed_has_no_mean_rank_but_stays_in_the_field():
    seeds = [{"a": 0.9, "b": 0.5, "c": 0.1}, {"a": 0.9, "b": np.nan, "c": 0.1}]
    table = table_of(*(rows_of({"eurosat": found}, seed=s) for s, found in enumerate(seeds)))
    rows = {row["backbone"]: row for row in mean_rank_rows(table)}
    assert (rows["b"]["mean_rank"], rows["b"]["missing"]) == (None, ["eurosat, seed 1"])
    assert (rows["a"]["mean_rank"], rows["c"]["mean_rank"]) == (1, 3)


def test_a_missing_result_is_named_and_not_averaged_over():
    scores = {name: dict(found) for name, found in SCORES.items()}
    del scores["resisc"]["a"]
    scores["ucmerced"]["b"] = np.nan
    table = add_mean_ranks(add_ranks(table_of(rows_of(scores), rows_of(probe="linear"))))
    assert missing_results(table) == [
        "a under knn: resisc, seed 0",
        "b under knn: ucmerced, seed 0",
    ]
    found = {
        (probe, backbone): mean
        for probe, backbone, mean in zip(
            *(table.column(name).to_pylist() for name in ("probe", "backbone", "mean_rank")),
            strict=True,
        )
    }
    assert found["knn", "a"] is None
    assert found["knn", "b"] is None
    assert found["knn", "c"] is not None
    assert found["linear", "a"] == pytest.approx(2)


def test_the_same_score_twice_is_refused():
    with pytest.raises(PermafrostError, match="'a' has two scores on 'eurosat'"):
        add_ranks(table_of(rows_of(), rows_of({"eurosat": {"a": 0.2}})))


def test_a_table_without_rows_stays_without_rows():
    empty = add_ranks(table_of(rows_of()).slice(0, 0))
    assert add_mean_ranks(empty).column_names[-2:] == ["rank", "mean_rank"]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11])
def test_interquartile_mean_equals_the_trimmed_mean(n):
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(n).random((3, n))
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25, axis=1))


def test_kendalls_tau_is_scipys_with_ties_and_without():
    from scipy.stats import kendalltau

    rng = np.random.default_rng(3)
    for high in (3, 10, 1000):
        a, b = rng.integers(0, high, (2, 40)) / 2
        assert kendall_tau(a, b) == pytest.approx(kendalltau(a, b).statistic)
        assert kendall_tau(a.tolist(), (-a).tolist()) == pytest.approx(kendalltau(a, -a).statistic)
    assert np.isnan(kendall_tau([1.0, 1.0, 1.0], [1, 2, 3])) and np.isnan(kendall_tau([1], [2]))
