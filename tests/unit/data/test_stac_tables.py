"""Items of STAC as a table, written by the specification's version 1.1 as plain JSON."""

import json

import numpy as np
import pytest
from helpers.datasets.images import (
    MASK_ENTRY,
    RANDOM,
    RGB_ENTRY,
    Prepared,
    chw,
    encode,
    geotiff,
    mask,
    open_source,
    photo,
    validated,
    write_folder,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.digest import source_digest
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.store.image_store import ImageStore

CATALOG = {"type": "Catalog", "stac_version": "1.1.0", "id": "all", "description": "", "links": []}


def item(name: str, assets: dict[str, str], **properties) -> dict:
    """An Item whose box lies around 10° E, 50° N."""
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": name,
        "collection": "fields",
        "bbox": [9.9, 49.9, 10.1, 50.1],
        "geometry": {
            "type": "Polygon",
            "coordinates": [[[9.9, 49.9], [10.1, 49.9], [10.1, 50.1], [9.9, 50.1], [9.9, 49.9]]],
        },
        "properties": {"datetime": "2019-05-03T10:30:21.024Z", **properties},
        "links": [{"rel": "self", "href": f"https://example.org/{name}.json"}],
        "assets": {
            key: {"href": href, "type": "image/png", "roles": ["data"]}
            for key, href in assets.items()
        },
    }


def written(folder, count: int = 8):
    """Photos with masks, an item beside each; a catalogue and a collection above them."""
    files = {"catalog.json": json.dumps(CATALOG).encode()}
    files["fields/collection.json"] = json.dumps(CATALOG | {"type": "Collection"}).encode()
    for number in range(count):
        name = f"item {number}"
        own = item(
            name,
            {"image": "../../images/a%20" + f"{number}.png", "mask": "./mask.png"},
            kind=["town", "field"][number % 2],
            **{"eo:cloud_cover": number},
        )
        files[f"fields/{name}/{name}.json"] = json.dumps(own).encode()
        files[f"fields/{name}/mask.png"] = encode(mask(number))
        files[f"images/a {number}.png"] = encode(photo(number))
    return write_folder(folder, files)


def entry(place, **source) -> dict:
    given = {"path": "assets.image", "label": "properties.kind", **source}
    source = {"kind": "table", "table": str(place), **given}
    return {**RGB_ENTRY, "source": source, "splits": RANDOM}


def test_items_of_a_folder_through_prepare(tmp_path):
    given = entry(
        written(tmp_path / "set"), lon="lon", lat="lat", date="properties.datetime", group="id"
    )
    out = Prepared(tmp_path / "out")
    card = out.run(given)
    assert card["classes"] == ["field", "town"]
    found = {}
    for path in out.outputs.values():
        store = ImageStore(path)
        rows = store.samples.select(["sample_id", "lon", "lat", "date"]).to_pylist()
        for row, image in zip(rows, store.read().images, strict=True):
            found[row["sample_id"]] = image
            assert (row["lon"], row["lat"]) == (10.0, 50.0)
            assert row["date"].startswith("2019-05-03")
    for number in range(8):
        np.testing.assert_array_equal(found[f"assets.image/images/a {number}.png"], chw(number))


def test_masks_are_assets_too(tmp_path):
    given = entry(written(tmp_path / "set"), masks="assets.mask") | MASK_ENTRY
    del given["source"]["label"]
    source = open_source(given)
    for index, record in enumerate(source.records()):
        number = int(record.sample_id[-5])
        np.testing.assert_array_equal(source.decode(index).mask, mask(number))


def test_one_file_of_items_beside_a_folder_of_images(tmp_path):
    images = write_folder(tmp_path / "images", {f"a{n}.png": encode(photo(n)) for n in range(4)})
    items = [item(str(n), {"image": f"./a{n}.png"}, kind="xy"[n % 2]) for n in range(4)]
    path = tmp_path / "items.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": items}))
    source = open_source(entry(path, images=str(images)))
    assert [record.sample_id for record in source.records()] == [f"a{n}.png" for n in range(4)]
    np.testing.assert_array_equal(source.decode(2).image, chw(2))
    with pytest.raises(PermafrostError, match="holds no images.*name the folder"):
        open_source(entry(path))


def test_dates_of_a_place_are_a_series_and_assets_are_sensors(tmp_path):
    files = {}
    for place in range(6):
        for number, day in enumerate(("2019-07-01", "2019-05-01")):
            name = f"{place}_{day}"
            own = item(
                name,
                {"s2": f"{name}.tif", "dem": f"{name}_dem.tif"},
                tile=place,
                kind="xy"[place % 2],
            )
            own["properties"]["datetime"] = f"{day}T00:00:00Z"
            files[f"{name}.json"] = json.dumps(own).encode()
            files[f"{name}.tif"] = geotiff(chw(10 * place + number))
            files[f"{name}_dem.tif"] = geotiff(np.full((1, 4, 4), place, np.float32))
    given = entry(
        write_folder(tmp_path / "set", files),
        path={"s2": "assets.s2", "dem": "assets.dem"},
        sample="properties.tile",
        date="properties.datetime",
    )
    for key in ("sensor", "bands", "units"):
        del given[key]
    given |= {
        "dates": "series",
        "modalities": {
            "s2": {"sensor": "rgb", "bands": ["red", "green", "blue"], "units": {"unit": "uint8"}},
            "dem": {"sensor": "dem", "bands": ["elevation"], "units": {"unit": "metre"}},
        },
    }
    source = open_source(given)
    decoded = source.decode(3)
    np.testing.assert_array_equal(decoded.image, [chw(31), chw(30)])
    assert decoded.dates[0] == ("2019-05-01", "2019-07-01")
    assert (decoded.further[0] == 3).all()
    Prepared(tmp_path / "out").run(given)


@pytest.mark.parametrize(
    ("href", "message"),
    [
        (
            "https://example.org/a.tif",
            "https://example.org/a.tif for assets.image, which is not a file of",
        ),
        ("../../../secret.png", "secret.png for assets.image, which is not a file of"),
        ("/etc/hostname", "/etc/hostname for assets.image, which is not a file of"),
        (None, "has no assets.image"),
    ],
)
def test_assets_that_are_not_in_the_folder(tmp_path, href, message):
    write_folder(tmp_path, {"secret.png": encode(photo(0))})
    place = written(tmp_path / "set")
    path = place / "fields/item 3/item 3.json"
    own = json.loads(path.read_text())
    own["assets"] = {"image": {"href": href}} if href else {"other": {"href": "mask.png"}}
    path.write_text(json.dumps(own))
    source = open_source(entry(place))
    with pytest.raises(UnreadableImage, match=message):
        source.decode(3)
    np.testing.assert_array_equal(source.decode(4).image, chw(4))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}', "neither an Item of STAC"),
        ("[", "cannot be read"),
        ('{"type": "Feature"}', "neither"),
    ],
)
def test_json_that_is_no_item(tmp_path, text, message):
    place = written(tmp_path / "set")
    (place / "other.json").write_text(text)
    with pytest.raises(PermafrostError, match=message):
        open_source(entry(place))
    source = open_source(entry(place, files="fields/<name>/<file>.json"))
    assert len(source.records()) == 8


def test_a_box_over_the_date_line(tmp_path):
    own = item("a", {"image": "a.png"}, kind="x") | {"bbox": [179.0, -10, 0, -177.0, 10, 5]}
    files = {"a.json": json.dumps(own).encode(), "a.png": encode(photo(0))}
    (record,) = open_source(
        entry(write_folder(tmp_path / "set", files), lon="lon", lat="lat")
    ).records()
    assert (record.lon, record.lat) == (-179.0, 0.0)


def test_assets_are_part_of_the_identity(tmp_path):
    place = written(tmp_path / "set")
    before = source_digest(validated(entry(place)))
    (place / "images/a 3.png").write_bytes(encode(photo(99)))
    assert source_digest(validated(entry(place))) != before
