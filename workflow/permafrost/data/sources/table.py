"""Kind ``table``: one row per image or sample; images are in a directory, an archive, or the table itself."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, cast

from permafrost.core.errors import PermafrostError
from permafrost.core.options import Different, LeftOut, Options, Text, TwoOrMore, Words
from permafrost.core.targets import (
    ClassMask,
    ManyLabels,
    Number,
    NumberRaster,
    OneClass,
    by_targets,
)
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.members import check_name, open_members
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.common import (
    ListedSource,
    class_ids,
    pixel_coding,
    required_classes,
)
from permafrost.data.sources.options import Places
from permafrost.data.sources.reading import locate_member, read_member
from permafrost.data.sources.sample_images import (
    SampleImages,
    SampleReader,
    by_modality,
    check_once,
    check_places,
    check_several_dates,
    holds_series,
    read_dates,
    texts_of,
)
from permafrost.data.sources.table_columns import Table
from permafrost.data.sources.table_files import SEPARATOR

if TYPE_CHECKING:
    from permafrost.data.files.members import Members
    from permafrost.data.sources.table_columns import CellImages

#: targets -> option of the source with their location
_OPTION_OF = {
    OneClass: "label",
    ManyLabels: "labels",
    Number: "target",
    ClassMask: "masks",
    NumberRaster: "targets",
}


@dataclass(frozen=True, kw_only=True)
class ListOfLabels(Options):
    """A column whose cells list labels."""

    column: str
    separator: Text = ";"
    """Separator of the labels; for lists in parquet and json it is ;."""
    missing: Literal["error", "empty"] = "error"
    """Handling of a sample with an empty cell, or without a file of labels: an error, or a sample with no label."""


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """One row per image or sample in CSV, parquet (also with images in its cells, as in Hugging
    Face's datasets), WebDataset's tars, arrays of a zarr store, or STAC items.
    """

    table: Annotated[str, Words("the CSV, parquet, tar or zarr, or a folder of them")]
    """CSV with a header line (UTF-8); parquet; a tar in which files with the same name up to the
    first dot are a sample: the rest of the name is the column, and json gives json.KEY; a zarr
    store, whose arrays have the samples on their first axis; or STAC's JSON, with the columns
    properties.KEY and assets.KEY. Or a folder of such files."""
    files: LeftOut[Text] = None
    """Which files of the folder table to use, such as "data/<split>-<shard>.parquet", or which
    groups of a zarr store, such as "<split>"; parts in <…> become columns. Default is all files, or
    the store's own arrays."""
    images: LeftOut[Annotated[str, Words("the folder or archive of the images")]] = None
    """Directory, zip or tar of the images; read in place. Without it, path and masks name columns of images."""
    path: Annotated[Places, Words("the column of file names")]
    """Column of the file names, or a pattern such as "2750/<class>/<filename>". For several dates
    in a row, a list; for a pair, [before, after]. For several sensors, a mapping of modalities to
    these."""
    sample: LeftOut[Text] = None
    """Column or pattern that several rows of one sample share. With dates: pair or series, the rows
    are its dates, in the order of date; with dates: one, they are images of one location and form a
    group."""
    label: LeftOut[Annotated[Text, Words("the column of the class")]] = None
    """Column of the class (classification): its name, or its number in classes or in the class
    names of Hugging Face's files."""
    labels: LeftOut[Annotated[TwoOrMore[str] | ListOfLabels, Words("columns of 0 and 1")]] = None
    """Columns of 0 and 1, or one column with a separator (multilabel)."""
    masks: LeftOut[Annotated[Text, Words("the column of mask files")]] = None
    """Column or pattern of the mask files (segmentation, change)."""
    targets: LeftOut[Text] = None
    """Column or pattern of the target rasters (pixel_regression)."""
    target: LeftOut[Annotated[Text, Words("the column of a number")]] = None
    """Column of a number (regression)."""
    split: LeftOut[Text] = None
    """Column that names the split."""
    group: LeftOut[Text] = None
    """Column or pattern of the scene, tile or flight."""
    lon: LeftOut[Text] = None
    """Column of the longitude in degrees (WGS 84)."""
    lat: LeftOut[Text] = None
    """Column of the latitude in degrees (WGS 84)."""
    date: LeftOut[Text | Different[str]] = None
    """Column of the date; for several paths in a row, the column of each; for a series in one
    array, a column of lists."""


class TableSource(ListedSource):
    """Images listed by a table."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        options: TableOptions = entry.source
        self._options = options
        self._table = Table(options.table, options.files, where=where)
        super().__init__(entry, where=where)
        self._members: Members | CellImages = self._table.images
        if options.images is not None:
            self._members = open_members(options.images, where=where)
        # missing files, whose samples may be skipped
        self._gone: set[str] = set()
        self._skip = entry.on_error is not None
        paths = [
            [self._files(text, "files") for text in texts]
            for texts in by_modality(options.path, entry.modalities).values()
        ]
        self._targets, masks = targets_of(self.task), None
        if self._targets.pixels:
            kind = by_targets(_OPTION_OF, self._targets)
            masks = self._files(getattr(options, kind), kind)
        self.classes, labels = self._labels(entry, options, where)
        coding = pixel_coding(entry, self.classes, where=where)
        self._read = SampleReader(
            entry, self.bands, functools.partial(read_member, self._members), coding
        )
        if options.sample is None or entry.dates == "one":
            rows = [(name, [row]) for row, name in enumerate(paths[0][0])]
            images = [self._of_row(paths, row) for row in range(len(rows))]
        else:
            rows, order = self._rows_of_samples()
            images = [
                SampleImages(
                    tuple(tuple(texts[0][row] for row in own) for texts in paths),
                    (tuple(order[row][1] for row in own),) * len(paths),
                )
                for _, own in rows
            ]
        check_several_dates(
            [(name, one) for (name, _), one in zip(rows, images, strict=True)],
            entry.dates,
            where=f"{where}: {options.table}",
        )
        columns = self._columns(entry) | {"label": labels}
        masks = masks or [None] * len(self._table)
        self._check_agree(rows, columns | {"mask": masks})
        self._samples = [(one, masks[own[0]]) for one, (_, own) in zip(images, rows, strict=True)]
        self._records = [
            Record(
                sample_id=name,
                **{key: column[own[0]] for key, column in columns.items()},
                unusable=self._missing(files, mask),
            )
            for (name, own), (files, mask) in zip(rows, self._samples, strict=True)
        ]

    def _missing(self, images: SampleImages, mask: str | None) -> tuple[str, None] | None:
        """Why a sample with missing files is unusable; None if all exist."""
        names = [*(name for files in images.files for name in files), mask]
        gone = [name for name in names if name in self._gone]
        return (f"{', '.join(gone)} is not in {self._members.place}", None) if gone else None

    def decode(self, index: int) -> Decoded:
        decoded = self._read(*self._samples[index])
        if self._dates_in_cell is None:
            return decoded
        own = self._dates_in_cell[index]
        return replace(decoded, dates=tuple(own if a.ndim == 4 else None for a in decoded.arrays))

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._samples[index][0].first)

    def _of_row(self, paths: list[list[list[str]]], row: int) -> SampleImages:
        """The images of a sample that is one row."""
        files = tuple(tuple(column[row] for column in columns) for columns in paths)
        dates: list[tuple[str | None, ...] | None] = []
        for own in files:
            known = self._dates_in_row[row] if len(self._dates_in_row[row]) == len(own) else None
            dates.append((known or (None,) * len(own)) if len(own) > 1 else None)
        return SampleImages(files, tuple(dates))

    @functools.cached_property
    def _dates_in_row(self) -> list[tuple[str | None, ...]]:
        """The dates of the images of each row, if the entry names a date column for each."""
        if not isinstance(self._options.date, list):
            return [()] * len(self._table)
        columns = [self._table.optional(column) for column in self._options.date]
        known = self._read_dates([text for cells in columns for text in cells if text])
        return [
            tuple(text and known[text][1] for text in cells) for cells in zip(*columns, strict=True)
        ]

    @functools.cached_property
    def _dates_in_cell(self) -> list[tuple[str | None, ...]] | None:
        """For each row, the dates listed in one cell, for a series in one array; None without such a column."""
        date, several = self._options.date, self._entry.dates != "one"
        if not (several and isinstance(date, str) and self._options.sample is None):
            return None
        cells = self._table.optional(date)
        if not any(cell and SEPARATOR in cell for cell in cells):
            return None
        lists = [(cell or "").split(SEPARATOR) for cell in cells]
        known = self._read_dates([text for texts in lists for text in texts if text])
        return [tuple(known[text][1] if text else None for text in texts) for texts in lists]

    def _read_dates(self, texts: list[str]) -> dict[str, tuple]:
        where = f"{self._where}: {self._options.table}"
        return read_dates(texts, what=str(self._options.date), where=where)

    def _rows_of_samples(self) -> tuple[list[tuple[str, list[int]]], list[tuple]]:
        """(name, rows in the order of their dates) of each sample, and the result of `read_dates` for each row."""
        # `check_entry` demands one column of dates
        names, texts = (
            self._table.text(self._options.sample),
            self._table.text(cast("str", self._options.date)),
        )
        known = self._read_dates(texts)
        order = [known[text] for text in texts]
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            rows.setdefault(name, []).append(row)
        for name, own in rows.items():
            where = f"{self._where}: {self._options.table}"
            check_once(name, (order[row][0] for row in own), where=where)
        return [
            (name, sorted(own, key=lambda row: order[row][0])) for name, own in rows.items()
        ], order

    def _columns(self, entry: DatasetEntry) -> dict[str, list]:
        """Columns of the records, except the label."""
        options, single = self._options, entry.dates == "one"
        # images of one location that are separate samples
        group = options.group or (options.sample if single else None)
        dated = isinstance(options.date, str) and (single or options.sample is None)
        dated = dated and self._dates_in_cell is None
        return {
            "split": self._table.optional(options.split),
            "group_id": self._table.optional(group),
            "lon": self._table.numbers(options.lon),
            "lat": self._table.numbers(options.lat),
            "date": self._table.optional(cast("str", options.date) if dated else None),
        }

    def _check_agree(self, rows: list[tuple[str, list[int]]], columns: dict[str, list]) -> None:
        """Check that the rows of a sample agree."""
        for name, own in rows:
            for key, column in columns.items():
                values = dict.fromkeys(column[row] for row in own)
                if len(values) > 1:
                    one, other, *_ = values
                    raise PermafrostError(
                        f"the rows of the sample {name} are inconsistent: its {key} is {one!r} and {other!r}",
                        where=f"{self._where}: {self._options.table}",
                        remedy="give all dates of a sample the same label, mask, split, group and place",
                    )

    def _files(self, text: str, what: str) -> list[str]:
        """File names by row; raises `PermafrostError` if one does not exist."""
        options = self._options
        place = self._members.place
        wanted = self._table.text(text)
        if options.images is None and not self._members.names:
            raise PermafrostError(
                f"{options.table} holds no images",
                where=self._where,
                remedy="name the folder or archive of its files with images in source",
            )
        if options.images is not None:
            wanted = [check_name(name, place, self._where) for name in wanted]
        known = set(self._members.names)
        missing = [name for name in wanted if name not in known]
        self._gone.update(missing)
        if missing and not self._skip:
            raise PermafrostError(
                f"{len(missing)} of {len(wanted)} {what} listed in {options.table} are not in "
                f"{place}: {', '.join(name[:200] for name in missing[:20])}",
                where=self._where,
                remedy=f"correct {'path' if what == 'files' else what} in the entry, or complete the {what}",
            )
        return wanted

    def _labels(self, entry: DatasetEntry, options: TableOptions, where):
        declared = entry.classes
        targets = self._targets
        if targets.pixels:
            classes = [] if targets.numbers else required_classes(entry, where=where)
            return classes, [None] * len(self._table)
        if targets.numbers:
            return [], self._table.targets(options.target)
        if targets.one_class:
            names = self._table.text(options.label)
            declared = declared or self._table.classes.get(options.label)
            if declared and not {*names} & {*declared} and all(_is_id(n, declared) for n in names):
                names = [declared[int(name)] for name in names]
            classes, ids = class_ids(names, declared, where=where)
            return classes, [ids[name] for name in names]
        labels = options.labels
        if isinstance(labels, ListOfLabels):
            known = self._table.classes.get(labels.column)
            return self._separated(labels, declared or known, where)
        classes = list(declared) if declared else list(labels)
        if len(classes) != len(labels):
            raise PermafrostError(
                f"classes lists {len(classes)} names for {len(labels)} label columns",
                where=where,
                remedy="give one class name per column, in the same order, or remove classes",
            )
        columns = [self._table.flags(column) for column in labels]
        return classes, list(zip(*columns, strict=True))

    def _separated(self, labels: ListOfLabels, declared, where):
        column = labels.column
        unlabelled = labels.missing == "empty"
        cells = self._table.optional(column) if unlabelled else self._table.labels(column)
        lists = [
            [part.strip() for part in (cell or "").split(labels.separator) if part.strip()]
            for cell in cells
        ]
        classes, ids = class_ids([n for names in lists for n in names], declared, where=where)
        vectors = []
        for names in lists:
            present = {ids[name] for name in names}
            vectors.append(tuple(int(number in present) for number in range(len(classes))))
        return classes, vectors


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` without label options, or if the rows and columns of a sample are undefined."""
    options: TableOptions = entry.source
    key = by_targets(_OPTION_OF, targets_of(entry.task))
    if getattr(entry.source, key) is None:
        raise PermafrostError(
            f"the task {entry.task} needs {key} in source",
            where=where,
            remedy=f"name it with {key}",
        )
    several = entry.dates != "one"
    check_places(
        entry,
        "path",
        options.path,
        series=several
        and (options.sample is not None or holds_series(entry, texts_of(options.path))),
        remedy="name the column that rows of one sample share with sample, and that of their dates with date, or list a"
        " path for each date, e.g. path: [before, after]",
        where=where,
    )
    listed = isinstance(options.date, list)
    if options.sample is not None and max(map(len, by_modality(options.path).values())) > 1:
        raise PermafrostError(
            "sample and several paths in a row exclude each other",
            where=where,
            remedy="remove sample, or give one path",
        )
    if several and options.sample is not None and (options.date is None or listed):
        raise PermafrostError(
            "the order of the rows of a sample is undefined",
            where=where,
            remedy="name the column of their dates, or of their numbers, with date",
        )
    if listed and len(options.date) not in map(len, by_modality(options.path).values()):
        raise PermafrostError(
            f"date in source names {len(options.date)} columns, for another number of paths",
            where=where,
            remedy="name the date of each path, in the same order",
        )
    if options.sample is not None and not several and entry.splits.method == "random":
        raise PermafrostError(
            "splits by method random put images of one sample on both sides of a split",
            where=where,
            remedy="set splits.method: group, or dates: series if they are the dates of one sample",
        )


def _is_id(text: str, classes: list[str]) -> bool:
    """Whether the text is a class number, from 0."""
    return text.isascii() and text.isdigit() and int(text) < len(classes)
