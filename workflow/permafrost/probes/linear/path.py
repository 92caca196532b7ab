"""The solutions of a whole grid of C, each started from those before it."""

from __future__ import annotations

import numpy as np

from permafrost.probes.linear.memory import Memory
from permafrost.probes.linear.metric import Metric
from permafrost.probes.linear.minimise import Solution, minimise, penalty_product

MEMORY_SIZE = 20
TOLERANCE = 1e-8  # estimated gap, as a share of the objective
MAX_ITER = 2000
STRIDE = 3  # steps of the grid at once on the way to a refit
ROUGH = 1e-4  # tolerance on that way
WINDOW = 4  # solutions that the next start is extrapolated from


class Solver:
    """Solves one objective at one C after another, keeping what it learnt of its curvature.

    Works in float32 until a C does not converge in it (badly scaled features, for instance), and
    from there on in float64.

    Parameters
    ----------
    backend : array operations.
    targets : the labels; makes the objective.
    rows : (n, q) rotated features behind a leading 1.
    """

    def __init__(self, backend, targets, rows, *, tolerance=TOLERANCE, max_iter=MAX_ITER) -> None:
        self.targets, self.tolerance, self.max_iter = targets, tolerance, max_iter
        self._use(backend, rows)

    def _use(self, backend, rows) -> None:
        self.backend = backend
        self.objective = self.targets.objective(backend, rows)
        shape = (self.objective.columns, self.objective.q)
        self.memory = Memory(backend, shape, MEMORY_SIZE)
        variances = (rows * rows).sum(axis=0) / rows.shape[0]
        self.metric = Metric(backend, shape[0], self.objective.n, variances)

    def solve(self, theta, c: float) -> Solution:
        """The optimum at ``c`` from the start ``theta`` (K, q)."""
        solution = self._minimise(theta, c)
        if not solution.converged and not self.backend.precise:
            finer = self.backend.finer()
            self._use(finer, finer.real(self.objective.flat[: self.objective.n]))
            solution = self._minimise(solution.theta, c)
        return solution

    def refit(self, known: list, grid, c: float) -> Solution:
        """The optimum at ``c``, given solutions of most of the same rows along ``grid`` up to it.

        At small C the solution for ``c`` itself is the best start. At large C it fits its own
        rows so closely that new rows are badly wrong; then a solution of smaller C is nearer, and
        the path is followed up from there in larger strides.
        """
        lam = self.objective.penalty_share / c
        values = []
        for theta in known:
            margins = self.objective.margins(self.objective.logits(theta))
            penalty = 0.5 * lam * penalty_product(self.backend, theta, theta)
            values.append(self.objective.evaluate(margins).loss + penalty)
        first = int(np.argmin(values))
        self.metric.demand_block()  # the curvature there is nearly that of the optimum
        strides = [*grid[first : len(known) - 1 : STRIDE], c]
        wanted, self.tolerance = self.tolerance, max(self.tolerance, ROUGH)
        on_the_way = solve_path(self, known[first], strides[:-1])[-1:]
        self.tolerance = wanted
        return self.solve(on_the_way[0].theta if on_the_way else known[first], c)

    def _minimise(self, theta, c: float) -> Solution:
        return minimise(
            self.objective,
            self.backend.real(theta),
            self.objective.penalty_share / c,
            memory=self.memory,
            metric=self.metric,
            tolerance=self.tolerance,
            max_iter=self.max_iter,
        )


def solve_path(solver: Solver, theta, grid, shown=None) -> list[Solution]:
    """Solutions for the ascending values of ``grid``, starting from ``theta`` (K, q).

    ``shown`` yields the same values and may report progress on the way.
    """
    solutions: list[Solution] = []
    for c in grid if shown is None else shown:
        if solutions:
            theta = _start(solver.objective, solutions[-WINDOW:], grid, len(solutions))
        solutions.append(solver.solve(theta, float(c)))
        if len(solutions) > WINDOW:
            solutions[-WINDOW - 1].margins = None  # large, and no longer needed
    for solution in solutions[-WINDOW:]:
        solution.margins = None
    return solutions


def _start(objective, known: list[Solution], grid, index: int):
    """The best of the last solution and the polynomials in log C through the last few.

    Margins are linear in theta, so candidates are compared without a product with the features.
    """
    b = objective.backend
    place = np.log(np.asarray(grid[index - len(known) : index + 1], dtype=np.float64))
    lam = objective.penalty_share / float(grid[index])
    best, least = None, float("inf")
    for count in range(1, len(known) + 1):
        factors = _extrapolation(place[-count - 1 : -1], place[-1])
        chosen = known[-count:]
        theta = sum(f * b.real(s.theta) for f, s in zip(factors, chosen, strict=True))
        margins = sum(f * b.real(s.margins) for f, s in zip(factors, chosen, strict=True))
        value = objective.evaluate(margins).loss + 0.5 * lam * penalty_product(b, theta, theta)
        if value < least:
            best, least = theta, value
    return known[-1].theta if best is None else best


def _extrapolation(nodes: np.ndarray, target: float) -> list[float]:
    """Weights of the values at ``nodes`` in the interpolating polynomial's value at ``target``."""
    weights = []
    for j, node in enumerate(nodes):
        others = np.delete(nodes, j)
        weights.append(float(np.prod((target - others) / (node - others))))
    return weights
