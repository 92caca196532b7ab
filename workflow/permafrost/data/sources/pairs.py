"""Kind ``folder`` for pixels: files of images and files of masks or of numbers that are named alike."""

from __future__ import annotations

from dataclasses import replace

from permafrost.core.errors import PermafrostError
from permafrost.data.digest import IMAGE_ENDINGS
from permafrost.data.files import open_members
from permafrost.data.masks import mask_coding
from permafrost.data.rasters import ENDINGS, TargetCoding
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.common import declared_bands, decoding_of, required_classes
from permafrost.data.sources.pairing import Companions, pair_files, root_of
from permafrost.data.sources.reading import grouped, locate_member, read_pair
from permafrost.data.targets import PIXEL_REGRESSION

MASKS = Companions("masks", "mask", IMAGE_ENDINGS, images="images", folder="masks")
TARGETS = Companions("targets", "target", ENDINGS, images="images", folder="targets")


def check_pairs(entry: dict, *, where: object) -> None:
    """Refuse options of the source that are for other tasks."""
    options, task = entry["source"], entry["task"]
    if options.get("split_folders"):
        raise PermafrostError(
            "split_folders is for folders of classes",
            where=where,
            remedy='name the splits by <split>, e.g. images: "<split>/images"',
        )
    kind, other = (TARGETS, MASKS) if task == PIXEL_REGRESSION else (MASKS, TARGETS)
    if other.name in options:
        raise PermafrostError(
            f"{other.name} in source have no meaning for the task {task}",
            where=where,
            remedy=f"use {kind.name}, or correct the task",
        )


class PairSource:
    """Images and masks, or rasters of numbers, that belong together by their names.

    Options: ``path``; ``root`` (folder inside it); ``images`` and ``masks`` (or ``targets``), each a folder (a pair has
    the same name in both, up to the ending) or a pattern of file names with ``<stem>``, such as
    ``masks/<stem>_mask.png``. Both may hold further parts in ``<…>`` that a pair has in common;
    ``<split>`` is one that names the split. ``group`` (a regular expression whose group in parentheses
    is the sample's group, found in the image's name); ``extensions``; ``other_files``.
    """

    def __init__(self, entry: dict, *, where: object) -> None:
        options = entry["source"]
        self.task: str = entry["task"]
        self.bands = declared_bands(entry, where=where)
        self.ignore_index = entry.get("ignore_index")
        if self.task == PIXEL_REGRESSION:
            self.classes, self._coding = [], TargetCoding.of(entry)
        else:
            self.classes = required_classes(entry, where=where)
            self._coding = mask_coding(entry, self.classes, where=where)
        self._decoding = decoding_of(entry, self.bands)
        self._members = open_members(options["path"], where=where)
        kind = TARGETS if self.task == PIXEL_REGRESSION else MASKS
        # the endings that the entry lists are those of masks and rasters as well
        kind = replace(kind, endings=options.get("extensions", kind.endings))
        self._pairs = pair_files(self._members, options, kind, where=where)
        start = len(root_of(options))
        names = [pair.image[start:] for pair in self._pairs]
        groups = grouped(names, options.get("group"), where=where)
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
