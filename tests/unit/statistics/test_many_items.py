"""Test sets that are read and summed by blocks: tiny blocks give what all rows together give."""

from __future__ import annotations

import weakref

import numpy as np
import pyarrow as pa
import pytest
from helpers.stages.specifications import specification
from permafrost.core import row_file
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.row_file import RowFile
from permafrost.core.tables import read_table, write_table
from permafrost.metrics import calibration
from permafrost.metrics.calibration import temperature
from permafrost.metrics.classification import top_k_hits
from permafrost.statistics.options import CalibrationOptions
from permafrost.statistics.predictions import calibration as judged
from permafrost.statistics.predictions import columns
from permafrost.statistics.predictions.calibration import Calibration
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.predictions.reading import read_predictions
from permafrost.statistics.replicates import rankings, weighted
from permafrost.statistics.replicates.families import make_family
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.scores import compare as comparing
from permafrost.statistics.scores.comparison_table import compare_predictions
from permafrost.statistics.scores.score_table import score_predictions

N, K = 157, 6
SAME = {"rtol": 1e-12, "atol": 1e-15}


def of_classes(seed=0, kind="softmax"):
    """Targets, predictions and float32 probabilities, with ties and edges of bins for votes."""
    rng = np.random.default_rng(seed)
    target = np.random.default_rng(9).integers(0, K - 1, N)  # the last class is never true
    if kind == "one class":
        target[:] = 2
    logits = 1.5 * rng.normal(size=(N, K)) + 2 * np.eye(K)[target]
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    if kind == "votes":
        chosen = np.where(rng.random((N, 5)) < 0.7, target[:, None], rng.integers(0, K, (N, 5)))
        chosen[:, 0] = target  # no right class without a vote
        scores = np.stack([(chosen == one).mean(axis=1) for one in range(K)], axis=1)
    if kind == "constant":
        scores = np.full((N, K), 1 / K)
    scores = scores.astype(np.float32)
    return target, scores.argmax(axis=1), scores


def of_labels(seed=0, kind="softmax"):
    rng = np.random.default_rng(seed)
    target = (np.random.default_rng(8).random((N, K)) < 0.3).astype(np.uint8)
    target[:, -1] = 0
    logits = rng.normal(size=(N, K)) + 2.0 * target - 1
    scores = 1 / (1 + np.exp(-logits))
    if kind == "votes":
        # some are sure: their logits are infinite
        scores = (
            np.where(target == 1, np.maximum(np.round(scores * 4), 1), np.round(scores * 4) % 4) / 4
        )
    if kind == "constant":
        scores[:] = 0.25
    scores = scores.astype(np.float32)
    return target, (scores > 0.5).astype(np.uint8), scores


MADE = {"classification": of_classes, "multilabel": of_labels}
CASES = [
    *(("classification", kind) for kind in ("softmax", "votes", "constant", "one class")),
    *(("multilabel", kind) for kind in ("softmax", "votes", "constant")),
]
UNITS = {
    "images": np.random.default_rng(1).permutation(N),
    "groups": np.random.default_rng(2).permutation(np.arange(N) % 13 * (np.arange(N) % 2)),
}


@pytest.fixture
def tiny(monkeypatch):
    """Blocks of a few rows and units, and nothing that is held."""
    monkeypatch.setattr(row_file, "BLOCK_BYTES", 7 * K * 4)
    monkeypatch.setattr(temperature, "HELD_BYTES", 0)
    monkeypatch.setattr(columns, "HELD_BYTES", 0)
    monkeypatch.setattr(columns, "_ROWS_TOGETHER", 10)
    for module in (weighted, judged):
        monkeypatch.setattr(module, "MANY_UNITS", 1)
    monkeypatch.setattr(weighted, "_UNITS_TOGETHER", 5)
    monkeypatch.setattr(rankings, "_SUMS_BYTES", 1)
    monkeypatch.setattr(comparing, "_WAITING_BYTES", 0)


def in_file(folder, rows):
    made = RowFile(rows.shape[1], folder, rows.dtype)
    made.append(rows)
    return made


@pytest.mark.parametrize(("task", "kind"), CASES)
@pytest.mark.parametrize("units", UNITS)
def test_calibration_of_blocks_is_that_of_all(tmp_path, request, task, kind, units):
    target, _, scores = MADE[task](kind=kind)
    own = UNITS[units]
    options = CalibrationOptions(bins=15, seed=3)
    drawn = draw_resamples(int(own.max()) + 1, 70, 0)
    whole = Calibration(target, scores, own, task=task, options=options)
    expected, flags = whole.replicates(drawn), {name: whole.flags(name) for name in whole.values}
    values = whole.values
    request.getfixturevalue("tiny")
    for given in (scores, in_file(tmp_path, scores)):
        parts = Calibration(target, given, own, task=task, options=options)
        assert not isinstance(parts.sums, np.ndarray)
        for name, each in parts.replicates(drawn).items():
            np.testing.assert_allclose(each, expected[name], **SAME, err_msg=name)
            np.testing.assert_allclose(parts.values[name], values[name], **SAME)
            assert parts.flags(name) == flags[name]
    assert len(flags) == len(expected) > 8


def test_the_parts_of_temperature_scaling(tmp_path, request):
    for task, kind in CASES:
        target, _, scores = MADE[task](kind=kind)

        def found(given, target=target, task=task):
            fit = calibration.cross_fit(target, given, task=task, seed=0, floor=0.01)
            slopes = calibration.item_slopes(target, given, [0.5, 2.0], task=task, floor=0.01)
            items = calibration.confidence(target, given, task=task)
            whole = [one.value for one in fit.temperatures]
            notes = [one.notes for one in fit.temperatures]
            return [
                fit.scores,
                whole,
                slopes,
                items.confidence,
                items.bin,
                items.hit,
                items.brier,
            ], notes

        expected, notes = found(scores)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_file, "BLOCK_BYTES", 7 * K * 4)
            patch.setattr(temperature, "HELD_BYTES", 0)
            arrays, own = found(in_file(tmp_path, scores))
        assert own == notes
        for one, other in zip(arrays, expected, strict=True):
            np.testing.assert_allclose(one, other, **SAME)


def test_what_is_wrong_in_a_later_block_is_named(tmp_path, tiny):
    target, _, scores = of_classes()
    for row, value, words in ((150, np.nan, "1 of 157 .*row 150"), (99, 0.5, "1 of 157 .*row 99")):
        bad = scores.copy()
        bad[row] = value
        for given in (bad, in_file(tmp_path, bad)):
            with pytest.raises(PermafrostError, match=words):
                calibration.confidence(target, given, task="classification")
    with pytest.raises(PermafrostError, match="are not probabilities"):
        calibration.confidence(target, in_file(tmp_path, scores - 0.1), task="classification")
    bad = scores.copy()
    bad[140, 2] = np.nan
    with pytest.raises(PermafrostError, match="the scores hold NaN"):
        top_k_hits(target, in_file(tmp_path, bad), 5)


def test_top_k_by_blocks(tmp_path, request):
    for kind in ("softmax", "votes", "constant"):
        target, _, scores = of_classes(kind=kind)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :3]
        expected = (order == target[:, None]).any(axis=1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_file, "BLOCK_BYTES", 1)
            np.testing.assert_array_equal(
                top_k_hits(target, in_file(tmp_path, scores), 3), expected
            )


@pytest.mark.parametrize("kind", ["softmax", "votes", "constant"])
def test_rankings_of_few_at_a_time_have_the_same_bytes(monkeypatch, kind):
    arrays = of_labels(kind=kind)
    units = UNITS["groups"]
    drawn = draw_resamples(13, 70, 0)

    def found():
        return make_family(*arrays, task="multilabel", classes=K, units=units).replicates(drawn)

    expected = found()
    monkeypatch.setattr(rankings, "_SUMS_BYTES", 1)
    monkeypatch.setattr(rankings, "_TOTALS_BYTES", 1)
    for name, values in found().items():
        np.testing.assert_array_equal(values, expected[name])


def test_numbers_of_many_units(tiny, monkeypatch):
    rng = np.random.default_rng(0)
    target = rng.normal(size=N)
    one = PredictedNumbers.from_arrays(range(N), target, target + rng.normal(size=N))
    drawn = draw_resamples(N, 70, 0)
    for name, values in one.family(UNITS["images"]).replicates(drawn).items():
        rows = [np.repeat(np.arange(N), counts[UNITS["images"]]) for counts in drawn.counts.T]
        plain = [
            PredictedNumbers.from_arrays(range(len(each)), one.target[each], one.prediction[each])
            for each in rows
        ]
        np.testing.assert_allclose(values, [each.evaluate()[name] for each in plain], rtol=1e-9)


def write(folder, name, task, *, seed=0, shuffled=True, change=None, kind="softmax"):
    """A table of predictions, its rows in any order."""
    target, prediction, scores = MADE[task](seed, kind)
    order = np.random.default_rng(seed).permutation(N) if shuffled else np.arange(N)
    lists = lambda rows: pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), K)  # noqa: E731
    column = lists if task == "multilabel" else pa.array
    table = pa.table(
        {
            "sample_id": [f"image {i:03}" for i in order],
            "group_id": pa.array([None] * N, pa.string()),
            "target": column(target[order]),
            "prediction": column(prediction[order]),
            "scores": lists(scores[order]),
        }
    )
    metadata = {
        "fingerprint": fingerprint("predictions", name), "dataset": "made", "backbone": name,
        "probe": "knn", "kind": "knn", "seed": 0, "task": task,
        "classes": [f"class {i}" for i in range(K)], "settings": {}, "gates": [], "n_train": 5,
        "n_val": 5, "feature_dim": 3, "split_method": "random", "spatially_random": False,
        "backbone_fingerprint": "b",
    }  # fmt: skip
    path = folder / "predictions" / "made" / name / "seed0" / "knn.parquet"
    path.parent.mkdir(parents=True)
    write_table(path, table if change is None else change(table), metadata)
    return path


OPTIONS = {
    "resamples": 70, "confidence": 0.9, "seed": 0,
    "calibration": {"bins": 15, "folds": 5, "floor": None},
}  # fmt: skip


def scored(path, output, task):
    spec = {
        "stage": "bootstrap", "dataset": "made", "task": task, "options": OPTIONS,
        "inputs": {"predictions": fingerprint("predictions", path.parts[-3])},
    }  # fmt: skip
    score_predictions(path, output, spec=specification(spec), fingerprint="f")
    return read_table(output)


def compared(folder, output, task, names):
    options = {**OPTIONS, "calibration": {"bins": 15}}
    given = {f"{name}/seed0": fingerprint("predictions", name) for name in names}
    spec = {
        "stage": "compare", "dataset": "made", "probe": "knn", "task": task, "options": options,
        "inputs": {"predictions": given},
    }  # fmt: skip
    compare_predictions(folder / "predictions", output, spec=specification(spec), fingerprint="f")
    return read_table(output)[0]


def assert_same_rows(one: pa.Table, other: pa.Table) -> None:
    assert one.column_names == other.column_names
    for name in one.column_names:
        left, right = one[name].to_pylist(), other[name].to_pylist()
        if pa.types.is_floating(one.schema.field(name).type):
            left, right = (np.array(each, np.float64) for each in (left, right))
            np.testing.assert_allclose(left, right, **SAME, err_msg=name)
        else:
            assert left == right, name


@pytest.mark.parametrize(("task", "kind"), CASES)
def test_tables_of_scores_from_files(tmp_path, request, task, kind):
    path = write(tmp_path, "one", task, kind=kind)
    expected, about = scored(path, tmp_path / "held.parquet", task)
    request.getfixturevalue("tiny")
    found, own = scored(path, tmp_path / "streamed.parquet", task)
    assert_same_rows(found, expected)
    assert (own["test_set"], own["strays"]) == (about["test_set"], about["strays"])
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "held.parquet", "predictions", "streamed.parquet"
    ]  # fmt: skip


@pytest.mark.parametrize("shuffled", [True, False])
def test_scores_in_a_file_are_in_the_order_of_sample_ids(tmp_path, tiny, shuffled):
    path = write(tmp_path, "one", "classification", shuffled=shuffled)
    read, table, _ = read_predictions(path, scratch=tmp_path)
    assert isinstance(read.scores, RowFile)
    assert "scores" not in table.column_names
    target, prediction, scores = of_classes()
    np.testing.assert_array_equal(np.asarray(read.scores), scores)
    np.testing.assert_array_equal(read.target, target)
    np.testing.assert_array_equal(read.prediction, prediction)
    # labels are ranked, which needs all of their scores
    path = write(tmp_path, "labels", "multilabel", shuffled=shuffled)
    read = read_predictions(path, scratch=tmp_path)[0]
    np.testing.assert_array_equal(read.scores, of_labels()[2])
    assert isinstance(read.scores, np.ndarray)


def test_damaged_columns_of_scores_are_refused(tmp_path, tiny):
    def with_null(table):
        values = table["scores"].to_pylist()
        values[100] = None
        place = table.column_names.index("scores")
        kind = table.schema.field("scores").type
        return table.set_column(place, "scores", pa.array(values, kind))

    path = write(tmp_path, "one", "classification", change=with_null)
    with pytest.raises(PermafrostError, match="'scores' of the prediction table has empty entries"):
        read_predictions(path, scratch=tmp_path)
    path = write(tmp_path, "two", "classification", change=lambda table: table.drop(["scores"]))
    with pytest.raises(PermafrostError, match="has no column scores"):
        read_predictions(path, scratch=tmp_path)


@pytest.mark.parametrize("task", MADE)
def test_comparisons_from_files(tmp_path, request, task):
    names = ["one", "two", "three"]
    for seed, name in enumerate(names):
        write(tmp_path, name, task, seed=seed)
    expected = compared(tmp_path, tmp_path / "held.parquet", task, names)
    assert expected.num_rows == 12
    request.getfixturevalue("tiny")
    assert_same_rows(compared(tmp_path, tmp_path / "streamed.parquet", task, names), expected)


def test_a_comparison_holds_one_backbone_at_a_time():
    alive: list[weakref.ref] = []
    most, asked = 0, []

    class Asked(dict):
        def __getitem__(self, seed):
            nonlocal most
            target, prediction, scores = of_classes(seed)
            one = LabelledSamples.from_arrays(
                range(N), target, prediction, scores,
                task="classification", classes=list(map(str, range(K))),
            )  # fmt: skip
            alive.append(weakref.ref(one))
            asked.append(seed)
            most = max(most, sum(each() is not None for each in alive))
            return one

    rows = comparing.compare(
        Asked.fromkeys(range(5)), resamples=70, seed=0, calibration={"bins": 15}
    )
    assert len(rows) == 40
    assert asked == [0, 1, 2, 3, 4]
    assert most == 1


@pytest.mark.parametrize(("waiting", "draws"), [(0, 5), (1 << 30, 1)])
def test_resamples_serve_all_that_wait(monkeypatch, waiting, draws):
    given = {}
    for seed in range(5):
        target, prediction, scores = of_classes(seed)
        given[str(seed)] = LabelledSamples.from_arrays(
            range(N), target, prediction, scores,
            task="classification", classes=list(map(str, range(K))),
        )  # fmt: skip
    drawn, asked = [], []
    iterate, replicates = comparing.iter_resamples, judged.Calibration.replicates

    def counted(*arguments):
        drawn.append(arguments)
        return iterate(*arguments)

    def noted(self, resamples, metrics=None):
        asked.append((metrics, len(resamples)))
        return replicates(self, resamples, metrics)

    monkeypatch.setattr(comparing, "_WAITING_BYTES", waiting)
    monkeypatch.setattr(comparing, "iter_resamples", counted)
    monkeypatch.setattr(judged.Calibration, "replicates", noted)
    comparing.compare(given, resamples=70, seed=0, calibration={"bins": 15})
    assert len(drawn) == draws
    # each backbone's once, however often they are drawn
    assert sum(asked_for == (["expected_calibration_error"], 70) for asked_for in asked) == 5
