"""Decode a dataset once: three image stores and their card, all or none."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from permafrost.core.outputs import Group, together
from permafrost.core.specification import SPLITS, Specification
from permafrost.core.stores import write_store
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import no_truncated_images
from permafrost.data.files.folders import Read, content_digest
from permafrost.data.sources import read_entry
from permafrost.data.store.card import Card, write_card
from permafrost.data.store.completion import Gathered, complete
from permafrost.data.store.job import Job, plan_dataset
from permafrost.data.store.one_pass import Skipping, first_layout, read_pixels
from permafrost.data.store.writing import Layout, SplitWriter

if TYPE_CHECKING:
    from permafrost.core.stores import StoreWriter
    from permafrost.data.embeddings.matched import Matching


@dataclass(frozen=True, kw_only=True)
class PrepareSpec(Specification):
    """Specification of a `prepare` job.

    Attributes
    ----------
    dataset : its name.
    entry : as in YAML, after validation.
    source : digest of the data when planned; None in a job written by hand.
    matched : backbone -> embeddings (`embeddings.matched.Required`) that every image must have;
        images without one are excluded.
    modalities : their order; None for that of `entry`.
    """

    stage: str = "prepare"
    dataset: str
    entry: dict
    source: str | None = None
    matched: dict = field(default_factory=dict)
    modalities: list[str] | None = None

    def read_entry(self) -> DatasetEntry:
        """The entry with its modalities in order."""
        content = self.entry
        if self.modalities is not None:
            ordered = {name: content["modalities"][name] for name in self.modalities}
            content = {**content, "modalities": ordered}
        return read_entry(content, where=f"dataset {self.dataset}")


# imported, and part of a job's code, only if a specification has `matched`
MATCHING = {"embeddings": "permafrost.data.embeddings.matched"}


class _Again(Exception):
    """All images were read: some lack an embedding, or are larger than the layout.

    Arguments: job and layout of the next pass.
    """


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
    """Write the image stores and the card of a dataset: all four replace earlier ones, or none does.

    Parameters
    ----------
    outputs : ``{"train": path, "val": path, "test": path}`` of the stores.
    fingerprint : of the plan; recorded in the stores and the card.
    workers : decoding threads; one for a source with `one_thread`. Memory: a few chunks of 6 MB,
        independent of the dataset; with tiles, also one decoded image per thread plus one, except
        for images that can be read in parts.
    check : called before reading and again before finishing; raises if the data differ from the
        plan.
    digest_of : digest of required embeddings.
    most : most samples per split, evenly spread over it; for trials.

    Returns
    -------
    The card.

    Raises
    ------
    PermafrostError : the entry or the data are invalid; nothing is written.
    """
    matching = None
    if spec.matched:
        matching = importlib.import_module(MATCHING["embeddings"]).Matching(spec.matched, digest_of)
        check = _each(check, matching.check)
    check()
    job = plan_dataset(spec.dataset, spec.read_entry(), workers=workers)
    if most is not None:
        job = job.thinned(most)
    return write_job(job, outputs, card_path, fingerprint, check, matching)


def write_job(
    job: Job,
    outputs: dict,
    card_path,
    fingerprint: str,
    check: Callable[[], None],
    matching: Matching | None = None,
) -> Card:
    """Decode all images of a job, and write its stores and card; see `prepare`."""
    with no_truncated_images():
        layout = first_layout(job)
        while True:
            try:
                # the card last: its presence proves that all three stores belong to it
                with together() as group:
                    card = _write_stores(job, layout, outputs, fingerprint, group, check, matching)
                    write_card(card_path, card, group=group)
                return card
            except _Again as found:
                job, layout = found.args
            except Skipping as found:
                job, _ = found.args
                layout = first_layout(job)


def _each(*checks: Callable[[], None]) -> Callable[[], None]:
    def check() -> None:
        for one in checks:
            one()

    return check


def _write_stores(
    job: Job,
    layout: Layout,
    outputs: dict,
    fingerprint: str,
    group: Group,
    check: Callable[[], None],
    matching: Matching | None,
) -> Card:
    """All three stores, or none; returns the card."""
    with contextlib.ExitStack() as stack:
        # the stores close only after everything below has succeeded, and appear as one group
        stores: dict[str, StoreWriter] = {
            split: stack.enter_context(
                write_store(outputs[split], fingerprint=fingerprint, group=group)
            )
            for split in SPLITS
        }
        writers = {
            split: SplitWriter(layout, len(job.source.classes), len(job.plan.indices[split]))
            for split in SPLITS
        }
        if not read_pixels(job, writers, stores):
            # the first image was not the largest: a second pass pads to the largest
            for writer in writers.values():
                layout = layout.holding([one.shape for one in writer.needed.images])
            raise _Again(job, layout)
        gathered = Gathered(job, layout, {split: writer.found for split, writer in writers.items()})
        if matching is not None and job.unmatched is None:
            samples = {split: gathered.samples(split) for split in SPLITS}
            lacking = matching.lacking(samples, next(iter(layout.series), None))
            job = job.without(lacking)
            if any(rows for by_split in lacking.values() for rows in by_split.values()):
                raise _Again(job, first_layout(job))
            gathered = replace(gathered, job=job)
        card = complete(gathered, stores, fingerprint)
        check()
    return card
