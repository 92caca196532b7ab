"""What all demo datasets have in common: splits of scenes, chips of scenes, and where these lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.bands import select_bands
from permafrost.data.records import Record
from permafrost.data.sensors import Band
from permafrost.data.world import cuts

_DAYS = 180


class DemoChips:
    """Chips of generated scenes; every split has scenes of its own, numbered on from those before it.

    Parameters
    ----------
    defaults : what the entry may leave out: ``chip_size``, ``scene_size``, and per split ``scenes`` and
        ``chips``.
    """

    def __init__(self, entry: dict, *, defaults: dict, where: object) -> None:
        options = entry["source"]
        self.task: str = entry["task"]
        self.seed: int = options.get("seed", 0)
        self.size: int = options.get("chip_size", defaults["chip_size"])
        self.scene_size: int = options.get("scene_size", defaults["scene_size"])
        self._check_sizes(where)
        self._chips: list[tuple[str, cuts.Chip]] = []
        scenes, chips = ({**defaults[key], **options.get(key, {})} for key in ("scenes", "chips"))
        first = 0
        for split in SPLITS:
            specs = [self._scene(first + number) for number in range(scenes[split])]
            self._chips += [(split, chip) for chip in self._cut(specs, chips[split])]
            first += len(specs)

    def _scene(self, number: int):
        """What the scene of that number follows from."""
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


def chosen(known: Sequence[Band], unit: dict, names, *, where: object) -> list[Band]:
    """The bands of these names, in the unit that the demo's camera has."""
    offered = [Band(**{**band.as_dict(), **unit}) for band in known]
    return [offered[position] for position in select_bands(offered, names, where=where)]
