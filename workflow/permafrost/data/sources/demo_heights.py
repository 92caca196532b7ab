"""Heights above ground of aerial views of the procedural world, as a laser in the aircraft measures them."""

from __future__ import annotations

import numpy as np

from permafrost.data.records import Decoded
from permafrost.data.sources.demo_aerial import AerialSource
from permafrost.data.world import aerial
from permafrost.data.world.canvas import GROUND
from permafrost.data.world.scene import CLASSES


class HeightSource(AerialSource):
    """Chips with the height of what stands at each pixel, in metres.

    Open water sends no light of a laser back, so that its pixels have no data.
    """

    def __init__(self, entry: dict, *, where: object) -> None:
        super().__init__(entry, where=where)
        self.classes = []

    def decode(self, index: int) -> Decoded:
        chip = self._chips[index][1]
        image, heights = self._taken(chip.scene)[chip]
        return Decoded(image=image.copy(), target=heights.copy())

    def _take(self, spec: aerial.ViewSpec, view: aerial.View, image: np.ndarray) -> dict:
        inside = (slice(aerial.MARGIN, -aerial.MARGIN),) * 2
        open_water = (aerial.cover_map(spec) == CLASSES.index("water")) & (
            view.canvas.top == GROUND
        )
        heights = np.where(open_water, np.float32(np.nan), view.canvas.height)[inside]
        return {
            chip: (chip.window(image).copy(), chip.window(heights).copy())
            for chip in self._of_scene[spec]
        }
