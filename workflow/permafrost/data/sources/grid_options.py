"""Options of the kind ``grid``, and checks for contradictions between them, the task and the splits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, NoReturn

from annotated_types import Len

from permafrost.core.errors import PermafrostError
from permafrost.core.options import (
    Above0,
    AtLeast0,
    ByName,
    Different,
    LeftOut,
    Options,
    Positive,
    ShareOrAll,
    Some,
    Text,
    Two,
)
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry, StoredType
from permafrost.data.files.vectors import is_shapes
from permafrost.data.sources.options import LabelChannel

#: resampling methods that create no new values
KEEPS_VALUES = ("nearest", "mode")
Patterns = Text | Different[str]
Extent = Annotated[list[float], Len(4, 4)] | Text


@dataclass(frozen=True, kw_only=True)
class Blocks(Options):
    """Square blocks on the ground that group tiles. No tile crosses a block border: with splits by
    group, no pixel is in two splits.
    """

    RULES = {"oneOf": [{"required": ["tiles"]}, {"required": ["metres"]}]}

    tiles: LeftOut[Positive] = None
    """Side length of a block in strides of tiles."""
    metres: LeftOut[Above0] = None
    """Side length of a block in metres."""
    buffer_m: AtLeast0 = 0
    """Distance between tiles of different blocks in metres."""


@dataclass(frozen=True, kw_only=True)
class GeoClass(Options):
    """A GeoDataset class of torchgeo."""

    name: str
    """Name of a GeoDataset class in torchgeo.datasets."""
    paths: Some[str] = field(default_factory=lambda: ["."])
    """Folders or files inside path that the class reads."""
    arguments: dict = field(default_factory=dict)
    """Further arguments: bands, classes, …"""


@dataclass(frozen=True, kw_only=True)
class GeoPair(Options):
    """torchgeo's GeoDataset classes instead of files: one for images, and one for masks unless the
    first includes them. Tiles are cut where both have files.
    """

    image: GeoClass
    mask: LeftOut[GeoClass] = None
    dates: LeftOut[Two[str]] = None
    """First and last date of the files to use."""


@dataclass(frozen=True, kw_only=True)
class GridOptions(LabelChannel):
    """Tiles of rasters, or of torchgeo's GeoDatasets: images, with masks or target rasters of the same area."""

    path: str
    """Directory, zip or tar of the files, read in place; for torchgeo, a directory."""
    images: LeftOut[Patterns | ByName[Patterns | ByName[Patterns]]] = None
    """Rasters (GeoTIFF, JPEG 2000) inside path: a name, a pattern in which * stands for any
    characters, or a list of these. Several rasters form one mosaic; where they overlap, the first
    with data counts. For bands in separate files, a mapping of each band to its rasters. With
    modalities, a mapping of each to either; all share one grid."""
    masks: LeftOut[Patterns] = None
    """Rasters of classes (segmentation), as in images; or one GeoPackage, GeoJSON, Shapefile or
    FlatGeobuf of polygons. A pixel has the class of the last polygon that contains its centre."""
    targets: LeftOut[Patterns] = None
    """Target rasters (pixel_regression), as in images."""
    attribute: LeftOut[Text] = None
    """Attribute of the polygons with their class."""
    label_values: LeftOut[ByName[str | None]] = None
    """Mapping of values of attribute to classes; null for none. Default is the classes' own names."""
    background: LeftOut[Text] = None
    """Class of pixels outside all polygons. Without it, they have no label."""
    torchgeo: LeftOut[GeoPair] = None
    size: Positive
    """Side length of a tile in pixels."""
    stride: LeftOut[Positive] = None
    """Pixels from one tile to the next. Default is size, so that tiles are adjacent."""
    crs: LeftOut[Text] = None
    """Coordinate system of the grid, such as EPSG:32633; everything is resampled to it. Default is
    that of the first raster, and all others must share its pixels."""
    resolution: LeftOut[Above0] = None
    """Side length of a pixel in units of the coordinate system; everything is resampled to it."""
    resampling: Literal["nearest", "bilinear", "cubic", "average"] = "bilinear"
    """Resampling method of images."""
    # type checkers know no computed choices
    label_resampling: Literal[*KEEPS_VALUES, "bilinear", "average"] = "nearest"  # type: ignore[valid-type]
    """Resampling method of masks and targets; for masks, only nearest or mode."""
    extent: LeftOut[Extent | ByName[Extent]] = None
    """Area to cut into tiles: bounds in the grid's coordinate system (left, bottom, right, top), or
    a file of polygons inside path that must contain the tiles. For given splits, a mapping of split
    names to these."""
    blocks: LeftOut[Blocks] = None
    min_valid: LeftOut[ShareOrAll] = None
    """Omit tiles with data in a smaller share of their pixels; the card counts them. If rasters
    mark nodata or the entry declares it, this reads all pixels once more."""
    min_labelled: LeftOut[ShareOrAll] = None
    """Omit tiles with labels in a smaller share of their pixels; the card counts them."""
    ignore_nodata: bool = False
    """Remove the label of pixels without data."""
    dtype: LeftOut[StoredType] = None
    """Data type to store for torchgeo's images, which are floats. A value that does not fit is an error."""

    @property
    def step(self) -> int:
        return self.stride or self.size

    @property
    def labels(self) -> str | list[str]:
        return self.targets if self.masks is None else self.masks

    @property
    def polygons(self) -> bool:
        """Whether the labels are polygons."""
        return isinstance(self.masks, str) and is_shapes(self.masks)


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for options that contradict each other, the task or the splits."""
    options: GridOptions = entry.source
    numbers = targets_of(entry.task).numbers
    wanted = "targets" if numbers else "masks"
    other = "masks" if numbers else "targets"
    files = {"images", wanted}
    given = {key for key in ("images", "masks", "targets") if getattr(options, key) is not None}
    if entry.dates != "one":
        refuse(
            f"a grid has one image per location, not dates: {entry.dates}", "leave dates out", where
        )
    if options.torchgeo is not None and entry.modalities is not None:
        refuse(
            "torchgeo's classes provide one image", "name files of each modality in images", where
        )
    if options.torchgeo is not None and given:
        refuse(
            f"{' and '.join(sorted(given))} beside torchgeo",
            "give files, or classes of torchgeo",
            where,
        )
    if options.torchgeo is None and given != files:
        what = (
            f"{other} has no meaning for it"
            if other in given
            else f"no {min(files - given)} is given"
        )
        refuse(
            f"the task {entry.task} needs images and {wanted}, {what}", "name both in source", where
        )
    if numbers and isinstance(options.targets, str) and is_shapes(options.targets):
        refuse("polygons define classes, not values", "give rasters as targets", where)
    if not numbers and options.label_resampling not in KEEPS_VALUES:
        refuse(
            f"label_resampling {options.label_resampling} interpolates between classes",
            f"use {' or '.join(KEEPS_VALUES)}",
            where,
        )
    if options.dtype is not None and options.torchgeo is None:
        refuse("dtype is for torchgeo's images; rasters keep their type", "remove it", where)
    unlabelled = {"ignore_nodata": options.ignore_nodata, "min_labelled": options.min_labelled}
    needing = [key for key, value in unlabelled.items() if value]
    if needing and not numbers and entry.ignore_index is None:
        refuse(
            f"{needing[0]} needs a value for pixels without a label", "add ignore_index: 255", where
        )
    _check_shapes(entry, options, where)
    _check_splits(entry, options, where)


def _check_shapes(entry: DatasetEntry, options: GridOptions, where: object) -> None:
    idle = [
        key
        for key in ("attribute", "label_values", "background")
        if getattr(options, key) is not None
    ]
    classes = entry.classes or []
    if not options.polygons:
        if idle:
            refuse(
                f"only masks in a file of polygons need {' and '.join(idle)} in source",
                "remove them",
                where,
            )
        return
    if entry.mask_values is not None:
        refuse(
            "mask_values is for rasters",
            "set label_values in source: the class of each value of the attribute",
            where,
        )
    unknown = {options.background, *(options.label_values or {}).values()} - {None, *classes}
    if unknown:
        refuse(f"{min(unknown)} in source is no class", "name classes of the entry", where)
    if options.background is None and entry.ignore_index is None:
        refuse(
            "the class of pixels outside of the polygons is undefined",
            "name their class with background in source, or add ignore_index: 255 to the entry",
            where,
        )
    if None in (options.label_values or {}).values() and entry.ignore_index is None:
        refuse("label_values leaves polygons without a label", "add ignore_index: 255", where)
    if options.attribute is None and (
        options.label_values or len(classes) != 2 or options.background is None
    ):
        refuse(
            "the class of polygons is undefined",
            "name the attribute in source, or with two classes that of the background",
            where,
        )


def _check_splits(entry: DatasetEntry, options: GridOptions, where: object) -> None:
    method = entry.splits.method
    if method == "given" and not isinstance(options.extent, dict):
        refuse(
            "the split of tiles into train, val and test is undefined",
            "give blocks in source with splits: {method: group}, or an extent for each split",
            where,
        )
    if method != "given" and isinstance(options.extent, dict):
        refuse(
            "extent in source names the splits already", "remove splits, or give one extent", where
        )
    if method == "group" and options.blocks is None:
        refuse("splits by group need blocks", "add blocks: {tiles: 4} to source", where)
    if method in ("random", "block") and options.blocks is not None:
        refuse(f"splits by {method} would divide blocks", "use splits: {method: group}", where)
    if method in ("random", "block") and options.step < options.size:
        refuse(
            f"tiles of {options.size} pixels every {options.step} share pixels, and splits by {method} would too",
            "use blocks in source with splits: {method: group}, or a stride of at least size",
            where,
        )


def refuse(problem: str, remedy: str, where: object) -> NoReturn:
    """Raise the error."""
    raise PermafrostError(problem, where=where, remedy=remedy)
