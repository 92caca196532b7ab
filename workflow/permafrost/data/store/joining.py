"""Join the parts of a preparation into image stores and a card, without decoding images."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import together
from permafrost.core.specification import SPLITS
from permafrost.core.store_parts import StorePart, check_same, join, sorted_parts
from permafrost.core.stores import PARTS_REMEDY, StoreWriter, write_store
from permafrost.core.versions import imported_versions, joined_versions
from permafrost.data.files.failures import Failure
from permafrost.data.store.card import Card, write_card
from permafrost.data.store.completion import Gathered, complete
from permafrost.data.store.findings import FACTS, STATISTICS, Findings
from permafrost.data.store.job import plan_dataset
from permafrost.data.store.prepare import write_job
from permafrost.data.store.writing import Layout, make_arrays, padded

if TYPE_CHECKING:
    from permafrost.data.store.prepare import PrepareSpec

type Parts = dict[str, list[StorePart]]


def join_parts(
    spec: PrepareSpec,
    *,
    parts: Sequence[Path],
    outputs: dict[str, Path],
    card_path: Path,
    fingerprint: str,
    workers: int = 2,
    check: Callable[[], None] = lambda: None,
) -> Card:
    """Write image stores and their card from the output of `parts.prepare_part`; links chunks if the layout allows.

    If parts list unusable images, decodes all others again.

    Parameters
    ----------
    parts : folders of the parts, in any order.
    outputs, card_path, fingerprint, workers, check : as for `prepare.prepare`.

    Raises
    ------
    PermafrostError : a part is missing, damaged or does not match the others, or the data are
        invalid; nothing is written.
    """
    check()
    read = {
        split: sorted_parts(
            [StorePart(folder / f"{split}.zarr", expect=fingerprint) for folder in parts]
        )
        for split in SPLITS
    }
    _check_together(read)
    job = plan_dataset(spec.dataset, spec.read_entry(), workers=workers)
    failures = [
        Failure(*one) for part in read["train"] for one in part.attributes.get("failures", ())
    ]
    if failures:
        return write_job(job.skipping(failures), outputs, card_path, fingerprint, check)
    first = Layout.from_json(read["train"][0].attributes["first"])
    layout = _holding_all(first, read)
    found = {}
    for split, of_split in read.items():
        count = len(job.plan.indices[split])
        if of_split[0].attributes["samples"] != count:
            raise PermafrostError(
                f"parts of {of_split[0].attributes['samples']} samples of {split}, where the data have {count}",
                where=job.where,
                remedy=PARTS_REMEDY,
            )
        found[split] = Findings(layout, len(job.source.classes), count)
        for part in of_split:
            found[split].extend(part.path / FACTS, part.path / STATISTICS)
    with together() as group:
        with contextlib.ExitStack() as stack:
            stores: dict[str, StoreWriter] = {
                split: stack.enter_context(
                    write_store(outputs[split], fingerprint=fingerprint, group=group)
                )
                for split in SPLITS
            }
            for split, store in stores.items():
                if layout == first:
                    join(store, read[split])
                else:
                    _lay_out(store, layout, read[split])
            card = complete(Gathered(job, layout, found), stores, fingerprint)
            check()
            # as if one process had imported the modules of all parts
            versions = [part.attributes["versions"] for parts in read.values() for part in parts]
            for store in stores.values():
                store.attributes["versions"] = joined_versions([*versions, imported_versions()])
        write_card(card_path, card, group=group)
    return card


def _check_together(read: Parts) -> None:
    """Refuse parts that were made with different settings or versions."""
    for parts in read.values():
        for key, noun in (("first", "the first image"), ("samples", "a number of samples")):
            values = [part.attributes[key] for part in parts]
            check_same(parts, f"parts with {noun}", values)
    parts = [part for of_split in read.values() for part in of_split]
    packages = {name for part in parts for name in part.attributes["versions"]}
    for package in sorted(packages):
        # a part without samples does not import decoders
        those = [part for part in parts if package in part.attributes["versions"]]
        versions = [part.attributes["versions"][package] for part in those]
        check_same(those, f"parts made with {package}", versions)


def _holding_all(layout: Layout, read: Parts) -> Layout:
    """The layout that a single, undivided run would use."""
    for parts in read.values():
        for part in parts:
            own = Layout.from_json(part.attributes["layout"])
            layout = layout.holding([one.shape for one in own.images])
    return layout


def _lay_out(store: StoreWriter, layout: Layout, parts: Sequence[StorePart]) -> None:
    """Copy the pixels of parts into arrays of another layout."""
    count = parts[0].attributes["samples"]
    fills: dict[str, float] = {one.stored.array: 0 for one in layout.images}
    fills |= {one.array: one.fill for one in layout.rasters}
    for name, array in make_arrays(store, layout, count).items():
        shape, dtype = array.shape[1:], array.dtype
        for start in range(0, count, layout.rows):
            stop = min(start + layout.rows, count)
            samples = [row for part in parts for row in _rows(part, name, start, stop)]
            array[start:stop] = padded(samples, shape, dtype, fills[name])


def _rows(part: StorePart, name: str, start: int, stop: int):
    """The rows of [start, stop) that this part holds."""
    first, last = part.attributes["span"]
    begin, end = max(start, first), min(stop, last)
    if begin >= end:
        return []
    before = first if part.attributes["part"]["alone"] else 0
    return part.read(name, begin - before, end - before)
