"""Nearest neighbours of train sets that are read in blocks, from arrays and from files."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from helpers.ties import TIES, brute_force, with_ties
from permafrost.core import row_file
from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import RowFile
from permafrost.probes.knn import distances as knn_distances
from permafrost.probes.knn import exact, search, train_rows
from permafrost.probes.knn import rows as knn_rows
from permafrost.probes.knn.distances import by_differences, distances_in_order, unit
from permafrost.probes.knn.rows import Rows, equal_rows, first_copies
from permafrost.probes.knn.search import NeighbourSearch, neighbours
from permafrost.probes.knn.sweep import similarities


def in_file(rows, folder) -> RowFile:
    made = RowFile(rows.shape[1], folder, rows.dtype)
    made.append(rows)
    return made


@pytest.fixture(params=["rows", "dozens"])
def blocks(request, monkeypatch):
    """Blocks of a row or two, or of some dozens, wherever rows are read, searched or compared."""
    few = request.param == "rows"
    monkeypatch.setattr(train_rows, "INDEX_BYTES", 40 if few else 2_000)
    monkeypatch.setattr(train_rows, "QUERY_BYTES", 1 if few else 20_000)
    monkeypatch.setattr(row_file, "BLOCK_BYTES", 100 if few else 3_000)
    monkeypatch.setattr(knn_rows, "HELD", 40 if few else 500)
    monkeypatch.setattr(knn_distances, "RANKED_VALUES", 50 if few else 700)
    monkeypatch.setattr(knn_distances, "PAIRED_VALUES", 50 if few else 700)
    monkeypatch.setattr(exact, "PAIRED_VALUES", 50 if few else 700)


def shortened(kind: str):
    train, test = with_ties(kind)
    return train[:130], np.concatenate([test[:6], train[3:5]])


@pytest.mark.parametrize("k", [1, 7, 60, 120, 130])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("kind", TIES)
def test_blocks_give_what_brute_force_gives(kind, metric, k, blocks, tmp_path):
    train, test = shortened(kind)
    expected = brute_force(train, test, k, metric)
    np.testing.assert_array_equal(neighbours(train, test, k, metric=metric), expected)
    found = neighbours(in_file(train, tmp_path), in_file(test, tmp_path), k, metric=metric)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_a_large_offset_hides_no_neighbour(metric, offset, blocks, tmp_path):
    rng = np.random.default_rng(0)
    train, test = (rng.normal(size=(n, 8)) + offset for n in (200, 9))
    expected = brute_force(train, test, 5, metric)
    np.testing.assert_array_equal(neighbours(train, test, 5, metric=metric), expected)
    found = neighbours(in_file(train, tmp_path), in_file(test, tmp_path), 5, metric=metric)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_zero_vectors_and_rows_of_equal_direction(metric, blocks, tmp_path):
    rng = np.random.default_rng(1)
    train = rng.integers(0, 3, (90, 3)).astype(np.float32)
    train[rng.random(90) < 0.3] = 0.0
    train[40:60] = 4 * train[:20]
    test = np.concatenate([np.zeros((2, 3)), train[20:25], -train[:3]]).astype(np.float32)
    for k in (1, 4, 90):
        found = neighbours(in_file(train, tmp_path), test, k, metric=metric)
        np.testing.assert_array_equal(found, brute_force(train, test, k, metric))


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_blocks_of_real_size_give_the_bits_of_a_small_train_set(metric, monkeypatch, tmp_path):
    rng = np.random.default_rng(2)
    train, test = (rng.normal(size=(n, 48)).astype(np.float32) for n in (6_000, 300))
    train[rng.random(6_000) < 0.3] = 0.5
    test[::3] = 0.5
    expected = neighbours(train, test, 10, metric=metric)
    near = similarities(train, test, expected)
    monkeypatch.setattr(train_rows, "INDEX_BYTES", 48 * 4 * 700)
    monkeypatch.setattr(train_rows, "QUERY_BYTES", 200_000)
    found = neighbours(in_file(train, tmp_path), in_file(test, tmp_path), 10, metric=metric)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(similarities(in_file(train, tmp_path), test, found), near)


def test_an_array_keeps_its_indexes_and_a_file_has_one(monkeypatch, tmp_path):
    monkeypatch.setattr(train_rows, "INDEX_BYTES", 4 * 8 * 100)
    filled = []
    fill = NeighbourSearch._fill

    def counted(self, index, rows):
        filled.append(rows)
        assert index.ntotal == 0
        return fill(self, index, rows)

    monkeypatch.setattr(NeighbourSearch, "_fill", counted)
    train, test = with_ties("nearly identical rows")
    expected = brute_force(train, test, 3, "l2")
    for source, times in ((train, 4), (in_file(train, tmp_path), 8)):
        filled.clear()
        one = NeighbourSearch(source, 3)
        for _ in range(2):
            np.testing.assert_array_equal(one.find(test), expected)
        assert len(filled) == times
    monkeypatch.setattr(search, "KEPT_BYTES", 10)
    filled.clear()
    one = NeighbourSearch(train, 3)
    one.find(test), one.find(test)
    assert len(filled) == 8


def test_without_its_proof_a_search_in_blocks_would_miss_neighbours(monkeypatch):
    import faiss

    # products, whatever the number of queries
    monkeypatch.setattr(faiss.cvar, "distance_compute_blas_threshold", 1)
    rng = np.random.default_rng(6)
    train, test = (50 + 1e-2 * rng.normal(size=(n, 24)).astype(np.float32) for n in (600, 150))
    train[0] = 1e4
    expected = brute_force(train, test, 5, "l2")
    monkeypatch.setattr(train_rows, "INDEX_BYTES", 10_000)
    np.testing.assert_array_equal(neighbours(train, test, 5), expected)
    candidates = NeighbourSearch._candidates

    def believed(self, queries, count):
        numbers, single, _ = candidates(self, queries, count)
        return numbers, single, np.zeros(len(queries))

    monkeypatch.setattr(NeighbourSearch, "_candidates", believed)
    assert (neighbours(train, test, 5) != expected).any()


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("run", [2, search.IN_DOUBT, search.IN_DOUBT + 1, 24, 60])
@pytest.mark.parametrize("first", [0, 3, 4, 5, 30])
def test_distances_that_float32_cannot_tell_apart_are_ordered_in_float64(metric, run, first):
    rng = np.random.default_rng([run, first])
    # distances of rows grow with their place, and those of a run differ in the last bits of float64
    angles = np.linspace(0.1, 1.5, 200)
    angles[first : first + run] = angles[first] + 1e-9 * np.arange(run)
    angles = rng.permutation(angles)
    train = np.zeros((200, 12))
    train[:, :2] = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    test = np.zeros((7, 12))
    test[:, 0] = 1.0
    expected = brute_force(train, test, 5, metric)
    np.testing.assert_array_equal(neighbours(train, test, 5, metric=metric), expected)


def test_distances_that_float32_proves_are_not_computed_again(monkeypatch):
    rng = np.random.default_rng(3)
    train, test = (rng.standard_normal((n, 16)) for n in (3000, 200))
    one, computed = NeighbourSearch(train, 5), []
    distances = one.known.distances

    def counted(queries, numbers):
        computed.append(numbers.size)
        return distances(queries, numbers)

    monkeypatch.setattr(one.known, "distances", counted)
    np.testing.assert_array_equal(one.find(test), brute_force(train, test, 5, "l2"))
    assert sum(computed) < 200 * 5


def test_products_that_round_hide_no_neighbour(monkeypatch):
    rng = np.random.default_rng(8)
    # products are off by more than the steps between distances, many of which are equal
    train, test = (1e7 + rng.integers(0, 4, (n, 6)) / 4 for n in (500, 40))
    expected = brute_force(train, test, 6, "l2")
    one = exact.ExactNeighbours(train, 0.0, 6, "l2")
    for held in (60, 600, 1_000_000):
        monkeypatch.setattr(knn_rows, "HELD", held)
        np.testing.assert_array_equal(one.find(test, np.full(40, np.inf)), expected)
    monkeypatch.setattr(knn_rows, "HELD", 60)
    monkeypatch.setattr(one, "_rounding", lambda squares: np.zeros(len(squares)))
    assert (one.find(test, np.full(40, 1e3)) != expected).any()


@pytest.mark.parametrize("where", ["train", "test"])
def test_nan_is_refused_with_its_row(where, blocks, tmp_path):
    train, test = with_ties("identical rows")
    bad = {"train": train, "test": test}[where]
    bad[[41, 50], 3] = np.nan, np.inf
    with pytest.raises(PermafrostError, match=f"2 of {len(bad)} rows hold NaN.*first row 41") as e:
        neighbours(in_file(train, tmp_path), in_file(test, tmp_path), 3)
    assert f"{where} features" in str(e.value)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("width", [1, 3, 8, 37])
def test_distances_in_order_are_to_the_last_bit_those_by_differences(
    metric, width, blocks, tmp_path
):
    rng = np.random.default_rng(3)
    train, test = (rng.normal(size=(n, width)).astype(np.float32) for n in (150, 20))
    for c in (1, 5, 150):
        candidates = np.argsort(rng.random((20, 150)), axis=1)[:, :c]
        candidates[:, 0] = 3
        rows, asked = (unit(train), unit(test)) if metric == "cosine" else (train, test)
        expected = by_differences(rows, asked, candidates, metric)
        read = Rows(in_file(train, tmp_path), metric)
        np.testing.assert_array_equal(distances_in_order(read, asked, candidates, metric), expected)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_kept_rows_read_as_those_of_an_array(metric, tmp_path):
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(60, 3)).astype(np.float32)
    kept = np.flatnonzero((rng.random(60) < 0.6) & (np.arange(60) % 50 < 25))
    expected = unit(rows[kept]) if metric == "cosine" else rows[kept]
    for source in (rows, in_file(rows, tmp_path)):
        some = Rows(source, metric, kept)
        assert some.shape == expected.shape and some.dtype == expected.dtype
        for part in (slice(2, 9), slice(None), slice(10, 25), np.array([7, 0, 7, 12]), slice(3, 3)):
            np.testing.assert_array_equal(some[part], expected[part])


def test_equal_rows_are_found_in_blocks(blocks, tmp_path):
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 2, (120, 3)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.1] = -0.0
    firsts = [next(i for i in range(120) if (rows[i] == row).all()) for row in rows]
    for source in (rows, in_file(rows, tmp_path)):
        assert equal_rows(source).tolist() == firsts
        for most in (1, 5, 200):
            ranks = [firsts[:i].count(first) for i, first in enumerate(firsts)]
            kept = [i for i, rank in enumerate(ranks) if rank < most]
            assert first_copies(source, most).tolist() == kept


def test_rows_with_equal_keys_are_compared(monkeypatch, blocks):
    monkeypatch.setattr(knn_rows, "_keys", lambda rows: np.zeros(len(rows), np.uint64))
    rows = np.repeat(np.arange(5.0), 2)[:, None]
    assert equal_rows(rows).tolist() == list(range(10))
    assert equal_rows(np.ones((6, 2))).tolist() == [0] * 6


@pytest.mark.parametrize("kind", ["plain", "identical", "nearly identical", "collapsed"])
@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_memory_does_not_grow_with_train_or_its_ties(metric, kind, monkeypatch, tmp_path):
    rng = np.random.default_rng(7)
    monkeypatch.setattr(train_rows, "INDEX_BYTES", 500_000)
    monkeypatch.setattr(train_rows, "QUERY_BYTES", 500_000)
    monkeypatch.setattr(row_file, "BLOCK_BYTES", 500_000)
    monkeypatch.setattr(knn_rows, "HELD", 100_000)
    peaks = []
    for count in (6_000, 48_000):
        train, test = RowFile(64, tmp_path), rng.normal(size=(150, 64)).astype(np.float32)
        for start in range(0, count, 6_000):
            rows = rng.normal(size=(6_000, 64)).astype(np.float32)
            black = rng.random(6_000) < {"plain": 0.0, "collapsed": 1.0}.get(kind, 0.3)
            rows[black] = 0.5 + (1e-4 if kind == "nearly identical" else 0.0) * rows[black]
            rows[start and 0] += 1.0
            train.append(rows)
        test[::3] = 0.5
        tracemalloc.start()
        neighbours(train, test, 5, metric=metric)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 48,000 rows are 12 MB, and 25 MB in double precision
    assert peaks[1] < peaks[0] + 60 * 42_000 and peaks[1] < 12e6
