"""Random sets of oriented boxes in COCO's form, with crowds, ignored objects, ties and empty images."""

from __future__ import annotations

import numpy as np
from permafrost.data.labels.oriented import corners_of

CONVENTION = "le90"


def oriented_case(seed: int = 0, *, images: int = 20, decimals: int = 3) -> tuple[dict, list[dict]]:
    """Truth and detections with `obb` of five numbers (`le90`); the first image is empty."""
    random = np.random.default_rng(seed)
    annotations: list[dict] = []
    detections: list[dict] = []
    for image in range(2, images + 1):
        for _ in range(int(random.integers(0, 9))):
            box = _box(random)
            category = int(random.integers(1, 4))
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image,
                    "category_id": category,
                    "obb": _rounded(box, decimals),
                    "area": float(box[2] * box[3]),
                    "iscrowd": int(random.random() < 0.08),
                }
            )
            for _ in range(int(random.integers(0, 4))):
                spread = random.choice([0.02, 0.1, 0.3])
                near = box + random.normal(0, spread, 5) * [box[2], box[3], box[2], box[3], 1]
                near[2:4] = np.abs(near[2:4])
                known = category if random.random() < 0.9 else int(random.integers(1, 4))
                detections.append(_found(random, image, known, near, decimals))
        for _ in range(int(random.integers(0, 3))):
            category = int(random.integers(1, 4))
            detections.append(_found(random, image, category, _box(random), decimals))
    truth = {
        "images": [{"id": n + 1, "width": 300, "height": 300} for n in range(images)],
        "categories": [{"id": n, "name": f"class-{n}"} for n in (1, 2, 3)],
        "annotations": annotations,
    }
    return truth, detections


def _box(random) -> np.ndarray:
    sides = np.exp(random.normal(3.3, 0.8, 2))
    return np.array([*random.uniform(30, 270, 2), *sides, random.uniform(-1.5, 1.5)])


def _rounded(box, decimals: int) -> list[float]:
    return [round(float(value), decimals) for value in box]


def _found(random, image: int, category: int, box, decimals: int) -> dict:
    return {
        "image_id": image,
        "category_id": category,
        "obb": _rounded(box, decimals),
        "score": round(float(random.random()), 2),
    }


def ring(entry: dict, convention: str = CONVENTION) -> list[float]:
    """The eight numbers of an entry."""
    return corners_of([entry["obb"]], convention)[0].ravel().tolist()


def in_form(entries: list[dict], form) -> list[dict]:
    """Entries with `form(entry)` in place of `obb`."""
    return [
        {**{key: value for key, value in entry.items() if key != "obb"}, **form(entry)}
        for entry in entries
    ]
