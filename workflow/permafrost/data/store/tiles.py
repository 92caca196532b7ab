"""Cut images with objects into windows, each a sample of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import cast

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.entry import Tiles
from permafrost.data.files.cache import LeastRecentlyUsed
from permafrost.data.files.decode import UnreadableImage, check_size
from permafrost.data.files.windows import OVERLAP, Window, cut_windows, tile_name
from permafrost.data.labels.objects import Objects
from permafrost.data.labels.splits import SplitPlan
from permafrost.data.records import Decoded, Record, Source, check_records


class TiledSource:
    """The windows of the images of another source.

    An image that can be read in parts (``decode_window`` of the source does not return None) is
    never completely in memory. Others are decoded once for all windows if these are requested
    consecutively: a few decoded images are cached.

    Parameters
    ----------
    images : the source's records; those without ``image_size`` are decoded to find it.
    size, overlap : see `windows.cut_windows`.
    keep : decoded images to cache: number of threads plus one.
    """

    def __init__(
        self,
        source: Source,
        images: Sequence[Record],
        *,
        size: int,
        overlap: float = OVERLAP,
        keep: int = 2,
        where: object = None,
    ) -> None:
        self.bands, self.classes = source.bands, source.classes
        self.task, self.ignore_index = source.task, source.ignore_index
        self.choice = getattr(source, "choice", None)
        self._source = source
        self._whole = LeastRecentlyUsed(source.decode, keep)
        self._part = getattr(source, "decode_window", None)
        self._indivisible: set[int] = set()
        self._windows: list[tuple[int, Window]] = []
        self._records: list[Record] = []
        #: windows of each image: first, last + 1
        self.spans: list[tuple[int, int]] = []
        for index, image in enumerate(images):
            height, width = self._size(index, image, where)
            windows = cut_windows(width, height, size=size, overlap=overlap)
            self._windows += [(index, window) for window in windows]
            self._records += [
                window_record(image, window, objects, (height, width))
                for window, objects in zip(
                    windows, objects_by_window(image.objects, windows), strict=True
                )
            ]
            self.spans.append((len(self._records) - len(windows), len(self._records)))

    def records(self) -> list[Record]:
        return self._records

    def decode(self, index: int) -> Decoded:
        number, window = self._windows[index]
        if self._part is not None and number not in self._indivisible:
            part = self._part(number, window)
            if part is not None:
                return part
            self._indivisible.add(number)
        whole = self._whole(number)
        height, width = self._records[index].image_size
        check_size(whole.image.shape[-2:], (height, width))
        image, *further = (_shown(window, one, (height, width)).copy() for one in whole.arrays)
        return replace(whole, image=image, further=tuple(further), place=whole.place.of(window))

    def locate(self, index: int) -> tuple[float | None, float | None]:
        place = self.decode(index).place
        return place.lon, place.lat

    def windows_of(self, positions: np.ndarray) -> np.ndarray:
        """Positions of the windows of the images at `positions`, in order."""
        spans = [np.arange(*self.spans[position]) for position in positions]
        return np.concatenate([np.empty(0, np.int64), *spans])

    def _size(self, index: int, image: Record, where: object) -> tuple[int, int]:
        if image.image_size is not None:
            return image.image_size
        try:
            return self._whole(index).image.shape[-2:]
        except UnreadableImage as failure:
            raise PermafrostError(
                f"{image.sample_id} cannot be cut into tiles: {failure}",
                where=where,
                remedy=failure.remedy or "repair or remove this file, or correct the entry",
            ) from failure


def _shown(window: Window, image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The part of an image (…, h, w) for a window of an image of `size` (H, W) of the same area, as a view.

    Raises
    ------
    UnreadableImage : an edge of the window is inside a pixel.
    """
    height, width = image.shape[-2:]
    edges = (
        window.x * width / size[1],
        window.y * height / size[0],
        window.width * width / size[1],
        window.height * height / size[0],
    )
    if not all(edge.is_integer() for edge in edges):
        raise UnreadableImage(
            f"the window {window.bounds} of {size[1]} x {size[0]} pixels cuts through pixels of another"
            f" sensor's {width} x {height}",
            remedy="choose size and overlap of tiles so that windows begin and end between pixels of"
            " all sensors, or leave tiles out",
        )
    return Window(*map(int, edges)).of(image)


def window_record(image: Record, window: Window, objects: Objects, size: tuple[int, int]) -> Record:
    """The record of a window with its objects; its location comes from its file only."""
    return replace(
        image,
        sample_id=tile_name(image.sample_id, window),
        group_id=image.group_id or image.sample_id,
        lon=None,
        lat=None,
        objects=objects,
        image_id=image.sample_id,
        x_offset=window.x,
        y_offset=window.y,
        image_size=cast("tuple[int, int]", tuple(size)),
        clipped=0,
        without_area=0,
    )


def objects_by_window(objects: Objects, windows: Sequence[Window]) -> Iterator[Objects]:
    """The objects of each window in turn; fast if windows follow each other down columns."""
    column, within = None, objects
    for window in windows:
        if column is None or (column.x, column.width) != (window.x, window.width):
            column = window
            low, high = objects.boxes[:, 0], objects.boxes[:, 2]
            within = objects.take((low <= window.x + window.width) & (high >= window.x))
        yield objects_in(within, window)


def objects_in(objects: Objects, window: Window) -> Objects:
    """The objects whose box overlaps the window, or whose point is in it or on its edge."""
    low, high = np.array(window.bounds[:2]), np.array(window.bounds[2:])
    begin, end = objects.boxes[:, :2], objects.boxes[:, 2:]
    points = (begin == end).all(axis=1)
    inside = ((begin >= low) & (begin <= high)).all(axis=1)
    meets = ((begin < high) & (end > low)).all(axis=1)
    return objects.take(np.where(points, inside, meets))


def samples_of(
    source: Source,
    images: Sequence[Record],
    plan: SplitPlan,
    tiles: Tiles | None,
    workers: int,
    where: object,
) -> tuple[Source, list[Record], SplitPlan]:
    """The samples of images with objects after splitting: the images, or with tiles their windows.

    Each has a group, by default its whole image.
    """
    if tiles is None:
        return source, [r if r.group_id else replace(r, group_id=r.sample_id) for r in images], plan
    tiled = TiledSource(source, images, **asdict(tiles), keep=workers + 1, where=where)
    indices = {split: tiled.windows_of(positions) for split, positions in plan.indices.items()}
    records = tiled.records()
    check_records(records, where)
    return tiled, records, replace(plan, indices=indices)


def placed_like(records: Sequence[Record], images: Sequence[Record]) -> Sequence[Record]:
    """Records of windows; those without coordinates get those of their image."""
    if not records or records[0].image_id is None:
        return records
    places = {image.sample_id: (image.lon, image.lat) for image in images}
    return [
        record
        if record.lon is not None or record.image_id is None
        else record.placed(*places[record.image_id])
        for record in records
    ]
