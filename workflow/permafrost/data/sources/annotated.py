"""Image files with objects: code shared by all annotation formats.

A kind of source reads its files into `Annotated` images with `Found` objects and passes them to
`ObjectSource`, which checks them and decodes the images.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage, decode_image
from permafrost.data.files.members import Members, folder_prefix
from permafrost.data.files.windows import Window, clip_boxes
from permafrost.data.labels.objects import Objects
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.common import ListedSource, class_ids, decoding_of
from permafrost.data.sources.corners import outline_area
from permafrost.data.sources.options import ObjectFiles
from permafrost.data.sources.reading import (
    grouped,
    locate_member,
    member_size,
    read_member,
    read_member_window,
)
from permafrost.data.sources.turned import turned_images
from permafrost.data.sources.web_tiles import web_tiles

#: most problems listed in one error
SHOWN = 20
#: tolerance in pixels for corners beyond the edge of their image: sums of decimals are not exact
SLACK = 1e-6
_CLIP = (
    "set clip_boxes: true in source to cut boxes at the edge of their image, and to leave out those without area"
    " in it"
)


class Found(NamedTuple):
    """One object as its file states it; `where` is its position there, for messages.

    ``box`` is ``(x_min, y_min, x_max, y_max)``; for a point, its coordinates twice. Without
    ``area``, that of the box is used; for outlines, that of the polygon. ``mask`` is that of the
    whole image, as COCO's compressed run lengths.
    """

    label: str
    box: Sequence[float]
    where: str
    area: float | None = None
    crowd: bool = False
    polygon: list[list[float]] | None = None
    mask: str | None = None


@dataclass(frozen=True)
class Annotated:
    """An image by its file name, and its objects, if any.

    ``size`` is height and width if the annotations state them; they are compared with the file.
    ``problems`` lists errors in its annotations.
    """

    name: str
    found: Sequence[Found]
    size: tuple[int, int] | None = None
    split: str | None = None
    group: str | None = None
    problems: Sequence[str] = ()


class ObjectSource(ListedSource):
    """Images of a directory or archive with their objects.

    Parameters
    ----------
    entry : with options that are `ObjectFiles`.
    images : in the order of the records.
    classes : names in the order of their ids, if the data define one. The entry's order has
        precedence; without either, the order is alphabetical.
    clip : see `ObjectCheck`.
    problems : errors in the annotations that concern no single image; reported together with those
        found here.

    Raises
    ------
    PermafrostError : one error for all images that are missing or cannot be read, boxes without
        area or beyond their image, and so on. With `on_error` in the entry, the records of such
        images hold the reason instead.
    """

    def __init__(
        self,
        entry: DatasetEntry,
        members: Members,
        images: Sequence[Annotated],
        *,
        where: object,
        classes: Sequence[str] | None = None,
        clip: bool = False,
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(entry, where=where)
        options: ObjectFiles = entry.source
        self._decoding = decoding_of(entry, self.bands)
        self._members = members
        self._names = [image.name for image in images]
        prefix = folder_prefix(options.root)
        sample_ids = [name.removeprefix(prefix) for name in self._names]
        check = ObjectCheck(self.task, clip=clip, skip=entry.on_error is not None)
        check.problems += problems
        known = set(members.names)
        check.suggest(
            _other_root([name for name in self._names if name not in known], known, prefix)
        )
        if targets_of(self.task).oriented:
            images = turned_images(images, where=where)
        images = [_sized(image, members, known, entry.convert) for image in images]
        self._sizes = [image.size for image in images]
        labels = [found.label for image in images for found in image.found]
        self.classes, ids = class_ids(labels, entry.classes or classes, where=where)
        groups = [image.group for image in images]
        if options.group is not None:
            groups = grouped(sample_ids, options.group, where=where)
        places: list[tuple[float | None, float | None]] = [(None, None)] * len(images)
        if options.web_tiles is not None:
            tiles = web_tiles(sample_ids, options.web_tiles, where=where)
            places = [tile.lonlat() for tile, _ in tiles]
            if options.group is None:
                groups = [group for _, group in tiles]
        self._records = []
        for sample_id, group, place, image in zip(sample_ids, groups, places, images, strict=True):
            record = Record(sample_id, None, image.split, group, *place)
            self._records.append(check.record(record, image, ids))
        check.refuse(where)

    def decode(self, index: int) -> Decoded:
        return decode_image(read_member(self._members, self._names[index]), self._decoding)

    def decode_window(self, index: int, window: Window) -> Decoded | None:
        """A part of an image if its file can be read in parts; else None."""
        return read_member_window(
            self._members, self._names[index], self._decoding, window, self._sizes[index]
        )

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._names[index])


def _empty(boxes: np.ndarray, size: tuple[int, int] | None) -> np.ndarray:
    """(N,) bool: finite boxes without area, in the image of (height, width) if given."""
    height, width = size or (np.inf, np.inf)
    low = np.maximum(boxes[:, :2], -np.inf if size is None else 0)
    sides = np.minimum(boxes[:, 2:], (width, height)) - low
    return np.isfinite(boxes).all(axis=1) & (sides <= 0).any(axis=1)


def _sized(
    image: Annotated, members: Members, known: set[str], convert: Sequence[str]
) -> Annotated:
    """The image with height and width from the annotations, else from the file's header."""
    if image.problems or (image.size is not None and image.name in known):
        return image
    if image.name not in known:
        return replace(image, problems=[f"{image.name} is not in {members.place}"])
    try:
        return replace(image, size=member_size(members, image.name, convert))
    except UnreadableImage as failure:
        return replace(image, problems=[f"{image.name}: {failure}"])


def _other_root(missing: Sequence[str], known: set[str], prefix: str) -> str | None:
    """A `root` that contains all images missing below `prefix`, as a remedy; None if there is none."""
    if not missing:
        return None
    missing = [name.removeprefix(prefix) for name in missing]
    ends = f"/{missing[0]}"
    roots = (name.removesuffix(ends) for name in known if name.endswith(ends))
    for root in sorted(roots):
        if all(f"{root}/{name}" in known for name in missing):
            return f"set root: {root} in source, where the images lie"
    return None


class ObjectCheck:
    """Converts found objects to `Objects`, and collects errors.

    Parameters
    ----------
    task : says whether objects are points, boxes, oriented boxes or masks.
    clip : whether to cut boxes at the edge of their image and drop those without area there;
        otherwise such boxes are an error. Points are never cut.
    skip : whether images with errors may be skipped.
    """

    def __init__(self, task: str, *, clip: bool, skip: bool) -> None:
        targets = targets_of(task)
        self.problems: list[str] = []
        self._points, self._instances = targets.points, targets.instances
        # no object may reach beyond its image; of oriented boxes only those wholly beyond are an
        # error, and none is cut: a part of an oriented box is not an oriented box
        self._bounded = not targets.oriented
        self._clip, self._skip = clip, skip
        self._mendable = False
        self._remedies: dict[str, None] = {}

    def record(self, record: Record, image: Annotated, ids: dict[str, int]) -> Record:
        """The record with the image's size and objects; marked unusable if these are wrong and it may be skipped."""
        before = len(self.problems)
        self.problems += image.problems
        objects, bent = self._objects(image, image.size, ids)
        wrong = self.problems[before:]
        if not (wrong and self._skip):
            return replace(record, objects=objects, image_size=image.size, **bent)
        del self.problems[before:]
        remedies = [*([_CLIP] if self._mendable else []), *self._remedies]
        return replace(
            record,
            objects=objects.take(np.zeros(len(objects), bool)),
            # any size: the image is skipped before it is cut
            image_size=(1, 1),
            unusable=("; ".join(wrong), "; ".join(remedies) or None),
        )

    def _objects(
        self, image: Annotated, size: tuple[int, int] | None, ids: dict[str, int]
    ) -> tuple[Objects, dict[str, Any]]:
        """The objects of an image, and how many were ``clipped`` at its edge or dropped ``without_area`` in it."""
        boxes = np.array([one.box for one in image.found], np.float64).reshape(-1, 4)
        kept = ~(_empty(boxes, size) & (self._clip and not self._points))
        found, boxes = list(itertools.compress(image.found, kept)), boxes[kept]
        given = np.array([self._area(one) for one in found], np.float64)
        wrong = self._shapes(found, boxes)
        boxes[wrong] = 0
        cut = np.zeros(len(found), bool)
        if size is not None:
            cut = self._edges(found, boxes, size, wrong)
            boxes[cut] = clip_boxes(boxes[cut], np.array([0, 0, size[1], size[0]], np.float64))
        own = np.maximum(boxes[:, 2:] - boxes[:, :2], 0).prod(axis=1)
        areas = np.where(np.isnan(given), own, given)
        areas[cut] = np.minimum(areas[cut], own[cut])
        objects = Objects.of(
            boxes,
            [ids[one.label] for one in found],
            areas=areas,
            crowd=[one.crowd for one in found],
            polygons=[one.polygon for one in found],
            masks=[one.mask if self._instances else None for one in found],
        )
        return objects, {"clipped": int(cut.sum()), "without_area": int((~kept).sum())}

    def _area(self, one: Found) -> float:
        """The declared area, else that of the polygon if masks are the targets, else NaN."""
        if one.area is None and one.polygon and self._instances:
            return sum(outline_area(np.reshape(ring, (-1, 2))) for ring in one.polygon)
        return np.nan if one.area is None else one.area

    def _shapes(self, found: Sequence[Found], boxes: np.ndarray) -> np.ndarray:
        """(N,) bool, True for invalid boxes or points."""
        finite = np.isfinite(boxes).all(axis=1)
        tame = np.where(finite[:, None], boxes, 0)
        sides = tame[:, 2:] - tame[:, :2]
        pointed = (sides == 0).all(axis=1)
        flat = (sides <= 0).any(axis=1)
        bare = np.array([not one.polygon and one.mask is None for one in found], bool)
        self._mendable |= bool((flat & finite).any()) and not self._points
        for rows, problem in (
            (~finite, "coordinates that are no finite numbers"),
            (finite & self._points & ~pointed, "a box, where the task is to find points"),
            (finite & (not self._points) & flat, "a box without width or height"),
            (bare & self._instances, "neither a polygon nor a mask, which the task needs"),
        ):
            self._name(found, boxes, rows, problem)
        return ~finite | (~pointed if self._points else flat)

    def _edges(self, found: Sequence[Found], boxes, size, wrong) -> np.ndarray:
        """(N,) bool, True for boxes to cut at the edge of their image."""
        height, width = size
        low, high = boxes[:, :2].min(axis=1), boxes[:, 2:] - (width, height)
        beyond = ((low < -SLACK) | (high > SLACK).any(axis=1)) & ~wrong
        outside = (boxes[:, 2:] <= 0).any(axis=1) | (boxes[:, :2] >= (width, height)).any(axis=1)
        beyond &= outside | self._bounded
        cut = beyond & ~outside & (not self._points)
        edge = f"beyond the image of {width} x {height} pixels"
        self._mendable |= bool(beyond.any()) and not self._points
        if not self._clip and cut.any():
            self._name(found, boxes, cut, f"a box that reaches {edge}")
        self._name(found, boxes, beyond & ~cut, f"an object {edge}")
        return cut & self._clip

    def _name(self, found, boxes, rows, problem: str) -> None:
        for row in np.flatnonzero(rows):
            box = ", ".join(f"{value:g}" for value in boxes[row])
            self.problems.append(f"{found[row].where}: {problem} ({box})")

    def suggest(self, remedy: str | None) -> None:
        """Add a remedy besides correcting the annotations."""
        self._remedies |= {remedy: None} if remedy else {}

    def unreadable(self, name: str, failure: UnreadableImage) -> Annotated:
        """A sample whose annotations cannot be read."""
        self.suggest(failure.remedy)
        return Annotated(name, [], problems=[f"{name}: {failure}"])

    def refuse(self, where: object) -> None:
        """Raise one `PermafrostError` with all problems, if there are any."""
        if not self.problems:
            return
        shown = "; ".join(self.problems[:SHOWN])
        more = len(self.problems) - SHOWN
        raise PermafrostError(
            f"{len(self.problems)} {'entries' if len(self.problems) > 1 else 'entry'} of the"
            f" annotations cannot be used: {shown}{f'; and {more} more' if more > 0 else ''}",
            where=where,
            remedy="; ".join(
                [
                    f"correct or remove them{f', or {_CLIP}' if self._mendable else ''}",
                    *self._remedies,
                ]
            ),
        )
