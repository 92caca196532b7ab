"""Windows of images: which objects they list, how their pixels are read, where they lie."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.datasets.images import (
    RGB_ENTRY,
    geotiff,
    open_source,
    photo,
    write_folder,
    write_tar,
    write_zip,
)
from helpers.datasets.objects import coco, coco_entry, write_json
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.files import decode as decode_module
from permafrost.data.files.cache import LeastRecentlyUsed
from permafrost.data.files.windows import Window
from permafrost.data.labels.objects import Objects
from permafrost.data.records import Decoded, Record
from permafrost.data.store.image_store import ImageStore
from permafrost.data.store.tiles import TiledSource, objects_in
from rasterio.errors import NotGeoreferencedWarning

WRITERS = {
    "folder": write_folder,
    "zip": write_zip,
    "tar": write_tar,
    "tgz": lambda path, files: write_tar(path, files, "w:gz"),
}


class Images:
    """A source of images in memory that counts how often it decodes."""

    bands, classes, task, ignore_index = [], ["tree"], "detection", None

    def __init__(self, sizes):
        generator = np.random.default_rng(0)
        self.images = [generator.integers(0, 255, (2, *s)).astype(np.uint8) for s in sizes]
        self.decoded = [0] * len(sizes)

    def records(self):
        none = Objects.of(np.empty((0, 4)), [])
        return [Record(f"i{n}", objects=none) for n in range(len(self.images))]

    def decode(self, index):
        self.decoded[index] += 1
        time.sleep(0.001)
        return Decoded(self.images[index])


def tiled(source, size=10, overlap=0.0, **more):
    return TiledSource(source, source.records(), size=size, overlap=overlap, **more)


def test_windows_cover_every_pixel_and_are_what_they_show():
    source = Images([(23, 31), (7, 40), (10, 10)])
    cut = tiled(source, overlap=0.2)
    for number, image in enumerate(source.images):
        covered = np.zeros(image.shape[1:], bool)
        for index in range(*cut.spans[number]):
            record, part = cut.records()[index], cut.decode(index).image
            rows = slice(record.y_offset, record.y_offset + part.shape[1])
            columns = slice(record.x_offset, record.x_offset + part.shape[2])
            np.testing.assert_array_equal(part, image[:, rows, columns])
            covered[rows, columns] = True
            assert record.image_size == image.shape[1:] and record.image_id == f"i{number}"
        assert covered.all()


def test_an_image_is_decoded_once_for_all_of_its_windows_by_any_number_of_threads():
    source = Images([(40, 40)] * 12)
    cut = tiled(source, keep=5)
    source.decoded = [0] * 12  # sizes were asked for
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(cut.decode, range(len(cut.records()))))
    assert source.decoded == [1] * 12


def test_what_was_made_last_is_remembered_and_what_failed_is_not():
    made, fail = [], [True]

    def make(argument):
        made.append(argument)
        if argument == "bad" and fail[0]:
            raise ValueError
        return argument * 2

    cache = LeastRecentlyUsed(make, keep=2)
    assert [cache(a) for a in "abaaca"] == ["aa", "bb", "aa", "aa", "cc", "aa"]
    assert made == ["a", "b", "c"]
    cache("b")
    assert made == ["a", "b", "c", "b"]  # c and then a came later
    for _ in range(2):
        with pytest.raises(ValueError):
            cache("bad")
    fail[0] = False
    assert cache("bad") == "badbad" and not cache._makers


def test_threads_that_wait_for_one_thing_get_it_without_making_it_again():
    started, go, made = threading.Event(), threading.Event(), []

    def make(argument):
        made.append(argument)
        started.set()
        go.wait(10)
        return object()

    cache = LeastRecentlyUsed(make, keep=1)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(cache, 1)
        started.wait(10)
        others = [pool.submit(cache, 1) for _ in range(3)]
        go.set()
        assert len({id(one.result()) for one in (first, *others)}) == 1
    assert made == [1]


def test_boxes_belong_to_the_windows_that_they_share_an_area_with_points_to_those_they_lie_in():
    window = Window(10, 20, 10, 10)
    inside = [[12, 22, 14, 24], [0, 0, 40, 40], [19.9, 29.9, 50, 50], [5, 25, 10.1, 26]]
    outside = [[0, 20, 10, 30], [20, 20, 25, 25], [12, 0, 14, 20], [12, 30, 14, 31]]
    boxes = Objects.of(inside + outside, [0] * 8, numbers=range(100, 108))
    assert objects_in(boxes, window).numbers.tolist() == [100, 101, 102, 103]
    points = np.array([[10, 20], [20, 30], [15, 25], [9.99, 25], [15, 30.01]])
    found = objects_in(Objects.of(np.tile(points, 2), [0] * 5), window)
    assert found.numbers.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(found.boxes[:, :2], points[:3])


def tiff_entry(folder, *, kind="folder", count=3, **more) -> tuple[dict, list[np.ndarray]]:
    """Georeferenced images of 3 bands in a container, with an empty list of objects but for one each."""
    images = [photo(n, (50, 70)).transpose(2, 0, 1).copy() for n in range(count)]
    content = coco(count, size=(50, 70), name="{:02d}.tif", classes=("oak",))
    files = {
        f"images/{n:02d}.tif": geotiff(image, lon=10.0 + n, lat=50.0, **more)
        for n, image in enumerate(images)
    }
    place = WRITERS[kind](folder / "set", files)
    source = {
        "kind": "coco",
        "path": str(place),
        "root": "images",
        "annotations": write_json(folder / "objects.json", content),
    }
    return {**RGB_ENTRY, "task": "detection", "source": source}, images


@pytest.mark.parametrize("kind", WRITERS)
def test_tiffs_are_read_by_window_from_any_container(tmp_path, kind, monkeypatch):
    entry, images = tiff_entry(tmp_path, kind=kind, tiled=True, blockxsize=16, blockysize=16)
    source = open_source(entry, where="x")
    monkeypatch.setattr(type(source), "decode", None)  # nothing is decoded whole
    cut = tiled(source, size=32, overlap=0.1)
    for number, image in enumerate(images):
        for index in range(*cut.spans[number]):
            record = cut.records()[index]
            x, y = record.x_offset, record.y_offset
            part = cut.decode(index)
            np.testing.assert_array_equal(part.image, image[:, y : y + 32, x : x + 32])


def test_a_window_lies_where_its_pixels_lie(tmp_path):
    from rasterio.transform import from_origin

    place = {"crs": "EPSG:32633", "transform": from_origin(500_000, 5_500_000, 0.5, 0.5)}
    entry, _ = tiff_entry(tmp_path, **place)
    entry["splits"] = {"method": "random", "fractions": [0.4, 0.3, 0.3]}
    from helpers.datasets.images import Prepared

    out = Prepared(tmp_path / "out")
    out.run({**entry, "tiles": {"size": 30, "overlap": 0.0}})
    rows = [row for s in SPLITS for row in ImageStore(out.outputs[s]).samples.to_pylist()]
    assert len(rows) == 3 * 6
    from rasterio.warp import transform

    for row in rows:
        west, north = 500_000 + 0.5 * row["x_offset"], 5_500_000 - 0.5 * row["y_offset"]
        assert row["transform"] == [0.5, 0, west, 0, -0.5, north] and row["crs"] == "EPSG:32633"
        (lon,), (lat,) = transform("EPSG:32633", "EPSG:4326", [west + 7.5], [north - 7.5])
        assert (row["lon"], row["lat"]) == pytest.approx((lon, lat), abs=1e-9)
    assert len({(row["lon"], row["lat"]) for row in rows}) == 6


def test_a_decoded_image_gives_its_windows_their_places_too(tmp_path):
    entry, _ = tiff_entry(tmp_path)
    source = open_source(entry, where="x")
    by_window = tiled(source, size=32)
    whole = tiled(source, size=32)
    whole._part = None
    for index in range(len(whole.records())):
        one, other = by_window.decode(index), whole.decode(index)
        np.testing.assert_array_equal(one.image, other.image)
        assert one.place == other.place and one.place.lon is not None
        assert whole.locate(index) == (one.place.lon, one.place.lat)


def test_blocks_are_of_whole_images(tmp_path):
    entry, _ = tiff_entry(tmp_path, count=12)
    entry["splits"] = {"method": "block", "block_km": 50, "fractions": [0.5, 0.25, 0.25]}
    from helpers.datasets.images import Prepared

    out = Prepared(tmp_path / "out")
    card = out.run({**entry, "tiles": {"size": 32, "overlap": 0.05}})
    homes = {}
    for split in SPLITS:
        for name in ImageStore(out.outputs[split]).samples["image_id"].to_pylist():
            homes.setdefault(name, set()).add(split)
    assert len(homes) == 12 and all(len(splits) == 1 for splits in homes.values())
    assert card["audit"]["min_distance_km"] > 50 and not card["spatially_random"]


def test_what_lies_beside_a_tiff_is_no_part_of_it(tmp_path):
    with pytest.warns(NotGeoreferencedWarning):
        entry, _ = tiff_entry(tmp_path, crs=None, transform=None)
    world = tmp_path / "set" / "images" / "00.tfw"
    world.write_text("2\n0\n0\n-2\n7\n9\n")
    source = open_source(entry, where="x")
    part = source.decode_window(0, Window(0, 0, 8, 8))
    assert part.place.transform is None is source.decode(0).place.transform


def test_other_formats_are_decoded_whole(tmp_path):
    source = open_source(coco_entry(tmp_path), where="x")
    assert source.decode_window(0, Window(0, 0, 8, 8)) is None
    part = tiled(source, size=32).decode(0)
    np.testing.assert_array_equal(part.image, photo(0, (60, 80)).transpose(2, 0, 1)[:, :32, :32])


def test_the_size_of_an_image_that_cannot_be_read_is_an_error_that_names_it():
    class Broken(Images):
        def decode(self, index):
            raise decode_module.UnreadableImage("is cut off")

    with pytest.raises(PermafrostError, match="i0 cannot be cut into tiles: is cut off"):
        tiled(Broken([(4, 4)]))


def test_a_raster_larger_than_memory_is_read_in_little_memory(tmp_path):
    """60,000 x 60,000 pixels of 3 bands, 10 GB decoded."""
    code = f"""
import resource, json, sys
sys.path.insert(0, {str(tmp_path)!r})
import numpy as np, rasterio
from rasterio.windows import Window as Part
path = {str(tmp_path / "large.tif")!r}
profile = dict(driver="GTiff", width=60_000, height=60_000, count=3, dtype="uint8", tiled=True,
               blockxsize=512, blockysize=512, sparse_ok=True, compress="deflate")
with rasterio.open(path, "w", **profile) as out:
    out.write(np.full((3, 512, 512), 9, np.uint8), window=Part(51_200, 51_200, 512, 512))
content = {{"images": [{{"id": 1, "file_name": "large.tif"}}],
            "categories": [{{"id": 1, "name": "tree"}}],
            "annotations": [{{"id": 1, "image_id": 1, "category_id": 1,
                              "bbox": [51_300, 51_300, 20, 20]}}]}}
json.dump(content, open({str(tmp_path / "o.json")!r}, "w"))
from permafrost.data.sources import open_source, read_entry
from permafrost.data.store.tiles import TiledSource
from permafrost.plan.validation import validate
entry = {{"task": "detection", "bands": ["red", "green", "blue"], "units": {{"unit": "uint8"}},
          "source": {{"kind": "coco", "path": {str(tmp_path)!r}, "annotations": {str(tmp_path / "o.json")!r}}}}}
validate(entry, "dataset", where="x")
source = open_source(read_entry(entry, where="x"), where="x")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cut = TiledSource(source, source.records(), size=400, overlap=0.05)
shown = [i for i, record in enumerate(cut.records()) if len(record.objects)]
sums = [int(cut.decode(i).image.sum()) for i in [0, 5000, len(cut.records()) - 1, *shown]]
assert sums[:3] == [0, 0, 0] and min(sums[3:]) > 0, sums
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(cut.records()), len(shown), after - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    windows, shown, kilobytes = map(int, done.stdout.split())
    assert windows == 158 * 158 and shown >= 1
    assert kilobytes < 200_000
