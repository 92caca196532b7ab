"""YOLO's text files: shares of the image to pixels, boxes and polygons, names of classes."""

import numpy as np
import pytest
from helpers.datasets.images import (
    RANDOM,
    RGB_ENTRY,
    Prepared,
    encode,
    open_source,
    photo,
    write_folder,
    write_zip,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import objects_of
from permafrost.data.store.image_store import ImageStore

SIZE = (48, 64)
DATA = b"path: ../set\ntrain: images/train\nnc: 2\nnames:\n  0: tree\n  1: car\n"


def line(number: int, box, size=SIZE) -> str:
    """A line for a box of edges in pixels, written as tools write it."""
    x_min, y_min, x_max, y_max = box
    middle = ((x_min + x_max) / 2 / size[1], (y_min + y_max) / 2 / size[0])
    sides = ((x_max - x_min) / size[1], (y_max - y_min) / size[0])
    return f"{number} " + " ".join(f"{value:.6f}" for value in (*middle, *sides))


def files(labels: dict[str, str], size=SIZE) -> dict[str, bytes]:
    """Images with these labels by the name below images and labels, without ending."""
    made = {"data.yaml": DATA}
    for number, (name, text) in enumerate(labels.items()):
        made[f"images/{name}.png"] = encode(photo(number, size))
        made[f"labels/{name}.txt"] = text.encode()
    return made


def entry(path, source=None, **more) -> dict:
    place = {"kind": "yolo", "path": str(path), **(source or {})}
    return {**RGB_ENTRY, "task": "detection", "source": place, "splits": RANDOM, **more}


def opened(path, source=None, **more):
    return open_source(entry(path, source, **more), where="dataset set")


def one(tmp_path, text: str, source=None, size=SIZE, **more):
    place = write_folder(tmp_path / "one", files({"train/a": text}, size))
    return opened(place, source, **more).records()[0].objects


def test_boxes_are_those_that_were_written(tmp_path):
    random = np.random.default_rng(0)
    corners = np.sort(random.integers(0, SIZE[::-1], (20, 2, 2)), axis=1)
    boxes = corners.reshape(-1, 4)[(np.diff(corners, axis=1) > 0).all(axis=(1, 2))]
    text = "\n".join(line(number % 2, box.tolist()) for number, box in enumerate(boxes))
    found = one(tmp_path, text + "\n\n")
    # six decimals of 64 pixels
    np.testing.assert_allclose(found.boxes, boxes, atol=1e-4)
    assert found.classes.tolist() == [number % 2 for number in range(len(boxes))]
    np.testing.assert_allclose(
        found.areas, np.diff(boxes.reshape(-1, 2, 2), axis=1).prod(axis=2).ravel(), rtol=1e-3
    )
    assert found.polygons == (None,) * len(boxes)


def test_a_box_over_all_of_an_odd_image_ends_at_its_edge(tmp_path):
    # half of 1/3 rounds up: centre and size add up to more than 1
    found = one(tmp_path, "0 0.5000004 0.833334 1.000000 0.333334", size=(33, 57))
    assert found.boxes[0, 2:].tolist() == [57, 33]
    assert found.boxes[0, 0] == pytest.approx(0, abs=1e-4)


def test_polygons_keep_their_outline_and_area(tmp_path):
    from shapely import Polygon

    outline = np.array([[4, 6], [40, 2], [60, 30], [30, 20], [8, 44]], float)
    shares = (outline / SIZE[::-1]).ravel()
    found = one(tmp_path, "1 " + " ".join(f"{value:.9f}" for value in shares))
    np.testing.assert_allclose(found.boxes[0], Polygon(outline).bounds, atol=1e-6)
    assert found.areas[0] == pytest.approx(Polygon(outline).area, rel=1e-6)
    np.testing.assert_allclose(np.reshape(found.polygons[0], (-1, 2)), outline, atol=1e-6)


def test_boxes_beyond_the_image_are_cut_only_if_declared(tmp_path):
    text = line(0, [50, 10, 70, 20])
    with pytest.raises(PermafrostError, match="a.txt: line 1: a box that reaches beyond the image"):
        one(tmp_path, text)
    assert one(tmp_path, text, {"clip_boxes": True}).boxes[0, 2] == 64


@pytest.mark.parametrize(
    "data", [DATA, b"names: [tree, car]\n", b"\xef\xbb\xbfnames: ['tree', \"car\"]\n"]
)
def test_classes_come_from_data_yaml(tmp_path, data):
    made = {**files({"train/a": line(1, [0, 0, 9, 9])}), "data.yaml": data}
    source = opened(write_folder(tmp_path, made))
    # the list is whole, though only one of them is found
    assert source.classes == ["tree", "car"]
    assert source.records()[0].objects.classes.tolist() == [1]


def test_classes_may_come_from_the_entry_or_from_another_file(tmp_path):
    made = files({"train/a": line(1, [0, 0, 9, 9])})
    made["more/names.yml"] = made.pop("data.yaml")
    place = write_folder(tmp_path, made)
    assert opened(place, {"names": "more/names.yml"}).classes == ["tree", "car"]
    assert opened(place, {"other_files": "ignore"}, classes=["b", "a"]).classes == ["b", "a"]
    with pytest.raises(PermafrostError, match="classes differs from more/names.yml"):
        opened(place, {"names": "more/names.yml"}, classes=["b", "a"])
    with pytest.raises(PermafrostError, match="holds no data.yaml, which names the classes"):
        opened(place)


@pytest.mark.parametrize("pack", [write_folder, write_zip])
def test_stores_hold_the_objects_by_folders_of_splits(tmp_path, pack):
    parts = {"train": 6, "val": 2, "test": 3}
    labels = {
        f"{split}/{number}": "\n".join(line(k % 2, [k, 1, 9 + k, 20]) for k in range(number))
        for split, count in parts.items()
        for number in range(count)
    }
    place = pack(tmp_path / "set.zip", files(labels))
    given = {"method": "given"}
    with pytest.raises(PermafrostError, match="labels/test/0.txt: is empty; set missing: empty"):
        opened(place, splits=given)
    out = Prepared(tmp_path / "out")
    card = out.run(entry(place, {"missing": "empty"}, splits=given))
    assert {split: card["splits"][split]["count"] for split in parts} == parts
    assert {s: card["detection"]["splits"][s]["empty"] for s in parts} == dict.fromkeys(parts, 1)
    assert card["splits"]["train"]["class_counts"] == [9, 6]
    table = ImageStore(out.outputs["test"]).samples
    assert table["sample_id"].to_pylist() == [f"images/test/{n}.png" for n in range(3)]
    found = objects_of(table["objects"])
    np.testing.assert_allclose(found[2].boxes, [[0, 1, 9, 20], [1, 1, 10, 20]], atol=1e-4)


def test_roboflows_layout_and_images_without_labels(tmp_path):
    made = {"data.yaml": DATA}
    for split in ("train", "valid", "test"):
        for number in range(3):
            made[f"{split}/images/{number}.png"] = encode(photo(number, SIZE))
        made[f"{split}/labels/0.txt"] = line(0, [0, 0, 9, 9]).encode()
    place = write_folder(tmp_path / "set", made)
    layout = {"images": "<split>/images", "labels": "<split>/labels"}
    with pytest.raises(PermafrostError, match="6 images without a file of labels"):
        opened(place, layout)
    found = opened(place, {**layout, "missing": "empty"}).records()
    assert [(record.split, len(record.objects)) for record in found[:4]] == [
        ("test", 1),
        ("test", 0),
        ("test", 0),
        ("train", 1),
    ]
