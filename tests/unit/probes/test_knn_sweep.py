"""Nearest neighbours under many settings: the grid, the choice, weights, ties, small training sets."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.stages.probe_jobs import options_of
from helpers.stages.probing import make_splits, write_and_score
from permafrost.core.errors import PermafrostError
from permafrost.metrics.classification import accuracy, micro_average_precision
from permafrost.probes.knn.search import knn_predict, neighbours
from permafrost.probes.knn.sweep import name_of, run_knn_sweep, similarities, weighted_vote

OPTIONS = {"k": [1, 5, 20], "metrics": ["l2", "cosine"], "weights": ["uniform", "temperature"],
           "temperature": 0.07}  # fmt: skip
TASKS = ("classification", "multilabel")


def sweep(splits, **changes):
    return run_knn_sweep(splits, options_of("knn_sweep", OPTIONS, **changes), device="cpu", seed=0)


def answers(result) -> dict:
    return {one.name: one.answer for one in result.settings}


@pytest.mark.parametrize("task", TASKS)
def test_every_unweighted_setting_is_what_the_knn_probe_gives(task):
    splits = make_splits(task=task)
    found = answers(sweep(splits))
    assert len(found) == 12
    for metric in ("l2", "cosine"):
        for k in (1, 5, 20):
            scores, prediction = knn_predict(
                splits["train"].embeddings,
                splits["train"].labels,
                splits["test"].embeddings,
                k=k,
                metric=metric,
                n_classes=4,
                task=task,
            )
            expected = scores if task == "multilabel" else prediction
            np.testing.assert_array_equal(found[f"k={k}, {metric}"], expected)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_ranked_is_the_best_on_validation_and_the_first_of_equals(task):
    splits = make_splits(task=task, seed=3)
    result = sweep(splits)
    grid = result.ranked.settings["grid"]
    assert [line["setting"] for line in grid] == [one.name for one in result.settings]
    values = [line["val_score"] for line in grid]
    chosen = name_of(result.ranked.settings)
    assert chosen == grid[int(np.argmax(values))]["setting"]
    # the validation score itself, the slow way
    settings = result.ranked.settings
    train, val = splits["train"], splits["val"]
    if settings["weights"] == "uniform":
        scores, prediction = knn_predict(
            train.embeddings,
            train.labels,
            val.embeddings,
            k=settings["k"],
            metric=settings["metric"],
            n_classes=4,
            task=task,
        )
    else:
        found = neighbours(
            train.embeddings, val.embeddings, settings["k"], metric=settings["metric"]
        )
        near = similarities(train.embeddings, val.embeddings, found)
        scores, prediction = weighted_vote(
            found, near, train.labels, temperature=0.07, n_classes=4, task=task
        )
    right = (
        micro_average_precision(val.labels, scores)
        if task == "multilabel"
        else accuracy(val.labels, prediction)
    )
    assert settings["val_score"] == max(values) == right
    own = result.ranked.scores if task == "multilabel" else result.ranked.prediction
    np.testing.assert_array_equal(own, answers(result)[chosen])


def test_test_labels_and_test_neighbours_decide_nothing():
    splits = make_splits()
    other = dataclasses.replace(splits["test"], labels=splits["test"].labels[::-1].copy())
    one, two = sweep(splits), sweep(splits | {"test": other})
    assert one.ranked.settings == two.ranked.settings


def test_equal_weights_go_to_the_smallest_label_whatever_the_order_of_summation():
    # three labels with the same similarities, met in different orders
    rng = np.random.default_rng(0)
    near, labels = np.tile(rng.random(40), (200, 3)), np.tile(np.repeat(np.arange(3), 40), (200, 1))
    order = np.argsort(rng.random(near.shape), axis=1)
    near, labels = (np.take_along_axis(array, order, axis=1) for array in (near, labels))
    found = np.arange(near.size).reshape(near.shape)
    scores, prediction = weighted_vote(
        found, near, labels.ravel(), temperature=0.07, n_classes=3, task="classification"
    )
    assert (scores == scores[:, :1]).all() and not prediction.any()


def test_duplicates_with_two_labels_tie_and_give_the_smaller():
    splits = make_splits(counts=(40, 20, 20))
    train = splits["train"]
    twice = dataclasses.replace(
        train,
        embeddings=np.concatenate([train.embeddings] * 2),
        labels=np.concatenate([(train.labels + 1) % 4, train.labels]),
    )
    splits |= {"train": twice}
    splits |= {"test": dataclasses.replace(splits["test"], embeddings=train.embeddings[:20])}
    found = answers(sweep(splits, k=[2]))
    expected = np.minimum(train.labels[:20], (train.labels[:20] + 1) % 4)
    for name, answer in found.items():
        np.testing.assert_array_equal(answer, expected, err_msg=name)


def test_no_temperature_is_too_low():
    found, near = np.array([[0, 1]]), np.array([[1.0, -1.0]])
    scores, prediction = weighted_vote(
        found, near, np.array([1, 0]), temperature=1e-6, n_classes=2, task="classification"
    )
    assert scores.tolist() == [[0.0, 1.0]] and prediction.tolist() == [1]


def test_a_zero_vector_is_similar_to_nothing():
    near = similarities(
        np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[6.0, 8.0]]), np.array([[0, 1]])
    )
    np.testing.assert_allclose(near, [[0.0, 1.0]], atol=1e-15)


def test_similarities_do_not_depend_on_the_blocks(monkeypatch):
    splits = make_splits()
    train, test = splits["train"].embeddings, splits["test"].embeddings
    found = neighbours(train, test, 5)
    whole = similarities(train, test, found)
    monkeypatch.setattr("permafrost.probes.knn.distances.RANKED_VALUES", 1)
    np.testing.assert_allclose(similarities(train, test, found), whole, rtol=0, atol=1e-14)


def test_more_neighbours_than_train_has_are_left_out_and_said():
    result = sweep(make_splits(counts=(12, 10, 10)), k=[1, 5, 20, 50])
    assert {one.settings["k"] for one in result.settings} == {1, 5}
    assert {"k_above_train:20", "k_above_train:50"} <= set(result.ranked.gates)
    with pytest.raises(PermafrostError, match="k = 20 neighbours of 12"):
        sweep(make_splits(counts=(12, 10, 10)), k=[20, 50])


def test_the_largest_k_being_best_is_said():
    splits = make_splits(skill=0.0, seed=1, classes=2)
    # noise with one frequent class: the more neighbours, the better
    splits = {
        name: dataclasses.replace(one, labels=(np.arange(len(one.labels)) % 10 == 0).astype(int))
        for name, one in splits.items()
    }
    result = sweep(splits, k=[1, 20], weights=["uniform"])
    assert result.ranked.settings["k"] == 20 and "best_k_on_edge" in result.ranked.gates


def test_one_sample_of_a_class_and_a_class_without_any():
    splits = make_splits(classes=4)
    labels = splits["train"].labels.copy()
    labels[labels == 3] = 2
    labels[:2], labels[labels == 0] = 0, 1
    splits["train"] = dataclasses.replace(splits["train"], labels=labels)
    result = sweep(splits)
    assert "class_missing_in_train:3" in result.ranked.gates
    assert result.ranked.scores.shape == (40, 4) and not result.ranked.scores[:, 3].any()


def test_validation_without_labels_is_an_error():
    splits = make_splits(task="multilabel")
    empty = np.zeros_like(splits["val"].labels)
    splits["val"] = dataclasses.replace(splits["val"], labels=empty)
    with pytest.raises(PermafrostError, match="no validation sample has any label"):
        sweep(splits)


@pytest.mark.parametrize("task", TASKS)
def test_every_setting_has_rows_with_intervals_and_one_row_is_ranked(tmp_path, task):
    splits = make_splits(task=task)
    result = sweep(splits)
    (_, metadata), scores = write_and_score(tmp_path, result, splits, kind="knn_sweep")
    assert metadata["headline"] is None and len(metadata["scored_settings"]) == 12
    rows = scores.to_pylist()
    primary = [row for row in rows if row["primary"]]
    assert len(primary) == 1 and primary[0]["setting"] is None
    metric = "micro_ap" if task == "multilabel" else "accuracy"
    by_setting = {row["setting"]: row for row in rows if row["metric"] == metric}
    truth = splits["test"].labels
    for one in result.settings:
        row = by_setting[one.name]
        right = (
            micro_average_precision(truth, one.answer)
            if task == "multilabel"
            else accuracy(truth, one.answer)
        )
        assert row["value"] == pytest.approx(right, abs=1e-12)
        assert row["lower"] <= row["value"] <= row["upper"] and row["lower"] < row["upper"]
    # the chosen setting and the ranked row are the same predictions on the same resamples
    chosen, ranked = by_setting[name_of(result.ranked.settings)], by_setting[None]
    for key in ("value", "lower", "upper"):
        assert chosen[key] == pytest.approx(ranked[key], abs=1e-12)
