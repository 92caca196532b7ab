"""The entry of a dataset: what its images are, where they lie and how they are divided.

None stands for what an entry leaves open. Light: the plan reads entries before any job runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Gt, Interval, Len, MinLen

from permafrost.core.options import (
    Above0,
    AnyDifferent,
    Different,
    LeftOut,
    Matches,
    Name,
    Natural,
    Options,
    OrNull,
    Positive,
    Share,
    Some,
    Text,
    Words,
)
from permafrost.core.specification import SPLITS
from permafrost.core.tasks import TASKS

#: units of pictures: nobody says which reflectance a value is
PICTURES = ("uint8", "brightness")

Split = Literal["train", "val", "test"]
Task = Literal[tuple(name for name, task in TASKS.items() if task.of_datasets)]
UnitName = Literal[
    *PICTURES, "digital_number", "reflectance", "db", "linear_power", "kelvin", "metre"
]
ModalityName = Annotated[
    str,
    Matches("letters, digits, - and _, not first", r"^[A-Za-z0-9][A-Za-z0-9_-]*$(?!\n)"),
]
#: types that pixels are stored in
StoredType = Literal["uint8", "int16", "uint16", "int32", "uint32", "float32"]


@dataclass(frozen=True, kw_only=True)
class Units(Options):
    """What the stored values of all bands mean; a band may declare its own, and a modality."""

    unit: UnitName
    """uint8: 8-bit brightness; brightness: that of other pictures, or counts whose scale to reflectance nobody says,
    needs a scale to [0, 1]; digital_number: counts, needs a scale; reflectance: fraction; db: decibels;
    linear_power: radar power; kelvin: brightness temperature; metre: height."""
    scale: LeftOut[float] = None
    """physical = value * scale + offset. Left out, that of the unit."""
    offset: float = 0
    white: LeftOut[Above0] = None
    """Of uint8 and brightness, the reflectance that the brightest value shows, where those who made the pictures say
    so (.3558 in Sentinel-2's true-colour images). Weights for reflectance can then be fed them."""


@dataclass(frozen=True, kw_only=True)
class BandOptions(Options):
    """A band of which more is said than its name; what is left out is as its sensor has it."""

    PLAIN = True

    name: str
    """True name of the band."""
    common_name: OrNull[str] = None
    """red, green, blue, nir, …"""
    wavelength_nm: OrNull[Above0] = None
    """Centre in nanometres."""
    width_nm: OrNull[Above0] = None
    """Width in nanometres."""
    gsd_m: OrNull[Above0] = None
    """Ground distance of the sensor's own pixels in metres."""
    level: OrNull[Literal["L1C", "L2A", "GRD", "RTC"]] = None
    """Level of processing."""
    polarisation: OrNull[Literal["VV", "VH", "HH", "HV"]] = None
    """Of radar."""
    orbit: OrNull[Literal["ascending", "descending"]] = None
    """Of radar."""
    sensor: LeftOut[str] = None
    """Sensor of this band where bands of several are stacked."""
    unit: LeftOut[UnitName] = None
    """As in units, which are those of the other bands."""
    scale: LeftOut[float] = None
    """physical = value * scale + offset."""
    offset: LeftOut[float] = None
    white: LeftOut[Above0] = None
    """As in units."""


@dataclass(frozen=True, kw_only=True)
class Nodata(Options):
    """Missing pixels of the files."""

    value: float | Literal["nan"]
    """The missing value, or "nan"."""
    fill: float
    """What the store holds instead."""


@dataclass(frozen=True, kw_only=True)
class Images(Options):
    """What the images of one sensor hold."""

    sensor: LeftOut[str] = None
    """Sensor that all bands belong to, which gives their wavelengths and widths: sentinel2-l1c, sentinel2-l2a,
    sentinel2, sentinel1, sentinel1-grd, sentinel1-rtc, sentinel3-olci, landsat5, landsat7, landsat8, landsat9, hls,
    hls-l30, hls-s30, planetscope-4, planetscope-8, worldview2, worldview3, naip, aerial, rgb, dem. Without it, give
    wavelengths band by band."""
    bands: LeftOut[Some[str | BandOptions]] = None
    """The bands in the order of the files: names that the sensor knows, or mappings. Required but for demo."""
    units: LeftOut[Units] = None
    nodata: LeftOut[Literal["keep"] | Nodata] = None
    """What stands for missing pixels. They are replaced by fill in the store and left out of the band statistics.
    `keep`: values that the files mark as nodata are pixels like any other. Without it, NaN and marked pixels are an
    error."""


@dataclass(frozen=True, kw_only=True)
class Modality(Images):
    """What the images of one sensor of a dataset of several hold."""

    bands: Some[str | BandOptions]
    """The bands in the order of the files: names that the sensor knows, or mappings."""


@dataclass(frozen=True, kw_only=True)
class Target(Options):
    """What the number of an image (regression) or a pixel (pixel_regression) is, in words for figures; and how rasters
    store it.
    """

    RULES = {"allOf": [{"properties": {"scale": {"not": {"const": 0}}}}]}

    name: LeftOut[Text] = None
    """What the number is, in words for figures. Default is the name of the column or key."""
    unit: LeftOut[Text] = None
    """Of the number, for figures."""
    nodata: LeftOut[float | Different[float] | Literal["keep"]] = None
    """Stored numbers that mean no data (pixel_regression), besides NaN, which always does. `keep` says that what
    files mark as nodata are numbers like any other; without it, marked pixels are an error unless they are named
    here. Pixels without data are neither learned nor scored."""
    scale: float = 1
    """target = stored number * scale + offset (pixel_regression)."""
    offset: float = 0


@dataclass(frozen=True, kw_only=True)
class Splits(Options):
    """Which images train, validate and test."""

    RULES = {
        "if": {"properties": {"method": {"enum": ["random", "group", "block"]}}},
        "then": {"properties": {"fractions": {"default": [0.6, 0.2, 0.2]}}},
    }

    method: Literal["given", "random", "group", "block"] = "given"
    """given by the data; random, stratified by class or tenth of the target; whole groups; squares on the ground."""
    fractions: LeftOut[
        Annotated[list[Share], Len(3, 3), Words("shares: train, validation, test")]
    ] = None
    """Shares of train, val and test for random, group and block."""
    seed: Natural = 0
    """Seed of splits that are made."""
    block_km: LeftOut[Above0] = None
    """Side of a square for block."""
    join_km: LeftOut[Above0] = None
    """For block: squares with images whose centres are nearer to each other than this are one block, so that images
    that touch or overlap are never in two splits."""
    map: LeftOut[dict[Split, Different[str]]] = None
    """Our split to the data's names for it, for given. Default is the same names."""
    leave_out: LeftOut[Different[str]] = None
    """The data's splits that are not used, for given."""
    val_from_train: LeftOut[Share] = None
    """Share of train set aside as val where the data gives none; whole groups if known, else stratified by class."""
    spatially_random: bool = False
    """True where places were divided at random, so that test lies among train; marked in every score. Found out by
    itself where groups or coordinates show it."""

    def names_in_data(self) -> dict[str, list[str]]:
        """Our split -> the data's names for it: the same ones unless the entry maps them."""
        return self.map or {split: [split] for split in SPLITS}


@dataclass(frozen=True, kw_only=True)
class Tiles(Options):
    """Cut every image into windows, each a sample of its own (detection, point_detection). Images are split first, so
    that all windows of one stand in one split. TIFFs are read window by window and may be larger than memory.
    """

    size: Positive
    """Side of a window in pixels."""
    overlap: Annotated[float, Interval(ge=0, lt=1)] = 0.05
    """Share of its side by which a window overlaps the next."""


@dataclass(frozen=True, kw_only=True)
class OnError(Options):
    """What to do with images that cannot be read, or whose annotations or label cannot be used. Without it, they are
    an error that names them.
    """

    skip_up_to: Share
    """Leave out such images, for every backbone alike, up to this share of all (0.01: one of a hundred); the card
    names them, with the reason. More are an error."""


@dataclass(frozen=True, kw_only=True)
class Download(Options):
    """One file of the web, or files of a dataset repository of the Hugging Face hub."""

    RULES = {
        "oneOf": [
            {"required": ["url"]},
            {"required": ["hub", "file"]},
            {"required": ["hub", "files"]},
        ]
    }

    url: LeftOut[Annotated[str, Matches("an address that begins with https://", "^https?://")]] = (
        None
    )
    hub: LeftOut[Annotated[str, Matches("owner/name", "^[^/]+/[^/]+$")]] = None
    """Repository, owner/name."""
    revision: LeftOut[str] = None
    """Branch, tag or commit of the repository. Default is its main branch."""
    file: LeftOut[Text] = None
    """One file of the repository."""
    files: LeftOut[Some[Text]] = None
    """Files of the repository; * stands for any characters."""
    path: str
    """Where the file is to lie; of `files` and with `unpack`, the folder."""
    unpack: bool = False
    """Unpack the archive into the folder `path`, without its outermost folder if it is the only one, and delete it."""
    bytes: LeftOut[Positive] = None
    sha256: LeftOut[Annotated[str, Matches("64 hexadecimal digits", "^[0-9a-f]{64}$")]] = None
    md5: LeftOut[Annotated[str, Matches("32 hexadecimal digits", "^[0-9a-f]{32}$")]] = None


@dataclass(frozen=True, kw_only=True)
class DatasetEntry(Images):
    """What the images are and where they come from. `{data}` in a path stands for the folder that config.yaml names
    under `data`. Nothing is guessed: bands, units and splits are what is written here.
    """

    RULES = {
        "allOf": [
            {
                "if": {
                    "properties": {
                        "task": {"enum": ["classification", "multilabel", "segmentation", "change"]}
                    }
                },
                "then": {"properties": {"classes": {"minItems": 2}}},
            },
        ]
    }

    BY_TASK = {("regression", "pixel_regression"): {"target": Target()}}

    title: LeftOut[str] = None
    """Name for tables and figures. Default is the entry's name."""
    licence: LeftOut[str] = None
    """Licence of the data, goes into the card."""
    citation: LeftOut[str] = None
    """How to cite the data, goes into the card."""
    url: LeftOut[str] = None
    """Page of the data, where people read about it or get it by hand."""
    images_of: LeftOut[AnyDifferent[Name]] = None
    """Collections that the images are of; pages say which backbone was `trained_on` one of them."""
    size_bytes: LeftOut[Positive] = None
    """Size of what is downloaded, at least about."""
    download: LeftOut[Some[Download]] = None
    """Where the files can be had, for `permafrost fetch`; changes no result. Without it, torchgeo's classes are
    asked, and other data are got by hand."""
    published: LeftOut[str] = None
    """How many images train, validate and test as published, and their size."""
    gsd_m: LeftOut[Above0] = None
    """Size of a pixel on the ground in metres."""
    task: Task
    """One label per image, several labels per image, a label per pixel, what changed at each pixel of a pair of images
    (class 0 is no change, the others are kinds of change), a number per image or per pixel, boxes of objects
    (polygons count by their boxes), or points. A table with several columns of numbers makes as many datasets."""
    kind: str
    """Of the source, in which it is written."""
    source: Any
    """Where images and labels lie; the kind of source decides its keys."""
    modalities: LeftOut[Annotated[dict[ModalityName, Modality], MinLen(2)]] = None
    """Of samples with images of several sensors, those that are used, by a name of your choice, instead of bands.
    Masks, targets and boxes lie on the grid of the first. Each has its own size in pixels, which only the first may
    change from sample to sample. The source says where each is found."""
    dates: Literal["one", "pair", "series"] = "one"
    """Images of a place: one; a pair, before and after; or a series of any number of dates."""
    most_dates: LeftOut[Positive] = None
    """Most dates of a series. Of a longer one so many are kept, evenly spread from the first to the last."""
    select: Literal["rgb", "all"] | Some[str] = "all"
    """Bands offered to backbones; rgb, all, or a list of true or unambiguous common names, or of modalities."""
    classes: LeftOut[Different[str]] = None
    """Class names in the order of their ids; at least two, but one is enough for detection and point_detection. Default
    is the data's own order where it has one (coco: of the categories' ids), else the alphabet's of what is found."""
    ignore_index: LeftOut[Annotated[int, Interval(ge=0, le=65535)]] = None
    """Mask value of pixels that have no label and are never scored; above the ids of the classes."""
    mask_values: LeftOut[Annotated[dict[str, str | None], MinLen(1)]] = None
    """What the values in masks mean, where they are not the classes' ids: number (of one channel, or index of a
    palette) or colour ("#RRGGBB", in quotes) to the name of a class, or to null for pixels without a label. Several
    values may mean one class; any other value is an error."""
    dead_classes: AnyDifferent[str] = field(default_factory=list)
    """Classes without a score of their own, which enter no mean. A class that occurs in no split is dead by itself.
    Pixels of a dead class stay errors of the class that is predicted there; a "no data" that stands among the
    classes, whose pixels should count nowhere, is null in mask_values instead."""
    allow_empty_masks: bool = False
    """Keep images whose mask holds no labelled pixel. Without it, they are an error in every split."""
    convert: AnyDifferent[Literal["palette", "alpha", "cmyk", "gray", "exif"]] = field(
        default_factory=list
    )
    """Conversions that are permitted: palette to RGB, dropping transparency, CMYK to RGB, repeating a grey channel,
    turning images upright as EXIF says. An image that needs one that is not listed is an error; of EXIF only if
    labels are of pixels or objects, else images stay as they are stored."""
    target: LeftOut[Target] = None
    splits: Splits = field(default_factory=Splits)
    allow_missing_classes: bool = False
    """Go on although train has no sample of some class."""
    on_error: LeftOut[OnError] = None
    tiles: LeftOut[Tiles] = None
    min_visible: LeftOut[Annotated[float, Interval(ge=0, lt=1)]] = None
    """A window trains on the boxes that it shows more than this share of, clipped; the others that it meets neither
    count nor punish (detection with tiles). 0.5 if not given."""
    max_detections: LeftOut[Annotated[int, Gt(10)]] = None
    """Detections of a class per image that COCO's statistics count at most (detection). 100 if not given."""
    match_distance: LeftOut[Above0] = None
    """Pixels up to which a point is found (point_detection). 10 if not given."""

    def nodata_of(self, modality: str | None) -> str | Nodata | None:
        """What stands for missing pixels of a modality; None is the only one."""
        own = None if modality is None else self.modalities[modality].nodata
        return own or self.nodata
