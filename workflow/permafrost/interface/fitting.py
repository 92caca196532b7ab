"""What the estimators share: features as the probes take them, validation, and errors as scikit-learn raises them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.extras import explained
from permafrost.probes.embeddings.features import Features


class InputError(PermafrostError, ValueError):
    """A wrong input, as the pipeline words it and scikit-learn expects it."""


@contextlib.contextmanager
def as_value_errors() -> Iterator[None]:
    """Raise the pipeline's errors as ValueError too, which scikit-learn's tools catch."""
    try:
        with explained():
            yield
    except PermafrostError as error:
        raise InputError(error.problem, where=error.where, remedy=error.remedy) from error


def features_of(embeddings: np.ndarray, labels: np.ndarray, task: str, classes: int) -> Features:
    """Arrays in the form that a feature store has when a probe reads it; single precision, as stores hold it."""
    names = [str(number) for number in range(classes)]
    rows = np.asarray(embeddings, np.float32)
    return Features(rows, labels, None, {"task": task, "classes": names})


def held_out(y: np.ndarray, *, fraction: float, seed: int, groups=None) -> np.ndarray:
    """(N,) bool, the samples that are held out for validation.

    Whole groups where `groups` are given. Else, of (N,) class ids, `fraction` of each class rounded down, so that
    every class stays in train; of other targets `fraction` of all.

    Raises
    ------
    InputError : nothing would be left on one of the sides.
    """
    generator = np.random.default_rng(seed)
    chosen = np.zeros(len(y), bool)
    if groups is not None:
        names, index = np.unique(np.asarray(groups), return_inverse=True)
        out = generator.permutation(len(names))[: int(fraction * len(names))]
        chosen = np.isin(index, out)
    elif y.ndim == 1 and y.dtype.kind in "iu":
        for label in np.unique(y):
            rows = generator.permutation(np.flatnonzero(y == label))
            chosen[rows[: int(fraction * len(rows))]] = True
    else:
        chosen[generator.permutation(len(y))[: int(fraction * len(y))]] = True
    if not chosen.any() or chosen.all():
        raise InputError(
            f"n_samples = {len(y)} are too few to hold out {fraction:g} of each class or group for validation",
            remedy="give validation=(X, y), or a larger validation_fraction",
        )
    return chosen
