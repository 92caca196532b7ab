"""Probes whose features stay on disk: the same bytes as of features in memory, and the same optimum."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from helpers.linear import fit_linear
from helpers.stages.measuring import FINGERPRINT, write_features
from helpers.stages.probe_jobs import configured, run_probe
from permafrost.core import row_file
from permafrost.core.joined_rows import JoinedRows
from permafrost.core.row_file import RowFile
from permafrost.probes.embeddings import arithmetic, features
from permafrost.probes.embeddings.arithmetic import centre_and_scale
from permafrost.probes.linear import objective
from permafrost.probes.linear.backend import NumpyBackend, TorchBackend
from permafrost.probes.linear.table import Table
from permafrost.probes.ridge import solver

COUNTS = {"train": 170, "val": 61, "test": 90}
LINEAR = {"c_min": 1e-4, "c_max": 1e3, "c_count": 5}
QUICK = {"epochs": 4, "batch_size": 32}
CASES = [
    ("linear", "classification", LINEAR),
    ("linear", "classification", {**LINEAR, "merge_val": False, "standardize": True}),
    ("linear", "classification", {**LINEAR, "ties": "log_loss", "standardize": True}),
    ("linear", "classification", {**LINEAR, "c_count": 2, "solver": "adam"}),
    ("linear", "multilabel", LINEAR),
    ("linear", "multilabel", {**LINEAR, "merge_val": False, "standardize": True}),
    ("linear", "multilabel", {**LINEAR, "c_count": 2, "solver": "adam"}),
    ("ridge", "regression", {"choose": "validation"}),
    ("ridge", "regression", {"choose": "validation", "merge_val": False, "standardize": False}),
    ("ridge", "regression", {"choose": "leave_one_out"}),
    ("sgd_linear", "classification", {**QUICK, "learning_rate": [0.01, 0.1]}),
    ("sgd_linear", "multilabel", {**QUICK, "learning_rate": 0.1, "standardize": False}),
    ("mlp", "classification", {**QUICK, "hidden": 7}),
    ("mlp", "multilabel", {**QUICK, "hidden": 7}),
    ("few_shot", "classification", {"shares": [0.2, 1.0], "per_class": [5], "draws": 2,
     "ranked": {"classifier": "linear", "share": 0.2, "per_class": None}}),
    ("few_shot", "multilabel", {"shares": [0.2], "per_class": [], "draws": 2,
     "ranked": {"classifier": "knn", "share": 0.2, "per_class": None}}),
]  # fmt: skip


def arrays(task="classification", width=7, classes=4, counts=COUNTS, seed=0):
    """(features, labels) by split: noisy, of different units, with equal rows and a constant column."""
    rng = np.random.default_rng(seed)
    weights, found = rng.normal(size=(width, classes)), {}
    for split, count in counts.items():
        x = rng.normal(size=(count, width))
        x[5:9] = x[4]
        logits = x @ weights + rng.gumbel(size=(count, classes))
        x = x * np.geomspace(0.01, 30, width) + 3
        x[:, 2] = 5
        labels = {
            "classification": logits.argmax(axis=1),
            "multilabel": (logits > 1).astype(np.uint8),
            "regression": logits[:, 0],
        }[task]
        found[split] = x.astype(np.float32), labels
    return found


@pytest.fixture
def small_pieces(monkeypatch):
    """Sums over rows in many pieces, as those of large data."""
    monkeypatch.setattr(NumpyBackend, "span_bytes", 4000)
    monkeypatch.setattr(TorchBackend, "span_bytes", 4000)
    monkeypatch.setattr(solver, "CHUNK", 40)


@pytest.fixture
def on_disk(monkeypatch):
    """Called, all features stay on disk and little is read at a time; returns the files."""

    def use(kept=0, block_bytes=999) -> list[RowFile]:
        files: list[RowFile] = []
        made = RowFile.__init__

        def counted(self, *args, **options):
            made(self, *args, **options)
            files.append(self)

        monkeypatch.setattr(RowFile, "__init__", counted)
        monkeypatch.setattr(features, "HELD_BYTES", 0)
        monkeypatch.setattr(features, "BLOCK_BYTES", block_bytes)
        monkeypatch.setattr(row_file, "BLOCK_BYTES", block_bytes)
        monkeypatch.setattr(objective, "KEPT_BYTES", kept)
        return files

    return use


def predictions(folder, kind, task, options, name):
    stores = {}
    for split, (x, y) in arrays(task).items():
        stores[split] = folder / f"{split}.zarr"
        if not stores[split].exists():
            about = {"classes": [] if task == "regression" else list("abcd"), "split": split}
            write_features(stores[split], x, y, task=task, target="height", **about)
    spec = {
        "stage": kind,
        "dataset": "d",
        "backbone": "b",
        "probe": "p",
        "seed": 0,
        "options": configured(kind, **options),
        "inputs": {"features": FINGERPRINT},
    }
    path = folder / f"{name}.parquet"
    run_probe(spec, stores, path, device="cpu")
    return path.read_bytes()


@pytest.mark.parametrize(("kind", "task", "options"), CASES, ids=str)
def test_tables_have_the_bytes_of_features_in_memory(
    kind, task, options, tmp_path, small_pieces, on_disk
):
    held = predictions(tmp_path, kind, task, options, "held")
    files = on_disk()
    assert predictions(tmp_path, kind, task, options, "streamed") == held
    assert len(files) >= 3


def sides(task, folder):
    """Arrays of train and validation, and files of them."""
    made = arrays(task)
    files = {}
    for split, (x, _) in made.items():
        files[split] = RowFile(x.shape[1], folder)
        files[split].append(x)
    (x, y), (val_x, val_y) = made["train"], made["val"]
    return (x, y, val_x, val_y), (files["train"], y, files["val"], val_y)


def same(one, other) -> bool:
    return all(
        getattr(one, name).tobytes() == getattr(other, name).tobytes()
        for name in ("coef", "intercept")
    ) and (one.settings, one.gates) == (other.settings, other.gates)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("kept", [0, 2**30])
def test_a_fit_is_the_same_from_files(backend, task, kept, tmp_path, small_pieces, on_disk):
    held, streamed = sides(task, tmp_path)
    grid = [1e-3, 0.1] if backend == "torch" else [1e-4, 1e-2, 1.0, 100.0, 1e4]
    options = {"n_classes": 4, "task": task, "backend": backend, "c_grid": grid, "keep_path": True}
    known = fit_linear(*held, **options)
    files = on_disk(kept)
    found = fit_linear(*streamed, **options)
    assert same(found, known) and files
    of_margins = {file.width for file in files} - {1 + found.settings["directions"], 8}
    assert bool(of_margins) == (kept == 0)


def test_what_needs_float64_is_the_same_from_files(tmp_path, small_pieces, on_disk, monkeypatch):
    from dataclasses import replace

    from permafrost.probes.linear import path

    real = path.minimise

    def poor(objective, *args, **options):
        found = real(objective, *args, **options)
        return found if objective.backend.precise else replace(found, converged=False)

    monkeypatch.setattr(path, "minimise", poor)
    held, streamed = sides("classification", tmp_path)
    options = {"n_classes": 4, "task": "classification", "c_grid": [0.1, 1.0, 10.0]}
    known = fit_linear(*held, **options)
    files = on_disk()
    assert same(fit_linear(*streamed, **options), known)
    assert np.dtype(np.float64) in {file.dtype for file in files}


def test_features_of_few_samples_and_many_columns_are_the_same_from_files(tmp_path, on_disk):
    made = arrays(width=60, counts={"train": 20, "val": 20})
    (x, y), (val_x, val_y) = made["train"], made["val"]
    files = [RowFile(60, tmp_path) for _ in range(2)]
    for file, rows in zip(files, (x, val_x), strict=True):
        file.append(rows)
    options = {"n_classes": 4, "task": "classification", "c_grid": [0.1, 10.0]}
    known = fit_linear(x, y, val_x, val_y, **options)
    on_disk()
    assert same(fit_linear(files[0], y, files[1], val_y, **options), known)


def test_spans_change_no_more_than_rounding(tmp_path, monkeypatch):
    held, _ = sides("classification", tmp_path)
    options = {"n_classes": 4, "task": "classification"}
    whole = fit_linear(*held, **options)
    monkeypatch.setattr(NumpyBackend, "span_bytes", 4000)
    cut = fit_linear(*held, **options)
    np.testing.assert_allclose(whole.settings["objectives"], cut.settings["objectives"], rtol=1e-7)


def test_nan_in_a_file_is_named_by_its_row(tmp_path, on_disk):
    _, streamed = sides("classification", tmp_path)
    rows = np.ones((100, 7), np.float32)
    rows[[40, 77], 3] = np.nan
    streamed[2].append(rows)
    on_disk()
    labels = np.concatenate([streamed[3], np.zeros(100, int)])
    with pytest.raises(Exception, match="validation features: 2 of 161 rows .* first row 101"):
        fit_linear(*streamed[:3], labels, n_classes=4, task="classification")


def test_memory_does_not_grow_with_the_rows(tmp_path, on_disk, monkeypatch):
    """Twenty times the rows, of which all would be 5 MB."""
    monkeypatch.setattr(NumpyBackend, "span_bytes", 100_000)
    monkeypatch.setattr("permafrost.probes.linear.rotation.CHUNK", 200)
    on_disk(block_bytes=50_000)
    peaks = []
    for count in (1000, 20_000):
        made = arrays(width=64, classes=2, counts={"train": count, "val": 200})
        files = {split: RowFile(64, tmp_path) for split in made}
        for split, (x, _) in made.items():
            files[split].append(x)
        labels = [made[split][1] for split in made]
        del made, x
        tracemalloc.start()
        fit_linear(
            files["train"], labels[0], files["val"], labels[1],
            n_classes=2, task="classification", c_grid=[1e-3, 1e-2],
        )  # fmt: skip
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # labels, their places, weights and predictions: some 100 bytes a row
    assert peaks[1] < peaks[0] + 2.5e6, peaks


# --- pieces


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("count", [1, 999, 5000])
def test_means_and_deviations_are_those_of_numpy_in_blocks_of_any_size(
    width, count, tmp_path, on_disk, monkeypatch
):
    x = (np.random.default_rng(1).normal(size=(count, width)) * 3 + 100).astype(np.float32)
    file = RowFile(width, tmp_path)
    file.append(x)
    known = centre_and_scale(x, True)
    monkeypatch.setattr(arithmetic, "BLOCK_ROWS", 7)
    on_disk()
    for found, expected in zip(centre_and_scale(file, True), known, strict=True):
        assert found.tobytes() == expected.tobytes()
    if width > 1:
        assert known[0].tobytes() == x.mean(axis=0, dtype=np.float64).tobytes()
        if count > 1:
            assert known[1].tobytes() == x.std(axis=0, dtype=np.float64).tobytes()
    np.testing.assert_allclose(known[0], x.mean(axis=0, dtype=np.float64))


def test_joined_rows_are_those_of_their_parts(tmp_path):
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    file = RowFile(3, tmp_path)
    file.append(x[8:15])
    joined = JoinedRows(x[:8], file, x[15:15], x[15:])
    assert joined.shape == (20, 3) and len(joined) == 20 and joined.dtype == np.float32
    for rows in (slice(None), slice(3, 17), slice(8, 15), slice(9, 9), slice(-4, None)):
        np.testing.assert_array_equal(joined[rows], x[rows])
    chosen = np.array([19, 0, 8, 14, 15, 7, 7])
    np.testing.assert_array_equal(joined[chosen], x[chosen])
    np.testing.assert_array_equal(np.asarray(joined, np.float64), x)
    assert joined.file is file and JoinedRows(x, x).file is None
    with pytest.raises(IndexError):
        joined[::2]


def test_the_head_of_a_table_stays_its_head_in_float64(tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    file = RowFile(2, tmp_path)
    file.append(x)
    for rows in (x, file):
        head = Table(NumpyBackend(), rows).head(4).finer(NumpyBackend(precise=True))
        assert head.shape == (4, 2) and head.read(1, 4).dtype == np.float64
        np.testing.assert_array_equal(head.read(1, 4), x[1:4])
