"""Decode a dataset once: three image stores and their card, whole or not at all."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import Group, together
from permafrost.core.progress import progress
from permafrost.core.specification import SPLITS, Specification
from permafrost.core.stores import StoreWriter, write_store
from permafrost.core.tasks import task_of
from permafrost.data.audit import audit_splits
from permafrost.data.band_audit import doubts
from permafrost.data.band_statistics import BandStatistics
from permafrost.data.card import Card, write_card
from permafrost.data.classes import dead_classes
from permafrost.data.cleaning import is_ordered
from permafrost.data.decode import UnreadableImage, no_truncated_images
from permafrost.data.detection import detection_card
from permafrost.data.entry import DatasetEntry
from permafrost.data.folders import Read, content_digest
from permafrost.data.image_store import StoredModality
from permafrost.data.job import Job, check_counts, label_counts, plan_dataset
from permafrost.data.records import Record
from permafrost.data.sources import read_entry
from permafrost.data.stream import Failure, Reader, read_chunks, refuse_failures
from permafrost.data.targets import (
    PIXEL_REGRESSION,
    REGRESSION,
    check_rasters,
    raster_card,
    target_card,
)
from permafrost.data.tiles import placed_like
from permafrost.data.units import check_dtype, check_range
from permafrost.data.writing import Images, Layout, SplitWriter, samples_table, write_labels

if TYPE_CHECKING:
    from permafrost.data.embeddings.matched import Matching


@dataclass(frozen=True, kw_only=True)
class PrepareSpec(Specification):
    """What `prepare` is told.

    Attributes
    ----------
    dataset : its name.
    entry : as in YAML after validation.
    source : digest of the data that the plan was made from; None in a job that was written by hand.
    matched : backbone to the embeddings (`embeddings.matched.Required`) that every image must have: images
        without one are left out.
    modalities : their order; None where it is that of `entry`.
    """

    stage: str = "prepare"
    dataset: str
    entry: dict
    source: str | None = None
    matched: dict = field(default_factory=dict)
    modalities: list[str] | None = None

    def read_entry(self) -> DatasetEntry:
        """The entry, its modalities in their order."""
        content = self.entry
        if self.modalities is not None:
            ordered = {name: content["modalities"][name] for name in self.modalities}
            content = {**content, "modalities": ordered}
        return read_entry(content, where=f"dataset {self.dataset}")


# loaded, and part of a job's code, only where a specification has `matched`
MATCHING = {"embeddings": "permafrost.data.embeddings.matched"}


class _Larger(Exception):
    """All images were looked at, and some are larger than the layout."""


class _Unmatched(Exception):
    """All images were looked at, and some lack an embedding; the argument is the job without them."""


def prepare(
    spec: PrepareSpec,
    *,
    outputs: dict,
    card_path,
    fingerprint: str,
    workers: int = 2,
    check: Callable[[], None] = lambda: None,
    digest_of: Callable[[str, Read | None], str] = content_digest,
    most: int | None = None,
) -> Card:
    """Write the image stores of a dataset and its card: all four replace what was there, or none does.

    Parameters
    ----------
    outputs : ``{"train": path, "val": path, "test": path}`` of the stores.
    fingerprint : of the plan; recorded in the stores and the card.
    workers : threads that decode; one for a source that is `one_thread`. Memory: a few chunks of 6 MB, independent of
        the dataset; with tiles, also one decoded image per thread and another, but for those that can be read in parts.
    check : called before the data are read, and again before anything is sealed; raises if they are not
        what was planned.
    digest_of : digest of the embeddings that images must have.
    most : of each split, so many samples at most, evenly spread over it; for trying things out.

    Returns
    -------
    The card.

    Raises
    ------
    PermafrostError : anything wrong with the entry or the data; then nothing was written.
    """
    matching = None
    if spec.matched:
        matching = importlib.import_module(MATCHING["embeddings"]).Matching(spec.matched, digest_of)
        check = _each(check, matching.check)
    check()
    job = plan_dataset(spec.dataset, spec.read_entry(), workers=workers)
    if most is not None:
        job = job.thinned(most)
    with no_truncated_images():
        layout = _first_layout(job)
        while True:
            writers = {split: SplitWriter(layout, len(job.source.classes)) for split in SPLITS}
            try:
                # the card last: where it stands, all three stores are those that it describes
                with together() as group:
                    card = _write_stores(job, writers, outputs, fingerprint, group, check, matching)
                    write_card(card_path, card, group=group)
                return card
            except _Larger:
                # sizes differ, and the first image was not the largest: a second pass pads to it
                for writer in writers.values():
                    layout = layout.holding([one.shape for one in writer.needed.images])
            except _Unmatched as found:
                (job,) = found.args
                layout = _first_layout(job)


def _each(*checks: Callable[[], None]) -> Callable[[], None]:
    def check() -> None:
        for one in checks:
            one()

    return check


def _first_layout(job: Job) -> Layout:
    """Size and type of the first usable image of train: what all the others should be like."""
    positions = job.plan.indices["train"]
    failures = []
    cleaning = job.cleaning()
    for position in positions:
        try:
            decoded = cleaning(job.source.decode(int(position)))
            break
        except UnreadableImage as failure:
            failures.append(Failure.of(job.records[position], failure))
    else:
        refuse_failures(failures, total=len(positions), where=job.where)
    images = []
    for (name, bands), array in zip(job.modalities.items(), decoded.arrays, strict=True):
        for band in job.source.bands[bands.start : bands.stop]:
            check_dtype(band.unit, array.dtype, where=job.where)
        stored = StoredModality.of(name, not images, bands, series=array.ndim == 4)
        dates = len(array) if array.ndim == 4 else None
        images.append(Images(stored, dates, *array.shape[-2:], array.dtype))
    mask_dtype = None
    if task_of(job.source.task).masks:
        largest = max(len(job.source.classes) - 1, job.source.ignore_index or 0)
        mask_dtype = np.dtype(np.uint8 if largest < 256 else np.uint16)
    return Layout(
        tuple(images),
        mask_dtype,
        ignore_index=job.source.ignore_index,
        targets=job.source.task == PIXEL_REGRESSION,
    )


def _write_stores(
    job: Job,
    writers: dict,
    outputs: dict,
    fingerprint: str,
    group: Group,
    check: Callable[[], None],
    matching: Matching | None,
) -> Card:
    """All three stores, or none; returns the card."""
    with contextlib.ExitStack() as stack:
        # the stores close only after everything below has succeeded, and appear as one group
        stores = {
            split: stack.enter_context(
                write_store(outputs[split], fingerprint=fingerprint, group=group)
            )
            for split in SPLITS
        }
        _read_pixels(job, writers, stores)
        total = sum(len(images) for images in job.images.values())
        failures = [failure for writer in writers.values() for failure in writer.failures]
        refuse_failures(failures, total=total, where=job.where)
        if not all(writer.fits for writer in writers.values()):
            raise _Larger
        records = {split: writers[split].placed(job.of(split)) for split in SPLITS}
        georeferenced = any(writer.georeferenced for writer in writers.values())
        samples = {
            split: samples_table(records[split], writers[split], georeferenced=georeferenced)
            for split in SPLITS
        }
        if matching is not None and job.unmatched is None:
            series = (one.stored.dates for one in writers["train"].layout.images)
            lacking = matching.lacking(samples, next(filter(None, series), None))
            job = job.without(lacking)
            if any(rows for by_split in lacking.values() for rows in by_split.values()):
                raise _Unmatched(job)
        card = _card(job, writers, records, fingerprint)
        for split, store in stores.items():
            write_labels(store, records[split], job.source.task)
            store.samples(samples[split])
            store.attributes.update(dataset=job.name, split=split, task=job.source.task)
            if len(job.modalities) > 1 or job.entry.dates != "one":
                stored = [one.stored.as_json() for one in writers[split].layout.images]
                store.attributes.update(modalities=stored)
        check()
    return card


def _read_pixels(job: Job, writers: dict, stores: dict[str, StoreWriter]) -> None:
    total = sum(len(positions) for positions in job.plan.indices.values())
    layout = writers["train"].layout
    cleaning = job.cleaning()
    settled = [
        replace(
            expected,
            dtype=one.dtype,
            series=one.dates is not None,
            size=(one.height, one.width) if number else None,
        )
        for number, (expected, one) in enumerate(zip(cleaning.images, layout.images, strict=True))
    ]
    cleaning = replace(cleaning, images=tuple(settled))
    workers = 1 if getattr(job.source, "one_thread", False) else job.workers
    with progress(total=total, label=job.name, unit="image") as bar:
        for split, positions in job.plan.indices.items():
            read = Reader(job.source, job.records, cleaning, measure=split == "train")
            chunks = read_chunks(read, positions, layout.rows, workers)
            with contextlib.closing(chunks):
                writers[split].write(stores[split], chunks, len(positions), bar.update)


def _card(job: Job, writers: dict, records: dict, fingerprint: str) -> Card:
    source, entry, plan = job.source, job.entry, job.plan
    ignored = dict.fromkeys(SPLITS)
    if task_of(source.task).masks:
        pixels = {split: writers[split].pixel_counts for split in SPLITS}
        counts = {split: pixels[split][:-1] for split in SPLITS}
        ignored = {split: int(pixels[split][-1]) for split in SPLITS}
        check_counts(job, counts)
    else:
        counts = {split: label_counts(job, split) for split in SPLITS}
    sizes = np.array([size for writer in writers.values() for size in writer.sizes])
    target = None
    if source.task == REGRESSION:
        target = target_card(entry, job.images)
    if source.task == PIXEL_REGRESSION:
        found = {split: writers[split].targets for split in SPLITS}
        check_rasters(found, where=job.where)
        rasters = {split: writers[split].rasters for split in SPLITS}
        target = raster_card(entry, found, rasters)
    bands = _band_cards(job, writers["train"].statistics)
    leakage = audit_splits(
        {split: placed_like(records[split], job.images[split]) for split in SPLITS},
        {split: writers[split].hashes for split in SPLITS},
    )
    return Card(
        dataset=job.name,
        title=entry.title or job.name,
        task=source.task,
        fingerprint=fingerprint,
        bands=bands,
        selected=job.selected,
        classes=list(source.classes),
        ignore_index=source.ignore_index,
        dead_classes=dead_classes(counts, job.dead),
        splits={
            split: _split_card(records[split], counts[split], ignored[split]) for split in SPLITS
        },
        split_method=plan.method,
        split_seed=plan.seed,
        # coordinates may have turned up only in the files
        spatially_random=plan.spatially_random
        or (plan.method == "random" and any(r.lon is not None for r in records["train"])),
        detection=detection_card(entry, job.images),
        audit={
            **leakage,
            "bands": [
                doubt
                for part, one in zip(
                    job.modalities.values(), writers["train"].statistics, strict=True
                )
                for doubt in doubts(bands[part.start : part.stop], job.selected, one)
            ],
        },
        image_size={"min": sizes.min(axis=0).tolist(), "max": sizes.max(axis=0).tolist()},
        gsd_m=entry.gsd_m,
        licence=entry.licence,
        citation=entry.citation,
        target=target,
        choice=getattr(source, "choice", None),
        modalities=_modality_cards(job, writers),
        dates=entry.dates,
        unmatched=job.unmatched,
    )


def _modality_cards(job: Job, writers: dict) -> list[dict] | None:
    """Of each modality the size of its images and how many dates samples have; None of one image of one sensor."""
    if len(job.modalities) == 1 and job.entry.dates == "one":
        return None
    cards = []
    for one in writers["train"].layout.images:
        dates = None
        if one.stored.dates is not None:
            listed = [d for writer in writers.values() for d in writer.dates[one.stored.dates]]
            known = sorted(date for sample in listed for date in sample if is_ordered(date))
            dates = {
                "fewest": min(map(len, listed)),
                "most": max(map(len, listed)),
                "first": known[0] if known else None,
                "last": known[-1] if known else None,
            }
        cards.append(
            {
                "name": one.stored.name,
                "bands": [job.source.bands[i].name for i in one.stored.bands],
                "largest_size": [one.height, one.width],
                "dates": dates,
            }
        )
    return cards


def _band_cards(job: Job, statistics: list[BandStatistics]) -> list[dict]:
    """The bands of all modalities with their statistics."""
    cards = []
    expected = job.cleaning().images
    for positions, of_modality, one in zip(
        job.modalities.values(), statistics, expected, strict=True
    ):
        declared = {"nodata": one.nodata} if isinstance(one.nodata, dict) else {}
        for number, position in enumerate(positions):
            band = job.source.bands[position]
            if not of_modality.count[number]:
                raise PermafrostError(
                    f"band {band.name} holds nothing but nodata in train",
                    where=job.where,
                    remedy="leave the band out, or correct nodata in the entry",
                )
            card, found = band.as_dict(), of_modality.of_band(number)
            check_range(band.name, card, found["min"], found["max"], where=job.where)
            cards.append({**card, **found, **declared})
    return cards


def _split_card(records: list[Record], counts: np.ndarray, ignored: int | None) -> dict:
    """Counts are of images, for detection of objects, for segmentation of pixels.

    Of the pixels, `ignored` have no label.
    """
    groups = {record.group_id for record in records} - {None}
    return {
        "count": len(records),
        "class_counts": counts.tolist(),
        "ignored_pixels": ignored,
        "groups": len(groups) or None,
    }
