"""The solver's optima against scikit-learn's, fitted as tightly as it can, at several C.

Both objectives are evaluated here, in float64, from the coefficients on raw features.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from helpers.linear import fit_linear
from permafrost.core import row_file
from permafrost.core.row_file import RowFile
from permafrost.probes.linear import objective, rotation
from permafrost.probes.linear.backend import NumpyBackend

GRID = [1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4]
RELATIVE = 1e-6


def softmax_objective(coef, intercept, x, y, c):
    logits = x.astype(np.float64) @ coef.T + intercept
    margins = logits - logits[np.arange(len(y)), y][:, None]
    peak = margins.max(axis=1)
    others = np.exp(margins - peak[:, None])
    others[np.arange(len(y)), y] = 0
    loss = peak + np.log1p(others.sum(axis=1) + np.expm1(-peak))
    return loss.mean() + (coef**2).sum() / (2 * len(y) * c)


def sigmoid_objective(coef, intercept, x, y, c):
    logits = x.astype(np.float64) @ coef.T + intercept
    loss = np.logaddexp(0, np.where(y > 0, -logits, logits))
    return loss.mean() + (coef**2).sum() / (2 * c * y.size)


def problem(kind: str):
    """(features, labels, number of classes)."""
    rng = np.random.default_rng(5)
    n, d, classes = 240, 20, 4
    if kind == "d above n":
        n, d = 40, 80
    labels = rng.integers(0, classes, n)
    x = 0.8 * rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d))
    if kind == "separable":
        x = 6.0 * rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d))
    elif kind == "constant and duplicate columns":
        x[:, 3], x[:, 7], x[:, 8] = 4.0, x[:, 6], x[:, 6]
    elif kind == "duplicate rows with different labels":
        x[120:] = x[:120]
    elif kind == "raw digital numbers":
        x = x * np.linspace(20, 2000, d) + 1e4
    elif kind == "one offset column":
        x[:, 0] += 1e4
    elif kind == "pixel statistics":  # raw numbers, nearly collinear columns: needs float64
        pixels = (x[:, :3, None] + 3 * rng.normal(size=(n, 3, 400))) * 300 + 5000
        x = np.concatenate([pixels.mean(2), pixels.std(2), pixels.min(2), pixels.max(2)], axis=1)
    elif kind == "rare class":
        labels[labels == 3] = 0
        labels[:2] = 3
    elif kind == "low rank":
        x = x[:, :3] @ rng.normal(size=(3, d))
    elif kind == "two classes":
        labels, classes = labels % 2, 2
    return x.astype(np.float32), labels, classes


KINDS = [
    "plain",
    "separable",
    "d above n",
    "constant and duplicate columns",
    "duplicate rows with different labels",
    "raw digital numbers",
    "one offset column",
    "pixel statistics",
    "rare class",
    "low rank",
    "two classes",
]


def tight(x, y, c):
    """Scikit-learn's optimum by Newton's method at its tightest, as (coef, intercept).

    Its other solvers stop earlier or take ten thousand steps on features of unequal scale.
    """
    from sklearn.linear_model import LogisticRegression

    x = x.astype(np.float64)
    # it converges on centred features only; the bias takes the mean back
    mean = x.mean(axis=0)
    peer = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10, max_iter=200)
    with warnings.catch_warnings():
        # where it does not converge, or falls back on another solver, it is no oracle
        warnings.simplefilter("error")
        peer.fit(x - mean, y)
    coef, intercept = peer.coef_, peer.intercept_
    if len(coef) == 1:  # its binary form is one logit; the optimal softmax halves it
        coef, intercept = np.r_[-coef, coef] / 2, np.r_[-intercept, intercept] / 2
    return coef, intercept - coef @ mean


@functools.cache
def best_objectives(kind: str) -> list[float]:
    """Scikit-learn's for every C of the grid, once for both backends."""
    x, y, classes = problem(kind)
    # two classes share one logit's weights in halves, and so half its squared norm
    share = 2 if classes == 2 else 1
    return [softmax_objective(*tight(x, y, share * c), x, y, c) for c in GRID]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("kind", KINDS)
def test_softmax_objective_is_never_above_scikit_learns(kind, backend):
    x, y, classes = problem(kind)
    fit = fit_linear(
        x,
        y,
        x,
        y,
        n_classes=classes,
        task="classification",
        c_grid=GRID,
        keep_path=True,
        merge_val=False,
        backend=backend,
    )
    for c, (coef, intercept), theirs in zip(GRID, fit.path, best_objectives(kind), strict=True):
        ours = softmax_objective(coef, intercept, x, y, c)
        assert ours <= theirs * (1 + RELATIVE), (c, ours / theirs - 1)
    assert fit.settings["objectives"] == pytest.approx(
        [softmax_objective(*pair, x, y, c) for c, pair in zip(GRID, fit.path, strict=True)],
        rel=1e-5,
    )


@pytest.fixture
def from_file(tmp_path, monkeypatch):
    """(features, labels) as a file of which little is in memory at a time."""
    monkeypatch.setattr(row_file, "BLOCK_BYTES", 40_000)
    monkeypatch.setattr(NumpyBackend, "span_bytes", 40_000)
    monkeypatch.setattr(objective, "KEPT_BYTES", 0)
    monkeypatch.setattr(rotation, "CHUNK", 300)

    def write(x) -> RowFile:
        file = RowFile(x.shape[1], tmp_path)
        file.append(x)
        return file

    return write


def large(task: str):
    """3,500 samples in 30 dimensions of falling variance; train, validation."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(3500, 30)) * np.arange(1, 31) ** -1.0
    logits = 4 * x @ rng.normal(size=(30, 4)) + rng.gumbel(size=(3500, 4))
    y = logits.argmax(axis=1) if task == "classification" else (logits > 1).astype(np.uint8)
    x = (x + 2).astype(np.float32)
    return x[:3000], y[:3000], x[3000:], y[3000:]


def test_softmax_objective_of_rows_in_a_file_is_that_of_scikit_learn(from_file):
    x, y, val_x, val_y = large("classification")
    options = {"n_classes": 4, "task": "classification", "c_grid": GRID, "keep_path": True}
    fit = fit_linear(from_file(x), y, from_file(val_x), val_y, **options)
    for c, (coef, intercept) in zip(GRID, fit.path, strict=True):
        ours = softmax_objective(coef, intercept, x, y, c)
        theirs = softmax_objective(*tight(x, y, c), x, y, c)
        assert ours == pytest.approx(theirs, rel=RELATIVE), (c, ours / theirs - 1)
    c, x, y = fit.settings["best_c"], np.concatenate([x, val_x]), np.concatenate([y, val_y])
    ours = softmax_objective(fit.coef, fit.intercept, x, y, c)
    assert ours == pytest.approx(softmax_objective(*tight(x, y, c), x, y, c), rel=RELATIVE)


def test_multilabel_objective_of_rows_in_a_file_is_that_of_scikit_learn(from_file):
    from sklearn.linear_model import LogisticRegression

    x, y, val_x, val_y = large("multilabel")
    options = {"n_classes": 4, "task": "multilabel", "c_grid": GRID, "keep_path": True}
    fit = fit_linear(from_file(x), y, from_file(val_x), val_y, merge_val=False, **options)
    for c, (coef, intercept) in zip(GRID, fit.path, strict=True):
        peers = [
            LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10, max_iter=200).fit(
                x.astype(np.float64), column
            )
            for column in y.T
        ]
        coefs = np.concatenate([p.coef_ for p in peers])
        theirs = sigmoid_objective(coefs, np.concatenate([p.intercept_ for p in peers]), x, y, c)
        ours = sigmoid_objective(coef, intercept, x, y, c)
        assert ours == pytest.approx(theirs, rel=RELATIVE), (c, ours / theirs - 1)


def test_refit_on_train_and_validation_reaches_scikit_learns_optimum():
    x, y, classes = problem("plain")
    for c in (1e-3, 1.0, 1e3):
        fit = fit_linear(
            x[:160],
            y[:160],
            x[160:],
            y[160:],
            n_classes=classes,
            task="classification",
            c_grid=[c / 100, c],
        )
        chosen = fit.settings["best_c"]
        ours = softmax_objective(fit.coef, fit.intercept, x, y, chosen)
        theirs = softmax_objective(*tight(x, y, chosen), x, y, chosen)
        assert ours <= theirs * (1 + RELATIVE)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_multilabel_objective_is_never_above_scikit_learns(backend):
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 15)).astype(np.float32)
    y = (x @ rng.normal(size=(15, 4)) + rng.normal(size=(200, 4)) > 0.5).astype(np.uint8)
    fit = fit_linear(
        x,
        y,
        x,
        y,
        n_classes=4,
        task="multilabel",
        c_grid=GRID,
        keep_path=True,
        merge_val=False,
        backend=backend,
    )
    for c, (coef, intercept) in zip(GRID, fit.path, strict=True):
        peers = [
            LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10, max_iter=200).fit(
                x.astype(np.float64), column
            )
            for column in y.T
        ]
        theirs = sigmoid_objective(
            np.concatenate([p.coef_ for p in peers]),
            np.concatenate([p.intercept_ for p in peers]),
            x,
            y,
            c,
        )
        ours = sigmoid_objective(coef, intercept, x, y, c)
        assert ours <= theirs * (1 + RELATIVE), (c, ours / theirs - 1)
    assert fit.settings["objectives"] == pytest.approx(
        [sigmoid_objective(*pair, x, y, c) for c, pair in zip(GRID, fit.path, strict=True)],
        rel=1e-5,
    )
