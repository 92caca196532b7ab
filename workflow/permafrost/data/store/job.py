"""A dataset with its records split and validated; no pixels read yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.core.tasks import targets_of
from permafrost.data.bands.selection import select_bands
from permafrost.data.entry import DatasetEntry
from permafrost.data.entry_checks import entry_mistakes
from permafrost.data.files.failures import Failure, refuse_failures
from permafrost.data.labels.classes import check_classes, check_several, class_counts
from permafrost.data.labels.detection import check_objects
from permafrost.data.labels.masks import declared_dead
from permafrost.data.labels.splits import SplitPlan, make_splits
from permafrost.data.labels.targets import check_targets
from permafrost.data.records import Record, Source, check_records
from permafrost.data.sources import open_source
from permafrost.data.store.cleaning import Cleaning, Expected
from permafrost.data.store.stream import locate_all
from permafrost.data.store.tiles import samples_of


@dataclass(frozen=True)
class Job:
    """A dataset with its records split; no pixels read yet."""

    name: str
    entry: DatasetEntry
    source: Source
    records: list[Record]
    plan: SplitPlan
    selected: list[str]
    dead: list[int]
    workers: int
    images: dict[str, list[Record]]
    """The records of each split before cutting into windows."""
    unmatched: dict[str, dict[str, int]] | None = None
    """Samples excluded from each split because a backbone has no embedding of them; None if none is required."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Unreadable images that `on_error` of the entry skips -> the reason."""

    @property
    def where(self) -> str:
        return f"dataset {self.name}"

    def of(self, split: str) -> list[Record]:
        return [self.records[i] for i in self.plan.indices[split]]

    def thinned(self, most: int) -> Job:
        """The job with at most `most` samples per split, evenly spread over it."""
        indices = {
            split: positions[np.linspace(0, len(positions) - 1, most).astype(int)]
            if len(positions) > most
            else positions
            for split, positions in self.plan.indices.items()
        }
        return replace(self, plan=replace(self.plan, indices=indices))

    def without(self, lacking: dict[str, dict[str, list[int]]]) -> Job:
        """The job without samples that lack an embedding, validated again.

        Parameters
        ----------
        lacking : backbone -> split -> rows of the split.

        Raises
        ------
        PermafrostError : a split or a class becomes empty; or samples are windows of larger images,
            whose labels cannot be divided.
        """
        indices, images = {}, {}
        for split, positions in self.plan.indices.items():
            rows = sorted(set().union(*(of_split[split] for of_split in lacking.values())))
            if rows and self.entry.tiles is not None:
                raise PermafrostError(
                    f"{len(rows)} tiles of {split} have no embedding, and tiles can only be dropped with their image",
                    where=self.where,
                    remedy="remove these images from the dataset's files, or get the embeddings that cover them",
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

    def skipping(self, failures: Sequence[Failure]) -> Job:
        """The job without unreadable images and all their windows, validated again.

        Raises
        ------
        PermafrostError : more images than `on_error` of the entry allows, listed by name; or a
            split or a class becomes empty.
        """
        total = sum(map(len, self.images.values())) + len(self.skipped)
        skipped = self.skipped | _allowed(
            self.entry, failures, total, self.where, len(self.skipped)
        )
        indices = {
            split: np.array([i for i in positions if _image(self.records[i]) not in skipped], int)
            for split, positions in self.plan.indices.items()
        }
        images = {
            split: [one for one in records if one.sample_id not in skipped]
            for split, records in self.images.items()
        }
        left = replace(
            self, plan=replace(self.plan, indices=indices), images=images, skipped=skipped
        )
        if empty := [split for split, positions in indices.items() if not len(positions)]:
            raise PermafrostError(
                f"no image of {' and '.join(empty)} can be read",
                where=self.where,
                remedy="repair these files, or change the splits",
            )
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
        """Band positions of each modality by its name; None is the only one's."""
        names = [band.modality for band in self.source.bands]
        return {
            name: range(names.index(name), names.index(name) + names.count(name)) for name in names
        }


def plan_dataset(name: str, entry: DatasetEntry, *, workers: int = 1) -> Job:
    """Everything about a dataset that needs no pixels, validated."""
    where = f"dataset {name}"
    for mistake in entry_mistakes(entry, where=where):
        raise mistake
    source = open_source(entry, where=where)
    masks = targets_of(entry.task).masks
    dead = declared_dead(entry, source.classes, where=where) if masks else []
    selected = select_bands(source.bands, entry.select)
    records = source.records()
    check_records(records, where)
    failures = [Failure(one.sample_id, *one.unusable) for one in records if one.unusable]
    if entry.splits.method == "block":
        records, lost = locate_all(source, records, workers)
        failures += lost
    skipped = _allowed(entry, failures, len(records), where)
    dated = entry.dates != "one"
    kept = np.array([i for i, one in enumerate(records) if one.sample_id not in skipped], int)
    plan = make_splits(
        [records[i] for i in kept], entry.splits, name=name, where=where, dated=dated
    )
    plan = replace(plan, indices={split: kept[found] for split, found in plan.indices.items()})
    images = {split: [records[i] for i in plan.indices[split]] for split in SPLITS}
    if targets_of(source.task).objects:
        # split first, then cut: all windows of an image belong to one split
        source, records, plan = samples_of(source, records, plan, entry.tiles, workers, where)
    names = [source.bands[i].name for i in selected]
    job = Job(name, entry, source, records, plan, names, dead, workers, images, skipped=skipped)
    _check_labels(job)
    return job


def _allowed(
    entry: DatasetEntry, failures: Sequence[Failure], total: int, where: object, before: int = 0
) -> dict[str, str]:
    """Unreadable image -> reason; an error if they and the `before` skipped ones are too large a share of `total`."""
    found = {failure.sample_id: failure.why for failure in failures}
    share = 0.0 if entry.on_error is None else entry.on_error.skip_up_to
    # a quotient, not a product: 29 of 100 are 0.29, but 0.29 * 100 is less than 29
    too_many = found and (len(found) + before) / total > share
    if too_many or not all(failure.skippable for failure in failures):
        asked = (
            f"or let on_error skip more than {share:g} of the images"
            if share and too_many
            else None
        )
        refuse_failures(failures, total=total, where=where, remedy=asked)
    return found


def _image(record: Record) -> str:
    """The name of the record's whole image."""
    return record.image_id or record.sample_id


def _check_labels(job: Job) -> None:
    """Refuse splits with too few labels, as far as this is known without reading pixels."""
    targets = targets_of(job.source.task)
    if not targets.masks:
        counts = {split: label_counts(job, split) for split in SPLITS}
        check_counts(job, counts)
        # with allow_missing_classes, samples may have one of several classes, as in a first test
        # with a few files
        alone = len(job.source.classes) == 1 or not job.entry.allow_missing_classes
        if targets.one_class and alone:
            check_several(job.source.classes, counts, where=job.where)
    if targets.objects:
        check_objects(job.images, where=job.where)
    if targets.numbers and not targets.pixels:
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
