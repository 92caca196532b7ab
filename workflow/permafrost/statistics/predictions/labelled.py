"""Predictions of class ids or labels, one per sample."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permafrost.core.row_file import RowFile
from permafrost.core.tasks import targets_of
from permafrost.metrics.classification import evaluate
from permafrost.statistics.predictions.columns import (
    Targets,
    array_of,
    groups_of,
    list_rows,
    need_columns,
    sorted_rows,
)
from permafrost.statistics.replicates.families import make_family


@dataclass(frozen=True)
class LabelledSamples(Targets):
    """Predictions of the tasks ``classification`` and ``multilabel``; see `Predictions`.

    Attributes
    ----------
    target, prediction : (N,) class ids, or (N, L) of 0 and 1 for ``multilabel``.
    scores : (N, K) or (N, L) float, column c for class c; a `RowFile` if scores of classes are
        large.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    target: np.ndarray
    prediction: np.ndarray
    scores: np.ndarray | RowFile
    task: str
    classes: list[str]

    @classmethod
    def from_arrays(
        cls, sample_ids, target, prediction, scores, *, task, classes, groups=None
    ) -> LabelledSamples:
        """From rows in any order."""
        order, ids, groups = sorted_rows(sample_ids, groups)
        rows = [np.asarray(array)[order] for array in (target, prediction, scores)]
        # mypy takes a list for any number of arguments
        return cls(ids, groups, *rows, task=task, classes=list(classes))  # type: ignore[misc]

    @classmethod
    def from_table(cls, table, metadata: dict) -> LabelledSamples:
        """From a prediction table; see `predictions_from_table`."""
        names = ("target", "prediction", "scores")
        need_columns(table, ("sample_id", *names))
        return cls.from_arrays(
            table.column("sample_id").to_pylist(),
            *(array_of(table, name) for name in names),
            task=metadata["task"],
            classes=metadata["classes"],
            groups=groups_of(table),
        )

    @classmethod
    def from_file(cls, path: Path, table, metadata: dict, scratch: Path) -> LabelledSamples:
        """Like `from_table`, for a table that was read without its scores.

        Parameters
        ----------
        path : of the table. scratch : folder for a copy of scores too large for memory.
        """
        need_columns(table, ("sample_id", "target", "prediction"))
        order, ids, groups = sorted_rows(table.column("sample_id").to_pylist(), groups_of(table))
        target, prediction = (array_of(table, name)[order] for name in ("target", "prediction"))
        scores = list_rows(path, "scores", order, scratch)
        if targets_of(metadata["task"]).several:
            # ranking needs all scores in memory
            scores = np.asarray(scores)
        about = {"task": metadata["task"], "classes": list(metadata["classes"])}
        return cls(ids, groups, target, prediction, scores, **about)

    def evaluate(self) -> dict:
        """Every metric on the whole test set."""
        return evaluate(
            self.target, self.prediction, self.scores, task=self.task, classes=len(self.classes)
        )

    def family(self, units: np.ndarray):
        """Every metric on resamples of the units."""
        return make_family(
            self.target,
            self.prediction,
            self.scores,
            task=self.task,
            classes=len(self.classes),
            units=units,
        )
