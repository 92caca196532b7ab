"""XML files of one image's objects: Pascal VOC, roLabelImg, DIOR-R, FAIR1M and HRSC2016.

The XML is untrusted: only elements and their text are used. The outermost element says which of them a file
is (`_DIALECTS`), the elements of an object say which shape it has (`_shape`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

import numpy as np

from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.markup import parse_xml
from permafrost.data.sources.corners import four_corners, turned_box
from permafrost.data.sources.reading import finite_number

SIDES = ("xmin", "ymin", "xmax", "ymax")
#: roLabelImg and HRSC2016: angles are radians, clockwise on the screen, from the x axis to the side w
ANGLE = "le90"
_TURNED = ("cx", "cy", "w", "h", "angle")
#: DIOR-R, in order around the box
_CORNERS = tuple(
    f"{axis}_{corner}"
    for corner in ("left_top", "right_top", "right_bottom", "left_bottom")
    for axis in "xy"
)


@dataclass(frozen=True)
class VocObject:
    """One object: its name, whether it is marked as difficult, and its shape.

    ``corners``: ``xmin, ymin, xmax, ymax`` as the file states them; ``outline``: (P, 2) float64 in pixels from
    the outer corner of the image, four points for an oriented box. One of them is None, except for a
    polygon with a box.
    """

    name: str
    difficult: bool
    corners: list[float] | None
    outline: np.ndarray | None = None


@dataclass(frozen=True)
class VocFile:
    """Unconverted content of one file; ``size``, height and width of the image if the file states them."""

    size: tuple[int, int] | None
    objects: list[VocObject]


def parse_voc(data: bytes) -> VocFile:
    """Read an annotation file; raises `UnreadableImage` if it is not one."""
    root = parse_xml(data)
    if root.tag not in _DIALECTS:
        raise UnreadableImage(
            f"its outermost element is <{root.tag[:40]}>, not <{'> or <'.join(_DIALECTS)}>"
        )
    return _DIALECTS[root.tag](root)


def _pascal(root: Element) -> VocFile:
    elements = [*root.findall("object"), *root.findall("objects/object")]
    return VocFile(
        _size(root.find("size"), ("height", "width")), list(_numbered(elements, _pascal_object))
    )


def _hrsc(root: Element) -> VocFile:
    elements = root.findall("HRSC_Objects/HRSC_Object")
    return VocFile(
        _size(root, ("Img_SizeHeight", "Img_SizeWidth")), list(_numbered(elements, _hrsc_object))
    )


_DIALECTS = {"annotation": _pascal, "HRSC_Image": _hrsc}


def _numbered(elements: list[Element], read) -> Iterator[VocObject]:
    return (read(element, f"object {number}") for number, element in enumerate(elements, start=1))


def _pascal_object(element: Element, which: str) -> VocObject:
    # FAIR1M has the name one level down
    place = "name" if element.find("possibleresult") is None else "possibleresult/name"
    name = _text(element, place, which)
    corners, outline = _shape(element, which)
    return VocObject(name, _flag(element, "difficult", which), corners, outline)


def _hrsc_object(element: Element, which: str) -> VocObject:
    numbers = [_number(element, f"mbox_{part}", which) for part in ("cx", "cy", "w", "h", "ang")]
    outline = turned_box(numbers, ANGLE, which)
    name = _text(element, "Class_ID", which)
    return VocObject(name, _flag(element, "difficult", which), None, outline)


def _shape(element: Element, which: str) -> tuple[list[float] | None, np.ndarray | None]:
    """(box, outline) of an object; an oriented box has precedence over the box around it."""
    turned, polygon = element.find("robndbox"), element.find("polygon")
    box, points = element.find("bndbox"), element.find("points")
    if turned is not None:
        return None, _turned(turned, which)
    if points is not None:
        return None, _fair1m(element, which)
    corners = None if box is None else [_number(box, side, which) for side in SIDES]
    if polygon is not None:
        return corners, _polygon(polygon, which)
    if corners is None:
        raise UnreadableImage(f"{which} has no <bndbox>, <robndbox>, <polygon> or <points>")
    return corners, None


def _turned(box: Element, which: str) -> np.ndarray:
    if box.find(_CORNERS[0]) is not None:
        return four_corners([_number(box, tag, which) for tag in _CORNERS], which)
    return turned_box([_number(box, tag, which) for tag in _TURNED], ANGLE, which)


def _fair1m(element: Element, which: str) -> np.ndarray:
    kind = (element.findtext("coordinate") or "pixel").strip()
    if kind != "pixel":
        raise UnreadableImage(f"{which} has coordinates of the kind {kind[:40]!r}, not pixel")
    listed = [(point.text or "").split(",") for point in element.findall("points/point")]
    if any(len(pair) != 2 for pair in listed):
        raise UnreadableImage(f"{which} has a <point> that is not x,y")
    return _outline(
        [[finite_number(word, which, "for <point>") for word in pair] for pair in listed], which
    )


def _polygon(element: Element, which: str) -> np.ndarray:
    """Points as ``<x1>…</x1><y1>…``, or as ``<pt><x>…</x><y>…</y></pt>``."""
    listed = [*element.findall("pt"), *element.findall("point")]
    if listed:
        points = [[_number(point, axis, which) for axis in "xy"] for point in listed]
    else:
        count = sum(child.tag.startswith("x") for child in element)
        points = [
            [_number(element, f"{axis}{number}", which) for axis in "xy"]
            for number in range(1, count + 1)
        ]
    return _outline(points, which)


def _outline(points: list[list[float]], which: str) -> np.ndarray:
    if len(points) < 3:
        raise UnreadableImage(f"{which} has an outline of {len(points)} points, and needs three")
    return np.array(points, np.float64)


def _size(parent: Element | None, sides: tuple[str, str]) -> tuple[int, int] | None:
    if parent is None or (parent.tag != "size" and parent.find(sides[0]) is None):
        return None
    where = f"<{parent.tag}>"
    height, width = (_number(parent, side, where) for side in sides)
    # tools write 0 for an unknown size
    if height == width == 0:
        return None
    if min(height, width) < 1 or height != int(height) or width != int(width):
        raise UnreadableImage(f"its {where} is {height:g} x {width:g} pixels")
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
