"""Kind ``grid``: tiles of rasters, or of torchgeo's GeoDatasets, by size, stride, coordinate system and extent.

Rasters are read window by window. Tiles may be grouped in blocks on the ground and never cross a
block border, so splits by group share no pixel; `grid_layout` computes their positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import shapely

from permafrost.core.progress import progress
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry, Nodata
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.georeference import degrees
from permafrost.data.files.windows import Window, tile_name
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.common import (
    ListedSource,
    pixel_coding,
    required_classes,
)
from permafrost.data.sources.grid_inputs import RasterInputs
from permafrost.data.sources.grid_layout import Axis, Grid, Tiles, cut, region, shared_pixels
from permafrost.data.sources.grid_options import GridOptions, refuse
from permafrost.data.sources.grid_options import check_entry as check_entry
from permafrost.data.sources.grid_scenes import limit_cache
from permafrost.data.sources.grid_torchgeo import GeoInputs

if TYPE_CHECKING:
    from permafrost.data.labels.masks import MaskCoding


class GridSource(ListedSource):
    """Tiles of a grid; see `GridOptions`."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        self._options: GridOptions = entry.source
        options = self._options
        self._nodata = [entry.nodata_of(name) for name in entry.modalities or [None]]
        numbers = self._numbers = targets_of(self.task).numbers
        self.classes = [] if numbers else required_classes(entry, where=where)
        coding = pixel_coding(entry, self.classes, where=where)
        if not numbers and cast("MaskCoding", coding).colours:
            refuse(
                "masks of a grid hold numbers, but mask_values names colours",
                "store class ids",
                where,
            )
        limit_cache()
        self._inputs: RasterInputs | GeoInputs
        if options.torchgeo is None:
            self._inputs = RasterInputs(entry, self.bands, coding, self.classes, where=where)
        else:
            self._inputs = GeoInputs(entry, coding, where=where)
        self.grid = self._inputs.grid
        self._blocks, self._margin = _sides(self.grid, options, where)
        self.left_out = {"too little data": 0, "too few labels": 0}
        self._tiles, self._records = self._listed()

    @property
    def choice(self) -> dict:
        """The layout of the tiles and the number of omitted ones, for the card."""
        options, grid = self._options, self.grid
        return {
            "grid": {
                "crs": grid.crs,
                "pixel": list(grid.step),
                "pixels": [grid.height, grid.width],
                "size": options.size,
                "stride": options.step,
                "block": None if self._blocks is None else list(self._blocks),
                "buffer_m": 0.0 if options.blocks is None else options.blocks.buffer_m,
                "left_out": self.left_out,
            }
        }

    def decode(self, index: int) -> Decoded:
        window = self._tiles.window(index)
        read, labels = self._inputs.both(window)
        image, *further = (
            one if valid.all() else _filled(one, valid, nodata)
            for (one, valid), nodata in zip(read, self._nodata, strict=True)
        )
        valid = np.logical_and.reduce([there for _, there in read])
        if self._options.ignore_nodata and not valid.all():
            labels = _without(labels, valid, self.ignore_index)
        return Decoded(
            image,
            further=tuple(further),
            mask=None if self._numbers else labels,
            target=labels if self._numbers else None,
            place=self.grid.place.of(window),
        )

    def _listed(self) -> tuple[Tiles, list[Record]]:
        options = self._options
        extents = options.extent if isinstance(options.extent, dict) else {None: options.extent}
        parts = {split: self._cut(extent) for split, extent in extents.items()}
        clash = shared_pixels(parts) if len(parts) > 1 else None
        if clash:
            refuse(
                f"tiles of {clash[0]} and {clash[1]} share pixels",
                "use disjoint extents",
                self._where,
            )
        tiles, records = [], []
        for split, part in parts.items():
            usable = self._usable(part)
            tiles.append(usable)
            records += self._recorded(usable, split)
        if not records:
            kept = " and ".join(
                f"{count} have {why}" for why, count in self.left_out.items() if count
            )
            refuse(
                f"no tiles are left: {kept}",
                "lower min_valid or min_labelled in source",
                self._where,
            )
        joined = (
            np.concatenate([getattr(one, key) for one in tiles]) for key in ("corners", "blocks")
        )
        # `joined` yields two arrays, which mypy does not count
        return Tiles(*joined, options.size), records  # type: ignore[call-arg]

    def _cut(self, extent: Sequence[float] | str | None) -> Tiles:
        """The tiles inside an extent that intersect the rasters."""
        options, where = self._options, self._where
        outline, (xmin, ymin, xmax, ymax) = self._bounded(extent)
        if min(xmax - xmin, ymax - ymin) < options.size:
            refuse(
                f"tiles of {options.size} pixels do not fit into {max(0, xmax - xmin)} x {max(0, ymax - ymin)}"
                f" pixels (width x height)" + ("" if extent is None else " of the extent"),
                "use a smaller size, or correct extent, crs or resolution in source",
                where,
            )
        blocks = self._blocks or (None, None)
        across, down = (
            Axis(*ends, options.size, options.step, block, margin)
            for ends, block, margin in zip(
                [(xmin, xmax), (ymin, ymax)], blocks, self._margin, strict=True
            )
        )
        first, *others = self._inputs.footprints
        tiles = cut(across, down, shapely.bounds(first), where=where)
        for shapes in (first, *others):
            tiles = tiles.take(tiles.meeting(shapes))
        if outline is not None and len(tiles):
            tiles = tiles.take(tiles.inside(outline))
        if not len(tiles):
            refuse(
                "no tile is inside the images, the labels and the extent",
                "correct the files, extent, size or blocks in source: do they cover the same location?",
                where,
            )
        return tiles

    def _bounded(self, extent: Sequence[float] | str | None):
        """The shape that must contain the tiles, None for a box; and its box in whole pixels."""
        grid = self.grid
        if extent is None:
            return None, (0, 0, grid.width, grid.height)
        if not isinstance(extent, str):
            return None, region(grid, extent)
        outline = shapely.union_all(self._inputs.shapes(extent, self._where))
        return outline, _whole(shapely.bounds(outline), grid)

    def _usable(self, tiles: Tiles) -> Tiles:
        """The tiles with enough data and labels; reads pixels only if necessary."""
        kept = np.ones(len(tiles), bool)
        if self._options.min_valid is None and self._options.min_labelled is None:
            return tiles
        for index in progress(range(len(tiles)), total=len(tiles), label="listing", unit="tile"):
            try:
                lacking = self._lacking(tiles.window(index))
            except UnreadableImage:
                # damage is reported when the tile itself is read
                continue
            if lacking is not None:
                self.left_out[lacking] += 1
                kept[index] = False
        return tiles.take(kept)

    def _lacking(self, window: Window) -> str | None:
        """What a tile has too little of, data or labels; None if it has enough."""
        least, inputs = self._options, self._inputs
        if least.min_valid is not None and inputs.valid(window).mean() < least.min_valid:
            return "too little data"
        if least.min_labelled is not None and self._labelled(window) < least.min_labelled:
            return "too few labels"
        return None

    def _labelled(self, window: Window) -> float:
        labels = self._inputs.labels(window)
        there = ~np.isnan(labels) if self._numbers else labels != self.ignore_index
        return float(there.mean())

    def _recorded(self, tiles: Tiles, split: str | None) -> list[Record]:
        grid, name = self.grid, self._inputs.name
        middle = tiles.corners + tiles.size / 2
        x, y = grid.left + middle[:, 0] * grid.step[0], grid.top - middle[:, 1] * grid.step[1]
        # local coordinate systems have no longitude and latitude
        lonlat = np.where(np.isnan(found := degrees(grid.crs, x, y)), None, found).T.tolist()
        prefix = "" if split is None else f"{split}/"
        groups = [f"{prefix}{row},{column}" for column, row in tiles.blocks.tolist()]
        return [
            Record(
                sample_id=tile_name(name, tiles.window(index)),
                split=split,
                group_id=None if self._blocks is None else groups[index],
                lon=lonlat[index][0],
                lat=lonlat[index][1],
            )
            for index in range(len(tiles))
        ]


def _sides(
    grid: Grid, options: GridOptions, where: object
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """Width and height of blocks in pixels (None without blocks), and of the margins at their borders."""
    blocks = options.blocks
    if blocks is None:
        return None, (0, 0)
    metres = grid.metres()
    # half of the buffer on each side of a border
    margin = tuple(math.ceil(blocks.buffer_m / 2 / one - 1e-6) for one in metres)
    if blocks.tiles is not None:
        own = options.size + (blocks.tiles - 1) * options.step
        return tuple(own + 2 * one for one in margin), margin
    sides = tuple(round(blocks.metres / one) for one in metres)
    room = [side - 2 * one for side, one in zip(sides, margin, strict=True)]
    if min(room) < options.size:
        refuse(
            f"tiles of {options.size} pixels do not fit into blocks of {sides[0]} x {sides[1]} pixels"
            + (f" with a buffer of {2 * max(margin)}" if max(margin) else ""),
            "use larger blocks in source",
            where,
        )
    return sides, margin


def _whole(bounds: np.ndarray, grid: Grid) -> tuple[int, int, int, int]:
    """The bounding box of bounds in pixels, in whole pixels of the grid."""
    xmin, ymin, xmax, ymax = bounds.tolist()
    return (
        max(0, math.floor(xmin)),
        max(0, math.floor(ymin)),
        min(grid.width, math.ceil(xmax)),
        min(grid.height, math.ceil(ymax)),
    )


def _filled(image: np.ndarray, valid: np.ndarray, nodata: str | Nodata | None) -> np.ndarray:
    """The image, with missing pixels replaced as the entry declares."""
    if not isinstance(nodata, Nodata):
        raise UnreadableImage(
            f"{np.count_nonzero(~valid)} of its {valid.size} pixels have no data",
            remedy="say what stands for them, e.g. nodata: {value: 0, fill: 0}, or leave such tiles out with"
            " min_valid: 1 in source",
        )
    value = nodata.value
    number = np.nan if value == "nan" else value
    with np.errstate(invalid="ignore"):
        stored = np.array(number).astype(image.dtype)
    if value != "nan" and stored != number or value == "nan" and image.dtype.kind != "f":
        raise UnreadableImage(f"its type {image.dtype} cannot hold the nodata value {value}")
    return np.where(valid, image, stored)


def _without(labels: np.ndarray, valid: np.ndarray, ignore: int | None) -> np.ndarray:
    """The labels, without those of pixels without data."""
    if labels.dtype.kind == "f":
        return np.where(valid, labels, np.nan).astype(np.float32)
    return np.where(valid, labels, ignore)
