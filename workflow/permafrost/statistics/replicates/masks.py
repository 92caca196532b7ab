"""Scores of detected masks, and average precision of their boxes."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.objects.shapes import ObjectShape
from permafrost.statistics.replicates.boxes import BoxScores

#: metric by boxes -> its name among those of boxes
_OF_BOXES = {"box_AP": "AP", "box_AP50": "AP50", "box_AP75": "AP75"}


class MaskScores(BoxScores):
    """`BoxScores` by the IoU of masks, and ``box_AP``, ``box_AP50`` and ``box_AP75`` by that of boxes."""

    prefix = "mask"

    def __init__(self, objects, detections, sizes, **how) -> None:
        super().__init__(objects, detections, sizes, **how)
        self.boxes = BoxScores(objects, detections, sizes, **{**how, "shape": ObjectShape()})

    def holders(self, metric: str, units: np.ndarray) -> np.ndarray | None:
        if metric in _OF_BOXES:
            return self.boxes.holders(_OF_BOXES[metric], units)
        return super().holders(metric, units)

    def curve_values(self) -> dict:
        boxes = self.boxes.curve_values()
        return {
            **super().curve_values(),
            **{ours: boxes[theirs] for ours, theirs in _OF_BOXES.items()},
        }

    def curve_replicates(self, counts: np.ndarray, wanted: set[str]) -> dict[str, np.ndarray]:
        of_boxes = {ours: theirs for ours, theirs in _OF_BOXES.items() if ours in wanted}
        boxes = self.boxes.curve_replicates(counts, set(of_boxes.values()))
        return {
            **super().curve_replicates(counts, wanted),
            **{ours: boxes[theirs] for ours, theirs in of_boxes.items()},
        }
