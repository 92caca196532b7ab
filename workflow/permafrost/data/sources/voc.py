"""Kind ``voc``: images with annotations in Pascal VOC's XML, one file per image.

The XML is untrusted: only elements and their text are used. A document type is refused, and with it
all entities and external resources; so is deeper nesting than annotations have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.options import Text
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.markup import parse_xml
from permafrost.data.files.members import Members, open_members
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.corners import box_edges
from permafrost.data.sources.image_sets import ImageSets, ListedImages
from permafrost.data.sources.options import Clipped, Corners, PairedObjects
from permafrost.data.sources.pairing import Companions, Pair, pair_files
from permafrost.data.sources.reading import finite_number, member_size, read_member

SIDES = ("xmin", "ymin", "xmax", "ymax")
ANNOTATIONS = Companions("annotations", "file of annotations", ("xml",))


@dataclass(frozen=True, kw_only=True)
class VocOptions(PairedObjects, ListedImages, Clipped):
    """Pascal VOC, an XML file of boxes per image. Difficult objects are neither trained on nor scored."""

    images: Text = "JPEGImages"
    """Location of the images: a folder, or a pattern of file names with <stem>, such as
    "<split>/<stem>.jpg". An image and its annotation file have the same text for each part in <…>;
    <split> is the split."""
    annotations: Text = "Annotations"
    """Location of the XML files, as in images."""
    corners: Corners = "one_based"
    """Meaning of xmin, ymin, xmax, ymax. one_based: numbers of the first and last pixels of a box,
    counted from 1, as in Pascal VOC; zero_based: counted from 0; edges: distances from the outer
    corner of the image."""


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
    if sets and any("split" in pair.parts for pair in pairs):
        raise PermafrostError(
            "both image_sets and <split> in images name the splits",
            where=where,
            remedy="use one of them",
        )
    splits = [pair.parts.get("split") for pair in pairs]
    if sets:
        splits = sets.divide([pair.parts["stem"] for pair in pairs], where=where)
    images = [
        _annotated(members, pair, split, options.corners, entry.convert)
        for pair, split in zip(pairs, splits, strict=True)
        # unlisted images, which the entry permits
        if not sets or split is not None
    ]
    return ObjectSource(entry, members, images, where=where, clip=options.clip_boxes)


def _annotated(
    members: Members, pair: Pair, split: str | None, corners: str, convert: Sequence[str]
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
    except UnreadableImage as failure:
        return Annotated(pair.image, [], split=split, problems=[f"{name}: {failure}"])
    boxes = box_edges(file.corners, corners).tolist()
    found = [
        Found(name, box, f"{pair.companion}: object {number}", crowd=difficult)
        for number, (name, box, difficult) in enumerate(
            zip(file.names, boxes, file.difficult.tolist(), strict=True), start=1
        )
    ]
    return Annotated(pair.image, found, size, split)


def _shown(size: tuple[int, int]) -> str:
    return f"{size[1]} x {size[0]}"


@dataclass(frozen=True)
class VocFile:
    """Unconverted content of one file.

    Attributes
    ----------
    size : (height, width) of the image, None if the file does not state it.
    names : N names of classes.
    corners : (N, 4) float64 ``xmin, ymin, xmax, ymax``.
    difficult : (N,) bool.
    """

    size: tuple[int, int] | None
    names: list[str]
    corners: np.ndarray
    difficult: np.ndarray


def parse_voc(data: bytes) -> VocFile:
    """Read an annotation file; raises `UnreadableImage` if it is not one."""
    root = parse_xml(data)
    if root.tag != "annotation":
        raise UnreadableImage(f"its outermost element is <{root.tag[:40]}>, not <annotation>")
    names, corners, difficult = [], [], []
    for number, element in enumerate(root.findall("object"), start=1):
        which = f"object {number}"
        names.append(_text(element, "name", which))
        box = element.find("bndbox")
        if box is None:
            raise UnreadableImage(f"{which} has no <bndbox>")
        corners.append([_number(box, side, which) for side in SIDES])
        difficult.append(_flag(element, "difficult", which))
    return VocFile(
        _size(root),
        names,
        np.array(corners, np.float64).reshape(-1, 4),
        np.array(difficult, bool),
    )


def _size(root: Element) -> tuple[int, int] | None:
    size = root.find("size")
    if size is None:
        return None
    height, width = (_number(size, side, "<size>") for side in ("height", "width"))
    # tools write 0 for an unknown size
    if height == width == 0:
        return None
    if min(height, width) < 1 or height != int(height) or width != int(width):
        raise UnreadableImage(f"its <size> is {height:g} x {width:g} pixels")
    return int(height), int(width)


def _text(element: Element, tag: str, which: str) -> str:
    text = (element.findtext(tag) or "").strip()
    if not text:
        raise UnreadableImage(f"{which} has no <{tag}>")
    return text


def _number(element: Element, tag: str, which: str) -> float:
    return finite_number(_text(element, tag, which), which, f"for <{tag}>")


def _flag(element: Element, tag: str, which: str) -> bool:
    text = (element.findtext(tag) or "").strip() or "0"
    if text not in ("0", "1"):
        raise UnreadableImage(f"{which} has {text[:40]!r} for <{tag}>, not 0 or 1")
    return text == "1"
