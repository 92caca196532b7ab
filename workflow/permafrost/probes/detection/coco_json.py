"""Write truth and detections in COCO's format, for COCO evaluators and further analysis."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from permafrost.core.identity import file_digest
from permafrost.core.outputs import whole_directory
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.detection.object_splits import ObjectSplit, WholeImage
from permafrost.probes.detection.shapes.shape import HeadShape

TRUTH, DETECTIONS = "truth.json", "detections.json"


def truth_json(
    images: list[WholeImage], classes: list[str], shape: HeadShape, info: dict | None = None
) -> dict:
    """The truth as COCO JSON: images 1 to N in order, categories 1 to K, objects numbered from 1."""
    annotations: list[dict] = []
    for number, image in enumerate(images, 1):
        objects = image.objects
        rows = zip(
            objects.classes.tolist(),
            _with_sides(objects.boxes),
            objects.areas.tolist(),
            objects.crowd.tolist(),
            shape.coco_truth(objects),
            strict=True,
        )
        for label, box, area, crowd, further in rows:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    "category_id": label + 1,
                    "bbox": box,
                    "area": area,
                    "iscrowd": int(crowd),
                    **further,
                }
            )
    return {
        "info": info or {},
        "images": [
            {"id": i, "file_name": image.name, "height": image.size[0], "width": image.size[1]}
            for i, image in enumerate(images, 1)
        ],
        "categories": [{"id": i, "name": name} for i, name in enumerate(classes, 1)],
        "annotations": annotations,
    }


def detections_json(found: list[Detected], shape: HeadShape) -> list[dict]:
    """The detections of images 1 to N, in COCO's results format."""
    return [
        {"image_id": number, "category_id": label + 1, "bbox": box, "score": score, **further}
        for number, each in enumerate(found, 1)
        for label, box, score, further in zip(
            each.classes.tolist(),
            _with_sides(each.boxes),
            each.scores.tolist(),
            shape.coco_found(each),
            strict=True,
        )
    ]


def _with_sides(boxes: np.ndarray) -> list[list[float]]:
    """Convert corners to x, y, width and height."""
    return np.hstack([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]]).tolist()


@contextlib.contextmanager
def coco_folder(
    path: Path | None, split: ObjectSplit, found: list[Detected], *, info: dict
) -> Iterator[dict[str, str]]:
    """Context that writes truth and detections of a split; the folder appears if the block succeeds. None: no folder.

    Yields the SHA-256 of each file, which the table of predictions records.

    Images are numbered in the order of their names, as in the statistics: the order breaks ties of
    scores, so that evaluators of the files compute the same values.
    """
    if path is None:
        yield {}
        return
    order = sorted(range(len(split.images)), key=lambda row: split.images[row].name)
    images, found = [split.images[row] for row in order], [found[row] for row in order]
    with whole_directory(path) as folder:
        for name, content in (
            (TRUTH, truth_json(images, split.classes, split.shape, info)),
            (DETECTIONS, detections_json(found, split.shape)),
        ):
            (folder / name).write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")
        yield {name: file_digest(folder / name) for name in (TRUTH, DETECTIONS)}
