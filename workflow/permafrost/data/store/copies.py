"""Repeated images: copies within a split, and test images that are also in train or val."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from permafrost.core.leakage import LEAK, LEAKS, UNIT
from permafrost.data.records import Record
from permafrost.data.store.image_hashes import ImageHashes, near_matches, spread_of


@dataclass(frozen=True)
class TestCopies:
    """Copies among the N images of the test split.

    Attributes
    ----------
    leaks : (N,) kinds of `core.leakage.LEAKS`, None if train and val share nothing with an image.
    units : (N,) names of sampling units: groups, merged if they contain copies of each other; None
        for an ungrouped image without copies.
    exact, near : number of images that equal, or nearly equal, an earlier image of the split.
    groups : (N,) groups as the records have them.
    """

    leaks: list[str | None]
    units: list[str | None]
    groups: list[str | None]
    exact: int
    near: int

    def card(self) -> dict:
        """The keys of the card's ``audit`` about them."""
        alone = sum(unit is None for unit in self.units)
        units = len({*self.units} - {None}) + alone
        return {
            "test_in_train": {kind: self.leaks.count(kind) for kind in LEAKS},
            "copies_in_test": {"exact": self.exact, "near": self.near, "units": units},
        }

    def columns(self) -> dict[str, pa.Array]:
        """Columns of samples.parquet that are not empty."""
        found = {}
        if self.units != self.groups:
            found[UNIT] = pa.array(self.units, pa.string())
        if any(self.leaks):
            found[LEAK] = pa.array(self.leaks, pa.string())
        return found


def copies_of_test(
    records: Sequence[Record],
    hashes: Mapping[str, ImageHashes],
    found: Mapping[str, Mapping[tuple[str, int], object]],
    shared: Mapping[str, list[str]],
) -> TestCopies:
    """Find copies within the test split, and test images that train or val contain, too.

    Parameters
    ----------
    records : of the test split; hashes : of all splits.
    found : ``exact`` and ``near`` -> (split, row) of images that are in an earlier split, see
        `audit.duplicates`.
    shared : groups in more than one split, see `audit.shared_groups`.
    """
    names = [record.sample_id for record in records]
    groups = [record.group_id for record in records]
    leaks: list[str | None] = [
        "group" if group is not None and "test" in shared.get(group, ()) else None
        for group in groups
    ]
    for kind, rows in (("near", found["near"]), ("copy", found["exact"])):
        for split, row in rows:
            if split == "test":
                leaks[row] = kind
    # contrast is relative to all splits: a test split may contain only flat images
    spread = spread_of(*(one.thumbs for one in hashes.values()))
    (every, first), pairs = copies_among(hashes["test"], spread)
    units = joined_units(names, groups, [(every, first), pairs])
    return TestCopies(
        leaks,
        units,
        groups,
        exact=int(np.count_nonzero(first != np.arange(len(first)))),
        near=len(np.unique(pairs[0])),
    )


def copies_among(
    hashes: ImageHashes, spread: float
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Pairs of copies among images, as later and earlier rows: every image with its first equal, and similar ones.

    Parameters
    ----------
    spread : see `image_hashes.near_matches`.
    """
    first = _first_of_equal(hashes.exact)
    every = np.arange(len(first))
    return (every, first), near_pairs(hashes, np.flatnonzero(first == every), spread)


def _first_of_equal(digests: np.ndarray) -> np.ndarray:
    """(N,) the first row with the same digest."""
    _, first, place = np.unique(digests, return_index=True, return_inverse=True)
    return first[place]


def near_pairs(
    hashes: ImageHashes, rows: np.ndarray, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """Near-duplicates among the ascending `rows`, by the rule between splits: later rows, earlier rows."""
    some = ImageHashes(*(getattr(hashes, name)[rows] for name in ImageHashes.__annotations__))
    pairs = [(one, other) for one, other in near_matches(some, some, spread) if other < one]
    later, earlier = np.array(pairs, np.int64).reshape(-1, 2).T
    return rows[later], rows[earlier]


def joined_units(
    names: Sequence[str],
    groups: Sequence[str | None],
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[str | None]:
    """(N,) names of the sampling units after merging pairs of samples and members of groups.

    A unit has the name of its first group (sorted by name), else of its first sample. None for a
    sample without group and pair. The result does not depend on the order of the samples.
    """
    count = len(names)
    heads: dict[str, int] = {}
    of_groups = np.array(
        [
            row if group is None else heads.setdefault(group, row)
            for row, group in enumerate(groups)
        ],
        np.int64,
    )
    ends = (
        [np.arange(count), *(one for one, _ in pairs)],
        [of_groups, *(other for _, other in pairs)],
    )
    rows, columns = (np.concatenate(each) for each in ends)
    graph = coo_array((np.ones(len(rows), bool), (rows, columns)), (count, count))
    _, labels = connected_components(graph, directed=False)
    sizes = np.bincount(labels, minlength=1)
    named: dict[int, str] = {}
    for label, group in zip(labels.tolist(), groups, strict=True):
        if group is not None:
            named[label] = min(named.get(label, group), group)
    alone: dict[int, str] = {}
    for label, name in zip(labels.tolist(), names, strict=True):
        if label not in named and sizes[label] > 1:
            alone[label] = min(alone.get(label, name), name)
    for label, name in alone.items():
        name = f"copies of {name}"
        while name in heads:
            name += "'"
        named[label] = name
    return [named.get(label) for label in labels.tolist()]
