"""Preparation divided among several jobs: each decodes a part, and a last one joins them (`joining`).

A part consists of whole chunks of every split, in the layout of the first train image, so its files
are those of the whole stores. A part with larger images stores them in its own layout, and joining
copies everything to a new one. Statistics are added up in groups of samples that no division splits
(`in_order`). If a part has unusable images that the entry's `on_error` allows, it holds only their
names, and the last job decodes all others itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import together
from permafrost.core.specification import SPLITS
from permafrost.core.store_parts import Part, PartWriter
from permafrost.core.stores import write_store
from permafrost.data.files.decode import no_truncated_images
from permafrost.data.files.failures import Failure
from permafrost.data.store.findings import FACTS, STATISTICS
from permafrost.data.store.job import Job, plan_dataset
from permafrost.data.store.one_pass import Skipping, first_layout, read_pixels
from permafrost.data.store.writing import Layout, SplitWriter

if TYPE_CHECKING:
    from permafrost.data.store.prepare import PrepareSpec


def prepare_part(
    spec: PrepareSpec,
    *,
    output: Path,
    part: Part,
    fingerprint: str,
    workers: int = 2,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Decode one part of every split, and write it to the folder `output`.

    Parameters
    ----------
    fingerprint, workers, check : as for `prepare.prepare`.

    Raises
    ------
    PermafrostError : the entry or the data are invalid; no partial output remains.
    """
    entry = spec.read_entry()
    if spec.matched:
        raise PermafrostError(
            "images without an embedding are dropped, so the dataset cannot be sharded",
            where=f"dataset {spec.dataset}",
            remedy="prepare it without shards",
        )
    check()
    job = plan_dataset(spec.dataset, entry, workers=workers)
    with no_truncated_images():
        first = first_layout(job)
        layout = first
        try:
            while (
                needed := _write(job, part, first, layout, output, fingerprint, check)
            ) != layout:
                layout = needed
        except Skipping as found:
            _write_failures(job, part, first, output, fingerprint, found.args[1])
            check()


def _write(
    job: Job,
    part: Part,
    first: Layout,
    layout: Layout,
    output: Path,
    fingerprint: str,
    check: Callable[[], None],
) -> Layout:
    """Write the part in a layout; returns the required one, and writes nothing if that differs."""
    alone = layout != first
    writers = {
        split: SplitWriter(
            layout,
            len(job.source.classes),
            len(positions),
            part.span(len(positions), first.rows),
            alone=alone,
        )
        for split, positions in job.plan.indices.items()
    }
    with contextlib.suppress(_Larger), together() as group, contextlib.ExitStack() as stack:
        stores = {
            split: stack.enter_context(
                write_store(
                    output / f"{split}.zarr", fingerprint=fingerprint, group=group, kind=PartWriter
                )
            )
            for split in SPLITS
        }
        if not read_pixels(job, writers, stores, where=f"{job.where}, part {part}"):
            raise _Larger
        for split, store in stores.items():
            writer = writers[split]
            writer.found.save(store.beside(FACTS), store.beside(STATISTICS))
            store.attributes.update(
                part={"number": part.number, "count": part.count, "alone": alone},
                span=writer.span,
                samples=writer.count,
                first=first.as_json(),
                layout=layout.as_json(),
            )
        check()
    for writer in writers.values():
        layout = layout.holding([one.shape for one in writer.needed.images])
    return layout


def _write_failures(
    job: Job,
    part: Part,
    first: Layout,
    output: Path,
    fingerprint: str,
    failures: Sequence[Failure],
) -> None:
    """Write the unusable images of the part, but no pixels, because the numbers of all later samples change."""
    with together() as group:
        for split in SPLITS:
            path = output / f"{split}.zarr"
            with write_store(path, fingerprint=fingerprint, group=group, kind=PartWriter) as store:
                store.attributes.update(
                    part={"number": part.number, "count": part.count, "alone": False},
                    samples=len(job.plan.indices[split]),
                    first=first.as_json(),
                    failures=[astuple(one) for one in failures],
                )


class _Larger(Exception):
    """Some images are larger than the layout."""
