"""Interface of data sources: records to choose from, and pixels on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.bands.sensors import Band
from permafrost.data.files.georeference import NOWHERE, Georeference
from permafrost.data.labels.objects import Objects


@dataclass(frozen=True, slots=True)
class Record:
    """One image before it is decoded.

    ``label`` is a class id (classification), a tuple of 0 and 1 per class (multilabel), a number
    (regression), or None if the label is the mask (segmentation), the raster (pixel_regression) or
    the objects (detection). ``split`` is the split's name in the data, or None.

    For objects only: ``objects``, those of the image or those that intersect the window, in pixels
    of the whole image; ``image_id``, ``x_offset``, ``y_offset``, the window's position (None, 0, 0
    for a whole image); ``image_size``, height and width of the whole image, None if only decoding
    shows them; ``clipped``, the number of objects that were cut at the edge of the image;
    ``without_area``, the number of boxes dropped because no area was left.

    ``unusable``: why the image or its annotations cannot be used, and a remedy or None; only if
    `on_error` of the entry may skip the image. Such a record has neither label nor objects.
    """

    sample_id: str
    label: int | float | tuple[int, ...] | None = None
    split: str | None = None
    group_id: str | None = None
    lon: float | None = None
    lat: float | None = None
    date: str | None = None
    objects: Objects | None = field(default=None, compare=False)
    image_id: str | None = None
    x_offset: int = 0
    y_offset: int = 0
    image_size: tuple[int, int] | None = None
    clipped: int = 0
    without_area: int = 0
    unusable: tuple[str, str | None] | None = None

    def placed(self, lon: float | None, lat: float | None) -> Record:
        return replace(self, lon=lon, lat=lat)


@dataclass(frozen=True)
class Decoded:
    """Pixels of one record; its mask (H, W) of class ids or its target raster; its georeference.

    With several modalities, mask, raster and georeference belong to the first.
    """

    image: np.ndarray
    """(C, H, W), or (T, C, H, W) for a series: only the existing dates, in order."""
    mask: np.ndarray | None = None
    mask_name: str | None = None
    """File of the mask or raster, for messages; None without a file."""
    place: Georeference = NOWHERE
    filled: tuple[np.ndarray | None, ...] = ()
    """For each of `arrays`, bool of its shape, True where a declared nodata value was replaced; None if none was."""
    target: np.ndarray | None = None
    """(H, W) float32 target values, NaN without data."""
    further: tuple[np.ndarray, ...] = ()
    """Pixels of the modalities after the first, in the order of the entry, each in the form of `image`."""
    dates: tuple[tuple[str | None, ...] | None, ...] = ()
    """For each of `arrays`, the dates of its T images or of its single image (ISO 8601, None if
    unknown); None if none is known. Empty if no date is known at all. For a single image, it
    applies if the record has no date."""

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The pixels of all modalities, in the order of the entry."""
        return (self.image, *self.further)


class Source(Protocol):
    """A kind of data: one file in ``sources/`` and one line in its registry."""

    bands: list[Band]
    classes: list[str]
    task: str
    ignore_index: int | None

    def records(self) -> list[Record]:
        """All records in a fixed order, without decoding pixels."""
        ...

    def decode(self, index: int) -> Decoded:
        """Pixels of the record at `index`; called from several threads unless `one_thread` is True."""
        ...

    def locate(self, index: int) -> tuple[float | None, float | None]:
        """lon, lat from the image file's header, for records without coordinates."""
        ...


def check_records(records: Sequence[Record], where: object) -> None:
    """Raise `PermafrostError` if there are no images, duplicate names, or coordinates outside the Earth."""
    if not records:
        raise PermafrostError("the data contain no images", where=where, remedy="correct the path")
    twice = [name for name, count in Counter(r.sample_id for r in records).items() if count > 1]
    if twice:
        raise PermafrostError(
            f"{len(twice)} samples are listed more than once, e.g. {', '.join(twice[:5])}",
            where=where,
            remedy="list each image once",
        )
    for record in records:
        lon, lat = record.lon, record.lat
        if (lon is None) != (lat is None) or (
            lon is not None and not (-180 <= lon <= 360 and -90 <= lat <= 90)
        ):
            raise PermafrostError(
                f"{record.sample_id} lies at lon {lon}, lat {lat}, which is not a place on Earth",
                where=where,
                remedy="give degrees (WGS 84) in the columns lon and lat",
            )
