"""Kind ``folder``: classes by folders; for pixels, files of images and of masks or numbers that are named alike.

Classes: ``<root>/<class>/…/<image>``, or with splits ``<root>/<split>/<class>/…/<image>``. Both in a directory or an
archive.
"""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.data.decode import decode_image
from permafrost.data.entry import DatasetEntry
from permafrost.data.files import folder_prefix, open_members
from permafrost.data.masks import mask_coding
from permafrost.data.rasters import TargetCoding
from permafrost.data.records import Decoded, Record, Source
from permafrost.data.sources.common import (
    class_ids,
    declared_bands,
    decoding_of,
    required_classes,
)
from permafrost.data.sources.pairing import Companions, PairedFiles, pair_files
from permafrost.data.sources.reading import grouped, locate_member, read_member, read_pair
from permafrost.data.targets import PIXEL_REGRESSION

MASKS, TARGETS = ("masks", "mask"), ("targets", "target")


@dataclass(frozen=True, kw_only=True)
class FolderOptions(PairedFiles):
    """Options of folders of classes, or of pairs.

    Attributes
    ----------
    split_folders : whether the first level of folders names splits, the second classes.
    masks, targets : where masks or rasters of numbers lie, as `images`.
    group : regular expression whose group in parentheses is the sample's group, found in its name.
    """

    split_folders: bool
    masks: str | None = None
    targets: str | None = None
    group: str | None = None


def open_folder(entry: DatasetEntry, *, where: object) -> Source:
    """Folders of classes, or pairs of images and masks or rasters, as the task asks for."""
    kind = FolderSource if entry.task == "classification" else PairSource
    return kind(entry, where=where)


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Refuse options of the source that the task has no use for."""
    options: FolderOptions = entry.source
    if entry.task == "classification":
        given = [key for key in ("images", "masks", "targets") if getattr(options, key) is not None]
        if given:
            raise PermafrostError(
                f"{' and '.join(given)} in source are for the tasks segmentation and pixel_regression",
                where=where,
                remedy="use root for the folder of the classes, or correct the task",
            )
        return
    if options.split_folders:
        raise PermafrostError(
            "split_folders is for folders of classes",
            where=where,
            remedy='name the splits by <split>, e.g. images: "<split>/images"',
        )
    kind, other = (TARGETS, MASKS) if entry.task == PIXEL_REGRESSION else (MASKS, TARGETS)
    if getattr(options, other[0]) is not None:
        raise PermafrostError(
            f"{other[0]} in source have no meaning for the task {entry.task}",
            where=where,
            remedy=f"use {kind[0]}, or correct the task",
        )


class FolderSource:
    """Images whose class is the name of their folder."""

    task = "classification"

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        options: FolderOptions = entry.source
        self.bands = declared_bands(entry, where=where)
        self.ignore_index = None
        self._decoding = decoding_of(entry, self.bands)
        self._members = open_members(options.path, where=where)
        depth = 2 if options.split_folders else 1
        self._names = self._images(options, depth, where)
        start = len(folder_prefix(options.root))
        levels = [name[start:].split("/") for name in self._names]
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

    def records(self) -> list[Record]:
        return self._records

    def decode(self, index: int) -> Decoded:
        return decode_image(read_member(self._members, self._names[index]), self._decoding)

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._names[index])

    def _images(self, options: FolderOptions, depth: int, where) -> list[str]:
        prefix = folder_prefix(options.root)
        names = [name for name in self._members.names if name.startswith(prefix)]
        if not names:
            raise PermafrostError(
                f"{options.path} holds no folder {options.root!r}",
                where=where,
                remedy="correct root",
            )
        endings = tuple("." + e.lower() for e in options.extensions)
        images, others = [], []
        for name in names:
            in_class = name.removeprefix(prefix).count("/") >= depth
            (images if in_class and name.lower().endswith(endings) else others).append(name)
        if others and options.other_files != "ignore":
            raise PermafrostError(
                f"{options.path} holds {len(others)} files that are no images in class folders,"
                f" e.g. {', '.join(others[:5])}",
                where=where,
                remedy="set root to the folder of the classes, or other_files: ignore",
            )
        return images


class PairSource:
    """Images and masks, or rasters of numbers, that belong together by their names."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        options: FolderOptions = entry.source
        self.task = entry.task
        self.bands = declared_bands(entry, where=where)
        self.ignore_index = entry.ignore_index
        if self.task == PIXEL_REGRESSION:
            self.classes, self._coding = [], TargetCoding.of(entry.target)
            # rasters may also be arrays of NumPy, which no image is
            companions = Companions(*TARGETS, (*options.extensions, "npy"))
        else:
            self.classes = required_classes(entry, where=where)
            self._coding = mask_coding(entry, self.classes, where=where)
            companions = Companions(*MASKS, options.extensions)
        self._decoding = decoding_of(entry, self.bands)
        self._members = open_members(options.path, where=where)
        self._pairs = pair_files(self._members, options, companions, where=where)
        start = len(folder_prefix(options.root))
        names = [pair.image[start:] for pair in self._pairs]
        groups = grouped(names, options.group, where=where)
        self._records = [
            Record(sample_id=name, split=pair.parts.get("split"), group_id=group)
            for name, group, pair in zip(names, groups, self._pairs, strict=True)
        ]

    def records(self) -> list[Record]:
        return self._records

    def decode(self, index: int) -> Decoded:
        pair = self._pairs[index]
        return read_pair(self._members, pair.image, pair.companion, self._decoding, self._coding)

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._pairs[index].image)
