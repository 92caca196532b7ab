"""torchgeo's GeoDatasets as inputs of tiles: one of images, one of masks of the same area."""

from __future__ import annotations

import contextlib
import io
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import shapely

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.entry import DatasetEntry, Nodata
from permafrost.data.files.decode import UnreadableImage, readable
from permafrost.data.files.members import open_members
from permafrost.data.files.windows import Window
from permafrost.data.labels.masks import MaskCoding
from permafrost.data.labels.rasters import TargetCoding
from permafrost.data.sources.grid_layout import Grid
from permafrost.data.sources.grid_options import GeoClass, GridOptions
from permafrost.data.sources.grid_rasters import all_hold
from permafrost.data.sources.grid_scenes import declared_crs
from permafrost.data.sources.grid_shapes import read_shapes
from permafrost.data.sources.reading import coded, stored_as
from permafrost.data.sources.torchgeo_samples import arguments_of, check_arguments, dataset_class


class GeoInputs:
    """The intersection of the classes, read by bounds; interface of `grid_inputs.RasterInputs`.

    torchgeo merges overlapping files and fills missing pixels with nodata, or with 0.
    """

    def __init__(
        self, entry: DatasetEntry, coding: MaskCoding | TargetCoding, *, where: object
    ) -> None:
        options: GridOptions = entry.source
        self._coding, self._channel, self._root = coding, options.label_channel, options.path
        self._nodata = entry.nodata.value if isinstance(entry.nodata, Nodata) else None
        self._dtype = None if options.dtype is None else np.dtype(options.dtype)
        self._dataset = _opened(options, where)
        self._dates = _dates(options.torchgeo.dates, where)
        if not len(self._index()):
            raise PermafrostError(
                f"no file of the classes is within these dates: {' to '.join(options.torchgeo.dates)}",
                where=where,
                remedy="correct dates in source.torchgeo",
            )
        self.grid = _grid(self._dataset)
        self.footprints = [self._footprints()]
        self.name = options.torchgeo.image.name.lower()
        # torchgeo keeps files open, and a GDAL file belongs to one thread
        self._lock = threading.Lock()

    def valid(self, window: Window) -> np.ndarray:
        return self.both(window)[0][0][1]

    def labels(self, window: Window) -> np.ndarray:
        return self.both(window)[1]

    def both(self, window: Window) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        sample = self._sample(window)
        missing = {"image", "mask"} - set(sample)
        if missing:
            raise UnreadableImage(
                f"torchgeo gives no {' and no '.join(sorted(missing))}, only {', '.join(sample)}"
            )
        values, mask = np.asarray(sample["image"]), np.asarray(sample["mask"])
        if mask.ndim == 3 and (len(mask) == 1 or self._channel is not None):
            mask = mask[self._channel or 0]
        shapes = {values.shape[-2:], mask.shape}
        if values.ndim != 3 or shapes != {(window.height, window.width)}:
            raise UnreadableImage(f"torchgeo gives an image {values.shape} and a mask {mask.shape}")
        values = stored_as(values, self._dtype)
        return [(values, ~all_hold(values, self._nodata))], coded(self._coding, mask)

    def shapes(self, name: str, where: object) -> np.ndarray:
        members = open_members(self._root, where=where)
        return read_shapes(members, name, self.grid, None, where=where).polygons

    def _sample(self, window: Window) -> dict:
        """torchgeo's sample for the bounds of a window."""
        left, bottom, right, top = self.grid.bounds(window)
        across, down = self.grid.step
        place = [slice(left, right, across), slice(bottom, top, down)]
        if self._dates is not None:
            place.append(slice(*self._dates))
        with readable(), self._lock:
            return self._dataset[tuple(place)]

    def _footprints(self) -> np.ndarray:
        """The areas where both have files, as shapely geometries in pixels of the grid."""
        grid = self.grid
        corner, step = np.array([grid.left, grid.top]), np.array([grid.step[0], -grid.step[1]])
        return shapely.transform(
            self._index().geometry.to_numpy(), lambda points: (points - corner) / step
        )

    def _index(self):
        """The rows of torchgeo's table of files to use."""
        index = self._dataset.index
        if self._dates is None:
            return index
        return index[index.index.overlaps(pd.Interval(*self._dates, closed="both"))]


def _opened(options: GridOptions, where: object):
    """The dataset of the single class, or the intersection of both."""
    from pyproj import CRS

    pair, target = options.torchgeo, {}
    if options.crs is not None:
        target["crs"] = CRS.from_wkt(declared_crs(options.crs, where=where).to_wkt())
    if options.resolution is not None:
        target["res"] = options.resolution
    images = _built(pair.image, options.path, target, where)
    if pair.mask is None:
        return images
    masks = _built(pair.mask, options.path, {}, where)
    try:
        # torchgeo prints its conversions
        with contextlib.redirect_stdout(io.StringIO()):
            return images & masks
    except (RuntimeError, ValueError) as error:
        raise PermafrostError(
            f"torchgeo's {pair.image.name} and {pair.mask.name} do not overlap ({first_line(error)})",
            where=where,
            remedy="correct paths in source.torchgeo; the two must overlap in space and time",
        ) from error


def _built(part: GeoClass, root: str, target: dict, where: object):
    cls = dataset_class(part.name, where, "GeoDataset")
    known = arguments_of(cls)
    arguments = {**part.arguments, **target}
    check_arguments(part.name, arguments, known, where=where)
    places = [str(Path(root, path)) for path in part.paths]
    try:
        # most classes take one or several paths, some a root
        key = "paths" if known is None or "paths" in known else "root"
        return cls(**{key: places[0] if len(places) == 1 else places}, **arguments)
    except Exception as error:
        raise PermafrostError(
            f"torchgeo's {part.name} cannot be built from {', '.join(places)}:"
            f" {first_line(error, named=True)}",
            where=where,
            remedy="correct paths or arguments in source.torchgeo",
        ) from error


def _grid(dataset) -> Grid:
    from rasterio.crs import CRS

    left, bottom, right, top = map(float, dataset.index.total_bounds)
    across, down = map(float, dataset.res)
    return Grid(
        CRS.from_user_input(dataset.crs).to_string(),
        left,
        top,
        (across, down),
        int((right - left) / across + 1e-6),
        int((top - bottom) / down + 1e-6),
    )


def _dates(dates: list[str] | None, where: object):
    if dates is None:
        return None
    try:
        first, last = map(pd.Timestamp, dates)
    except ValueError as error:
        raise PermafrostError(
            f"dates {dates} are not two dates ({first_line(error)})",
            where=where,
            remedy='write dates: ["2021-01-01", "2021-12-31"]',
        ) from error
    return first, last
