"""Divide the images of a dataset into folds: by group, image or block, or one per season, year, band of latitude or
value of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.data.derived import DEGREES, Folds
from permafrost.data.labels.regions import band, season, year_month
from permafrost.data.labels.splits import blocks, distances_km, groups_of, strata_of
from permafrost.data.labels.stratified import at_random, by_unit
from permafrost.data.records import Record


@dataclass(frozen=True)
class Fold:
    """One fold: its name, and positions of the records of each split, ascending."""

    name: str
    indices: dict[str, np.ndarray]


def make_folds(
    records: Sequence[Record],
    options: Folds,
    same: np.ndarray,
    together: np.ndarray,
    *,
    name: str,
    where: object,
    values: np.ndarray | None = None,
) -> list[Fold]:
    """The folds of a dataset, those of each repetition in turn.

    Parameters
    ----------
    same : (N,) number, equal for images that must not be in train and test of a fold: copies of one image, and
        members of a group unless folds divide groups.
    together : (N,) number, equal for images that are not divided between train and validation.
    name : of the dataset; seeds are derived from it.
    values : (N,) those of the options' column.

    Raises
    ------
    PermafrostError : a date, place or group is missing, there are fewer units than folds, a value is not there, or a
        split of a fold is empty.
    """
    values = _values(records, options, where) if values is None else values
    strata, found = strata_of(records), []
    for repeat in range(options.repeats):
        rng = np.random.default_rng(derive_seed("folds", name, options.seed, repeat))
        parts, names = _parts(values, same, strata, options, rng, where)
        for number, called in enumerate(names):
            if options.only is not None and called not in options.only:
                continue
            title = f"{called}, {repeat + 1}" if options.repeats > 1 else called
            # of its own, so that a fold is the same whichever others are tested
            rng = np.random.default_rng(derive_seed("fold", name, options.seed, repeat, called))
            indices = _fold(title, parts == number, records, same, options, where)
            found.append(
                Fold(title, _with_val(title, indices, together, strata, options, rng, where))
            )
    unknown = sorted(set(options.only or ()) - {*names})
    if unknown:
        raise PermafrostError(
            f"there is no fold {unknown[0]!r} by {options.called}; there are {', '.join(names[:20])}",
            where=f"{where}: only",
            remedy="correct the name",
        )
    return found


def _values(records: Sequence[Record], options: Folds, where: object) -> np.ndarray | None:
    """(N,) text: the group, block, season, year or band of each record; None: what `same` says."""
    if options.by == "block":
        assert options.block_km is not None
        return blocks(records, options.block_km, where).astype(str)
    if options.by == "latitude":
        return np.array([band(_lat(one, where), options.degrees or DEGREES)[1] for one in records])
    if options.by == "year":
        return np.array([str(_year(one, where)) for one in records])
    if options.by == "season":
        return np.array([season(_month(one, where), _lat(one, where))[1] for one in records])
    if options.k == "each":
        return groups_of(records, where)
    return None


def _lat(record: Record, where: object) -> float:
    if record.lat is None:
        raise _missing("latitude", record, where, "choose folds by group or image")
    return record.lat


def _year(record: Record, where: object) -> int:
    found = year_month(record.date)
    if found is None:
        raise _missing("year", record, where, "choose folds by group or image")
    return found[0]


def _month(record: Record, where: object) -> int:
    _, month = year_month(record.date) or (None, None)
    if month is None:
        raise _missing("month", record, where, "choose folds by group or image")
    return month


def _missing(what: str, record: Record, where: object, remedy: str) -> PermafrostError:
    return PermafrostError(
        f"the {what} of {record.sample_id} is not known", where=f"{where}: folds", remedy=remedy
    )


def _parts(
    values: np.ndarray | None,
    same: np.ndarray,
    strata: np.ndarray,
    options: Folds,
    rng: np.random.Generator,
    where: object,
) -> tuple[np.ndarray, list[str]]:
    """(N,) number of the fold that tests each record, and the names of the folds."""
    if values is not None and (options.of_values or options.k == "each"):
        names, parts = np.unique(values, return_inverse=True)
        if len(names) < 2:
            raise PermafrostError(
                f"all images have the same {options.called} ({names[0]})",
                where=f"{where}: folds",
                remedy="choose other folds",
            )
        return parts, names.tolist()
    units = same if values is None else joined(values, same)
    k, count = 5 if options.k is None else int(options.k), len(np.unique(units))
    if count < k:
        raise PermafrostError(
            f"{k} folds need as many {options.by}s, and there are {count}",
            where=f"{where}: folds",
            remedy=f"give a k of at most {count}" if count > 1 else "choose other folds",
        )
    parts = by_unit(units, _amounts(strata), np.full(k, 1 / k), rng)
    return parts, [f"fold {number + 1}" for number in range(k)]


def joined(values: np.ndarray, same: np.ndarray) -> np.ndarray:
    """(N,) units that keep both the values and `same` together."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, one = np.unique(values, return_inverse=True)
    _, other = np.unique(same, return_inverse=True)
    size = int(one.max() + other.max() + 2)
    links = coo_array((np.ones(len(one), bool), (one, one.max() + 1 + other)), (size, size))
    return connected_components(links, directed=False)[1][one]


def _fold(
    title: str,
    test: np.ndarray,
    records: Sequence[Record],
    same: np.ndarray,
    options: Folds,
    where: object,
) -> dict[str, np.ndarray]:
    """Positions of the records that are tested, and of those that are left for training."""
    left = ~test & ~np.isin(same, same[test])
    if options.buffer_km is not None:
        left &= distances_km(records, np.flatnonzero(test), where) >= options.buffer_km
    return {"rest": np.flatnonzero(left), "test": np.flatnonzero(test)}


def _with_val(
    title: str,
    indices: dict[str, np.ndarray],
    together: np.ndarray,
    strata: np.ndarray,
    options: Folds,
    rng: np.random.Generator,
    where: object,
) -> dict[str, np.ndarray]:
    """The three splits of a fold; validation is a share of what is left."""
    rows = indices["rest"]
    parts = divided(rows, 1 - options.val, together, strata, rng)
    found = {"train": rows[parts == 0], "val": rows[parts == 1], "test": indices["test"]}
    for split, chosen in found.items():
        if not len(chosen):
            raise PermafrostError(
                f"{title} has no image left for {split}",
                where=f"{where}: folds",
                remedy="give a smaller buffer_km, or another val or k",
            )
    return found


def divided(
    rows: np.ndarray,
    share: float,
    together: np.ndarray,
    strata: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """(n,) 0 for about this share of `rows`, 1 for the others; `together` and strata as in `make_folds`."""
    units, shares = together[rows], np.array([share, 1 - share])
    names = np.unique(units)
    if len(names) == len(units):
        parts = at_random(strata[rows], shares, rng)
    else:
        parts = by_unit(units, _amounts(strata[rows]), shares, rng)
    if len(names) > 1 and len(np.unique(parts)) < 2:
        # so few units of each class that rounding has put all into one part
        chosen = rng.permutation(names)[: max(1, round((1 - share) * len(names)))]
        parts = np.isin(units, chosen).astype(np.int64)
    return parts


def _amounts(strata: np.ndarray) -> np.ndarray:
    """(N, 1 + S) the image itself and its amount of each stratum, so that parts are of one size, too."""
    if strata.ndim > 1:
        return strata
    kinds, stratum = np.unique(strata, return_inverse=True)
    return np.column_stack([np.ones(len(strata)), np.eye(len(kinds))[stratum]])
