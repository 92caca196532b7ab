"""The predictions of one backbone on one test set, as arrays in the order of their sample ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError


@dataclass(frozen=True)
class Predictions:
    """What statistics need of a prediction table.

    Attributes
    ----------
    sample_ids : (N,) unique strings, ascending.
    groups : (N,) strings or None, or None as a whole where no group is known.
    target, prediction : (N,) class ids, or (N, L) of 0 and 1 for ``multilabel``.
    scores : (N, K) or (N, L) float.
    task : ``classification`` or ``multilabel``.
    classes : names of the K or L classes.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    target: np.ndarray
    prediction: np.ndarray
    scores: np.ndarray
    task: str
    classes: list[str]

    def __len__(self) -> int:
        return len(self.sample_ids)

    @classmethod
    def from_arrays(
        cls, sample_ids, target, prediction, scores, *, task, classes, groups=None
    ) -> Predictions:
        """Sort the rows by sample id, so that nothing later depends on their order."""
        ids = np.array(list(map(str, sample_ids)))
        order = np.argsort(ids, kind="stable")
        if groups is not None:
            groups = np.asarray(groups, dtype=object)[order]
            groups = None if all(group is None for group in groups) else groups
        rows = [np.asarray(array)[order] for array in (target, prediction, scores)]
        return cls(ids[order], groups, *rows, task=task, classes=list(classes))

    @classmethod
    def from_table(cls, table, metadata: dict) -> Predictions:
        """From a prediction table and its metadata, as `core.tables.read_table` returns them.

        Raises
        ------
        PermafrostError : a column is missing, a value is null.
        """
        needed = ("sample_id", "target", "prediction", "scores")
        missing = [name for name in needed if name not in table.column_names]
        if missing:
            raise PermafrostError(
                f"the prediction table lacks the columns {', '.join(missing)}",
                remedy="run the evaluation that made it again",
            )
        groups = None
        if "group_id" in table.column_names:
            column = table.column("group_id")
            groups = None if column.null_count == len(column) else column.to_pylist()
        return cls.from_arrays(
            table.column("sample_id").to_pylist(),
            *(_array(table, name) for name in needed[1:]),
            task=metadata["task"],
            classes=metadata["classes"],
            groups=groups,
        )


def _array(table, name: str) -> np.ndarray:
    """A column as an array: (N,), or (N, width) for lists of a fixed size."""
    column = table.column(name).combine_chunks()
    width = getattr(column.type, "list_size", None)
    values = column if width is None else column.flatten()
    if column.null_count or values.null_count:
        raise PermafrostError(
            f"the column {name!r} of the prediction table has empty entries",
            remedy="run the evaluation that made it again",
        )
    flat = values.to_numpy(zero_copy_only=False)
    return flat if width is None else flat.reshape(len(column), width)
