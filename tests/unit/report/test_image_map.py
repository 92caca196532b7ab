"""The map of a dataset's test images: what the page gets, and what it says if something is missing."""

from __future__ import annotations

import base64
import json
import shutil

import numpy as np
import pyarrow as pa
import pytest
from helpers.results.pages import build_report, prepare, small
from helpers.results.tables import card_of
from helpers.stages.measuring import FINGERPRINT, mixture, write_features
from permafrost.core.stores import Store, write_store
from permafrost.core.tables import read_table
from permafrost.report.material import image_map
from permafrost.report.material.dataset import Material
from permafrost.report.sections.image_map import image_map_section
from PIL import Image


@pytest.fixture
def inputs(tmp_path):
    """A report's inputs of two backbones, with stores of features and of 30 test images."""
    given = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a", "b"])
    ids = read_table(given["predictions"]["eurosat", "a", 0, "knn"])[0]["sample_id"].to_pylist()
    truth = read_table(given["predictions"]["eurosat", "a", 0, "knn"])[0]["target"].to_pylist()
    features, _ = mixture(len(ids))
    stores = {}
    for name, scale in (("a", 1), ("b", -1)):
        path = stores["eurosat", name] = tmp_path / "features" / f"{name}.zarr"
        write_features(path, scale * features, truth, ids=ids, split="test")
    rng = np.random.default_rng(1)
    images = tmp_path / "test.zarr"
    with write_store(images, fingerprint=FINGERPRINT) as writer:
        shape = (len(ids), 3, 8, 60)
        writer.array("images", shape, np.uint8, rows_per_chunk=2)[:] = rng.integers(0, 255, shape)
        lon = [None] + [10.0 + place for place in range(len(ids) - 1)]
        writer.samples(
            pa.table(
                {"sample_id": ids, "height": [8] * len(ids), "width": [60] * len(ids)}
                | {"lon": lon, "lat": [45.0] * len(ids)}
            )
        )
        writer.attributes.update({"split": "test"})
    given["images"] = {("eurosat", "test"): images}
    return given | {"features": stores}


def _material(inputs: dict) -> Material:
    rows = read_table(inputs["leaderboard"])[0].to_pylist()
    predictions = {key[1:]: path for key, path in inputs["predictions"].items()}
    stores = {split: path for (_, split), path in inputs["images"].items()}
    return Material("eurosat", card_of(small()), rows, predictions, stores)


def _section(inputs: dict, tmp_path) -> dict:
    own = {name: path for (_, name), path in inputs["features"].items()}
    return image_map_section(_material(inputs), own, tmp_path)


def _unpacked(text: str, width: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<u2").reshape(-1, width)


def test_map_has_each_image_with_its_answer_neighbours_and_picture(inputs, tmp_path):
    made = _section(inputs, tmp_path)
    data = json.loads(str(made["data"]))
    table = read_table(inputs["predictions"]["eurosat", "a", 0, "linear"])[0]
    by_id = {row["sample_id"]: row for row in table.to_pylist()}
    assert data["truth"] == [by_id[name]["target"] for name in data["ids"]]
    first = next(one for one in data["backbones"] if one["name"] == "a")
    probe = first["evaluation"].rpartition(", ")[2]
    table = read_table(inputs["predictions"]["eurosat", "a", 0, probe])[0]
    said = dict(
        zip(*(table[name].to_pylist() for name in ("sample_id", "prediction")), strict=True)
    )
    assert first["answers"] == [said[name] for name in data["ids"]]
    assert _unpacked(first["near"], first["neighbours"]).max() < len(data["ids"])
    at = _unpacked(first["at"], 2).astype(int)
    spans = at.max(axis=0) - at.min(axis=0)
    assert spans.max() == 65_535 and spans.min() < 65_535  # one step on both axes
    # mirrored features have the same neighbours and, by the rule of signs, the same or the mirrored axes
    assert data["backbones"][1]["near"] == first["near"]
    assert data["places"][0][0] is None and data["places"][0][1] == 10.0
    sheet = Image.open(tmp_path / data["pictures"]["file"])
    assert sheet.size[0] == 48 * data["pictures"]["across"]
    assert len(data["pictures"]["tiles"]) == len(data["ids"]) == made["drawn"] == made["total"]


def test_many_points_are_drawn_alike_for_all_backbones(inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(image_map, "MOST_POINTS", 24)
    monkeypatch.setattr(image_map, "_MOST_CHUNKS", 1)
    made = _section(inputs, tmp_path)
    data = json.loads(str(made["data"]))
    assert (made["drawn"], len(data["ids"]), made["total"]) == (12, 12, 30)
    # of few chunks, the images with most errors have pictures
    tiles = [int(number) for number in data["pictures"]["tiles"]]
    assert 0 < len(tiles) < 12 and f"Pictures of {len(tiles)} of the images" in made["words"][0]
    wrong = sum(np.not_equal(one["answers"], data["truth"]) for one in data["backbones"])
    assert int(np.argmax(wrong)) in tiles and len({*wrong.tolist()}) > 1


@pytest.mark.parametrize("what", ["one store", "all stores", "images", "other plan", "NaN"])
def test_page_says_what_is_missing(inputs, tmp_path, what):
    stores = inputs["features"]
    if what == "one store":
        shutil.rmtree(stores["eurosat", "a"])
    elif what == "all stores":
        for path in stores.values():
            shutil.rmtree(path)
    elif what == "other plan":
        inputs["expect"] = {str(stores["eurosat", "a"]): "another"}
    elif what == "NaN":
        path = stores["eurosat", "a"]
        ids = Store(path).samples()["sample_id"].to_pylist()
        shutil.rmtree(path)
        write_features(path, np.full((30, 4), np.nan), np.zeros(30, int), ids=ids, split="test")
    # what else a page draws from images needs a whole store
    build_report(**inputs | {"images": {}})
    page = (tmp_path / "report/datasets/eurosat.html").read_text()
    assert 'id="image-map"' in page
    expected = {
        "one store": "Without features here: a.",
        "other plan": "Without features here: a.",
        "NaN": "Without features here: a.",
        "all stores": "Without features here: a, b.",
        "images": "No test images are shown",
    }
    assert expected[what] in page
    assert ('id="image-map-data"' in page) == (what != "all stores")


def test_truth_that_is_not_a_number_leaves_the_page_whole(inputs, tmp_path, monkeypatch):
    unknown = [float("nan"), *[0.5] * 29]
    monkeypatch.setattr(image_map, "_truth", lambda *_: unknown)
    assert json.loads(str(_section(inputs, tmp_path)["data"]))["truth"] == [None, *unknown[1:]]


def test_page_without_planned_features_has_no_map(inputs, tmp_path):
    build_report(**inputs | {"features": {}, "images": {}})
    page = (tmp_path / "report/datasets/eurosat.html").read_text()
    assert "image-map" not in page


def test_largest_page_stays_below_two_megabytes(inputs, tmp_path):
    """30,000 points: 30 backbones with 1000 images each, and a picture of each image."""
    made = _section(inputs, tmp_path)
    data = json.loads(str(made["data"]))
    per_point = max(len(json.dumps(one)) for one in data["backbones"]) / len(data["ids"])
    # names of images, their classes and places, and a tile of noise, which no JPEG makes small
    per_image = len(json.dumps({key: data[key] for key in ("ids", "truth", "places")})) / 30 + 40
    assert image_map.MOST_POINTS * (per_point + 4) + 1000 * per_image < 1_000_000
