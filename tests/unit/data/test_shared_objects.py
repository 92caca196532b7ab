"""Real images with objects: what the stores hold is what their files say, counted without the library."""

import csv
import json
import zipfile
from collections import Counter

import numpy as np
import pytest
from helpers.datasets.images import RGB_ENTRY, Prepared, catalogue_entry
from permafrost.core.specification import SPLITS
from permafrost.data.labels.objects import objects_of
from permafrost.data.store.image_store import ImageStore

pytestmark = pytest.mark.shared


def rows_of(out) -> list[dict]:
    return [row for s in SPLITS for row in ImageStore(out.outputs[s]).samples.to_pylist()]


def box_of(one: dict) -> tuple[float, ...]:
    return tuple(one[side] for side in ("x_min", "y_min", "x_max", "y_max"))


def test_the_crowns_of_neon_in_windows_are_those_of_its_table(shared_data, tmp_path):
    folder = shared_data / "neon_trees"
    truth: dict[str, list[tuple[float, ...]]] = {}
    with open(folder / "annotations.csv", newline="") as stream:
        for row in csv.DictReader(stream):
            box = tuple(float(row[side]) for side in ("xmin", "ymin", "xmax", "ymax"))
            truth.setdefault(row["image_path"], []).append(box)
    entry = catalogue_entry("neon-trees", shared_data)
    out = Prepared(tmp_path / "out")
    card = out.run({**entry, "tiles": {"size": 200, "overlap": 0.05}})
    assert card["classes"] == ["Tree"] and card["detection"]["geometry"] == "box"
    found: dict[str, dict[int, tuple]] = {name: {} for name in truth}
    rows = rows_of(out)
    assert len(rows) == 9 * len(truth) == 72
    for row in rows:
        x, y, boxes = row["x_offset"], row["y_offset"], truth[row["image_id"]]
        assert x in (0, 190, 200) and y in (0, 190, 200) and row["height"] == row["width"] == 200
        meets = [b for b in boxes if b[0] < x + 200 and b[2] > x and b[1] < y + 200 and b[3] > y]
        assert [box_of(one) for one in row["objects"]] == meets
        found[row["image_id"]] |= {one["object"]: box_of(one) for one in row["objects"]}
    assert {name: list(dict(sorted(of.items())).values()) for name, of in found.items()} == truth
    assert sum(sum(part["class_counts"]) for part in card["splits"].values()) == 284
    assert card["audit"]["exact_duplicates"] == card["audit"]["shared_groups"] == 0


def test_the_pixels_of_windows_are_those_of_their_image(shared_data, tmp_path):
    from PIL import Image

    out = Prepared(tmp_path / "out")
    entry = catalogue_entry("neon-trees", shared_data)
    out.run({**entry, "tiles": {"size": 150, "overlap": 0.2}})
    store = ImageStore(out.outputs["test"])
    images = store.read().images
    for row, image in zip(store.samples.to_pylist(), images, strict=True):
        x, y = row["x_offset"], row["y_offset"]
        with Image.open(shared_data / "neon_trees/images" / row["image_id"]) as whole:
            part = np.asarray(whole.crop((x, y, x + 150, y + 150)))
        np.testing.assert_array_equal(image, part.transpose(2, 0, 1))


def test_table_and_json_of_neon_say_the_same(shared_data, tmp_path):
    folder, found = shared_data / "neon_trees", []
    shared = {**RGB_ENTRY, "task": "detection", "splits": {"method": "random"}}
    places = {"path": str(folder / "images")}
    for name, source in (
        ("a", {"kind": "deepforest", "table": str(folder / "annotations.csv")}),
        ("b", {"kind": "coco", "annotations": str(folder / "annotations.json")}),
    ):
        out = Prepared(tmp_path / name)
        out.run({**shared, "source": {**source, **places}})
        rows = rows_of(out)
        found.append({r["sample_id"]: sorted(box_of(one) for one in r["objects"]) for r in rows})
    assert found[0] == found[1] and sum(map(len, found[0].values())) == 284


def test_the_buildings_in_a_zip_are_those_that_pycocotools_reads(shared_data, tmp_path):
    from pycocotools.coco import COCO

    oracle = COCO(str(shared_data / "fair_buildings/annotations.json"))
    out = Prepared(tmp_path / "out")
    card = out.run(catalogue_entry("fair-buildings", shared_data))
    assert card["detection"]["geometry"] == "polygon"
    total = Counter()
    for split in SPLITS:
        samples = ImageStore(out.outputs[split]).samples
        counts = Counter(images=len(samples))
        for name, objects in zip(
            samples["sample_id"].to_pylist(), objects_of(samples["objects"]), strict=True
        ):
            (image,) = (i for i in oracle.imgs.values() if i["file_name"] == name)
            truth = oracle.loadAnns(oracle.getAnnIds(imgIds=[image["id"]]))
            boxes = np.array([t["bbox"] for t in truth]).reshape(-1, 4)
            corners = np.hstack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]])
            np.testing.assert_allclose(objects.boxes, corners, rtol=0, atol=1e-9)
            assert objects.areas.tolist() == [t["area"] for t in truth]
            assert list(objects.polygons) == [t["segmentation"] for t in truth]
            counts.update(objects=len(objects), empty=int(len(objects) == 0))
        assert card["detection"]["splits"][split] == {
            **counts,
            "crowd": 0,
            "clipped": 0,
            "without_area": 0,
        }
        total += counts
    with open(shared_data / "fair_buildings/annotations.json") as stream:
        content = json.load(stream)
    with zipfile.ZipFile(shared_data / "fair_buildings/images.zip") as archive:
        files = [name for name in archive.namelist() if name.endswith(".png")]
    assert total["images"] == len(content["images"]) == len(files) == 105
    assert total["objects"] == len(content["annotations"]) == 645
