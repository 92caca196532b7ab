"""Windows of one image with objects, as `ObjectSplit` offers them, without a store."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from permafrost.data.files.windows import cut_windows
from permafrost.data.labels.objects import Objects
from permafrost.data.store.tiles import objects_by_window
from permafrost.probes.detection.object_splits import WholeImage
from permafrost.probes.detection.shapes import POINTS, UPRIGHT


class Windows(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.origins)


def windows_of(objects: Objects, width: int, height: int, tiles: dict, working) -> Windows:
    cut = cut_windows(width, height, **tiles)
    sizes = np.array([[window.height, window.width] for window in cut])
    return Windows(
        objects=list(objects_by_window(objects, cut)),
        origins=np.array([[window.x, window.y] for window in cut], float),
        sizes=sizes,
        scales=np.array(working[::-1]) / sizes[:, ::-1],
        shape=POINTS if (objects.boxes[:, :2] == objects.boxes[:, 2:]).all() else UPRIGHT,
        detection={"min_visible": 0.5, "tiles": tiles},
        images=[WholeImage("a", "a", np.arange(len(cut)), (height, width), objects)],
    )
