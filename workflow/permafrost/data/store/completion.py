"""Finish a prepared dataset: labels, sample tables and the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.core.stores import StoreWriter
from permafrost.core.tasks import targets_of
from permafrost.data.bands.statistics import BandStatistics
from permafrost.data.bands.units import check_range
from permafrost.data.entry import Nodata
from permafrost.data.labels.classes import dead_classes
from permafrost.data.labels.detection import detection_card
from permafrost.data.labels.targets import (
    check_rasters,
    raster_card,
    target_card,
)
from permafrost.data.records import Record
from permafrost.data.store.audit import audit_splits
from permafrost.data.store.band_audit import doubts
from permafrost.data.store.card import Card
from permafrost.data.store.cleaning import is_ordered
from permafrost.data.store.copies import TestCopies
from permafrost.data.store.findings import Findings
from permafrost.data.store.job import Job, check_counts, label_counts
from permafrost.data.store.offset_audit import offset_doubt
from permafrost.data.store.sample_facts import Placed, TextColumn
from permafrost.data.store.tiles import placed_like
from permafrost.data.store.writing import Layout, samples_table, write_labels

if TYPE_CHECKING:
    from permafrost.data.bands.in_order import Total
    from permafrost.data.labels.targets import TargetStatistics


@dataclass(frozen=True)
class Gathered:
    """Results for the splits of a dataset, and the layout of the stored pixels."""

    job: Job
    layout: Layout
    found: dict[str, Findings]

    @property
    def records(self) -> dict[str, Sequence[Record]]:
        """The records of each split, with location and date from their files."""
        return {split: Placed(self.job.of(split), self.found[split].samples) for split in SPLITS}

    def samples(self, split: str, copies: TestCopies | None = None) -> pa.Table:
        """samples.parquet of a split; for test, with the columns of `copies` once known."""
        georeferenced = any(one.samples.georeferenced for one in self.found.values())
        table = samples_table(
            self.records[split], self.found[split].samples, georeferenced=georeferenced
        )
        known = copies.columns() if copies is not None and split == "test" else {}
        for name, column in known.items():
            table = table.append_column(name, column)
        return table


def complete(gathered: Gathered, stores: dict[str, StoreWriter], fingerprint: str) -> Card:
    """Write the content of the stores except pixels; returns the card."""
    job = gathered.job
    images = job.images
    placed = {split: placed_like(one, images[split]) for split, one in gathered.records.items()}
    leakage, copies = audit_splits(
        placed,
        {split: one.samples.hashes for split, one in gathered.found.items()},
    )
    card = _card(gathered, stores, fingerprint, leakage, placed)
    for split, store in stores.items():
        write_labels(store, gathered.records[split], job.source.task)
        store.samples(gathered.samples(split, copies))
        store.attributes.update(dataset=job.name, split=split, task=job.source.task)
        if len(job.modalities) > 1 or job.entry.dates != "one":
            stored = [one.stored.as_json() for one in gathered.layout.images]
            store.attributes.update(modalities=stored)
    return card


def _card(
    gathered: Gathered,
    stores: dict[str, StoreWriter],
    fingerprint: str,
    leakage: dict,
    records: dict[str, Sequence[Record]],
) -> Card:
    job, found = gathered.job, gathered.found
    source, entry, plan = job.source, job.entry, job.plan
    ignored = dict.fromkeys(SPLITS)
    targets = targets_of(source.task)
    if targets.masks:
        pixels = {split: found[split].pixel_counts for split in SPLITS}
        counts = {split: pixels[split][:-1] for split in SPLITS}
        ignored = {split: int(pixels[split][-1]) for split in SPLITS}
        check_counts(job, counts)
    else:
        counts = {split: label_counts(job, split) for split in SPLITS}
    heights, widths = (
        np.concatenate([getattr(one.samples, name) for one in found.values()])
        for name in ("heights", "widths")
    )
    target = None
    if targets.numbers and not targets.pixels:
        target = target_card(entry, job.images)
    if targets.numbers and targets.pixels:
        of_pixels = {
            split: cast("Total[TargetStatistics]", found[split].targets).value for split in SPLITS
        }
        check_rasters(of_pixels, where=job.where)
        rasters = {split: stores[split].group["targets"] for split in SPLITS}
        target = raster_card(entry, of_pixels, rasters)
    statistics = found["train"].statistics
    bands = _band_cards(job, statistics)
    dated = records["train"] if entry.dates == "one" else None
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
        # coordinates may come from the image files only
        spatially_random=plan.spatially_random
        or (plan.method == "random" and any(r.lon is not None for r in records["train"])),
        detection=detection_card(entry, job.images) if targets.objects else None,
        audit={
            **leakage,
            "bands": [
                doubt
                for part, one in zip(job.modalities.values(), statistics, strict=True)
                for doubt in (
                    *doubts(bands[part.start : part.stop], job.selected, one),
                    offset_doubt(bands[part.start : part.stop], job.selected, one.sample, dated),
                )
                if doubt is not None
            ],
        },
        image_size={
            "min": [int(heights.min()), int(widths.min())],
            "max": [int(heights.max()), int(widths.max())],
        },
        gsd_m=entry.gsd_m,
        licence=entry.licence,
        citation=entry.citation,
        target=target,
        choice=getattr(source, "choice", None),
        modalities=_modality_cards(gathered),
        dates=entry.dates,
        unmatched=job.unmatched,
        skipped=job.skipped or None,
    )


def _modality_cards(gathered: Gathered) -> list[dict] | None:
    """For each modality, the image size and numbers of dates; None for one image of one sensor."""
    job = gathered.job
    if len(job.modalities) == 1 and job.entry.dates == "one":
        return None
    cards = []
    for one in gathered.layout.images:
        dates = None
        if one.stored.dates is not None:
            dates = _dates_card(
                [f.samples.dates[one.stored.dates] for f in gathered.found.values()]
            )
        cards.append(
            {
                "name": one.stored.name,
                "bands": [job.source.bands[i].name for i in one.stored.bands],
                "largest_size": [one.height, one.width],
                "dates": dates,
            }
        )
    return cards


def _dates_card(columns: Sequence[TextColumn]) -> dict:
    """Numbers of dates per sample, and the first and last known date."""
    known: list[str]
    fewest, most, known = None, 0, []
    for column in columns:
        for chunk in column.column().chunks:
            for dates in chunk.to_pylist():
                fewest = len(dates) if fewest is None else min(fewest, len(dates))
                most = max(most, len(dates))
                ordered = [*known, *filter(is_ordered, dates)]
                known = [min(ordered), max(ordered)] if ordered else []
    return {
        "fewest": fewest,
        "most": most,
        "first": known[0] if known else None,
        "last": known[1] if known else None,
    }


def _band_cards(job: Job, statistics: list[BandStatistics]) -> list[dict]:
    """The bands of all modalities with their statistics."""
    cards = []
    expected = job.cleaning().images
    for positions, of_modality, one in zip(
        job.modalities.values(), statistics, expected, strict=True
    ):
        declared = {"nodata": asdict(one.nodata)} if isinstance(one.nodata, Nodata) else {}
        for number, position in enumerate(positions):
            band = job.source.bands[position]
            if not of_modality.count[number]:
                raise PermafrostError(
                    f"band {band.name} has only nodata in train",
                    where=job.where,
                    remedy="leave the band out, or correct nodata in the entry",
                )
            card, found = band.as_dict(), of_modality.of_band(number)
            check_range(band.name, card, found["min"], found["max"], where=job.where)
            cards.append({**card, **found, **declared})
    return cards


def _split_card(records: Sequence[Record], counts: np.ndarray, ignored: int | None) -> dict:
    """Counts are of images; for detection of objects, for segmentation of pixels.

    `ignored` pixels have no label; ``without_place`` counts images without coordinates.
    """
    groups = {record.group_id for record in records} - {None}
    return {
        "count": len(records),
        "class_counts": counts.tolist(),
        "ignored_pixels": ignored,
        "groups": len(groups) or None,
        "without_place": sum(record.lon is None for record in records),
    }
