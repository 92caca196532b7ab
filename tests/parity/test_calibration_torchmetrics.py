"""Calibration errors equal a brute force, and torchmetrics' on request; Brier scores scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.metrics import calibration as ours

torch = pytest.importorskip("torch")
functional = pytest.importorskip("torchmetrics.functional.classification")
NORMS = {
    "expected_calibration_error": "l1",
    "rms_calibration_error": "l2",
    "maximum_calibration_error": "max",
}


def softmax_scores(rows=500, classes=7, sharpness=2.0):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(rows, classes)) * sharpness
    target = (logits + generator.gumbel(size=logits.shape) * 1.5).argmax(axis=1)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return target, (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)


def votes(k, rows=400, classes=4):
    generator = np.random.default_rng(1)
    counts = generator.multinomial(k, [0.55, 0.25, 0.15, 0.05], size=rows)
    return generator.integers(0, classes, rows), (counts / k).astype(np.float32)


CASES = {
    "softmax": softmax_scores(),
    "sure": softmax_scores(sharpness=40.0),
    "votes of 5": votes(5),
    "votes of 20": votes(20),
    "votes of 1": votes(1),
}


@pytest.mark.parametrize("bins", [1, 10, 15])
@pytest.mark.parametrize("case", CASES)
def test_classification(case, bins):
    target, scores = CASES[case]
    found = ours.evaluate(target, scores, task="classification", n_bins=bins, like="torchmetrics")
    if case.startswith("votes"):
        # torchmetrics' edges can be the next number above i / n: a vote on an edge must not be below
        scores = np.where(scores < 1, np.nextafter(scores, np.float32(2)), scores)
    for name, norm in NORMS.items():
        expected = functional.multiclass_calibration_error(
            torch.as_tensor(scores), torch.as_tensor(target), scores.shape[1], bins, norm
        )
        assert found[name] == pytest.approx(float(expected), abs=2e-6), name


@pytest.mark.parametrize("bins", [1, 10, 15])
@pytest.mark.parametrize("case", CASES)
def test_textbook_by_brute_force(case, bins):
    """Bins of Guo et al. (2017), one after the other; a confidence of exactly 1 is in the last one."""
    target, scores = CASES[case]
    trust, right = scores.max(axis=1), scores.argmax(axis=1) == target
    gaps, shares = [], []
    for number in range(bins):
        low, high = np.float32(number / bins), np.float32((number + 1) / bins)
        inside = (trust >= low) & ((trust < high) | (number == bins - 1))
        if inside.any():
            gaps.append(abs(right[inside].mean() - trust[inside].mean(dtype=np.float64)))
            shares.append(inside.mean())
    gaps, shares = np.array(gaps), np.array(shares)
    found = ours.evaluate(target, scores, task="classification", n_bins=bins)
    assert found["expected_calibration_error"] == pytest.approx(gaps @ shares, abs=1e-12)
    assert found["rms_calibration_error"] == pytest.approx(np.sqrt(gaps**2 @ shares), abs=1e-12)
    assert found["maximum_calibration_error"] == pytest.approx(gaps.max(), abs=1e-12)


def test_one_sure_item_is_no_bin_of_its_own_unless_as_in_torchmetrics():
    scores = np.array([[0.05, 0.95]] * 19 + [[0.0, 1.0]], np.float32)
    target = np.array([1] * 19 + [0])
    textbook = ours.evaluate(target, scores, task="classification", n_bins=10)
    assert textbook["maximum_calibration_error"] == pytest.approx(0.0025, abs=1e-6)
    theirs = ours.evaluate(target, scores, task="classification", n_bins=10, like="torchmetrics")
    assert theirs["maximum_calibration_error"] == 1.0


@pytest.mark.parametrize("bins", [10, 15])
def test_multilabel_is_binary_over_all_entries(bins):
    generator = np.random.default_rng(2)
    scores = np.round(generator.random((200, 6)), 1).astype(np.float32)
    target = (generator.random((200, 6)) < scores**2).astype(np.uint8)
    found = ours.evaluate(target, scores, task="multilabel", n_bins=bins, like="torchmetrics")
    for name, norm in NORMS.items():
        expected = functional.binary_calibration_error(
            torch.as_tensor(scores).ravel(), torch.as_tensor(target).long().ravel(), bins, norm
        )
        assert found[name] == pytest.approx(float(expected), abs=2e-6), name


def test_an_edge_of_torchmetrics_can_be_off_by_a_rounding():
    """What the test above steps around: 2 votes of 5 are 6 / 15, and belong to the bin from there."""
    edge = torch.linspace(0, 1, 16)[6]
    assert edge > np.float32(0.4)
    scores = np.full((1, 1), 0.4, np.float32)
    assert ours.confidence([[1]], scores, task="multilabel", n_bins=15).bin[0, 0] == 6


def test_brier_scores():
    brier = pytest.importorskip("sklearn.metrics").brier_score_loss
    target, scores = softmax_scores()
    found = ours.evaluate(target, scores, task="classification")["brier_score"]
    expected = brier(target, scores, labels=range(7), scale_by_half=False)
    assert found == pytest.approx(expected, abs=1e-6)
    labels = (scores > 0.3).astype(int)
    found = ours.evaluate(labels, scores, task="multilabel")["brier_score"]
    expected = np.mean([brier(labels[:, label], scores[:, label]) for label in range(7)])
    assert found == pytest.approx(expected, abs=1e-6)
