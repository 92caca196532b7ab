"""Made-up crowns on made-up images, as records in DeepForest's format."""

from __future__ import annotations

import numpy as np
import shapely

CORNERS = ("xmin", "ymin", "xmax", "ymax")


def box(image: str, corners, label: str = "Tree", **more) -> dict:
    """One record of a box."""
    return {"image_path": image, "label": label, **dict(zip(CORNERS, corners, strict=True)), **more}


def point(image: str, x: float, y: float, label: str = "Tree", **more) -> dict:
    return {"image_path": image, "label": label, "x": x, "y": y, **more}


def polygon(image: str, shape, label: str = "Tree", **more) -> dict:
    return {"image_path": image, "label": label, "geometry": shape, **more}


def random_crowns(rng, kind: str, images: int, *, whole: bool = False, most: int = 25):
    """Records of truth and of predictions, on ``i0`` … ; some images may lack either."""
    both = []
    for predicted in (False, True):
        rows = []
        for image in range(images):
            for _ in range(rng.integers(0, most)):
                more = {"score": float(rng.random())} if predicted else {}
                label = str(rng.choice(["a", "b"]))
                rows.append(_crown(rng, kind, f"i{image}", label, whole, more))
        both.append(rows)
    return both


def _crown(rng, kind: str, image: str, label: str, whole: bool, more: dict) -> dict:
    corner, size = rng.uniform(0, 120, 2), rng.uniform(8, 40, 2)
    if whole:
        corner, size = np.floor(corner), np.floor(size)
    if kind == "box":
        return box(image, [*corner, *(corner + size)], label, **more)
    if kind == "point":
        return point(image, *corner.tolist(), label, **more)
    angles = np.sort(rng.uniform(0, 2 * np.pi, 7))
    ring = corner + np.stack([np.cos(angles), np.sin(angles)], axis=1) * size
    return polygon(image, shapely.convex_hull(shapely.multipoints(ring)), label, **more)


def as_coco(truth, predictions, images=None):
    """Records of boxes as COCO JSON; images and classes are numbered by their names."""
    rows = [*truth, *predictions]
    images = sorted(images or {row["image_path"] for row in rows})
    classes = sorted({row["label"] for row in rows})
    both = []
    for records in (truth, predictions):
        both.append([])
        for number, row in enumerate(records, 1):
            x, y, right, below = (row[name] for name in CORNERS)
            entry = {
                "image_id": images.index(row["image_path"]) + 1,
                "category_id": classes.index(row["label"]) + 1,
                "bbox": [x, y, right - x, below - y],
            }
            if records is truth:
                entry |= {"id": number, "area": (right - x) * (below - y), "iscrowd": 0}
            else:
                entry["score"] = row["score"]
            both[-1].append(entry)
    named = [{"id": number, "name": name} for number, name in enumerate(classes, 1)]
    truths = {
        "images": [{"id": n, "width": 200, "height": 200} for n in range(1, len(images) + 1)],
        "categories": named,
        "annotations": both[0],
    }
    return truths, both[1]


def scored_crowns(rng, images: int, most: int = 25):
    """Truth, and predictions that lie about it."""
    truth, predictions = random_crowns(rng, "box", images, most=most)
    for row in truth:
        if rng.random() < 0.8:
            moved = np.sort(
                (np.array([row[name] for name in CORNERS]) + rng.normal(0, 2, 4)).reshape(2, 2),
                axis=0,
            )
            label = row["label"] if rng.random() < 0.9 else "c"
            predictions.append(
                box(row["image_path"], moved.ravel(), label, score=round(rng.random(), 2))
            )
    return truth, predictions
