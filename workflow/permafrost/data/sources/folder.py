"""Kind ``folder``: classes by folders; or images with masks or target rasters of the same name.

Classes: ``<root>/<class>/…/<image>``, or with splits ``<root>/<split>/<class>/…/<image>``, or by a
pattern of names. Patterns find several dates and sensors of a sample. All files are in a directory
or an archive.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.core.options import LeftOut, Text
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import decode_image
from permafrost.data.files.members import Members, folder_prefix, open_members
from permafrost.data.records import Decoded, Record, Source
from permafrost.data.sources.common import (
    ListedSource,
    class_ids,
    decoding_of,
    pixel_coding,
    required_classes,
)
from permafrost.data.sources.options import PairedFiles, Places
from permafrost.data.sources.pairing import DATE, Companions, Pair, pair_files
from permafrost.data.sources.reading import grouped, locate_member, read_member
from permafrost.data.sources.sample_images import (
    SampleReader,
    check_places,
    check_several_dates,
    holds_series,
    texts_of,
)

MASKS, TARGETS = ("masks", "mask"), ("targets", "target")
_CLASS, _DATE = "<class>", f"<{DATE}>"


@dataclass(frozen=True, kw_only=True)
class FolderOptions(PairedFiles):
    """One sub-folder per class; or images matched by name with masks or rasters, also of several dates or sensors."""

    BY_TASK = {
        ("segmentation",): {"images": "images", "masks": "masks"},
        ("pixel_regression",): {"images": "images", "targets": "targets"},
        ("change",): {"images": ["A", "B"], "masks": "label"},
    }

    images: LeftOut[Places] = None
    """Location of the images: a folder, or a pattern of file names with <stem>, such as
    "<split>/<stem>_sat.jpg". Files of a sample have the same text for each part in <…>; <split> is
    the split, <class> the class (classification), which class folders need as in
    "<class>/<stem>.png". For a pair, a list: before and after, [A, B]. For a series, <date> marks
    the date of each image, "<sample>/<date>.tif": 2019-05-03, 20190503, or numbers. For several
    sensors, a mapping of modalities to these."""
    masks: LeftOut[Text] = None
    """Location of the masks (segmentation, change), as in images: a folder in which a mask has the
    name of its image up to the ending, or a pattern such as "masks/<stem>_mask.png"."""
    targets: LeftOut[Text] = None
    """Location of the target rasters (pixel_regression), as in masks: TIFF, PNG of 8 or 16 bits, or
    npy, with one channel."""
    split_folders: bool = False
    """True if the first folder level is the split and the second the class (classification)."""


def open_folder(entry: DatasetEntry, *, where: object) -> Source:
    """Open class folders, or files matched by name, as the entry defines."""
    kind = FolderSource if entry.source.images is None else NamedSource
    return kind(entry, where=where)


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for source options that do not apply to the task."""
    options: FolderOptions = entry.source
    texts = texts_of(options.images)
    if texts:
        check_places(
            entry,
            "images",
            options.images,
            series=any(_DATE in text for text in texts) or holds_series(entry, texts),
            remedy="list the images before and after, e.g. images: [A, B], or write <date> where the date is in"
            ' their names, e.g. images: "<sample>/<date>.tif"',
            where=where,
        )
    elif entry.dates != "one" or entry.modalities is not None:
        raise PermafrostError(
            "folders of classes hold one image of a sample",
            where=where,
            remedy='name all images of a sample by patterns, e.g. images: "<class>/<sample>/<date>.tif"',
        )
    targets = targets_of(entry.task)
    if targets.one_class:
        given = [key for key in ("masks", "targets") if getattr(options, key) is not None]
        if given:
            raise PermafrostError(
                f"{' and '.join(given)} in source have no meaning for the task {entry.task}",
                where=where,
                remedy="use root for the folder of the classes, or correct the task",
            )
        if not texts:
            return
        if _CLASS not in texts[0]:
            raise PermafrostError(
                f"images ({texts[0]}) do not contain <class>, the name of the class",
                where=where,
                remedy='write <class> there, e.g. images: "<class>/<stem>.tif"',
            )
    if options.split_folders:
        raise PermafrostError(
            "split_folders is for folders of classes",
            where=where,
            remedy='name the splits by <split>, e.g. images: "<split>/images"',
        )
    if targets.one_class:
        return
    kind, other = (TARGETS, MASKS) if targets.numbers else (MASKS, TARGETS)
    if getattr(options, other[0]) is not None:
        raise PermafrostError(
            f"{other[0]} in source have no meaning for the task {entry.task}",
            where=where,
            remedy=f"use {kind[0]}, or correct the task",
        )


class FolderSource(ListedSource):
    """Images whose class is the name of their folder."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        options: FolderOptions = entry.source
        self._decoding = decoding_of(entry, self.bands)
        self._members = open_members(options.path, where=where)
        depth = 2 if options.split_folders else 1
        by_name = class_levels(self._members, options, where)
        self._names, levels = list(by_name), list(by_name.values())
        start = len(folder_prefix(options.root))
        self.classes, ids = class_ids(
            [parts[depth - 1] for parts in levels], entry.classes, where=where
        )
        sample_ids = [name[start:] for name in self._names]
        groups = grouped(sample_ids, options.group, where=where)
        self._records = [
            Record(
                sample_id=sample_id,
                label=ids[parts[depth - 1]],
                split=parts[0] if depth == 2 else None,
                group_id=group,
            )
            for sample_id, parts, group in zip(sample_ids, levels, groups, strict=True)
        ]

    def decode(self, index: int) -> Decoded:
        return decode_image(read_member(self._members, self._names[index]), self._decoding)

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._names[index])


def class_levels(members: Members, options: FolderOptions, where: object) -> dict[str, list[str]]:
    """Image name -> its parts below `root`; the first are a class, or a split and a class.

    Raises
    ------
    PermafrostError : `root` does not exist, or there are other files that the entry does not
        ignore.
    """
    prefix, depth = folder_prefix(options.root), 2 if options.split_folders else 1
    names = [name for name in members.names if name.startswith(prefix)]
    if not names:
        raise PermafrostError(
            f"{options.path} holds no folder {options.root!r}"
            if options.root
            else f"{options.path} holds no images",
            where=where,
            remedy="correct root" if options.root else "correct path, or get the data first",
        )
    endings = tuple("." + e.lower() for e in options.extensions)
    images: list[str]
    others: list[str]
    images, others = [], []
    for name in names:
        in_class = name.removeprefix(prefix).count("/") >= depth
        (images if in_class and name.lower().endswith(endings) else others).append(name)
    if others and options.other_files != "ignore":
        raise PermafrostError(
            f"{options.path} holds {len(others)} files that are not images in class folders,"
            f" e.g. {', '.join(others[:5])}",
            where=where,
            remedy="set root to the folder of the classes, or other_files: ignore",
        )
    return {name: name[len(prefix) :].split("/") for name in images}


class NamedSource(ListedSource):
    """Images found by patterns of names: of one or several dates and sensors, with masks or
    rasters, or with classes."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        options: FolderOptions = entry.source
        companions, self.classes, targets = None, [], targets_of(self.task)
        if targets.numbers:
            companions = Companions(*TARGETS, (*options.extensions, "npy"))
        elif not targets.one_class:
            self.classes = required_classes(entry, where=where)
            companions = Companions(*MASKS, options.extensions)
        coding = pixel_coding(entry, self.classes, where=where)
        self._members = open_members(options.path, where=where)
        self._pairs = pair_files(
            self._members, options, companions, modalities=entry.modalities, where=where
        )
        labels = [None] * len(self._pairs)
        if targets.one_class:
            found = [pair.parts["class"] for pair in self._pairs]
            self.classes, ids = class_ids(found, entry.classes, where=where)
            labels = [ids[name] for name in found]
        self._read = SampleReader(
            entry, self.bands, functools.partial(read_member, self._members), coding
        )
        start = len(folder_prefix(options.root))
        dated = any(_DATE in text for text in texts_of(options.images))
        names = [_sample_name(pair, start, dated) for pair in self._pairs]
        check_several_dates(
            [(name, pair.images) for name, pair in zip(names, self._pairs, strict=True)],
            entry.dates,
            where=where,
        )
        groups = grouped(names, options.group, where=where)
        self._records = [
            Record(sample_id=name, label=label, split=pair.parts.get("split"), group_id=group)
            for name, label, group, pair in zip(names, labels, groups, self._pairs, strict=True)
        ]

    def decode(self, index: int) -> Decoded:
        pair = self._pairs[index]
        return self._read(pair.images, pair.companion)

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._pairs[index].image)


def _sample_name(pair: Pair, start: int, dated: bool) -> str:
    """The name of the first image; for images that differ only in their dates, the common part."""
    return "/".join(pair.parts.values()) if dated else pair.image[start:]
