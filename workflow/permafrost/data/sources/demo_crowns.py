"""Crowns of trees in aerial views of the procedural world: boxes, or the middles of crowns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError

from ..bands import known_band
from ..objects import Objects
from ..recent import Recent
from ..records import Decoded, Record
from ..units import resolve_unit
from ..world import aerial, crowns, cuts
from ..world import photograph as photographs
from .demo_chips import DemoChips, chosen

DEFAULTS = {
    "chip_size": 128,
    "scene_size": 256,
    "scenes": {"train": 25, "val": 10, "test": 25},
    "chips": {"train": 100, "val": 30, "test": 50},
}


@dataclass(frozen=True)
class _Taken:
    """A chip's pixels and crowns."""

    image: np.ndarray
    objects: Objects


class CrownSource(DemoChips):
    """Chips of aerial views, each an image of its own, with the crowns that it shows.

    Of a scene only its chips are kept, 64 KB each at the default size, so that listing the objects and
    decoding the pixels render a scene once between them.
    """

    ignore_index = None

    def __init__(self, entry: dict, *, where: object) -> None:
        super().__init__(entry, defaults=DEFAULTS, where=where)
        if self.scene_size > aerial.LARGEST:
            raise PermafrostError(
                f"scene_size {self.scene_size} is more than the world holds ({aerial.LARGEST})",
                where=where,
                remedy="choose a smaller multiple of 8, and more scenes",
            )
        self.classes = list(crowns.CLASSES)
        known = [known_band("aerial", name) for name in photographs.BANDS]
        unit = resolve_unit({"unit": "uint8"}, where=where)
        self.bands = chosen(known, unit, entry["source"].get("bands", "all"))
        self._of_scene: dict[aerial.ViewSpec, list[cuts.Chip]] = {}
        for _, chip in self._chips:
            self._of_scene.setdefault(chip.scene, []).append(chip)
        self._taken = Recent(self._take, keep=len(self._of_scene))

    def decode(self, index: int) -> Decoded:
        chip = self._chips[index][1]
        return Decoded(image=self._taken(chip.scene)[chip].image.copy())

    def _scene(self, number: int) -> aerial.ViewSpec:
        return aerial.ViewSpec(self.seed, number, self.scene_size)

    def _record(self, split: str, chip: cuts.Chip) -> Record:
        return replace(
            super()._record(split, chip),
            objects=self._taken(chip.scene)[chip].objects,
            image_size=(chip.size, chip.size),
        )

    def _take(self, spec: aerial.ViewSpec) -> dict[cuts.Chip, _Taken]:
        view = aerial.view(spec)
        image = photographs.photograph(spec, view, [band.name for band in self.bands])
        points = self.task == "point_detection"
        return {
            chip: _Taken(
                chip.window(image).copy(),
                crowns.crowns(view, chip.top, chip.left, chip.size, points=points),
            )
            for chip in self._of_scene[spec]
        }
