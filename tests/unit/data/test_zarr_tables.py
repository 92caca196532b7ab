"""Arrays of zarr stores, written by zarr itself, as images, masks, labels and dates of a dataset."""

import json
import pathlib
import pickle
import shutil

import numpy as np
import pytest
import zarr
from helpers.datasets.images import (
    MASK_ENTRY,
    RANDOM,
    RGB_ENTRY,
    Prepared,
    chw,
    mask,
    open_source,
    validated,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.store.image_store import ImageStore
from zarr.storage import ZipStore

KINDS = ["water", "forest"]


def written(place, arrays: dict[str, np.ndarray], group: str = "", **options):
    """The arrays in a store of zarr, or in a group of it."""
    root = zarr.open_group(place, mode="a", zarr_format=options.pop("zarr_format", 3))
    root = root.require_group(group) if group else root
    for name, values in arrays.items():
        chunks = (min(4, len(values)), *values.shape[1:])
        root.create_array(name, data=values, chunks=chunks, **options)
    return place


class Runs:
    """What makes a file when its pickle is opened."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


def photos(numbers) -> np.ndarray:
    return np.stack([chw(number) for number in numbers])


def kinds(numbers) -> np.ndarray:
    return np.array([KINDS[number % 2] for number in numbers])


def entry(place, **source) -> dict:
    given = {"path": "images", "label": "label", **source}
    return {
        **RGB_ENTRY,
        "source": {"kind": "table", "table": str(place), **given},
        "splits": RANDOM,
    }


def stored(out: Prepared) -> dict[str, np.ndarray]:
    found = {}
    for path in out.outputs.values():
        store = ImageStore(path)
        found |= zip(store.samples["sample_id"].to_pylist(), store.read().images, strict=True)
    return found


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("last", [False, True], ids=["bands first", "bands last"])
def test_images_and_labels_through_prepare(tmp_path, version, last):
    images = photos(range(12))
    images = np.moveaxis(images, 1, -1) if last else images
    arrays = {"images": images, "label": kinds(range(12)), "band": np.arange(3)}
    out = Prepared(tmp_path / "out")
    card = out.run(entry(written(tmp_path / "set.zarr", arrays, zarr_format=version)))
    assert card["classes"] == sorted(KINDS)
    found = stored(out)
    assert len(found) == 12
    for number in range(12):
        np.testing.assert_array_equal(found[f"images/{number:07d}"], chw(number))


def test_a_store_in_a_zip(tmp_path):
    store = ZipStore(tmp_path / "set.zarr.zip", mode="w")
    written(store, {"images": photos(range(8)), "label": kinds(range(8))})
    store.close()
    source = open_source(entry(tmp_path / "set.zarr.zip"))
    np.testing.assert_array_equal(source.decode(7).image, chw(7))
    assert len(source.records()) == 8


@pytest.mark.parametrize("place", ["set.zarr", "folder"])
def test_groups_or_stores_of_splits(tmp_path, place):
    for number, split in enumerate(("train", "val", "test")):
        numbers = range(4 * number, 4 * number + 4)
        arrays = {"images": photos(numbers), "label": kinds(numbers)}
        if place == "folder":
            written(tmp_path / f"folder/{split}.zarr", arrays)
        else:
            written(tmp_path / place, arrays, split)
    files = "<split>.zarr" if place == "folder" else "<split>"
    given = entry(tmp_path / place, files=files, split="split") | {"splits": {"method": "given"}}
    out = Prepared(tmp_path / "out")
    card = out.run(given)
    assert [card["splits"][split]["count"] for split in ("train", "val", "test")] == [4, 4, 4]
    (_, second, *_) = ImageStore(out.outputs["val"]).read().images
    np.testing.assert_array_equal(second, chw(5))


def test_masks_numbers_places_and_days(tmp_path):
    arrays = {
        "images": photos(range(8)),
        "masks": np.stack([mask(n) for n in range(8)]),
        "lon": np.linspace(10, 11, 8),
        "lat": np.full(8, 50.0),
        "day": np.array(["2019-05-03", "2020-06-01"] * 4, "datetime64[ns]"),
    }
    place = written(tmp_path / "set.zarr", arrays)
    source = {"masks": "masks", "lon": "lon", "lat": "lat", "date": "day"}
    given = entry(place, **source) | MASK_ENTRY | {"splits": RANDOM}
    del given["source"]["label"]
    read = open_source(given)
    np.testing.assert_array_equal(read.decode(5).mask, mask(5))
    record = read.records()[7]
    assert (record.lon, record.lat, record.date) == (11.0, 50.0, "2020-06-01T00:00:00")
    Prepared(tmp_path / "out").run(given)


def test_series_in_one_array_with_the_dates_of_each(tmp_path):
    series = np.stack([photos(range(n, n + 3)) for n in range(12)])
    first = np.array([17000, 17010, 17020]) + np.arange(12)[:, None]
    place = written(
        tmp_path / "set.zarr", {"images": series, "label": kinds(range(12)), "time": first}
    )
    zarr.open_group(place)["time"].attrs["units"] = "days since 1970-01-01"
    given = entry(place, date="time") | {"dates": "series"}
    with pytest.raises(PermafrostError, match="no column 'time'"):
        # numbers have a column for each
        open_source(given | {"source": given["source"] | {"table": str(_plain(tmp_path, series))}})
    out = Prepared(tmp_path / "out")
    out.run(given)
    for path in out.outputs.values():
        store = ImageStore(path)
        rows = store.samples.select(["sample_id", "dates"]).to_pylist()
        for row, images in zip(rows, store.read().images, strict=True):
            number = int(row["sample_id"][-7:])
            np.testing.assert_array_equal(images, series[number])
            days = np.datetime64("1970-01-01") + first[number]
            assert [day[:10] for day in row["dates"]] == [str(day) for day in days]


def _plain(folder, series):
    arrays = {"images": series, "label": kinds(range(12)), "time": np.zeros((12, 3), int)}
    return written(folder / "plain.zarr", arrays)


def test_several_labels_are_columns_of_the_array(tmp_path):
    labels = np.array([[1, 0, 1], [0, 1, 0]] * 4)
    place = written(tmp_path / "set.zarr", {"images": photos(range(8)), "labels": labels})
    given = entry(place, labels=["labels.0", "labels.1", "labels.2"])
    given |= {"task": "multilabel", "classes": ["a", "b", "c"]}
    del given["source"]["label"]
    assert [record.label for record in open_source(given).records()][:2] == [(1, 0, 1), (0, 1, 0)]


def test_several_sensors_of_a_sample(tmp_path):
    radar = np.random.default_rng(0).normal(-12, 2, (12, 2, 8, 8)).astype(np.float32)
    arrays = {"images": photos(range(12)), "radar": radar, "label": kinds(range(12))}
    given = entry(written(tmp_path / "set.zarr", arrays), path={"rgb": "images", "s1": "radar"})
    given |= {
        "modalities": {
            "rgb": {"sensor": "rgb", "bands": ["red", "green", "blue"], "units": {"unit": "uint8"}},
            "s1": {"sensor": "sentinel1", "bands": ["VV", "VH"], "units": {"unit": "db"}},
        }
    }
    given = {key: value for key, value in given.items() if key not in ("sensor", "bands", "units")}
    Prepared(tmp_path / "out").run(given)
    decoded = open_source(given).decode(3)
    np.testing.assert_array_equal(decoded.image, chw(3))
    np.testing.assert_array_equal(decoded.further[0], radar[3])


def test_a_missing_chunk_is_no_black_image(tmp_path):
    place = written(tmp_path / "set.zarr", {"images": photos(range(12)), "label": kinds(range(12))})
    (place / "images/c/1/0/0/0").unlink()
    source = open_source(entry(place))
    np.testing.assert_array_equal(source.decode(3).image, chw(3))
    with pytest.raises(UnreadableImage, match="its chunk is missing"):
        source.decode(4)


def test_a_damaged_chunk_is_named(tmp_path):
    place = written(tmp_path / "set.zarr", {"images": photos(range(8)), "label": kinds(range(8))})
    chunk = place / "images/c/0/0/0/0"
    chunk.write_bytes(chunk.read_bytes()[:50])
    with pytest.raises(PermafrostError, match="4 of 8 images cannot be used.*images/0000000"):
        Prepared(tmp_path / "out").run(entry(place))


@pytest.mark.parametrize(
    "codec",
    [
        {"filters": [{"id": "pickle", "protocol": 5}]},
        {"filters": [{"id": "pickle", "protocol": 5}, {"id": "crc32"}]},
        {"compressor": {"id": "pickle", "protocol": 5}},
        {"dtype": "|O", "filters": [{"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}]},
    ],
)
def test_pickled_objects_are_never_opened(tmp_path, codec):
    place = written(
        tmp_path / "set.zarr",
        {"images": photos(range(8)), "label": np.arange(8) % 2},
        zarr_format=2,
    )
    metadata = json.loads((place / "label/.zarray").read_text())
    (place / "label/.zarray").write_text(
        json.dumps(metadata | {"compressor": None, "fill_value": None} | codec)
    )
    for chunk in (place / "label").glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps(Runs(tmp_path / "ran")))
    with pytest.raises(PermafrostError, match="pickle"):
        open_source(entry(place))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"label": np.arange(4)}, "no array of images"),
        (
            {"images": photos(range(4)), "other": photos(range(3))},
            "images holds 4 samples and other 3",
        ),
        ({"images": photos(range(4)).astype(complex), "label": np.arange(4)}, "complex128 values"),
    ],
)
def test_stores_that_are_no_table(tmp_path, arrays, message):
    with pytest.raises(PermafrostError, match=message):
        open_source(entry(written(tmp_path / "set.zarr", arrays)))


def test_a_header_that_lies(tmp_path):
    place = written(tmp_path / "set.zarr", {"images": photos(range(4)), "label": np.arange(4)})
    path = place / "images/zarr.json"
    metadata = json.loads(path.read_text())
    for shape, message in (
        ([10**15, 3, 24, 32], "claims 1000000000000000"),
        ([4, 3, 10**6, 10**6], "would take 3,000,000 MB"),
    ):
        path.write_text(json.dumps(metadata | {"shape": shape}))
        with pytest.raises((PermafrostError, UnreadableImage), match=message):
            open_source(entry(place)).decode(0)


def test_the_identity_is_that_of_arrays_and_their_metadata(tmp_path):
    place = written(
        tmp_path / "set.zarr", {"images": photos(range(8)), "label": np.arange(8)}, zarr_format=2
    )
    given = validated(entry(place))
    before = source_digest(given)
    shutil.copytree(place, tmp_path / "copy.zarr")
    assert source_digest(validated(entry(tmp_path / "copy.zarr"))) == before
    metadata = json.loads((place / "label/.zarray").read_text())
    (place / "label/.zarray").write_text(json.dumps(metadata | {"dtype": "<u8"}))
    assert source_digest(given) != before
