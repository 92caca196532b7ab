"""Random small panoptic label maps, as the arrays and JSON that an evaluation takes."""

from __future__ import annotations

import json

import numpy as np
from PIL import Image

CATEGORIES = [
    {"id": 3, "name": "tree", "isthing": 1},
    {"id": 7, "name": "pond", "isthing": 1},
    {"id": 11, "name": "grass", "isthing": 0},
    {"id": 12, "name": "road", "isthing": 0},
]


def listed(ids: np.ndarray, category: dict, crowd=()) -> list[dict]:
    """segments_info of a map, with the true areas."""
    return [
        {
            "id": int(i),
            "category_id": category[int(i)],
            "iscrowd": int(i in crowd),
            "area": int((ids == i).sum()),
        }
        for i in np.unique(ids)
        if i
    ]


def documents(truth: dict, predicted: dict) -> tuple[dict, dict]:
    """Both JSONs, from image id to (map, segments_info)."""
    both = [
        [
            {"image_id": image, "file_name": f"{image}.png", "segments_info": segments}
            for image, (_, segments) in side.items()
        ]
        for side in (truth, predicted)
    ]
    images = [
        {"id": image, "height": ids.shape[0], "width": ids.shape[1]}
        for image, (ids, _) in truth.items()
    ]
    return (
        {"images": images, "annotations": both[0], "categories": CATEGORIES},
        {"annotations": both[1]},
    )


def panoptic_case(seed: int, images: int = 4):
    """(truth, predictions), each (JSON, maps): crowds, void, empty maps, near and exact ties."""
    rng = np.random.default_rng(seed)
    truth, predicted = {}, {}
    for image in range(1, images + 1):
        shape = tuple(rng.integers(8, 24, 2).tolist())
        truth[image] = _truth(rng, shape)
        predicted[image] = _predicted(rng, *truth[image])
    if seed % 3 == 0:
        ids = np.zeros(truth[1][0].shape, int)
        (truth if seed % 2 else predicted)[1] = (ids, [])
    first, second = documents(truth, predicted)
    return (first, {i: ids for i, (ids, _) in truth.items()}), (
        second,
        {i: ids for i, (ids, _) in predicted.items()},
    )


def _blocks(rng, shape, number: int) -> np.ndarray:
    ids = np.zeros(shape, int)
    for _ in range(number):
        top, left = (int(rng.integers(0, side - 2)) for side in shape)
        high, wide = rng.integers(2, 9, 2)
        ids[top : top + high, left : left + wide] = rng.integers(1, 256**3)
    return ids


def _truth(rng, shape):
    ids = _blocks(rng, shape, int(rng.integers(1, 8)))
    found = [int(i) for i in np.unique(ids) if i]
    category = {i: CATEGORIES[int(rng.integers(4))]["id"] for i in found}
    crowd = {i for i in found if rng.random() < 0.35}
    segments = listed(ids, category, crowd)
    rng.shuffle(segments)
    return ids, segments


def _predicted(rng, ids, segments):
    out = ids.copy() if rng.random() < 0.8 else np.zeros_like(ids)
    # halves of segments give an IoU of exactly one half where the area is even
    for entry in segments:
        if rng.random() < 0.4:
            rows, columns = np.nonzero(ids == entry["id"])
            keep = (len(rows) + int(rng.integers(0, 2))) // 2
            out[rows[keep:], columns[keep:]] = 0
    extra = _blocks(rng, ids.shape, int(rng.integers(0, 4)))
    out = np.where(extra > 0, extra, out)
    category = {entry["id"]: entry["category_id"] for entry in segments}
    names = {}
    for i in np.unique(out):
        right = int(i) in category and rng.random() < 0.8
        names[int(i)] = category[int(i)] if right else CATEGORIES[int(rng.integers(4))]["id"]
    return out, listed(out, names)


def as_bytes(document: dict) -> bytes:
    return json.dumps(document).encode()


def colours(ids: np.ndarray) -> np.ndarray:
    return np.stack([ids % 256, ids // 256 % 256, ids // 65536], axis=2).astype(np.uint8)


def write_panoptic(folder, name: str, document: dict, maps: dict):
    """JSON and pictures of one side, as `evaluate` takes them."""
    masks = folder / name
    masks.mkdir(parents=True)
    for image, ids in maps.items():
        Image.fromarray(colours(ids)).save(masks / f"{image}.png")
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    return path, masks
