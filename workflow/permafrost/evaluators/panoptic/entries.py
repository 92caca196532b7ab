"""The JSON part of COCO's panoptic format: categories, images, and the segments of each image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.inputs.parsing import load

VOID = 0
ID_LIMIT = 256**3


@dataclass(frozen=True)
class Categories:
    """The C categories of the truth: ids, unique names, and whether each is a thing."""

    ids: tuple[int, ...]
    names: tuple[str, ...]
    things: np.ndarray

    def place(self, entry: dict, where: str) -> int:
        """Index of the category of an entry's ``category_id``.

        Raises
        ------
        PermafrostError : a missing or unknown ``category_id``.
        """
        found = _integer(entry, "category_id", where)
        if found not in self._places:
            raise PermafrostError(
                f"there is no category {found}",
                where=where,
                remedy="categories come from the truth; correct the id, or add the category there",
            )
        return self._places[found]

    @cached_property
    def _places(self) -> dict[int, int]:
        return {category: place for place, category in enumerate(self.ids)}


@dataclass(frozen=True)
class Segments:
    """The S segments of an image, in the order of the file.

    Attributes
    ----------
    ids : (S,) int64, values in the label map; category : (S,) indices in `Categories`.
    crowd : (S,) bool; area : (S,) areas in the JSON, NaN if missing.
    """

    ids: np.ndarray
    category: np.ndarray
    crowd: np.ndarray
    area: np.ndarray


@dataclass(frozen=True)
class Entry:
    """The JSON entry of one image; `size` is (H, W), None if missing."""

    image: object
    file_name: str | None
    size: tuple[int, int] | None
    segments: Segments
    where: str


def read_truth(document) -> tuple[Categories, list[Entry]]:
    """Categories and images of the truth, in the order of its annotations.

    Parameters
    ----------
    document : path of a JSON file, or its parsed content.

    Raises
    ------
    PermafrostError : a missing or invalid field, a duplicate id, an unknown category or image, an
        image without an annotation.
    """
    content, where = load(document, "truth")
    if not isinstance(content, dict):
        raise PermafrostError(
            "the truth is not a JSON object with categories, images and annotations", where=where
        )
    categories = _categories(_listed(content, "categories", where), where)
    sizes = _sizes(_listed(content, "images", where), where)
    entries = _entries(_listed(content, "annotations", where), categories, sizes, where)
    if missing := [image for image in sizes if image not in entries]:
        raise PermafrostError(
            f"{len(missing)} images have no annotation, for example {missing[0]!r}",
            where=where,
            remedy="an image without segments has an annotation with an empty segments_info",
        )
    if not entries:
        raise PermafrostError("there are no images", where=where, remedy="give at least one")
    return categories, list(entries.values())


def read_predictions(document, categories: Categories, truth: list[Entry]) -> list[Entry]:
    """The predictions for the images of `truth`, in its order.

    Raises
    ------
    PermafrostError : as in `read_truth`; an image without a prediction, or one that is not in the
        truth.
    """
    content, where = load(document, "predictions")
    listed = content if isinstance(content, list) else None
    if isinstance(content, dict):
        listed = _listed(content, "annotations", where)
    if listed is None:
        raise PermafrostError("the predictions are no JSON object with annotations", where=where)
    sizes = {entry.image: entry.size for entry in truth}
    entries = _entries(listed, categories, sizes, where)
    if missing := [entry.image for entry in truth if entry.image not in entries]:
        raise PermafrostError(
            f"{len(missing)} images of the truth have no prediction, for example {missing[0]!r}",
            where=where,
            remedy="for an image without segments, add an annotation with an empty segments_info",
        )
    return [entries[entry.image] for entry in truth]


def _categories(listed: list, where: str) -> Categories:
    ids, names, things = [], [], []
    for place in _each(listed, "categories", where):
        entry, here = place
        ids.append(_integer(entry, "id", here))
        names.append(entry.get("name"))
        if not isinstance(names[-1], str) or not names[-1]:
            raise PermafrostError("the category has no name", where=here)
        things.append(_flag(entry, "isthing", here))
    for what, values in (("id", ids), ("name", names)):
        _check_unique(values, f"the category {what}", where)
    if not ids:
        raise PermafrostError("there are no categories", where=where)
    return Categories(tuple(ids), tuple(names), np.array(things, bool))


def _sizes(listed: list, where: str) -> dict:
    sizes: dict = {}
    for entry, here in _each(listed, "images", where):
        image = _image(entry, "id", here)
        _check_new(image, sizes, here)
        size = None
        if "height" in entry or "width" in entry:
            size = tuple(_integer(entry, side, here, least=1) for side in ("height", "width"))
        sizes[image] = size
    return sizes


def _entries(listed: list, categories: Categories, sizes: dict, where: str) -> dict:
    entries: dict = {}
    for entry, here in _each(listed, "annotations", where):
        image = _image(entry, "image_id", here)
        if image not in sizes:
            raise PermafrostError(
                f"the image {image!r} is not in the truth", where=here, remedy="leave it out"
            )
        _check_new(image, entries, here)
        name = entry.get("file_name")
        segments = _segments(_listed(entry, "segments_info", here), categories, here)
        entries[image] = Entry(image, name, sizes[image], segments, here)
    return entries


def _segments(listed: list, categories: Categories, where: str) -> Segments:
    ids, category, crowd, area = [], [], [], []
    for entry, here in _each(listed, "segments_info", where):
        ids.append(_integer(entry, "id", here, least=VOID + 1))
        if ids[-1] >= ID_LIMIT:
            raise PermafrostError(f"the id {ids[-1]} does not fit into three bytes", where=here)
        category.append(categories.place(entry, here))
        crowd.append(_flag(entry, "iscrowd", here, missing=False))
        area.append(_area(entry, here))
    _check_unique(ids, "the segment id", where)
    columns = np.array(ids, np.int64), np.array(category, np.intp), np.array(crowd, bool)
    return Segments(*columns, np.array(area, np.float64))


def _each(listed: list, name: str, where: str):
    for number, entry in enumerate(listed):
        here = f"{where}: {name}[{number}]"
        if not isinstance(entry, dict):
            raise PermafrostError("the entry is not a JSON object", where=here)
        yield entry, here


def _listed(content: dict, name: str, where: str) -> list:
    found = content.get(name)
    if not isinstance(found, list):
        what = "is missing" if name not in content else "is no list"
        raise PermafrostError(f"{name} {what}", where=where, remedy="give a list, maybe empty")
    return found


def _integer(entry: dict, name: str, where: str, *, least: int | None = None) -> int:
    found = entry.get(name)
    whole = isinstance(found, int | np.integer) and not isinstance(found, bool)
    if not whole or (least is not None and found < least):
        bound = "" if least is None else f" of at least {least}"
        what = "is missing" if name not in entry else f"is {found!r}"
        raise PermafrostError(f"{name} {what}", where=where, remedy=f"give a whole number{bound}")
    return int(found)


def _image(entry: dict, name: str, where: str):
    if isinstance(entry.get(name), str):
        return entry[name]
    return _integer(entry, name, where)


def _flag(entry: dict, name: str, where: str, *, missing: bool | None = None) -> bool:
    found = entry.get(name, missing)
    if not isinstance(found, bool | int | np.integer) or found not in (0, 1):
        what = "is missing" if name not in entry else f"is {found!r}"
        raise PermafrostError(f"{name} {what}", where=where, remedy="give 0 or 1")
    return bool(found)


def _area(entry: dict, where: str) -> float:
    found = entry.get("area", math.nan)
    if not isinstance(found, int | float | np.number) or isinstance(found, bool):
        raise PermafrostError(f"area is {found!r}", where=where, remedy="give a number of pixels")
    return float(found)


def _check_new(image, known: dict, where: str) -> None:
    if image in known:
        raise PermafrostError(f"the image {image!r} occurs a second time", where=where)


def _check_unique(values: list, what: str, where: str) -> None:
    seen: set = set()
    for value in values:
        if value in seen:
            raise PermafrostError(f"{what} {value!r} occurs twice", where=where)
        seen.add(value)
