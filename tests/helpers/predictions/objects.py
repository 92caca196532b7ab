"""Made-up objects with their detections, and the same as COCO JSON or repeated as images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from permafrost.core.tables import write_table
from permafrost.data.labels.objects import Objects, objects_column
from permafrost.data.labels.oriented import area_of, corners_of, enclosing, polygons_of
from permafrost.metrics.objects import masks as object_masks
from permafrost.metrics.objects.detected import OUTLINES, Detected, outlines_column
from permafrost.statistics.predictions.objects import DetectedObjects, ObjectScoring

SIDE = 200.0


def predictions(
    task="detection",
    *,
    images=12,
    classes=3,
    objects=5.0,
    false_alarms=3.0,
    crowds=0.15,
    skill=0.75,
    ties=False,
    seed=0,
    groups=None,
    score_threshold=0.4,
    max_detections=100,
) -> DetectedObjects:
    """Truth that depends on its sizes alone, detections that depend on `seed` too."""
    points = task == "point_detection"
    random, guess = np.random.default_rng([images, classes]), np.random.default_rng([seed, images])
    truth, found = [], []
    for _ in range(images):
        # some images are empty
        count = random.poisson(objects) * int(random.random() > 0.15)
        corners = random.uniform(0, SIDE * 0.8, (count, 2))
        sides = random.uniform(4, 110, (count, 2)) * (not points)
        one = Objects.of(
            np.concatenate([corners, corners + sides], axis=1),
            random.integers(0, classes, count),
            crowd=random.random(count) < crowds,
        )
        made = _detect(one, guess, classes, skill, false_alarms, points, ties)
        if task == "oriented_detection":
            one, made = turned(one), turned(made)
        if task == "instance_segmentation":
            one, made = drawn(one), drawn(made)
        truth.append(one)
        found.append(made)
    return DetectedObjects.from_arrays(
        [f"image {number:03}" for number in range(images)],
        truth,
        found,
        [(int(SIDE), int(SIDE))] * images,
        scoring=ObjectScoring(
            task=task,
            classes=[f"class {number}" for number in range(classes)],
            score_threshold=score_threshold,
            max_detections=max_detections,
            match_distance=10.0 if points else None,
        ),
        groups=groups,
    )


def _detect(truth, random, classes, skill, false_alarms, points, ties) -> Detected:
    seen = np.flatnonzero(random.random(len(truth)) < skill)
    twice = seen[random.random(len(seen)) < 0.2]
    seen = np.concatenate([seen, twice])
    shift = random.normal(0, 4, (len(seen), 4))
    extra = random.uniform(0, SIDE * 0.8, (random.poisson(false_alarms), 2))
    sides = random.uniform(4, 90, extra.shape)
    if points:
        shift[:, 2:], sides = shift[:, :2], 0 * sides
    boxes = truth.boxes[seen] + shift
    boxes = np.concatenate([boxes, np.concatenate([extra, extra + sides], axis=1)])
    boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2])
    labels = np.where(random.random(len(seen)) < 0.9, truth.classes[seen], 0)
    labels = np.concatenate([labels, random.integers(0, classes, len(extra))]).astype(np.int64)
    scores = np.concatenate([random.random(len(seen)) ** 0.5, random.random(len(extra))])
    if ties:
        scores = np.round(scores * 5) / 5
    order = np.argsort(-scores, kind="stable")
    return Detected(boxes[order], labels[order], scores[order])


def turned(one):
    """Objects or detections with each box turned about its centre, by an angle that changes from left to right."""
    centres, sides = one.centres, one.boxes[:, 2:] - one.boxes[:, :2]
    corners = corners_of(np.column_stack([centres, sides, centres[:, 0] % 360]), "le90-degrees")
    if isinstance(one, Detected):
        return replace(one, boxes=enclosing(corners), outlines=corners.reshape(-1, 8))
    return replace(
        one, boxes=enclosing(corners), areas=area_of(corners), polygons=polygons_of(corners)
    )


def drawn(one):
    """Objects or detections as the masks of the pixels that their boxes touch."""
    low = np.clip(np.floor(one.boxes[:, :2]), 0, SIDE - 1).astype(int)
    high = np.clip(np.ceil(one.boxes[:, 2:]).astype(int), low + 1, int(SIDE))
    rasters = [np.ones(size[::-1], bool) for size in high - low]
    masks = object_masks.masks_of_rasters(rasters, low, *np.full((2, len(low)), int(SIDE)))
    boxes = object_masks.corners_of(masks)
    if isinstance(one, Detected):
        return replace(one, boxes=boxes, masks=masks)
    texts = tuple(object_masks.texts_of(masks))
    return replace(one, boxes=boxes, areas=masks.areas().astype(float), masks=texts)


def without(found: DetectedObjects, *, truth=False, detections=False, images=None):
    """The same without truth, or without detections, on all `images` or on these."""
    chosen = range(len(found)) if images is None else images
    objects, made = list(found.objects), list(found.detections)
    for number in chosen:
        objects[number] = objects[number].take([]) if truth else objects[number]
        made[number] = made[number].above(np.inf) if detections else made[number]
    return replace(found, objects=objects, detections=made)


def all_crowd(found: DetectedObjects) -> DetectedObjects:
    """The same with every object a crowd."""
    crowds = [replace(one, crowd=np.ones(len(one), bool)) for one in found.objects]
    return replace(found, objects=crowds)


def repeated(found: DetectedObjects, times) -> DetectedObjects:
    """The test set in which image i occurs `times[i]` times, each under a name of its own."""
    rows = np.repeat(np.arange(len(found)), times)
    copies = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    return DetectedObjects.from_arrays(
        [f"{found.sample_ids[row]} copy {copy:03}" for row, copy in zip(rows, copies, strict=True)],
        [found.objects[row] for row in rows],
        [found.detections[row] for row in rows],
        found.sizes[rows],
        scoring=ObjectScoring(
            task=found.task,
            classes=found.classes,
            score_threshold=found.scoring.score_threshold,
            max_detections=found.scoring.max_detections,
            match_distance=found.scoring.match_distance,
        ),
    )


def coco(found: DetectedObjects) -> tuple[dict, list[dict]]:
    """Truth and detections as COCO JSON."""
    truth: dict = {
        "images": [
            {"id": number, "height": int(height), "width": int(width)}
            for number, (height, width) in enumerate(found.sizes, 1)
        ],
        "categories": [{"id": k, "name": name} for k, name in enumerate(found.classes, 1)],
        "annotations": [],
    }
    made = []
    for number, (one, detected) in enumerate(zip(found.objects, found.detections, strict=True), 1):
        for box, label, area, crowd, polygon in zip(
            one.boxes, one.classes, one.areas, one.crowd, one.polygons, strict=True
        ):
            truth["annotations"].append(
                {
                    "id": len(truth["annotations"]) + 1,
                    "image_id": number,
                    "category_id": int(label) + 1,
                    "bbox": _sides(box),
                    "area": float(area),
                    "iscrowd": int(crowd),
                    **({} if polygon is None else {"segmentation": polygon}),
                }
            )
        outlines = [None] * len(detected) if detected.outlines is None else detected.outlines
        rows = zip(detected.boxes, detected.classes, detected.scores, outlines, strict=True)
        made += [
            {"image_id": number, "category_id": int(k) + 1, "bbox": _sides(box), "score": float(s)}
            | ({} if ring is None else {"segmentation": [ring.tolist()]})
            for box, k, s, ring in rows
        ]
    return truth, made


def _sides(box) -> list[float]:
    return [*box[:2].tolist(), *(box[2:] - box[:2]).tolist()]


def metadata(found: DetectedObjects, **change) -> dict:
    """The metadata of a detection probe's table."""
    points = found.task == "point_detection"
    return {
        "fingerprint": "made",
        "stage": "detection",
        "dataset": "demo-crowns",
        "backbone": "resnet18",
        "probe": "fcos",
        "seed": 0,
        "kind": "detection",
        "task": found.task,
        "classes": found.classes,
        "n_train": 40,
        "n_val": 10,
        "n_test": 20,
        "feature_dim": 960,
        "settings": {
            "parameters": 1234,
            "layers": ["layer4", "layer1"],
            "learning_rate": 1e-3,
            "epoch": 10,
            "epochs_log": [{"epoch": 1, "train_loss": 1.0, "val_ap": 0.1}],
            "score_threshold": found.scoring.score_threshold,
            "precision": "fp32",
            "strides": [8],
        },
        "gates": [],
        "options": {},
        "backbone_fingerprint": "backbone",
        "split_method": "group",
        "spatially_random": False,
        "detection": {
            "geometry": "point" if points else "box",
            "max_detections": found.scoring.max_detections,
            "match_distance": found.scoring.match_distance,
            "min_visible": 0.5,
            "tiles": None,
        },
        "layers": ["layer4", "layer1"],
        "head": "fcos",
    } | change


DETECTION = pa.struct(
    [
        ("class", pa.int32()),
        *((name, pa.float64()) for name in ("x_min", "y_min", "x_max", "y_max", "score")),
    ]
)


def prediction_table(found: DetectedObjects) -> pa.Table:
    """The rows that a detection probe writes."""
    count = len(found)
    detections = [
        [
            dict(zip(DETECTION.names, (int(label), *box, score), strict=True))
            for label, box, score in zip(
                one.classes, one.boxes.tolist(), one.scores.tolist(), strict=True
            )
        ]
        for one in found.detections
    ]
    groups = [None] * count if found.groups is None else list(found.groups)
    return pa.table(
        {
            "sample_id": pa.array(found.sample_ids.tolist(), pa.string()),
            "group_id": pa.array(groups, pa.string()),
            "height": pa.array(found.sizes[:, 0], pa.int32()),
            "width": pa.array(found.sizes[:, 1], pa.int32()),
            "objects": objects_column(found.objects),
            "detections": pa.array(detections, pa.list_(DETECTION)),
            **(
                {OUTLINES: outlines_column(found.detections)}
                if found.task == "oriented_detection"
                else {}
            ),
            "shown": pa.array(["drawn", *[None] * (count - 1)], pa.string()),
        }
    )


def write_predictions(path, found: DetectedObjects, **change) -> dict:
    """Write the table of a detection probe; returns its metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = metadata(found, **change)
    write_table(path, prediction_table(found), written)
    return written
