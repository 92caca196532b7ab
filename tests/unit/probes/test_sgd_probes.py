"""The probes that are trained by gradient descent: sgd_linear and mlp."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.stages.probe_jobs import options_of
from permafrost.core.errors import PermafrostError
from permafrost.probes.embeddings.features import Features
from permafrost.probes.sgd.linear_probe import run_sgd_linear
from permafrost.probes.sgd.mlp_probe import run_mlp
from permafrost.probes.sgd.training import DescentSchedule, shuffled, train

SGD = {"kind": "sgd_linear", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.0,
       "epochs": 30, "batch_size": 32, "standardize": True}  # fmt: skip
MLP = {"kind": "mlp", "hidden": 16, "learning_rate": 0.05, "weight_decay": 0.0,
       "epochs": 60, "batch_size": 32}  # fmt: skip
PROBES = [(run_sgd_linear, SGD), (run_mlp, MLP)]


def features(x, y, task="classification", classes=3) -> Features:
    names = [f"class {i}" for i in range(classes)]
    return Features(x.astype(np.float32), y, None, {"task": task, "classes": names})


def blobs(noise=0.6, task="classification", seed=0) -> dict[str, Features]:
    """Three splits of three classes of points, in six dimensions of different units."""
    rng = np.random.default_rng(seed)
    centres, units = rng.normal(size=(3, 6)), np.array([1, 100, 0.01, 1, 1, 1])
    splits = {}
    for name, count in (("train", 150), ("val", 60), ("test", 90)):
        y = np.arange(count) % 3
        x = (centres[y] + noise * rng.normal(size=(count, 6))) * units + 5
        labels = y if task == "classification" else np.eye(3, dtype=np.uint8)[y]
        splits[name] = features(x, labels, task)
    return splits


def run(probe, options, splits, seed=0, **changes):
    return probe(splits, options_of(options["kind"], options, **changes), device="cpu", seed=seed)


def accuracy(result, splits) -> float:
    return float((result.prediction == splits["test"].labels).mean())


@pytest.mark.parametrize("task", ["classification", "multilabel"])
@pytest.mark.parametrize(("probe", "options"), PROBES)
def test_separable_classes_are_learned(probe, options, task):
    splits = blobs(task=task)
    result = run(probe, options, splits)
    assert accuracy(result, splits) > 0.9 and result.gates == []
    assert result.scores.dtype == np.float32 and result.scores.shape == (90, 3)
    if task == "classification":
        np.testing.assert_allclose(result.scores.sum(axis=1), 1, atol=1e-6)
    json.dumps(result.settings, allow_nan=False)


@pytest.mark.parametrize(("probe", "options"), PROBES)
def test_a_seed_gives_the_same_bits_and_another_one_others(probe, options):
    splits = blobs()
    first, again, other = (run(probe, options, splits, seed=s).scores for s in (3, 3, 4))
    assert first.tobytes() == again.tobytes() != other.tobytes()


@pytest.mark.parametrize(("probe", "options"), PROBES)
def test_units_of_features_do_not_matter(probe, options):
    splits = blobs()
    scaled = {n: features(s.embeddings * 2.0**10, s.labels) for n, s in splits.items()}
    first, second = (run(probe, options, each).scores for each in (splits, scaled))
    np.testing.assert_allclose(first, second, atol=1e-4)


def test_without_standardising_units_matter():
    splits = blobs()
    plain, standardised = (
        run(run_sgd_linear, SGD, splits, standardize=choice).scores for choice in (False, True)
    )
    assert np.abs(plain - standardised).max() > 0.1


def test_the_learning_rate_is_the_best_on_validation():
    splits = blobs(noise=1.2)
    rates = [1e-6, 0.003, 0.03, 0.3]
    settings = run(run_sgd_linear, SGD, splits, learning_rate=rates[::-1]).settings
    assert settings["learning_rates"] == rates
    for rate, value in zip(rates, settings["val_scores"], strict=True):
        alone = {**splits, "test": splits["val"]}
        result = run(run_sgd_linear, SGD, alone, learning_rate=rate)
        assert accuracy(result, alone) == pytest.approx(value)
    best = int(np.argmax(settings["val_scores"]))
    assert settings["learning_rate"] == rates[best] and settings["val_scores"][0] < 0.7


def test_a_rate_trained_beside_others_ends_as_it_does_alone():
    splits = blobs(noise=1.2)
    grid = run(run_sgd_linear, SGD, splits, learning_rate=[1e-6, 0.01, 2e-6])
    alone = run(run_sgd_linear, SGD, splits, learning_rate=0.01)
    assert grid.settings["learning_rate"] == 0.01
    assert "best_learning_rate_on_edge" in grid.gates
    np.testing.assert_allclose(grid.scores, alone.scores, atol=1e-5)


def test_of_equal_rates_the_smallest_is_taken():
    splits = blobs(noise=0.01)
    settings = run(run_sgd_linear, SGD, splits, learning_rate=[0.3, 0.1]).settings
    assert settings["val_scores"] == [1.0, 1.0] and settings["learning_rate"] == 0.1


def test_one_rate_needs_no_validation():
    splits = blobs()
    splits["val"] = features(np.empty((0, 6)), np.empty(0, np.int64))
    assert run(run_sgd_linear, SGD, splits).settings["val_scores"] == []
    with pytest.raises(PermafrostError, match="no validation sample"):
        run(run_sgd_linear, SGD, splits, learning_rate=[0.1, 0.2])


def test_a_rate_that_diverges_is_flagged_and_not_chosen():
    result = run(run_sgd_linear, SGD, blobs(), learning_rate=[0.1, 1e3], weight_decay=1.0)
    assert result.settings["learning_rate"] == 0.1
    assert result.settings["val_scores"][1] is None
    assert "learning_rate_diverged:1000" in result.gates
    assert np.isfinite(result.scores).all()


@pytest.mark.parametrize(("probe", "options"), PROBES)
def test_training_that_diverges_is_an_error(probe, options):
    with pytest.raises(PermafrostError, match="infinite or NaN"):
        run(probe, options, blobs(), learning_rate=1e3, weight_decay=1.0)


@pytest.mark.parametrize(("probe", "options"), PROBES)
def test_a_class_missing_in_train_keeps_its_id(probe, options):
    splits = blobs()
    known = splits["train"].labels != 1
    splits["train"] = features(splits["train"].embeddings[known], splits["train"].labels[known])
    result = run(probe, options, splits)
    assert result.gates == ["class_missing_in_train:1"]
    assert set(result.prediction) == {0, 2} and result.scores.shape == (90, 3)


@pytest.mark.parametrize(("probe", "options"), PROBES)
def test_collapsed_features_are_flagged(probe, options):
    splits = {n: features(np.ones((30, 4)), np.arange(30) % 3) for n in ("train", "val", "test")}
    result = run(probe, options, splits)
    assert "collapsed_features" in result.gates
    np.testing.assert_allclose(result.scores, 1 / 3, atol=0.05)


@pytest.mark.parametrize(("probe", "options"), PROBES)
def test_train_without_samples_is_an_error(probe, options):
    splits = {**blobs(), "train": features(np.empty((0, 6)), np.empty(0, np.int64))}
    with pytest.raises(PermafrostError, match="train has no sample"):
        run(probe, options, splits)


def test_the_perceptron_reads_what_no_line_separates():
    rng = np.random.default_rng(0)
    splits = {}
    for name, count in (("train", 400), ("val", 50), ("test", 200)):
        x = rng.normal(size=(count, 2))
        splits[name] = features(x, (x[:, 0] * x[:, 1] > 0).astype(np.int64), classes=2)
    assert accuracy(run(run_mlp, MLP, splits), splits) > 0.9
    assert accuracy(run(run_sgd_linear, SGD, splits), splits) < 0.7


class Recorder:
    """A model that notes which rows it is shown."""

    def __init__(self) -> None:
        self.parameters, self.gradients = [np.zeros(1, np.float32)], [np.ones(1, np.float32)]
        self.shown, self.at = [], []

    def backward(self, rows, labels) -> None:
        assert (rows[:, 0] == labels).all()
        self.gradients[0][:] = 1
        self.shown.append(labels.tolist())
        self.at.append(float(self.parameters[0][0]))


def test_every_epoch_shows_all_rows_once_in_an_order_of_its_own():
    model, rows = Recorder(), np.arange(10, dtype=np.float32)[:, None]
    schedule = DescentSchedule((1.0,), epochs=3, batch_size=4, momentum=0.0, weight_decay=0.0)
    train(model, rows, np.arange(10), schedule, shuffled(np.random.default_rng(0), 10))
    assert [len(batch) for batch in model.shown] == [4, 4, 2] * 3
    epochs = [sum(model.shown[i : i + 3], []) for i in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    # the rate falls from epoch to epoch, not from step to step: 1, (1 + cos 60°) / 2, …
    np.testing.assert_allclose(np.diff([*model.at, np.nan])[:8:3], [-1, -0.75, -0.25], atol=1e-6)


def test_neither_probe_imports_torch():
    code = (
        "import sys; import permafrost.probes.sgd.mlp_probe, permafrost.probes.sgd.linear_probe;"
        "print([m for m in ('torch', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
