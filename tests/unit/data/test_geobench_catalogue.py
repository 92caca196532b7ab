"""The twelve datasets of GEO-Bench V1: what the catalogue says of them, on files in their layouts and real ones."""

import shutil

import h5py
import numpy as np
import pytest
import yaml
from helpers.datasets.geobench import write_dataset, write_partition
from helpers.datasets.images import CONFIG, Prepared, catalogue_entry, open_source
from permafrost.core.stores import Store

ENTRIES = list(yaml.safe_load((CONFIG / "datasets" / "geobench.yaml").read_text()))
CLASSIFICATION = [
    "m-bigearthnet",
    "m-so2sat",
    "m-brick-kiln",
    "m-forestnet",
    "m-eurosat",
    "m-pv4ger",
]
SEGMENTATION = ["m-pv4ger-seg", "m-chesapeake", "m-cashew-plant", "m-sa-crop-type", "m-nz-cattle"]
# how published samples are called where the name says something
NAMES = {
    "m-forestnet": "-1.66552766134_128.12110448{}_2016_01_01",
    "m-sa-crop-type": "ref_south_africa_crops_competition_v1_train_labels_{:04d}_3",
    "m-sa-crop-type-upstream": "ref_south_africa_crops_competition_v1_train_labels_{:04d}_3",
}


def test_all_twelve_are_there_with_licence_and_citation():
    names = {*CLASSIFICATION, *SEGMENTATION, "m-neontree"}
    assert len(names) == 12 and names <= set(ENTRIES)
    for name in ENTRIES:
        entry = catalogue_entry(name, "data")
        folder = "classification" if entry["task"] != "segmentation" else "segmentation"
        assert f"/{folder}_v1.0/m-" in entry["source"]["path"]
        assert entry["licence"] and "arXiv:2306.03831" in entry["citation"] and entry["gsd_m"]
        assert "px" in entry["title"] or "no data" in entry["title"] or "height" in entry["title"]


def test_another_partition_is_another_entry():
    small, whole = catalogue_entry("m-eurosat-1pct", ""), catalogue_entry("m-eurosat", "")
    assert small["source"] == {**whole["source"], "partition": "0.01x"}
    assert {**small, "title": "", "source": ""} == {**whole, "title": "", "source": ""}


@pytest.mark.parametrize("name", [name for name in ENTRIES if name != "m-eurosat-1pct"])
def test_files_in_the_layout_of_each_are_prepared(tmp_path, name):
    entry = catalogue_entry(name, tmp_path)
    entry["source"]["size"] = 40
    folder = tmp_path / entry["source"]["path"]
    called = NAMES.get(name, "sample_{}").format
    count = max(3, len(entry["classes"])) if entry["task"] == "classification" else 4
    write_dataset(folder, entry, count=count, called=called, array=_pixels_of(entry))
    card = Prepared(tmp_path / "out").run(entry, name=name)
    assert card["classes"] == entry["classes"] and card["dead_classes"] == []
    assert [card["licence"], card["citation"], card["gsd_m"]] == [
        entry[key] for key in ("licence", "citation", "gsd_m")
    ]
    groups = [card["splits"][split]["groups"] for split in ("train", "val", "test")]
    assert all(groups) if "group" in entry["source"] else not any(groups)
    ignored = card["splits"]["train"]["ignored_pixels"]
    assert bool(ignored) == (None in entry.get("mask_values", {}).values())


def _pixels_of(entry):
    """Noise of a type and size that the entry's bands have."""
    floats = entry["units"]["unit"] == "reflectance" or "chesapeake" in entry["source"]["path"]

    def pixels(number: int, band: int) -> np.ndarray:
        side = 4 if entry["source"]["arrays"][band] == "Canopy Height Model" else 40
        values = np.random.default_rng([number, band]).integers(1, 200, (side, side))
        return (values / 255).astype(np.float32) if floats else values.astype(np.int16)

    return pixels


def test_no_data_is_left_out_or_by_name_scored_as_upstream():
    for name in ("m-chesapeake", "m-cashew-plant", "m-sa-crop-type"):
        ours, upstream = catalogue_entry(name, ""), catalogue_entry(f"{name}-upstream", "")
        assert ours["source"] == upstream["source"]
        (nothing,) = [value for value, meaning in ours["mask_values"].items() if meaning is None]
        assert upstream["mask_values"][nothing].lower() == "no data"
        assert [c for c in upstream["classes"] if c.lower() != "no data"] == ours["classes"]
        assert upstream["classes"] == list(upstream["mask_values"].values())


# https://github.com/ServiceNow/geo-bench, README, known issues: what the arrays hold that are called so
TRUE_BANDS = {
    "m-eurosat": {
        "08 - NIR": "B08",
        "08A - Vegetation Red Edge": "B09",
        "09 - Water vapour": "B10",
        "10 - SWIR - Cirrus": "B11",
        "11 - SWIR": "B12",
        "12 - SWIR": "B8A",
    },
    "m-brick-kiln": {
        "05 - Vegetation Red Edge": "B05",
        "06 - Vegetation Red Edge": "B07",
        "07 - Vegetation Red Edge": "B8A",
        "08 - NIR": "B08",
        "08A - Vegetation Red Edge": "B11",
        "09 - Water vapour": "B12",
    },
    "m-forestnet": {"04 - Red": "B4", "05 - NIR": "B5", "07 - SWIR2": "B7"},
}


@pytest.mark.parametrize("name", TRUE_BANDS)
def test_arrays_are_called_what_they_hold(name):
    entry = catalogue_entry(name, "")
    bands = dict(zip(entry["source"]["arrays"], entry["bands"], strict=True))
    assert bands.items() >= TRUE_BANDS[name].items()
    sensor = "landsat8" if name == "m-forestnet" else "sentinel2"
    assert entry["sensor"].startswith(sensor)


def test_masks_that_say_nothing_are_no_bands():
    for name in ("m-cashew-plant", "m-sa-crop-type"):
        assert "Cloud Probability" not in catalogue_entry(name, "")["source"]["arrays"]
    assert not {"10 - SWIR - Cirrus", "11 - SWIR", "12 - SWIR"} & set(
        catalogue_entry("m-brick-kiln", "")["source"]["arrays"]
    )


@pytest.fixture
def real_eurosat(shared_data, tmp_path):
    """A folder with the real sample of m-eurosat, turned copies of it for validation and test."""
    place = shared_data / "geobench1_sample" / "classification_v1.0" / "m-eurosat"
    folder = tmp_path / "data" / "classification_v1.0" / "m-eurosat"
    folder.mkdir(parents=True)
    shutil.copy(place / "id_1905.hdf5", folder)
    for turns, name in enumerate(("id_1", "id_2"), start=1):
        path = folder / f"{name}.hdf5"
        path.write_bytes((place / "id_1905.hdf5").read_bytes())
        with h5py.File(path, "a") as file:
            for array in file.values():
                array[...] = np.rot90(array[()], turns)
    write_partition(folder, {"train": ["id_1905"], "valid": ["id_1"], "test": ["id_2"]}, "real")
    return tmp_path / "data"


def means(store: Store, bands: list[str]) -> dict[str, float]:
    image = store.read("images")[0]
    return dict(zip(bands, image.mean(axis=(1, 2)), strict=True))


def is_sentinel2_of_a_forest(mean: dict[str, float]) -> bool:
    """What must hold of reflectances at the top of the atmosphere over vegetation without clouds."""
    ndvi = (mean["B08"] - mean["B04"]) / (mean["B08"] + mean["B04"])
    return (
        # cirrus sees nothing of the ground
        mean["B10"] < 0.02 * mean["B02"]
        and ndvi > 0.5
        # the plateau of the near infrared, which water vapour takes a part of
        and 0.9 < mean["B8A"] / mean["B08"] < 1.3
        and mean["B09"] < 0.6 * mean["B8A"]
        # leaves hold water: the longer, the darker
        and mean["B12"] < mean["B11"] < mean["B8A"]
        and mean["B04"] < mean["B05"] < mean["B06"] < mean["B07"]
    )


@pytest.mark.shared
def test_the_bands_of_m_eurosat_are_what_the_catalogue_says(real_eurosat, tmp_path):
    entry = catalogue_entry("m-eurosat", real_eurosat)
    entry["source"]["partition"] = "real"
    out = Prepared(tmp_path / "out")
    card = out.run({**entry, "allow_missing_classes": True}, name="m-eurosat")
    store = out.store("train")
    label = store.read("labels")[0]
    assert is_sentinel2_of_a_forest(means(store, entry["bands"]))
    assert (label, card["classes"][label]) == (1, "Forest")
    # under the names that the file gives them, they are none
    named = [name.replace("B8A", "B09") for name in entry["bands"][:8]]
    named += ["B8A", "B09", "B10", "B11", "B12"]
    assert not is_sentinel2_of_a_forest(means(store, named))


@pytest.mark.shared
def test_samples_that_were_not_downloaded_are_named(shared_data):
    from permafrost.core.errors import PermafrostError

    entry = catalogue_entry("m-eurosat", shared_data / "geobench1_sample")
    entry["source"]["partition"] = "0.01x"
    with pytest.raises(PermafrostError, match="names 2020 samples, and 2019 of them are not there"):
        open_source(entry, where="dataset m-eurosat")
