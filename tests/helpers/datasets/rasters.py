"""Small datasets of images and rasters of numbers on disk."""

from __future__ import annotations

import io

import numpy as np

from helpers.datasets.images import RANDOM, RGB_ENTRY, encode, geotiff, photo


def heights(seed: int, size=(24, 32)) -> np.ndarray:
    """(H, W) float32 numbers, a corner of which has no data."""
    rng = np.random.default_rng(seed)
    made = (rng.normal(size=size) * 4 + seed).astype(np.float32)
    made[:5, : 3 + seed % 4] = np.nan
    return made


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def raster_files(count: int = 12, *, ending="tif", store=None, sizes=((24, 32),)) -> dict:
    """``{"images/00.png": bytes, "targets/00.tif": bytes, …}``; `store` encodes `heights`."""
    store = store or (lambda target: geotiff(target[None]))
    files = {}
    for number in range(count):
        size = sizes[number % len(sizes)]
        files[f"images/{number:02d}.png"] = encode(photo(number, size))
        files[f"targets/{number:02d}.{ending}"] = store(heights(number, size))
    return files


def raster_entry(path, source: dict | None = None, **more) -> dict:
    """An entry for pairs of images and rasters in a folder or an archive."""
    place = {"kind": "folder", "path": str(path), **(source or {})}
    return {**RGB_ENTRY, "task": "pixel_regression", "source": place, "splits": RANDOM, **more}
