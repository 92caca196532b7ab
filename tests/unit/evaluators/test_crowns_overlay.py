"""Pictures of crowns over their images."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.crowns import box, random_crowns
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.crowns import evaluate
from permafrost.evaluators.crowns.overlay import COLOURS, write_overlays
from PIL import Image


def images(folder, names, size=(160, 140)):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (40, 60, 40)).save(folder / name)
    return folder


def near(picture: np.ndarray, colour: str) -> int:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    return int((np.abs(picture.astype(int) - rgb).max(axis=-1) < 25).sum())


def test_each_outcome_is_drawn_in_its_colour_at_its_place(tmp_path):
    truth = [box("a.png", (10, 10, 60, 60)), box("a.png", (100, 10, 150, 60))]
    rows = [box("a.png", (12, 12, 60, 60), score=0.9), box("a.png", (10, 90, 60, 130), score=0.8)]
    folder = images(tmp_path / "images", ["a.png"])
    paths, left = write_overlays(evaluate(truth, rows), folder, tmp_path / "out", limit=5)
    assert [path.name for path in paths] == ["a.png"] and left == 0
    picture = np.asarray(Image.open(paths[0]).convert("RGB"))
    height = round(picture.shape[1] * 140 / 160)  # of the image, above legend and caption
    right, below = picture.shape[1] // 2, height // 2
    assert near(picture[:below, right:], COLOURS["missed crown"]) > 100
    assert near(picture[below:height, :right], COLOURS["false alarm"]) > 100
    assert near(picture[:below, :right], COLOURS["its prediction"]) > 100
    assert near(picture[:below, right:], COLOURS["false alarm"]) == 0


def test_the_images_with_most_mistakes_are_drawn_and_names_stay_apart(tmp_path):
    truth = [
        box("x/a.png", (10, 10, 60, 60)),
        box("x_a.png", (10, 10, 60, 60)),
        box("c.png", (10, 10, 60, 60)),
    ]
    rows = [box("c.png", (10, 10, 60, 60), score=0.9)]
    folder = images(tmp_path / "images", ["x/a.png", "x_a.png", "c.png"])
    paths, left = write_overlays(evaluate(truth, rows), folder, tmp_path / "out", limit=2)
    assert [path.name for path in paths] == ["x_a.png", "x_a_2.png"] and left == 1


@pytest.mark.parametrize("kind", ["polygon", "point"])
def test_polygons_and_points_are_drawn_on_any_pixels(tmp_path, kind):
    import rasterio

    truth, rows = random_crowns(np.random.default_rng(0), kind, 1)
    path = tmp_path / "i0"
    pixels = np.random.default_rng(0).normal(0, 9, (4, 150, 150)).astype(np.float32)
    pixels[:, :20] = np.nan
    profile = {"driver": "GTiff", "width": 150, "height": 150, "count": 4, "dtype": "float32"}
    with rasterio.open(path, "w", **profile, transform=rasterio.Affine(1, 0, 5, 0, -1, 5)) as file:
        file.write(pixels)
    paths, _ = write_overlays(evaluate(truth, rows), tmp_path, tmp_path / "out", limit=1)
    picture = np.asarray(Image.open(paths[0]).convert("RGB"))
    assert near(picture, COLOURS["false alarm"]) > 50


def test_a_missing_image_is_named(tmp_path):
    found = evaluate([box("a.png", (10, 10, 60, 60))], [box("a.png", (10, 10, 60, 60), score=1.0)])
    with pytest.raises(PermafrostError, match=r"a.png: the image does not exist.*--images"):
        write_overlays(found, tmp_path, tmp_path / "out", limit=1)
