"""Every class of torchgeo on its own fixture, from archive to image store, against what the class itself gives."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from helpers.datasets.images import Prepared, open_source
from helpers.datasets.torchgeo_classes import (
    DOCUMENT,
    ROWS,
    entry_of,
    fixture_of,
    own_pixels,
    table,
    unpack,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.store.image_store import ImageStore

READ = [row for row in ROWS if "class" in row]


@pytest.fixture(scope="module")
def fixtures(shared_data, tmp_path_factory):
    archive = shared_data / "torchgeo_fixtures" / "torchgeo_fixtures.tar.gz"
    return unpack(archive, tmp_path_factory.mktemp("torchgeo"))


def name_of(row: dict) -> str:
    kind = row.get("catalogue") or row.get("dates", "one")
    return "-".join([row["class"], kind, *row.get("modalities", {})])


def stored_pixels(store: ImageStore) -> list[np.ndarray]:
    """All pixels of each sample, flat, modality after modality, without what fills up."""
    pixels = [[] for _ in range(len(store))]
    for one in store.modalities:
        images = store.store.read(one.array)
        counts, (heights, widths) = store.date_counts(one), store.sizes(one)
        for i, image in enumerate(images):
            image = image if one.dates is None else image[: counts[i]]
            pixels[i].append(image[..., : heights[i], : widths[i]].astype(np.float64).ravel())
    return [np.concatenate(parts) for parts in pixels]


def same_samples(found: list[np.ndarray], own: list[np.ndarray]) -> bool:
    return sorted(one.tobytes() for one in found) == sorted(one.tobytes() for one in own)


@pytest.mark.shared
@pytest.mark.parametrize("row", READ, ids=name_of)
def test_a_class_gives_the_pixels_shapes_and_dates_of_the_table(
    row, fixtures, tmp_path, monkeypatch
):
    from torchgeo import datasets

    for name, value in row.get("patch", {}).items():
        monkeypatch.setattr(getattr(datasets, row["class"]), name, value)
    entry = entry_of(row, fixture_of(row, fixtures, tmp_path / "fixture"))
    out = Prepared(tmp_path / "out")
    if "refused" in row:
        with pytest.raises(PermafrostError) as caught:
            out.run(entry)
        assert row["refused"] in str(caught.value)
        return
    own = sum(own_pixels(row, entry).values(), [])
    if row.get("few"):
        found = decoded_pixels(entry, row)
    else:
        card = out.run(entry)
        stores = [ImageStore(out.outputs[split]) for split in out.outputs]
        assert [card["splits"][split]["count"] for split in out.outputs] == row["samples"]
        shapes = {
            m.name or "image": list(stores[0].store.shape(m.array)[1:])
            for m in stores[0].modalities
        }
        assert shapes == row["stored"]
        assert seen(stores[0]) == row.get("first_dates")
        found = sum(map(stored_pixels, stores), [])
    assert same_samples(found, own)


def seen(store: ImageStore) -> list | None:
    """Dates of the first sample, of its first modality; None where none is known."""
    sample = store.samples.slice(0, 1).to_pylist()[0]
    dates = sample.get("dates", [sample["date"]])
    return dates if any(dates) else None


def decoded_pixels(entry: dict, row: dict) -> list[np.ndarray]:
    """Of fixtures with too few samples to divide: the pixels before they are stored."""
    # the lists of some fixtures repeat a sample
    source = open_source(entry)
    decoded = [source.decode(i) for i in range(len(source.records()))]
    shapes = {"image": list(decoded[0].image.shape)}
    assert [len(decoded)] == row["samples"] and shapes == row["stored"]
    assert (list(decoded[0].dates[0]) if decoded[0].dates else None) == row.get("first_dates")
    return [one.image.astype(np.float64).ravel() for one in decoded]


@pytest.mark.shared
@pytest.mark.parametrize("key", ["dates-S2", "dates-S1A"])
def test_dates_of_pastis_are_those_of_its_table_of_patches(fixtures, tmp_path, key):
    with zipfile.ZipFile(fixtures / "pastis" / "PASTIS-R.zip") as archive:
        archive.extractall(tmp_path)
    path = tmp_path / "PASTIS-R" / "metadata.geojson"
    content = json.loads(path.read_text())
    sensor = key.removeprefix("dates-")
    for feature in content["features"]:
        number = feature["properties"]["ID_PATCH"]
        images = np.load(tmp_path / f"PASTIS-R/DATA_{sensor}/{sensor}_{number}.npy")
        days = {str(i): 20180901 + 100 * i + number for i in range(len(images))}
        # as the authors wrote it: from Python, or as text
        feature["properties"][key] = days if number % 2 else json.dumps(days)
    path.write_text(json.dumps(content))
    bands = {"dates-S2": 10, "dates-S1A": 3}[key]
    row = next(r for r in READ if r["class"] == "PASTIS" and r.get("bands", 10) == bands)
    source = open_source(entry_of(row, tmp_path))
    for number in range(5):
        (dates,) = source.decode(number).dates
        assert dates[0] == f"2018-09-0{number + 1}" and len(dates) == len(
            source.decode(number).image
        )


@pytest.mark.shared
def test_damage_is_not_named_by_the_list_of_torchgeo(fixtures):
    row = next(row for row in READ if row["class"] == "xBD")
    left = {key: value for key, value in row.items() if key not in ("classes", "mask_values")}
    with pytest.raises(PermafrostError, match="do not number the classes in the order of its list"):
        open_source(entry_of(left, fixtures / row["fixture"]))


def test_every_class_of_torchgeo_is_in_the_table():
    from torchgeo import datasets

    known = {
        name
        for name in datasets.__all__
        if isinstance(getattr(datasets, name), type)
        and issubclass(getattr(datasets, name), datasets.NonGeoDataset)
    }
    listed = {row["class"] for row in READ} | {
        name for row in ROWS for name in row.get("classes_not_read", [])
    }
    assert known - listed == set() and listed - known == set()


def test_the_documentation_has_the_table():
    assert table() in DOCUMENT.read_text(), "run tests/helpers/datasets/torchgeo_classes.py"
