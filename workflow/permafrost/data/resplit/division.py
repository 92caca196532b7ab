"""Which images of a derived dataset are train, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.leakage import LEAK, LEAKS, UNIT
from permafrost.data.derived import DerivedDataset, Folds, check_folds
from permafrost.data.labels.folds import Fold, joined, make_folds
from permafrost.data.labels.splits import blocks, strata_of
from permafrost.data.labels.stratified import stratified
from permafrost.data.records import Record
from permafrost.data.resplit.pool import Pool
from permafrost.data.store.audit import audit_splits, min_distance_km
from permafrost.data.store.card import Card
from permafrost.data.store.copies import copies_among, joined_units
from permafrost.data.store.image_hashes import spread_of
from permafrost.data.user_tables import values_of


@dataclass(frozen=True)
class Division:
    """How a derived dataset is divided.

    Attributes
    ----------
    rows : positions in the pool of the images of each split; with folds, of any fold.
    folds : the folds; empty without.
    counted : positions that counts in the card refer to: with folds, those of the fold with fewest train images; all of
        test.
    audit : of the card, except bands.
    columns : of the test split's table, name to values.
    spatially_random : as in the card.
    """

    rows: dict[str, np.ndarray]
    folds: list[Fold]
    counted: dict[str, np.ndarray]
    audit: dict
    columns: dict[str, pa.Array]
    spatially_random: bool


def as_one(pool: Pool, options: DerivedDataset, parent: Card, where: str) -> Division:
    """A share of the training images of a dataset, or those of one and the test images of another."""
    source = str(options.of or options.train)
    rows = {split: pool.of([split], source) for split in ("train", "val")}
    rows["test"] = pool.of(["test"], str(options.of or options.test))
    if options.share is not None:
        # the plan has made an entry of each of several shares
        assert not isinstance(options.share, list)
        units, strata = _units(pool, parent.dates)[0], strata_of(pool.records)
        for split in ("train", "val"):
            # not the derived dataset's name, so that a smaller share is part of a larger one
            rng = np.random.default_rng(derive_seed("share", source, split, options.seed))
            rows[split] = _share(rows[split], options.share, units, strata, rng)
    for split, chosen in rows.items():
        if not len(chosen):
            raise PermafrostError(
                f"the split {split} is empty",
                where=where,
                remedy="give a larger share" if options.share else "map more classes",
            )
    audit, copies = audit_splits(
        {split: pool.take(chosen) for split, chosen in rows.items()},
        {split: pool.hashes_of(chosen) for split, chosen in rows.items()},
    )
    mixed = parent.spatially_random if options.share is not None else False
    return Division(rows, [], rows, audit, copies.columns(), mixed)


def _share(
    rows: np.ndarray, share: float, units: np.ndarray, strata: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """About this share of `rows`, in whole units and of each stratum; a part of what a larger share gives."""
    _, first, of_unit = np.unique(units[rows], return_index=True, return_inverse=True)
    # of objects, only the number of images is divided
    own = strata[rows[first]] if strata.ndim == 1 else np.zeros(len(first), np.int64)
    return rows[stratified(own, np.array([share, 1 - share]), rng)[of_unit] == 0]


def _units(pool: Pool, dates: str) -> tuple[np.ndarray, np.ndarray]:
    """(N,) units of groups, places of series and pairs, whole images and copies; and (N,) those of images and copies
    alone."""
    names = [record.sample_id for record in pool.records]
    whole = [record.image_id for record in pool.records]
    pairs = copies_among(pool.hashes, spread_of(pool.hashes.thumbs))
    copied = joined_units(names, whole, pairs)
    alone = np.array(
        [name if unit is None else f"/{unit}" for name, unit in zip(names, copied, strict=True)]
    )
    alone = np.unique(alone, return_inverse=True)[1]
    groups = [record.group_id for record in pool.records]
    if None in groups:
        # an image without a group is a group of its own
        groups = [f"/{row}" if one is None else one for row, one in enumerate(groups)]
    grouped = joined(np.array(groups), alone)
    if dates != "one":
        # other dates of a place are not independent of it, as for `splits`
        places = [
            f"/{row}" if one.lon is None else f"{one.lon} {one.lat}"
            for row, one in enumerate(pool.records)
        ]
        grouped = joined(np.array(places), grouped)
    return grouped, alone


def in_folds(
    pool: Pool, options: Folds, name: str, parent: Card, where: str, table: Path | None = None
) -> Division:
    """Folds of all images of a dataset; `table` is the file that the options name."""
    check_folds(options, where=where)
    values = None if table is None else _in_table(pool.records, table, options.called)
    grouped, alone = _units(pool, parent.dates)
    same = grouped if options.by == "group" and not options.of_values else alone
    folds = make_folds(pool.records, options, same, grouped, name=name, where=where, values=values)
    train = {split: _all(folds, split) for split in ("train", "val")}
    # an image is tested once by each repetition
    test = np.concatenate([fold.indices["test"] for fold in folds])
    fewest = min(folds, key=lambda fold: len(fold.indices["train"]))
    groups = [record.group_id for record in pool.records]
    leaks: list[str | None] = []
    shared: set[str] = set()
    for fold in folds:
        known = {groups[row] for split in ("train", "val") for row in fold.indices[split]}
        own = [groups[row] for row in fold.indices["test"]]
        leaks += ["group" if one is not None and one in known else None for one in own]
        shared |= {one for one in own if one is not None and one in known}
    blocked = _blocks(pool.records, options, where)
    units = _tested_units(
        pool, folds, options, grouped if blocked is None else joined(blocked, grouped)
    )
    columns = {UNIT: pa.array(units, pa.string())}
    if any(leaks):
        columns[LEAK] = pa.array(leaks, pa.string())
    distances = [
        min_distance_km(pool.take(fold.indices["train"]), pool.take(fold.indices["test"]))
        for fold in folds
    ]
    audit = {
        # copies are in one fold, or left out of train
        "exact_duplicates": 0,
        "near_duplicates": 0,
        "shared_groups": len(shared),
        "min_distance_km": min((one for one in distances if one is not None), default=None),
        "examples": [],
        "test_in_train": {kind: leaks.count(kind) for kind in LEAKS},
        "copies_in_test": {
            **_copies(pool),
            "units": len({*units} - {None}) + units.count(None),
        },
    }
    grouped_all = all(one is not None for one in groups)
    by_place = options.of_values or options.by == "block"
    apart = by_place or (options.by == "group" and grouped_all)
    located = any(record.lon is not None for record in pool.records)
    mixed = not apart and (located or any(one is not None for one in groups))
    return Division(
        {**train, "test": test},
        folds,
        {**{split: fewest.indices[split] for split in ("train", "val")}, "test": test},
        audit,
        columns,
        mixed or (not apart and parent.spatially_random),
    )


def _in_table(records: Sequence[Record], path: Path, column: str) -> np.ndarray:
    """(N,) the value of each image; refuses a table that lacks some."""
    key, values = values_of(path, column)
    names = [one.group_id if key == "group_id" else one.sample_id for one in records]
    found = [
        values.get(str(name), values.get(str(one.image_id)) if key == "sample_id" else None)
        for name, one in zip(names, records, strict=True)
    ]
    lacking = [name for name, value in zip(names, found, strict=True) if value is None]
    if lacking:
        raise PermafrostError(
            f"{len(lacking)} of {len(found)} images have no {column}, such as those with the {key} {lacking[0]!r}",
            where=path,
            remedy=f"give each {key} a row with a {column}",
        )
    return np.array(found)


def _copies(pool: Pool) -> dict[str, int]:
    """Numbers of images that equal, or nearly equal, another one."""
    (every, first), (later, _) = copies_among(pool.hashes, spread_of(pool.hashes.thumbs))
    return {"exact": int((first != every).sum()), "near": len(np.unique(later))}


def _blocks(records: Sequence[Record], options: Folds, where: str) -> np.ndarray | None:
    return None if options.block_km is None else blocks(records, options.block_km, where)


def _all(folds: Sequence[Fold], split: str) -> np.ndarray:
    return np.unique(np.concatenate([fold.indices[split] for fold in folds]))


def _tested_units(
    pool: Pool, folds: Sequence[Fold], options: Folds, units: np.ndarray
) -> list[str | None]:
    """The independent units of the tested images: seasons, regions, … if each is a fold, else `units`.

    None for an image that is one alone.
    """
    if options.of_values:
        return [fold.name for fold in folds for _ in fold.indices["test"]]
    tested = units[np.concatenate([fold.indices["test"] for fold in folds])]
    sizes = np.bincount(tested)
    named: dict[int, str | None] = {}
    for unit, record in zip(units.tolist(), pool.records, strict=True):
        alone = unit >= len(sizes) or sizes[unit] < 2
        named.setdefault(unit, record.group_id or (None if alone else record.sample_id))
    return [named[unit] for unit in tested.tolist()]


def membership(division: Division, split: str) -> np.ndarray | None:
    """(N, F) bool of the rows of a split; None without folds."""
    if not division.folds:
        return None
    if split == "test":
        counts = [len(fold.indices["test"]) for fold in division.folds]
        number = np.repeat(np.arange(len(counts)), counts)
        return number[:, None] == np.arange(len(counts))
    rows = division.rows[split]
    return np.stack([np.isin(rows, fold.indices[split]) for fold in division.folds], axis=1)


def samples_of(pool: Pool, rows: np.ndarray, division: Division, split: str) -> pa.Table:
    table = pool.samples.take(rows)
    if split != "test":
        return table
    if division.folds:
        table = table.set_column(0, "sample_id", pa.array(_once(table["sample_id"].to_pylist())))
        names = [fold.name for fold in division.folds for _ in fold.indices["test"]]
        table = table.append_column("fold", pa.array(names, pa.string()))
    for name, column in division.columns.items():
        table = table.append_column(name, column)
    return table


def _once(names: list[str]) -> list[str]:
    """Names with a number where one was before, so that each is there once."""
    seen, taken = dict.fromkeys(names, 0), set(names)
    made = []
    for name in names:
        seen[name] += 1
        new = name
        while seen[name] > 1 and new in taken:
            new = f"{name}, {seen[name]}"
            seen[name] += new in taken
        taken.add(new)
        made.append(new)
    return made
