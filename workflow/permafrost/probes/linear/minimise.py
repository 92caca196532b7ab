"""Minimise the objective at one penalty: L-BFGS with an exact line search.

The logits are linear in the step length, so a search along a direction takes one product with the
features for the direction's logits, and otherwise only work on (n, K) numbers. So each iteration
takes two products: the direction's logits and the gradient.

The limited memory is kept from one C to the next. A pair consists of a step s and the change y of the gradient. The
penalty's part of y is known exactly (lam s), so when C changes every pair is updated by
y += (lam' - lam) s. All pairs are multiplied at once: four matrix-vector products and two loops
over small vectors give the direction of the classical two-loop recursion (Nocedal & Wright, Numerical
Optimization, algorithm 7.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SEARCH_SLOPE = 0.1  # final slope of a line search, as a share of the initial slope
SEARCH_STEPS = 25
CURVATURE_DROP = 0.7  # curvature falls with the loss; after a fall by this factor it is recomputed
PATIENCE = 10  # iterations without a decrease above the rounding error of float32
ROUNDING = 1e-9
ACCEPTED = 1e-7  # relative gap up to which a solution counts as converged


@dataclass
class Solution:
    """``theta`` (K, q): bias in column 0, then the weights in the rotated basis.

    ``gap`` estimates f(theta) - min f: half the slope of the last quasi-Newton direction.
    ``gradient_norm`` is for all of theta; ``margins`` are the rows' margins at theta.
    """

    theta: Any
    loss: float
    objective: float
    gradient_norm: float
    gap: float
    iterations: int
    converged: bool
    margins: Any


def penalty_product(backend, a, b) -> float:
    """Inner product without the bias column; not computed as a difference, which a large bias would cancel."""
    return backend.total(a[:, 1:] * b[:, 1:])


def minimise(objective, theta, lam, *, memory, metric, tolerance, max_iter) -> Solution:
    """Minimise the objective until the estimated gap is below ``tolerance`` times its value.

    Parameters
    ----------
    theta : (K, q) start.
    lam : penalty of columns 1 and up.
    memory, metric : estimates of the curvature; both are updated.
    """
    b = objective.backend
    if objective.couples_columns:  # the classes' mean does not change the loss, but is penalised
        theta = theta - theta.mean(axis=0)
    at = objective.evaluate(objective.margins(theta))
    metric.refresh(objective.curvature(at), lam, objective.couples_columns)
    refreshed_loss = at.loss
    memory.set_penalty(lam)
    data_gradient = objective.gradient(at)
    iterations, gap, least, stalled = 0, float("inf"), float("inf"), 0
    while True:
        gradient = data_gradient + 0.0
        gradient[:, 1:] += lam * theta[:, 1:]
        value = at.loss + 0.5 * lam * penalty_product(b, theta, theta)
        if at.loss < CURVATURE_DROP * refreshed_loss:
            metric.refresh(objective.curvature(at), lam, objective.couples_columns)
            refreshed_loss = at.loss
        if metric.wants_block():
            metric.refresh(objective.curvature(at), lam, objective.couples_columns)
            metric.build_block(objective, at)
        direction, slope = _descent(b, gradient, memory, metric)
        gap = max(-0.5 * slope, 0.0)
        stalled = 0 if value < least * (1 - ROUNDING) else stalled + 1
        least = min(least, value)
        if gap <= tolerance * value or iterations == max_iter or stalled > PATIENCE:
            break
        line = Line(
            at.margins,
            objective.margins(direction),
            slope,
            lam * penalty_product(b, theta, direction),
            lam * penalty_product(b, direction, direction),
        )
        length, at = _search(objective, line, at)
        if length == 0.0:
            if not memory.order:
                break
            memory.clear()
            continue
        iterations += 1
        metric.spent += 1.0
        theta = theta + length * direction
        previous = data_gradient
        data_gradient = objective.gradient(at)
        change = data_gradient - previous
        direction *= length
        change[:, 1:] += lam * direction[:, 1:]
        memory.add(direction, change)
    norm = b.dot(gradient, gradient) ** 0.5
    converged = gap <= max(tolerance, ACCEPTED) * value
    return Solution(theta, at.loss, value, norm, gap, iterations, converged, at.margins)


def _descent(backend, gradient, memory, metric):
    """A descent direction and its slope; drops estimates that rounding corrupted, except the diagonal."""
    direction = memory.direction(gradient, metric.apply)
    for forget in (memory.clear, metric.drop_block):
        if backend.dot(gradient, direction) <= 0:
            break
        forget()
        direction = memory.direction(gradient, metric.apply)
    return direction, backend.dot(gradient, direction)


@dataclass(frozen=True)
class Line:
    """A direction from the current point of the search.

    Attributes
    ----------
    margins, step : margins at the point, span by span, and their change along the direction.
    slope : slope of the objective at the point, along the direction.
    linear, square : first and second derivative of the penalty at the point.
    """

    margins: Any
    step: Any
    slope: float
    linear: float
    square: float


def _search(objective, line: Line, at):
    """The minimum along the line, by a safeguarded Newton method; ``at`` is the evaluation at its start.

    The objective is convex, so the sign of the slope shows on which side the minimum is.
    Returns (length, evaluation there); length 0 if rounding allows no descent.
    """
    low, high, length = 0.0, float("inf"), 1.0
    for _ in range(SEARCH_STEPS):
        there, first, second = objective.along(line.margins, line.step, length)
        first += line.linear + length * line.square
        second += line.square
        if abs(first) <= SEARCH_SLOPE * abs(line.slope):
            return length, objective.settled(there)
        if first > 0:
            high = length
        else:
            low = length
        newton = length - first / second if second > 0 else float("inf")
        if not low < newton < high:
            newton = 0.5 * (low + high) if high < float("inf") else 2.0 * length
        length = newton
    if low == 0.0:
        return 0.0, at
    there, _, _ = objective.along(line.margins, line.step, low)
    return low, objective.settled(there)


class Memory:
    """Up to ``size`` pairs of (K, q) arrays; column 0 (the bias) has no penalty."""

    def __init__(self, backend, shape: tuple[int, int], size: int) -> None:
        self.backend, self.shape, self.size = backend, shape, size
        self.steps = backend.zeros((size, shape[0] * shape[1]))
        self.changes = backend.zeros((size, shape[0] * shape[1]))
        self.cross = np.zeros((size, size))  # cross[i, j] = steps[i] . changes[j]
        self.order: list[int] = []  # slots, oldest first
        self.lam: float | None = None

    def set_penalty(self, lam: float) -> None:
        """Update the pairs to the objective with penalty ``lam``."""
        if self.lam is not None and lam != self.lam and self.order:
            shape = (self.size, *self.shape)
            steps, changes = self.steps.reshape(shape), self.changes.reshape(shape)
            changes[:, :, 1:] += (lam - self.lam) * steps[:, :, 1:]
            product = self.backend.numpy(self.steps @ self.changes.swapaxes(0, 1))
            self.cross[:] = product
            self.order = [slot for slot in self.order if self.cross[slot, slot] > 0]
        self.lam = lam

    def clear(self) -> None:
        self.order = []

    def add(self, step, change) -> None:
        """Add a pair, unless rounding makes its curvature not positive."""
        step, change = step.reshape(-1), change.reshape(-1)
        if self.backend.dot(step, change) <= 0:
            return
        slot = self.order.pop(0) if len(self.order) == self.size else len(self.order)
        if slot in self.order:  # a change of penalty dropped pairs: reuse a free slot
            slot = next(i for i in range(self.size) if i not in self.order)
        self.steps[slot] = step
        self.changes[slot] = change
        self.cross[slot] = self.backend.numpy(self.changes @ step)
        self.cross[:, slot] = self.backend.numpy(self.steps @ change)
        self.order.append(slot)

    def direction(self, gradient, metric):
        """Minus the inverse Hessian times ``gradient``; ``metric`` is the initial inverse."""
        if not self.order:
            return -metric(gradient)
        b, order, cross = self.backend, self.order, self.cross
        projected = b.numpy(self.steps @ gradient.reshape(-1)).astype(np.float64)
        first = np.zeros(self.size)
        for slot in reversed(order):
            first[slot] = (projected[slot] - cross[slot] @ first) / cross[slot, slot]
        rest = gradient.reshape(-1) - b.real(first) @ self.changes
        rest = metric(rest.reshape(self.shape)).reshape(-1)
        projected = b.numpy(self.changes @ rest).astype(np.float64)
        second = np.zeros(self.size)
        for slot in order:
            back = projected[slot] + cross[:, slot] @ second
            second[slot] = first[slot] - back / cross[slot, slot]
        return -(rest + b.real(second) @ self.steps).reshape(self.shape)
