"""The entry of a dataset: what its images are, where they lie and how they are divided.

The schema of dataset entries describes every key and holds the defaults. `sources.read_entry` makes an entry of
validated JSON. None stands for what an entry leaves open. Light: the plan reads entries before any job runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from permafrost.core.specification import SPLITS

#: units of pictures: nobody says which reflectance a value is
PICTURES = ("uint8", "brightness")


@dataclass(frozen=True, kw_only=True)
class Units:
    """What stored values mean; without `scale`, the unit's own holds. `white` is the reflectance of brightness 1."""

    unit: str
    offset: float
    scale: float | None = None
    white: float | None = None


@dataclass(frozen=True, kw_only=True)
class Splits:
    """Which images train, validate and test.

    Attributes
    ----------
    fractions : of train, val and test; None where the data give the splits.
    map, leave_out : names in the data, by our name and of what is not used.
    block_km, join_km : see `splits.joined_blocks`.
    spatially_random : places were divided at random, though no coordinate may show it.
    """

    method: str
    seed: int
    spatially_random: bool
    fractions: list[float] | None = None
    block_km: float | None = None
    join_km: float | None = None
    map: dict[str, list[str]] | None = None
    leave_out: list[str] | None = None
    val_from_train: float | None = None

    def names_in_data(self) -> dict[str, list[str]]:
        """Our split -> the data's names for it: the same ones unless the entry maps them."""
        return self.map or {split: [split] for split in SPLITS}


@dataclass(frozen=True, kw_only=True)
class Target:
    """The number of an image or a pixel, which is ``stored * scale + offset``.

    ``nodata`` is a stored number, several, or ``keep`` (what files mark as nodata are numbers like any other).
    """

    scale: float
    offset: float
    name: str | None = None
    unit: str | None = None
    nodata: float | list[float] | str | None = None


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """Windows that images are cut into: side in pixels, and the share of it by which they overlap."""

    size: int
    overlap: float


@dataclass(frozen=True, kw_only=True)
class OnError:
    """What to do with images that cannot be read: leave out up to this share of all images."""

    skip_up_to: float


@dataclass(frozen=True, kw_only=True)
class Modality:
    """What the images of one sensor of a dataset of several hold; attributes as those of `DatasetEntry`."""

    bands: list[str | dict]
    sensor: str | None = None
    units: Units | None = None
    nodata: str | dict | None = None


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """A dataset as the catalogue describes it.

    Attributes
    ----------
    kind, source : kind of source (`sources.KINDS`) and its options.
    published : how many images train, validate and test as published, in words.
    images_of : collections that the images are of, see `trained_on` of backbones.
    url, size_bytes, download : where the data can be had, for `data.download`; no result depends on them.
    bands, sensor, units, select, convert, nodata : what the images hold, and how files may be read.
    modalities : by name, of a dataset whose samples have images of several sensors; None where they have one.
    dates : ``one`` image of a place, a ``pair`` before and after a change, or a ``series``.
    most_dates : of a longer series, as many are kept, evenly spread.
    target : None where there are no numbers to predict.
    tiles : None where images stay whole.
    """

    task: str
    kind: str
    source: Any
    splits: Splits
    select: str | list[str]
    convert: list[str]
    dates: str
    dead_classes: list[str]
    allow_missing_classes: bool
    allow_empty_masks: bool
    title: str | None = None
    licence: str | None = None
    citation: str | None = None
    url: str | None = None
    size_bytes: int | None = None
    download: list[dict] | None = None
    published: str | None = None
    images_of: list[str] | None = None
    gsd_m: float | None = None
    sensor: str | None = None
    bands: list[str | dict] | None = None
    units: Units | None = None
    nodata: str | dict | None = None
    modalities: dict[str, Modality] | None = None
    most_dates: int | None = None
    classes: list[str] | None = None
    ignore_index: int | None = None
    mask_values: dict[str, str | None] | None = None
    target: Target | None = None
    tiles: Tiles | None = None
    min_visible: float | None = None
    max_detections: int | None = None
    match_distance: float | None = None
    on_error: OnError | None = None

    def nodata_of(self, modality: str | None) -> str | dict | None:
        """What stands for missing pixels of a modality; None is the only one."""
        own = None if modality is None else self.modalities[modality].nodata
        return own or self.nodata
