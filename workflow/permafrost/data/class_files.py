"""Check the classes of a dataset by file names and table columns while planning, without reading pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.members import open_members
from permafrost.data.proposal.draft import is_split
from permafrost.data.proposal.layouts import class_folders
from permafrost.data.sources.folder import FolderOptions, class_levels
from permafrost.data.sources.pairing import pair_files
from permafrost.data.sources.sample_images import texts_of
from permafrost.data.sources.table import TableOptions
from permafrost.data.sources.table_columns import Table

# columns listed in a remedy, and the most values that a column of classes may have
_NAMED, _VALUES = 4, 1000
# options of a table that name columns
_COLUMNS = ("path", "sample", "masks", "targets", "target", "split", "group", "lon", "lat", "date")


def check_files(entry: DatasetEntry, *, where: object) -> None:
    """Check that a table has the entry's columns, and that the classes are several and are not splits.

    Parameters
    ----------
    entry : with complete paths; only kinds of source in `CHECKS` are checked.

    Raises
    ------
    PermafrostError : a check failed; the remedy is an entry that works, if the files show one.
    """
    if entry.kind in CHECKS:
        CHECKS[entry.kind](entry, where)


def _check_folder(entry: DatasetEntry, where: object) -> None:
    if not targets_of(entry.task).one_class:
        return
    options: FolderOptions = entry.source
    try:
        members = open_members(options.path, where=where, read=False)
    except PermafrostError:
        return  # the job refuses files that cannot be read
    # and ignore files outside the class folders
    options = replace(options, other_files="ignore")
    if options.images is not None:
        named = [pair.parts["class"] for pair in pair_files(members, options, None, where=where)]
        if len(named) > 1 and len(set(named)) == 1:
            raise PermafrostError(
                f"all {len(named)} samples are of one class, {named[0]!r}",
                where=where,
                remedy="correct where <class> is in images, or give two or more classes",
            )
        return
    levels = class_levels(members, options, where)
    classes = sorted({parts[1 if options.split_folders else 0] for parts in levels.values()})
    if len(classes) > 1 and not all(map(is_split, classes)):
        return
    if len(levels) == 1:
        return  # the job reports that a single image cannot be split
    problem = f"all {len(levels)} images are of one class, {classes[0]!r}" if classes else ""
    if len(classes) > 1:
        problem = f"the classes are {', '.join(classes)}, which are splits"
    draft = class_folders(members, where)
    if draft is None or _layout(draft.source) == _layout(vars(options)):
        if len(classes) != 1:
            return
        remedy = "give a folder for each of two or more classes"
    else:
        remedy = f"write in source {_yaml(draft.source)}: it holds {_few(draft.fields['classes'])}"
    raise PermafrostError(
        problem or f"{options.path} holds no image in a folder of a class",
        where=where,
        remedy=remedy,
    )


def _layout(source: dict) -> tuple[str, bool]:
    return (source.get("root") or "").strip("/"), bool(source.get("split_folders"))


def _yaml(source: dict) -> str:
    root, split_folders = _layout(source)
    said = [f"root: {root or repr('')}"]
    return ", ".join([*said, f"split_folders: {str(split_folders).lower()}"][: 1 + split_folders])


def _check_table(entry: DatasetEntry, where: object) -> None:
    options: TableOptions = entry.source
    try:
        table = Table(options.table, options.files, where=where)
    except PermafrostError:
        return
    named = [*_COLUMNS, *(["labels"] if isinstance(options.labels, list) else [])]
    for column in (text for key in named for text in texts_of(getattr(options, key))):
        table.optional(column)
    if not targets_of(entry.task).one_class or options.label is None:
        return
    found = table.text(options.label)
    if len(set(found)) != 1 or len(found) == 1:
        return
    # a column of classes has repeated values
    others = [
        name
        for name, cells in table.columns.items()
        if name != options.label and 1 < len(set(cells)) <= min(len(cells) / 2, _VALUES)
    ]
    raise PermafrostError(
        f"all {len(found)} rows of {options.table} are of one class, {found[0]!r}",
        where=where,
        remedy=f"name the column of the classes with label ({_few(others)}?)"
        if others
        else "give rows of two or more classes",
    )


# kind of source -> its check
CHECKS: dict[str, Callable] = {"folder": _check_folder, "table": _check_table}


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" * (len(names) > _NAMED))
