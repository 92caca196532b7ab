"""Small datasets of objects on disk, and what they should come out as, for the tests of the room `data`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from helpers.datasets.images import RANDOM, RGB_ENTRY, encode, photo, write_folder

CLASSES = ("oak", "pine")


def boxes_of(seed: int, size=(60, 80), most: int = 6) -> np.ndarray:
    """(N, 4) x, y, width, height of boxes inside an image of `size` (height, width), 0 to `most`."""
    generator = np.random.default_rng([seed, 7])
    count = int(generator.integers(0, most + 1))
    sides = generator.integers(4, 20, (count, 2))
    corners = generator.random((count, 2)) * (np.array(size)[::-1] - sides)
    return np.hstack([corners.round(1), sides]).astype(float)


def coco(count: int = 12, *, size=(60, 80), classes=CLASSES, name="{:02d}.png", first=0) -> dict:
    """Annotations in COCO's form of `count` images; the categories' ids are not in order."""
    ids = [10 * (len(classes) - number) for number in range(len(classes))]
    annotations = [
        {
            "id": 1000 * image + number,
            "image_id": image,
            "category_id": ids[(image + number) % len(classes)],
            "bbox": box.tolist(),
            "area": float(box[2] * box[3]),
            "iscrowd": 0,
        }
        for image in range(first, first + count)
        for number, box in enumerate(boxes_of(image, size))
    ]
    return {
        "images": [
            {"id": i, "file_name": name.format(i), "height": size[0], "width": size[1]}
            for i in range(first, first + count)
        ],
        "categories": [{"id": i, "name": n} for i, n in zip(ids, classes, strict=True)],
        "annotations": annotations,
    }


def image_files(content: dict, prefix: str = "") -> dict[str, bytes]:
    """PNG files of the images that `coco` lists."""
    return {
        prefix + image["file_name"]: encode(photo(image["id"], (image["height"], image["width"])))
        for image in content["images"]
    }


def write_json(path: Path, content) -> str:
    path.write_text(json.dumps(content))
    return str(path)


def coco_entry(folder: Path, content: dict | None = None, **more) -> dict:
    """An entry for a folder of images and a JSON beside it, both written; `source` adds options."""
    content = coco() if content is None else content
    write_folder(folder / "images", image_files(content))
    source = {
        "kind": "coco",
        "path": str(folder / "images"),
        "annotations": write_json(folder / "objects.json", content),
        **more.pop("source", {}),
    }
    return {**RGB_ENTRY, "task": "detection", "source": source, "splits": RANDOM, **more}


def by_file(content: dict) -> dict[str, list[dict]]:
    """File name -> annotations, counted without the library."""
    names = {image["id"]: image["file_name"] for image in content["images"]}
    found = {name: [] for name in names.values()}
    for annotation in content["annotations"]:
        found[names[annotation["image_id"]]].append(annotation)
    return found
