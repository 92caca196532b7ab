"""One pass over the images of a dataset: find the storage layout, and store the pixels."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np

from permafrost.core.progress import progress
from permafrost.core.stores import StoreWriter
from permafrost.core.tasks import targets_of
from permafrost.data.bands.units import check_dtype
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.failures import Failure, refuse_failures
from permafrost.data.store.image_store import StoredModality
from permafrost.data.store.job import Job
from permafrost.data.store.stream import Reader, read_chunks
from permafrost.data.store.writing import Images, Layout, SplitWriter


class Skipping(Exception):
    """Some images cannot be read and are skipped; arguments: the job without them, and their `Failure` objects."""


def first_layout(job: Job) -> Layout:
    """Size and type of the first usable train image, the initial layout for all."""
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
    images: list[Images] = []
    for (name, bands), array in zip(job.modalities.items(), decoded.arrays, strict=True):
        for band in job.source.bands[bands.start : bands.stop]:
            check_dtype(band.unit, array.dtype, where=job.where)
        stored = StoredModality.of(name, not images, bands, series=array.ndim == 4)
        dates = len(array) if array.ndim == 4 else None
        images.append(
            Images(stored, dates, *cast("tuple[int, int]", array.shape[-2:]), array.dtype)
        )
    mask_dtype, targets = None, targets_of(job.source.task)
    if targets.masks:
        largest = max(len(job.source.classes) - 1, job.source.ignore_index or 0)
        mask_dtype = np.dtype(np.uint8 if largest < 256 else np.uint16)
    return Layout(
        tuple(images),
        mask_dtype,
        ignore_index=job.source.ignore_index,
        targets=targets.numbers and targets.pixels,
    )


def read_pixels(
    job: Job,
    writers: dict[str, SplitWriter],
    stores: Mapping[str, StoreWriter],
    *,
    where: str | None = None,
) -> bool:
    """Decode and write the samples of all writers; returns whether all fit into the layout.

    Parameters
    ----------
    where : name for errors; None for the dataset's.

    Raises
    ------
    PermafrostError : some images are unusable; lists all of them.
    Skipping : some images are unusable, but the entry allows skipping them.
    """
    total = sum(stop - start for start, stop in (one.span for one in writers.values()))
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
        for split, writer in writers.items():
            start, stop = writer.span
            read = Reader(job.source, job.records, cleaning, measure=split == "train")
            positions = job.plan.indices[split][start:stop]
            chunks = read_chunks(read, positions, layout.rows, workers, start)
            with contextlib.closing(chunks):
                writer.write(stores[split], chunks, bar.update)
    failures = [failure for writer in writers.values() for failure in writer.failures]
    if failures and job.entry.on_error is not None:
        raise Skipping(job.skipping(failures), failures)
    if failures:
        records = (
            job.records[position]
            for split, writer in writers.items()
            for position in job.plan.indices[split][slice(*writer.span)]
        )
        # images rather than windows
        images = {record.image_id or record.sample_id for record in records}
        refuse_failures(failures, total=len(images), where=where or job.where)
    return all(writer.fits for writer in writers.values())
