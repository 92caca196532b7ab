"""Options of the kind ``grid``, and what of them contradicts each other, the task or the splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.sources.grid_shapes import is_shapes

#: ways to resample labels that make no new values
KEEPS_VALUES = ("nearest", "mode")


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Squares on the ground whose tiles are one group: their side in strides of tiles or in metres.

    ``buffer_m``: metres that tiles of different blocks keep between them.
    """

    buffer_m: float
    tiles: int | None = None
    metres: float | None = None


@dataclass(frozen=True, kw_only=True)
class GeoClass:
    """A GeoDataset class: its name, its ``paths`` inside the source's path, its other arguments."""

    name: str
    paths: list[str]
    arguments: dict


@dataclass(frozen=True, kw_only=True)
class GeoPair:
    """Where images come from, and masks where another class has them; `dates` (first, last) that count."""

    image: GeoClass
    mask: GeoClass | None = None
    dates: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class GridOptions:
    """Options of the source.

    Attributes
    ----------
    path : folder or archive of the files.
    size, stride : of tiles in pixels; without a stride, tiles lie side by side.
    images : names of rasters inside path, or patterns; or those of each band by its name. Of an entry with
        modalities, either of them by the name of the modality.
    masks, targets : of the rasters of labels; masks may be a file of polygons.
    torchgeo : instead of them all.
    crs, resolution : what everything is resampled onto; None: the first raster's own pixels.
    extent : bounds in the grid's system (left, bottom, right, top) or a file of polygons that tiles must lie in;
        or these by split.
    min_valid, min_labelled : shares of pixels with data, and with a label, below which a tile is left out.
    ignore_nodata : whether labels of pixels without data do not count.
    attribute, label_values, background : of polygons, which attribute tells the class, what its values mean, and the
        class of what no polygon covers.
    """

    path: str
    size: int
    resampling: str
    label_resampling: str
    ignore_nodata: bool
    images: str | list[str] | dict[str, str | list[str] | dict] | None = None
    masks: str | list[str] | None = None
    targets: str | list[str] | None = None
    torchgeo: GeoPair | None = None
    stride: int | None = None
    crs: str | None = None
    resolution: float | None = None
    extent: list[float] | str | dict | None = None
    blocks: Blocks | None = None
    min_valid: float | None = None
    min_labelled: float | None = None
    label_channel: int | None = None
    attribute: str | None = None
    label_values: dict[str, str | None] | None = None
    background: str | None = None
    dtype: str | None = None

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
    """Refuse options that contradict each other, the task or the splits."""
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
