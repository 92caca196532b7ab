"""Tables of points: what the numbers mean, classes, and the trees in aerial images of California."""

import io
import json
import zipfile

import numpy as np
import pytest
from helpers.datasets.images import (
    RANDOM,
    RGB_ENTRY,
    Prepared,
    catalogue_entry,
    encode,
    open_source,
    photo,
    write_folder,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import objects_of
from permafrost.data.store.image_store import ImageStore


def entry(path, source=None, **more) -> dict:
    place = {"kind": "points", "path": str(path), **(source or {})}
    plain = {**RGB_ENTRY, "task": "point_detection", "classes": ["tree"], "splits": RANDOM}
    return {**plain, "source": place, **more}


def opened(path, source=None, **more):
    return open_source(entry(path, source, **more), where="dataset set")


def files(tables: dict[str, str]) -> dict[str, bytes]:
    made = {}
    for number, (name, text) in enumerate(tables.items()):
        made[f"images/{name}.png"] = encode(photo(number))
        made[f"points/{name}.csv"] = text.encode()
    return made


@pytest.mark.parametrize(("convention", "first"), [("zero_based", 0), ("one_based", 1)])
def test_the_number_of_a_pixel_means_its_middle(tmp_path, convention, first):
    # the centre of mass of the one pixel that each point names
    numbers = [(first, first), (first + 31, first + 23), (first + 7, first + 2)]
    text = "x,y\n" + "".join(f"{x},{y}\n" for x, y in numbers)
    found = opened(write_folder(tmp_path, files({"a": text})), {"coordinates": convention})
    points = found.records()[0].objects.centres
    covered = [
        np.mean([[x - first, y - first], [x - first + 1, y - first + 1]], axis=0)
        for x, y in numbers
    ]
    np.testing.assert_array_equal(points, covered)


def test_a_point_has_no_area_and_may_lie_on_the_edge(tmp_path):
    place = write_folder(tmp_path, files({"a": "x,y\n0,0\n32,24\n1.5,2.25\n", "b": "x,y\n"}))
    first, second = opened(place).records()
    np.testing.assert_array_equal(first.objects.boxes[:, :2], [[0, 0], [32, 24], [1.5, 2.25]])
    np.testing.assert_array_equal(first.objects.boxes[:, 2:], first.objects.boxes[:, :2])
    assert first.objects.areas.tolist() == [0, 0, 0] and len(second.objects) == 0
    assert first.image_size == (24, 32)


def test_columns_and_classes_by_name(tmp_path):
    text = '\ufeff"kind",row,"col",note\noak,1,2,"a, b"\nash,3,4,\n'
    place = write_folder(tmp_path, files({"a": text}))
    source = opened(place, {"x": "col", "y": "row", "label": "kind"}, classes=["oak", "ash"])
    objects = source.records()[0].objects
    assert source.classes == ["oak", "ash"] and objects.classes.tolist() == [0, 1]
    assert objects.centres.tolist() == [[2, 1], [4, 3]]


def test_tables_beside_their_images_and_splits_by_folder(tmp_path):
    made = {"a/1.png": encode(photo(0)), "a/1.csv": b"x,y\n1,1\n", "b/2.png": encode(photo(1))}
    layout = {"images": "<split>/<stem>.png", "points": "<split>/<stem>.csv"}
    place = write_folder(tmp_path, made)
    with pytest.raises(PermafrostError, match="1 images without a table of points: b/2.png"):
        opened(place, layout)
    found = opened(place, {**layout, "missing": "empty"}).records()
    assert [(r.split, len(r.objects)) for r in found] == [("a", 1), ("b", 0)]


def test_without_a_column_of_classes_the_entry_lists_one(tmp_path):
    place = write_folder(tmp_path, files({"a": "x,y\n"}))
    for classes in (None, ["oak", "ash"]):
        with pytest.raises(PermafrostError, match="has to list the one class of all points"):
            opened(place, classes=classes)


@pytest.mark.shared
def test_trees_of_naip_are_in_the_middle_of_their_pixels(shared_data):
    from rasterio.io import MemoryFile

    record_of = {
        r.sample_id: r
        for r in open_source(catalogue_entry("naip-trees", shared_data), where="").records()
    }
    assert len(record_of) == 120
    assert sum(len(record.objects) == 0 for record in record_of.values()) == 2
    archive = zipfile.ZipFile(shared_data / "urban_trees_naip" / "urban_trees.zip")
    # the authors give the same positions on the ground as well, of which the tables are rounded
    apart = []
    for name in sorted(record_of)[::6]:
        stem = name.removeprefix("images/").removesuffix(".tif")
        if f"json/{stem}.json" not in archive.namelist():
            continue
        features = json.loads(archive.read(f"json/{stem}.json"))["features"]
        ground = np.array([feature["geometry"]["coordinates"][:2] for feature in features])
        with MemoryFile(io.BytesIO(archive.read(name))) as memory, memory.open() as image:
            place = image.transform
        columns, rows = (ground - (place.c, place.f)).T / [[place.a], [place.e]]
        apart.append(record_of[name].objects.centres - np.stack([columns, rows], axis=1))
    apart = np.concatenate(apart)
    assert len(apart) > 500
    assert np.abs(apart).max() < 0.51
    assert np.abs(apart.mean(axis=0)).max() < 0.05


@pytest.mark.shared
def test_trees_of_naip_reach_the_stores(shared_data, tmp_path):
    out = Prepared(tmp_path / "out")
    card = out.run(catalogue_entry("naip-trees", shared_data))
    detection = card["detection"]
    assert (detection["geometry"], detection["match_distance"]) == ("point", 10)
    with open(shared_data / "urban_trees_naip" / "index.csv") as stream:
        listed = [line.split(",") for line in stream.read().splitlines()[1:]]
    assert sum(part["objects"] for part in detection["splits"].values()) == sum(
        int(row[2]) for row in listed
    )
    of_image = {f"images/{row[0]}.tif": int(row[2]) for row in listed}
    for path in out.outputs.values():
        store = ImageStore(path)
        assert store.read().images.shape[1:] == (4, 256, 256)
        counts = [len(found) for found in objects_of(store.samples["objects"])]
        assert counts == [of_image[name] for name in store.samples["sample_id"].to_pylist()]
