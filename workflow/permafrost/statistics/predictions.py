"""The predictions of one backbone on one test set, whatever their task."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from .confusions import Confusions
from .labelled import LabelledSamples


class Predictions(Protocol):
    """What statistics ask of predictions; rows are in the ascending order of their sample ids.

    Attributes
    ----------
    sample_ids : (N,) unique strings, ascending.
    groups : (N,) strings or None, or None as a whole where no group is known.
    task : a name of `metrics.tasks`.
    classes : names of the K classes.
    truth : (N, …) what is true of each sample, so that two test sets can be told apart: class ids
        (N,), labels (N, L) of 0 and 1, or pixels of each class (N, K).
    answers : (N, …) what was predicted, in the form of `truth`.
    dead_classes : ids of classes that are scored nowhere.
    boundary : whether boundaries were counted.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    task: str
    classes: list[str]
    dead_classes: tuple[int, ...]

    def __len__(self) -> int: ...

    @property
    def truth(self) -> np.ndarray: ...

    @property
    def answers(self) -> np.ndarray: ...

    @property
    def boundary(self) -> bool: ...

    def evaluate(self) -> dict:
        """Every metric on the whole test set: name to a float, or to (K,) per class."""

    def family(self, units: np.ndarray):
        """What evaluates every metric on resamples of the units; `units` is (N,), see `units`."""


def predictions_from_table(table, metadata: dict) -> Predictions:
    """From a prediction table and its metadata, as `core.tables.read_table` returns them.

    Raises
    ------
    PermafrostError : a column is missing, has the wrong width, or holds a null.
    """
    kind = Confusions if metadata["task"] == "segmentation" else LabelledSamples
    return kind.from_table(table, metadata)
