"""The independent unit of resampling: the group if it is known, else the image."""

from __future__ import annotations

import hashlib
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
    index : (N,) the unit of each sample, in [0, U). Units are numbered by the hashes of their
        names, so the numbers depend neither on the row order nor on the meaning of the names.
        Blocks of every J-th unit (`resamples.iter_jackknife`) are therefore random, even if names
        are sorted by region or class.
    """

    kind: str
    count: int
    index: np.ndarray


def find_units(n_samples: int, *, sample_ids=None, groups=None) -> Units:
    """The units of `n_samples` samples.

    Parameters
    ----------
    sample_ids : (N,) unique names of the samples. Without them, images are numbered in input order.
    groups : (N,) names of the groups, None if unknown: such an image is a unit by itself.

    Raises
    ------
    PermafrostError : a wrong length, a duplicate sample id, or unknown groups without sample ids to
        name their units.
    """
    for what, names in (("sample_ids", sample_ids), ("groups", groups)):
        if names is not None and len(names) != n_samples:
            raise PermafrostError(f"{len(names)} {what} for {n_samples} samples")
    known = _known(groups, n_samples)
    if not known.any():
        return Units("image", n_samples, _numbers(_image_names(sample_ids, n_samples))[1])
    alone = np.flatnonzero(~known)
    if alone.size and sample_ids is None:
        raise PermafrostError(
            f"{alone.size} of {n_samples} samples have no group",
            remedy="give sample_ids, so that each of them is its own unit",
        )
    # a group and an image may have the same name
    names = np.empty(n_samples, object)
    names[known] = [f"group {groups[row]}" for row in np.flatnonzero(known)]
    if alone.size:
        images = _image_names([sample_ids[row] for row in alone], alone.size)
        names[alone] = [f"image {name}" for name in images]
    return Units("group", *_numbers(names.astype(str)))


def _known(groups, n_samples: int) -> np.ndarray:
    if groups is None:
        return np.zeros(n_samples, bool)
    return np.array([name is not None and name == name for name in groups], bool)


def _image_names(sample_ids, n_samples: int) -> np.ndarray:
    """(N,) names of images; refuse duplicates."""
    if sample_ids is None:
        return np.arange(n_samples).astype(str)
    names = np.array(list(map(str, sample_ids)))
    ordered = np.sort(names)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        raise PermafrostError(
            f"the sample id {str(twice[0])!r} occurs more than once",
            remedy="prepare the dataset again: sample ids must be unique in it",
        )
    return names


def _numbers(names: np.ndarray) -> tuple[int, np.ndarray]:
    """The number of distinct names, and (N,) the rank of each in the order of their hashes."""
    different, index = np.unique(names, return_inverse=True)
    digests = b"".join(
        hashlib.blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
        for name in different.tolist()
    )
    places = np.empty(len(different), np.intp)
    places[np.argsort(np.frombuffer(digests, ">u8"), kind="stable")] = np.arange(len(different))
    return len(different), places[index]
