"""The independent unit that is resampled: the group where it is known, else the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError


@dataclass(frozen=True)
class Units:
    """The units of a test set.

    Attributes
    ----------
    kind : ``group`` or ``image``.
    count : U, the number of units.
    index : (N,) the unit of each sample, in [0, U); units are numbered by their sorted names, so
        the numbering does not depend on the order of the rows.
    """

    kind: str
    count: int
    index: np.ndarray


def find_units(n_samples: int, *, sample_ids=None, groups=None) -> Units:
    """The units of `n_samples` samples.

    Parameters
    ----------
    sample_ids : (N,) names of the samples, unique. Without them, images are numbered as they come.
    groups : (N,) names of the groups, None where unknown: such an image is a unit of its own.

    Raises
    ------
    PermafrostError : a length that does not fit, a sample id twice, some groups unknown but no
        sample ids to name those units by.
    """
    for what, names in (("sample_ids", sample_ids), ("groups", groups)):
        if names is not None and len(names) != n_samples:
            raise PermafrostError(f"{len(names)} {what} for {n_samples} samples")
    known = _known(groups, n_samples)
    if not known.any():
        return Units("image", n_samples, _image_numbers(sample_ids, n_samples))
    grouped = np.flatnonzero(known)
    names, index_of_grouped = np.unique(
        np.array([str(groups[row]) for row in grouped]), return_inverse=True
    )
    index = np.empty(n_samples, np.intp)
    index[known] = index_of_grouped
    alone = np.flatnonzero(~known)
    if alone.size:
        if sample_ids is None:
            raise PermafrostError(
                f"{alone.size} of {n_samples} samples have no group",
                remedy="give sample_ids, so that each of them can be a unit of its own",
            )
        index[alone] = len(names) + _image_numbers([sample_ids[row] for row in alone], alone.size)
    return Units("group", len(names) + alone.size, index)


def _known(groups, n_samples: int) -> np.ndarray:
    if groups is None:
        return np.zeros(n_samples, bool)
    return np.array([name is not None and name == name for name in groups], bool)


def _image_numbers(sample_ids, n_samples: int) -> np.ndarray:
    if sample_ids is None:
        return np.arange(n_samples)
    names = np.array(list(map(str, sample_ids)))
    order = np.argsort(names, kind="stable")
    ordered = names[order]
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        raise PermafrostError(
            f"the sample id {str(twice[0])!r} occurs more than once",
            remedy="prepare the dataset again: sample ids must be unique in it",
        )
    numbers = np.empty(n_samples, np.intp)
    numbers[order] = np.arange(n_samples)
    return numbers
