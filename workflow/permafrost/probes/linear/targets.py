"""From label ids to the columns that are fitted, and from logits back to all classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.probes.linear.objective import SigmoidObjective, SoftmaxObjective


@dataclass
class Targets:
    """Labels of one fit.

    Attributes
    ----------
    task, n_classes : as given.
    labels : (n,) ids, or (n, n_classes) of 0 and 1.
    columns : ids that are fitted. Single-label: classes that occur. Multi-label: labels that take
        both values; a constant label has its infimum at an infinite bias and is not fitted.
    """

    task: str
    n_classes: int
    labels: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray, n_classes: int, task: str) -> Targets:
        if task == "classification":
            columns = np.flatnonzero(np.bincount(labels, minlength=n_classes))
        else:
            counts = labels.sum(axis=0)
            columns = np.flatnonzero((counts > 0) & (counts < len(labels)))
        return cls(task, n_classes, labels, columns)

    def subset(self, rows: np.ndarray) -> Targets:
        """The same columns over some of the rows."""
        return Targets(self.task, self.n_classes, self.labels[rows], self.columns)

    def objective(self, backend, rows):
        """The objective of these labels over (n, q) rows with a leading 1."""
        if self.task == "classification":
            compact = np.searchsorted(self.columns, self.labels)
            return SoftmaxObjective(backend, rows, backend.integer(compact), len(self.columns))
        active = backend.real(self.labels[:, self.columns])
        return SigmoidObjective(backend, rows, active, self.n_classes)

    def carry(self, backend, theta, columns: np.ndarray):
        """Rows of ``theta``, which are those of ``columns``, as a start for `self.columns`."""
        start = backend.zeros((len(self.columns), theta.shape[1]))
        for new, column in enumerate(self.columns):
            old = np.flatnonzero(columns == column)
            if len(old):
                start[new] = theta[int(old[0])]
        return start

    def whole(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of all classes: what is not fitted gets weights 0 and bias -inf or inf."""
        all_coef = np.zeros((self.n_classes, coef.shape[1]))
        all_intercept = np.full(self.n_classes, -np.inf)
        if self.task == "multilabel":
            all_intercept[self.labels.all(axis=0)] = np.inf
        all_coef[self.columns], all_intercept[self.columns] = coef, intercept
        return all_coef, all_intercept

    def spread_logits(self, logits: np.ndarray) -> np.ndarray:
        """(n, fitted) logits -> (n, n_classes)."""
        _, constants = self.whole(np.zeros((len(self.columns), 1)), np.zeros(len(self.columns)))
        full = np.tile(constants, (len(logits), 1))
        full[:, self.columns] = logits
        return full
