"""Check a dataset's listing and a few of its images while planning, to find errors hours before the job."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.failures import Failure, refuse_failures
from permafrost.data.files.members import is_junk, open_members, walk
from permafrost.data.labels.splits import SplitPlan
from permafrost.data.records import check_records
from permafrost.data.sources import open_source
from permafrost.data.store.job import Job
from permafrost.data.store.one_pass import first_layout

#: kinds whose files are quick to list and read; jobs check the others
KINDS = (
    "folder",
    "table",
    "coco",
    "cvat",
    "deepforest",
    "dota",
    "vectors",
    "voc",
    "yolo",
    "points",
)
_IMAGES = 8
# read one image each
_SPLITS = 3


def check_samples(entry: DatasetEntry, *, where: object) -> None:
    """Check a dataset's listing, and that a few evenly spread images can be used.

    Parameters
    ----------
    entry : with complete paths, which must exist.

    Raises
    ------
    PermafrostError : with the message that the job would give.
    """
    if entry.kind not in KINDS:
        return
    try:
        # for tables, the folder of images, or the table if its cells hold them
        place = getattr(entry.source, "path" if entry.kind != "table" else "images")
        if place is not None:
            open_members(place, where=where, read=False)
    except PermafrostError:
        return  # the job refuses an archive that cannot be read
    _check_folders(entry, where)
    if entry.on_error is not None:
        return  # the job counts what cannot be used
    source = open_source(entry, where=where)
    records = source.records()
    check_records(records, where)
    if entry.splits.method != "given" and len(records) < _SPLITS:
        raise PermafrostError(
            f"{len(records)} images cannot be divided into train, validation and test",
            where=where,
            remedy="add images: at least one per split; a score needs many",
        )
    chosen = np.linspace(0, len(records) - 1, min(_IMAGES, len(records))).astype(int)
    plan = SplitPlan({"train": chosen}, entry.splits.method, 0, False)
    job = Job(str(where), entry, source, records, plan, [], [], 1, {})
    failures, cleaning = [], job.cleaning()
    for position in chosen.tolist():
        try:
            cleaning(source.decode(position))
        except UnreadableImage as error:
            failures.append(Failure.of(records[position], error))
    refuse_failures(failures, total=len(chosen), where=where)
    try:
        first_layout(job)
    except PermafrostError as error:
        # the source names the entry by the dataset alone
        raise PermafrostError(error.problem, where=where, remedy=error.remedy) from error


def _check_folders(entry: DatasetEntry, where: object) -> None:
    """Refuse empty class folders: no image shows that they are meant as classes."""
    named = entry.kind == "folder" and entry.source.images is None
    top = Path(entry.source.path) / entry.source.root.strip("/") if named else Path()
    if not named or not targets_of(entry.task).one_class or not top.is_dir():
        return
    depth = 2 if entry.source.split_folders else 1
    empty = [
        path.relative_to(top).as_posix()
        for path in sorted(top.glob("/".join("*" * depth)))
        if path.is_dir() and not is_junk(path.name) and not _has_files(path)
    ]
    if empty and not entry.allow_missing_classes:
        raise PermafrostError(
            f"the folder{'s' * (len(empty) > 1)} {', '.join(empty[:5])} of {top} hold{'s' * (len(empty) == 1)} no file",
            where=where,
            remedy="put images there, or remove the folder",
        )


def _has_files(folder: Path) -> bool:
    return any(files for _, _, files in walk(folder))
