"""Where pixels lie is kept with the samples, exactly, so that masks can be written back."""

import numpy as np
import pytest
from affine import Affine
from helpers.datasets.images import Prepared, encode, geotiff, mask, pair_entry, photo, write_folder
from permafrost.data.files.decode import Decoding, decode_image, tiff_place
from permafrost.data.files.georeference import NOWHERE, degrees
from permafrost.data.files.windows import Window
from permafrost.data.store.image_store import SAMPLES_SCHEMA, ImageStore

UTM = {"crs": "EPSG:32633", "transform": Affine(0.5, 0, 500_000, 0, -0.5, 5_000_000)}


def image(number: int, **place) -> bytes:
    return geotiff(photo(number).transpose(2, 0, 1), **place)


def test_crs_and_transform_are_those_of_the_file():
    place = tiff_place(image(0, **UTM))
    assert place.crs == "EPSG:32633"
    assert place.transform == (0.5, 0.0, 500_000.0, 0.0, -0.5, 5_000_000.0)
    assert place.size == (24, 32)
    x, y = Affine(*place.transform) @ (16, 12)
    assert (x, y) == (500_008, 4_999_994)
    assert place.lon == pytest.approx(15, abs=1e-3)


LOCAL = 'LOCAL_CS["RGF93 v1 / Lambert-93",UNIT["metre",1]]'
#: what says not where on Earth pixels lie, and whether a transform is left of it
PLACELESS = {
    "of a building site": ({"crs": LOCAL, "transform": Affine(0.2, 0, 9e5, 0, -0.2, 6e6)}, True),
    "of another planet": (
        {
            "crs": 'GEOGCS["Mars",DATUM["Mars",SPHEROID["Mars",3396190,169.89]],PRIMEM["Reference",0],'
            'UNIT["degree",0.0174532925199433]]',
            "transform": Affine(1, 0, 5, 0, -1, 6),
        },
        True,
    ),
    "outside of its zone": (
        {"crs": "EPSG:32633", "transform": Affine(1, 0, 1e12, 0, -1, 1e12)},
        True,
    ),
    "degrees that are none": (
        {"crs": "EPSG:4326", "transform": Affine(1, 0, 5e5, 0, -1, 5e6)},
        True,
    ),
    "no numbers": ({"crs": "EPSG:32633", "transform": Affine(1, 0, np.nan, 0, -1, 0)}, False),
    "pixels without area": ({"crs": "EPSG:32633", "transform": Affine(1, 0, 7, 0, 0, 7)}, False),
}


@pytest.mark.parametrize("what", PLACELESS)
def test_a_header_that_leads_nowhere_costs_the_place_and_no_pixel(what):
    place, kept = PLACELESS[what]
    data = image(3, **place)
    decoded = decode_image(data, Decoding(3))
    assert (decoded.image == photo(3).transpose(2, 0, 1)).all()
    assert (decoded.place.crs, decoded.place.lon, decoded.place.lat) == (None, None, None)
    assert (decoded.place.transform is not None) == kept
    assert decoded.place.of(Window(2, 2, 8, 8)).lon is None
    assert tiff_place(data) == decoded.place


def test_places_outside_of_a_system_cost_no_other_place():
    x, y = [500_000, 1e12, 500_000], [5_000_000, 1e12, 5_100_000]
    lon, lat = degrees("EPSG:32633", x, y)
    assert lon[[0, 2]] == pytest.approx(15) and np.isnan(lon[1]) and np.isnan(lat[1])
    # one question, not one for each place
    assert np.isnan(degrees(LOCAL, np.zeros(100_000), np.zeros(100_000))).all()


def test_the_card_counts_images_without_a_place(tmp_path):
    files = pairs([PLACELESS["of a building site"][0] if i % 2 else UTM for i in range(12)])
    out = Prepared(tmp_path / "out")
    card = out.run(pair_entry(write_folder(tmp_path / "set", files)))
    assert sum(split["without_place"] for split in card["splits"].values()) == 6
    rows = [row for split in out.outputs.values() for row in ImageStore(split).samples.to_pylist()]
    assert {(row["crs"] is None, row["lon"] is None) for row in rows} == {(True,) * 2, (False,) * 2}
    assert all(row["transform"] for row in rows)


def test_a_crs_without_a_number_is_kept_as_text():
    import rasterio

    own = "+proj=laea +lat_0=12.3 +lon_0=45.6 +datum=WGS84 +units=m"
    place = tiff_place(image(0, crs=own, transform=Affine(30, 0, 0, 0, -30, 0)))
    assert rasterio.CRS.from_string(place.crs) == rasterio.CRS.from_string(own)


def test_a_transform_without_a_crs_is_kept_and_a_plain_tiff_lies_nowhere():
    place = tiff_place(image(0, crs=None, transform=Affine(2, 0, 10, 0, -2, 20)))
    assert (place.crs, place.lon) == (None, None) and place.transform[2] == 10
    assert tiff_place(encode(photo(0), "tiff")) == NOWHERE


def pairs(places: list[dict | None]) -> dict[str, bytes]:
    files = {}
    for number, place in enumerate(places):
        if place is None:
            files[f"images/{number:02d}.png"] = encode(photo(number))
        else:
            files[f"images/{number:02d}.tif"] = image(number, **place)
        files[f"masks/{number:02d}.tif"] = geotiff(mask(number)[None], **(place or {}))
    return files


def test_the_samples_of_all_splits_say_where_they_lie_or_that_they_do_not(tmp_path):
    places = [
        None if i == 5 else {**UTM, "transform": Affine(1, 0, i, 0, -1, 9)} for i in range(12)
    ]
    out = Prepared(tmp_path / "out")
    out.run(pair_entry(write_folder(tmp_path / "set", pairs(places))))
    seen = {}
    for split in ("train", "val", "test"):
        store = ImageStore(out.outputs[split])
        assert store.samples.schema.names == [*SAMPLES_SCHEMA.names, "crs", "transform"]
        assert store.read().masks.shape[1:] == (24, 32)
        for row in store.samples.to_pylist():
            seen[row["sample_id"]] = (row["crs"], row["transform"])
    assert seen.pop("images/05.png") == (None, None)
    for name, (crs, transform) in seen.items():
        assert crs == "EPSG:32633"
        assert transform == [1, 0, int(name[len("images/") : -len(".tif")]), 0, -1, 9]


def test_without_any_place_there_are_no_such_columns(tmp_path):
    out = Prepared(tmp_path / "out")
    out.run(pair_entry(write_folder(tmp_path / "set", pairs([None] * 12))))
    assert ImageStore(out.outputs["train"]).samples.schema.equals(SAMPLES_SCHEMA)


def test_pixels_and_masks_of_geotiffs_are_exact(tmp_path):
    out = Prepared(tmp_path / "out")
    out.run(pair_entry(write_folder(tmp_path / "set", pairs([UTM] * 12))))
    store = ImageStore(out.outputs["val"])
    for name, pixels, truth in zip(
        store.samples["sample_id"].to_pylist(), store.read().images, store.read().masks, strict=True
    ):
        number = int(name[len("images/") : -len(".tif")])
        np.testing.assert_array_equal(pixels, photo(number).transpose(2, 0, 1))
        np.testing.assert_array_equal(truth, mask(number))
