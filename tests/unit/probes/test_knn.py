"""Nearest neighbours: votes, ties, several k, errors."""

from __future__ import annotations

import functools
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from helpers.ties import TIES, brute_force, with_ties
from permafrost.core.errors import PermafrostError
from permafrost.probes.knn import rows as knn_rows
from permafrost.probes.knn import search, train_rows
from permafrost.probes.knn.search import first_copies, knn_predict, neighbours, vote

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


@pytest.mark.parametrize("held", [1, 3_000, 1_000_000])
@pytest.mark.parametrize("k", [1, 7, 120, 400])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize(
    "kind",
    TIES,
)
def test_ties_are_those_of_brute_force_in_blocks_of_any_size(kind, metric, k, held, monkeypatch):
    monkeypatch.setattr(knn_rows, "HELD", held)
    train, test = with_ties(kind)
    expected = brute_force(train, test, k, metric)
    np.testing.assert_array_equal(neighbours(train, test, k, metric=metric), expected)


def test_of_equal_rows_the_first_are_kept():
    rows = np.array([[1.0, 2], [0, 0], [1, 2], [-0.0, 0], [2, 1], [1, 2], [0, 0]])
    assert first_copies(rows, 1).tolist() == [0, 1, 4]
    assert first_copies(rows, 2).tolist() == [0, 1, 2, 3, 4]
    assert first_copies(rows, 3).tolist() == list(range(7))


def test_different_rows_with_equal_keys_are_all_kept():
    # both are 0 in float64, which the keys are made of
    rows = np.array([[2**60], [2**60 + 1], [2**60], [2**60 + 1], [5], [5]])
    assert first_copies(rows, 1).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["identical", "nearly identical", "collapsed"])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_ties_take_no_memory(kind, metric):
    rng = np.random.default_rng(0)
    train, test = (rng.normal(size=(n, 16)).astype(np.float32) for n in (20_000, 1_500))
    black, dark = rng.random(20_000) < 0.3, rng.random(1_500) < 0.3
    if kind == "collapsed":
        black[:], dark[:] = True, True
    noise = 1e-3 if kind == "nearly identical" else 0.0
    train[black] = 0.5 + noise * train[black]
    test[dark] = 0.5 + noise * test[dark]
    tracemalloc.start()
    neighbours(train, test, 5, metric=metric)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6


class GpuLike:
    """An index with FAISS's limit on a GPU."""

    def __init__(self, index):
        self.index, self.add, self.reset, self.asked = index, index.add, index.reset, []

    def search(self, queries, count):
        assert count <= 2048, "FAISS fetches at most 2,048 neighbours on a GPU"
        self.asked.append(count)
        return self.index.search(queries, count)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("k", [5, 2040])
@pytest.mark.parametrize("kind", ["nearly identical", "few values"])
def test_a_gpu_is_never_asked_for_more_neighbours_than_faiss_can_fetch_there(
    kind, k, blocks, monkeypatch
):
    import faiss

    made = []
    if blocks > 1:  # one after the other on the GPU
        width = 12 if kind == "few values" else 6
        monkeypatch.setattr(train_rows, "INDEX_BYTES", 4 * width * 3000)

    def to_gpu(resources, number, index):
        made.append(GpuLike(index))
        return made[-1]

    resources = []
    monkeypatch.setattr(
        faiss, "StandardGpuResources", lambda: resources.append(object()), raising=False
    )
    monkeypatch.setattr(
        search, "_gpu_resources", functools.cache(search._gpu_resources.__wrapped__)
    )
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    monkeypatch.setattr("permafrost.core.device.faiss_fails_on_gpu", lambda number: None)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", to_gpu, raising=False)
    rng = np.random.default_rng(2)
    if kind == "few values":
        train, test = rng.integers(0, 2, (9000, 12)), rng.integers(0, 2, (5, 12))
    else:
        train, test = 1 + 1e-4 * rng.normal(size=(9000, 6)), 1 + 1e-4 * rng.normal(size=(5, 6))
        train[0] = 1000.0
    found = neighbours(train, test, k, device="cuda")
    np.testing.assert_array_equal(found, brute_force(train, test, k, "l2"))
    assert len(made) == 1
    assert made[0].asked == ([21] * (blocks if k == 5 else 0))
    neighbours(train, test, 1, device="cuda")
    assert len(made) == 2 and len(resources) == 1


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
        ({"metric": "manhattan"}, "no metric 'manhattan'"),
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
        "import sys, numpy as np; from permafrost.probes.knn.search import neighbours;"
        "neighbours(np.zeros((3, 2)), np.zeros((1, 2)), 1);"
        "print([m for m in ('torch', 'sklearn', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
