"""Headers of raster files, and their common grid of pixels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.files.georeference import check_crs
from permafrost.data.files.members import Members
from permafrost.data.files.opening import open_raster
from permafrost.data.sources.grid_layout import TOLERANCE, Grid

if TYPE_CHECKING:
    from affine import Affine
    from rasterio.crs import CRS


@dataclass(frozen=True)
class Scene:
    """One raster file as its header describes it.

    ``bands`` omits transparency (``transparent``). ``masked``: whether transparency, a mask or
    nodata may hide pixels. A `Layer` sets ``box``, (xmin, ymin, xmax, ymax) in pixels of the grid,
    and ``warped``, whether the raster is resampled to it.
    """

    name: str
    location: str
    crs: CRS
    transform: Affine
    size: tuple[int, int]
    bands: int
    dtype: np.dtype
    nodata: float | None
    transparent: bool
    masked: bool
    scale: float
    offset: float
    box: tuple[int, int, int, int] | None = None
    warped: bool = False

    @property
    def upright(self) -> bool:
        """Whether rows run from west to east, and from north to south."""
        return self.transform.b == self.transform.d == 0 < self.transform.a and self.transform.e < 0


#: size of GDAL's cache of decoded blocks; its default is a share of the machine's memory,
#: regardless of the job's limit
CACHE_BYTES = 256 * 2**20


def limit_cache() -> None:
    """Limit GDAL's cache to `CACHE_BYTES`, unless the environment sets GDAL_CACHEMAX."""
    from rasterio.env import set_gdal_config

    if "GDAL_CACHEMAX" not in os.environ:
        set_gdal_config("GDAL_CACHEMAX", CACHE_BYTES)


def open_scene(location: str):
    """An open rasterio dataset of a GeoTIFF or a JPEG 2000; the caller closes it."""
    return open_raster(location, "GTiff", "JP2OpenJPEG")


def read_scenes(members: Members, names: Sequence[str], *, where: object) -> list[Scene]:
    """The headers of rasters.

    Raises
    ------
    PermafrostError : one is damaged or has no georeference; or they differ in bands or type.
    """
    scenes = [_header(members, name, where) for name in names]
    first = scenes[0]
    for scene in scenes[1:]:
        for what in ("bands", "dtype"):
            one, other = getattr(scene, what), getattr(first, what)
            if one != other:
                raise PermafrostError(
                    f"{scene.name} has {one} {'' if what == 'dtype' else 'bands'}".rstrip()
                    + f", {first.name} {other}",
                    where=where,
                    remedy="scenes of one mosaic hold the same bands in one type; bands in files of their"
                    " own are named one by one, images: {NAME: PATTERN}",
                )
    return scenes


def _header(members: Members, name: str, where: object) -> Scene:
    from rasterio.enums import ColorInterp, MaskFlags

    try:
        members.verify(name)
        with open_scene(members.location(name)) as dataset:
            transparent = dataset.colorinterp[-1] == ColorInterp.alpha
            scene = Scene(
                name,
                members.location(name),
                dataset.crs,
                dataset.transform,
                dataset.shape,
                dataset.count - transparent,
                np.dtype(dataset.dtypes[0]),
                dataset.nodata,
                transparent,
                any(MaskFlags.all_valid not in flags for flags in dataset.mask_flag_enums),
                float(dataset.scales[0]),
                float(dataset.offsets[0]),
            )
    # readers fail on damaged files in many ways
    except Exception as error:
        raise PermafrostError(
            f"{name} is not a readable raster ({first_line(error, named=True)})",
            where=where,
            remedy="get the file again; rasters are GeoTIFF or JPEG 2000",
        ) from error
    if scene.dtype.kind not in "fiu":
        raise PermafrostError(
            f"{name} holds {scene.dtype} values", where=where, remedy="store real numbers"
        )
    if scene.crs is None or scene.transform.is_identity:
        lacking = "coordinate system" if scene.crs is None else "place"
        raise PermafrostError(
            f"{name} has no {lacking}",
            where=where,
            remedy="write it into the file, e.g. with gdal_edit.py -a_srs and -a_ullr",
        )
    return scene


def own_grid(scene: Scene, *, where: object) -> Grid:
    """The grid of a raster's own pixels; raises `PermafrostError` if it is rotated or mirrored."""
    if not scene.upright:
        raise PermafrostError(
            f"{scene.name} is not north-up",
            where=where,
            remedy="declare crs and resolution in source, onto which it is resampled",
        )
    transform, (height, width) = scene.transform, scene.size
    return Grid(
        scene.crs.to_string(),
        transform.c,
        transform.f,
        (transform.a, -transform.e),
        width,
        height,
    )


def declared_crs(text: str, *, where: object):
    """rasterio's coordinate system for the name in an entry; raises `PermafrostError` for an unknown name."""
    from rasterio.crs import CRS
    from rasterio.errors import CRSError

    try:
        check_crs(text)
        return CRS.from_user_input(text)
    except CRSError as error:
        raise PermafrostError(
            f"crs {text!r} is not a coordinate system ({first_line(error)})",
            where=where,
            remedy="name one by its code, e.g. crs: EPSG:32633",
        ) from error


def declared_grid(
    scenes: Sequence[Scene], crs: str | None, resolution: float | None, *, where: object
) -> Grid:
    """The grid that contains all scenes: that of the first, unless the entry declares another one.

    The origin of a declared grid is a whole number of pixels from that of the coordinate system.
    """
    from rasterio.warp import calculate_default_transform

    first = scenes[0]
    system = first.crs if crs is None else declared_crs(crs, where=where)
    own = system == first.crs
    step = None if resolution is None else (resolution, resolution)
    if own and (step is None or np.allclose(step, (first.transform.a, -first.transform.e))):
        grid = own_grid(first, where=where)
    else:
        if step is None:
            height, width = first.size
            corners = _corners(first)
            fitted, _, _ = calculate_default_transform(first.crs, system, width, height, *corners)
            step = (fitted.a, -fitted.e)
        grid = Grid(system.to_string(), 0.0, 0.0, step, 1, 1)
    boxes = [box_of(scene, grid, where)[0] for scene in scenes]
    xmin, ymin = np.min(boxes, axis=0)[:2].tolist()
    xmax, ymax = np.max(boxes, axis=0)[2:].tolist()
    return replace(
        grid,
        left=grid.left + xmin * grid.step[0],
        top=grid.top - ymin * grid.step[1],
        width=xmax - xmin,
        height=ymax - ymin,
    )


def _corners(scene: Scene) -> tuple[float, float, float, float]:
    """(left, bottom, right, top) of a raster in its own coordinate system."""
    height, width = scene.size
    corners = [
        scene.transform @ corner for corner in ((0, 0), (width, 0), (0, height), (width, height))
    ]
    xs, ys = zip(*corners, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def box_of(scene: Scene, grid: Grid, where: object) -> tuple[tuple[int, int, int, int], bool]:
    """Bounding box of a raster in pixels of the grid, and whether it must be resampled.

    Raises
    ------
    PermafrostError : its coordinates cannot be converted to those of the grid.
    """
    from rasterio.crs import CRS
    from rasterio.warp import transform_bounds

    system = CRS.from_user_input(grid.crs)
    bounds = _corners(scene)
    if scene.crs != system:
        try:
            bounds = transform_bounds(scene.crs, system, *bounds)
        except Exception as error:
            raise PermafrostError(
                f"{scene.name} cannot be reprojected to {grid.crs} ({first_line(error)})",
                where=where,
                remedy="declare a crs that covers all of it",
            ) from error
    exact = np.array(grid.pixels(bounds))
    whole = np.rint(exact)
    height, width = scene.size
    same = (
        scene.crs == system
        and scene.upright
        and bool(np.abs(exact - whole).max() < TOLERANCE)
        and whole[2] - whole[0] == width
        and whole[3] - whole[1] == height
    )
    if not same:
        whole = np.concatenate([np.floor(exact[:2] + TOLERANCE), np.ceil(exact[2:] - TOLERANCE)])
    return cast("tuple[int, int, int, int]", tuple(int(side) for side in whole)), same
