"""Convert targets and predictions of one call for the statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.targets import ManyLabels, Number, OneClass
from permafrost.core.tasks import targets_of, tasks_with
from permafrost.interface.fitting import InputError
from permafrost.interface.given import (
    Samples,
    array_of,
    by_name,
    is_counted,
    is_number,
    is_text,
    names_of_columns,
)
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers

if TYPE_CHECKING:
    from permafrost.core.targets import Labels

_ONE_ANSWER = "give one class per sample, or probabilities (N, K) of all classes"


class Given:
    """Checked targets and predictions of one call.

    Attributes
    ----------
    task, targets : name of the task, and its description from `core.targets`.
    target : (N,) class ids or numbers, or (N, L) labels of 0 and 1.
    predicted : name to (N, K) or (N, L) scores in the order of `classes`, or the form of `y`.
    classes : names of all classes or labels; empty for regression.
    groups : (N,) names, or None.
    samples : (N,) ids of the samples.

    Raises
    ------
    InputError : shapes, types, indexes or class names are wrong.
    """

    def __init__(self, y, classes, task: str | None, groups, predictions: Mapping) -> None:
        samples = Samples()
        target = samples.take(y, "y")
        labels = names_of_columns(y, "y")
        if target.ndim == 2 and target.shape[1] == 1 and task != "multilabel":
            target, labels = target[:, 0], None
        if target.ndim > 2:
            raise InputError(f"y has the shape {target.shape}", remedy="give one target per sample")
        looks = "regression" if target.dtype.kind == "f" else "classification"
        self.task = task or ("multilabel" if target.ndim == 2 else looks)
        if self.task not in tasks_with(OneClass, ManyLabels, Number):
            raise InputError(
                f"the task {task!r} is not evaluated from arrays",
                remedy="use classification, multilabel or regression; pf.detection has its own evaluate",
            )
        self.targets = targets_of(self.task)
        found = {name: samples.take(p, name) for name, p in predictions.items()}
        columns = {name: names_of_columns(p, name) for name, p in predictions.items()}
        self.groups = samples.take_groups(groups)
        for name, rows in found.items():
            if rows.ndim == 2 and rows.shape[1] == 1 and target.ndim == 1:
                found[name], columns[name] = rows[:, 0], None
        self.samples, self.predicted = row_names(len(target)), found
        self.classes: list = []
        if self.targets.numbers:
            self.target = target
            return
        known = None if classes is None else list(array_of(classes, "classes").tolist())
        if known is not None and len(set(known)) < len(known):
            raise InputError("classes has a class twice", remedy="name each class once")
        if self.targets.several:
            self.target = _labels(target, "y")
            columns = {"y": labels, **columns}
            named = [each for each in columns.values() if each and not is_counted(each)]
            self.classes = known or (named[0] if named else list(range(target.shape[-1])))
            if labels and not is_counted(labels):
                self.target = by_name(self.target, labels, self.classes, "y")
        else:
            bare = [target, *(rows for rows in found.values() if rows.ndim == 1)]
            self.classes = known or _classes_of(bare, found, columns)
            self.target = self._ids(target, "y")
        for name, rows in found.items():
            if rows.ndim == 2 and columns[name] and not is_counted(columns[name]):
                found[name] = by_name(rows, columns[name], self.classes, name)

    def has_scores(self, name: str) -> bool:
        """Whether a prediction has probabilities or other scores, not only classes or labels."""
        p = self.predicted[name]
        one, several = self.targets.one_class, self.targets.several
        return (one and p.ndim == 2) or (several and p.dtype.kind == "f")

    def predictions(self, name: str):
        """The prediction `name` in the form of the statistics.

        Raises
        ------
        InputError : its shape, type, classes or values do not fit the targets.
        """
        p = self.predicted[name]
        if self.targets.numbers:
            return self._numbers(p, name)

        if self.has_scores(name):
            if not is_number(p):
                raise InputError(f"{name} holds texts in two dimensions", remedy=_ONE_ANSWER)
            if p.ndim != 2 or p.shape[1] != len(self.classes):
                count = p.shape[1] if p.ndim == 2 else f"the shape {p.shape}, not"
                raise InputError(
                    f"probabilities have {count} columns for {len(self.classes)} classes",
                    remedy="give classes=[…], one name per column",
                )
            with np.errstate(over="ignore"):
                scores = p.astype(np.float32)
            if not np.isfinite(scores).all():
                raise InputError(
                    f"{name} holds infinity, or values beyond single precision", remedy="scale it"
                )
            found = cast("Labels", self.targets).answers(scores)
        elif self.targets.several:
            found = _labels(p, name)
            scores = found.astype(np.float32)
        else:
            found = self._ids(p, name)
            scores = np.eye(len(self.classes), dtype=np.float32)[found]
        if found.shape != self.target.shape:
            raise InputError(
                f"{name} has the shape {p.shape}, y {self.target.shape}",
                remedy="give the shape of y, or probabilities (N, K) of all classes",
            )
        about = {"task": self.task, "classes": self.classes, "groups": self.groups}
        return LabelledSamples.from_arrays(self.samples, self.target, found, scores, **about)

    def _numbers(self, p: np.ndarray, name: str):
        if p.shape != self.target.shape:
            raise InputError(
                f"{name} has the shape {p.shape}, y {self.target.shape}",
                remedy="give one number per sample; classes that are floats need task='classification'",
            )
        for what, numbers in (("y", self.target), (name, p)):
            if not is_number(numbers):
                raise InputError(f"{what} holds no numbers", remedy="give task='classification'")
        if not np.isfinite(self.target).all() or not np.isfinite(p).all():
            raise InputError("targets or predictions hold infinity", remedy="leave them out")
        return PredictedNumbers.from_arrays(self.samples, self.target, p, groups=self.groups)

    def _ids(self, names: np.ndarray, what: str) -> np.ndarray:
        if names.ndim != 1:
            raise InputError(f"{what} has the shape {names.shape}", remedy=_ONE_ANSWER)
        places = {name: place for place, name in enumerate(self.classes)}
        listed = names.tolist()
        unknown = [name for name in listed if name not in places]
        if unknown:
            raise InputError(
                f"{what} holds {unknown[0]!r}, which is none of the classes",
                remedy="give classes=[…] with all of them",
            )
        return np.array([places[name] for name in listed], np.int64)


def _classes_of(bare: list[np.ndarray], found: Mapping, columns: Mapping) -> list:
    """Sorted classes: column names of probabilities if they cover all, else those that occur."""
    kinds = {is_text(rows) for rows in bare}
    if len(kinds) > 1:
        raise InputError(
            "y and the predictions mix texts and numbers", remedy="use the same class names in both"
        )
    first = bare[0].dtype.kind
    for rows in bare[1:]:
        if first != "f" and rows.dtype.kind == "f" and (rows != np.floor(rows)).any():
            raise InputError(
                f"a prediction holds {rows[rows != np.floor(rows)][0]:g}, which is not a class",
                remedy="give predicted classes (N,), or probabilities (N, K) of all classes",
            )
    occurring = np.unique(np.concatenate(bare)).tolist()
    for name, names in columns.items():
        if not names or found[name].ndim != 2:
            continue
        absent = [one for one in occurring if one not in names]
        if absent and not is_counted(names):
            raise InputError(
                f"the columns of {name} lack the class {absent[0]!r}; they are {names[:5]}",
                remedy="name each column by its class, or give an array and classes=[…]",
            )
        if not absent:
            return np.unique(array_of(names, f"the columns of {name}")).tolist()
    return occurring


def _labels(rows: np.ndarray, what: str) -> np.ndarray:
    """Labels as uint8; values other than 0 and 1 are refused."""
    if not is_number(rows) or not np.isin(rows, (0, 1)).all():
        raise InputError(f"{what} holds other labels than 0 and 1", remedy="give 0 or 1 per label")
    return rows.astype(np.uint8)


def named_predictions(predictions) -> dict[str, object]:
    """Name -> prediction, from a mapping or the columns of a data frame.

    Raises
    ------
    InputError : another type, or a name occurs twice.
    """
    columns = names_of_columns(predictions, "predictions")
    if columns is None and not isinstance(predictions, Mapping):
        raise InputError(
            f"predictions are of the type {type(predictions).__name__}, without names",
            remedy="give {'name': p, …}, or a data frame with one column for each",
        )
    named = {str(name): predictions[name] for name in columns or predictions}
    if len(named) < len(columns or predictions):
        raise InputError("two predictions have the same name", remedy="name each once")
    return named


def row_names(count: int) -> list[str]:
    return [str(row) for row in range(count)]
