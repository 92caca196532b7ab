"""Fit the linear probe: sweep C on train, choose on validation, refit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.joined_rows import JoinedRows
from permafrost.core.tasks import targets_of
from permafrost.probes.embeddings.arithmetic import (
    centre_and_scale,
    check_labels,
    label_targets,
    scale_gates,
)
from permafrost.probes.linear.backend import make_backend
from permafrost.probes.linear.checks import (
    SOLVERS,
    check_choice,
    check_features,
    check_grid,
)
from permafrost.probes.linear.minimise import Solution
from permafrost.probes.linear.objective import FitLabels
from permafrost.probes.linear.path import TOLERANCE, Solver, solve_adam, solve_path
from permafrost.probes.linear.rotation import Basis, identity_basis, rotate
from permafrost.probes.linear.table import Table
from permafrost.probes.linear.ties import TIES, first_or_surest

if TYPE_CHECKING:
    from permafrost.core.row_file import RowFile
    from permafrost.core.targets import Labels
    from permafrost.probes.linear.backend import NumpyBackend, TorchBackend

    type _Features = np.ndarray | RowFile
    type _Split = tuple[_Features, np.ndarray]

SCORING_ROWS = 8192


@dataclass
class LinearFit:
    """A fitted linear probe.

    Attributes
    ----------
    coef : (K, d) float64 weights for raw features; zeros for a class that was not fitted.
    intercept : (K,) float64; -inf for a class absent from the fit (inf: a label always present).
    settings : JSON-able record of the sweep and the final fit.
    gates : names of the failed sanity checks.
    path : per C the pair (coef, intercept) fitted on train, if `keep_path`.
    """

    task: str
    coef: np.ndarray
    intercept: np.ndarray
    settings: dict
    gates: list[str]
    path: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def scores(self, features) -> np.ndarray:
        """(N, d) raw features -> (N, K) float32 probabilities."""
        features = check_features(features, "scored", self.coef.shape[1])
        weights = self.coef.T
        parts = [
            cast("Labels", targets_of(self.task)).probabilities(
                features[i : i + SCORING_ROWS] @ weights + self.intercept
            )
            for i in range(0, len(features), SCORING_ROWS)
        ]
        return np.concatenate(parts)


@dataclass(frozen=True)
class LinearSettings:
    """Settings of the sweep of C and of the final fit.

    Attributes
    ----------
    c_grid : values of C; by default 40 from 1e-6 to 1e4.
    merge_val : refit the chosen C on train and validation together.
    standardize : divide features by their standard deviation on train (constant ones by 1).
    solver : "lbfgs" (to convergence) or "adam" (mini-batches, drawn from `seed`).
    ties : choice among equally good values of C on validation: the "smallest", or the one of the least
        validation "log_loss".
    seed : seed of the solver "adam".
    device, backend : "cpu" uses NumPy, any other device torch; `backend` overrides this.
    progress : wraps the iterable of Cs, e.g. in a progress bar.
    keep_path : keep the coefficients of every C.
    """

    c_grid: Sequence[float] | np.ndarray | None = None
    merge_val: bool = True
    standardize: bool = False
    solver: str = "lbfgs"
    ties: str = "smallest"
    seed: int = 0
    device: str = "cpu"
    backend: str | None = None
    progress: Callable | None = None
    keep_path: bool = False

    def __post_init__(self) -> None:
        check_choice("solver", self.solver, SOLVERS)
        check_choice("ties", self.ties, TIES)

    @property
    def recorded(self) -> dict:
        """The settings in the record of a fit."""
        names = ("solver", "merge_val", "standardize", "ties")
        return {name: getattr(self, name) for name in names}


def fit_linear(
    train: _Split, val: _Split, settings: LinearSettings, *, n_classes: int, task: str
) -> LinearFit:
    """L2-regularised logistic regression with C chosen on validation.

    The objective is scikit-learn's divided by n C (single-label: mean cross-entropy
    + ||W||^2 / (2 n C); multi-label, L labels: mean binary cross-entropy over n L entries
    + ||W||^2 / (2 n L C)), without a penalty on the bias.

    Parameters
    ----------
    train, val : pairs of (N, d) features, and (N,) class ids below `n_classes` or (N, n_classes) of 0
        and 1. Features are arrays, or `RowFile`s: then the rotated rows are also in a file, with one span
        in memory at a time.
    task : "classification" or "multilabel".

    Raises
    ------
    PermafrostError : NaN or infinite features, wrong shapes or labels, unknown options.
    """
    targets = label_targets(task, "the linear probe")
    grid = check_grid(settings.c_grid)
    train_x, train_y, val_x, val_y = _checked(*train, *val, n_classes, task)
    b = make_backend(settings.backend, settings.device)
    labels = FitLabels.of(train_y, n_classes, task)
    if len(labels.columns) < labels.fewest:
        return _constant_fit(labels, train_x.shape[1], settings.recorded)
    with b.exact_products():
        run = _Run.of(b, train_x, val_x, settings, float(grid[-1]))
        shown = settings.progress(grid) if settings.progress else grid
        solutions = run.sweep(labels, shown, grid)
        val_scores = [labels.score(val_y, run.logits(labels, s)) for s in solutions]

        def logits(i: int) -> np.ndarray:
            return np.concatenate(list(run.logits(labels, solutions[i])))

        best = first_or_surest(val_scores, logits, val_y, task, settings.ties)
        final, refitted = solutions[best], labels
        if settings.merge_val:
            refitted = FitLabels.of(np.concatenate([train_y, val_y]), n_classes, task)
            known = [refitted.carry(b, s.theta, labels.columns) for s in solutions[: best + 1]]
            final = run.refit(refitted, known, grid[: best + 1])
        coef, intercept = run.raw(refitted, final)
        path = [run.raw(labels, s) for s in solutions] if settings.keep_path else []
    record = {
        **settings.recorded,
        "best_c": float(grid[best]),
        "c_grid": grid.tolist(),
        "val_metric": targets.validation,
        "val_scores": val_scores,
        **_record(solutions),
        "tolerance": TOLERANCE if settings.solver == "lbfgs" else None,
        "seed": settings.seed if settings.solver == "adam" else None,
        "directions": run.directions,
        "final": {key: values[0] for key, values in _record([final]).items()},
    }
    gates = _gates(best, len(grid), solutions + [final], run.directions, labels)
    gates += scale_gates(b.numpy(run.basis.scale), settings.standardize)
    return LinearFit(task, coef, intercept, record, gates, path)


def _checked(
    train_x, train_y, val_x, val_y, n_classes: int, task: str
) -> tuple[_Features, np.ndarray, _Features, np.ndarray]:
    """Check features and labels, and that they match."""
    train_x = check_features(train_x, "train")
    val_x = check_features(val_x, "validation", train_x.shape[1])
    train_y = check_labels(train_y, len(train_x), n_classes, task, "linear probe, train labels")
    val_y = check_labels(val_y, len(val_x), n_classes, task, "linear probe, validation labels")
    if targets_of(task).several and not val_y.any():
        raise PermafrostError(
            "no validation sample has any label, so micro-AP is undefined",
            where="linear probe, validation labels",
            remedy="split the dataset so that validation holds positives",
        )
    return train_x, train_y, val_x, val_y


@dataclass
class _Run:
    """The rows of train and validation in one basis, and their fits."""

    backend: NumpyBackend | TorchBackend
    basis: Basis
    table: Table
    n_train: int
    solver: str
    seed: int

    @classmethod
    def of(cls, backend, train_x, val_x, settings: LinearSettings, c_max: float) -> _Run:
        """Centre the rows by train's mean and rotate them to the solver's basis."""
        mean, scale = centre_and_scale(train_x, settings.standardize)
        find = rotate if settings.solver == "lbfgs" else identity_basis
        basis, table = find(backend, JoinedRows(train_x, val_x), mean, scale, c_max)
        return cls(backend, basis, table, len(train_x), settings.solver, settings.seed)

    @property
    def directions(self) -> int:
        """Number of rotated features."""
        return self.table.shape[1] - 1

    def raw(self, targets: FitLabels, solution: Solution) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercept of all classes, for raw features."""
        return targets.whole(*self.basis.raw(self.backend, solution.theta))

    def _zeros(self, targets: FitLabels):
        return self.backend.zeros((len(targets.columns), self.table.shape[1]))

    def sweep(self, targets: FitLabels, shown, grid) -> list[Solution]:
        table = self.table.head(self.n_train)
        if self.solver == "lbfgs":
            return solve_path(
                Solver(self.backend, targets, table), self._zeros(targets), grid, shown
            )
        theta, solutions = self._zeros(targets), []
        for c in shown:
            solutions.append(solve_adam(self.backend, targets, table, theta, float(c), self.seed))
            theta = solutions[-1].theta
        return solutions

    def refit(self, targets: FitLabels, known: list, grid) -> Solution:
        """The solution for the last C of ``grid`` on all rows, given the solutions on train up to it."""
        c = float(grid[-1])
        if self.solver == "lbfgs":
            return Solver(self.backend, targets, self.table).refit(known, grid, c)
        return solve_adam(self.backend, targets, self.table, known[-1], c, self.seed)

    def logits(self, targets: FitLabels, solution: Solution) -> Iterator[np.ndarray]:
        """Yield (m, K) logits of the rows after the train split, some at a time."""
        b, count = self.backend, self.table.count
        theta = b.real(solution.theta).swapaxes(0, 1)
        for start in range(self.n_train, count, SCORING_ROWS):
            rows = self.table.read(start, min(start + SCORING_ROWS, count))
            yield targets.spread_logits(b.numpy(rows @ theta))


def _record(solutions: list[Solution]) -> dict:
    """Per solution: objective, gradient norm, estimated distance to the optimum, iterations."""

    def finite(value: float) -> float | None:
        return float(value) if math.isfinite(value) else None

    return {
        "objectives": [finite(s.objective) for s in solutions],
        "gradient_norms": [finite(s.gradient_norm) for s in solutions],
        "gaps": [finite(s.gap) for s in solutions],
        "iterations": [s.iterations for s in solutions],
        "converged": [bool(s.converged) for s in solutions],
    }


def _gates(best: int, count: int, solutions, directions: int, train: FitLabels) -> list[str]:
    gates = []
    if count > 1 and best in (0, count - 1):
        gates.append("best_c_on_edge")
    if not all(s.converged for s in solutions):
        gates.append("not_converged")
    if directions == 0:
        gates.append("collapsed_features")
    return gates + _constant_labels(train)


def _constant_labels(train: FitLabels) -> list[str]:
    return [f"label_always_present_in_train:{label}" for label in train.always]


def _constant_fit(train: FitLabels, width: int, shared: dict) -> LinearFit:
    """The constant prediction, for a train split with one class, or with only constant labels."""
    columns = len(train.columns)
    coef, intercept = train.whole(np.zeros((columns, width)), np.zeros(columns))
    settings = {**shared, "best_c": None, "c_grid": [], "val_scores": []}
    gates = ["one_class_in_train", *_constant_labels(train)]
    return LinearFit(train.task, coef, intercept, settings, gates)
