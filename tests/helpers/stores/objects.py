"""Feature stores with maps and objects, made up, as a detection probe reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.data.labels.objects import Objects, objects_column

from helpers.stores.maps import run_spec, spec, write_samples_of_maps

# enough to learn the toys
LEARNS = {"epochs": 25, "learning_rate": 0.02, "hidden": 32}
TASKS = {
    "box": "detection",
    "point": "point_detection",
    "oriented_box": "oriented_detection",
}
NOTHING = Objects.of(np.empty((0, 4)), [])

DETECTION = {
    "kind": "detection",
    "layers": None,
    "hidden": 16,
    "depth": 1,
    "finest_stride": 8,
    "epochs": 2,
    "batch_size": 8,
    "learning_rate": 0.01,
    "weight_decay": 0.0,
    "schedule": "cosine",
    "min_learning_rate": 1e-6,
    "select": "last",
    "precision": "fp32",
    "box_loss": "giou",
    "score_threshold": None,
    "nms_threshold": 0.5,
    "max_per_image": 300,
    "pictures": 2,
}


def write_objects(
    path: Path,
    maps: list[np.ndarray],
    objects: list[Objects],
    *,
    sizes,
    working,
    image_ids=None,
    offsets=None,
    image_sizes=None,
    classes: int = 2,
    geometry: str = "box",
    split: str = "train",
    dtype="float16",
    rows_per_chunk: int = 4,
    tiles: dict | None = None,
    min_visible: float = 0.5,
    task: str | None = None,
) -> Path:
    """A store of `maps` (N, C, H, W), coarse to fine, and the objects of each window.

    Without `image_ids`, `offsets` (N, 2: x, y) and `image_sizes` (N, 2), every sample is an image.
    """
    count = len(objects)
    sizes = np.broadcast_to(sizes, (count, 2))
    offsets = np.zeros((count, 2)) if offsets is None else np.reshape(offsets, (count, 2))
    wholes = sizes if image_sizes is None else np.broadcast_to(image_sizes, (count, 2))
    names = [f"{split}-{i}" for i in range(count)]
    sides = {
        "height": sizes[:, 0],
        "width": sizes[:, 1],
        "x_offset": offsets[:, 0],
        "y_offset": offsets[:, 1],
        "image_height": wholes[:, 0],
        "image_width": wholes[:, 1],
    }
    image_ids = names if image_ids is None else image_ids
    columns = {
        "sample_id": names,
        "group_id": [f"group-{name}" for name in image_ids],
        **{name: pa.array(x.astype(np.int32)) for name, x in sides.items()},
        "image_id": image_ids,
        "objects": objects_column(objects),
    }
    return write_samples_of_maps(
        path,
        maps,
        columns,
        dtype=dtype,
        rows_per_chunk=rows_per_chunk,
        split=split,
        task=task or TASKS[geometry],
        classes=[f"class {i}" for i in range(classes)],
        working_size=list(working),
        detection={
            "geometry": geometry,
            "max_detections": 100,
            "match_distance": 10.0 if geometry == "point" else None,
            "min_visible": min_visible,
            "tiles": tiles,
        },
    )


def scatter(rng, size, *, most: int = 4, classes: int = 2, sides=(12, 40)) -> Objects:
    """A few boxes in an image of `size`, which overlap little."""
    boxes: list[np.ndarray] = []
    for _ in range(int(rng.integers(0, most + 1))):
        box = _box(rng, size, sides)
        if all(_apart(box, other) for other in boxes):
            boxes.append(box)
    return Objects.of(np.array(boxes).reshape(-1, 4), rng.integers(0, classes, len(boxes)))


def _box(rng, size, sides) -> np.ndarray:
    width, height = rng.uniform(*sides, 2)
    x, y = rng.uniform(0, [size[1] - width, size[0] - height])
    return np.array([x, y, x + width, y + height])


def _apart(box, other) -> bool:
    return bool((box[:2] >= other[2:]).any() or (box[2:] <= other[:2]).any())


def telling_maps(rng, images: list[Objects], size, grids, *, classes: int = 2, noise=0.05):
    """Maps whose cells say how far the sides of the object are that lies there, and its class."""
    maps = []
    for grid in grids:
        stride = np.array([size[1] / grid, size[0] / grid])
        centres = (np.indices((grid, grid))[::-1].reshape(2, -1).T + 0.5) * stride
        values = np.zeros((len(images), grid * grid, 5 + classes))
        for image, objects in zip(values, images, strict=True):
            for box, label in zip(objects.boxes, objects.classes, strict=True):
                reach = np.where(box[:2] == box[2:], stride, 0)
                low, high = box[:2] - reach, box[2:] + reach
                inside = ((centres > low) & (centres < high)).all(axis=1)
                sides = np.hstack([centres - box[:2], box[2:] - centres])[inside]
                image[inside, :4] = sides / np.tile(stride, 2)
                image[inside, 4] = 1
                image[inside, 5 + label] = 1
        values += noise * rng.normal(size=values.shape)
        maps.append(values.reshape(len(images), grid, grid, 5 + classes).transpose(0, 3, 1, 2))
    return maps


def toy_stores(
    folder: Path,
    *,
    counts=(40, 10, 12),
    seeds=(0, 1, 2),
    size=(64, 64),
    grids=(4, 8),
    points: bool = False,
    classes: int = 2,
    **changes,
) -> dict[str, Path]:
    """Three stores whose maps tell the objects."""
    stores = {}
    for split, count, seed in zip(("train", "val", "test"), counts, seeds, strict=True):
        rng = np.random.default_rng(seed)
        images = [scatter(rng, size, classes=classes) for _ in range(count)]
        if points:
            images = [
                Objects.of(np.tile(each.centres, 2), each.classes, areas=np.zeros(len(each)))
                for each in images
            ]
        maps = telling_maps(rng, images, size, grids, classes=classes)
        stores[split] = write_objects(
            folder / f"{split}.zarr",
            maps,
            images,
            sizes=size,
            working=size,
            classes=classes,
            geometry="point" if points else "box",
            split=split,
            **changes,
        )
    return stores


def run(stores, folder, *, seed=0, device="cpu", memory=None, coco=None, **options):
    """Train and score a head with `DETECTION` and `options`: (table, metadata)."""
    how = {"device": device, "memory": memory, "second_output": coco}
    return run_spec(spec({**DETECTION, **options}, seed, probe="det"), stores, folder, **how)[:2]


def detections(table) -> list[list[dict]]:
    return table["detections"].to_pylist()


def certain(table, metadata) -> list[list[dict]]:
    """Those that score enough."""
    least = metadata["settings"]["score_threshold"]
    return [[each for each in row if each["score"] >= least] for row in detections(table)]


def boxes_of(row: list[dict]) -> np.ndarray:
    return np.array([[each[k] for k in ("x_min", "y_min", "x_max", "y_max")] for each in row])


def write_toy(path, objects, *, seed=0, size=(64, 64), **others):
    """A store of objects in samples that are whole images of the toys' kind."""
    maps = telling_maps(np.random.default_rng(seed), objects, size, (4, 8))
    return write_objects(path, maps, objects, sizes=size, working=size, **others)
