"""Requirements on every sample of a dataset, and filling of nodata pixels."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from permafrost.data.entry import Nodata
from permafrost.data.files.decode import FILLS, UnreadableImage
from permafrost.data.records import Decoded

_ISO_DATE = re.compile(r"\d{4}-\d{2}")


@dataclass(frozen=True)
class Expected:
    """Requirements on the images of one modality.

    Parameters
    ----------
    nodata : as the entry declares it.
    name : of the modality; None if there is only one.
    dtype, series, size : common to all images: type, whether they are series, height and width;
        None if not yet known, or if it may differ.
    """

    bands: int
    nodata: Nodata | Literal["keep"] | None
    name: str | None = None
    dtype: np.dtype | None = None
    series: bool | None = None
    size: tuple[int, int] | None = None

    def __call__(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The image with nodata filled, and a mask of it; raises `UnreadableImage` if requirements are violated."""
        wanted = (
            f"({self.bands}, height, width)" if not self.series else f"(dates, {self.bands}, …)"
        )
        if (
            image.ndim not in (3, 4)
            or (self.series is not None and (image.ndim == 4) != self.series)
            or image.shape[-3] != self.bands
            or 0 in image.shape
        ):
            raise UnreadableImage(f"{self._named}has shape {image.shape}, not {wanted}")
        if self.size is not None and image.shape[-2:] != self.size:
            raise UnreadableImage(
                f"{self._named}is {_size(image.shape[-2:])} pixels, that of the first image {_size(self.size)}",
                remedy="list the modality whose images differ in size first, or leave it out",
            )
        if self.dtype is not None and image.dtype != self.dtype:
            raise UnreadableImage(
                f"{self._named}holds {image.dtype} values, the first image {self.dtype}"
            )
        image, filled = self._fill(image)
        if image.dtype.kind == "f" and not np.isfinite(image).all():
            bad = int((~np.isfinite(image)).sum())
            raise UnreadableImage(
                f"{self._named}holds {bad} values that are NaN or infinite (declare nodata in the entry,"
                ' e.g. nodata: {value: "nan", fill: 0})'
            )
        return image, filled

    @property
    def _named(self) -> str:
        return "" if self.name is None else f"its image {self.name} "

    def _fill(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if self.nodata is None:
            self._check_fills(image)
        if self.nodata is None or self.nodata == "keep":
            return image, None
        value, fill = self.nodata.value, self.nodata.fill
        gone = np.isnan(image) if value == "nan" else image == value
        if not gone.any():
            return image, None
        if np.array(fill).astype(image.dtype) != fill:
            raise UnreadableImage(f"cannot hold the nodata fill {fill} in {image.dtype}")
        return np.where(gone, np.array(fill, image.dtype), image), gone

    def _check_fills(self, image: np.ndarray) -> None:
        if image.dtype.kind not in "fi" or (
            image.min() > max(FILLS[:-1]) and image.max() < FILLS[-1]
        ):
            return
        for fill in FILLS:
            if count := int(np.count_nonzero(image == fill)):
                raise UnreadableImage(
                    f"{self._named}holds {fill:g} in {count} pixels, as files hold where there is no data",
                    remedy=f"say in the entry what nodata is: nodata: {{value: {fill:.17g}, fill: 0}}, or, if it is a"
                    " number like any other, nodata: keep",
                )


@dataclass(frozen=True)
class Cleaning:
    """Requirements on every sample of a dataset; fills nodata pixels.

    Parameters
    ----------
    images : requirements on each modality.
    empty_masks : whether a mask may be completely unlabelled.
    dates, most_dates : as in `entry.DatasetEntry`.
    """

    images: tuple[Expected, ...]
    classes: int
    ignore_index: int | None
    empty_masks: bool = False
    dates: str = "one"
    most_dates: int | None = None

    def __call__(self, decoded: Decoded) -> Decoded:
        """The sample with nodata filled; raises `UnreadableImage` if requirements are violated."""
        if len(decoded.arrays) != len(self.images):
            raise UnreadableImage(
                f"has images of {len(decoded.arrays)} modalities, the entry declares {len(self.images)}"
            )
        decoded = self._dated(decoded)
        cleaned = [
            expected(array) for expected, array in zip(self.images, decoded.arrays, strict=True)
        ]
        image, *further = (array for array, _ in cleaned)
        if decoded.mask is not None:
            self._check_mask(decoded, image.shape[-2:])
        if decoded.target is not None:
            _check_shape(decoded.target, "target", decoded.mask_name, image.shape[-2:])
        filled = tuple(gone for _, gone in cleaned)
        return replace(decoded, image=image, further=tuple(further), filled=filled)

    def _dated(self, decoded: Decoded) -> Decoded:
        """The sample with the wanted number of dates; refuses wrong numbers of dates and wrong order."""
        arrays = decoded.arrays
        if self.dates == "one" and any(array.ndim == 4 for array in arrays):
            counts = " and ".join(str(len(one)) for one in arrays if one.ndim == 4)
            raise UnreadableImage(
                f"has images of {counts} dates, and the entry expects one",
                remedy="say what they are: dates: series, or dates: pair (before and after)",
            )
        if self.dates == "one":
            return decoded
        if all(array.ndim != 4 for array in arrays):
            raise UnreadableImage(
                f"has one image of shape {arrays[0].shape}, not a {self.dates} of dates",
                remedy="leave dates out of the entry, or correct what the source takes for its image",
            )
        dates = decoded.dates or (None,) * len(arrays)
        kept = []
        for array, known in zip(arrays, dates, strict=True):
            known = known if known is None or any(known) else None
            if array.ndim == 4:
                self._check_dates(array, known)
                array, known = self._thinned(array, known)
            kept.append((array, known))
        (image, *further), dates = zip(*kept, strict=True)
        return replace(decoded, image=image, further=tuple(further), dates=dates)

    def _check_dates(self, array: np.ndarray, dates: tuple[str | None, ...] | None) -> None:
        if self.dates == "pair" and len(array) != 2:
            raise UnreadableImage(f"has {len(array)} dates, and a pair has two")
        if dates is None:
            return
        if len(dates) != len(array):
            raise UnreadableImage(f"has {len(array)} images and {len(dates)} dates")
        known = [date for date in dates if is_ordered(date)]
        late = [f"{b} after {a}" for a, b in itertools.pairwise(known) if b < a]
        if late:
            raise UnreadableImage(f"has dates out of order: {late[0]}")

    def _thinned(self, array: np.ndarray, dates: tuple[str | None, ...] | None):
        if self.most_dates is None or len(array) <= self.most_dates:
            return array, dates
        # round halves up, for even and odd numbers alike
        chosen = np.floor(np.linspace(0, len(array) - 1, self.most_dates) + 0.5).astype(int)
        return array[chosen], None if dates is None else tuple(dates[i] for i in chosen)

    def _check_mask(self, decoded: Decoded, shape: tuple[int, ...]) -> None:
        mask = decoded.mask
        name = _check_shape(mask, "mask", decoded.mask_name, shape)
        labelled = (mask >= 0) & (mask < self.classes)
        ignored = (
            np.zeros_like(labelled) if self.ignore_index is None else mask == self.ignore_index
        )
        if not (labelled | ignored).all():
            values = np.unique(mask[~(labelled | ignored)])
            more = f" and {len(values) - 5} more" if len(values) > 5 else ""
            raise UnreadableImage(
                f"{name} holds the values {', '.join(map(str, values[:5]))}{more}: no class id below"
                f" {self.classes}, nor the ignore value ({self.ignore_index})",
                remedy="declare what these values mean: classes, mask_values, ignore_index",
            )
        if not self.empty_masks and not labelled.any():
            raise UnreadableImage(
                f"{name} has no labelled pixel",
                remedy="set allow_empty_masks: true to keep images without a label",
            )


def is_ordered(date: str | None) -> bool:
    """Whether a date can be sorted as text; names of months cannot."""
    return date is not None and _ISO_DATE.match(date) is not None


def _check_shape(array: np.ndarray, noun: str, file: str | None, shape: tuple[int, ...]) -> str:
    """Name of an image's mask or target, for messages; raises `UnreadableImage` if its size is not the image's."""
    name = f"its {noun} {file}" if file else f"its {noun}"
    if array.shape != shape:
        raise UnreadableImage(f"{name} is {_size(array.shape)} pixels, the image {_size(shape)}")
    return name


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
