"""Retrieval: what is relevant, rankings, ties, the gallery, means over queries with intervals."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from helpers.stages.probe_jobs import options_of
from helpers.stages.probing import SCORING, make_splits, write_and_score
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.metrics.retrieval import average_precisions, found_within
from permafrost.probes.retrieval import run_retrieval
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.compare import compare

OPTIONS = {"relevant": "class", "gallery": "train", "k": [1, 5, 10], "metric": "cosine"}


def retrieve(splits, **changes):
    return run_retrieval(splits, options_of("retrieval", OPTIONS, **changes))


def distances_to(gallery, query, metric):
    """Float64 distances of one query, written out."""
    gallery, query = gallery.astype(float), query.astype(float)
    if metric == "l2":
        return ((gallery - query) ** 2).sum(axis=1)
    return 1 - gallery @ query / np.linalg.norm(gallery, axis=1) / np.linalg.norm(query)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("gallery", ["train", "val", "test"])
@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_every_query_is_what_brute_force_gives(metric, gallery, task):
    splits = make_splits(task=task, classes=3)
    found = retrieve(splits, metric=metric, gallery=gallery)
    test, there = splits["test"], splits[gallery]
    for row in range(len(test.embeddings)):
        distances = distances_to(there.embeddings, test.embeddings[row], metric)
        relevant = (
            (there.labels == test.labels[row])
            if task == "classification"
            else (there.labels & test.labels[row]).any(axis=1)
        )
        order = np.argsort(distances, kind="stable")
        order = order[order != row] if gallery == "test" else order
        ranked = relevant[order]
        places = np.flatnonzero(ranked)
        assert found.relevant[row] == len(places)
        if len(places):
            precision = np.mean(np.arange(1, len(places) + 1) / (places + 1))
            assert found.precision[row] == pytest.approx(precision, abs=1e-12)
        else:
            assert np.isnan(found.precision[row])
        assert found.found[row].tolist() == [ranked[:k].sum() for k in (1, 5, 10)]


def test_blocks_of_queries_change_nothing(monkeypatch):
    splits = make_splits()
    whole = retrieve(splits, gallery="test")
    monkeypatch.setattr("permafrost.probes.retrieval.VALUES", 130)
    parts = retrieve(splits, gallery="test")
    np.testing.assert_array_equal(whole.found, parts.found)
    np.testing.assert_allclose(whole.precision, parts.precision, atol=1e-12)


def test_equal_distances_are_one_step_for_average_precision_and_ordered_by_place_within_k():
    distances = np.array([[0.1, 0.2, 0.2, 0.2, 0.5]])
    for relevant in ([0, 1, 0, 0, 1], [0, 0, 0, 1, 1]):
        relevant = np.array([relevant], bool)
        # of the relevant one in the step of three: 1 of the first 4; of the last: 2 of 5
        assert average_precisions(distances, relevant)[0] == pytest.approx((1 / 4 + 2 / 5) / 2)
    assert found_within(distances, np.array([[0, 1, 0, 0, 1]], bool), [1, 2, 5]).tolist() == [
        [0, 1, 2]
    ]
    assert found_within(distances, np.array([[0, 0, 0, 1, 1]], bool), [1, 2, 5]).tolist() == [
        [0, 0, 2]
    ]


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_duplicates_in_the_gallery_are_equally_far(metric):
    splits = make_splits(counts=(30, 10, 20), width=37)
    train = splits["train"]
    rng = np.random.default_rng(0)
    # so many that a product of matrices gives equal columns different digits
    repeated = rng.permutation(np.arange(1001) % 30)
    labels = rng.integers(0, 4, 1001)
    splits["train"] = dataclasses.replace(
        train, embeddings=train.embeddings[repeated], labels=labels
    )
    found = retrieve(splits, metric=metric)
    again = rng.permutation(1001)
    splits["train"] = dataclasses.replace(
        train, embeddings=train.embeddings[repeated[again]], labels=labels[again]
    )
    # a step of equals has no order, so neither has its average precision
    np.testing.assert_allclose(
        retrieve(splits, metric=metric).precision, found.precision, atol=1e-12
    )


def test_collapsed_features_find_what_chance_finds():
    splits = make_splits()
    splits = {
        name: dataclasses.replace(one, embeddings=np.ones_like(one.embeddings))
        for name, one in splits.items()
    }
    found = retrieve(splits)
    np.testing.assert_allclose(found.precision, found.relevant / 60)


def test_groups_are_found_among_the_test_images_without_the_query_itself():
    groups = [f"g{i // 2}" for i in range(40)]
    splits = make_splits(groups=groups)
    twins = splits["test"].embeddings.copy()
    twins[1::2] = twins[::2] * 3  # the same direction
    splits["test"] = dataclasses.replace(splits["test"], embeddings=twins)
    found = retrieve(splits, relevant="group", gallery="test")
    assert found.gallery == 39 and found.relevant.tolist() == [1] * 40
    assert found.found[:, 0].tolist() == [1] * 40
    np.testing.assert_allclose(found.precision, 1.0)


def test_groups_that_are_not_known_or_not_shared_are_errors():
    with pytest.raises(PermafrostError, match="40 of 40 images have no group"):
        retrieve(make_splits(), relevant="group", gallery="test")
    splits = make_splits(groups=[f"g{i}" for i in range(40)])
    train = splits["train"].samples.set_column(1, "group_id", pa.array(["other"] * 60))
    splits["train"] = dataclasses.replace(splits["train"], samples=train)
    with pytest.raises(PermafrostError, match="no image of the gallery is of the group"):
        retrieve(splits, relevant="group")


def test_a_class_with_one_test_image_has_nothing_to_find_among_them(tmp_path):
    splits = make_splits()
    labels = splits["test"].labels.copy()
    labels[labels == 3] = 2
    labels[7] = 3
    splits["test"] = dataclasses.replace(splits["test"], labels=labels)
    found = retrieve(splits, gallery="test")
    assert np.flatnonzero(np.isnan(found.precision)).tolist() == [7]
    assert found.gates == ["queries_without_relevant:1"]
    _, scores = write_and_score(tmp_path, found, splits, kind="retrieval", options=OPTIONS)
    value = {row["metric"]: row["value"] for row in scores.to_pylist()}["mean_ap"]
    assert value == pytest.approx(np.nanmean(found.precision))


def test_fewer_images_than_k():
    splits = make_splits(counts=(7, 10, 20))
    found = retrieve(splits)
    assert found.ks == [1, 5] and found.gates == ["k_above_gallery:10"]
    with pytest.raises(PermafrostError, match="k = 10 nearest images of 7"):
        retrieve(splits, k=[10])


def test_scores_are_means_over_queries_and_resamples_draw_groups(tmp_path):
    splits = make_splits(groups=[f"g{i // 4}" for i in range(40)])
    found = retrieve(splits)
    (table, metadata), scores = write_and_score(
        tmp_path, found, splits, kind="retrieval", options=OPTIONS
    )
    rows = {row["metric"]: row for row in scores.to_pylist()}
    recall = found.found / found.relevant[:, None]
    expected = {"mean_ap": found.precision}
    for place, k in enumerate((1, 5, 10)):
        expected[f"recall_at_{k}"] = recall[:, place]
        expected[f"hit_at_{k}"] = (found.found[:, place] > 0).astype(float)
    assert rows.keys() == expected.keys()
    counts = draw_resamples(10, SCORING["resamples"], derive_seed("bootstrap", "made", 0)).counts
    units = find_units(40, groups=[f"g{i // 4}" for i in range(40)]).index
    for metric, values in expected.items():
        row = rows[metric]
        assert row["value"] == pytest.approx(values.mean(), abs=1e-12)
        drawn = [np.repeat(values, c[units]).mean() for c in counts.T.astype(int)]
        bounds = np.quantile(drawn, [0.025, 0.975])
        assert [row["lower"], row["upper"]] == pytest.approx(bounds, abs=1e-9)
        assert (row["unit"], row["n_units"], row["task"]) == ("group", 10, "retrieval")
    assert [m for m, row in rows.items() if row["primary"]] == ["mean_ap"]
    assert build_leaderboard([scores])["metric"][0].as_py() == "mean_ap"
    # paired with itself there is no difference, of which ten groups leave a width; with another gallery it is refused
    one = predictions_from_table(table, metadata)
    (row,) = compare({"a": one, "b": one}, resamples=50, seed=0)
    assert row["metric"] == "mean_ap" and row["difference"] == 0 and row["p_value"] == 1
    assert [row["lower"], row["upper"]] == pytest.approx([0.025**0.1 - 1, 1 - 0.025**0.1])
    other = dataclasses.replace(one, rules=("other",))
    with pytest.raises(PermafrostError, match="different rules"):
        compare({"a": one, "b": other}, resamples=50, seed=0)


def test_a_resample_without_any_defined_query_is_undefined():
    splits = make_splits()
    found = retrieve(splits)
    from permafrost.statistics.predictions.queries import _Means

    values = np.full(40, np.nan)
    values[3] = 0.5
    assert found.gallery == 60
    drawn = draw_resamples(40, 200, 1)
    means = _Means({"mean_ap": values}, np.arange(40)).replicates(drawn)["mean_ap"]
    np.testing.assert_array_equal(np.isnan(means), drawn.counts[3] == 0)
    assert set(means[~np.isnan(means)]) == {0.5}
