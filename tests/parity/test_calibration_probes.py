"""Calibration of real probes, from features to score rows, equals torchmetrics' and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.probe_jobs import options_of
from permafrost.probes.embeddings.features import Features
from permafrost.probes.knn.probe import run_knn
from permafrost.probes.linear.probe import run_linear
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.scores.bootstrap import bootstrap_scores

torch = pytest.importorskip("torch")
functional = pytest.importorskip("torchmetrics.functional.classification")
brier_score = pytest.importorskip("sklearn.metrics").brier_score_loss
NORMS = {
    "expected_calibration_error": "l1",
    "rms_calibration_error": "l2",
    "maximum_calibration_error": "max",
}
LINEAR = {"c_min": 1e-2, "c_max": 1e2, "c_count": 4, "merge_val": True, "standardize": False,
          "solver": "lbfgs", "ties": "smallest"}  # fmt: skip
PROBES = {
    "knn 1": (run_knn, options_of("knn", {"k": 1, "metric": "l2"})),
    "knn 5": (run_knn, options_of("knn", {"k": 5, "metric": "l2"})),
    "knn 20": (run_knn, options_of("knn", {"k": 20, "metric": "cosine"})),
    "linear": (run_linear, options_of("linear", LINEAR)),
}


def splits(task, classes=4, width=6):
    """Features of overlapping classes; for multi-label, of labels that overlap too."""
    rng = np.random.default_rng(0)
    centres, found = rng.normal(size=(classes, width)), {}
    for name, count in (("train", 120), ("val", 40), ("test", 160)):
        if task == "multilabel":
            labels = (rng.random((count, classes)) < 0.35).astype(np.uint8)
            means = labels @ centres
        else:
            labels = rng.integers(0, classes, count)
            means = centres[labels]
        features = (means + 1.2 * rng.normal(size=means.shape)).astype(np.float32)
        about = {"task": task, "classes": [f"class {one}" for one in range(classes)]}
        found[name] = Features(features, labels, None, about)
    return found


@pytest.mark.parametrize("task", ["classification", "multilabel"])
@pytest.mark.parametrize("probe", PROBES)
def test_score_rows_equal_the_oracles(task, probe):
    run, options = PROBES[probe]
    data = splits(task)
    result, target = run(data, options, device="cpu", seed=0), data["test"].labels
    found = LabelledSamples.from_arrays(
        [f"{number:03}" for number in range(len(target))],
        target,
        result.prediction,
        result.scores,
        task=task,
        classes=data["test"].classes,
    )
    judged = {"bins": 15, "like": "torchmetrics", "folds": 5, "floor": 1e-3, "seed": 0}
    values = {
        row["metric"]: row["value"]
        for row in bootstrap_scores(found, resamples=10, seed=0, calibration=judged)
        if row["class"] is None
    }
    scores = result.scores
    if probe.startswith("knn"):
        # an edge of torchmetrics can be the next number above i / n: votes on edges must not be below
        scores = np.where((scores > 0) & (scores < 1), np.nextafter(scores, np.float32(2)), scores)
    given, truth = torch.as_tensor(scores), torch.as_tensor(target).long()
    for name, norm in NORMS.items():
        if task == "multilabel":
            expected = functional.binary_calibration_error(given.ravel(), truth.ravel(), 15, norm)
        else:
            expected = functional.multiclass_calibration_error(given, truth, 4, 15, norm)
        assert values[name] == pytest.approx(float(expected), abs=2e-6), name
    if task == "multilabel":
        brier = np.mean([brier_score(target[:, k], result.scores[:, k]) for k in range(4)])
    else:
        exact = result.scores.astype(np.float64)
        exact /= exact.sum(axis=1, keepdims=True)
        brier = brier_score(target, exact, labels=range(4), scale_by_half=False)
    assert values["brier_score"] == pytest.approx(brier, abs=1e-6)
    assert values["brier_score_scaled"] <= values["brier_score"] + 0.01
