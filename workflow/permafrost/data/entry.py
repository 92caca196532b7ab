"""The entry of a dataset: what its images are, where they are and how they are split.

None means that an entry omits the option. Light: the plan reads entries before any job runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

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

#: units of pictures, whose relation to reflectance is unknown
PICTURES = ("uint8", "brightness")

if TYPE_CHECKING:
    # type checkers cannot compute choices, and to them a dict by `Split` is not a dict by `str`
    Split = str
    Task = str
    UnitName = str
else:
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
    """Unit of all stored values; a band or a modality may declare its own."""

    unit: UnitName
    """uint8: 8-bit brightness; brightness: other pictures, or counts with an unknown scale to
    reflectance, needs a scale to [0, 1]; digital_number: counts, needs a scale; reflectance:
    fraction; db: decibels; linear_power: radar power; kelvin: brightness temperature; metre:
    height."""
    scale: LeftOut[float] = None
    """physical = value * scale + offset. Default is the unit's scale."""
    offset: float = 0
    white: LeftOut[Above0] = None
    """Reflectance of the brightest value of uint8 and brightness, if the producer states it (.3558
    in Sentinel-2's true-colour images). Then backbones trained on reflectance can use the images.
    """


@dataclass(frozen=True, kw_only=True)
class BandOptions(Options):
    """A band that needs more than its name; omitted options are those of its sensor."""

    PLAIN = True

    name: str
    """True name of the band."""
    common_name: OrNull[str] = None
    """red, green, blue, nir, …"""
    wavelength_nm: OrNull[Above0] = None
    """Centre in nanometres."""
    width_nm: OrNull[Above0] = None
    """Bandwidth in nanometres."""
    gsd_m: OrNull[Above0] = None
    """Ground sampling distance of the sensor's native pixels in metres."""
    level: OrNull[Literal["L1C", "L2A", "GRD", "RTC"]] = None
    """Processing level."""
    polarisation: OrNull[Literal["VV", "VH", "HH", "HV"]] = None
    """Polarisation of radar."""
    orbit: OrNull[Literal["ascending", "descending"]] = None
    """Orbit of radar."""
    sensor: LeftOut[str] = None
    """Sensor of this band if the images stack several sensors."""
    unit: LeftOut[UnitName] = None
    """As in units, which applies to all other bands."""
    scale: LeftOut[float] = None
    """physical = value * scale + offset."""
    offset: LeftOut[float] = None
    white: LeftOut[Above0] = None
    """As in units."""


@dataclass(frozen=True, kw_only=True)
class Nodata(Options):
    """Missing pixels in the files."""

    value: float | Literal["nan"]
    """The missing value, or "nan"."""
    fill: float
    """Replacement of the missing value in the image store."""


@dataclass(frozen=True, kw_only=True)
class Images(Options):
    """Content of the images of one sensor."""

    sensor: LeftOut[str] = None
    """Sensor of all bands, which defines their wavelengths and widths: sentinel2-l1c,
    sentinel2-l2a, sentinel2, sentinel1, sentinel1-grd, sentinel1-rtc, sentinel3-olci, landsat5,
    landsat7, landsat8, landsat9, hls, hls-l30, hls-s30, planetscope-4, planetscope-8, worldview2,
    worldview3, naip, aerial, rgb, dem. Without it, give wavelengths band by band."""
    bands: LeftOut[Some[str | BandOptions]] = None
    """The bands in the order of the files: band names of the sensor, or mappings. Required except for demo."""
    units: LeftOut[Units] = None
    nodata: LeftOut[Literal["keep"] | Nodata] = None
    """Value of missing pixels. They are replaced by fill in the image store and excluded from band
    statistics. `keep`: values that the files mark as nodata are ordinary values. Without this
    option, NaN and marked pixels are an error."""


@dataclass(frozen=True, kw_only=True)
class Modality(Images):
    """Content of the images of one sensor, in a dataset of several."""

    bands: Some[str | BandOptions]
    """The bands in the order of the files: band names of the sensor, or mappings."""


@dataclass(frozen=True, kw_only=True)
class Target(Options):
    """The target of an image (regression) or a pixel (pixel_regression): its name in figures and
    how rasters store it.
    """

    RULES = {"allOf": [{"properties": {"scale": {"not": {"const": 0}}}}]}

    name: LeftOut[Text] = None
    """Name of the target in figures. Default is the name of the column or key."""
    unit: LeftOut[Text] = None
    """Unit of the target in figures."""
    nodata: LeftOut[float | Different[float] | Literal["keep"]] = None
    """Stored values that mean no data (pixel_regression), in addition to NaN. `keep`: values that
    files mark as nodata are ordinary values. Without this option, marked pixels are an error.
    Pixels without data are neither trained on nor scored."""
    scale: float = 1
    """target = stored number * scale + offset (pixel_regression)."""
    offset: float = 0


@dataclass(frozen=True, kw_only=True)
class Splits(Options):
    """Assignment of images to train, val and test."""

    RULES = {
        "if": {"properties": {"method": {"enum": ["random", "group", "block"]}}},
        "then": {"properties": {"fractions": {"default": [0.6, 0.2, 0.2]}}},
    }

    method: Literal["given", "random", "group", "block"] = "given"
    """given by the data; random, stratified by class or decile of the target; whole groups; square
    blocks on the ground."""
    fractions: LeftOut[
        Annotated[list[Share], Len(3, 3), Words("shares: train, validation, test")]
    ] = None
    """Shares of train, val and test for random, group and block."""
    seed: Natural = 0
    """Random seed of random, group and block, and of val_from_train."""
    block_km: LeftOut[Above0] = None
    """Side length of a block in kilometres."""
    join_km: LeftOut[Above0] = None
    """For block: blocks with image centres closer than this (in kilometres) are merged, so that
    images that touch or overlap are never in two splits."""
    map: LeftOut[dict[Split, Different[str]]] = None
    """For given: train, val and test -> the names of splits in the data. Default is the same names."""
    leave_out: LeftOut[Different[str]] = None
    """For given: splits of the data that are not used."""
    val_from_train: LeftOut[Share] = None
    """Share of train set aside as val if the data have none; whole groups if known, else stratified by class."""
    spatially_random: bool = False
    """True if locations were divided at random, so that test images are close to train images;
    every score is marked. Detected automatically if groups or coordinates show it."""

    def names_in_data(self) -> dict[str, list[str]]:
        """Train, val and test -> the names of splits in the data; the same names unless the entry maps them."""
        return self.map or {split: [split] for split in SPLITS}


@dataclass(frozen=True, kw_only=True)
class Tiles(Options):
    """Cut every image into windows, each a sample of its own (objects only). Images
    are split first, so all windows of an image are in the same split. TIFFs are read window by
    window and may be larger than memory.
    """

    size: Positive
    """Side length of a window in pixels."""
    overlap: Annotated[float, Interval(ge=0, lt=1)] = 0.05
    """Overlap of neighbouring windows as a share of their side length."""


@dataclass(frozen=True, kw_only=True)
class OnError(Options):
    """Handling of images that cannot be read, or whose annotations or label are invalid. Without
    it, they are an error that names them.
    """

    skip_up_to: Share
    """Omit such images, for all backbones alike, up to this share of all (0.01: one of a hundred);
    the card lists them with the reason. More are an error."""


@dataclass(frozen=True, kw_only=True)
class Download(Options):
    """One file on the web, or files of a dataset repository on the Hugging Face hub."""

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
    """Target path of the file; with `files` or `unpack`, the target folder."""
    unpack: bool = False
    """Unpack the archive into the folder `path` and delete it. A single outermost folder is removed."""
    bytes: LeftOut[Positive] = None
    sha256: LeftOut[Annotated[str, Matches("64 hexadecimal digits", "^[0-9a-f]{64}$")]] = None
    md5: LeftOut[Annotated[str, Matches("32 hexadecimal digits", "^[0-9a-f]{32}$")]] = None


@dataclass(frozen=True, kw_only=True)
class DatasetEntry(Images):
    """What the images are and where they come from. `{data}` in a path stands for the folder under
    `data` in config.yaml. Nothing is guessed: the entry defines bands, units and splits.
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
    """Licence of the data, copied into the card."""
    citation: LeftOut[str] = None
    """Citation of the data, copied into the card."""
    url: LeftOut[str] = None
    """Web page of the data, for information and manual download."""
    images_of: LeftOut[AnyDifferent[Name]] = None
    """Collections that the images are part of; report pages mark backbones that were `trained_on` one of them."""
    size_bytes: LeftOut[Positive] = None
    """Approximate size of the download in bytes."""
    download: LeftOut[Some[Download]] = None
    """Where the files can be downloaded, for `permafrost fetch`; does not affect results. Without
    it, torchgeo's classes define it, and other data are downloaded by hand."""
    published: LeftOut[str] = None
    """Numbers of images in train, val and test as published, and their size."""
    gsd_m: LeftOut[Above0] = None
    """Ground sampling distance: size of a pixel on the ground in metres."""
    task: Task
    """One label per image, several labels per image, a label per pixel, the change at each pixel of
    a pair of images (class 0 is no change, the others are kinds of change), a number per image or
    per pixel, boxes of objects (polygons count by their boxes), or points. A table with several
    columns of numbers is one dataset per column."""
    kind: str
    """Kind of the source; an entry writes it inside `source`."""
    source: Any
    """Location of images and labels; the kind of source defines its keys."""
    modalities: LeftOut[Annotated[dict[ModalityName, Modality], MinLen(2)]] = None
    """Images of several sensors per sample, instead of bands: those used, each under a name of your
    choice. Masks, targets and boxes are on the grid of the first. Each has its own image size,
    which only the first may vary between samples. The source defines where to find each."""
    dates: Literal["one", "pair", "series"] = "one"
    """Images per location: one; a pair, before and after; or a series of any number of dates."""
    most_dates: LeftOut[Positive] = None
    """Most dates of a series. A longer series keeps this many, evenly spread from the first to the last."""
    select: Literal["all", "rgb"] | Some[str] = "all"
    """Bands offered to backbones: rgb, all, or a list of true names, unambiguous common names, or modalities."""
    classes: LeftOut[Different[str]] = None
    """Class names in the order of their ids; at least two, or one for objects.
    Default is the order in the data (coco: of the categories' ids), else the
    alphabetical order of the names found."""
    ignore_index: LeftOut[Annotated[int, Interval(ge=0, le=65535)]] = None
    """Mask value of unlabelled pixels, which are never scored; larger than the ids of the classes."""
    mask_values: LeftOut[Annotated[dict[str, str | None], MinLen(1)]] = None
    """Meaning of mask values that are not class ids: number (of one channel, or index of a palette)
    or colour ("#RRGGBB", in quotes) to the name of a class, or to null for unlabelled pixels.
    Several values may mean one class; any other value is an error."""
    dead_classes: AnyDifferent[str] = field(default_factory=list)
    """Classes without a score, excluded from all means. A class that occurs in no split is dead
    without being listed. Pixels of a dead class still count as errors of the class predicted there.
    To exclude the pixels of a "no data" class altogether, map it to null in mask_values."""
    allow_empty_masks: bool = False
    """Keep images whose mask has no labelled pixel. Without it, they are an error in every split."""
    convert: AnyDifferent[Literal["palette", "alpha", "cmyk", "gray", "exif"]] = field(
        default_factory=list
    )
    """Permitted conversions: palette to RGB, dropping transparency, CMYK to RGB, repeating a grey
    channel, rotating images as EXIF says. An image that needs another conversion is an error; for
    EXIF only if labels refer to pixels or objects, otherwise images stay as stored."""
    largest_image_mb: Positive = 1000
    """Memory that one image, mask or array may take when it is read, in MB (10^6 bytes): height x
    width x bands x bytes of a number, by the file's header. A larger one is an error, before
    anything is allocated. Of images that are read in windows (tiles, grid), a window counts."""
    target: LeftOut[Target] = None
    splits: Splits = field(default_factory=Splits)
    allow_missing_classes: bool = False
    """Continue although train has no sample of some class."""
    on_error: LeftOut[OnError] = None
    tiles: LeftOut[Tiles] = None
    min_visible: LeftOut[Annotated[float, Interval(ge=0, lt=1)]] = None
    """A window trains on the boxes of which it shows more than this share, clipped; other boxes in
    it are ignored (boxes with tiles). Oriented boxes are not clipped. Default is 0.5."""
    max_detections: LeftOut[Annotated[int, Gt(10)]] = None
    """Most detections of a class per image that COCO's metrics count (boxes). Default is 100."""
    match_distance: LeftOut[Above0] = None
    """Largest distance in pixels at which a predicted point matches (point_detection). Default is 10."""

    def nodata_of(self, modality: str | None) -> Literal["keep"] | Nodata | None:
        """Nodata option of a modality; None is the only modality."""
        own = None if modality is None else self.modalities[modality].nodata
        return own or self.nodata
