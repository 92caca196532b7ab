"""Kind ``dota``: images with oriented boxes in DOTA's text format, one file per image, a line per object.

A line is ``x1 y1 x2 y2 x3 y3 x4 y4 class difficult``: corners in pixels from the outer corner of the image, in
order around the box. Lines such as ``imagesource:GoogleEarth`` and ``gsd:0.15`` may precede the objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.options import Text
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.members import Members, open_members
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.common import Rename, renamed
from permafrost.data.sources.corners import four_corners, outline_of
from permafrost.data.sources.image_sets import ImageSets, ListedImages
from permafrost.data.sources.options import Clipped, PairedObjects, Renamed
from permafrost.data.sources.pairing import Companions, Pair, pair_files
from permafrost.data.sources.reading import finite_number, member_size, read_member

LABELS = Companions("labels", "file of labels", ("txt",))
_CORNERS = 8
# first characters of a line with an object
_NUMERIC = "+-.0123456789"


@dataclass(frozen=True, kw_only=True)
class DotaOptions(PairedObjects, ListedImages, Clipped, Renamed):
    """DOTA's text format, a line per object: four corners in pixels, class, and whether it is difficult.
    Difficult objects are neither trained on nor scored.
    """

    images: Text = "<split>/images"
    """Location of the images, as for voc."""
    labels: Text = "<split>/labelTxt"
    """Location of the text files, as in images."""


def open_dota(entry: DatasetEntry, *, where: object) -> ObjectSource:
    """Open a source of images with oriented boxes in a text file of the same name.

    An object marked as difficult is a crowd. A file without objects, which DOTA has, is an image without
    objects.
    """
    options: DotaOptions = entry.source
    members = open_members(options.path, where=where)
    sets = ImageSets.of(members, options, entry.splits, where=where)
    optional = options.missing == "empty"
    pairs = pair_files(members, options, LABELS, optional=optional, known=sets.files, where=where)
    splits = sets.splits_of(pairs, where=where)
    rename = renamed(options.label_values)
    images = [
        _annotated(members, pair, split, rename, entry.convert)
        for pair, split in zip(pairs, splits, strict=True)
        # unlisted images, which the entry permits
        if not sets or split is not None
    ]
    return ObjectSource(entry, members, images, where=where, clip=options.clip_boxes)


def _annotated(
    members: Members, pair: Pair, split: str | None, rename: Rename, convert: Sequence[str]
) -> Annotated:
    name = pair.image
    try:
        size = member_size(members, name, convert)
        if pair.companion is None:
            return Annotated(pair.image, [], size, split)
        name = pair.companion
        found = [
            Found(
                label,
                crowd=one.difficult,
                where=f"{name}: line {one.line}",
                **outline_of(one.corners),
            )
            for one in parse_dota(read_member(members, name))
            if (label := rename(one.name, f"line {one.line}")) is not None
        ]
    except UnreadableImage as failure:
        problems = [f"{name}: {failure}"]
        return Annotated(pair.image, [], split=split, problems=problems, remedy=failure.remedy)
    return Annotated(pair.image, found, size, split)


@dataclass(frozen=True)
class DotaObject:
    """One line: class, whether it is difficult, (4, 2) float64 corners, and its number from 1."""

    name: str
    difficult: bool
    corners: np.ndarray
    line: int


def parse_dota(data: bytes) -> list[DotaObject]:
    """Read a label file; raises `UnreadableImage` for a line that is neither an object nor a header."""
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise UnreadableImage(f"is no text ({error.reason})") from error
    found: list[DotaObject] = []
    for number, line in enumerate(lines, start=1):
        words = line.split()
        # the first lines of a file say where its image is from
        if not words or (not found and ":" in line and words[0][0] not in _NUMERIC):
            continue
        found.append(_object(words, number))
    return found


def _object(words: list[str], number: int) -> DotaObject:
    which = f"line {number}"
    if len(words) not in (_CORNERS + 1, _CORNERS + 2):
        raise UnreadableImage(
            f"{which} has {len(words)} values, not eight coordinates, a class and whether it is difficult",
            remedy="write spaces inside a class as -, as DOTA does",
        )
    numbers = [finite_number(word, which, "among its coordinates") for word in words[:_CORNERS]]
    # versions of DOTA also have a 2
    flag = words[_CORNERS + 1] if len(words) > _CORNERS + 1 else "0"
    if not flag.isdecimal():
        raise UnreadableImage(f"{which} has {flag[:40]!r} for difficult, not 0 or 1")
    return DotaObject(words[_CORNERS], int(flag) > 0, four_corners(numbers, which), number)
