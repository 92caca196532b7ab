"""The solver under the linear probe: starts, precision, what it keeps between Cs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from permafrost.probes.linear import path
from permafrost.probes.linear.backend import NumpyBackend, make_backend
from permafrost.probes.linear.minimise import Memory
from permafrost.probes.linear.objective import FitLabels
from permafrost.probes.linear.rotation import rotate


def problem(n=200, d=12, classes=5, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    features = rng.normal(size=(classes, d))[labels] + rng.normal(size=(n, d))
    return features.astype(np.float32), labels


def solver(backend=None):
    backend = backend or NumpyBackend()
    features, labels = problem()
    mean, ones = features.mean(0), np.ones(features.shape[1])
    _, table = rotate(backend, features, mean, ones, 1e4)
    return path.Solver(backend, FitLabels.of(labels, 5, "classification"), table)


def zeros(of):
    return of.backend.zeros((5, of.objective.q))


@pytest.mark.parametrize("c", [1e-3, 1.0, 1e3])
def test_the_optimum_does_not_depend_on_the_start(c):
    cold, warm = solver(), solver()
    start = np.random.default_rng(1).normal(size=zeros(warm).shape).astype(np.float32)
    start += 3.0  # a part that all classes share: no loss tells it, only the penalty
    first, second = cold.solve(zeros(cold), c), warm.solve(start, c)
    assert first.converged and second.converged
    assert second.objective == pytest.approx(first.objective, rel=1e-6)
    np.testing.assert_allclose(first.theta[:, 1:], second.theta[:, 1:], atol=3e-3)


def test_refit_from_a_path_over_other_rows_reaches_the_optimum():
    grid = 10.0 ** np.arange(-4, 4)
    fitted = solver()
    known = [s.theta for s in path.solve_path(fitted, zeros(fitted), grid)]
    again, cold = solver(), solver()
    wrong = [np.roll(theta, 1, axis=0) for theta in known]  # every class mistaken for another
    refit = again.refit(wrong, grid, 1e3)
    assert refit.objective == pytest.approx(cold.solve(zeros(cold), 1e3).objective, rel=1e-6)


def test_what_float32_can_not_solve_is_solved_in_float64(monkeypatch):
    real = path.minimise

    def poor(objective, *args, **options):
        found = real(objective, *args, **options)
        return found if objective.backend.precise else replace(found, converged=False)

    expected = solver().solve(zeros(solver()), 1.0)
    monkeypatch.setattr(path, "minimise", poor)
    tried = solver()
    solution = tried.solve(zeros(tried), 1.0)
    assert solution.converged and solution.theta.dtype == np.float64
    assert solution.objective == pytest.approx(expected.objective, rel=1e-7)
    later = path.solve_path(tried, zeros(tried), [1.0, 2.0, 4.0])
    assert all(s.converged and s.theta.dtype == np.float64 for s in later)


@pytest.mark.parametrize("name", ["numpy", "torch"])
def test_pairs_follow_a_change_of_penalty_exactly(name):
    backend = make_backend(name, "cpu")
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    hessian = root @ root.T  # of the loss alone
    lams, shape = (0.5, 0.1), (2, 3)
    free = np.array([0.0, 1, 1, 0, 1, 1])  # column 0 of each row carries no penalty

    def filled(lam):
        memory = Memory(backend, shape, 4)
        memory.set_penalty(lam)
        for step in np.random.default_rng(1).normal(size=(4, 6)):
            change = hessian @ step + lam * free * step
            memory.add(backend.real(step.reshape(shape)), backend.real(change.reshape(shape)))
        return memory

    carried, direct = filled(lams[0]), filled(lams[1])
    carried.set_penalty(lams[1])
    gradient = backend.real(rng.normal(size=shape))
    directions = [backend.numpy(m.direction(gradient, lambda v: v)) for m in (carried, direct)]
    np.testing.assert_allclose(*directions, rtol=2e-3, atol=1e-4)


def test_rotated_rows_keep_distances_and_coefficients_map_back():
    for n, d in ((60, 9), (20, 50)):
        features = np.random.default_rng(2).normal(size=(n, d)) * 3 + 7
        mean, ones = features[:10].mean(0), np.ones(d)
        basis, table = rotate(NumpyBackend(precise=True), features, mean, ones, 1e4)
        rows = table.rows
        np.testing.assert_allclose(
            rows[:, 1:] @ rows[:, 1:].T, (features - mean) @ (features - mean).T, atol=1e-8
        )
        theta = np.random.default_rng(3).normal(size=(4, rows.shape[1]))
        coef, intercept = basis.raw(NumpyBackend(precise=True), theta)
        np.testing.assert_allclose(features @ coef.T + intercept, rows @ theta.T, atol=1e-8)
        np.testing.assert_allclose((coef**2).sum(), (theta[:, 1:] ** 2).sum())


def test_blocks_of_rows_are_small_products_and_depend_on_shapes_alone():
    for n, columns, width in ((4000, 10, 1281), (580, 5, 726), (27_000, 45, 2049), (3, 2, 2)):
        rows = NumpyBackend.block_rows(n, columns, width)
        assert 1 <= rows <= min(n, 512)
        assert rows * columns * width <= 1_000_000 or rows == min(n, 512)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_the_gradient_is_that_of_the_textbook(task):
    """Softmax and sigmoid, less the truth, times features; the mean over rows, and over labels."""
    rng = np.random.default_rng(3)
    n, d, classes = 90, 6, 4
    features = rng.normal(size=(n, d)).astype(np.float32)
    labels = rng.integers(0, classes, n)
    truth = np.eye(classes)[labels]
    if task == "multilabel":
        truth = labels = rng.integers(0, 2, (n, classes))
    backend = NumpyBackend()
    _, table = rotate(backend, features, features.mean(0), np.ones(d), 1e4)
    objective = FitLabels.of(labels, classes, task).objective(backend, table)
    theta = rng.normal(size=(classes, objective.q)).astype(np.float32)
    rows = np.asarray(table.read(0, n), np.float64)
    logits = rows @ theta.T.astype(np.float64)
    if task == "multilabel":
        answers, share = 1 / (1 + np.exp(-logits)), 1 / (n * classes)
    else:
        answers, share = np.exp(logits) / np.exp(logits).sum(1, keepdims=True), 1 / n
    wanted = (answers - truth).T @ rows * share
    found = objective.gradient(objective.evaluate(objective.margins(theta)))
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6 * np.abs(wanted).max())
