"""Kind ``yolo``: images with labels in YOLO's text format, one file per image."""

from __future__ import annotations

import posixpath

import numpy as np
import yaml

from permafrost.core.errors import PermafrostError
from permafrost.data.decode import UnreadableImage
from permafrost.data.files import Members, open_members
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.corners import outline_of
from permafrost.data.sources.pairing import Companions, Pair, pair_files, root_of
from permafrost.data.sources.reading import member_size, read_member
from permafrost.data.sources.yolo_file import YoloFile, parse_yolo

LABELS = Companions(
    "labels", "file of labels", ("txt",), images="images/<split>", folder="labels/<split>"
)
NAMES = "data.yaml"


def open_yolo(entry: dict, *, where: object) -> ObjectSource:
    """Images whose objects stand in a text file of the same name.

    Options: ``path``; ``root``; ``images`` and ``labels`` (folders or patterns with ``<stem>``, see
    `permafrost.data.sources.pairing`; default images/<split> and labels/<split>); ``names`` (the
    YAML file with the names of the classes; default data.yaml where the entry lists no classes);
    ``missing`` (what an image is whose file is missing or empty: error, or empty for an image without
    objects); ``extensions``, ``other_files``, ``group``, ``clip_boxes``.
    """
    options = entry["source"]
    members = open_members(options["path"], where=where)
    known, classes = _classes(members, entry, where)
    permitted = options.get("missing", "error") == "empty"
    pairs = pair_files(members, options, LABELS, optional=permitted, known=known, where=where)
    problems: list[str] = []
    images = [_annotated(members, pair, classes, permitted, problems) for pair in pairs]
    return ObjectSource(entry, members, images, where=where, classes=classes, problems=problems)


def _annotated(
    members: Members, pair: Pair, classes: list[str], permitted: bool, problems: list[str]
) -> Annotated:
    split = pair.parts.get("split")
    name = pair.image
    try:
        size = member_size(members, pair.image)
        if pair.companion is None:
            return Annotated(pair.image, [], size, split)
        name = pair.companion
        file = parse_yolo(read_member(members, name))
        if not file.lines and not permitted:
            raise UnreadableImage("is empty; set missing: empty for images without objects")
        found = _found(file, name, classes, size)
    except UnreadableImage as failure:
        problems.append(f"{name}: {failure}")
        # a size that is stated is not looked up again
        return Annotated(pair.image, [], (1, 1), split)
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


def _classes(members: Members, entry: dict, where) -> tuple[list[str], list[str]]:
    """(the file of their names, if it is used; the classes in the order of their numbers)."""
    options, declared = entry["source"], entry.get("classes")
    if declared and "names" not in options:
        return [], list(declared)
    path = posixpath.join(root_of(options), options.get("names", NAMES))
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
        # plain data only: no tag of the file makes an object
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
        raise PermafrostError("holds names that are no text", where=where, remedy=remedy)
    names = [str(name) for name in names]
    if len(set(names)) < len(names):
        raise PermafrostError("lists a name twice", where=where, remedy="list each class once")
    return names
