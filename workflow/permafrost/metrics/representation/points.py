"""Prepare features for measuring: check, draw and centre rows, find equal rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError

_REMEDY = "check the backbone's weights and normalisation, then extract again"


@dataclass(frozen=True)
class Points:
    """Rows of features, scaled so that nothing overflows.

    Attributes
    ----------
    values : (N, d) float64 features minus their mean, times a power of two.
    mean : (d,) the mean, times the same power.
    lengths : (N,) lengths of the rows before centring, times the same power.
    first_equal : (N,) index of the first row that equals this one, possibly itself.
    units, n_units : (N,) the independent unit of each row in [0, U), and U.
    """

    values: np.ndarray
    mean: np.ndarray
    lengths: np.ndarray
    first_equal: np.ndarray
    units: np.ndarray
    n_units: int

    def __len__(self) -> int:
        return len(self.values)

    @property
    def duplicates(self) -> int:
        """Number of rows that equal an earlier one."""
        return int(np.count_nonzero(self.first_equal != np.arange(len(self))))

    @property
    def collapsed(self) -> bool:
        """Whether all rows are equal."""
        return not self.first_equal.any()

    def notes(self) -> dict:
        """The notes on the rows that all measures have."""
        notes = {"rows": len(self)}
        return {**notes, "duplicates": self.duplicates} if self.duplicates else notes


def as_points(features, units=None) -> Points:
    """Prepare (N, d) features, N >= 1, for measuring; `Points` are returned as they are.

    Parameters
    ----------
    units : (N,) integer unit of each row, numbered from 0; None: every row is a unit.

    Raises
    ------
    PermafrostError : not a matrix of numbers, an empty one, NaN or infinity (names the row), units
        of another length.
    """
    if isinstance(features, Points):
        return features
    features = check_features(features)
    units = check_units(units, len(features))
    values = features.astype(np.float64)
    largest = float(np.abs(values).max())
    # a power of two scales without rounding; no measure of points depends on scale
    values = np.ldexp(values, -int(np.frexp(largest)[1])) if largest else values
    lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    first_equal = equal_rows(values)
    # the mean of equal numbers may have a rounding error, which would look like variance
    mean = values.mean(axis=0) if first_equal.any() else values[0].copy()
    values -= mean
    return Points(values, mean, lengths, first_equal, units, int(units.max()) + 1)


def check_features(features, what: str = "features") -> np.ndarray:
    """`features` as a non-empty (N, d) array of finite numbers."""
    features = np.asarray(features)
    if features.ndim != 2 or 0 in features.shape or features.dtype.kind not in "fiu":
        raise PermafrostError(
            f"{what} must be numbers of shape (samples, dimensions), "
            f"not {features.dtype} of shape {features.shape}",
            remedy="pool the embeddings to one vector per sample and keep every split non-empty",
        )
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise PermafrostError(
            f"{bad.size} of {len(features)} rows of {what} hold NaN or infinity "
            f"(first: row {bad[0]})",
            remedy=_REMEDY,
        )
    return features


def check_units(units, rows: int) -> np.ndarray:
    """`units` as (N,) integers from 0; None: every row is a unit."""
    if units is None:
        return np.arange(rows)
    units = np.asarray(units)
    if units.shape != (rows,) or units.dtype.kind not in "iu" or int(units.min()) < 0:
        raise PermafrostError(
            f"units must be {rows} integers from 0, not {units.dtype} of shape {units.shape}",
            remedy="give the unit of every row, as numbered by the predictions' groups or images",
        )
    return units.astype(np.intp)


def check_labels(labels, rows: int) -> np.ndarray:
    """`labels` as (N,) class ids, or (N, L) of a multi-label dataset."""
    labels = np.asarray(labels)
    if labels.ndim not in (1, 2) or len(labels) != rows or labels.dtype.kind not in "iub":
        raise PermafrostError(
            f"labels must be {rows} integer class ids, not {labels.dtype} of shape {labels.shape}",
            remedy="give the labels of the same split as the features",
        )
    return labels


def draw_rows(rows: int, max_rows: int, seed: int) -> np.ndarray:
    """Sorted indices of at most `max_rows` of the rows, drawn without replacement."""
    if max_rows < 1:
        raise PermafrostError(f"cannot measure {max_rows} rows", remedy="give at least 1")
    if rows <= max_rows:
        return np.arange(rows)
    generator = np.random.Generator(np.random.PCG64(seed))
    return np.sort(generator.choice(rows, max_rows, replace=False))


def equal_rows(values: np.ndarray) -> np.ndarray:
    """(N,) index of the first row that equals each row, in one pass over their bytes."""
    seen: dict[bytes, int] = {}
    # + 0.0 turns negative zeros into zeros
    return np.array([seen.setdefault((row + 0.0).tobytes(), i) for i, row in enumerate(values)])
