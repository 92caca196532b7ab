"""Detected of whole test images as the table that statistics and reports read; no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.tables import write_table
from permafrost.data.objects import objects_column
from permafrost.metrics.objects.detected import Detected, join
from permafrost.probes.dense.shown import Ranked
from permafrost.probes.dense.splits import Layer
from permafrost.probes.detection.scoring import hits
from permafrost.probes.detection.splits import ObjectSplit
from permafrost.probes.metadata import prediction_metadata

HEAD = "fcos"
DETECTION = pa.struct(
    [
        ("class", pa.int32()),
        *((name, pa.float64()) for name in ("x_min", "y_min", "x_max", "y_max", "score")),
    ]
)


def detection_table(
    test: ObjectSplit, found: list[Detected], ranked: Ranked, threshold: float
) -> pa.Table:
    """One row per whole image.

    Parameters
    ----------
    ranked : chooses the images that are shown; they are rated by F1, those with an object.
    threshold : score from which on a detection counts for it.
    """
    images = test.images
    for row, (image, each) in enumerate(zip(images, found, strict=True)):
        if not image.objects.crowd.all():
            ranked.offer(row, hits(test, image, each.above(threshold)).f1)
    labels = ranked.labels()
    return pa.table(
        {
            "sample_id": pa.array([image.name for image in images], pa.string()),
            "group_id": pa.array([image.group for image in images], pa.string()),
            "height": pa.array([image.size[0] for image in images], pa.int32()),
            "width": pa.array([image.size[1] for image in images], pa.int32()),
            "objects": objects_column([image.objects for image in images]),
            "detections": detections_column(found),
            "shown": pa.array([labels.get(row) for row in range(len(images))], pa.string()),
        }
    )


def detections_column(found: list[Detected]) -> pa.Array:
    """A list of `DETECTION` for each image."""
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


def write_detections(
    path: Path,
    table: pa.Table,
    *,
    splits: dict[str, ObjectSplit],
    layers: list[Layer],
    settings: dict,
    gates: list[str],
    spec: dict,
    fingerprint: str,
    files: dict[str, str],
) -> None:
    """Write the table with what identifies and explains it.

    `files` : SHA-256 by name of the files that lie beside it (`coco_json.coco_folder`).
    """
    test = splits["test"]
    metadata = prediction_metadata(
        test.attributes,
        spec=spec,
        fingerprint=fingerprint,
        counts={name: len(split) for name, split in splits.items()},
        feature_dim=sum(layer.channels for layer in layers),
        settings=settings,
        gates=gates,
    )
    own = {
        "detection": test.detection,
        "working_size": test.attributes["working_size"],
        "head": HEAD,
        "layers": [layer.name for layer in layers],
        "files": files,
    }
    write_table(path, table, {**metadata, **own})
