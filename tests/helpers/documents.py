"""The code blocks of README.md and docs/*.md, and the small data that they name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import rasterio
import yaml

from helpers.datasets.grids import classes as class_blobs
from helpers.datasets.grids import pixels, write_raster
from helpers.datasets.images import (
    class_files,
    encode,
    geotiff,
    mask,
    photo,
    write_folder,
    write_table,
    write_zip,
)
from helpers.datasets.objects import boxes_of
from helpers.predictions.crowns import random_crowns
from helpers.predictions.detections import coco_case
from helpers.predictions.panoptic import panoptic_case
from helpers.project import REPOSITORY

# tutorials are run whole, one block after the other: test_tutorials.py
DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    """(place, text) of every fenced block of a language, e.g. ``README.md:15``."""
    found = []
    for document in DOCUMENTS:
        text = document.read_text()
        for match in re.finditer(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
            if match[1] == language:
                line = text[: match.start()].count("\n") + 1
                found.append((f"{document.relative_to(REPOSITORY)}:{line}", match[2]))
    return found


def languages() -> set[str]:
    """The languages of all fenced blocks."""
    texts = [document.read_text() for document in DOCUMENTS]
    return {
        fence for text in texts for fence in re.findall(r"^```(\w*)\n.*?^```", text, re.S | re.M)
    }


def configurations() -> list[tuple[str, dict]]:
    """(place, content) of every YAML block."""
    return [(place, yaml.safe_load(text)) for place, text in blocks("yaml")]


def commands() -> list[tuple[str, str]]:
    """(place, command) of every line of a shell block, without its comment."""
    lines = [
        (place, re.sub(r"\s+#.*", "", line).strip())
        for place, text in blocks("bash")
        for line in text.replace("\\\n", " ").splitlines()
    ]
    return [(place, line) for place, line in lines if line and not line.startswith("#")]


def write_data(folder: Path) -> None:
    """What the configurations expect under ``data``: a few small images of every kind."""
    write_zip_of_scenes(folder / "scenes.zip")
    pairs = {}
    for n in range(20):
        pairs[f"images/{n:02d}.jpg"] = encode(photo(n), "jpeg")
        pairs[f"masks/{n:02d}.png"] = encode(mask(n, values=(0, 1, 2, 3)))
    write_folder(folder / "my_masks", pairs)
    rasters = {}
    for n in range(20):
        image = photo(n, (32, 32))
        heights = (image.mean(axis=2) * 10).astype(np.uint16)
        heights[:4, :4] = 65535
        rasters[f"images/{n:02d}.tif"] = geotiff(np.moveaxis(image, 2, 0))
        rasters[f"heights/{n:02d}.tif"] = geotiff(heights[None])
    write_folder(folder / "my_heights", rasters)
    change, crops = {}, {}
    for n in range(20):
        change[f"A/{n:02d}.png"] = encode(photo(n, (32, 32)))
        change[f"B/{n:02d}.png"] = encode(photo(n + 100, (32, 32)))
        change[f"label/{n:02d}.png"] = encode(mask(n, (32, 32), values=(0, 255)))
        for month in range(5, 8):
            name = f"{('corn', 'rape')[n % 2]}/field{n}/2019{month:02d}01.png"
            crops[name] = encode(photo(100 * n + month, (32, 32)))
    write_folder(folder / "my_change", change)
    write_folder(folder / "my_crops", crops)
    _write_crowns(folder / "crowns")
    _write_scene(folder / "my_scene")


def write_zip_of_scenes(path: Path) -> Path:
    """A zip with a folder of images for each of three classes, which differ in brightness."""
    files = {}
    for name, low in (("field", 0), ("forest", 60), ("town", 120)):
        images = class_files((name,), 15, size=(32, 32), low=low, high=low + 100)
        files.update(images)
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_zip(path, files)


def _write_crowns(folder: Path) -> None:
    rows, images = [], {}
    for n in range(12):
        name = f"flight{n // 2}_{n % 2}.png"
        images[name] = encode(photo(n, (96, 96)))
        for x, y, width, height in [(5, 5, 20, 20), *boxes_of(n + 1, (96, 96))]:
            corners = {"xmin": x, "ymin": y, "xmax": x + width, "ymax": y + height}
            rows.append({"image_path": name, **corners, "label": "Tree"})
    write_folder(folder / "images", images)
    write_table(folder / "annotations.csv", rows)


def _write_scene(folder: Path) -> None:
    image, classes = pixels(256, 320), class_blobs(256, 320)
    image[:, :20, :20] = 0
    write_raster(folder / "scenes/west.tif", image[:, :, :160], nodata=0)
    write_raster(folder / "scenes/east.tif", image[:, :, 160:], column=160, nodata=0)
    write_raster(folder / "land_cover.tif", classes)


def write_predictions(folder: Path, command: str) -> None:
    """What a command that scores predictions reads, in `folder` itself."""
    rng = np.random.default_rng(0)
    if command == "evaluate-detections":
        for name, content in zip(("truth", "found"), coco_case(0), strict=True):
            (folder / f"{name}.json").write_text(json.dumps(content))
    elif command == "evaluate-boxes":
        for name, rows in zip(("truth", "predictions"), random_crowns(rng, "box", 6), strict=True):
            write_table(folder / f"{name}.csv", rows)
    elif command == "evaluate-raster":
        reference = rng.integers(0, 4, (1, 40, 40)).astype(np.uint8)
        (folder / "reference.tif").write_bytes(geotiff(reference))
        (folder / "classes.tif").write_bytes(geotiff(np.where(reference == 3, 1, reference)))
    elif command == "evaluate-map":
        classes = rng.integers(0, 3, (1, 40, 40)).astype(np.uint8)
        (folder / "classes.tif").write_bytes(geotiff(classes))
        with rasterio.open(folder / "classes.tif") as opened:
            places = rng.permutation(40 * 40)[:90]
            x, y = opened.xy(*np.divmod(places, 40))
        found = classes.ravel()[places]
        reference = np.where(rng.random(90) < 0.2, rng.integers(0, 3, 90), found)
        columns = {"x": x, "y": y, "reference": reference}
        rows = [dict(zip(columns, one, strict=True)) for one in zip(*columns.values(), strict=True)]
        write_table(folder / "points.csv", rows)
    else:
        for name, (content, maps) in zip(("truth", "found"), panoptic_case(4), strict=True):
            (folder / f"{name}.json").write_text(json.dumps(content))
            images = {
                f"{image}.png": np.stack([ids % 256, ids // 256 % 256, ids // 65536], axis=2)
                for image, ids in maps.items()
            }
            encoded = {file: encode(pixels.astype(np.uint8)) for file, pixels in images.items()}
            write_folder(folder / name, encoded)
