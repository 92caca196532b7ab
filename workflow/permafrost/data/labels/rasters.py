"""Rasters of numbers (task ``pixel_regression``): convert stored values to the target of each pixel.

A raster stores one number per pixel, either the target or counts that ``target.scale`` and
``target.offset`` of the entry convert to it. Pixels without data become NaN: NaN in the file,
masked by the file, or a value in ``target.nodata``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from permafrost.data.entry import Target
from permafrost.data.files.decode import (
    FILLS,
    UnreadableImage,
    check_page,
    image_format,
    is_npy,
    one_channel,
    open_tiff,
    read_npy,
    readable,
)
from permafrost.data.labels.masks import decode_mask

KEEP = "keep"
_INDICES = ", whose indices are not numbers to predict"


@dataclass(frozen=True)
class Raster:
    """Stored numbers (H, W) of a file and its header.

    ``nodata`` is the file's nodata value, ``hidden`` (H, W) its mask, True without data; None if
    there is none. ``scale`` and ``offset`` are those of the header.
    """

    values: np.ndarray
    nodata: float | None = None
    hidden: np.ndarray | None = None
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class TargetCoding:
    """Conversion of stored numbers to targets.

    Parameters
    ----------
    nodata : stored values without data.
    keep : whether the file's nodata values count as ordinary values.
    scale, offset : target = stored * scale + offset.
    """

    nodata: tuple[float, ...] = ()
    keep: bool = False
    scale: float = 1.0
    offset: float = 0.0

    noun: ClassVar[str] = "target"
    field: ClassVar[str] = "target"

    @classmethod
    def of(cls, target: Target) -> TargetCoding:
        """The coding that an entry declares."""
        scaling: dict[str, Any] = {"scale": float(target.scale), "offset": float(target.offset)}
        nodata = target.nodata
        if nodata is None or nodata == KEEP:
            return cls(keep=nodata == KEEP, **scaling)
        values = nodata if isinstance(nodata, list) else [nodata]
        return cls(tuple(float(value) for value in values), **scaling)

    def read(self, data: bytes) -> np.ndarray:
        """(H, W) float32 targets of an encoded raster; raises `UnreadableImage` if it cannot be used."""
        return self.decode(decode_raster(data))

    def __call__(self, stored: np.ndarray) -> np.ndarray:
        """(H, W) float32 targets for stored numbers of the same shape."""
        return self.decode(Raster(stored))

    def decode(self, raster: Raster) -> np.ndarray:
        """(H, W) float32 targets, NaN without data; raises `UnreadableImage` for undeclared nodata or other types."""
        self._check_header(raster)
        values = raster.values
        if values.dtype.kind not in "fiu":
            raise UnreadableImage(f"holds {values.dtype} values, which are not numbers to predict")
        gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
        if raster.hidden is not None:
            gone |= raster.hidden
        for value in self.nodata:
            gone |= values == value
        marked = raster.nodata
        if marked is not None and not self.keep and ((values == marked) & ~gone).any():
            raise UnreadableImage(
                f"marks {marked:g} as nodata and holds it",
                remedy=f"say in the entry what is no data: target: {{nodata: {marked:.17g}}},"
                " or target: {nodata: keep}",
            )
        if not (self.nodata or self.keep):
            self._check_fills(values, gone)
        return self._scaled(values, gone)

    def _check_fills(self, values: np.ndarray, gone: np.ndarray) -> None:
        for fill in FILLS:
            if count := int(np.count_nonzero((values == fill) & ~gone)):
                raise UnreadableImage(
                    f"holds {fill:g} in {count} pixels, as files hold where a number is missing",
                    remedy=f"say in the entry what is no data: target: {{nodata: {fill:.17g}}}, or, if it is a number"
                    " like any other, target: {nodata: keep}",
                )

    def _scaled(self, values: np.ndarray, gone: np.ndarray) -> np.ndarray:
        targets = np.where(gone, np.nan, values.astype(np.float64) * self.scale + self.offset)
        with np.errstate(over="ignore"):
            stored = targets.astype(np.float32)
        bad = int(np.count_nonzero(np.isinf(stored)))
        if bad:
            raise UnreadableImage(
                f"holds {bad} values that are infinite, or beyond what 32-bit floats can hold",
                remedy="name what stands for missing pixels with target: {nodata: …}",
            )
        return stored

    def _check_header(self, raster: Raster) -> None:
        if (raster.scale, raster.offset) != (1.0, 0.0) and (raster.scale, raster.offset) != (
            self.scale,
            self.offset,
        ):
            raise UnreadableImage(
                f"says that its numbers have the scale {raster.scale:g} and the offset"
                f" {raster.offset:g}, the entry {self.scale:g} and {self.offset:g}",
                remedy=f"declare target: {{scale: {raster.scale:g}, offset: {raster.offset:g}}}",
            )


def decode_raster(data: bytes) -> Raster:
    """Decode a single-channel raster from TIFF, PNG (8 or 16 bits) or npy.

    Raises
    ------
    UnreadableImage : damaged, a JPEG (its losses change values), or not of one channel.
    """
    if is_npy(data):
        return Raster(_npy(data))
    kind = image_format(data)
    if kind == "tiff":
        return _tiff(data)
    if kind == "png" and data[25:26] == b"\x03":
        raise UnreadableImage(f"has a palette{_INDICES}")
    if kind is None and data:
        raise UnreadableImage("neither TIFF, PNG nor npy")
    if kind == "jpeg":
        raise UnreadableImage(
            "a JPEG, whose losses change values", remedy="store targets as TIFF, PNG or npy"
        )
    try:
        return Raster(decode_mask(data))
    except UnreadableImage as failure:
        raise UnreadableImage(str(failure)) from failure


def _npy(data: bytes) -> np.ndarray:
    array = read_npy(data)
    array = one_channel(array)
    if array.ndim != 2:
        raise UnreadableImage(f"has shape {array.shape}, not (height, width)")
    return array


def _tiff(data: bytes) -> Raster:
    from rasterio.enums import MaskFlags

    with readable(), open_tiff(data) as dataset:
        check_page(dataset, _INDICES)
        if dataset.count != 1:
            raise UnreadableImage(f"has {dataset.count} channels, not one")
        masked = MaskFlags.per_dataset in dataset.mask_flag_enums[0]
        return Raster(
            dataset.read(1),
            dataset.nodata,
            dataset.read_masks(1) == 0 if masked else None,
            float(dataset.scales[0]),
            float(dataset.offsets[0]),
        )
