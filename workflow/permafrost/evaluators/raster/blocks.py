"""Read reference and prediction block by block, for counting.

Rasters of any size pass through memory in square blocks, which are later the units of the
bootstrap. Neighbouring pixels are correlated, so resampling single pixels would give far too narrow
intervals.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.files.opening import UnreadableImage
from permafrost.evaluators.raster.files import check_same_grid, opened
from permafrost.evaluators.raster.pixel_areas import PixelAreas

BLOCK = 512


@dataclass(frozen=True)
class Block:
    """A rectangle of both rasters.

    Attributes
    ----------
    reference : (h, w) class codes.
    prediction : (h, w) class codes, or (K, h, w) scores.
    reference_valid, prediction_valid : (h, w) bool: False where there is no data.
    place : position in the raster.
    names : names of reference and prediction, for messages.
    areas : (h, w) true areas of the pixels, or broadcastable to it; None if all are equal.
    """

    reference: np.ndarray
    prediction: np.ndarray
    reference_valid: np.ndarray
    prediction_valid: np.ndarray
    place: str = "block"
    names: tuple[str, str] = ("reference", "prediction")
    areas: np.ndarray | None = None

    def where(self, number: int) -> str:
        """The position of the block in the reference (0) or the prediction (1), for messages."""
        return f"{self.names[number]}: {self.place}"


@dataclass(frozen=True)
class BlockReading:
    """How raster files are read.

    Attributes
    ----------
    block : width and height of a block, in pixels.
    reference_band, prediction_band : the band with the classes, from 1; required only for files
        with more than one band.
    keep_nodata : read the files' nodata value as a class instead of as missing.
    by_pixel : see `files.check_same_grid`.
    """

    block: int = BLOCK
    reference_band: int | None = None
    prediction_band: int | None = None
    keep_nodata: bool = False
    by_pixel: bool = False


def raster_blocks(
    reference,
    prediction,
    how: BlockReading,
    *,
    scores: bool = False,
    areas: PixelAreas | None = None,
) -> Generator[Block, None, None]:
    """Yield two raster files in square blocks, row by row.

    Parameters
    ----------
    scores : the prediction holds scores, one band per class; all bands are read.
    areas : areas of the pixels; None if all are equal.

    Raises
    ------
    PermafrostError : rasters that cannot be read, have different grids or need a choice of band.
    """
    block, keep_nodata = how.block, how.keep_nodata
    if block < 1:
        raise PermafrostError(f"block {block} is below 1 pixel", remedy="give at least 1")
    with opened(reference) as truth, opened(prediction) as predicted:
        check_same_grid(truth, predicted, by_pixel=how.by_pixel)
        own = _bands(truth, how.reference_band)
        other = list(predicted.indexes) if scores else _bands(predicted, how.prediction_band)
        for top in range(0, truth.height, block):
            for left in range(0, truth.width, block):
                place = f"pixels from column {left}, row {top}"
                codes, codes_valid = _read(truth, own, left, top, block, keep_nodata)
                found, found_valid = _read(predicted, other, left, top, block, keep_nodata)
                height, width = codes_valid.shape
                yield Block(
                    codes[0],
                    found if scores else found[0],
                    codes_valid,
                    found_valid,
                    place,
                    (str(reference), str(prediction)),
                    None if areas is None else areas.window(left, top, width, height),
                )


def _bands(dataset, band: int | None) -> list[int]:
    if band is None and dataset.count > 1:
        raise PermafrostError(
            f"{dataset.count} bands where one with classes is needed",
            where=dataset.name,
            remedy="choose one (--reference-band, --prediction-band), or give scores as --logits",
        )
    if band is not None and band not in dataset.indexes:
        raise PermafrostError(
            f"there is no band {band}", where=dataset.name, remedy=f"it has {dataset.count}"
        )
    return [band or 1]


def _read(dataset, bands: list[int], left: int, top: int, block: int, keep_nodata: bool):
    from rasterio.errors import RasterioError
    from rasterio.windows import Window

    width, height = min(block, dataset.width - left), min(block, dataset.height - top)
    try:
        values = dataset.read(bands, window=Window(left, top, width, height))
    except UnreadableImage as error:
        raise PermafrostError(str(error), where=dataset.name, remedy=error.remedy) from error
    except RasterioError as error:
        raise PermafrostError(
            f"pixels cannot be read ({first_line(error)})", where=dataset.name
        ) from error
    valid = np.ones(values.shape[1:], bool)
    if not keep_nodata:
        for band, plane in zip(bands, values, strict=True):
            nodata = dataset.nodatavals[band - 1]
            if nodata is not None:
                valid &= ~np.isnan(plane) if nodata != nodata else plane != nodata
    return values, valid
