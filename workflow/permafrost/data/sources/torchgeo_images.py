"""Images of several keys and dates in a torchgeo sample, with their dates and locations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.data.bands.sensors import Band
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.georeference import Georeference
from permafrost.data.sources.reading import stored_as
from permafrost.data.sources.torchgeo_samples import listed_dates

if TYPE_CHECKING:
    from permafrost.data.sources.torchgeo import TorchgeoOptions

#: keys of a sample for the date (seconds since 1970) and the location (degrees)
_TIMES = ("time", "date")
_PLACES = (("lon", "lat"), ("centroid_lon", "centroid_lat"))


class SampleImages:
    """Reads the images of a sample as the entry declares them."""

    def __init__(self, entry: DatasetEntry, bands: Sequence[Band], *, where: object) -> None:
        options: TorchgeoOptions = entry.source
        self._where, self._dates, self._axes = where, entry.dates, options.axes
        names = list(dict.fromkeys(band.modality for band in bands))
        self._keys = _by_modality(options.image_key, names, "image_key", where)
        self._dtypes = _by_modality(options.dtype, names, "dtype", where)
        self._bands = {name: sum(band.modality == name for band in bands) for name in names}

    def __call__(self, sample: dict) -> tuple[np.ndarray, ...]:
        """The images of each modality, in the order of the entry: (C, H, W), or (T, C, H, W) for dates.

        Raises
        ------
        PermafrostError : the sample has no such key.
        UnreadableImage : images of a sample differ in size, or have a wrong number of axes.
        """
        return tuple(self._pixels(sample, name) for name in self._keys)

    def stored(self, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """The images in the declared types; raises `UnreadableImage` if a value does not fit."""
        dtypes = self._dtypes.values()
        return tuple(
            stored_as(array, None if dtype is None else np.dtype(dtype))
            for array, dtype in zip(arrays, dtypes, strict=True)
        )

    def _pixels(self, sample: dict, modality: str | None) -> np.ndarray:
        keys = self._keys[modality]
        if isinstance(keys, str):
            return self._ordered(self._value(sample, keys), self._bands[modality])
        images = [self._value(sample, key) for key in keys]
        dated = self._dates != "one"
        # for dates, channels must agree as well
        shapes = [image.shape if dated else image.shape[-2:] for image in images]
        if any(image.ndim != 3 for image in images) or len(set(shapes)) > 1:
            shown = ", ".join(
                f"{key} {_size(image.shape)}" for key, image in zip(keys, images, strict=True)
            )
            raise UnreadableImage(
                f"its images are no single ones of one size: {shown} (bands x height x width)",
                remedy="name keys whose images lie on one grid, or make them modalities",
            )
        return np.stack(images) if dated else np.concatenate(images)

    def _value(self, sample: dict, key: str) -> np.ndarray:
        if key not in sample:
            raise PermafrostError(
                f"samples have no {key!r}, only {', '.join(map(str, sample))}",
                where=self._where,
                remedy="correct image_key",
            )
        try:
            return np.asarray(sample[key])
        except (ValueError, TypeError) as error:
            raise UnreadableImage(f"its {key} is no array ({first_line(error)})") from error

    def _ordered(self, image: np.ndarray, bands: int) -> np.ndarray:
        """(C, H, W) of one image, (T, C, H, W) of several; a single date becomes one image if the entry expects one."""
        if self._axes == "(TC)HW" and image.ndim == 3:
            if len(image) % bands:
                raise UnreadableImage(
                    f"has {len(image)} channels, which are no dates of {bands} bands",
                    remedy="declare as many bands as a date has, or correct axes",
                )
            image = image.reshape(-1, bands, *image.shape[1:])
        if self._dates == "one" and image.ndim == 4 and len(image) == 1:
            return image[0]
        return image

    def dates(
        self, part, number: int, sample: dict, arrays: tuple[np.ndarray, ...]
    ) -> tuple[tuple[str | None, ...] | None, ...]:
        """The dates of the images of each modality (ISO 8601), by the sample or its class; None if unknown.

        Samples do not state which modality their dates belong to: it is the first.
        """
        single = arrays[0].ndim == 3
        first = _times(sample)
        if first is None:
            first = listed_dates(part, number, 1 if single else len(arrays[0]))
        if first is None or (single and len(first) != 1):
            return ()
        return (first, *(None for _ in arrays[1:]))


def _times(sample: dict) -> tuple[str | None, ...] | None:
    for key in _TIMES:
        if key in sample:
            seconds = np.asarray(sample[key], np.float64).ravel().tolist()
            return tuple(map(_iso_date, seconds))
    return None


def _iso_date(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    # not a number, or a year outside the calendar
    except (ValueError, OverflowError, OSError):
        return None


def sample_point(sample: dict, place: Georeference) -> Georeference:
    """The georeference, with longitude and latitude of the sample if it has none."""
    if place.lon is not None:
        return place
    for keys in _PLACES:
        if all(key in sample for key in keys):
            # a series repeats them for each date
            lon, lat = (float(np.asarray(sample[key], np.float64).ravel()[0]) for key in keys)
            if math.isfinite(lon) and math.isfinite(lat):
                return replace(place, lon=lon, lat=lat)
    return place


def _by_modality(option, names: list[str | None], which: str, where: object) -> dict:
    """An option's value for each modality."""
    if not isinstance(option, dict):
        if names != [None] and which == "image_key":
            raise PermafrostError(
                "image_key names no modality, but the entry has several",
                where=where,
                remedy=f"give one per modality: image_key: {{{names[0]}: …, {names[1]}: …}}",
            )
        return dict.fromkeys(names, option)
    strange = sorted(set(option) ^ set(names) - {None})
    missing = [name for name in strange if name in names]
    if (missing and which == "image_key") or set(strange) - set(missing):
        raise PermafrostError(
            f"{which} and modalities of the entry do not name the same: {', '.join(strange)}",
            where=where,
            remedy=f"name each modality in {which}, and no other",
        )
    return {name: option.get(name) for name in names}


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
