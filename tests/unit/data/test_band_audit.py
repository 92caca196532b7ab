"""Bands whose pixels contradict what is declared: seen where two are exchanged, silent in the true order."""

from __future__ import annotations

import glob

import numpy as np
import pytest
import yaml
from helpers.datasets.images import (
    CONFIG,
    Prepared,
    catalogue_entry,
    encode,
    folder_entry,
    open_source,
    photo,
    write_folder,
)
from permafrost.data.bands.selection import dataset_bands
from permafrost.data.bands.statistics import BandStatistics, PixelSample
from permafrost.data.store.band_audit import doubts
from permafrost.data.store.image_store import ImageStore

SENTINEL_2 = ["B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B11", "B12"]
UNITS = {
    "db": {"unit": "db", "scale": 1.0, "offset": 0.0},
    "counts": {"unit": "digital_number", "scale": 1e-4, "offset": 0.0},
    "uint8": {"unit": "uint8", "scale": 1 / 255, "offset": 0.0},
    "reflectance": {"unit": "reflectance", "scale": 1.0, "offset": 0.0},
    "kelvin": {"unit": "kelvin", "scale": 1.0, "offset": 0.0},
    "linear_power": {"unit": "linear_power", "scale": 1.0, "offset": 0.0},
}


def told(images, names, sensor=None, unit="counts", *, selected=None) -> list[str]:
    """What is found of images (C, H, W) whose bands are declared so."""
    statistics = BandStatistics(len(images[0]))
    for image in images:
        statistics.add(image)
    declared = [
        {**band.as_dict(), **UNITS[unit], **statistics.of_band(number)}
        for number, band in enumerate(dataset_bands(names, sensor))
    ]
    chosen = selected or [band["name"] for band in declared]
    return [doubt["found"] for doubt in doubts(declared, chosen, statistics)]


def exchanged(names: list[str], one: str, other: str) -> list[str]:
    swap = {one: other, other: one}
    return [swap.get(name, name) for name in names]


# --- real samples ------------------------------------------------------------------------------------


def geobench2(name, shared_data) -> tuple[list[np.ndarray], list[str], str]:
    """Images of an entry's real samples, the names of their bands in the true order, their sensor."""
    entry = {**catalogue_entry(name, shared_data), "allow_missing_classes": True}
    dataset = entry["source"]["path"].rpartition("/")[2]
    place = {"path": str(shared_data / "geobench2_samples"), "files": [f"{dataset}.tortilla"]}
    source = open_source({**entry, "source": {**entry["source"], **place}}, where=name)
    images = [source.decode(i).image for i in range(len(source.records()))]
    return images, [band.name for band in source.bands], entry["sensor"]


def terramind(folder, shared_data) -> list[np.ndarray]:
    import rasterio

    images = []
    for path in sorted(glob.glob(f"{shared_data}/terramind_examples/{folder}/*.tif")):
        with rasterio.open(path) as file:
            images.append(file.read())
    return images


SENTINEL_2_SETS = ["benv2-s2", "treesatai-s2", "dynamic-earthnet-s2", "terramind"]


def sentinel_2(name, shared_data):
    if name == "terramind":
        return terramind("S2L2A", shared_data), SENTINEL_2, "sentinel2-l2a"
    return geobench2(f"geobench2-{name}", shared_data)


@pytest.mark.parametrize("name", SENTINEL_2_SETS)
def test_sentinel_2_in_its_true_order_is_silent_and_bands_exchanged_are_seen(name, shared_data):
    images, names, sensor = sentinel_2(name, shared_data)
    assert told(images, names, sensor) == []
    for pair in (
        ("B04", "B08"),
        ("B04", "B8A"),
        ("B02", "B06"),
        ("B05", "B06"),
        ("B06", "B07"),
        ("B11", "B12"),
        ("B02", "B03"),
    ):
        found = told(images, exchanged(names, *pair), sensor)
        assert found and all("%" in sentence for sentence in found), pair


@pytest.mark.parametrize("name", ["benv2-s2", "dynamic-earthnet-s2", "terramind"])
def test_blue_and_red_exchanged_are_seen_where_not_all_is_forest(name, shared_data):
    images, names, sensor = sentinel_2(name, shared_data)
    assert told(images, exchanged(names, "B02", "B04"), sensor)


def test_the_package_s_order_of_dynamic_earthnet_is_doubted(shared_data):
    images, names, sensor = sentinel_2("dynamic-earthnet-s2", shared_data)
    assert names != SENTINEL_2
    assert "of the pixels with plants" in " ".join(told(images, SENTINEL_2, sensor))


def test_the_published_names_of_m_eurosat_are_doubted(shared_data):
    import h5py

    folder = shared_data / "geobench1_sample" / "classification_v1.0" / "m-eurosat"
    entry = catalogue_entry("m-eurosat", shared_data)
    names = [band if isinstance(band, str) else band["name"] for band in entry["bands"]]
    with h5py.File(folder / "id_1905.hdf5") as file:
        image = np.stack([file[array][()] for array in entry["source"]["arrays"]])
    published = ["B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10"]
    assert told([image], names, entry["sensor"]) == []
    found = told([image], [*published, "B11", "B12"], entry["sensor"])
    assert any("B11 (swir16)" in s and "B12 (swir22)" in s for s in found), found


@pytest.mark.parametrize("name", ["algae_blooms", "fuel_moisture"])
def test_lakes_and_dry_land_at_l1c_are_silent_and_seen_where_declared_l2a(name, shared_data):
    archive = np.load(shared_data / "presto_timeseries" / f"{name}.npz")
    # one pixel and its dates: (bands, 1, dates)
    series = archive["s1_s2_era5_srtm"].transpose(0, 2, 1)[:, :, None]
    names = [band for band in SENTINEL_2 if band != "B01"]
    assert told(series[:, 2:13], names, "sentinel2-l1c") == []
    (found,) = told(series[:, 2:13], names, "sentinel2-l2a")
    assert found.startswith("B02 (blue) is above B03 (green) in")
    assert told(series[:, :2], ["VV", "VH"], "sentinel1", "db") == []
    assert told(series[:, 13:14], [{"name": "air"}], None, "kelvin") == []


@pytest.mark.parametrize("name", ["benv2-s1", "terramind"])
def test_vh_above_vv_is_seen_in_decibels_and_power(name, shared_data):
    names, images = ["VV", "VH"], None
    if name == "terramind":
        images = terramind("S1RTC", shared_data)
    else:
        images, names, _ = geobench2("geobench2-benv2-s1", shared_data)
    power = [10 ** (image / 10) for image in images]
    for values, unit in ((images, "db"), (power, "linear_power")):
        assert told(values, names, "sentinel1", unit) == []
        (found,) = told(values, names[::-1], "sentinel1", unit)
        assert found.startswith("VH is above VV in 9")


def test_infrared_below_red_is_seen_in_pictures(shared_data):
    images, names, sensor = geobench2("geobench2-treesatai-aerial", shared_data)
    assert told(images, names, sensor, "uint8") == []
    # the package's order
    found = told(images, ["red", "green", "blue", "nir"], sensor, "uint8")
    assert found == ["nir (nir) is below red (red) in 87% of the pixels, as over water alone"]


def test_few_images_of_towns_are_silent_and_few_of_fields_are_not(shared_data):
    """Roofs and roads reflect less infrared than red; infrared that is below red nearly everywhere is no town."""
    import zipfile

    import rasterio

    place = shared_data / "urban_trees_naip/urban_trees.zip"
    names = [name for name in zipfile.ZipFile(place).namelist() if name.endswith(".tif")]
    images = []
    for name in names:
        with rasterio.open(f"/vsizip/{place}/{name}") as raster:
            images.append(raster.read())
    bands = ["red", "green", "blue", "nir"]
    random = np.random.default_rng(0)
    for count in (1, 2, 4, 8) * 20:
        drawn = [images[i] for i in random.choice(len(images), count, replace=False)]
        assert told(drawn, bands, "aerial", "uint8") == []
    sealed = sorted(images, key=lambda image: (image[3] >= image[0]).mean())
    fields = sorted(images, key=lambda image: (image[3] > image[0]).mean())[-1]
    green = fields[:, (fields[3] > fields[0] + 5).reshape(fields.shape[1:])].reshape(4, 1, -1)
    wrong = told([green] * 4, exchanged(bands, "red", "nir"), "aerial", "uint8")
    assert len(wrong) == 1 and "is below" in wrong[0]
    # of many images the same share of dark infrared is no chance
    assert told(sealed[:32], bands, "aerial", "uint8") != []


def test_towns_in_winter_are_silent(shared_data):
    import zipfile

    import rasterio

    with zipfile.ZipFile(shared_data / "urban_trees_naip" / "urban_trees.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".tif")][::3]
        images = []
        for name in names:
            with rasterio.MemoryFile(archive.read(name)) as memory, memory.open() as file:
                images.append(file.read())
    assert told(images, ["red", "green", "blue", "nir"], "naip", "uint8") == []


# --- rules of single bands ---------------------------------------------------------------------------

RANDOM = np.random.default_rng(1)
GREY = RANDOM.uniform(0.05, 0.4, (1, 40, 40))


def test_a_constant_band_is_told_where_it_is_offered():
    image = np.concatenate([RANDOM.integers(0, 256, (3, 9, 9)), np.full((1, 9, 9), 255)])
    names = ["red", "green", "blue", {"name": "alpha", "common_name": None, "wavelength_nm": None}]
    image = image.astype(np.uint8)
    assert told([image], names, "rgb", "uint8") == ["alpha is 255 in every pixel"]
    assert told([image], names, "rgb", "uint8", selected=["red", "green", "blue"]) == []


def test_bands_that_hold_the_same_values_are_told():
    grey = RANDOM.integers(0, 256, (1, 30, 30)).astype(np.uint8)
    other = RANDOM.permutation(grey.ravel()).reshape(grey.shape) // 2
    (found,) = told([np.concatenate([grey, other, grey])], ["red", "green", "blue"], "rgb", "uint8")
    assert found == "red and blue hold the same values, each as often"


@pytest.mark.parametrize(
    ("image", "names", "sensor", "unit", "said"),
    [
        (GREY, ["VV"], "sentinel1", "db", "VV is declared in dB, and its mean is 0.22"),
        (-40 * GREY, ["VV"], "sentinel1", "linear_power", "VV is declared as power, and falls to"),
        (GREY, [{"name": "T"}], None, "kelvin", "T is declared in kelvin, and its mean is 0.22"),
        (GREY, ["B04"], "sentinel2", "counts", "the brightest value of B04 is 4e-05 of 1"),
        (
            GREY * 255 / 0.4,
            ["B04"],
            "sentinel2",
            "counts",
            "the brightest value of B04 is 0.025 of",
        ),
        (GREY * 255 * 0.02, ["red"], "rgb", "uint8", "the brightest value of red is"),
        (300 * GREY / 0.2, ["B04"], "sentinel2", "reflectance", "B04 has a mean reflectance of 3"),
        (GREY - 0.35, ["B04"], "sentinel2", "reflectance", "B04 has a mean reflectance of -0.1"),
    ],
)
def test_values_of_another_unit_are_told(image, names, sensor, unit, said):
    (found,) = told([image], names, sensor, unit)
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("image", "names", "sensor", "unit"),
    [
        (GREY * 60 - 30, ["VV"], "sentinel1", "db"),
        (GREY, ["VV"], "sentinel1", "linear_power"),
        (GREY * 100 + 270, [{"name": "T"}], None, "kelvin"),
        (GREY * 10_000, ["B04"], "sentinel2", "counts"),
        (GREY * 200, ["red"], "rgb", "uint8"),
        (GREY / 30, ["B10"], "sentinel2", "reflectance"),
        # a band without a wavelength may mean anything
        (GREY * 1000, [{"name": "slope"}], None, "reflectance"),
    ],
)
def test_values_of_the_declared_unit_are_silent(image, names, sensor, unit):
    assert told([image], names, sensor, unit) == []


# --- the sample, the card, generated worlds ----------------------------------------------------------


def test_the_sample_is_every_kth_image_however_batches_fall():
    images = [np.full((2, 5, 40), number) for number in range(100)]
    whole, parts = PixelSample(20), PixelSample(20)
    for image in images:
        whole.add(image)
    for start in range(0, 100, 7):
        part = PixelSample(20, start)
        for image in images[start : start + 7]:
            part.add(image)
        parts.merge(part)
    assert (whole.pixels == parts.pixels).all()
    assert sorted(set(whole.pixels[0])) == list(range(0, 100, 8))
    # 5 rows, and every third of 40 columns
    assert whole.pixels.shape == (2, 13 * 5 * 14)


def test_pixels_without_data_are_in_no_sample():
    image = np.arange(12.0).reshape(2, 2, 3)
    sample = PixelSample(4)
    sample.add(image, image == 7)
    assert sample.pixels.tolist() == [[0, 2, 3, 4, 5], [6, 8, 9, 10, 11]]


def test_the_card_has_what_was_found_and_the_percentiles(tmp_path):
    files = {}
    for kind in ("field", "town"):
        for number in range(8):
            grey = photo(number + 50 * (kind == "town"))[:, :, :1].repeat(3, axis=2)
            files[f"{kind}/{number}.png"] = encode(grey)
    out = Prepared(tmp_path / "out")
    card = out.run(folder_entry(write_folder(tmp_path / "set", files)))
    assert [doubt["bands"] for doubt in card["audit"]["bands"]] == [["red", "green", "blue"]]
    pixels = ImageStore(out.outputs["train"]).read().images
    for number, band in enumerate(card["bands"]):
        wanted = np.percentile(pixels[:, number], (2, 98)).tolist()
        assert [band["p2"], band["p98"]] == pytest.approx(wanted, rel=1e-12)


DEMO = yaml.safe_load((CONFIG / "datasets" / "demo.yaml").read_text())


@pytest.mark.parametrize("name", DEMO)
def test_generated_worlds_are_silent(name, tmp_path):
    entry = catalogue_entry(name, tmp_path)
    few = {"chips": {"train": 9, "val": 3, "test": 3}, "scenes": {"train": 3, "val": 1, "test": 1}}
    entry["source"] |= {key: value for key, value in few.items() if key in entry["source"]}
    if "regression" not in entry["task"]:
        entry["allow_missing_classes"] = True
    assert Prepared(tmp_path / "out").run(entry)["audit"]["bands"] == []
