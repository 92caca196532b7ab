"""Aerial views of the procedural world, cut into chips: what datasets of crowns and of heights share."""

from __future__ import annotations

from permafrost.core.errors import PermafrostError
from permafrost.data.bands import known_band
from permafrost.data.cache import LeastRecentlyUsed
from permafrost.data.sensors import Band
from permafrost.data.sources.demo_chips import DemoChips, chosen
from permafrost.data.units import resolve_unit
from permafrost.data.world import aerial, cuts
from permafrost.data.world import photograph as photographs

DEFAULTS = {
    "chip_size": 128,
    "scene_size": 256,
    "scenes": {"train": 25, "val": 10, "test": 25},
    "chips": {"train": 100, "val": 30, "test": 50},
}


def aerial_bands(entry: dict, *, where: object) -> list[Band]:
    """The bands that the chips of an entry have."""
    known = [known_band("aerial", name) for name in photographs.BANDS]
    unit = resolve_unit({"unit": "uint8"}, where=where)
    names = entry["source"].get("bands", "all")
    return chosen(known, unit, names, where=f"{where}: source.bands")


class AerialSource(DemoChips):
    """Chips of aerial views, each an image of its own.

    Of a scene only its chips are kept, 64 KB each at the default size, so that a scene is rendered once.
    """

    ignore_index = None
    classes: list[str]

    def __init__(self, entry: dict, *, where: object) -> None:
        super().__init__(entry, defaults=DEFAULTS, where=where)
        if self.scene_size > aerial.LARGEST:
            raise PermafrostError(
                f"scene_size {self.scene_size} is more than the world holds ({aerial.LARGEST})",
                where=where,
                remedy="choose a smaller multiple of 8, and more scenes",
            )
        self.bands = aerial_bands(entry, where=where)
        self._of_scene: dict[aerial.ViewSpec, list[cuts.Chip]] = {}
        for _, chip in self._chips:
            self._of_scene.setdefault(chip.scene, []).append(chip)
        self._taken = LeastRecentlyUsed(self._render, keep=len(self._of_scene))

    def _scene(self, number: int) -> aerial.ViewSpec:
        return aerial.ViewSpec(self.seed, number, self.scene_size)

    def _render(self, spec: aerial.ViewSpec) -> dict:
        """What each chip of a scene shows."""
        view = aerial.view(spec)
        image = photographs.photograph(spec, view, [band.name for band in self.bands])
        return self._take(spec, view, image)

    def _take(self, spec: aerial.ViewSpec, view: aerial.View, image) -> dict:
        """``{chip: what is kept of it}``, given the scene and its picture (C, size, size)."""
        raise NotImplementedError
