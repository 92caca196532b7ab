"""What a source of data offers: records to choose from, and pixels on demand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from .bands import Band
from .georeference import NOWHERE, Georeference


@dataclass(frozen=True)
class Record:
    """One image before it is decoded.

    ``label`` is a class id (classification), a tuple of 0 and 1 per class (multilabel), or None where
    the mask is the label (segmentation). ``split`` is the data's own name for its part, or None.
    """

    sample_id: str
    label: int | tuple[int, ...] | None = None
    split: str | None = None
    group_id: str | None = None
    lon: float | None = None
    lat: float | None = None
    date: str | None = None

    def placed(self, lon: float | None, lat: float | None) -> Record:
        return replace(self, lon=lon, lat=lat)


@dataclass(frozen=True)
class Decoded:
    """Pixels (C, H, W) of one record; its mask (H, W) of class ids; where its file says it lies."""

    image: np.ndarray
    mask: np.ndarray | None = None
    mask_name: str | None = None
    """The file of the mask, for messages; None where it has none."""
    place: Georeference = NOWHERE
    filled: np.ndarray | None = None
    """(C, H, W) bool, True where a declared nodata value was replaced; None where none was."""


class Source(Protocol):
    """A kind of data. One file in ``sources/`` and one line in its registry."""

    bands: list[Band]
    classes: list[str]
    task: str
    ignore_index: int | None

    def records(self) -> list[Record]:
        """All records in a fixed order, without decoding pixels."""
        ...

    def decode(self, index: int) -> Decoded:
        """Pixels of the record at `index`; called from several threads."""
        ...

    def locate(self, index: int) -> tuple[float | None, float | None]:
        """lon, lat from the image file's header, where the record itself has none."""
        ...
