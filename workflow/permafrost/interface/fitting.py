"""Shared by the estimators: features for probes, held-out validation data, and ValueErrors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.extras import explained
from permafrost.probes.embeddings.features import Features


class InputError(PermafrostError, ValueError):
    """A wrong input: the pipeline's error, also as the ValueError that scikit-learn expects."""


@contextlib.contextmanager
def as_value_errors() -> Iterator[None]:
    """Raise the pipeline's errors as `InputError`: scikit-learn's tools catch ValueError."""
    try:
        with explained():
            yield
    except PermafrostError as error:
        raise InputError(error.problem, where=error.where, remedy=error.remedy) from error


def features_of(embeddings: np.ndarray, labels: np.ndarray, task: str, classes: int) -> Features:
    """Arrays as a probe reads them from a feature store, in float32.

    Parameters
    ----------
    embeddings : (N, d); labels : (N,) or (N, L).
    classes : number of classes.
    """
    names = [str(number) for number in range(classes)]
    rows = np.asarray(embeddings, np.float32)
    return Features(rows, labels, None, {"task": task, "classes": names})


def held_out(y: np.ndarray, *, fraction: float, seed: int, groups=None) -> np.ndarray:
    """(N,) bool: the samples held out for validation.

    If `groups` are given, `fraction` of the groups. Else, for (N,) class ids, `fraction` of each
    class, rounded down so that every class stays in the training data; for other targets,
    `fraction` of all samples.

    Raises
    ------
    InputError : one side would be empty.
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
