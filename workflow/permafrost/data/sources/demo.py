"""Kind ``demo``: chips of the procedural world, generated on the spot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from permafrost.core.tasks import task_of
from permafrost.data.bands import known_band
from permafrost.data.cache import LeastRecentlyUsed
from permafrost.data.records import Decoded, Record, Source
from permafrost.data.sensors import SENSORS, Band
from permafrost.data.sources.demo_aerial import aerial_bands
from permafrost.data.sources.demo_chips import DemoChips, chosen
from permafrost.data.sources.demo_crowns import CrownSource
from permafrost.data.sources.demo_heights import HeightSource
from permafrost.data.targets import PIXEL_REGRESSION, REGRESSION
from permafrost.data.units import resolve_unit
from permafrost.data.world import cuts, spectra
from permafrost.data.world import scene as scenes

DEFAULT_BANDS = ["B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12"]
DEFAULTS = {
    "chip_size": 64,
    "scene_size": 448,
    "scenes": {"train": 18, "val": 6, "test": 10},
    "chips": {"train": 480, "val": 160, "test": 240},
}


def open_demo(entry: dict, *, where: object) -> Source:
    """Land cover seen by a satellite, or crowns or heights from an aircraft, as the task asks."""
    if entry["task"] == PIXEL_REGRESSION:
        return HeightSource(entry, where=where)
    kind = CrownSource if task_of(entry["task"]).objects else DemoSource
    return kind(entry, where=where)


class DemoSource(DemoChips):
    """Chips of land cover, 10 m per pixel.

    The task of the entry decides the cut: ``classification`` (chips by their dominant class),
    ``multilabel`` (classes that cover at least `presence` of a chip), ``segmentation`` (masks,
    clouds ignored), ``regression`` (the share of a chip that the class `cover` has).
    """

    def __init__(self, entry: dict, *, where: object) -> None:
        super().__init__(entry, defaults=DEFAULTS, where=where)
        options = entry["source"]
        self.classes = [] if self.task == REGRESSION else list(scenes.CLASSES)
        self._cover = scenes.CLASSES.index(options.get("cover", "forest"))
        self.ignore_index = scenes.CLOUD if self.task == "segmentation" else None
        self.presence = options.get("presence", 0.05)
        self.bands = entry_bands(entry, where=where)
        names = [band.name for band in self.bands]
        self._render = LeastRecentlyUsed(lambda spec: scenes.render(spec, names), keep=4)
        self._mask = LeastRecentlyUsed(scenes.mask, keep=4)

    def decode(self, index: int) -> Decoded:
        chip = self._chips[index][1]
        mask = chip.window(self._mask(chip.scene)).copy() if self.task == "segmentation" else None
        return Decoded(image=chip.window(self._render(chip.scene)).copy(), mask=mask)

    def _scene(self, number: int) -> scenes.SceneSpec:
        return scenes.SceneSpec(self.seed, number, self.scene_size, self.task == "segmentation")

    def _cut(self, specs: list, count: int) -> list[cuts.Chip]:
        cut = cuts.by_class if self.task == "classification" else cuts.anywhere
        return cut(specs, count, self.size)

    def _record(self, split: str, chip: cuts.Chip) -> Record:
        return replace(super()._record(split, chip), label=self._label(chip))

    def _label(self, chip: cuts.Chip) -> int | float | tuple[int, ...] | None:
        if self.task == "classification":
            return chip.label
        if self.task == "segmentation":
            return None
        window = chip.window(self._mask(chip.scene))
        if self.task == REGRESSION:
            return float((window == self._cover).mean())
        share = np.bincount(window.ravel(), minlength=len(self.classes)) / window.size
        return tuple(int(part >= self.presence) for part in share)


def entry_bands(entry: dict, *, where: object) -> list[Band]:
    """The bands that the chips of an entry have."""
    if entry["task"] == PIXEL_REGRESSION or task_of(entry["task"]).objects:
        return aerial_bands(entry, where=where)
    names = entry["source"].get("bands", DEFAULT_BANDS)
    sensor = "sentinel2-l2a" if "B10" not in names and names != "all" else "sentinel2-l1c"
    unit = resolve_unit({"unit": "digital_number", "scale": 1e-4}, where=where)
    known = [known_band(sensor, name) for name in spectra.BANDS if name in SENSORS[sensor]]
    return chosen(known, unit, names, where=f"{where}: source.bands")
