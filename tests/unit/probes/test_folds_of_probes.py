"""A probe on folds: its pooled answers are those of the probe run by hand on each fold, and of scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from helpers.stages.probe_jobs import configured, job_of
from permafrost.core.tables import read_table
from permafrost.probes.embeddings import folds as pooling
from permafrost.probes.embeddings.features import Features
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.kinds import KINDS
from permafrost.probes.knn.probe import run_knn
from permafrost.probes.linear.probe import run_linear
from permafrost.probes.ridge.probe import run_ridge

CLASSES, WIDTH, COUNT = 3, 6, 90


class Folded:
    """Features of `COUNT` images in `count` folds, in an order of the test split of its own.

    Attributes
    ----------
    home : (COUNT,) fold that tests each image.
    order : image of each row of the test split.
    """

    def __init__(self, task="classification", *, count=4, seed=0, val=0.25) -> None:
        rng = np.random.default_rng(seed)
        self.count, self.home = count, rng.permutation(np.arange(COUNT) % count)
        labels = rng.permutation(np.arange(COUNT) % CLASSES)
        centres = rng.normal(size=(CLASSES, WIDTH))
        self.x = (rng.normal(size=(COUNT, WIDTH)) + centres[labels]).astype(np.float32)
        self.y = {
            "classification": labels,
            "multilabel": (np.arange(CLASSES) == labels[:, None])
            | (rng.random((COUNT, CLASSES)) < 0.3),
            "regression": self.x @ rng.normal(size=WIDTH) + rng.normal(size=COUNT),
        }[task]
        if task == "multilabel":
            self.y = self.y.astype(np.uint8)
        self.val = rng.random((COUNT, count)) < val
        self.order = rng.permutation(COUNT)
        self.task = task

    def of(self, rows, folds=None) -> Features:
        attributes = {
            "task": self.task,
            "classes": [] if self.task == "regression" else [f"c{i}" for i in range(CLASSES)],
            "split_method": "derived",
            "spatially_random": False,
            "gates": [],
        }
        if self.task == "regression":
            attributes["target"] = "height"
        samples = pa.table(
            {
                "sample_id": [f"s{i}" for i in rows],
                "group_id": pa.array([None] * len(rows), pa.string()),
            }
        )
        return Features(self.x[rows], self.y[rows], samples, attributes, folds)

    def rows(self, fold) -> dict[str, np.ndarray]:
        out = self.home != fold
        return {
            "train": np.flatnonzero(out & ~self.val[:, fold]),
            "val": np.flatnonzero(out & self.val[:, fold]),
            "test": self.order[self.home[self.order] == fold],
        }

    def splits(self) -> dict[str, Features]:
        """As `read_features` gives them: each row once, with the folds that it is in."""
        tested = self.home[self.order][:, None] == np.arange(self.count)
        out = self.home[:, None] != np.arange(self.count)
        found = {"test": self.of(self.order, tested)}
        for split, inside in (("train", out & ~self.val), ("val", out & self.val)):
            rows = np.flatnonzero(inside.any(axis=1))
            found[split] = self.of(rows, inside[rows])
        return found

    def by_hand(self, fold) -> dict[str, Features]:
        return {split: self.of(rows) for split, rows in self.rows(fold).items()}


def pooled(folder: Path, data: Folded, run, kind: str, **options):
    """(table, its metadata, job) of a probe on all folds."""
    spec = {
        "stage": kind,
        "dataset": "made",
        "backbone": "net",
        "probe": kind,
        "seed": 0,
        "options": configured(kind, **options),
        "inputs": {"features": "f" * 32},
    }
    job = job_of(spec, output=folder / "pooled.parquet")
    pooling.run_on_folds(run, job, data.splits(), {"device": "cpu", "seed": 5})
    return *read_table(job.output), job


PROBES = [
    ("knn", run_knn, "classification", {"k": 3}),
    ("knn", run_knn, "multilabel", {"k": 3, "metric": "cosine"}),
    ("knn", run_knn, "regression", {"k": 3}),
    ("linear", run_linear, "classification", {"c_count": 4}),
    ("linear", run_linear, "multilabel", {"c_count": 4}),
    ("ridge", run_ridge, "regression", {}),
]


@pytest.mark.parametrize(("kind", "run", "task", "options"), PROBES)
def test_pooled_answers_are_those_of_each_fold_by_hand(tmp_path, kind, run, task, options):
    data = Folded(task)
    table, metadata, job = pooled(tmp_path, data, run, kind, **options)
    assert table["sample_id"].to_pylist() == [f"s{i}" for i in data.order]
    np.testing.assert_array_equal(np.array(table["target"].to_pylist()), data.y[data.order])
    answers, gates = {}, set()
    for fold in range(data.count):
        splits = data.by_hand(fold)
        found = run(splits, job.options, device="cpu", seed=5)
        gates |= {*found.gates}
        for place, sample in enumerate(splits["test"].samples["sample_id"].to_pylist()):
            scores = None if found.scores is None else found.scores[place].tolist()
            answers[sample] = (found.prediction[place].tolist(), scores)
    assert len(answers) == COUNT
    for row in table.to_pylist():
        prediction, scores = answers[row["sample_id"]]
        assert row["prediction"] == prediction
        assert row.get("scores") == scores
    assert {*metadata["gates"]} == gates
    settings = metadata["settings"]["folds"]
    assert len(settings) == data.count
    assert not any(isinstance(one, list | dict) for fold in settings for one in fold.values())


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("seed", range(3))
def test_nearest_neighbours_are_those_of_cross_val_predict(tmp_path, metric, seed):
    """With one neighbour and random features there are no ties."""
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from sklearn.neighbors import KNeighborsClassifier

    # without validation all other folds are train
    data = Folded(count=5, seed=seed, val=0.0)
    table, _, _ = pooled(tmp_path, data, run_knn, "knn", k=1, metric=metric)
    model = KNeighborsClassifier(1, metric={"l2": "euclidean"}.get(metric, metric))
    expected = cross_val_predict(model, data.x.astype(float), data.y, cv=PredefinedSplit(data.home))
    np.testing.assert_array_equal(table["prediction"].to_numpy(), expected[data.order])


@pytest.mark.parametrize("k", [3, 7])
def test_votes_of_two_classes_are_those_of_cross_val_predict(tmp_path, k):
    """With two classes and an odd number of neighbours there are no ties."""
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from sklearn.neighbors import KNeighborsClassifier

    data = Folded(count=5, seed=8, val=0.0)
    data.y = np.minimum(data.y, 1)
    table, _, _ = pooled(tmp_path, data, run_knn, "knn", k=k)
    expected = cross_val_predict(
        KNeighborsClassifier(k),
        data.x.astype(float),
        data.y,
        cv=PredefinedSplit(data.home),
        method="predict_proba",
    )
    scores = np.array(table["scores"].to_pylist())
    np.testing.assert_allclose(scores[:, :2], expected[data.order], atol=1e-6)


def test_an_image_that_is_tested_twice_has_an_answer_of_each_repetition(tmp_path):
    data = Folded(count=4)
    twice = data.splits()
    test = twice["test"]
    # folds 1 and 2 test the images of both once more
    again = np.flatnonzero(test.folds[:, [0, 1]].any(axis=1))
    rows = np.concatenate([np.arange(COUNT), again])
    member = np.zeros((len(rows), 6), bool)
    member[:COUNT, :4] = test.folds
    member[COUNT:, 4:] = test.folds[again][:, [1, 0]]
    splits = {
        "test": data.of(data.order[rows], member),
        **{
            split: data.of(np.flatnonzero(part.any(axis=1)), part[part.any(axis=1)])
            for split, part in (
                ("train", np.eye(6, dtype=bool)[np.arange(COUNT) % 6] | (np.arange(6) == 0)),
                ("val", np.ones((COUNT, 6), bool)),
            )
        },
    }
    seen = []

    def probe(one, options, *, device, seed):
        names = [int(name[1:]) for name in one["test"].samples["sample_id"].to_pylist()]
        seen.append((len(one["train"].labels), seed, device))
        scores = np.zeros((len(names), CLASSES), np.float32)
        scores[:, 0] = len(seen)
        return Prediction(
            np.array(names), scores, {"fold": len(seen), "all": [1]}, [f"g{len(seen) % 2}"]
        )

    spec = {"dataset": "made", "backbone": "net", "probe": "knn", "seed": 0}
    spec |= {"options": configured("knn"), "inputs": {"features": "f" * 32}}
    job = job_of(spec, output=tmp_path / "twice.parquet")
    pooling.run_on_folds(probe, job, splits, {"device": "cpu", "seed": 5})
    table, metadata = read_table(job.output)
    np.testing.assert_array_equal(table["prediction"].to_numpy(), data.order[rows])
    folds = np.array(table["scores"].to_pylist())[:, 0].astype(int) - 1
    np.testing.assert_array_equal(folds, member.argmax(axis=1))
    assert metadata["settings"] == {"folds": [{"fold": i} for i in range(1, 7)]}
    assert metadata["gates"] == ["g0", "g1"]
    assert {one[1:] for one in seen} == {(5, "cpu")} and len(seen) == 6
    # the table tells of the fold with the fewest images to train on, and of all that are tested
    assert metadata["n_train"] == min(one[0] for one in seen)
    assert (metadata["n_val"], metadata["n_test"]) == (COUNT, len(rows))


def test_an_answer_never_sees_an_image_of_its_own_fold(tmp_path):
    """The features of each image are its number, so whoever learned from it would find it."""
    data = Folded(count=3)
    data.x = np.arange(COUNT, dtype=np.float32)[:, None].repeat(WIDTH, 1)

    def probe(one, options, *, device, seed):
        known = {int(x) for split in ("train", "val") for x in one[split].embeddings[:, 0]}
        mine = {int(x) for x in one["test"].embeddings[:, 0]}
        assert not known & mine and known | mine == set(range(COUNT))
        assert one["train"].folds is one["val"].folds is one["test"].folds is None
        return Prediction(np.zeros(len(mine), int), np.zeros((len(mine), CLASSES)), {}, [])

    pooled(tmp_path, data, probe, "knn")


def test_a_class_without_samples_in_a_fold_is_said(tmp_path):
    data = Folded(count=3)
    data.y = np.where(data.home == 1, data.y, np.minimum(data.y, 1))
    _, metadata, _ = pooled(tmp_path, data, run_knn, "knn", k=3)
    assert "class_missing_in_train:2" in metadata["gates"]


def test_every_probe_that_pools_reads_embeddings_and_writes_one_table():
    for name, kind in KINDS.items():
        if kind.pooled:
            assert kind.reads != "images" and kind.leaves in (None, "detections"), name
            assert kind.answers is None, name
