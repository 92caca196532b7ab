"""Read objects for the report: matched detections chosen for pictures, and counts of the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.core.store_readers import open_store
from permafrost.core.stores import Store
from permafrost.core.tables import read_table
from permafrost.data.labels.objects import objects_of
from permafrost.metrics.objects.hits import match_hits
from permafrost.metrics.objects.shapes import ObjectShape, object_shape
from permafrost.report.figures.detections import Answer
from permafrost.report.figures.object_sizes import Objects
from permafrost.report.material.dataset import Material
from permafrost.statistics.predictions.objects import DetectedObjects

SHOWN = ("drawn", "best", "worst")


@dataclass(frozen=True)
class ObjectPredictions:
    """The predictions of a detection probe on the test set.

    Attributes
    ----------
    detected : truth and detections of every whole image.
    shown : ``drawn``, ``best``, ``worst`` -> ids of the images to show, in the table's order.
    metadata : of the table.
    """

    detected: DetectedObjects
    shown: dict[str, list[str]]
    metadata: dict

    @property
    def shape(self) -> ObjectShape:
        """The shape of objects and detections."""
        return object_shape(self.detected.task)

    @property
    def kind(self) -> str:
        """The shape's kind, see `data.labels.geometries`."""
        return self.shape.kind

    @property
    def threshold(self) -> float:
        """IoU above which, or distance below which, an object counts as matched in `answer`."""
        return self.shape.threshold(self.detected.scoring.match_distance)

    def answer(self, name: str) -> Answer:
        """Outcomes of the objects of an image, and of its detections above the threshold."""
        row = int(np.flatnonzero(self.detected.sample_ids == name)[0])
        objects = self.detected.objects[row]
        detected = self.detected.detections[row].above(self.detected.scoring.score_threshold)
        truth, made = self.shape.of(objects), self.shape.of(detected)
        partner, counted = match_hits(
            self.kind, truth, objects.crowd, made, threshold=self.threshold
        )
        matched, hit = partner >= 0, np.zeros(len(made), bool)
        hit[partner[matched]] = True
        confused = np.zeros(len(made), bool)
        confused[partner[matched]] = objects.classes[matched] != detected.classes[partner[matched]]
        return Answer(
            found=truth[matched],
            missed=truth[~matched & ~objects.crowd],
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
    PermafrostError : the table is missing, damaged or from another plan, or has entries that cannot
        be scored.
    """
    table, metadata = read_table(path, expect=expect)
    kinds = dict(zip(table["sample_id"].to_pylist(), table["shown"].to_pylist(), strict=True))
    return ObjectPredictions(
        DetectedObjects.from_table(table, metadata),
        {kind: [name for name, own in kinds.items() if own == kind] for kind in SHOWN},
        metadata,
    )


def read_truth(material: Material) -> dict[str, Objects]:
    """Split -> its objects, without crowds, for the splits with an available image store.

    An object visible in several windows is counted once.
    """
    objects_by_split = {}
    for split in material.card.splits:
        path = material.stores.get(split)
        if path is not None and path.exists():
            objects_by_split[split] = _of_store(
                open_store(path, expect=material.expected(path), split=split)
            )
    return objects_by_split


def _of_store(store: Store) -> Objects:
    table = store.samples(columns=["image_id", "objects"])
    images: dict[str, dict[int, float]] = {}
    for image, objects in zip(
        table["image_id"].to_pylist(), objects_of(table["objects"]), strict=True
    ):
        own = images.setdefault(image, {})
        regular = objects.take(~objects.crowd)
        # points have no area; all of their sizes are 0
        sides = regular.boxes[:, 2:] - regular.boxes[:, :2]
        own.update(zip(regular.numbers.tolist(), sides.prod(axis=1).tolist(), strict=True))
    return Objects(
        np.array([len(own) for own in images.values()], np.int64),
        np.array([math.sqrt(area) for own in images.values() for area in own.values()]),
    )
