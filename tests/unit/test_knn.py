"""Nearest neighbours: votes, ties, several k, errors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.probes.knn import knn_predict, neighbours, vote

SINGLE = {"metric": "l2", "task": "classification"}


def test_vote_shares_cover_all_classes_and_ties_go_to_the_lowest_id():
    train = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32)
    scores, prediction = knn_predict(
        train, np.array([3, 1, 3, 1]), train[:1], k=4, n_classes=5, **SINGLE
    )
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, [[0, 0.5, 0, 0.5, 0]])
    assert prediction.tolist() == [1]


def test_equal_distances_at_the_last_place_go_to_the_lowest_train_index():
    train = np.array([[2.0], [-1.0], [1.0], [-1.0], [1.0]] * 20, np.float32)
    found = neighbours(train, np.zeros((1, 1), np.float32), 3)
    assert found.tolist() == [[1, 2, 3]]


def test_all_train_rows_equal_gives_the_first_ones():
    train = np.full((200, 4), 7.0, np.float32)
    assert neighbours(train, train[:2], 5).tolist() == [[0, 1, 2, 3, 4]] * 2


def test_one_search_serves_several_k():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(80, 6)), rng.normal(size=(11, 6))
    labels = rng.integers(0, 4, 80)
    found = neighbours(train, test, 9)
    for k in (1, 5, 9):
        once = knn_predict(train, labels, test, k=k, n_classes=4, **SINGLE)
        again = vote(found[:, :k], labels, n_classes=4, task="classification")
        np.testing.assert_array_equal(once[0], again[0])
        np.testing.assert_array_equal(once[1], again[1])


def test_multilabel_scores_are_the_mean_of_neighbour_labels_and_half_is_not_enough():
    train = np.array([[0.0], [1.0]], np.float32)
    labels = np.array([[1, 0, 1], [0, 0, 1]])
    scores, prediction = knn_predict(
        train, labels, train[:1], k=2, metric="l2", n_classes=3, task="multilabel"
    )
    np.testing.assert_array_equal(scores, [[0.5, 0, 1]])
    np.testing.assert_array_equal(prediction, [[0, 0, 1]])
    assert prediction.dtype == np.uint8


def test_cosine_ignores_length_and_accepts_a_zero_vector():
    train = np.array([[10.0, 0.0], [0.0, 0.1], [0.0, 0.0]])
    found = neighbours(train, np.array([[0.0, 5.0], [0.0, 0.0]]), 1, metric="cosine")
    assert found.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 5}, "k = 5 neighbours of 4"),
        ({"k": 0}, "k = 0 neighbours of 4"),
        ({"metric": "manhattan"}, "unknown metric"),
        ({"task": "regression"}, "unknown task"),
        ({"train_y": np.array([0, 1, 2, 3])}, "outside 0..1"),
        ({"train_y": np.array([0, 1, 1])}, "shape"),
        ({"test_x": np.array([[np.nan]])}, "NaN"),
        ({"test_x": np.zeros((1, 2))}, "dimensions"),
    ],
)
def test_bad_input_is_an_error_that_names_it(change, message):
    arguments = {
        "train_x": np.arange(4.0)[:, None],
        "train_y": np.array([0, 1, 0, 1]),
        "test_x": np.zeros((1, 1)),
        "k": 1,
        "n_classes": 2,
        **SINGLE,
        **change,
    }
    with pytest.raises(PermafrostError, match=message):
        knn_predict(**arguments)


def test_a_gpu_that_is_not_there_is_an_error():
    import faiss

    if hasattr(faiss, "StandardGpuResources"):
        pytest.skip("this faiss can use a GPU")
    with pytest.raises(PermafrostError, match="GPU"):
        neighbours(np.zeros((3, 1)), np.zeros((1, 1)), 1, device="cuda")


def test_knn_imports_no_torch_and_no_scikit_learn():
    code = (
        "import sys, numpy as np; from permafrost.probes.knn import neighbours;"
        "neighbours(np.zeros((3, 2)), np.zeros((1, 2)), 1);"
        "print([m for m in ('torch', 'sklearn', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
