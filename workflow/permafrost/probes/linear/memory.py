"""The limited memory of L-BFGS, kept from one C to the next.

A pair is a step s and the change y of the gradient it caused. The penalty's part of y is known
exactly (lam s), so when C changes every pair is carried over by y += (lam' - lam) s instead of
being thrown away. Products are taken with all pairs at once: four matrix-vector products and
two loops over small vectors give the direction of the classical two-loop recursion
(Nocedal & Wright, Numerical Optimization, algorithm 7.4).
"""

from __future__ import annotations

import numpy as np


class Memory:
    """Up to ``size`` pairs of (K, q) arrays; column 0 (the bias) carries no penalty."""

    def __init__(self, backend, shape: tuple[int, int], size: int) -> None:
        self.backend, self.shape, self.size = backend, shape, size
        self.steps = backend.zeros((size, shape[0] * shape[1]))
        self.changes = backend.zeros((size, shape[0] * shape[1]))
        self.cross = np.zeros((size, size))  # cross[i, j] = steps[i] . changes[j]
        self.order: list[int] = []  # slots, oldest first
        self.lam: float | None = None

    def set_penalty(self, lam: float) -> None:
        """Make the pairs those of the objective with penalty ``lam``."""
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
        """Remember a pair; one without positive curvature (rounding) is of no use."""
        step, change = step.reshape(-1), change.reshape(-1)
        if self.backend.dot(step, change) <= 0:
            return
        slot = self.order.pop(0) if len(self.order) == self.size else len(self.order)
        if slot in self.order:  # pairs were dropped at a change of penalty: reuse a free slot
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
