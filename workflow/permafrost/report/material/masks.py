"""Read a table of predicted masks for the report: confusion per image, and the kept masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.tables import read_table
from permafrost.data.files.opening import open_picture
from permafrost.statistics.predictions.columns import array_of

SHOWN = ("drawn", "best", "worst")
_COLUMNS = ["sample_id", "confusion", "shown", "mask"]


@dataclass(frozen=True)
class DensePredictions:
    """The predictions of a segmentation probe on the test set.

    Attributes
    ----------
    sample_ids : N names; confusion : (N, K, K) int64, rows true, columns predicted.
    shown : ``drawn``, ``best``, ``worst`` -> rows whose mask is kept.
    masks : row -> (h, w) class ids at the scored resolution.
    metadata : of the table.
    """

    sample_ids: list[str]
    confusion: np.ndarray
    shown: dict[str, list[int]]
    masks: dict[int, np.ndarray]
    metadata: dict

    @property
    def total(self) -> np.ndarray:
        """(K, K) confusion matrix summed over images."""
        return self.confusion.sum(axis=0)

    def accuracy(self, row: int) -> float:
        """Share of the image's scored pixels with the right class; NaN without scored pixels."""
        pixels = self.confusion[row].sum()
        return float(np.trace(self.confusion[row]) / pixels) if pixels else float("nan")


def read_dense(path, *, expect: str | None = None) -> DensePredictions:
    """Read a table of predicted masks.

    Raises
    ------
    PermafrostError : the table is missing, damaged or from another plan, or a kept mask cannot be
        decoded.
    """
    table, metadata = read_table(path, expect=expect, columns=_COLUMNS)
    classes = len(metadata["classes"])
    counts = array_of(table, "confusion", classes**2)
    return DensePredictions(
        table["sample_id"].to_pylist(),
        counts.reshape(-1, classes, classes),
        *kept_pictures(table, "mask", lambda data: decode_mask_png(data, path)),
        metadata,
    )


def kept_pictures(
    table: pa.Table, column: str, decode: Callable[[bytes], np.ndarray]
) -> tuple[dict[str, list[int]], dict[int, np.ndarray]]:
    """Reason for showing images -> rows; and row -> the decoded prediction kept in the table."""
    shown = table["shown"].to_pylist()
    packed = {row: table[column][row].as_py() for row, kind in enumerate(shown) if kind}
    return (
        {kind: [row for row, value in enumerate(shown) if value == kind] for kind in SHOWN},
        {row: decode(data) for row, data in packed.items() if data is not None},
    )


def decode_mask_png(data: bytes, where) -> np.ndarray:
    """(h, w) class ids of a PNG of one channel with 8 or 16 bits."""
    try:
        with open_picture(data, "PNG") as image:
            array = np.asarray(image)
    except Exception as error:  # decoders fail in many ways on damaged bytes
        raise unreadable("mask", first_line(error), where) from error
    if array.ndim != 2 or array.dtype.kind not in "ui":
        raise unreadable("mask", f"it holds {array.dtype} pixels of shape {array.shape}", where)
    return array.astype(np.int32)


def unreadable(what: str, problem: str, where) -> PermafrostError:
    """The error of a predicted mask or raster that cannot be decoded."""
    return PermafrostError(
        f"a predicted {what} in the table cannot be read ({problem})",
        where=where,
        remedy="delete the file and run snakemake again",
    )
