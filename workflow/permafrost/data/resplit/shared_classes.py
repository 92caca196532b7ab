"""Classes of a dataset that is trained on, and of another that is tested on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.tasks import targets_of
from permafrost.data.derived import DerivedDataset, shared_classes
from permafrost.data.records import Record
from permafrost.data.resplit.pool import Pool
from permafrost.data.store.card import Card


def check_alike(about: Mapping[str, Card], options: DerivedDataset, where: str) -> None:
    """Refuse two datasets with different tasks, dates or units of the target."""
    one, other = about[str(options.train)], about[str(options.test)]
    for what, a, b in (
        ("tasks", one.task, other.task),
        ("numbers of dates", one.dates, other.dates),
        ("units", (one.target or {}).get("unit"), (other.target or {}).get("unit")),
    ):
        if a != b:
            raise PermafrostError(
                f"{options.train} and {options.test} have different {what}: {a} and {b}",
                where=where,
                remedy="name datasets that can be compared",
            )


def with_shared_classes(
    pool: Pool, options: DerivedDataset, about: Mapping[str, Card], where: str
) -> Pool:
    """The pool with the shared classes as labels, without images of others.

    Raises
    ------
    PermafrostError : fewer than two classes are shared, a name is unknown, or a class is mapped twice.
    """
    pair = str(options.train), str(options.test)
    names = {name: about[name].classes for name in pair}
    if targets_of(about[str(options.train)].task).numbers:
        return pool
    asked = None if options.classes is None else _as_given(options.classes)
    of_train, of_test = (names[name] for name in pair)
    shared = shared_classes(asked, of_train, of_test)
    if len(shared) < 2 and asked is not None:
        raise PermafrostError(
            f"classes names {len(shared)}, and two or more are needed",
            where=f"{where}: classes",
            remedy="name another class",
        )
    if len(shared) < 2:
        raise PermafrostError(
            f"{options.train} and {options.test} have {len(shared) or 'no'} class"
            f" with the same name in both ({_some(of_train)}; {_some(of_test)})",
            where=where,
            remedy="map the names under `classes`, class of train: class of test",
        )
    meant: dict[str, dict[int, int]] = {name: {} for name in names}
    for number, (called, both) in enumerate(shared.items()):
        for dataset, listed in zip(pair, both, strict=True):
            for one in listed:
                place = look_up(
                    {name: i for i, name in enumerate(names[dataset])},
                    one,
                    f"{dataset} has no class",
                    where=f"{where}: classes.{called}",
                    remedy=f"name one of {_some(names[dataset])}",
                )
                if meant[dataset].setdefault(place, number) != number:
                    raise PermafrostError(
                        f"the class {one} of {dataset} is mapped twice",
                        where=f"{where}: classes.{called}",
                        remedy="map each class once",
                    )
    records = [
        _relabelled(record, meant[pool.parents[number].dataset], len(shared))
        for record, number in zip(pool.records, pool.parent, strict=True)
    ]
    kept = np.array([record is not None for record in records])
    dropped: dict[str, int] = {}
    for number in pool.parent[~kept]:
        name = pool.parents[number].dataset
        dropped[name] = dropped.get(name, 0) + 1
    rows = np.flatnonzero(kept)
    return replace(
        pool,
        parent=pool.parent[rows],
        row=pool.row[rows],
        records=[record for record in records if record is not None],
        hashes=pool.hashes_of(rows),
        samples=pool.samples.take(rows),
        classes=list(shared),
        left_out=dropped,
    )


def _as_given(classes: Mapping) -> dict:
    """The option ``classes`` as in YAML."""
    return {
        name: given if isinstance(given, str | list) else asdict(given)
        for name, given in classes.items()
    }


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")


def _relabelled(record: Record, meant: Mapping[int, int], count: int) -> Record | None:
    """The record with its new label; None if it has none of the classes."""
    if isinstance(record.label, tuple):
        found = {meant[old] for old, there in enumerate(record.label) if there and old in meant}
        label = tuple(int(number in found) for number in range(count))
        # an image without any of the dataset's classes has none of these, either
        return replace(record, label=label) if found or not any(record.label) else None
    new = meant.get(int(record.label))  # type: ignore[arg-type]  # a class id
    return None if new is None else replace(record, label=new)
