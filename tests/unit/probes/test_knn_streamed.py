"""Probes by neighbours write the same bytes of features in memory and of features on disk."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.measuring import FINGERPRINT, write_features
from helpers.stages.probe_jobs import configured, run_probe
from helpers.stages.probing import make_splits
from permafrost.core import row_file
from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import RowFile
from permafrost.probes import retrieval
from permafrost.probes.embeddings import features as embeddings
from permafrost.probes.kinds import KINDS
from permafrost.probes.knn import rows as knn_rows
from permafrost.probes.knn import search, train_rows

CASES = [
    ("knn", "classification", {"k": 5, "metric": "cosine"}),
    ("knn", "multilabel", {"k": 4, "metric": "l2"}),
    ("knn", "regression", {"k": 7, "metric": "l2"}),
    ("knn", "regression", {"k": 90, "metric": "cosine"}),
    ("knn_sweep", "classification", {"k": [1, 5, 80]}),
    ("knn_sweep", "multilabel", {"k": [3, 20], "metrics": ["l2"]}),
    ("retrieval", "classification", {"metric": "cosine"}),
    ("retrieval", "multilabel", {"metric": "l2", "gallery": "test"}),
]


def stores_of(folder, task: str) -> dict:
    splits = make_splits(
        task="classification" if task == "regression" else task, counts=(90, 31, 43), width=9
    )
    stores = {}
    for number, (split, one) in enumerate(splits.items()):
        rows, labels = one.embeddings.copy(), one.labels
        rows[::4] = 0.5
        if task == "regression":
            labels = np.random.default_rng(number).normal(size=len(labels))
        given = one.attributes | {"task": task, "split": split}
        stores[split] = write_features(folder / f"{split}.zarr", rows, labels, **given)
    return stores


def table_of(stores, kind: str, options: dict, output) -> bytes:
    spec = {
        "stage": kind, "dataset": "made", "backbone": "net", "probe": "p", "seed": 0,
        "options": configured(kind, **options), "inputs": {"features": FINGERPRINT},
    }  # fmt: skip
    run_probe(spec, stores, output, device="cpu")
    return output.read_bytes()


@pytest.mark.parametrize("blocks", ["small train", "many blocks"])
@pytest.mark.parametrize(("kind", "task", "options"), CASES)
def test_streamed_features_give_the_bytes_of_held_ones(
    kind, task, options, blocks, tmp_path, monkeypatch
):
    if blocks == "many blocks":
        monkeypatch.setattr(train_rows, "INDEX_BYTES", 4 * 9 * 20)
        monkeypatch.setattr(train_rows, "QUERY_BYTES", 20_000)
        monkeypatch.setattr(retrieval, "SMALL_BYTES", 0)
        monkeypatch.setattr(retrieval, "GROUP_BYTES", 8 * 90 * 15)
        monkeypatch.setattr(retrieval, "VALUES", 90 * 4)
        monkeypatch.setattr(row_file, "BLOCK_BYTES", 4 * 9 * 11)
    stores = stores_of(tmp_path, task)
    held = table_of(stores, kind, options, tmp_path / "held.parquet")
    read = []

    class Spied(RowFile):
        def __init__(self, *given) -> None:
            super().__init__(*given)
            read.append(self)

        def __array__(self, dtype=None, copy=None):
            raise AssertionError("all rows were read at once")

    monkeypatch.setattr(embeddings, "HELD_BYTES", 0)
    monkeypatch.setattr(embeddings, "RowFile", Spied)
    assert table_of(stores, kind, options, tmp_path / "streamed.parquet") == held
    assert len(read) == 3
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".zarr") == [
        "held.parquet",
        "streamed.parquet",
    ]


@pytest.mark.parametrize(("kind", "task", "options"), [CASES[i] for i in (0, 1, 2, 4, 5, 6, 7)])
def test_blocks_and_votes_in_blocks_change_no_answer(kind, task, options, tmp_path, monkeypatch):
    stores = stores_of(tmp_path, task)
    whole = table_of(stores, kind, options, tmp_path / "whole.parquet")
    monkeypatch.setattr(train_rows, "INDEX_BYTES", 4 * 9 * 20)
    monkeypatch.setattr(train_rows, "QUERY_BYTES", 20_000)
    monkeypatch.setattr(knn_rows, "HELD", 400)
    assert table_of(stores, kind, options, tmp_path / "parts.parquet") == whole


def test_votes_in_blocks_are_those_of_all_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    found = np.argsort(rng.random((70, 40)), axis=1)[:, :9]
    labels, many = rng.integers(0, 5, 40), (rng.random((40, 6)) < 0.4).astype(np.uint8)
    numbers = rng.normal(size=40)

    def answers():
        one = search.vote(found, labels, n_classes=5, task="classification")
        return *one, *search.vote(found, many, n_classes=6, task="multilabel")

    whole, mean = answers(), search.mean_vote(found, numbers)
    counts = np.stack([(labels[found] == label).sum(axis=1) for label in range(5)], axis=1)
    np.testing.assert_array_equal(whole[0], (counts / 9).astype(np.float32))
    np.testing.assert_array_equal(whole[1], counts.argmax(axis=1))
    np.testing.assert_array_equal(whole[2], (many[found].sum(axis=1) / 9).astype(np.float32))
    np.testing.assert_array_equal(whole[3], many[found].sum(axis=1) * 2 > 9)
    np.testing.assert_array_equal(mean, numbers[found].mean(axis=1))
    monkeypatch.setattr(knn_rows, "HELD", 100)
    for one, other in zip(answers(), whole, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(search.mean_vote(found, numbers), mean)


@pytest.mark.parametrize("kind", ["knn", "retrieval"])
def test_k_that_is_too_large_is_refused_of_streamed_features_too(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "HELD_BYTES", 0)
    options = {"knn": {"k": 91}, "retrieval": {"k": [91]}}[kind]
    with pytest.raises(PermafrostError, match="k = 91 .* 90"):
        table_of(stores_of(tmp_path, "classification"), kind, options, tmp_path / "x.parquet")
    assert KINDS[kind].reads == "embeddings"
