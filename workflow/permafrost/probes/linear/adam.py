"""Mini-batch Adam (Kingma & Ba 2015), for comparison with probes trained that way.

It works on the centred features, not on rotated ones: rotating would be a preconditioner that
users of Adam do not have. It stops when an epoch no longer lowers the mean batch objective, which
is no proof of convergence: use L-BFGS for the optimum.
"""

from __future__ import annotations

import numpy as np

from permafrost.probes.linear.minimise import Solution, penalty_product

BATCH = 1024
RATE = 1e-2
DECAY_1, DECAY_2, EPSILON = 0.9, 0.999, 1e-8
EPOCHS = 100
CHANGE = 1e-4  # relative change of the epoch's mean objective that counts as progress
PATIENCE = 3


def solve_adam(backend, targets, rows, theta, c: float, seed: int) -> Solution:
    """Adam at one C from ``theta`` (K, q) over ``rows`` (n, q) with a leading 1."""
    b, n = backend, rows.shape[0]
    whole = targets.objective(b, rows)
    lam = whole.penalty_share / c
    rng = np.random.default_rng(seed)
    first, second = theta * 0.0, theta * 0.0
    best, idle, count, converged = float("inf"), 0, 0, False
    for _ in range(EPOCHS):
        order, total = rng.permutation(n), 0.0
        for start in range(0, n, BATCH):
            chosen = order[start : start + BATCH]
            batch = targets.subset(chosen).objective(b, rows[chosen])
            value, gradient = _value_and_gradient(batch, theta, lam)
            total += value * len(chosen) / n
            count += 1
            first = DECAY_1 * first + (1 - DECAY_1) * gradient
            second = DECAY_2 * second + (1 - DECAY_2) * gradient * gradient
            root = b.sqrt(second / (1 - DECAY_2**count)) + EPSILON
            theta = theta - RATE * (first / (1 - DECAY_1**count)) / root
        idle = 0 if total < best * (1 - CHANGE) else idle + 1
        best = min(best, total)
        if idle >= PATIENCE:
            converged = True
            break
    value, gradient = _value_and_gradient(whole, theta, lam)
    norm = b.dot(gradient, gradient) ** 0.5
    loss = value - 0.5 * lam * penalty_product(b, theta, theta)
    return Solution(theta, loss, value, norm, float("nan"), count, converged, None)


def _value_and_gradient(objective, theta, lam):
    at = objective.evaluate(objective.margins(objective.logits(theta)))
    gradient = objective.gather(objective.residual(at))
    gradient[:, 1:] += lam * theta[:, 1:]
    b = objective.backend
    return at.loss + 0.5 * lam * penalty_product(b, theta, theta), gradient
