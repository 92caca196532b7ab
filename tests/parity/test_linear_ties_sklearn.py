"""The choice among equally good values of C against log-losses by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.linear import fit_linear
from permafrost.core.errors import PermafrostError
from permafrost.probes.linear.ties import first_or_surest, log_loss

RNG = np.random.default_rng(0)


def test_log_loss_of_classes():
    import sklearn.metrics

    logits, labels = RNG.normal(size=(50, 4)) * 30, RNG.integers(0, 4, 50)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    # scikit-learn clips at the smallest float, so only what lies above it is compared
    near = shares[np.arange(50), labels] > 1e-12
    expected = sklearn.metrics.log_loss(labels[near], shares[near], labels=range(4))
    assert log_loss(logits[near], labels[near], "classification") == pytest.approx(expected)


def test_log_loss_of_several_labels():
    import sklearn.metrics

    logits, labels = RNG.normal(size=(40, 3)), RNG.integers(0, 2, (40, 3))
    chance = 1 / (1 + np.exp(-logits))
    expected = np.mean([sklearn.metrics.log_loss(labels[:, i], chance[:, i]) for i in range(3)])
    assert log_loss(logits, labels, "multilabel") == pytest.approx(expected)


def test_what_was_not_fitted_is_not_counted():
    logits = np.array([[0.0, 1.0, -np.inf], [2.0, 0.0, -np.inf], [0.5, 0.0, -np.inf]])
    labels = np.array([0, 2, 1])
    expected = log_loss(logits[[0, 2], :2], labels[[0, 2]], "classification")
    assert log_loss(logits, labels, "classification") == pytest.approx(expected)
    assert log_loss(logits, np.array([2, 2, 2]), "classification") == np.inf
    always = np.array([[np.inf, 0.3], [np.inf, -1.0]])
    assert log_loss(always, np.ones((2, 2), int), "multilabel") == pytest.approx(
        np.logaddexp(0, [-0.3, 1.0]).mean()
    )


def test_the_surest_of_equals_is_taken_and_never_a_worse_score():
    labels = np.array([0, 1])
    logits = [np.array([[s, 0.0], [0.0, s]]) for s in (1.0, 3.0, 3.0, 50.0)]
    chosen = [
        first_or_surest(scores, logits.__getitem__, labels, "classification", ties)
        for scores in ([0.9, 0.9, 0.9, 0.8], [0.5, 0.9, 0.8, 0.7])
        for ties in ("smallest", "log_loss")
    ]
    assert chosen == [0, 1, 1, 1]


def test_a_plateau_is_left_at_its_surest_c():
    import sklearn.metrics

    centres = np.random.default_rng(1).normal(size=(3, 6))
    y = np.arange(60) % 3
    x = (3 * centres[y] + np.random.default_rng(2).normal(size=(60, 6))).astype(np.float32)
    parts = (x[:36], y[:36], x[36:], y[36:])
    options = {"n_classes": 3, "task": "classification", "keep_path": True}
    smallest, surest = (fit_linear(*parts, ties=t, **options) for t in ("smallest", "log_loss"))
    scores = np.array(surest.settings["val_scores"])
    plateau = np.flatnonzero(scores == scores.max())
    losses = []
    for coef, intercept in (surest.path[i] for i in plateau):
        logits = x[36:] @ coef.T + intercept
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        losses.append(sklearn.metrics.log_loss(y[36:], shares / shares.sum(axis=1, keepdims=True)))
    grid = surest.settings["c_grid"]
    assert len(plateau) > 5
    assert surest.settings["best_c"] == grid[plateau[int(np.argmin(losses))]]
    assert smallest.settings["best_c"] == grid[plateau[0]] < surest.settings["best_c"]
    assert surest.settings["ties"] == "log_loss"


def test_an_unknown_rule_is_an_error():
    x, y = RNG.normal(size=(8, 2)), np.arange(8) % 2
    with pytest.raises(PermafrostError, match="ties"):
        fit_linear(x, y, x, y, n_classes=2, task="classification", ties="largest")
