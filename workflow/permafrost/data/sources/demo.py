"""Kind ``demo``: images of the simulated world, generated on demand.

Land cover seen from a satellite (10 m per pixel), also before and after a change; crops on several
dates; tree crowns and heights seen from an aircraft.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from annotated_types import Ge, Interval, MultipleOf

from permafrost.core.errors import PermafrostError
from permafrost.core.options import LeftOut, Natural, Options, Positive, ShareOrAll, Some
from permafrost.core.specification import SPLITS
from permafrost.core.targets import Boxes, NumberRaster, OrientedBoxes, by_targets
from permafrost.core.tasks import targets_of
from permafrost.data.bands.selection import known_band, select_bands
from permafrost.data.bands.sensors import SENSORS, Band
from permafrost.data.bands.units import resolve_unit
from permafrost.data.entry import DatasetEntry, Split, Units
from permafrost.data.files.cache import LeastRecentlyUsed
from permafrost.data.labels.objects import Objects
from permafrost.data.records import Decoded, Record, Source
from permafrost.data.world import aerial, built, crowns, cuts, farmland, spectra
from permafrost.data.world import photograph as photographs
from permafrost.data.world import scene as scenes
from permafrost.data.world.canvas import GROUND
from permafrost.data.world.land import Land, covers_of, pairs_of, series_of

_DAYS = 180
_AERIAL = (
    "detection",
    "instance_segmentation",
    "point_detection",
    "oriented_detection",
    "pixel_regression",
)
_LAND_COVER = ("classification", "multilabel", "segmentation", "change", "regression")
# type checkers know no computed choices
_COVERS = Literal[(*scenes.CLASSES, *farmland.CROPS)]  # type: ignore[valid-type]


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Options):
    """Images of a simulated world, generated on demand: land cover seen from a satellite; for
    detection, instance_segmentation and point_detection, tree crowns seen from an aircraft (0.4 m per
    pixel); for oriented_detection, buildings and vehicles; for pixel_regression, heights above ground. With
    dates: pair, land cover before and after construction or clearing (change); with dates: series,
    crops on up to six dates of a summer.
    """

    BY_TASK = {
        _AERIAL: {
            "bands": "all",
            "chip_size": 128,
            "scene_size": 256,
            "scenes": {"train": 25, "val": 10, "test": 25},
            "chips": {"train": 100, "val": 30, "test": 50},
        },
        _LAND_COVER: {
            "bands": ["B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12"],
            "chip_size": 64,
            "scene_size": 448,
            "scenes": {"train": 18, "val": 6, "test": 10},
            "chips": {"train": 480, "val": 160, "test": 240},
        },
    }

    seed: Natural = 0
    """Random seed of the world."""
    bands: LeftOut[Literal["all", "rgb"] | Some[str]] = None
    """For land cover, bands of Sentinel-2 (all means all 13); for crowns and heights, red, green, blue, nir."""
    chip_size: LeftOut[Annotated[int, Ge(8)]] = None
    """Side length of a chip in pixels."""
    scene_size: LeftOut[Annotated[int, Ge(64), MultipleOf(8)]] = None
    """Side length of a scene in pixels."""
    scenes: LeftOut[dict[Split, Positive]] = None
    """Scenes per split."""
    chips: LeftOut[dict[Split, Positive]] = None
    """Chips per split."""
    presence: ShareOrAll = 0.05
    """Share of a chip that a class must cover to count as present (multilabel)."""
    cover: _COVERS = "forest"
    """Class whose share of a chip is the target (regression); for a series, one of the last four."""
    kinds: Literal["one", "each"] = "one"
    """Whether all changes are one class, or construction and clearing are two (change)."""
    cloudy: Annotated[float, Interval(ge=0, le=1)] = 0.25
    """For series, the probability that clouds hide a date of a scene, which is then missing."""


def open_demo(entry: DatasetEntry, *, where: object) -> Source:
    """Open the source that the task needs: land cover from a satellite, or crowns or heights from an aircraft."""
    sources = {NumberRaster: HeightSource, Boxes: CrownSource, OrientedBoxes: BuiltSource}
    return (by_targets(sources, targets_of(entry.task)) or DemoSource)(entry, where=where)


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for options that the simulated world does not support."""
    problem = remedy = None
    if entry.modalities is not None:
        problem, remedy = "the demo has images of one sensor", "list its bands in source"
    elif entry.dates == "pair" and not targets_of(entry.task).of_pairs:
        problem, remedy = f"the demo's pairs are of the task change, not {entry.task}", "correct it"
    elif entry.dates == "series" and _is_aerial(entry):
        problem, remedy = f"the demo has no series for {entry.task}", "leave dates out"
    elif targets_of(entry.task).numbers and entry.source.cover not in (
        classes := _land(entry).classes
    ):
        problem = f"there is no cover {entry.source.cover!r} to predict the share of"
        remedy = f"set cover to {', '.join(classes)}"
    if problem is not None:
        raise PermafrostError(problem, where=where, remedy=remedy)


def _is_aerial(entry: DatasetEntry) -> bool:
    """Whether the chips are aerial views, which have a single date."""
    targets = targets_of(entry.task)
    return targets.objects or (targets.numbers and targets.pixels)


def entry_bands(entry: DatasetEntry, *, where: object) -> list[Band]:
    """The bands of an entry's chips, in the unit of the simulated sensor."""
    names = entry.source.bands
    if _is_aerial(entry):
        known = [known_band("aerial", name) for name in photographs.BANDS]
        unit = Units(unit="uint8")
    else:
        sensor = "sentinel2-l2a" if "B10" not in names and names != "all" else "sentinel2-l1c"
        known = [known_band(sensor, name) for name in spectra.BANDS if name in SENSORS[sensor]]
        unit = Units(unit="digital_number", scale=1e-4)
    offered = [replace(band, **resolve_unit(unit, where=where)) for band in known]
    return [offered[i] for i in select_bands(offered, names, where=f"{where}: source.bands")]


class DemoChips:
    """Chips of generated scenes; scenes are numbered consecutively over the splits, which share none."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        options: DemoOptions = entry.source
        self.task, self.bands = entry.task, entry_bands(entry, where=where)
        self.seed, self.size, self.scene_size = options.seed, options.chip_size, options.scene_size
        self._check_sizes(where)
        self._chips: list[tuple[str, cuts.Chip]] = []
        first = 0
        for split in SPLITS:
            specs = [self._scene(first + number) for number in range(options.scenes[split])]
            self._chips += [(split, chip) for chip in self._cut(specs, options.chips[split])]
            first += len(specs)

    if TYPE_CHECKING:

        def decode(self, index: int) -> Decoded: ...

    def _scene(self, number: int):
        """The specification of the scene with that number."""
        raise NotImplementedError

    def _cut(self, specs: list, count: int) -> list[cuts.Chip]:
        return cuts.anywhere(specs, count, self.size)

    def records(self) -> list[Record]:
        return [self._record(split, chip) for split, chip in self._chips]

    def locate(self, index: int) -> tuple[float, float]:
        return self._chips[index][1].lonlat()

    def _record(self, split: str, chip: cuts.Chip) -> Record:
        lon, lat = chip.lonlat()
        day = np.datetime64("2021-04-01") + chip.scene.number * 37 % _DAYS
        return Record(
            sample_id=chip.name,
            split=split,
            group_id=f"scene{chip.scene.number:03d}",
            lon=lon,
            lat=lat,
            date=str(day),
        )

    def _check_sizes(self, where) -> None:
        if self.scene_size % 8 or self.scene_size < 2 * self.size:
            raise PermafrostError(
                f"scene_size {self.scene_size} is not a multiple of 8 of at least two chips"
                f" ({2 * self.size})",
                where=where,
                remedy="choose a larger multiple of 8",
            )


def _land(entry: DatasetEntry) -> Land:
    options: DemoOptions = entry.source
    if entry.dates == "pair":
        return pairs_of(options.kinds)
    if entry.dates == "series":
        return series_of(options.cloudy)
    return covers_of(patchy=targets_of(entry.task).masks)


class DemoSource(DemoChips):
    """Chips of land cover, or of crops for a series; 10 m per pixel.

    The task decides how chips are cut: ``classification`` (chips by their dominant class),
    ``multilabel`` (classes that cover at least `presence` of a chip), ``segmentation`` and
    ``change`` (masks, clouds ignored), ``regression`` (the share of a chip that the class `cover`
    has).
    """

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        self._land, self._options = _land(entry), entry.source
        self._targets = targets_of(entry.task)
        super().__init__(entry, where=where)
        self.classes = [] if self._targets.numbers else self._land.classes
        self.ignore_index = scenes.CLOUD if self._land.patchy else None
        names = [band.name for band in self.bands]
        self._render = LeastRecentlyUsed(lambda spec: self._land.render(spec, names), keep=4)
        self._mask = LeastRecentlyUsed(self._land.mask, keep=4)

    def decode(self, index: int) -> Decoded:
        chip = self._chips[index][1]
        mask = chip.window(self._mask(chip.scene)).copy() if self._targets.masks else None
        image = chip.window(self._render(chip.scene)).copy()
        days = self._days(chip)
        return Decoded(image=image, mask=mask, dates=() if days is None else (days,))

    def _scene(self, number: int) -> scenes.SceneSpec:
        return scenes.SceneSpec(self.seed, number, self.scene_size, self._land.patchy)

    def _cut(self, specs: list, count: int) -> list[cuts.Chip]:
        if not self._targets.one_class:
            return cuts.anywhere(specs, count, self.size)
        return cuts.by_class(specs, count, self.size, self._land.mask, self._land.classes)

    def _record(self, split: str, chip: cuts.Chip) -> Record:
        record = replace(super()._record(split, chip), label=self._label(chip))
        days = self._days(chip)
        return record if days is None else replace(record, date=days[-1])

    def _days(self, chip: cuts.Chip) -> tuple[str, ...] | None:
        return None if self._land.days is None else tuple(map(str, self._land.days(chip.scene)))

    def _label(self, chip: cuts.Chip) -> int | float | tuple[int, ...] | None:
        if self._targets.one_class:
            return chip.label
        if self._targets.masks:
            return None
        window = chip.window(self._mask(chip.scene))
        if self._targets.numbers:
            return float((window == self._land.classes.index(self._options.cover)).mean())
        share = np.bincount(window.ravel(), minlength=len(self.classes)) / window.size
        return tuple(int(part >= self._options.presence) for part in share)


class AerialSource(DemoChips):
    """Chips of aerial views, each an image of its own.

    Only the chips of a scene are kept, 64 KB each at the default size, so that a scene is rendered
    once.
    """

    ignore_index: int | None = None
    classes: list[str]

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        if self.scene_size > aerial.LARGEST:
            raise PermafrostError(
                f"scene_size {self.scene_size} is more than the world holds ({aerial.LARGEST})",
                where=where,
                remedy="choose a smaller multiple of 8, and more scenes",
            )
        self._of_scene: dict[aerial.ViewSpec, list[cuts.Chip]] = {}
        for _, chip in self._chips:
            self._of_scene.setdefault(chip.scene, []).append(chip)
        self._taken = LeastRecentlyUsed(self._render, keep=len(self._of_scene))

    def _scene(self, number: int) -> aerial.ViewSpec:
        return aerial.ViewSpec(self.seed, number, self.scene_size)

    def _render(self, spec: aerial.ViewSpec) -> dict:
        """The data of each chip of a scene."""
        view = aerial.view(spec)
        image = photographs.photograph(spec, view, [band.name for band in self.bands])
        return self._take(spec, view, image)

    def _take(self, spec: aerial.ViewSpec, view: aerial.View, image) -> dict:
        """Chip -> its data, from the scene and its picture (C, size, size)."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Taken:
    """A chip's pixels and crowns."""

    image: np.ndarray
    objects: Objects


class CrownSource(AerialSource):
    """Chips of aerial views with the visible tree crowns: boxes, masks, or crown centres."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        self.classes = list(crowns.CLASSES)

    def decode(self, index: int) -> Decoded:
        chip = self._chips[index][1]
        return Decoded(image=self._taken(chip.scene)[chip].image.copy())

    def _record(self, split: str, chip: cuts.Chip) -> Record:
        return replace(
            super()._record(split, chip),
            objects=self._taken(chip.scene)[chip].objects,
            image_size=(chip.size, chip.size),
        )

    def _take(
        self, spec: aerial.ViewSpec, view: aerial.View, image: np.ndarray
    ) -> dict[cuts.Chip, _Taken]:
        return {
            chip: _Taken(chip.window(image).copy(), self._objects(view, chip))
            for chip in self._of_scene[spec]
        }

    def _objects(self, view: aerial.View, chip: cuts.Chip) -> Objects:
        targets = targets_of(self.task)
        form = {"points": targets.points, "masks": targets.instances}
        return crowns.crowns(view, chip.top, chip.left, chip.size, **form)


class BuiltSource(CrownSource):
    """Chips of aerial views of settlements with the oriented boxes of buildings and vehicles."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        self.classes = list(built.CLASSES)

    def _scene(self, number: int) -> aerial.ViewSpec:
        """The scenes of the world with a settlement in the middle, in order."""
        wanted = (n for n in itertools.count() if aerial.middle_cover(n) in built.COVERS)
        return super()._scene(next(itertools.islice(wanted, number, None)))

    def _objects(self, view: aerial.View, chip: cuts.Chip) -> Objects:
        return built.built(view, chip.top, chip.left, chip.size)


class HeightSource(AerialSource):
    """Chips with the height above ground at each pixel, in metres, as from airborne laser scanning.

    Open water does not reflect the laser, so its pixels have no data.
    """

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        self.classes = []

    def decode(self, index: int) -> Decoded:
        chip = self._chips[index][1]
        image, heights = self._taken(chip.scene)[chip]
        return Decoded(image=image.copy(), target=heights.copy())

    def _take(self, spec: aerial.ViewSpec, view: aerial.View, image: np.ndarray) -> dict:
        inside = (slice(aerial.MARGIN, -aerial.MARGIN),) * 2
        open_water = (aerial.cover_map(spec) == scenes.CLASSES.index("water")) & (
            view.canvas.top == GROUND
        )
        heights = np.where(open_water, np.float32(np.nan), view.canvas.height)[inside]
        return {
            chip: (chip.window(image).copy(), chip.window(heights).copy())
            for chip in self._of_scene[spec]
        }
