"""The table of the detections of whole test images, for statistics and reports; no torch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from permafrost.core.columns import Column
from permafrost.core.leakage import LEAK
from permafrost.data.labels.objects import OBJECTS, objects_column
from permafrost.metrics.objects.detected import MASKS, OUTLINES, Detected, join
from permafrost.probes.dense.shown import Ranked
from permafrost.probes.dense.tables import ShownPredictions
from permafrost.probes.detection.object_splits import ObjectSplit
from permafrost.probes.detection.scoring import hits
from permafrost.probes.metadata import PredictionColumns

DETECTION = pa.struct(
    [
        ("class", pa.int32()),
        *((name, pa.float64()) for name in ("x_min", "y_min", "x_max", "y_max", "score")),
    ]
)


class ObjectPredictions(ShownPredictions):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet of a dataset with boxes or
    points: one whole test image, merged from its windows. Coordinates are pixels of the whole image,
    x to the right and y down; both corners of a point are equal. The metadata of the file name the classes, the
    rules of the dataset (maximum number of detections, matching distance), the score threshold, layers, head, the
    settings with the results of every epoch, and everything that identifies the evaluation.

    Columns
    -------
    height : Height of the whole image in pixels.
    width : Width of the whole image in pixels.
    objects : The truth: every object of the image once, not clipped; class is its index in the metadata, area is
        in square pixels as annotated, crowd marks a region of inseparable objects (it need not be detected, and
        detections on it are ignored), polygon has rings of alternating x and y and is null for boxes and points;
        mask has COCO's compressed run lengths if the annotation is a raster (instance_segmentation).
    detections : The detections by descending score; for oriented boxes, the upright boxes around them.
    masks : instance_segmentation only: the mask of every detection as COCO's compressed run lengths, in the order of
        detections.
    polygon : oriented_detection only: the corners x0, y0, x1, y1, … of every detection, in the order of detections.
    """

    columns = (
        *PredictionColumns.columns,
        Column("height", "int32", least=1),
        Column("width", "int32", least=1),
        Column("objects", str(OBJECTS.type)),
        Column("detections", str(pa.list_(DETECTION))),
        Column(MASKS, "list<item: string>", optional=True),
        Column(OUTLINES, "list<item: list<item: double>>", optional=True),
        *ShownPredictions.but("shown"),
    )


def detection_table(
    test: ObjectSplit, found: list[Detected], ranked: Ranked, threshold: float
) -> pa.Table:
    """One row per whole image.

    Parameters
    ----------
    ranked : chooses the images to show; images with objects are rated by F1.
    threshold : smallest score of detections that count for F1.
    """
    images = test.images
    for row, (image, each) in enumerate(zip(images, found, strict=True)):
        if not image.objects.crowd.all():
            ranked.offer(row, hits(test, image, each.above(threshold)).f1)
    labels = ranked.labels()
    leaks = [image.leak for image in images]
    return pa.table(
        {
            "sample_id": pa.array([image.name for image in images], pa.string()),
            "group_id": pa.array([image.group for image in images], pa.string()),
            **({LEAK: pa.array(leaks, pa.string())} if any(leaks) else {}),
            "height": pa.array([image.size[0] for image in images], pa.int32()),
            "width": pa.array([image.size[1] for image in images], pa.int32()),
            "objects": objects_column([image.objects for image in images]),
            "detections": detections_column(found),
            **test.shape.columns(found),
            "shown": pa.array([labels.get(row) for row in range(len(images))], pa.string()),
        }
    )


def detections_column(found: list[Detected]) -> pa.Array:
    """A column with a list of `DETECTION` for each image."""
    every = join(found)
    columns = [every.classes, *every.boxes.T, every.scores]
    fields = list(DETECTION)
    arrays = [
        pa.array(np.ascontiguousarray(values), field.type)
        for values, field in zip(columns, fields, strict=True)
    ]
    offsets = np.cumsum([0, *(len(each) for each in found)])
    structs = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)
