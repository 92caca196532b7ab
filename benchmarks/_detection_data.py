"""A generated set of detections of the size of COCO's validation part, for timing.

Images of 640 x 480 with a handful of objects of few categories each; detections are shifted copies of
the objects plus false alarms, as a detector with a low score threshold leaves them. Masks are
twelve-cornered ellipses: polygons in the truth, compressed run lengths in the detections.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from permafrost.metrics.detection.masks.codec import encode
from permafrost.metrics.detection.masks.polygons import rasterise

WIDTH, HEIGHT = 640, 480
CORNERS = 12
JOINTS = 17


def sizes_of(images: int) -> dict[str, int]:
    """Arguments of `make_set` for another number of images."""
    return {"images": images, "truths": 36_000 * images // 5000, "detections": 40 * images}


def make_set(
    folder: Path,
    *,
    images: int = 5000,
    categories: int = 80,
    truths: int = 36_000,
    detections: int = 200_000,
    seed: int = 0,
    masks: bool = True,
) -> dict[str, Path]:
    """Write ``truth.json``, ``bbox.json`` and, with `masks`, ``segm.json``; return their paths by name."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    image, category, boxes = _objects(rng, images, categories, truths)
    found_image, found_category, found_boxes, scores = _found(
        rng, image, category, boxes, images, categories, detections
    )
    paths = {name: folder / f"{name}.json" for name in ("truth", "bbox", "segm")}
    paths["truth"].write_text(json.dumps(_truth(rng, image, category, boxes, images, categories)))
    plain = [
        {
            "image_id": int(i) + 1,
            "category_id": int(k) + 1,
            "bbox": [round(float(v), 2) for v in box],
            "score": round(float(score), 5),
        }
        for i, k, box, score in zip(found_image, found_category, found_boxes, scores, strict=True)
    ]
    paths["bbox"].write_text(json.dumps(plain))
    if not masks:
        return {name: paths[name] for name in ("truth", "bbox")}
    rings = _rings(rng, found_boxes)
    pixels = rasterise(
        rings.reshape(-1, 2),
        np.full(len(rings), CORNERS),
        np.arange(len(rings)),
        np.full(len(rings), HEIGHT),
        np.full(len(rings), WIDTH),
    )
    for entry, counts in zip(plain, encode(pixels), strict=True):
        entry["segmentation"] = {"size": [HEIGHT, WIDTH], "counts": counts.decode()}
    paths["segm"].write_text(json.dumps(plain))
    return paths


def make_lvis(folder: Path, *, seed: int = 0) -> Path:
    """Write ``lvis_truth.json``, the truth of `make_set` with LVIS's lists, and return its path.

    Each image was searched for the categories of its objects and for ten others; one in ten of the former is
    not annotated exhaustively.
    """
    rng = np.random.default_rng(seed)
    truth = json.loads((folder / "truth.json").read_text())
    categories = truth["categories"]
    for place, category in enumerate(categories):
        category["frequency"] = "rcf"[place % 3]
    present: dict[int, set[int]] = {image["id"]: set() for image in truth["images"]}
    for annotation in truth["annotations"]:
        # LVIS has no crowds
        del annotation["iscrowd"]
        present[annotation["image_id"]].add(annotation["category_id"])
    for image in truth["images"]:
        own = sorted(present[image["id"]])
        others = set((rng.permutation(len(categories))[:10] + 1).tolist())
        image["neg_category_ids"] = sorted(others.difference(own))
        image["not_exhaustive_category_ids"] = [k for k in own if rng.random() < 0.1]
    path = folder / "lvis_truth.json"
    path.write_text(json.dumps(truth))
    return path


def make_oriented(
    folder: Path,
    *,
    images: int = 5000,
    categories: int = 80,
    truths: int = 36_000,
    detections: int = 200_000,
    seed: int = 0,
) -> dict[str, Path]:
    """Write ``oriented_truth.json`` and ``oriented.json``: boxes of five numbers (`le90`); return their paths."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    image, category, boxes = _objects(rng, images, categories, truths)
    numbers = np.column_stack([boxes, rng.uniform(-np.pi / 2, np.pi / 2, truths)])
    found_image, found_category, found, scores = _found(
        rng, image, category, numbers, images, categories, detections
    )
    paths = {name: folder / f"{name}.json" for name in ("oriented_truth", "oriented")}
    crowd = rng.random(truths) < 0.01
    truth = _truth(rng, image, category, boxes, images, categories)
    truth["annotations"] = [
        {
            "id": n + 1,
            "image_id": int(image[n]) + 1,
            "category_id": int(category[n]) + 1,
            "obb": _centred(numbers[n]),
            "area": float(numbers[n, 2] * numbers[n, 3]),
            "iscrowd": int(crowd[n]),
        }
        for n in range(truths)
    ]
    paths["oriented_truth"].write_text(json.dumps(truth))
    plain = [
        {
            "image_id": int(i) + 1,
            "category_id": int(k) + 1,
            "obb": _centred(box),
            "score": round(float(score), 5),
        }
        for i, k, box, score in zip(found_image, found_category, found, scores, strict=True)
    ]
    paths["oriented"].write_text(json.dumps(plain))
    return paths


def _centred(box: np.ndarray) -> list[float]:
    """Centre, sides and angle of x, y, width, height, angle."""
    x, y, width, height, angle = box.tolist()
    numbers = (x + width / 2, y + height / 2, width, height)
    return [*(round(v, 2) for v in numbers), round(angle, 5)]


def make_keypoints(
    folder: Path,
    *,
    images: int = 5000,
    truths: int = 11_000,
    detections: int = 200_000,
    seed: int = 0,
) -> dict[str, Path]:
    """Write ``keypoints_truth.json`` and ``keypoints.json``, people with 17 points; return their paths by name."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    image, boxes = np.sort(rng.integers(0, images, truths)), _boxes(rng, truths)
    places = rng.uniform(0, 1, (truths, JOINTS, 2))
    visible = rng.integers(0, 3, (truths, JOINTS))
    points = _points(boxes, places, visible)
    points[visible == 0] = 0
    person = [{"id": 1, "name": "person"}]
    truth = _truth(rng, image, np.zeros(truths, int), boxes, images, 0) | {"categories": person}
    for entry, own in zip(truth["annotations"], points, strict=True):
        del entry["segmentation"]
        labelled = int(np.count_nonzero(own[:, 2]))
        entry |= {"keypoints": own.ravel().tolist(), "num_keypoints": labelled}
    source = rng.integers(0, truths, detections)
    spread = rng.choice([0.02, 0.05, 0.2], detections)[:, None, None]
    found = _points(
        boxes[source],
        places[source] + rng.normal(0, 1, (detections, JOINTS, 2)) * spread,
        np.ones((detections, JOINTS)),
    )
    corner = found[:, :, :2].min(axis=1)
    around = np.concatenate([corner, found[:, :, :2].max(axis=1) - corner], axis=1)
    # half of them are false alarms
    lost = rng.random(detections) < 0.5
    found_image = np.where(lost, rng.integers(0, images, detections), image[source])
    plain = [
        {
            "image_id": int(i) + 1,
            "category_id": 1,
            "keypoints": own.ravel().tolist(),
            "bbox": box,
            "score": round(score, 5),
        }
        for i, own, box, score in zip(
            found_image,
            found,
            np.round(around, 2).tolist(),
            rng.random(detections).tolist(),
            strict=True,
        )
    ]
    paths = {name: folder / f"{name}.json" for name in ("keypoints_truth", "keypoints")}
    for name, content in zip(paths, (truth, plain), strict=True):
        paths[name].write_text(json.dumps(content))
    return paths


def _points(boxes: np.ndarray, places: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """(N, J, 3) points at `places` (shares of the box's sides), to a tenth of a pixel."""
    at = np.round(boxes[:, None, :2] + places * boxes[:, None, 2:], 1)
    return np.concatenate([at, visible[:, :, None]], axis=2)


def _objects(rng, images: int, categories: int, truths: int):
    """Images hold about three categories with a few objects each."""
    image = np.sort(rng.integers(0, images, truths))
    own = rng.integers(0, categories, (images, 3))
    category = own[image, rng.choice(3, truths, p=[0.6, 0.25, 0.15])]
    return image, category, _boxes(rng, truths)


def _boxes(rng, count: int) -> np.ndarray:
    sides = np.exp(rng.normal(3.9, 0.8, (count, 1)) + rng.normal(0, 0.3, (count, 2)))
    sides = np.clip(sides, 4, (WIDTH * 0.9, HEIGHT * 0.9))
    corner = rng.uniform(0, 1, (count, 2)) * ((WIDTH, HEIGHT) - sides)
    return np.concatenate([corner, sides], axis=1)


def _found(rng, image, category, boxes, images, categories, detections):
    copies = rng.poisson(1.7, len(image))
    source = np.repeat(np.arange(len(image)), copies)
    spread = rng.choice([0.03, 0.08, 0.2], len(source))[:, None]
    near = boxes[source].copy()
    near[:, :4] += rng.normal(0, 1, (len(source), 4)) * spread * boxes[source][:, [2, 3, 2, 3]]
    near[:, 2:4] = np.maximum(near[:, 2:4], 2)
    near[:, :2] = np.clip(
        near[:, :2], 0, (WIDTH, HEIGHT) - np.minimum(near[:, 2:4], HEIGHT - 1) - 1
    )
    if boxes.shape[1] == 5:
        near[:, 4] += rng.normal(0, 1, len(source)) * spread[:, 0]
    rest = detections - len(source)
    found_image = np.concatenate([image[source], rng.integers(0, images, rest)])
    found_category = np.concatenate([category[source], rng.integers(0, categories, rest)])
    scores = np.concatenate([rng.beta(4, 2, len(source)), rng.beta(1, 6, rest)])
    order = np.lexsort((rng.random(detections), found_image))
    false = _boxes(rng, rest)
    if boxes.shape[1] == 5:
        false = np.column_stack([false, rng.uniform(-np.pi / 2, np.pi / 2, rest)])
    every = np.concatenate([near, false])
    return found_image[order], found_category[order], every[order], scores[order]


def _rings(rng, boxes: np.ndarray) -> np.ndarray:
    """(N, 12, 2) corners of ellipses in boxes."""
    turn = 2 * np.pi * (np.arange(CORNERS) + rng.uniform(0, 1, (len(boxes), 1))) / CORNERS
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=2) / 2 + 0.5
    return np.round(boxes[:, None, :2] + circle * boxes[:, None, 2:], 2)


def _truth(rng, image, category, boxes, images: int, categories: int) -> dict:
    rings = _rings(rng, boxes)
    crowd = rng.random(len(image)) < 0.01
    return {
        "images": [{"id": i + 1, "width": WIDTH, "height": HEIGHT} for i in range(images)],
        "categories": [{"id": k + 1, "name": f"category {k}"} for k in range(categories)],
        "annotations": [
            {
                "id": n + 1,
                "image_id": int(image[n]) + 1,
                "category_id": int(category[n]) + 1,
                "bbox": [round(float(v), 2) for v in boxes[n]],
                "area": round(float(boxes[n, 2] * boxes[n, 3] * 0.75), 2),
                "iscrowd": int(crowd[n]),
                "segmentation": [[float(v) for v in rings[n].ravel()]],
            }
            for n in range(len(image))
        ],
    }
