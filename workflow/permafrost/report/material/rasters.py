"""Read a table of predicted rasters for the report: errors per image, and the kept rasters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import first_line
from permafrost.core.tables import read_table
from permafrost.data.files.opening import UnreadableImage, load_npy
from permafrost.report.material.masks import kept_pictures, unreadable
from permafrost.statistics.predictions.columns import array_of

_COLUMNS = ["sample_id", "pixels", "squared_error", "shown", "raster"]


@dataclass(frozen=True)
class RasterPredictions:
    """The predictions of a pixel regression probe on the test set.

    Attributes
    ----------
    sample_ids : N names; rmse : (N,) of each image, NaN without valid pixels.
    shown : ``drawn``, ``best``, ``worst`` -> rows whose raster is kept.
    rasters : row -> (h, w) float32 predicted numbers, subsampled to every n-th pixel if large.
    metadata : of the table.
    """

    sample_ids: list[str]
    rmse: np.ndarray
    shown: dict[str, list[int]]
    rasters: dict[int, np.ndarray]
    metadata: dict


def read_rasters(path, *, expect: str | None = None) -> RasterPredictions:
    """Read a table of predicted rasters.

    Raises
    ------
    PermafrostError : the table is missing, damaged or from another plan, or a kept raster cannot be
        decoded.
    """
    table, metadata = read_table(path, expect=expect, columns=_COLUMNS)
    pixels, squares = (array_of(table, name) for name in ("pixels", "squared_error"))
    rmse = np.sqrt(np.divide(squares, pixels, out=np.full(len(pixels), np.nan), where=pixels > 0))
    return RasterPredictions(
        table["sample_id"].to_pylist(),
        rmse,
        *kept_pictures(table, "raster", lambda data: _decoded(data, path)),
        metadata,
    )


def _decoded(data: bytes, where) -> np.ndarray:
    try:
        array = load_npy(data)
    except (ValueError, EOFError, OSError, UnreadableImage) as error:
        raise unreadable("raster", first_line(error), where) from error
    if array.ndim != 2 or array.dtype != np.float32:
        raise unreadable("raster", f"it holds {array.dtype} numbers of shape {array.shape}", where)
    return array
