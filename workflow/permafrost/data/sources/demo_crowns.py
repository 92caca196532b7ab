"""Crowns of trees in aerial views of the procedural world: boxes, or the middles of crowns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.data.objects import Objects
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.demo_aerial import AerialSource
from permafrost.data.world import aerial, crowns, cuts


@dataclass(frozen=True)
class _Taken:
    """A chip's pixels and crowns."""

    image: np.ndarray
    objects: Objects


class CrownSource(AerialSource):
    """Chips of aerial views with the crowns that they show."""

    def __init__(self, entry: dict, *, where: object) -> None:
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
        points = self.task == "point_detection"
        return {
            chip: _Taken(
                chip.window(image).copy(),
                crowns.crowns(view, chip.top, chip.left, chip.size, points=points),
            )
            for chip in self._of_scene[spec]
        }
