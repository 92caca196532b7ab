"""Kind ``voc``: images with annotations in Pascal VOC's XML or a relative of it, one file per image."""

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
from permafrost.data.sources.corners import box_edges, outline_of
from permafrost.data.sources.image_sets import ImageSets, ListedImages
from permafrost.data.sources.options import Clipped, Corners, PairedObjects, Renamed
from permafrost.data.sources.pairing import Companions, Pair, pair_files
from permafrost.data.sources.reading import member_size, read_member
from permafrost.data.sources.voc_files import VocObject, parse_voc

ANNOTATIONS = Companions("annotations", "file of annotations", ("xml",))


@dataclass(frozen=True, kw_only=True)
class VocOptions(PairedObjects, ListedImages, Clipped, Renamed):
    """An XML file of objects per image: Pascal VOC's boxes and polygons, and the oriented boxes of
    roLabelImg, DIOR-R, FAIR1M and HRSC2016. Difficult objects are neither trained on nor scored.
    """

    images: Text = "JPEGImages"
    """Location of the images: a folder, or a pattern of file names with <stem>, such as
    "<split>/<stem>.jpg". An image and its annotation file have the same text for each part in <…>;
    <split> is the split, and {a,b} is a or b."""
    annotations: Text = "Annotations"
    """Location of the XML files, as in images."""
    corners: Corners = "one_based"
    """Meaning of xmin, ymin, xmax, ymax. one_based: numbers of the first and last pixels of a box,
    counted from 1, as in Pascal VOC; zero_based: counted from 0; edges: distances from the outer
    corner of the image. Polygons and oriented boxes are always such distances."""


def open_voc(entry: DatasetEntry, *, where: object) -> ObjectSource:
    """Open a source of images with objects in an XML file of the same name.

    An object marked as difficult is a crowd: neither trained on nor scored.
    """
    options: VocOptions = entry.source
    members = open_members(options.path, where=where)
    sets = ImageSets.of(members, options, entry.splits, where=where)
    pairs = pair_files(
        members,
        options,
        ANNOTATIONS,
        optional=options.missing == "empty",
        known=sets.files,
        where=where,
    )
    splits = sets.splits_of(pairs, where=where)
    rename = renamed(options.label_values)
    images = [
        _annotated(members, pair, split, options.corners, rename, entry.convert)
        for pair, split in zip(pairs, splits, strict=True)
        # unlisted images, which the entry permits
        if not sets or split is not None
    ]
    return ObjectSource(entry, members, images, where=where, clip=options.clip_boxes)


def _annotated(
    members: Members,
    pair: Pair,
    split: str | None,
    corners: str,
    rename: Rename,
    convert: Sequence[str],
) -> Annotated:
    name = pair.image
    try:
        size = member_size(members, name, convert)
        if pair.companion is None:
            return Annotated(pair.image, [], size, split)
        name = pair.companion
        file = parse_voc(read_member(members, name))
        if file.size not in (None, size):
            raise UnreadableImage(
                f"is for an image of {_shown(file.size)} pixels, but {pair.image} has {_shown(size)}"
            )
        found = [
            Found(
                label, crowd=one.difficult, where=f"{name}: object {number}", **_shape(one, corners)
            )
            for number, one in enumerate(file.objects, start=1)
            if (label := rename(one.name, f"object {number}")) is not None
        ]
    except UnreadableImage as failure:
        problems = [f"{name}: {failure}"]
        return Annotated(pair.image, [], split=split, problems=problems, remedy=failure.remedy)
    return Annotated(pair.image, found, size, split)


def _shape(one: VocObject, corners: str) -> dict:
    """Box, area and polygon; the box that a file states around a polygon counts."""
    shape = {} if one.outline is None else outline_of(one.outline)
    if one.corners is not None:
        shape["box"] = box_edges(np.array(one.corners), corners).tolist()
    return shape


def _shown(size: tuple[int, int]) -> str:
    return f"{size[1]} x {size[0]}"
