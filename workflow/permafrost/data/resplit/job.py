"""Make a derived dataset: stores that read rows of others' image stores, and a card."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from permafrost.core.option_models import read
from permafrost.core.outputs import together
from permafrost.core.rows_store import Parent, write_rows
from permafrost.core.specification import SPLITS, Specification
from permafrost.core.stores import write_store
from permafrost.core.tasks import targets_of
from permafrost.data.derived import DerivedDataset
from permafrost.data.entry import DatasetEntry
from permafrost.data.labels.classes import label_array
from permafrost.data.resplit.card import card_of
from permafrost.data.resplit.division import as_one, in_folds, membership, samples_of
from permafrost.data.resplit.pool import Pool
from permafrost.data.resplit.shared_classes import check_alike, with_shared_classes
from permafrost.data.store.card import Card, read_card, write_card
from permafrost.data.store.image_store import ImageStore

#: key of the specification -> module that makes the stores; part of a job's code only if its specification has the key
OTHERS = {"harder": "permafrost.data.resplit.harder"}


@dataclass(frozen=True, kw_only=True)
class OfParents:
    """Fingerprints of the image stores of the parents, by dataset."""

    images: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ResplitSpec(Specification):
    """The job of `resplit`.

    Attributes
    ----------
    entry : of the parent whose images are trained on, with the derived dataset's classes, and without its source.
    derived : options of the derived dataset, without ``harder``.
    harder : a degradation -> its severity; None: images stay as they are.
    """

    stage: str = "resplit"
    dataset: str
    entry: dict
    derived: dict
    harder: dict[str, int] | None = None
    inputs: OfParents


def resplit(
    spec: ResplitSpec,
    *,
    cards: Mapping[str, Path],
    outputs: dict,
    card_path,
    fingerprint: str,
    table: Path | None = None,
) -> Card:
    """Write stores with rows of the parents' image stores, and the card: all four, or none.

    Parameters
    ----------
    cards : dataset -> its card, beside its image stores.
    outputs : ``{"train": path, "val": path, "test": path}``.
    table : the file of values that folds are made of; its digest is in the specification.

    Raises
    ------
    PermafrostError : classes do not map, a split or fold is empty, a date, place or group is missing, the parents
        do not fit each other.
    """
    where = f"derived dataset {spec.dataset}"
    asked = {**spec.derived, **({"harder": spec.harder} if spec.harder else {})}
    options = read(DerivedDataset, asked, where=where)
    # images come from stores, so the entry needs no source
    entry = read(DatasetEntry, {**spec.entry, "kind": "derived", "source": None}, where=where)
    about = {name: read_card(path, expect=spec.inputs.images[name]) for name, path in cards.items()}
    wanted = (
        [(options.train, "train"), (options.train, "val"), (options.test, "test")]
        if options.of is None
        else [(options.of, split) for split in SPLITS]
    )
    parents = [Parent(str(name), split, spec.inputs.images[str(name)]) for name, split in wanted]
    stores = [
        ImageStore(
            cards[one.dataset].with_name(f"{one.split}.zarr"),
            expect=one.fingerprint,
            split=one.split,
        )
        for one in parents
    ]
    first = about[parents[0].dataset]
    named: dict[str, Any] = {
        "dataset": spec.dataset,
        "title": spec.dataset,
        "fingerprint": fingerprint,
    }
    if spec.harder:
        card = replace(first, **named, derived=asked)
        ((kind, severity),) = spec.harder.items()
        import_module(OTHERS["harder"]).write_harder(
            (kind, severity),
            options.seed,
            stores=list(zip(parents, stores, strict=True)),
            card=card,
            outputs=outputs,
            card_path=card_path,
            fingerprint=fingerprint,
        )
        return card
    several = options.of is None
    pool = Pool.read(parents, stores, entry.task, first.classes, several=several)
    if options.of is None:
        check_alike(about, options, where)
        pool = with_shared_classes(pool, options, about, where)
    division = (
        in_folds(pool, options.folds, str(options.of), first, where, table)
        if options.folds is not None
        else as_one(pool, options, first, where)
    )
    with together() as group:
        for split, path in outputs.items():
            rows = division.rows[split]
            selection = pool.select(rows, membership(division, split))
            with write_store(path, fingerprint=fingerprint, group=group) as writer:
                labels = (
                    None
                    if targets_of(entry.task).dense
                    else label_array(pool.take(rows), entry.task)
                )
                write_rows(writer, selection, parents, [one.store for one in stores], labels)
                writer.samples(samples_of(pool, rows, division, split))
                writer.attributes.update(dataset=spec.dataset, split=split, task=entry.task)
                if (modalities := stores[0].store.attributes.get("modalities")) is not None:
                    writer.attributes["modalities"] = modalities
        card = card_of(pool, division, first, entry, options)
        card = replace(card, **named, derived={**spec.derived, **(card.derived or {})})
        write_card(card_path, card, group=group)
    return card
