"""Small georeferenced rasters and polygons on disk, for the tests of grids."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers.datasets.images import RGB_ENTRY, geotiff

UTM = "EPSG:32631"
LEFT, TOP, STEP = 500_000.0, 5_000_000.0, 10.0
CLASSES = ["land", "sea", "town"]


def write_raster(path: Path, array: np.ndarray, *, column=0, row=0, step=STEP, **profile) -> Path:
    """A GeoTIFF of (C, H, W) in blocks of 16 pixels, whose corner lies `column` and `row` pixels of 10 m inside."""
    from rasterio.transform import from_origin

    path.parent.mkdir(parents=True, exist_ok=True)
    place = {
        "crs": UTM,
        "transform": from_origin(LEFT + column * STEP, TOP - row * STEP, step, step),
        "tiled": True,
        "blockxsize": 16,
        "blockysize": 16,
    }
    path.write_bytes(geotiff(array, **{**place, **profile}))
    return path


def sparse_raster(path: Path, side: int, bands: int = 3, **profile) -> Path:
    """A GeoTIFF of many pixels and few bytes: none of its blocks is written."""
    import rasterio
    from rasterio.transform import from_origin

    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        count=bands,
        height=side,
        width=side,
        dtype="uint8",
        crs=UTM,
        transform=from_origin(LEFT, TOP, STEP, STEP),
        tiled=True,
        SPARSE_OK=True,
        **profile,
    ):
        pass
    return path


def pixels(height: int, width: int, *, bands: int = 3, seed: int = 0) -> np.ndarray:
    """(C, H, W) uint8 from 1 to 250, smooth from left to right and noisy."""
    rng = np.random.default_rng(seed)
    slope = np.linspace(20, 200, width)[None, None] + 10 * np.arange(bands)[:, None, None]
    return np.clip(slope + rng.normal(0, 15, (bands, height, width)), 1, 250).astype(np.uint8)


def classes(height: int, width: int, *, seed: int = 0) -> np.ndarray:
    """(1, H, W) uint8 class ids in blobs of 8 pixels."""
    coarse = np.random.default_rng(seed).integers(0, 3, (height // 8 + 1, width // 8 + 1))
    return np.kron(coarse, np.ones((8, 8), int))[None, :height, :width].astype(np.uint8)


def write_pair(
    folder: Path, height: int = 96, width: int = 128, **profile
) -> tuple[np.ndarray, np.ndarray]:
    """``image.tif`` and ``mask.tif`` of one place; what they hold."""
    image, mask = pixels(height, width), classes(height, width)
    write_raster(folder / "image.tif", image, **profile)
    write_raster(folder / "mask.tif", mask)
    return image, mask


def grid_entry(folder: Path, source: dict | None = None, **more) -> dict:
    """An entry for the tiles of ``image.tif`` and ``mask.tif``, in blocks; None in `source` leaves an option out."""
    options = {
        "kind": "grid",
        "path": str(folder),
        "images": "image.tif",
        "masks": "mask.tif",
        "size": 16,
        "blocks": {"tiles": 1},
        **(source or {}),
    }
    return {
        **RGB_ENTRY,
        "task": "segmentation",
        "classes": CLASSES,
        "source": {key: value for key, value in options.items() if value is not None},
        "splits": {"method": "group"},
        **more,
    }


def windows(source) -> list[tuple[int, int]]:
    """First column and row of each tile, from its place."""
    left, top = source.grid.left, source.grid.top
    places = [source.decode(index).place.transform for index in range(len(source.records()))]
    across, down = source.grid.step
    return [(round((p[2] - left) / across), round((top - p[5]) / down)) for p in places]
