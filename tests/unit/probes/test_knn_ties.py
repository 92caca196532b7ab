"""Answers of nearest neighbours that ties decide, against a brute force that sorts in both orders."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.stages.probing import make_splits
from permafrost.core.row_file import RowFile
from permafrost.probes.knn.probe import KnnOptions, run_knn
from permafrost.probes.knn.sweep import KnnSweepOptions, run_knn_sweep
from permafrost.probes.knn.ties import GATE


def splits_of(train, labels, test, task="classification"):
    """Splits with these rows; the labels of test do not matter."""
    made = make_splits(task=task if task != "regression" else "classification", classes=4)
    given = {"train": (train, labels), "val": (train[:4], labels[:4]), "test": (test, None)}
    found = {}
    for name, (rows, own) in given.items():
        own = np.resize(labels, (len(rows), *labels.shape[1:])) if own is None else own
        attributes = {**made[name].attributes, "task": task}
        found[name] = dataclasses.replace(
            made[name], embeddings=rows, labels=own, attributes=attributes
        )
    return found


def answers_by_sorting(train, labels, test, k, sign):
    """The mean label, or the votes, of the k nearest by (distance, sign * index), with loops."""
    every = []
    for row in test:
        distances = ((train.astype(float) - row) ** 2).sum(axis=1)
        order = sorted(range(len(train)), key=lambda i: (distances[i], sign * i))[:k]
        every.append(labels[order])
    return every


def counted(train, labels, test, k, task):
    first, last = (answers_by_sorting(train, labels, test, k, sign) for sign in (1, -1))
    decided = 0
    for one, other in zip(first, last, strict=True):
        if task == "regression":
            decided += not np.isclose(one.mean(), other.mean())
        elif task == "multilabel":
            half = (2 * one.sum(axis=0) == k).any()
            decided += half or ((2 * one.sum(axis=0) > k) != (2 * other.sum(axis=0) > k)).any()
        else:
            votes, others = (np.bincount(each, minlength=4) for each in (one, other))
            decided += (votes == votes.max()).sum() > 1 or votes.argmax() != others.argmax()
    return int(decided)


def gates_of(train, labels, test, k, task="classification", metric="l2"):
    splits = splits_of(train, labels, test, task)
    gates = run_knn(splits, KnnOptions(k=k, metric=metric), device="cpu", seed=0).gates
    return [gate for gate in gates if gate.startswith(GATE)]


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
@pytest.mark.parametrize("k", [1, 3, 4, 5])
def test_ties_are_counted_as_by_sorting_in_both_orders(task, k):
    rng = np.random.default_rng(k)
    train = rng.integers(0, 4, (90, 2)).astype(np.float32)
    test = rng.integers(0, 4, (50, 2)).astype(np.float32)
    labels = {
        "classification": rng.integers(0, 4, 90),
        "multilabel": rng.integers(0, 2, (90, 4)).astype(np.uint8),
        "regression": rng.normal(size=90),
    }[task]
    expected = counted(train, labels, test, k, task)
    assert expected > 5
    assert gates_of(train, labels, test, k, task) == [f"{GATE}:{expected} of 50"]


def test_equal_distances_that_change_no_answer_are_not_counted():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(20, 3)).astype(np.float32)
    train, labels = np.repeat(places, 6, axis=0), np.repeat(np.arange(20) % 4, 6)
    assert gates_of(train, labels, places, 3) == []
    labels[::2] = (labels[::2] + 1) % 4  # of six equal rows three are of another class
    assert gates_of(train, labels, places, 3) == [f"{GATE}:20 of 20"]


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_distinct_rows_without_equal_votes_have_no_gate(metric):
    rng = np.random.default_rng(1)
    train, labels = rng.normal(size=(80, 5)).astype(np.float32), rng.integers(0, 4, 80)
    test = rng.normal(size=(300, 5)).astype(np.float32)
    assert gates_of(train, labels, test, 1, metric=metric) == []


@pytest.mark.parametrize(("rows", "said"), [(99, True), (100, True), (101, False)])
def test_one_percent_of_the_answers_is_the_least_that_is_said(rows, said):
    train = np.array([[-1.0], [1.0], [50.0], [50.0], [50.0]], np.float32)
    labels = np.array([0, 1, 2, 2, 2])
    test = np.full((rows, 1), 50.0, np.float32)
    test[0] = 0.0  # as far from the first as from the second
    found = gates_of(train, labels, test, 1)
    assert found == ([f"{GATE}:1 of {rows}"] if said else [])


def test_rows_in_a_file_are_counted_alike(tmp_path):
    rng = np.random.default_rng(2)
    train = rng.integers(0, 3, (60, 2)).astype(np.float32)
    test = rng.integers(0, 3, (30, 2)).astype(np.float32)
    labels = rng.integers(0, 4, 60)
    files = []
    for rows in (train, test):
        file = RowFile(2, tmp_path)
        file.append(rows)
        files.append(file)
    assert gates_of(files[0], labels, files[1], 3) == gates_of(train, labels, test, 3) != []


def test_all_training_rows_as_neighbours_leave_no_other_one():
    train, labels = np.zeros((3, 2), np.float32), np.array([2, 2, 1])
    test = np.ones((10, 2), np.float32)
    assert gates_of(train, labels, test, 3) == []
    # of two of the three, which ones are taken decides
    assert gates_of(train, labels, test, 2) == [f"{GATE}:10 of 10"]


@pytest.mark.parametrize("weights", ["uniform", "temperature"])
def test_the_chosen_setting_of_a_sweep_says_it_too(weights):
    rng = np.random.default_rng(3)
    train = rng.integers(0, 4, (90, 2)).astype(np.float32)
    test = rng.integers(0, 4, (50, 2)).astype(np.float32)
    labels = rng.integers(0, 4, 90)
    options = KnnSweepOptions(k=[3], metrics=["l2"], weights=[weights])
    result = run_knn_sweep(splits_of(train, labels, test), options, device="cpu", seed=0)
    said = [gate for gate in result.ranked.gates if gate.startswith(GATE)]
    if weights == "uniform":
        assert said == gates_of(train, labels, test, 3)
    assert len(said) == 1
