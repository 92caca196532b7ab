"""Read several rasters as one, in windows of a grid: adjacent scenes, each resampled if the entry says so."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import readable
from permafrost.data.files.opening import check_bytes
from permafrost.data.files.windows import Window
from permafrost.data.sources.grid_layout import Grid
from permafrost.data.sources.grid_scenes import Scene, box_of, open_scene

#: files that a thread keeps open, for one layer or for the layers of all bands
KEPT_OPEN = 16


class Layer:
    """Scenes as one raster on a grid, read in windows; thread-safe.

    Where scenes overlap, the first with data counts.

    Parameters
    ----------
    resampling : rasterio's name of the method for scenes that are not on the grid.
    declared : whether the entry asks for resampling.
    marked : whether nodata values of a scene are missing pixels; otherwise they are ordinary
        values.
    keep : files to keep open per thread.
    strict : whether a pixel is missing if it is missing in one band, or only if in all.
    """

    def __init__(
        self,
        scenes: Sequence[Scene],
        grid: Grid,
        *,
        resampling: str,
        declared: bool,
        marked: bool,
        strict: bool = True,
        keep: int = KEPT_OPEN,
        where: object,
    ) -> None:
        self._grid, self._resampling, self._marked = grid, resampling, marked
        self._keep = keep
        self._joined = np.all if strict else np.any
        self.scenes = [self._placed(scene, declared, where) for scene in scenes]
        self.bands, self.dtype = scenes[0].bands, scenes[0].dtype
        self._boxes = np.array([scene.box for scene in self.scenes])
        self._open = threading.local()

    def _placed(self, scene: Scene, declared: bool, where: object) -> Scene:
        box, same = box_of(scene, self._grid, where)
        if not same and not declared:
            differs = scene.crs.to_string() != self._grid.crs
            problem = (
                f"{scene.name} has the coordinate system {scene.crs.to_string()[:60]}, the grid {self._grid.crs[:60]}"
                if differs
                else f"{scene.name} does not lie on the pixels of the grid"
                f" ({scene.transform.a:g} units wide from {scene.transform.c:g}, {scene.transform.f:g})"
            )
            raise PermafrostError(
                problem,
                where=where,
                remedy="declare the common grid in source: "
                + (f"crs: {self._grid.crs}" if differs else f"resolution: {self._grid.step[0]:g}"),
            )
        return replace(scene, box=box, warped=not same)

    @property
    def marks(self) -> bool:
        """Whether pixels inside the scenes' bounding boxes may be missing."""
        return any(
            scene.warped or (self._marked and (scene.masked or scene.transparent))
            for scene in self.scenes
        )

    def read(self, window: Window) -> tuple[np.ndarray, np.ndarray]:
        """(C, H, W) values, 0 outside all scenes, and (H, W) bool, True where there are data.

        Raises
        ------
        UnreadableImage : a file is damaged in the window.
        """
        check_bytes(self.bands * window.height * window.width * self.dtype.itemsize)
        values = np.zeros((self.bands, window.height, window.width), self.dtype)
        valid = np.zeros((window.height, window.width), bool)
        for number, begin, end in self._meeting(window):
            found, there = self._part(number, begin, end)
            rows, columns = _slices(window, begin, end)
            fresh = ~valid[rows, columns]
            values[:, rows, columns] = np.where(fresh, found, values[:, rows, columns])
            valid[rows, columns] |= there
            if valid.all():
                break
        return values, valid

    def covered(self, window: Window) -> np.ndarray:
        """(H, W) bool, True inside the bounding box of a scene; reads nothing."""
        found = np.zeros((window.height, window.width), bool)
        for _, begin, end in self._meeting(window):
            found[_slices(window, begin, end)] = True
        return found

    def _meeting(self, window: Window) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The scenes that overlap a window: number, first and last corner of the overlap in pixels of the grid."""
        low, high = np.array(window.bounds[:2]), np.array(window.bounds[2:])
        meets = ((self._boxes[:, :2] < high) & (self._boxes[:, 2:] > low)).all(axis=1)
        for number in np.flatnonzero(meets).tolist():
            box = self._boxes[number]
            yield number, np.maximum(box[:2], low), np.minimum(box[2:], high)

    def _part(self, number: int, begin: np.ndarray, end: np.ndarray):
        from rasterio.windows import Window as Part

        scene = self.scenes[number]
        (x, y), (width, height) = begin - self._boxes[number, :2], end - begin
        part = Part(int(x), int(y), int(width), int(height))
        bands = list(range(1, scene.bands + 1))
        with readable(scene.name):
            dataset = self._dataset(number)
            return dataset.read(bands, window=part), self._there(dataset, scene, bands, part)

    def _there(self, dataset, scene: Scene, bands: list[int], part) -> np.ndarray:
        """(H, W) bool, True where a scene has data, by its transparency and nodata."""
        there = np.ones((part.height, part.width), bool)
        if dataset.count > scene.bands and (scene.warped or self._marked):
            # read as a band: GDAL uses it as a mask only if its type is unsigned
            there &= dataset.read(scene.bands + 1, window=part) > 0
        if self._marked and scene.masked:
            there &= self._joined(dataset.read_masks(bands, window=part) != 0, axis=0)
        return there

    def _dataset(self, number: int):
        """The open file, or its resampled view on the grid; a GDAL dataset belongs to one thread."""
        kept = self._open.__dict__.setdefault("datasets", OrderedDict())
        if number not in kept:
            while len(kept) >= self._keep:
                kept.popitem(last=False)[1].close()
            kept[number] = self._opened(self.scenes[number])
        kept.move_to_end(number)
        return kept[number]

    def _opened(self, scene: Scene):
        from rasterio.enums import Resampling
        from rasterio.transform import from_origin
        from rasterio.vrt import WarpedVRT

        dataset = open_scene(scene.location)
        if not scene.warped:
            return dataset
        left, _, _, top = self._grid.bounds(Window(*scene.box[:2], 0, 0))
        return WarpedVRT(
            dataset,
            crs=self._grid.crs,
            transform=from_origin(left, top, *self._grid.step),
            width=scene.box[2] - scene.box[0],
            height=scene.box[3] - scene.box[1],
            resampling=Resampling[self._resampling],
            **self._beyond(scene),
        )

    def _beyond(self, scene: Scene) -> dict:
        """Options that mark pixels outside a file: its nodata, or transparency."""
        if scene.transparent or (self._marked and scene.nodata is not None):
            return {}
        # nodata that is not missing is an ordinary value
        return {"add_alpha": True, **({} if scene.nodata is None else {"src_nodata": None})}


def _slices(window: Window, begin: np.ndarray, end: np.ndarray) -> tuple[slice, slice]:
    """Rows and columns of a range inside a window."""
    return (
        slice(begin[1] - window.y, end[1] - window.y),
        slice(begin[0] - window.x, end[0] - window.x),
    )


def all_hold(values: np.ndarray, nodata: float | str | None) -> np.ndarray:
    """(H, W) bool, whether all bands of (C, H, W) have the nodata value."""
    if nodata is None:
        return np.zeros(values.shape[1:], bool)
    return (np.isnan(values) if nodata == "nan" else values == nodata).all(axis=0)
