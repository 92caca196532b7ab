"""Image files with objects in them: what all files of annotations have in common.

A kind of source reads its files into `Annotated` images with `Found` objects and hands them to
`ObjectSource`, which checks them and decodes the images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.decode import UnreadableImage, decode_image
from permafrost.data.entry import DatasetEntry
from permafrost.data.files import Members, folder_prefix
from permafrost.data.objects import Objects
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.common import class_ids, declared_bands, decoding_of
from permafrost.data.sources.reading import (
    grouped,
    locate_member,
    member_size,
    read_member,
    read_member_window,
)
from permafrost.data.sources.web_tiles import WebTileNames, web_tiles
from permafrost.data.windows import Window, clip_boxes

#: problems that one error names
SHOWN = 20
#: pixels that a corner may lie beyond the edge of its image: sums of decimals are not exact
SLACK = 1e-6


@dataclass(frozen=True, kw_only=True)
class ObjectFiles:
    """Options of every kind that reads images and files of annotations.

    Attributes
    ----------
    path : directory or archive of the images.
    root : folder of the images inside `path`.
    group : regular expression whose group in parentheses is the image's group, found in its name.
    web_tiles : how names say which tile of a web map an image is.
    """

    path: str
    root: str
    group: str | None = None
    web_tiles: WebTileNames | None = None


class Found(NamedTuple):
    """One object as its file has it; `where` is its place there, for messages.

    ``box`` is ``(x_min, y_min, x_max, y_max)``, of a point twice its place; without ``area``, that of
    the box counts.
    """

    label: str
    box: Sequence[float]
    where: str
    area: float | None = None
    crowd: bool = False
    polygon: list[list[float]] | None = None


@dataclass(frozen=True)
class Annotated:
    """An image by its file's name and what was found in it, which may be nothing.

    ``size`` is height and width where the annotations state them; they are held against the file.
    """

    name: str
    found: Sequence[Found]
    size: tuple[int, int] | None = None
    split: str | None = None
    group: str | None = None


class ObjectSource:
    """Images of a directory or archive with their objects.

    Parameters
    ----------
    entry : with options that are `ObjectFiles`.
    images : in the order of the records.
    classes : names in the order of their ids where the data says one; the entry's order counts first,
        and without either it is that of the alphabet.
    clip : cut boxes that reach beyond their image at its edge, and count them; they are an error otherwise.
    problems : what reading the annotations has found wrong; reported together with what is found here.

    Raises
    ------
    PermafrostError : one for all images that are missing or cannot be read, boxes without area or
        beyond their image, and so on.
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
        options: ObjectFiles = entry.source
        self.task = entry.task
        self.bands = declared_bands(entry, where=where)
        self.ignore_index = None
        self._decoding = decoding_of(entry, self.bands)
        self._members = members
        self._names = [image.name for image in images]
        prefix = folder_prefix(options.root)
        sample_ids = [name.removeprefix(prefix) for name in self._names]
        check = ObjectCheck(points=self.task == "point_detection", clip=clip)
        check.problems += problems
        known = set(members.names)
        self._sizes = sizes = [_size(image, members, known, check.problems) for image in images]
        labels = [found.label for image in images for found in image.found]
        self.classes, ids = class_ids(labels, entry.classes or classes, where=where)
        groups = [image.group for image in images]
        if options.group is not None:
            groups = grouped(sample_ids, options.group, where=where)
        places = [(None, None)] * len(images)
        if options.web_tiles is not None:
            tiles = web_tiles(sample_ids, options.web_tiles, where=where)
            places = [tile.lonlat() for tile, _ in tiles]
            if options.group is None:
                groups = [group for _, group in tiles]
        self._records = []
        for sample_id, group, place, image, size in zip(
            sample_ids, groups, places, images, sizes, strict=True
        ):
            objects, clipped = check.objects(image, size, ids)
            self._records.append(
                Record(
                    sample_id=sample_id,
                    split=image.split,
                    group_id=group,
                    lon=place[0],
                    lat=place[1],
                    objects=objects,
                    image_size=size,
                    clipped=clipped,
                )
            )
        check.refuse(where)

    def records(self) -> list[Record]:
        return self._records

    def decode(self, index: int) -> Decoded:
        return decode_image(read_member(self._members, self._names[index]), self._decoding)

    def decode_window(self, index: int, window: Window) -> Decoded | None:
        """A part of an image, where its file can be read in parts; None where it cannot."""
        return read_member_window(
            self._members, self._names[index], self._decoding, window, self._sizes[index]
        )

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._names[index])


def _size(
    image: Annotated, members: Members, known: set[str], problems: list[str]
) -> tuple[int, int] | None:
    """Height and width as the annotations state them, else from the file's header."""
    if image.name not in known:
        problems.append(f"{image.name} is not in {members.place}")
        return image.size
    if image.size is not None:
        return image.size
    try:
        return member_size(members, image.name)
    except UnreadableImage as failure:
        problems.append(f"{image.name}: {failure}")
        return None


class ObjectCheck:
    """Turns what was found into `Objects`, and collects what is wrong with it.

    Parameters
    ----------
    points : whether objects are points, else boxes.
    clip : whether boxes that reach beyond their image are cut at its edge.
    """

    def __init__(self, *, points: bool, clip: bool) -> None:
        self.problems: list[str] = []
        self._points, self._clip = points, clip
        self._beyond = False

    def objects(
        self, image: Annotated, size: tuple[int, int] | None, ids: dict[str, int]
    ) -> tuple[Objects, int]:
        """The objects of an image, and how many of them were cut at its edge."""
        found = image.found
        boxes = np.array([one.box for one in found], np.float64).reshape(-1, 4)
        given = np.array([np.nan if one.area is None else one.area for one in found], np.float64)
        wrong = self._shapes(found, boxes)
        boxes[wrong] = 0
        cut = np.zeros(len(found), bool)
        if size is not None:
            cut = self._edges(image, boxes, size, wrong)
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
        )
        return objects, int(cut.sum())

    def _shapes(self, found: Sequence[Found], boxes: np.ndarray) -> np.ndarray:
        """(N,) bool: boxes that are none, and points that are none."""
        finite = np.isfinite(boxes).all(axis=1)
        tame = np.where(finite[:, None], boxes, 0)
        sides = tame[:, 2:] - tame[:, :2]
        pointed = (sides == 0).all(axis=1)
        flat = (sides <= 0).any(axis=1)
        for rows, problem in (
            (~finite, "coordinates that are no finite numbers"),
            (finite & self._points & ~pointed, "a box, where the task is to find points"),
            (finite & (not self._points) & flat, "a box without width or height"),
        ):
            self._name(found, boxes, rows, problem)
        return ~finite | (~pointed if self._points else flat)

    def _edges(self, image: Annotated, boxes, size, wrong) -> np.ndarray:
        """(N,) bool: boxes to cut at the edge of their image."""
        height, width = size
        low, high = boxes[:, :2].min(axis=1), boxes[:, 2:] - (width, height)
        beyond = ((low < -SLACK) | (high > SLACK).any(axis=1)) & ~wrong
        outside = (boxes[:, 2:] <= 0).any(axis=1) | (boxes[:, :2] >= (width, height)).any(axis=1)
        cut = beyond & ~outside & (not self._points)
        edge = f"beyond the image of {width} x {height} pixels"
        if not self._clip and cut.any():
            self._beyond = True
            self._name(image.found, boxes, cut, f"a box that reaches {edge}")
        self._name(image.found, boxes, beyond & ~cut, f"an object {edge}")
        return cut & self._clip

    def _name(self, found, boxes, rows, problem: str) -> None:
        for row in np.flatnonzero(rows):
            box = ", ".join(f"{value:g}" for value in boxes[row])
            self.problems.append(f"{found[row].where}: {problem} ({box})")

    def refuse(self, where: object) -> None:
        """One error for all that is wrong; none where nothing is."""
        if not self.problems:
            return
        shown = "; ".join(self.problems[:SHOWN])
        more = len(self.problems) - SHOWN
        clip = ", or set clip_boxes: true in source to cut boxes at the edge of their image"
        raise PermafrostError(
            f"{len(self.problems)} {'entries' if len(self.problems) > 1 else 'entry'} of the"
            f" annotations cannot be used: {shown}{f'; and {more} more' if more > 0 else ''}",
            where=where,
            remedy=f"correct or remove them{clip if self._beyond else ''}",
        )
