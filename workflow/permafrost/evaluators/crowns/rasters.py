"""Image files by window, so that a raster need not fit in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.windows import Window
from permafrost.evaluators.raster.files import opened


def image_size(path) -> tuple[int, int]:
    """Width and height in pixels, from the file's header."""
    with opened(path) as dataset:
        return dataset.width, dataset.height


def image_sizes(folder, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Width and height of the images `names` in `folder`.

    Raises
    ------
    PermafrostError : an image is not there; names it.
    """
    sizes = {}
    for name in names:
        sizes[name] = image_size(image_file(folder, name))
    return sizes


def image_file(folder, name: str) -> Path:
    """The file of the image `name` in `folder`.

    Raises
    ------
    PermafrostError : it does not exist, or lies outside of the folder: a table of others must not say
        which files are read.
    """
    path = Path(folder) / name
    if not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder)):
        raise PermafrostError(
            f"the image_path {name!r} leads out of the folder {folder}",
            where="--images",
            remedy="give the folder that holds all images",
        )
    try:
        known = path.is_file()
    except OSError:  # a name that is too long for any file
        known = False
    if not known:
        raise PermafrostError(
            "the image does not exist",
            where=path,
            remedy="name the folder that image_path is relative to with --images",
        )
    return path


def read_windows(path, windows: Iterable[Window]) -> Iterator[tuple[Window, np.ndarray]]:
    """Yield each window with its pixels (bands, height, width), reading no more than that."""
    from rasterio.errors import RasterioError
    from rasterio.windows import Window as RasterWindow

    with opened(path) as dataset:
        for window in windows:
            part = RasterWindow(window.x, window.y, window.width, window.height)
            try:
                yield window, dataset.read(window=part)
            except RasterioError as error:
                raise PermafrostError(
                    f"pixels cannot be read ({first_line(error)})", where=path
                ) from error


def read_small(path, longest: int) -> tuple[np.ndarray, float]:
    """The whole image (bands, height, width), thinned out to at most `longest` pixels a side.

    Returns
    -------
    The pixels, and how many pixels of the file one of them stands for.
    """
    with opened(path) as dataset:
        step = max(1.0, max(dataset.width, dataset.height) / longest)
        shape = (dataset.count, round(dataset.height / step), round(dataset.width / step))
        return dataset.read(out_shape=tuple(max(1, side) for side in shape)), step
