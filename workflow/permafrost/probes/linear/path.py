"""The solutions for a grid of C, each started from the previous ones; for one C also by mini-batch Adam.

Adam (Kingma & Ba 2015) is for comparison with probes trained that way. It uses centred, not rotated features, since
rotation would act as a preconditioner, which users of Adam do not have. It stops when an epoch no
longer lowers the mean batch objective, which does not prove convergence: use L-BFGS for the optimum.
"""

from __future__ import annotations

import numpy as np

from permafrost.probes.linear.metric import Metric
from permafrost.probes.linear.minimise import Memory, Solution, minimise, penalty_product
from permafrost.probes.linear.table import Table

MEMORY_SIZE = 20
TOLERANCE = 1e-8  # estimated gap, as a share of the objective
MAX_ITER = 2000
STRIDE = 3  # every third C of the grid is solved on the way to a refit
ROUGH = 1e-4  # tolerance on that way
WINDOW = 4  # number of solutions from which the next start is extrapolated


class Solver:
    """Solves one objective for one C after another, keeping estimates of its curvature.

    It uses float32 until a C does not converge (for example with badly scaled features), and float64
    from there on.

    Parameters
    ----------
    backend : array operations.
    targets : the labels, which create the objective.
    table : (n, q) rotated features after a leading column of ones.
    """

    def __init__(
        self, backend, targets, table: Table, *, tolerance=TOLERANCE, max_iter=MAX_ITER
    ) -> None:
        self.targets, self.tolerance, self.max_iter = targets, tolerance, max_iter
        self._use(backend, table)

    def _use(self, backend, table: Table) -> None:
        self.backend = backend
        self.objective = self.targets.objective(backend, table)
        shape = (self.objective.columns, self.objective.q)
        self.memory = Memory(backend, shape, MEMORY_SIZE)
        self.metric = Metric(backend, shape[0], self.objective.n, self.objective.moments())

    def solve(self, theta, c: float) -> Solution:
        """The optimum at ``c`` from the start ``theta`` (K, q)."""
        solution = self._minimise(theta, c)
        if not solution.converged and not self.backend.precise:
            finer = self.backend.finer()
            self._use(finer, self.objective.table.finer(finer))
            solution = self._minimise(solution.theta, c)
        return solution

    def refit(self, known: list, grid, c: float) -> Solution:
        """The optimum at ``c``, given solutions for most of the rows along ``grid`` up to it.

        At small C the known solution for ``c`` is the best start. At large C it fits its
        rows so closely that new rows have large errors; then a solution of smaller C is closer, and
        the path is followed from there in larger strides.
        """
        lam = self.objective.penalty_share / c
        values = [
            loss + 0.5 * lam * penalty_product(self.backend, theta, theta)
            for theta, loss in zip(known, self.objective.losses(known), strict=True)
        ]
        first = int(np.argmin(values))
        self.metric.demand_block()  # the curvature at the start is close to that at the optimum
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
            solutions[-WINDOW - 1].margins = None  # free the memory
    for solution in solutions[-WINDOW:]:
        solution.margins = None
    return solutions


def _start(objective, known: list[Solution], grid, index: int):
    """The best of the last solution and the polynomials in log C through the last few.

    Margins are linear in theta, so comparing candidates needs no product with the features.
    """
    b = objective.backend
    place = np.log(np.asarray(grid[index - len(known) : index + 1], dtype=np.float64))
    lam = objective.penalty_share / float(grid[index])
    best, least = None, float("inf")
    for count in range(1, len(known) + 1):
        factors = _extrapolation(place[-count - 1 : -1], place[-1])
        chosen = known[-count:]
        theta = sum(f * b.real(s.theta) for f, s in zip(factors, chosen, strict=True))
        margins = (
            sum(f * b.real(m) for f, m in zip(factors, spans, strict=True))
            for spans in zip(*(s.margins for s in chosen), strict=True)
        )
        value = objective.loss(margins) + 0.5 * lam * penalty_product(b, theta, theta)
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


BATCH = 1024
RATE = 1e-2
DECAY_1, DECAY_2, EPSILON = 0.9, 0.999, 1e-8
EPOCHS = 100
CHANGE = 1e-4  # relative change of the epoch's mean objective that counts as progress
PATIENCE = 3


def solve_adam(backend, targets, table: Table, theta, c: float, seed: int) -> Solution:
    """Adam at one C from ``theta`` (K, q) over the rows (n, q) of a table."""
    b, n = backend, table.count
    whole = targets.objective(b, table)
    lam = whole.penalty_share / c
    rng = np.random.default_rng(seed)
    first, second = theta * 0.0, theta * 0.0
    best, idle, count, converged = float("inf"), 0, 0, False
    for _ in range(EPOCHS):
        order, total = rng.permutation(n), 0.0
        for start in range(0, n, BATCH):
            chosen = order[start : start + BATCH]
            batch = targets.subset(chosen).objective(b, Table(b, table.take(chosen)))
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
    at = objective.evaluate(objective.margins(theta))
    gradient = objective.gradient(at)
    gradient[:, 1:] += lam * theta[:, 1:]
    b = objective.backend
    return at.loss + 0.5 * lam * penalty_product(b, theta, theta), gradient
