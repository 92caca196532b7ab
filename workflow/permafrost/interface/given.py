"""Convert arguments to arrays, aligned by their pandas index, with the same checks for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real

import numpy as np
import pandas as pd

from permafrost.core.errors import first_line
from permafrost.interface.fitting import InputError

# argument -> name of its entries in error messages
_ENTRIES = {"y": "targets", "groups": "groups", "sample_weight": "weights"}
_NUMBERS, _TEXT = "biuf", "U"


class Samples:
    """Aligns the arguments of one call: same number of samples, same order.

    The first Series or DataFrame defines the order; later ones with the same index labels are
    reordered, and other labels are refused. Arrays and lists have no index and keep their order.
    """

    def __init__(self) -> None:
        self.count: int | None = None
        self._index: pd.Index | None
        self._indexed, self._index = "", None

    def ordered(self, value, what: str):
        """`value` in the order of the samples.

        Raises
        ------
        InputError : its index has other labels than that of an earlier argument.
        """
        if not hasattr(value, "iloc"):
            return value
        index = value.index
        if self._index is None:
            self._indexed, self._index = what, index
        if len(index) != len(self._index) or index.equals(self._index):
            return value
        unique = index.is_unique and self._index.is_unique
        if not unique or not index.isin(self._index).all():
            raise InputError(
                f"{what} and {self._indexed} have different indexes",
                remedy=f"give both the same index, or {what}.to_numpy() to go by position",
            )
        return value.iloc[index.get_indexer(self._index)]

    def take(self, value, what: str) -> np.ndarray:
        """`value` as an array in the order of the samples.

        Raises
        ------
        InputError : as `ordered` and `array_of`; or another length than earlier arguments.
        """
        rows = array_of(self.ordered(value, what), what)
        if self.count is None:
            self.count = len(rows)
        if len(rows) != self.count:
            entries = _ENTRIES.get(what, "predictions")
            raise InputError(
                f"{len(rows)} {entries} for {self.count} samples", remedy="give one per sample"
            )
        return rows

    def take_groups(self, groups) -> np.ndarray | None:
        """(N,) names of the groups as text; None without groups."""
        return None if groups is None else _as_names(self.take(groups, "groups"))


def array_of(value, what: str) -> np.ndarray:
    """`value` as an array of numbers or strings; groups may have any type.

    Raises
    ------
    InputError : not an array, empty, with missing entries (None, NaN, NA, masked), or of another
        type.
    """
    # as objects, because NumPy would turn NaN in a list of strings into a string
    listed = isinstance(value, list | tuple)
    try:
        rows = np.asarray(value, object) if listed else np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{what} is not an array ({first_line(error)})", remedy="give a list or a NumPy array"
        ) from error
    if rows.ndim == 0 or not rows.size:
        entries = (
            "a list of all classes" if what == "classes" else "one entry per sample, as an array"
        )
        raise InputError(f"{what} has the shape {rows.shape}", remedy=f"give {entries}")
    lacking = int(np.count_nonzero(pd.isna(rows)))
    if lacking or np.ma.is_masked(value):
        remedy = "leave these samples out"
        if what == "groups":
            remedy += ", or give each of them a group of its own"
        raise InputError(f"{what} holds NaN or None ({lacking or 'masked'})", remedy=remedy)
    if rows.dtype == object and not any(np.ndim(entry) for entry in rows.flat):
        rows = np.array(rows.ravel().tolist(), None if _alike(rows) else object).reshape(rows.shape)
    if rows.dtype.kind not in _NUMBERS + _TEXT and what != "groups":
        raise InputError(
            f"{what} holds {_types(rows)}", remedy="give numbers, or texts, of one type"
        )
    return rows


def names_of_columns(value, what: str) -> list | None:
    """The column names of a data frame; None for arrays and one-dimensional values.

    Raises
    ------
    InputError : a name occurs twice.
    """
    if not hasattr(value, "columns") or np.ndim(value) != 2:
        return None
    names = list(value.columns)
    if len(set(names)) < len(names):
        raise InputError(f"{what} has two columns of one name", remedy="name each column once")
    return names


def is_counted(names: list) -> bool:
    """Whether names are 0, 1, …, which pandas gives to unnamed columns."""
    return all(type(name) is not str and name == place for place, name in enumerate(names))


def by_name(rows: np.ndarray, names: list, wanted: Sequence, what: str) -> np.ndarray:
    """The columns of (N, K) `rows` in the order `wanted`.

    Raises
    ------
    InputError : `names` and `wanted` differ.
    """
    if set(names) != set(wanted):
        raise InputError(
            f"the columns of {what} are {_listed(names)}, the classes {_listed(wanted)}",
            remedy=f"name the columns by class, or give {what}.to_numpy() in the order of classes=[…]",
        )
    return rows[:, [names.index(name) for name in wanted]]


def in_one_order(**arguments) -> list:
    """The arguments, each in the order of the first that has an index; see `Samples`."""
    samples = Samples()
    return [samples.ordered(value, name) for name, value in arguments.items()]


def group_names(groups, count: int) -> np.ndarray:
    """(N,) groups of `count` samples as text, with the checks of `Samples`."""
    samples = Samples()
    samples.count = count
    return _as_names(samples.take(groups, "groups"))


def as_list(names) -> list | None:
    """One name or several as a list; None (all) stays None."""
    if names is None:
        return None
    if not isinstance(names, Iterable):
        raise InputError(f"{names!r} is not a name", remedy="give a name, or a list of names")
    return [names] if isinstance(names, str) else list(names)


def check_numbers(*, confidence, resamples) -> None:
    """Refuse options of intervals that are not numbers, or out of range."""
    # mypy cannot compare int with Real
    if not isinstance(confidence, Real) or not 0 < confidence < 1:  # type: ignore[operator]
        raise InputError(
            f"the confidence {confidence!r} is not a number between 0 and 1",
            remedy="give for example 0.95",
        )
    if not isinstance(resamples, Integral) or resamples < 0:
        raise InputError(
            f"resamples is {resamples!r}, not a whole number of at least 0",
            remedy="give for example 200",
        )


def pair_of(validation) -> list:
    """Features and targets of validation data, in the same order.

    Raises
    ------
    InputError : `validation` is not a pair, or the indexes differ.
    """
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InputError("validation is not a pair", remedy="give validation=(X, y)")
    return in_one_order(X=validation[0], y=validation[1])


def is_text(rows: np.ndarray) -> bool:
    return rows.dtype.kind == _TEXT


def is_number(rows: np.ndarray) -> bool:
    return rows.dtype.kind in _NUMBERS


def _as_names(groups: np.ndarray) -> np.ndarray:
    if groups.ndim != 1:
        raise InputError(
            f"groups has the shape {groups.shape}",
            remedy="give one name per sample, such as f'{tile}/{date}'",
        )
    return np.array([str(name) for name in groups.tolist()], object)


def _alike(rows: np.ndarray) -> bool:
    """Whether all entries are strings, or none is."""
    return len({isinstance(entry, str) for entry in rows.flat}) == 1


def _types(rows: np.ndarray) -> str:
    if rows.dtype != object:
        return f"the type {rows.dtype}"
    return " and ".join(sorted({type(entry).__name__ for entry in rows.flat})[:4])


def _listed(names: Sequence) -> str:
    return ", ".join(map(repr, names[:5])) + (" …" if len(names) > 5 else "")
