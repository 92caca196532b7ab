"""What the report reads of a table of detections: all of it, matched, and which images to show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.tables import read_table
from permafrost.data.geometries import BOX, POINT
from permafrost.metrics.objects.hits import match_hits
from permafrost.metrics.objects.matching import IOU_THRESHOLD
from permafrost.report.figures.detections import Answer
from permafrost.statistics.predictions.objects import DetectedObjects

SHOWN = ("drawn", "best", "worst")


@dataclass(frozen=True)
class ObjectPredictions:
    """The predictions of a detection probe on the test set.

    Attributes
    ----------
    found : truth and detections of every whole image.
    shown : ``drawn``, ``best``, ``worst`` -> ids of the images to show, in the table's order.
    metadata : of the table.
    """

    found: DetectedObjects
    shown: dict[str, list[str]]
    metadata: dict

    @property
    def kind(self) -> str:
        """What shapes the detections are: ``box`` or ``point``."""
        return POINT if self.found.task == "point_detection" else BOX

    @property
    def threshold(self) -> float:
        """IoU above which, or distance below which, an object counts as found in `answer`."""
        return self.found.match_distance if self.kind == POINT else IOU_THRESHOLD

    def answer(self, name: str) -> Answer:
        """What became of the objects of an image, and of its detections that score enough."""
        row = int(np.flatnonzero(self.found.sample_ids == name)[0])
        objects = self.found.objects[row]
        detected = self.found.detections[row].above(self.found.score_threshold)
        truth, made = (
            (each.centres if self.kind == POINT else each.boxes) for each in (objects, detected)
        )
        partner, counted = match_hits(
            self.kind, truth, objects.crowd, made, threshold=self.threshold
        )
        found, hit = partner >= 0, np.zeros(len(made), bool)
        hit[partner[found]] = True
        confused = np.zeros(len(made), bool)
        confused[partner[found]] = objects.classes[found] != detected.classes[partner[found]]
        return Answer(
            found=truth[found],
            missed=truth[~found & ~objects.crowd],
            uncounted=truth[objects.crowd],
            hits=made[hit & ~confused],
            confused=made[confused],
            alarms=made[counted & ~hit],
            excused=made[~counted],
        )


def read_detected(path, *, expect: str | None = None) -> ObjectPredictions:
    """Read a table of detections.

    Raises
    ------
    PermafrostError : missing, damaged, of another plan, or with entries that cannot be scored.
    """
    table, metadata = read_table(path, expect=expect)
    kinds = dict(zip(table["sample_id"].to_pylist(), table["shown"].to_pylist(), strict=True))
    return ObjectPredictions(
        DetectedObjects.from_table(table, metadata),
        {kind: [name for name, own in kinds.items() if own == kind] for kind in SHOWN},
        metadata,
    )
