"""Check a dataset entry by itself, before its data exist.

The plan runs these checks to find mistakes before anything runs. `prepare` repeats them, because a
stage also runs by hand.
"""

from __future__ import annotations

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.bands.selection import select_bands
from permafrost.data.entry import DatasetEntry
from permafrost.data.labels.detection import check_options as check_object_options
from permafrost.data.labels.masks import check_options as check_mask_options
from permafrost.data.labels.masks import declared_dead, mask_coding
from permafrost.data.labels.splits import check_split_options
from permafrost.data.labels.targets import check_options as check_target_options
from permafrost.data.sources import KINDS, check_source, source_bands
from permafrost.data.sources.common import required_classes
from permafrost.data.sources.sample_images import texts_of

#: options that may contain ``<split>`` in their paths
_PATTERNS = ("images", "masks", "targets", "annotations", "points")


def entry_mistakes(entry: DatasetEntry, *, where: object) -> list[PermafrostError]:
    """All mistakes in an entry that do not depend on its data; one error for each."""
    mistakes = []
    for check in (*_OPTIONS, check_source, *_CONTENT):
        try:
            check(entry, where=where)
        except PermafrostError as error:
            mistakes.append(error)
            if check is check_source:
                # for a task that the source does not support, the rest cannot be checked
                break
    return mistakes


def selected_bands(entry: DatasetEntry, *, where: object) -> tuple[list[dict], list[str]]:
    """The bands of an entry as its card lists them, without statistics, and the names of the selected ones."""
    bands = source_bands(entry, where=where)
    positions = select_bands(bands, entry.select, where=f"{where}: select")
    return [band.as_dict() for band in bands], [bands[i].name for i in positions]


def _check_splits(entry: DatasetEntry, *, where: object) -> None:
    check_split_options(entry.splits, where=f"{where}: splits")
    named_by = _split_names(entry)
    if entry.splits.method == "given" and named_by is not None:
        raise PermafrostError(
            "the split of images into train, val and test is undefined",
            where=f"{where}: splits",
            remedy=f"add splits: {{method: random}} (or group, or block), or {named_by}",
        )


def _split_names(entry: DatasetEntry) -> str | None:
    """What the entry needs so that the data name their splits; None if they do."""
    kind, source = entry.kind, entry.source
    if kind == "folder" and targets_of(entry.task).one_class and source.images is None:
        return None if source.split_folders else "set split_folders where folders name them"
    if kind == "table":
        return "name the column with split" if source.split is None else None
    if kind == "coco":
        return (
            None if isinstance(source.annotations, dict) else "give the annotations of each split"
        )
    if kind == "deepforest":
        by_file = isinstance(source.table, dict)
        return None if by_file or source.split else "give the table of each split"
    if kind in ("dota", "folder", "points", "vectors", "voc") and not getattr(
        source, "image_sets", None
    ):
        patterns = [getattr(source, key, None) for key in _PATTERNS]
        named = any("<split>" in text for one in patterns for text in texts_of(one))
        return None if named else "write <split> in images"
    return None


def _check_bands(entry: DatasetEntry, *, where: object) -> None:
    selected_bands(entry, where=where)


def _check_pairs(entry: DatasetEntry, *, where: object) -> None:
    if targets_of(entry.task).of_pairs and entry.dates != "pair":
        raise PermafrostError(
            f"the task {entry.task} compares two images of a location, but the entry has dates: {entry.dates}",
            where=where,
            remedy="set dates: pair (before and after), or correct the task",
        )


def _check_modalities(entry: DatasetEntry, *, where: object) -> None:
    asked = [f"dates: {entry.dates}"] * (entry.dates != "one")
    asked += ["modalities"] * (entry.modalities is not None)
    if not asked:
        return
    able = sorted(name for name, kind in KINDS.items() if kind.several)
    if entry.kind not in able:
        raise PermafrostError(
            f"a source of kind {entry.kind!r} provides one image of one sensor, not {' and '.join(asked)}",
            where=where,
            remedy=f"use a source of kind {' or '.join(able)}",
        )
    if entry.modalities is not None and entry.bands is not None:
        raise PermafrostError(
            "bands and modalities exclude each other",
            where=where,
            remedy="list the bands of each modality in it, and remove bands",
        )


def _check_classes(entry: DatasetEntry, *, where: object) -> None:
    # generated masks and those of torchgeo define their classes themselves
    if targets_of(entry.task).masks and KINDS[entry.kind].places:
        mask_coding(entry, required_classes(entry, where=where), where=where)
    if entry.classes:
        declared_dead(entry, entry.classes, where=where)


_OPTIONS = (
    check_mask_options,
    check_object_options,
    check_target_options,
    _check_pairs,
    _check_modalities,
)
_CONTENT = (_check_splits, _check_bands, _check_classes)
