"""Kind ``coco``: images with objects in COCO's JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import unique_keys
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.members import Members, open_members
from permafrost.data.labels.rle import runs_box, runs_of, text_of
from permafrost.data.sources.annotated import Found, ObjectSource
from permafrost.data.sources.options import Clipped, FileOrFiles, ObjectFiles
from permafrost.data.sources.places import ImageNames, annotation_bytes, annotation_files


@dataclass(frozen=True, kw_only=True)
class CocoOptions(ObjectFiles, Clipped):
    """Annotations in COCO's JSON. Crowds (iscrowd) and objects marked ignore are neither trained on nor scored."""

    annotations: FileOrFiles
    """A file, or a mapping of split names to files; "<path>/" at the beginning stands for the value of path."""


def open_coco(entry: DatasetEntry, *, where: object) -> ObjectSource:
    """Open a source of images with boxes, with or without polygons.

    Classes are the categories in the order of their ids. Crowds (``iscrowd``) and objects marked
    ``ignore`` are regions that are neither trained on nor scored. An image without annotations has
    no objects.
    """
    options: CocoOptions = entry.source
    members = open_members(options.path, where=where)
    places = annotation_files(options.annotations)
    names = ImageNames(members, options.root, splits=places[0][0] is not None, where=where)
    images, problems, classes = [], [], None
    for split, place in places:
        file = _read(members, place, where)
        problems += file.problems
        classes = _same_classes(classes, file, place, where)
        images += [
            names.image(image.file_name, image.found, split, image.size, problems=image.problems)
            for image in file.images.values()
        ]
    return ObjectSource(
        entry,
        members,
        images,
        where=where,
        classes=classes,
        clip=options.clip_boxes,
        problems=problems,
    )


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
    """The categories in the order of their ids; they must equal those of earlier files."""
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


_NO_ID = "has no id that is a whole number or text"


@dataclass
class CocoImage:
    """An image of the file with its valid objects in order, and errors in the others."""

    file_name: str
    size: tuple[int, int] | None
    found: list[Found] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass
class CocoFile:
    """Content of a file.

    ``images`` by their ids in the order of the file; ``categories``, id to name; ``problems``, one
    sentence for every invalid entry that belongs to no image.
    """

    images: dict[object, CocoImage]
    categories: dict[Any, str]
    problems: list[str]


def parse_coco(data: bytes, name: str) -> CocoFile:
    """Read a file of annotations.

    Parameters
    ----------
    name : of the file, for messages.

    Raises
    ------
    ValueError : it is not JSON, or not in COCO's format.
    """
    try:
        content = json.loads(data.decode("utf-8-sig"), object_pairs_hook=unique_keys)
    # the last one: nested too deeply
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"is not valid JSON ({error})" if data.strip() else "is empty") from error
    if not isinstance(content, dict):
        raise ValueError("holds no object with images, categories and annotations")
    for key in ("images", "categories", "annotations"):
        if not isinstance(content.get(key), list):
            raise ValueError(f"holds no list {key!r}")
        if not all(isinstance(item, dict) for item in content[key]):
            raise ValueError(f"holds something in {key!r} that is no object")
    file = CocoFile({}, {}, [])
    _read_images(file, content["images"], name)
    _read_categories(file, content["categories"], name)
    _read_annotations(file, content["annotations"], name)
    return file


def _read_images(file: CocoFile, items: list[dict], name: str) -> None:
    for item in items:
        which = f"{name}: image {item.get('id')!r}"
        sides = [item.get("height"), item.get("width")]
        if not _is_id(item.get("id")):
            file.problems.append(f"{which} {_NO_ID}")
        elif item["id"] in file.images:
            file.problems.append(f"{which} is listed twice")
        elif not isinstance(item.get("file_name"), str) or not item["file_name"].strip():
            file.problems.append(f"{which} has no file_name")
        elif sides != [None, None] and not all(_is_side(side) for side in sides):
            file.problems.append(f"{which} has the height and width {sides[0]!r}, {sides[1]!r}")
        else:
            size = None if sides == [None, None] else (int(sides[0]), int(sides[1]))
            file.images[item["id"]] = CocoImage(item["file_name"], size)


def _read_categories(file: CocoFile, items: list[dict], name: str) -> None:
    for item in items:
        which = f"{name}: category {item.get('id')!r}"
        if not _is_id(item.get("id")):
            file.problems.append(f"{which} {_NO_ID}")
        elif item["id"] in file.categories:
            file.problems.append(f"{which} is listed twice")
        elif not isinstance(item.get("name"), str) or not item["name"].strip():
            file.problems.append(f"{which} has no name")
        elif item["name"] in file.categories.values():
            file.problems.append(f"{which} has the name of another category, {item['name']!r}")
        else:
            file.categories[item["id"]] = item["name"]


def _read_annotations(file: CocoFile, items: list[dict], name: str) -> None:
    seen = set()
    for item in items:
        which = f"{name}: annotation {item.get('id')!r}"
        image, category = item.get("image_id"), item.get("category_id")
        problem = None
        if not _is_id(item.get("id")):
            problem = _NO_ID
        elif item["id"] in seen:
            problem = "is listed twice"
        elif not _is_id(image) or image not in file.images:
            problem = f"is of the image {image!r}, which is not listed"
        elif not _is_id(category) or category not in file.categories:
            problem = f"is of the category {category!r}, which is not listed"
        else:
            seen.add(item["id"])
            try:
                found = _found(item, file.categories[category], which, file.images[image].size)
                file.images[image].found.append(found)
            except ValueError as error:
                problem = str(error)
        if problem:
            known = _is_id(image) and image in file.images
            own = file.images[image].problems if known else file.problems
            own.append(f"{which} {problem}")


def _found(item: dict, label: str, which: str, size: tuple[int, int] | None) -> Found:
    """One object; raises `ValueError` if it is invalid."""
    crowd = item.get("iscrowd", 0)
    ignored = item.get("ignore", 0)
    if crowd not in (0, 1) or ignored not in (0, 1):
        raise ValueError(f"has iscrowd {crowd!r} and ignore {ignored!r}, which are 0 or 1")
    rings, mask, box, area = _shape(item.get("segmentation"), size)
    if item.get("bbox") is not None:
        box = _corners(item["bbox"])
    if box is None:
        raise ValueError("has neither a bbox nor a segmentation")
    if item.get("area") is not None:
        area = _number(item["area"])
        if not area >= 0 or math.isinf(area):
            raise ValueError(f"has the area {item['area']!r}")
    return Found(label, box, which, area, bool(crowd or ignored), rings, mask)


def _corners(bbox) -> list[float]:
    if not isinstance(bbox, list) or len(bbox) != 4:
        raise ValueError(f"has the bbox {str(bbox)[:80]}, which is not [x, y, width, height]")
    x, y, width, height = map(_number, bbox)
    return [x, y, x + width, y + height]


def _shape(
    segmentation, size
) -> tuple[list[list[float]] | None, str | None, list[float] | None, float | None]:
    """Rings, mask, box and area of a segmentation; mask and area for run lengths only, rings for polygons only."""
    if segmentation is None or segmentation == []:
        return None, None, None, None
    if isinstance(segmentation, dict):
        return None, *_from_runs(segmentation, size)
    if not isinstance(segmentation, list):
        raise ValueError("has a segmentation that is neither polygons nor run lengths")
    rings = []
    for ring in segmentation:
        numbers = [_number(value) for value in ring] if isinstance(ring, list) else []
        if len(numbers) < 6 or len(numbers) % 2 or not all(map(math.isfinite, numbers)):
            raise ValueError("has a polygon with fewer than three corners (x, y each)")
        rings.append(numbers)
    x = [value for ring in rings for value in ring[::2]]
    y = [value for ring in rings for value in ring[1::2]]
    return rings, None, [min(x), min(y), max(x), max(y)], None


def _from_runs(segmentation: dict, image: tuple[int, int] | None) -> tuple[str, list[float], float]:
    size, counts = segmentation.get("size"), segmentation.get("counts")
    if not isinstance(size, list) or len(size) != 2 or not all(map(_is_side, size)):
        raise ValueError(f"has run lengths of the size {size!r}, which is not [height, width]")
    if image is not None and tuple(size) != image:
        raise ValueError(
            f"has a mask of {size[1]} x {size[0]} pixels, its image {image[1]} x {image[0]}"
        )
    if not isinstance(counts, list | str):
        raise ValueError("has run lengths without counts")
    runs = runs_of(counts) if isinstance(counts, str) else counts
    found = runs_box(runs, *map(int, size))
    if found is None:
        raise ValueError("has a mask without foreground")
    return text_of(runs), *found


def _number(value) -> float:
    """A number as float; NaN for other values, which the box checks report."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_side(value) -> bool:
    number = _number(value)
    return math.isfinite(number) and number >= 1 and number == int(number)


def _is_id(value) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)
