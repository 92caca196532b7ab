"""One annotation file of Pascal VOC: objects with corners, read without trust in the XML.

Only elements and their text are used. A document type is refused, and with it every entity and every
external resource; so is nesting beyond what annotations have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

import numpy as np

from permafrost.data.decode import UnreadableImage

DEEPEST = 32
SIDES = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True)
class VocFile:
    """What one file says, as it stands there.

    Attributes
    ----------
    size : (height, width) of the image, None where the file does not tell.
    names : N names of classes.
    corners : (N, 4) float64 ``xmin, ymin, xmax, ymax``.
    difficult : (N,) bool.
    """

    size: tuple[int, int] | None
    names: list[str]
    corners: np.ndarray
    difficult: np.ndarray


def parse_voc(data: bytes) -> VocFile:
    """Read an annotation file; raises `UnreadableImage` for what is no such file."""
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


def parse_xml(data: bytes) -> Element:
    """The outermost element of a document that declares no type and so has no entities.

    Raises
    ------
    UnreadableImage : it is no XML, declares a type or entities, or is nested too deeply.
    """
    builder, parser, depth = TreeBuilder(), expat.ParserCreate(), 0

    def refuse(*_) -> None:
        raise UnreadableImage("declares a document type or entities, which annotations do not need")

    def start(tag: str, attributes: dict) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise UnreadableImage(f"has elements nested more than {DEEPEST} deep")
        builder.start(tag, attributes)

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = refuse
    try:
        parser.Parse(data, True)
    # an encoding that Python does not have, or has not as one byte per character
    except (expat.ExpatError, LookupError, ValueError) as error:
        raise UnreadableImage(f"is no XML ({error})" if data.strip() else "is empty") from error
    return builder.close()


def _size(root: Element) -> tuple[int, int] | None:
    size = root.find("size")
    if size is None:
        return None
    height, width = (_number(size, side, "<size>") for side in ("height", "width"))
    # tools that do not know the size write 0
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
    text = _text(element, tag, which)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UnreadableImage(f"{which} has {text[:40]!r} for <{tag}>, which is no number")
    return value


def _flag(element: Element, tag: str, which: str) -> bool:
    text = (element.findtext(tag) or "").strip() or "0"
    if text not in ("0", "1"):
        raise UnreadableImage(f"{which} has {text[:40]!r} for <{tag}>, not 0 or 1")
    return text == "1"
