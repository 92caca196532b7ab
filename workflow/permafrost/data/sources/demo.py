"""Kind ``demo``: chips of the procedural world, generated on the spot."""

from __future__ import annotations

import threading
from collections import OrderedDict

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.splits import SPLITS

from ..bands import SENSORS, Band, known_band, select_bands
from ..records import Decoded, Record
from ..units import resolve_unit
from ..world import cuts, spectra
from ..world import scene as scenes

DEFAULT_BANDS = ["B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12"]
DEFAULT_SCENES = {"train": 18, "val": 6, "test": 10}
DEFAULT_CHIPS = {"train": 480, "val": 160, "test": 240}
_DAYS = 180


class DemoSource:
    """Chips of generated scenes; every split has scenes of its own.

    The task of the entry decides the cut: ``classification`` (chips by their dominant class),
    ``multilabel`` (classes that cover at least `presence` of a chip), ``segmentation`` (masks,
    clouds ignored).
    """

    def __init__(self, entry: dict, *, where: object) -> None:
        options = entry["source"]
        self.task: str = entry["task"]
        self.classes = list(scenes.CLASSES)
        self.ignore_index = scenes.CLOUD if self.task == "segmentation" else None
        self.seed = options.get("seed", 0)
        self.presence = options.get("presence", 0.05)
        self.size = options.get("chip_size", 64)
        self.scene_size = options.get("scene_size", 448)
        self._check_sizes(where)
        self.bands = _bands(options.get("bands", DEFAULT_BANDS), where)
        self._chips: list[tuple[str, cuts.Chip]] = []
        first = 0
        for split in SPLITS:
            count = {**DEFAULT_SCENES, **options.get("scenes", {})}[split]
            specs = [self._scene(first + number) for number in range(count)]
            chips = {**DEFAULT_CHIPS, **options.get("chips", {})}[split]
            cut = cuts.by_class if self.task == "classification" else cuts.anywhere
            self._chips += [(split, chip) for chip in cut(specs, chips, self.size)]
            first += count
        self._render = _Cache(lambda spec: scenes.render(spec, [band.name for band in self.bands]))
        self._mask = _Cache(scenes.mask)

    def records(self) -> list[Record]:
        return [self._record(split, chip) for split, chip in self._chips]

    def decode(self, index: int) -> Decoded:
        chip = self._chips[index][1]
        mask = chip.window(self._mask(chip.scene)).copy() if self.task == "segmentation" else None
        return Decoded(image=chip.window(self._render(chip.scene)).copy(), mask=mask)

    def locate(self, index: int) -> tuple[float, float]:
        return self._chips[index][1].lonlat()

    def _scene(self, number: int) -> scenes.SceneSpec:
        return scenes.SceneSpec(self.seed, number, self.scene_size, self.task == "segmentation")

    def _record(self, split: str, chip: cuts.Chip) -> Record:
        lon, lat = chip.lonlat()
        day = np.datetime64("2021-04-01") + chip.scene.number * 37 % _DAYS
        return Record(
            sample_id=chip.name,
            label=self._label(chip),
            split=split,
            group_id=f"scene{chip.scene.number:03d}",
            lon=lon,
            lat=lat,
            date=str(day),
        )

    def _label(self, chip: cuts.Chip) -> int | tuple[int, ...] | None:
        if self.task == "classification":
            return chip.label
        if self.task == "segmentation":
            return None
        window = chip.window(self._mask(chip.scene))
        share = np.bincount(window.ravel(), minlength=len(self.classes)) / window.size
        return tuple(int(part >= self.presence) for part in share)

    def _check_sizes(self, where) -> None:
        if self.scene_size % 8 or self.scene_size < 2 * self.size:
            raise PermafrostError(
                f"scene_size {self.scene_size} is not a multiple of 8 of at least two chips"
                f" ({2 * self.size})",
                where=where,
                remedy="choose a larger multiple of 8",
            )


def _bands(names, where) -> list[Band]:
    sensor = "sentinel2-l2a" if "B10" not in names and names != "all" else "sentinel2-l1c"
    unit = resolve_unit({"unit": "digital_number", "scale": 1e-4}, where=where)
    offered = [name for name in spectra.BANDS if name in SENSORS[sensor]]
    known = [Band(**{**known_band(sensor, name).as_dict(), **unit}) for name in offered]
    return [known[position] for position in select_bands(known, names)]


class _Cache:
    """The last few scenes, made once even when several threads ask at the same time."""

    def __init__(self, make, keep: int = 4) -> None:
        self._make, self._keep = make, keep
        self._made: OrderedDict = OrderedDict()
        self._locks: dict = {}
        self._lock = threading.Lock()

    def __call__(self, spec):
        with self._lock:
            lock = self._locks.setdefault(spec, threading.Lock())
        with lock:
            with self._lock:
                made = self._made.get(spec)
            if made is None:
                made = self._make(spec)
                with self._lock:
                    self._made[spec] = made
                    while len(self._made) > self._keep:
                        self._made.popitem(last=False)
            return made
