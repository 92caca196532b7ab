"""Kind ``coco``: images with objects listed in COCO's JSON."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.data.files import Members, open_members
from permafrost.data.sources.annotated import ObjectSource
from permafrost.data.sources.coco_file import CocoFile, parse_coco
from permafrost.data.sources.places import ImageNames, annotation_bytes, annotation_files


def open_coco(entry: dict, *, where: object) -> ObjectSource:
    """Images and their objects, boxes with or without polygons.

    Options: ``path`` (directory or archive of the images); ``root`` (folder in it that file names are
    relative to; ``<split>`` in it stands for the name of the split); ``annotations`` (a JSON file, or a
    mapping of names of splits to files; a name that begins with ``<path>/`` lies inside ``path``);
    ``group``, ``clip_boxes``, see `ObjectSource`.

    Classes are the categories in the order of their ids. Crowds (``iscrowd``) and what is marked
    ``ignore`` are regions that are neither learned nor scored. An image without annotations is one
    without objects.
    """
    options = entry["source"]
    members = open_members(options["path"], where=where)
    places = annotation_files(options["annotations"])
    names = ImageNames(members, options, splits=places[0][0] is not None, where=where)
    images, problems, classes = [], [], None
    for split, place in places:
        file = _read(members, place, where)
        problems += file.problems
        classes = _same_classes(classes, file, place, where)
        images += [
            names.image(image.file_name, image.found, split, image.size)
            for image in file.images.values()
        ]
    return ObjectSource(entry, members, images, where=where, classes=classes, problems=problems)


def _read(members: Members, place: str, where: object) -> CocoFile:
    try:
        return parse_coco(annotation_bytes(members, place, where), Path(place).name)
    except ValueError as error:
        raise PermafrostError(
            f"{place} {error}",
            where=where,
            remedy="give annotations in COCO's JSON: images, categories, annotations",
        ) from error


def _same_classes(known: list[str] | None, file: CocoFile, place: str, where: object) -> list[str]:
    """The categories in the order of their ids, which must be those of the files before."""
    try:
        classes = [file.categories[number] for number in sorted(file.categories)]
    except TypeError as error:
        raise PermafrostError(
            f"{place}: some ids of categories are numbers and some are text",
            where=where,
            remedy="use numbers",
        ) from error
    if known is not None and known != classes:
        raise PermafrostError(
            f"{place} has other categories than the file before:"
            f" {', '.join(classes[:20])}, not {', '.join(known[:20])}",
            where=where,
            remedy="give all files the same categories in the same order",
        )
    return classes
