"""Assign records to train, val and test: as given, at random, by group or by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.specification import SPLITS
from permafrost.data.entry import Splits
from permafrost.data.labels.stratified import at_random, by_unit
from permafrost.data.labels.targets import target_strata
from permafrost.data.records import Record

KM_PER_DEGREE = 111.195


@dataclass(frozen=True)
class SplitPlan:
    """Positions of the records of each split, in the order of the data, and how they were assigned."""

    indices: dict[str, np.ndarray]
    method: str
    seed: int
    spatially_random: bool


def make_splits(
    records: Sequence[Record],
    options: Splits,
    *,
    name: str,
    where: object,
    dated: bool = False,
) -> SplitPlan:
    """Split the records of a dataset.

    Parameters
    ----------
    name : of the dataset; seeds are derived from it.
    dated : whether records are dates of a location: those with identical coordinates stay together.

    Raises
    ------
    PermafrostError : a split is empty, names are not mapped, groups or coordinates are missing.
    """
    check_split_options(options, where=where)
    common: dict[str, Any] = {"name": name, "where": where, "dated": dated}
    indices = _indices(records, options, **common)
    for split, chosen in indices.items():
        if len(chosen) == 0:
            raise PermafrostError(
                f"the split {split} is empty{_shares(records, options, where, dated)}",
                where=where,
                remedy=_remedy_of_empty(split, records, options, **common),
            )
    marked = _spatially_random(records, indices, options)
    return SplitPlan(indices, options.method, options.seed, marked)


def _indices(
    records: Sequence[Record], options: Splits, *, name: str, where: object, dated: bool
) -> dict[str, np.ndarray]:
    """The records of each split, which may be empty."""
    rng = np.random.default_rng(derive_seed("splits", name, options.seed))
    if options.method == "given":
        indices = _given(records, options, where)
        if options.val_from_train is not None:
            indices = _val_from_train(records, indices, options.val_from_train, rng, where)
        return indices
    fractions, strata = _fractions(options.fractions, where), strata_of(records)
    units, _ = _units(records, options, where, dated)
    if units is None:
        parts = at_random(strata, fractions, rng)
    else:
        parts = by_unit(units, strata, fractions, rng)
    return {split: np.flatnonzero(parts == k) for k, split in enumerate(SPLITS)}


def _units(records, options: Splits, where, dated: bool) -> tuple[np.ndarray | None, str]:
    """(N,) number of what stays together, and its name in the plural; None for single images."""
    if options.method == "group":
        return np.unique(groups_of(records, where), return_inverse=True)[1], "groups"
    if options.method == "block":
        return blocks(records, options.block_km, where, options.join_km), "blocks"
    return (_repeated_places(records) if dated else None), "places"


def check_split_options(options: Splits, *, where: object) -> None:
    """Raise `PermafrostError` for ``splits`` of an entry that no data could satisfy."""
    method = options.method
    useful = {
        "given": {"map", "leave_out", "val_from_train", "spatially_random"},
        "random": {"fractions", "spatially_random"},
        "group": {"fractions"},
        "block": {"fractions", "block_km", "join_km"},
    }
    given = {key for key, value in asdict(options).items() if value not in (None, False)}
    idle = sorted(given - useful[method] - {"method", "seed"})
    if idle:
        raise PermafrostError(
            f"splits by method {method!r} do not use {', '.join(idle)}",
            where=where,
            remedy="remove the option, or choose the method that uses it",
        )
    if method == "block" and not (options.block_km or 0) > 0:
        raise PermafrostError(
            "splits by block need block_km, the side of a block in kilometres",
            where=where,
            remedy="choose a side well above the range of spatial autocorrelation",
        )
    if options.fractions is not None:
        _fractions(options.fractions, where)
    mapped = [name for names in options.names_in_data().values() for name in names]
    if len(set(mapped)) < len(mapped):
        raise PermafrostError(
            "a split of the data is mapped twice", where=where, remedy="map each name once"
        )


def _given(records, options: Splits, where) -> dict[str, np.ndarray]:
    names = options.names_in_data()
    target = {source: split for split, sources in names.items() for source in sources}
    left_out = set(options.leave_out or ())
    found = {record.split for record in records}
    unknown = sorted(map(str, found - set(target) - left_out))
    if unknown:
        raise PermafrostError(
            f"the data names splits that the entry does not map: {', '.join(unknown)}",
            where=where,
            remedy="map them under splits.map, list them under splits.leave_out,"
            " or make splits with method random, group or block",
        )
    absent = sorted(set(target) - found)
    if absent and options.map is not None:
        raise PermafrostError(
            f"splits.map names {', '.join(absent)}, but the data has only "
            f"{', '.join(sorted(map(str, found)))}",
            where=where,
            remedy="correct the names",
        )
    ours = np.array([target.get(record.split, "") for record in records])
    return {split: np.flatnonzero(ours == split) for split in SPLITS}


def _val_from_train(records, indices, fraction: float, rng, where) -> dict[str, np.ndarray]:
    """Move part of train to val; whole groups if every training record has one."""
    if len(indices["val"]):
        raise PermafrostError(
            "the data have a validation split, so val_from_train is not needed",
            where=where,
            remedy="remove val_from_train, or map that split to train",
        )
    train = indices["train"]
    strata = strata_of([records[i] for i in train])
    groups = _known_groups(records, train)
    fractions = np.array([1 - fraction, fraction])
    if groups is not None:
        parts = by_unit(groups, strata, fractions, rng)
    else:
        parts = at_random(strata, fractions, rng)
    return {**indices, "train": train[parts == 0], "val": train[parts == 1]}


def _known_groups(records, chosen: np.ndarray) -> np.ndarray | None:
    """Number of the group of each chosen record; None if one has no group."""
    groups = [records[i].group_id for i in chosen]
    return np.unique(groups, return_inverse=True)[1] if groups and None not in groups else None


def blocks(
    records: Sequence[Record], side_km: float, where: object, join_km: float | None = None
) -> np.ndarray:
    """Block number of each record, see `joined_blocks`; raises `PermafrostError` if a record has no lon and lat."""
    return joined_blocks(_lonlat(records, "splits by block", where), side_km, join_km)


def distances_km(records: Sequence[Record], others: np.ndarray, where: object) -> np.ndarray:
    """(N,) distance in km from each record to the nearest of the records at positions `others`.

    Raises
    ------
    PermafrostError : a record has no lon and lat.
    """
    from scipy.spatial import cKDTree

    ball = _on_sphere(_lonlat(records, "distances", where))
    chord, _ = cKDTree(ball[others]).query(ball)
    radius = KM_PER_DEGREE * 180 / np.pi
    return 2 * radius * np.arcsin(np.minimum(chord / (2 * radius), 1))


def _lonlat(records: Sequence[Record], what: str, where: object) -> np.ndarray:
    lonlat = np.array([(r.lon, r.lat) for r in records], dtype=float)
    missing = np.flatnonzero(np.isnan(lonlat).any(axis=1))
    if len(missing):
        raise PermafrostError(
            f"{what} need lon and lat; {len(missing)} records have none, "
            f"e.g. {records[missing[0]].sample_id}",
            where=where,
            remedy="name the columns lon and lat, or split by group",
        )
    return lonlat


def _on_sphere(lonlat: np.ndarray) -> np.ndarray:
    """(N, 3) places in km from the centre of the Earth."""
    radius = KM_PER_DEGREE * 180 / np.pi
    lon, lat = np.radians(lonlat).T
    return radius * np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], 1)


def joined_blocks(lonlat: np.ndarray, side_km: float, join_km: float | None) -> np.ndarray:
    """Number of the block of each location: squares in rows of equal latitude.

    Parameters
    ----------
    lonlat : (N, 2) degrees.
    side_km : side length of a square.
    join_km : squares with locations closer than this are merged into one block.

    Returns
    -------
    (N,) int, from 0.
    """
    row = np.floor(lonlat[:, 1] * KM_PER_DEGREE / side_km)
    # all blocks of a row have the same width in degrees, so that they line up
    middle = (row + 0.5) * side_km / KM_PER_DEGREE
    width = KM_PER_DEGREE * np.maximum(np.cos(np.radians(middle)), 1e-6)
    column = np.floor((lonlat[:, 0] + 180) % 360 * width / side_km)
    squares = np.stack([row, column], axis=1)
    numbers = np.unique(squares, axis=0, return_inverse=True)[1].ravel()
    return numbers if join_km is None else _joined(numbers, lonlat, join_km)


def _joined(numbers: np.ndarray, lonlat: np.ndarray, join_km: float) -> np.ndarray:
    """Block numbers after merging blocks with locations closer than `join_km`."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    near = cKDTree(_on_sphere(lonlat)).query_pairs(join_km, output_type="ndarray")
    one, other = numbers[near].T
    count = int(numbers.max()) + 1
    links = coo_array((np.ones(len(one)), (one, other)), shape=(count, count))
    return connected_components(links, directed=False)[1][numbers]


def _repeated_places(records: Sequence[Record]) -> np.ndarray | None:
    """(N,) number of the location of each record; None if no two records share one."""
    places = [
        (i, None) if record.lon is None else (record.lon, record.lat)
        for i, record in enumerate(records)
    ]
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    return np.array([numbers[place] for place in places]) if len(numbers) < len(places) else None


def groups_of(records: Sequence[Record], where: object) -> np.ndarray:
    """(N,) name of the group of each record; raises `PermafrostError` if one has none."""
    groups = [record.group_id for record in records]
    if None in groups:
        raise PermafrostError(
            f"splits by group need a group for every record; {groups.count(None)} have none,"
            f" e.g. {records[groups.index(None)].sample_id}",
            where=where,
            remedy="name the column that holds the group",
        )
    return np.array(groups)


def strata_of(records: Sequence[Record]) -> np.ndarray:
    """What splits share equally: (N,) class ids; with multiple labels the record's rarest, for numbers deciles.

    For objects (N, 1 + K): one image each, and the objects of every class. So splits approximate
    their shares of images and of each class's objects at once.
    """
    if records and records[0].objects is not None:
        return _amounts(records)
    labels = [record.label for record in records]
    if not labels or labels[0] is None:
        return np.zeros(len(labels), np.int64)
    array = np.array(labels)
    if array.dtype.kind == "f":
        return target_strata(array)
    if array.ndim == 1:
        return array
    rarity = np.where(array > 0, array.sum(0), np.inf)
    return np.where(array.any(axis=1), rarity.argmin(axis=1), array.shape[1])


def _amounts(records: Sequence[Record]) -> np.ndarray:
    found = [record.objects.classes[~record.objects.crowd] for record in records]
    kinds = 1 + max((int(classes.max(initial=-1)) for classes in found), default=-1)
    counts = np.ones((len(records), 1 + kinds))
    for row, classes in zip(counts, found, strict=True):
        row[1:] = np.bincount(classes, minlength=kinds)
    return counts


def _fractions(values: Sequence[float], where) -> np.ndarray:
    fractions = np.asarray(values, dtype=float)
    if len(fractions) != 3 or (fractions <= 0).any() or abs(fractions.sum() - 1) > 1e-6:
        raise PermafrostError(
            f"fractions {list(values)} are not three positive numbers with sum 1",
            where=where,
            remedy="give the fractions of train, val and test",
        )
    return fractions / fractions.sum()


def _spatially_random(records, indices, options: Splits) -> bool:
    """True if evaluation locations lie between training locations (see the card's documentation)."""
    if options.spatially_random:
        return True
    homes: dict[str, set[str]] = {}
    for split, chosen in indices.items():
        for i in chosen:
            if records[i].group_id is not None:
                homes.setdefault(records[i].group_id, set()).add(split)
    if any(len(splits) > 1 for splits in homes.values()):
        return True
    located = any(record.lon is not None for record in records)
    return options.method == "random" and located


def _shares(records, options: Splits, where, dated: bool) -> str:
    """What was divided, by which fractions, in words; empty if the data name all splits."""
    if options.method != "given":
        units, called = _units(records, options, where, dated)
        count = len(records) if units is None else units.max() + 1
        shares = ", ".join(f"{share:g}" for share in options.fractions)
        return f": {count} {'images' if units is None else called} for the fractions {shares}"
    if options.val_from_train is None:
        return ""
    train = _given(records, options, where)["train"]
    groups = _known_groups(records, train)
    held = f"{len(train)} images" if groups is None else f"{groups.max() + 1} groups"
    return f": {held} of train, of which val_from_train takes {options.val_from_train:g}"


def _remedy_of_empty(split: str, records, options: Splits, **common) -> str:
    """What to write in the entry so that no split is empty; the nearest fractions that do this."""
    if options.method == "given" and split == "val" and options.val_from_train is None:
        return "add val_from_train: 0.2 to splits, or map a split of the data to val"
    for option, tried in _nearest(options).items():
        for value in tried:
            found = _indices(records, replace(options, **{option: value}), **common)
            if all(len(chosen) for chosen in found.values()):
                return f"write {option}: {value} under splits, which leaves no split empty"
    return {
        "block": "choose a smaller block_km, so that there are more blocks",
        "group": "three groups are needed; name another column, or split at random",
    }.get(options.method, "correct splits in the entry")


def _nearest(options: Splits) -> dict[str, list]:
    """Values of the option that divides, from those near the given ones to equal shares."""
    if options.method != "given":
        held = [[held, held] for held in (0.1, 0.15, 0.2, 0.25, 0.3)]
        tried = [[round(1 - sum(pair), 2), *pair] for pair in held]
        return {"fractions": [one for one in tried if min(one) > min(options.fractions)]}
    return {
        "val_from_train": [
            one for one in (0.1, 0.2, 0.3, 0.4, 0.5) if one > (options.val_from_train or 1)
        ]
    }
