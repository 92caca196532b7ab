"""Kind ``yolo``: images with labels in YOLO's text format, one file per image, a line per object.

Numbers are shares of the image's width and height. ``class cx cy w h`` is a box by its centre and
size; ``class x1 y1 x2 y2 x3 y3 …`` a polygon, or a rotated box by its four corners. The number of
values distinguishes them.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import yaml

from permafrost.core.errors import PermafrostError
from permafrost.core.options import LeftOut, Text
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.members import Members, folder_prefix, open_members
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.corners import outline_of
from permafrost.data.sources.options import Clipped, PairedObjects
from permafrost.data.sources.pairing import Companions, Pair, pair_files
from permafrost.data.sources.reading import member_size, read_member

#: tolerance: numbers have six decimals, and an edge is the sum of two of them
ROUNDING = 1e-5
#: how far an outline may reach beyond its image, in shares, where it may: cut oriented boxes do; numbers of
#: pixels are larger
REACH = 1.0
#: limit far above real class numbers
MOST = 2**31
LABELS = Companions("labels", "file of labels", ("txt",))
#: file with class names, if the entry lists none
NAMES = "data.yaml"


@dataclass(frozen=True, kw_only=True)
class YoloOptions(PairedObjects, Clipped):
    """YOLO's text format, a line per object: class, centre and size, or class and the corners of a polygon, in shares
    of the image's width and height.
    """

    images: Text = "images/<split>"
    """Location of the images, as for voc."""
    labels: Text = "labels/<split>"
    """Location of the text files, as in images."""
    names: LeftOut[Text] = None
    """The YAML file with the class names. Default is data.yaml if the entry lists no classes."""


def open_yolo(entry: DatasetEntry, *, where: object) -> ObjectSource:
    """Open a source of images with objects in a text file of the same name."""
    options: YoloOptions = entry.source
    members = open_members(options.path, where=where)
    known, classes = _classes(members, entry, where)
    permitted = options.missing == "empty"
    pairs = pair_files(members, options, LABELS, optional=permitted, known=known, where=where)
    images = [
        _annotated(members, pair, classes, permitted, options.clip_boxes, entry.convert)
        for pair in pairs
    ]
    return ObjectSource(
        entry,
        members,
        images,
        where=where,
        classes=classes,
        clip=options.clip_boxes,
    )


def _annotated(
    members: Members,
    pair: Pair,
    classes: list[str],
    permitted: bool,
    clip: bool,
    convert: Sequence[str],
) -> Annotated:
    split = pair.parts.get("split")
    name = pair.image
    try:
        size = member_size(members, pair.image, convert)
        if pair.companion is None:
            return Annotated(pair.image, [], size, split)
        name = pair.companion
        file = parse_yolo(read_member(members, name), beyond=clip)
        if not file.lines and not permitted:
            raise UnreadableImage("is empty; set missing: empty for images without objects")
        found = _found(file, name, classes, size)
    except UnreadableImage as failure:
        problems = [f"{name}: {failure}"]
        return Annotated(pair.image, [], split=split, problems=problems, remedy=failure.remedy)
    return Annotated(pair.image, found, size, split)


def _found(file: YoloFile, name: str, classes: list[str], size: tuple[int, int]) -> list[Found]:
    """The objects of a file in pixels of an image of (height, width)."""
    strange = [
        f"line {line} names class {number}"
        for number, line in zip(file.classes.tolist(), file.lines, strict=True)
        if number >= len(classes)
    ]
    if strange:
        raise UnreadableImage(f"{'; '.join(strange[:5])}, but there are {len(classes)} classes")
    scale = np.array([size[1], size[0]], np.float64)
    boxes = (file.boxes * np.tile(scale, 2)).tolist()
    shapes = [
        {"box": box} if polygon is None else outline_of(polygon * scale)
        for box, polygon in zip(boxes, file.polygons, strict=True)
    ]
    return [
        Found(label=classes[number], where=f"{name}: line {line}", **shape)
        for number, line, shape in zip(file.classes.tolist(), file.lines, shapes, strict=True)
    ]


def _classes(members: Members, entry: DatasetEntry, where) -> tuple[list[str], list[str]]:
    """(the file of class names, if used; the classes in the order of their numbers)."""
    options, declared = entry.source, entry.classes
    if declared and options.names is None:
        return [], list(declared)
    path = posixpath.join(folder_prefix(options.root), options.names or NAMES)
    if path not in members.names:
        raise PermafrostError(
            f"{members.place} holds no {path}, which names the classes",
            where=where,
            remedy="list classes in the entry in the order of their numbers, or name the file with"
            " names in source",
        )
    names = _names(read_member(members, path), f"{where}: {members.place}/{path}")
    if declared and list(declared) != names:
        raise PermafrostError(
            f"classes differs from {path}, which lists {', '.join(names[:20])}",
            where=where,
            remedy="remove classes or names; the numbers in labels follow one list",
        )
    return [path], names


def _names(data: bytes, where) -> list[str]:
    """``names`` of a data.yaml: a list, or a mapping of all numbers from 0 to names."""
    remedy = "give names: [first, second, …] or names: {0: first, 1: second, …}"
    try:
        # safe loader: tags in the file create no objects
        content = yaml.safe_load(data.decode("utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        message = " ".join(str(error).split())[:200]
        raise PermafrostError(
            f"cannot be read as YAML ({message})", where=where, remedy="correct the file"
        ) from error
    names = content.get("names") if isinstance(content, dict) else None
    if isinstance(names, dict):
        numbers = list(names)
        if not all(type(number) is int for number in numbers) or sorted(numbers) != list(
            range(len(numbers))
        ):
            raise PermafrostError(
                "names does not number the classes from 0 on", where=where, remedy=remedy
            )
        names = [names[number] for number in range(len(numbers))]
    if not isinstance(names, list) or not names:
        raise PermafrostError("holds no list of names", where=where, remedy=remedy)
    if not all(isinstance(name, str | int) and str(name).strip() for name in names):
        raise PermafrostError("holds names that are not text", where=where, remedy=remedy)
    names = [str(name) for name in names]
    if len(set(names)) < len(names):
        raise PermafrostError("lists a name twice", where=where, remedy="list each class once")
    return names


@dataclass(frozen=True)
class YoloFile:
    """Content of one file.

    Attributes
    ----------
    classes : (N,) int64 ids.
    boxes : (N, 4) float64 ``x_min, y_min, x_max, y_max`` in shares of width and height; they may
        exceed [0, 1], because centre and size do not limit the edges.
    polygons : N arrays (P, 2) of the same, None for a box.
    lines : N numbers of the lines, from 1.
    """

    classes: np.ndarray
    boxes: np.ndarray
    polygons: list[np.ndarray | None]
    lines: list[int]


def parse_yolo(data: bytes, *, beyond: bool = False) -> YoloFile:
    """Read a label file; one without lines holds no objects.

    Parameters
    ----------
    beyond : whether outlines may reach beyond their image, see `REACH`.

    Raises
    ------
    UnreadableImage : a line is not an object, or has numbers that are not shares.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableImage(f"is no text ({error.reason})") from error
    found = [
        (number, *_object(line.split(), f"line {number}", beyond))
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    return YoloFile(
        np.array([each[1] for each in found], np.int64),
        np.array([each[2] for each in found], np.float64).reshape(-1, 4),
        [each[3] for each in found],
        [each[0] for each in found],
    )


def _object(
    words: list[str], which: str, beyond: bool
) -> tuple[int, list[float], np.ndarray | None]:
    """(class, box, polygon or None) of the words of one line."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = [math.nan]
    if not all(map(math.isfinite, values)):
        raise UnreadableImage(f"{which} holds something that is no number")
    category, *values = values
    if category != int(category) or not 0 <= category < MOST:
        raise UnreadableImage(f"{which} begins with {words[0]}, which is no number of a class")
    if len(values) != 4 and (len(values) < 6 or len(values) % 2):
        raise UnreadableImage(
            f"{which} has {len(words)} values: neither class, cx, cy, w, h nor a class and the"
            " corners of a polygon"
        )
    slack = REACH if beyond and len(values) > 4 else ROUNDING
    if min(values) < -slack or max(values) > 1 + slack:
        raise UnreadableImage(
            f"{which} holds values from {min(values):g} to {max(values):g}, but shares of the image's"
            " width and height lie in [0, 1]",
            remedy="set clip_boxes: true in source for outlines that reach beyond their image"
            if len(values) > 4 and not beyond and min(values) >= -REACH and max(values) <= 1 + REACH
            else None,
        )
    if len(values) == 4:
        cx, cy, width, height = values
        box, polygon = [cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2], None
    else:
        polygon = _on_edges(values).reshape(-1, 2)
        box = [*polygon.min(axis=0).tolist(), *polygon.max(axis=0).tolist()]
    return int(category), _on_edges(box), polygon


def _on_edges(shares):
    """Shares; those within rounding of an edge of the image are moved to it."""
    shares = np.asarray(shares)
    clipped = np.clip(shares, 0, 1)
    return np.where(np.abs(shares - clipped) <= ROUNDING, clipped, shares)
