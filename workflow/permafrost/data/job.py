"""A dataset whose records are known and divided, checked before any pixel is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.core.tasks import task_of
from permafrost.data.bands import select_bands
from permafrost.data.classes import check_classes, class_counts
from permafrost.data.cleaning import Cleaning, Expected
from permafrost.data.detection import check_objects
from permafrost.data.entry import DatasetEntry
from permafrost.data.entry_checks import entry_mistakes
from permafrost.data.masks import declared_dead
from permafrost.data.records import Record, Source, check_records
from permafrost.data.sources import open_source
from permafrost.data.splits import SplitPlan, make_splits
from permafrost.data.stream import locate_all
from permafrost.data.targets import REGRESSION, check_targets
from permafrost.data.tiles import samples_of


@dataclass(frozen=True)
class Job:
    """A dataset whose records are known and divided, before any pixel is read."""

    name: str
    entry: DatasetEntry
    source: Source
    records: list[Record]
    plan: SplitPlan
    selected: list[str]
    dead: list[int]
    workers: int
    images: dict[str, list[Record]]
    """The records of each split before they were cut into windows."""
    unmatched: dict[str, dict[str, int]] | None = None
    """How many samples were left out of each split since a backbone has no embedding of them; None: not asked."""

    @property
    def where(self) -> str:
        return f"dataset {self.name}"

    def of(self, split: str) -> list[Record]:
        return [self.records[i] for i in self.plan.indices[split]]

    def thinned(self, most: int) -> Job:
        """The same with at most so many samples of each split, evenly spread over it."""
        indices = {
            split: positions[np.linspace(0, len(positions) - 1, most).astype(int)]
            if len(positions) > most
            else positions
            for split, positions in self.plan.indices.items()
        }
        return replace(self, plan=replace(self.plan, indices=indices))

    def without(self, lacking: dict[str, dict[str, list[int]]]) -> Job:
        """The same without the samples that lack an embedding, checked again.

        Parameters
        ----------
        lacking : backbone to split to rows of the split.

        Raises
        ------
        PermafrostError : a split or a class is left empty; or samples are windows of larger images, whose labels
            cannot be divided.
        """
        indices, images = {}, {}
        for split, positions in self.plan.indices.items():
            rows = sorted(set().union(*(of_split[split] for of_split in lacking.values())))
            if rows and self.entry.tiles is not None:
                raise PermafrostError(
                    f"{len(rows)} tiles of {split} have no embedding, and tiles are left out with their image only",
                    where=self.where,
                    remedy="take these images out of the dataset's files, or get the embeddings that cover them",
                )
            indices[split] = np.delete(positions, rows)
            if not len(indices[split]):
                raise PermafrostError(
                    f"no sample of {split} has an embedding in {' and '.join(map(repr, lacking))}",
                    where=self.where,
                    remedy="get the files that cover them, or leave the backbone out",
                )
            kept = {self.records[position].sample_id for position in indices[split]}
            images[split] = [one for one in self.images[split] if one.sample_id in kept]
        counts = {
            name: {split: len(rows) for split, rows in of_split.items()}
            for name, of_split in lacking.items()
        }
        plan = replace(self.plan, indices=indices)
        left = replace(self, plan=plan, images=images, unmatched=counts)
        _check_labels(left)
        return left

    def cleaning(self) -> Cleaning:
        entry = self.entry
        images = tuple(
            Expected(len(bands), entry.nodata_of(name), name)
            for name, bands in self.modalities.items()
        )
        return Cleaning(
            images,
            len(self.source.classes),
            self.source.ignore_index,
            entry.allow_empty_masks,
            entry.dates,
            entry.most_dates,
        )

    @property
    def modalities(self) -> dict[str | None, range]:
        """Positions of the bands of each modality, by its name; None is the only one's."""
        names = [band.modality for band in self.source.bands]
        return {
            name: range(names.index(name), names.index(name) + names.count(name)) for name in names
        }


def plan_dataset(name: str, entry: DatasetEntry, *, workers: int = 1) -> Job:
    """Everything about a dataset that is known without reading pixels, checked."""
    where = f"dataset {name}"
    for mistake in entry_mistakes(entry, where=where):
        raise mistake
    source = open_source(entry, where=where)
    dead = declared_dead(entry, source.classes, where=where)
    selected = select_bands(source.bands, entry.select)
    records = source.records()
    check_records(records, where)
    if entry.splits.method == "block":
        records = locate_all(source, records, workers, where=where)
    plan = make_splits(records, entry.splits, name=name, where=where)
    images = {split: [records[i] for i in plan.indices[split]] for split in SPLITS}
    if task_of(source.task).objects:
        # split first, then cut: all windows of an image belong to one split
        source, records, plan = samples_of(source, records, plan, entry.tiles, workers, where)
    names = [source.bands[i].name for i in selected]
    job = Job(name, entry, source, records, plan, names, dead, workers, images)
    _check_labels(job)
    return job


def _check_labels(job: Job) -> None:
    """Refuse labels of which splits hold too few, as far as they are known without reading pixels."""
    task = job.source.task
    if not task_of(task).masks:
        check_counts(job, {split: label_counts(job, split) for split in SPLITS})
    if task_of(task).objects:
        check_objects(job.images, where=job.where)
    if task == REGRESSION:
        check_targets(job.images, where=job.where)


def label_counts(job: Job, split: str) -> np.ndarray:
    return class_counts(job.images[split], job.source.task, len(job.source.classes))


def check_counts(job: Job, counts: dict[str, np.ndarray]) -> None:
    check_classes(
        job.source.classes,
        counts,
        dead=job.dead,
        allow_missing=job.entry.allow_missing_classes,
        where=job.where,
    )
