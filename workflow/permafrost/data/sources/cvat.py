"""Kind ``cvat``: images with objects in CVAT's XML ("CVAT for images 1.1"), one file for all images or per split.

Coordinates are pixels from the outer corner of the image. The rotation of a box is in degrees, clockwise on the
screen around its centre.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.markup import parse_xml
from permafrost.data.files.members import Members, open_members
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.common import Rename, renamed
from permafrost.data.sources.corners import masked, outline_of, turned_box
from permafrost.data.sources.options import Clipped, FileOrFiles, ObjectFiles, Renamed
from permafrost.data.sources.places import ImageNames, annotation_bytes, annotation_files
from permafrost.data.sources.reading import finite_number

_ROTATION = "le90-degrees"
#: height and width of an image, if the file states them
_Size = tuple[int, int] | None
#: what an image may have besides shapes; labels of the whole image are not objects
_NO_SHAPES = frozenset({"tag"})


@dataclass(frozen=True, kw_only=True)
class CvatOptions(ObjectFiles, Clipped, Renamed):
    """CVAT's XML for images: boxes, also rotated ones, polygons, masks, and points (point_detection)."""

    annotations: FileOrFiles
    """A file, or a mapping of split names to files; "<path>/" at the beginning stands for the value of
    path. In one file, the subset of an image is its split."""
    other_shapes: Literal["error", "ignore"] = "error"
    """Handling of shapes that the task does not use, such as polylines, or points among boxes."""


def open_cvat(entry: DatasetEntry, *, where: object) -> ObjectSource:
    """Open a source of images with boxes, polygons or points.

    Classes are those that the file declares, in its order. An image without shapes has no objects.
    """
    options: CvatOptions = entry.source
    members = open_members(options.path, where=where)
    places = annotation_files(options.annotations)
    names = ImageNames(members, options.root, splits=places[0][0] is not None, where=where)
    images: list[Annotated] = []
    declared: dict[str, None] = {}
    for split, place in places:
        root = _read(members, place, where)
        declared |= dict.fromkeys(_classes(root))
        reader = _Reader(entry, Path(place).name)
        images += [reader.image(element, split, names) for element in root.iter("image")]
    classes = list(declared) if options.label_values is None else None
    return ObjectSource(
        entry, members, images, where=where, classes=classes, clip=options.clip_boxes
    )


def _read(members: Members, place: str, where: object) -> Element:
    try:
        root = parse_xml(annotation_bytes(members, place, where))
        if root.tag != "annotations":
            raise UnreadableImage(f"has <{root.tag[:40]}> outermost, not <annotations>")
        if root.find("image") is None and root.find("track") is not None:
            raise UnreadableImage("holds the tracks of a video, without names of images")
    except UnreadableImage as failure:
        raise PermafrostError(
            f"{place} {failure}", where=where, remedy='export "CVAT for images 1.1"'
        ) from failure
    return root


def _classes(root: Element) -> list[str]:
    """The declared labels, without those of the points of a skeleton."""
    labels = [label for label in root.iter("label") if label.find("parent") is None]
    return [name for label in labels if (name := (label.findtext("name") or "").strip())]


class _Reader:
    """Reads the images of one file.

    Parameters
    ----------
    name : of the file, for messages.
    """

    def __init__(self, entry: DatasetEntry, name: str) -> None:
        options: CvatOptions = entry.source
        self._shapes = _POINTS if targets_of(entry.task).points else _BOXES
        self._rename: Rename = renamed(options.label_values)
        self._ignore = options.other_shapes == "ignore"
        self._name = name

    def image(self, element: Element, split: str | None, names: ImageNames) -> Annotated:
        name = element.get("name") or ""
        which = f"{self._name}: image {name or element.get('id')}"
        subset = split if split is not None else element.get("subset") or None
        try:
            if not name.strip():
                raise UnreadableImage("it has no name")
            size = _size(element)
            found = list(self._found(element, which, size))
        except UnreadableImage as failure:
            bad = names.image(name.strip() or "?", [], subset, problems=[f"{which}: {failure}"])
            return replace(bad, remedy=failure.remedy)
        return names.image(name, found, subset, size)

    def _found(self, image: Element, which: str, size: _Size) -> Iterator[Found]:
        for number, element in enumerate(image, start=1):
            shape = f"shape {number} ({element.tag[:40]})"
            if element.tag in _NO_SHAPES:
                continue
            if element.tag not in self._shapes:
                if self._ignore:
                    continue
                raise UnreadableImage(
                    f"{shape} is not one of {', '.join(self._shapes)}",
                    remedy="set other_shapes: ignore in source to leave such shapes out",
                )
            label = element.get("label")
            if not label:
                raise UnreadableImage(f"{shape} has no label")
            label = self._rename(label, shape)
            if label is None:
                continue
            for one in self._shapes[element.tag](element, shape, size):
                yield Found(label=label, where=f"{which}: {shape}", **one)


def _size(image: Element) -> tuple[int, int] | None:
    sides = [image.get("height"), image.get("width")]
    if sides == [None, None]:
        return None
    if not all(side is not None and side.isdecimal() and int(side) > 0 for side in sides):
        raise UnreadableImage(f"it has the height and width {sides[0]!r}, {sides[1]!r}")
    return int(str(sides[0])), int(str(sides[1]))


class _Numbers(NamedTuple):
    """The attributes of a shape as numbers."""

    element: Element
    which: str

    def __call__(self, name: str, default: str | None = None) -> float:
        text = self.element.get(name, default)
        if text is None:
            raise UnreadableImage(f"{self.which} has no {name}")
        return finite_number(text, self.which, f"for {name}")


def _box(element: Element, which: str, _size: _Size) -> list[dict]:
    number = _Numbers(element, which)
    x_min, y_min, x_max, y_max = (number(side) for side in ("xtl", "ytl", "xbr", "ybr"))
    rotation = number("rotation", "0")
    if rotation == 0:
        return [{"box": [x_min, y_min, x_max, y_max]}]
    turned = [(x_min + x_max) / 2, (y_min + y_max) / 2, x_max - x_min, y_max - y_min, rotation]
    return [outline_of(turned_box(turned, _ROTATION, which))]


def _points(element: Element, which: str) -> np.ndarray:
    """(P, 2) of the attribute ``points``, ``x,y;x,y``."""
    pairs = [pair.split(",") for pair in (element.get("points") or "").split(";") if pair.strip()]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise UnreadableImage(f"{which} has no points x,y;x,y;…")
    return np.array([[finite_number(v, which, "in points") for v in pair] for pair in pairs])


def _polygon(element: Element, which: str, _size: _Size) -> list[dict]:
    points = _points(element, which)
    if len(points) < 3:
        raise UnreadableImage(f"{which} has {len(points)} points, and a polygon needs three")
    return [outline_of(points)]


def _mask(element: Element, which: str, size: _Size) -> list[dict]:
    """Box, area and pixels of a mask: run lengths row by row, background first, of a box of whole pixels."""
    number = _Numbers(element, which)
    sides = [number(side) for side in ("left", "top", "width", "height")]
    stated = [finite_number(one, which, "in rle") for one in (element.get("rle") or "").split(",")]
    if not all(one.is_integer() for one in (*sides, *stated)):
        raise UnreadableImage(f"{which} has numbers of pixels that are not whole")
    (left, top, width, height), runs = map(int, sides), list(map(int, stated))
    if min(runs) < 0 or sum(runs) != width * height or not sum(runs[1::2]):
        raise UnreadableImage(f"{which} has run lengths that are not a mask of {width} x {height}")
    box = [float(v) for v in (left, top, left + width, top + height)]
    inside = size and min(left, top) >= 0 and left + width <= size[1] and top + height <= size[0]
    if not inside:
        # a mask beyond its image, or without a stated image size, has only its box
        return [{"box": box, "area": float(sum(runs[1::2]))}]
    raster = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape(height, width)
    return [{"box": box, **masked(raster, corner=(left, top), size=size)}]


def _single_points(element: Element, which: str, _size: _Size) -> list[dict]:
    return [{"box": [*point, *point]} for point in _points(element, which).tolist()]


#: element -> its objects
_Shapes = dict[str, Callable[[Element, str, _Size], list[dict]]]
_BOXES: _Shapes = {"box": _box, "polygon": _polygon, "mask": _mask}
_POINTS: _Shapes = {"points": _single_points}
