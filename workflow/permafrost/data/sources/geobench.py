"""Kind ``geobench``: a dataset of GEO-Bench V1, one HDF5 file per sample and JSON files with the splits.

A file holds one array (height, width) per band. The array has the band's name, followed by
``_YYYY-MM-DD`` if the band has a date. Several bands of one name share an array (height, width,
bands). A segmentation mask is one more array; other labels are in a pickled attribute, see
`permafrost.data.sources.geobench_attribute`. Some datasets have wrong band names, so the entry
assigns the arrays to bands.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from permafrost.core.errors import PermafrostError, first_line, near_names
from permafrost.core.options import AtLeast2, LeftOut, Natural, Options, Positive, Some, Text
from permafrost.core.tasks import targets_of
from permafrost.data.digest import PARTITION_FILES
from permafrost.data.entry import DatasetEntry, StoredType
from permafrost.data.files.decode import UnreadableImage, readable
from permafrost.data.files.failures import Failure, refuse_failures
from permafrost.data.files.georeference import degrees
from permafrost.data.files.members import folder_prefix, open_members
from permafrost.data.files.opening import check_bytes
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.common import (
    ListedSource,
    pixel_coding,
    required_classes,
)
from permafrost.data.sources.geobench_attribute import corner_of, label_of, read_attribute
from permafrost.data.sources.geobench_sample import (
    array_names,
    bands_of,
    open_sample,
    read_array,
    stored_attribute,
)
from permafrost.data.sources.options import Stored
from permafrost.data.sources.reading import grouped, read_member, stored_as

_ENDING = ".hdf5"
_DATED = re.compile(r"(.*)_(\d{4}-\d{2}-\d{2})(?:_.*)?", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Channels(Options):
    """An array of several bands, and the channels to use."""

    name: Text
    channels: Positive | Some[Natural]
    """Number of its channels, or a list of those to use, from 0."""


@dataclass(frozen=True, kw_only=True)
class GeobenchOptions(Stored):
    """A dataset of GEO-Bench V1: one HDF5 file per sample, and partitions in JSON. Its splits are
    train, valid and test.
    """

    partition: Text = "default"
    """Which samples train, validate and test: default, 0.01x, 0.02x, 0.05x, 0.10x, 0.20x, 0.50x or
    1.00x (shares of train), or another one in the data."""
    arrays: Some[Text | Channels]
    """Name of each band's array in the files, without a date, in the order of bands; for an array
    of several bands, also which of its channels to use."""
    label: Text = "label"
    """Name of the mask's array, without a date (segmentation)."""
    size: LeftOut[Positive] = None
    """Side length of every image in pixels; another size is an error."""
    resample: Literal["none", "nearest"] = "none"
    """Handling of bands with coarser pixels than the others (or than size): an error, or repeat
    their pixels if the factor is an integer."""
    date: Literal["only", "first", "last"] = "only"
    """Which date of a sample to use; only means that there is one."""
    place: Literal["ignore", "corner"] = "ignore"
    """How to use the coordinates in the files. In several datasets they are missing, wrong or the
    same for all samples of a split. corner takes the upper left corner as the location of an image.
    """
    group_run: LeftOut[AtLeast2] = None
    """If the group is a number: this many consecutive numbers form one group, e.g. 0 to 24 with 25."""
    dtype: LeftOut[StoredType] = None
    """Data type to store. A value that does not fit is an error."""

    def channels(self) -> list[tuple[str, list[int] | None]]:
        """Each array with its channels to use; None for an array of one band."""
        return [
            (one, None)
            if isinstance(one, str)
            else (
                one.name,
                one.channels if isinstance(one.channels, list) else list(range(one.channels)),
            )
            for one in self.arrays
        ]


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` if bands and arrays do not match, or if the entry lists no classes."""
    options: GeobenchOptions = entry.source
    offered = sum(1 if meant is None else len(meant) for _, meant in options.channels())
    declared = len(entry.bands or ())
    if declared and offered != declared:
        raise PermafrostError(
            f"the entry names {declared} bands, but arrays holds {offered}",
            where=where,
            remedy="name the array of each band in arrays, in the order of bands",
        )
    if options.group_run is not None and options.group is None:
        raise PermafrostError(
            "group_run has no meaning without group",
            where=where,
            remedy="set group to the place of the number in the name of a sample",
        )
    if not entry.classes:
        raise PermafrostError(
            "labels of GEO-Bench are numbers, so the entry has to name the classes",
            where=where,
            remedy="add classes to the entry, in the order of their ids",
        )


class GeobenchSource(ListedSource):
    """Samples of a partition with their labels; see the module's description."""

    # h5py has one lock for all threads: a second decoding thread gains nothing and slows reading
    # by a quarter
    one_thread = True

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        self._options: GeobenchOptions = entry.source
        options = self._options
        self._skip = entry.on_error is not None
        self.classes = required_classes(entry, where=where)
        self._arrays = options.channels()
        self._dtype = np.dtype(options.dtype) if options.dtype else None
        self._coding = pixel_coding(entry, self.classes, where=where)
        self._masked = self._coding is not None
        self._members = open_members(options.path, where=where)
        self._root = folder_prefix(options.root)
        self._names, splits = self._partition()
        self._records = self._describe(splits)

    def decode(self, index: int) -> Decoded:
        with open_sample(self._members, self._file(self._names[index])) as file:
            found = self._arrays_of(file)
            parts = [
                bands_of(read_array(file, found[name]), name, meant) for name, meant in self._arrays
            ]
            image = stored_as(self._stacked(parts), self._dtype)
            if not self._masked:
                return Decoded(image)
            name = found[self._options.label]
            with readable("its mask"):
                mask = self._coding(bands_of(read_array(file, name), name, None)[0])
        return Decoded(image, mask=mask)

    def _partition(self) -> tuple[list[str], list[str]]:
        """Names of the samples in the partition, and the data's name of the split of each."""
        members, wanted = set(self._members.names), self._options.partition
        there = [f"{self._root}{form.format(wanted)}" for form in PARTITION_FILES]
        place = next((name for name in there if name in members), None)
        if place is None:
            ending = PARTITION_FILES[0].format("")
            known = [
                name.removeprefix(self._root).removesuffix(ending)
                for name in self._members.names
                if name.startswith(self._root) and name.endswith(ending)
            ]
            raise PermafrostError(
                f"{self._options.path} has no partition {wanted!r}; {near_names(wanted, known)}",
                where=self._where,
                remedy="use one of these, or correct path or root",
            )
        try:
            splits = json.loads(read_member(self._members, place))
            listed = [(name, split) for split, names in splits.items() for name in names]
            if not all(isinstance(name, str) for name, _ in listed):
                raise TypeError("names that are not text")
        except (UnreadableImage, ValueError, TypeError, AttributeError) as error:
            raise PermafrostError(
                f"{place} of {self._options.path} is not a partition ({first_line(error)})",
                where=self._where,
                remedy="get the file again: it names samples by split, in JSON",
            ) from error
        absent = [name for name, _ in listed if f"{self._root}{name}{_ENDING}" not in members]
        if absent:
            raise PermafrostError(
                f"{place} of {self._options.path} names {len(listed)} samples, and {len(absent)} of them"
                f" are not there, e.g. {', '.join(f'{name}{_ENDING}' for name in absent[:5])}",
                where=self._where,
                remedy="get the missing files, or choose a partition that is complete",
            )
        return [name for name, _ in listed], [split for _, split in listed]

    def _describe(self, splits: Sequence[str]) -> list[Record]:
        """The records, from the files without their pixels."""
        labels, dates, corners, unusable = [], [], [], []
        for name in self._names:
            label, date, corner, wrong = None, None, None, None
            try:
                label, date, corner = self._description(name)
            except UnreadableImage as failure:
                wrong = str(failure), failure.remedy
            labels.append(label)
            dates.append(date)
            corners.append(corner)
            unusable.append(wrong)
        if not self._skip:
            failures = [
                Failure(self._file(name), *wrong)
                for name, wrong in zip(self._names, unusable, strict=True)
                if wrong
            ]
            refuse_failures(failures, total=len(self._names), where=self._where)
        groups = self._groups()
        lonlat = lonlats(corners)
        return [
            Record(name, label, split, group, lon, lat, date, unusable=wrong)
            for name, label, split, group, (lon, lat), date, wrong in zip(
                self._names, labels, splits, groups, lonlat, dates, unusable, strict=True
            )
        ]

    def _description(self, name: str):
        """Label, date and (coordinate system, x, y) of a sample; None for those not requested."""
        label, corner = None, None
        with open_sample(self._members, self._file(name)) as file:
            found = self._arrays_of(file)
            first = found[self._arrays[0][0]]
            placed = self._options.place == "corner"
            if placed or not self._masked:
                attribute = read_attribute(stored_attribute(file))
                label = None if self._masked else self._label(label_of(attribute))
                corner = corner_of(attribute, first) if placed else None
        dated = _DATED.fullmatch(first)
        return label, dated.group(2) if dated else None, corner

    def _label(self, label):
        several, count = targets_of(self.task).several, len(self.classes)
        if several != isinstance(label, tuple):
            raise UnreadableImage(
                f"has {'several labels' if isinstance(label, tuple) else 'one label'}",
                remedy=f"correct the task, which is {self.task}",
            )
        fits = len(label) == count and set(label) <= {0, 1} if several else 0 <= label < count
        if not fits:
            shown = f"{len(label)} labels" if several else f"the label {label}"
            raise UnreadableImage(
                f"has {shown}, the entry names {count} classes",
                remedy="correct classes in the entry",
            )
        return label

    def _groups(self) -> list[str | None]:
        groups = grouped(self._names, self._options.group, where=self._where)
        run = self._options.group_run
        if run is None:
            return groups
        strangers = [group for group in groups if not group.isdecimal()]
        if strangers:
            raise PermafrostError(
                f"group matches {strangers[0]!r}, which is not a number, but group_run needs one",
                where=self._where,
                remedy="correct group, or remove group_run",
            )
        return [str(int(group) // run) for group in groups]

    def _arrays_of(self, file) -> dict[str, str]:
        """Wanted array -> its name in this file, including the date if there is one."""
        wanted = [name for name, _ in self._arrays] + [self._options.label] * self._masked
        dated: dict[str, dict[str, str]] = {}
        undated = {}
        for stored in array_names(file):
            undated[stored] = stored
            if match := _DATED.fullmatch(stored):
                dated.setdefault(match.group(2), {})[match.group(1)] = stored
        dates = sorted(date for date, arrays in dated.items() if arrays.keys() & set(wanted))
        if len(dates) > 1 and self._options.date == "only":
            raise UnreadableImage(
                f"holds images of {len(dates)} dates, {', '.join(dates[:5])}",
                remedy="choose one with date: first or date: last in source",
            )
        found = undated
        if dates:
            found = {**undated, **dated[dates[-1 if self._options.date == "last" else 0]]}
        absent = [name for name in wanted if name not in found]
        if absent:
            raise UnreadableImage(
                f"has no array {absent[0]!r}, only {', '.join(array_names(file)) or 'none'}",
                remedy="correct arrays or label in source",
            )
        return found

    def _stacked(self, parts: list[np.ndarray]) -> np.ndarray:
        """(C, H, W) from arrays (c, h, w) after resampling to one size."""
        side = self._options.size
        height, width = (side, side) if side else max(part.shape[1:] for part in parts)
        check_bytes(sum(map(len, parts)) * height * width * max(p.itemsize for p in parts))
        for number, part in enumerate(parts):
            if part.shape[1:] == (height, width):
                continue
            times, rest = divmod(height, part.shape[1])
            whole = not rest and times * part.shape[2] == width
            if self._options.resample != "nearest" or not whole:
                raise UnreadableImage(
                    f"{self._arrays[number][0]!r} is {part.shape[1]} x {part.shape[2]} pixels,"
                    f" not {height} x {width}",
                    remedy="correct size in source"
                    + (", or set resample: nearest" if whole else ""),
                )
            parts[number] = part.repeat(times, axis=1).repeat(times, axis=2)
        return np.concatenate(parts)

    def _file(self, name: str) -> str:
        return f"{self._root}{name}{_ENDING}"


def lonlats(corners: Sequence[tuple[str, float, float] | None]) -> list[tuple]:
    """(lon, lat) in degrees (WGS 84) of points in several coordinate systems; (None, None) for None."""
    found: list[tuple] = [(None, None)] * len(corners)
    systems: dict[str, list[int]] = {}
    for position, corner in enumerate(corners):
        if corner is not None:
            systems.setdefault(corner[0], []).append(position)
    for system, positions in systems.items():
        x, y = zip(*(corners[position][1:] for position in positions), strict=True)
        for position, place in zip(positions, degrees(system, x, y).T.tolist(), strict=True):
            if not math.isnan(place[0]):
                found[position] = tuple(place)
    return found
