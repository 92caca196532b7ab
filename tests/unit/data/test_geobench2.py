"""GEO-Bench V2: every entry of the catalogue, on files in the layouts of its datasets and on real samples."""

import re

import numpy as np
import pytest
import yaml
from helpers.datasets.images import CONFIG, Prepared, catalogue_entry, open_source
from helpers.datasets.tortilla import MONTHS, SIZE, write_dataset
from permafrost.data.store.image_store import ImageStore

ENTRIES = yaml.safe_load((CONFIG / "datasets" / "geobench2.yaml").read_text())
#: of the leaderboard, then of the package alone
DATASETS = {
    "benv2",
    "treesatai",
    "so2sat",
    "forestnet",
    "burn_scars",
    "caffe",
    "cloudsen12",
    "dynamic_earthnet",
    "flair2",
    "fotw",
    "kuro_siwo",
    "pastis",
    "spacenet2",
    "spacenet7",
    "biomassters",
    "everwatch",
    "nzcattle",
    "substation",
    "spacenet6",
    "spacenet8",
}


def entry_of(name: str, data) -> dict:
    """An entry of the catalogue, for so few images that classes are missing among them."""
    entry = catalogue_entry(name, data)
    few = {"allow_missing_classes": True} if "classes" in entry else {}
    return {**entry, **few}


def real(name: str, shared_data) -> list[np.ndarray]:
    """The images (C, H, W) of the real samples of an entry as numbers, in the order of its bands."""
    entry = entry_of(name, shared_data)
    dataset = entry["source"]["path"].rpartition("/")[2]
    place = {"path": str(shared_data / "geobench2_samples"), "files": [f"{dataset}.tortilla"]}
    source = open_source({**entry, "source": {**entry["source"], **place}}, where=name)
    return [source.decode(i).image.astype(float) for i in range(len(source.records()))]


def bands(name: str) -> list[str]:
    """Names of the bands of an entry, one modality's after the other's."""
    parts = ENTRIES[name].get("modalities", {None: ENTRIES[name]}).values()
    every = [band for part in parts for band in part["bands"]]
    return [band if isinstance(band, str) else band["name"] for band in every]


def means(name: str, shared_data) -> dict[str, np.ndarray]:
    """Band -> its mean in each real sample of an entry."""
    images = real(name, shared_data)
    return dict(zip(bands(name), np.array([i.mean((1, 2)) for i in images]).T, strict=True))


def test_there_is_an_entry_for_every_dataset():
    found = {entry["source"]["path"].rpartition("/")[2] for entry in ENTRIES.values()}
    # the leaderboard's nineteenth is pastis again, with objects
    assert found == DATASETS and "geobench2-pastis-r-s2" in ENTRIES


def test_every_entry_has_a_licence_and_a_citation_and_says_how_large_it_is():
    # of the two that are not on the leaderboard no size is published
    unknown = {name for name in ENTRIES if "spacenet6" in name or "spacenet8" in name}
    assert [n for n, e in ENTRIES.items() if not (e.get("licence") and e.get("citation"))] == []
    assert {name for name, entry in ENTRIES.items() if "published" not in entry} == unknown


def test_boxes_of_every_published_set_are_cut_at_the_edge():
    found = {}
    for path in (CONFIG / "datasets").glob("*.yaml"):
        entries = yaml.safe_load(path.read_text())
        found |= {
            name: entry["source"]
            for name, entry in entries.items()
            if entry["task"] in ("detection", "instance_segmentation")
        }
    lacking = [n for n, s in found.items() if s["kind"] != "demo" and not s.get("clip_boxes")]
    assert len(found) >= 14 and lacking == []


def test_the_page_lists_every_entry_and_no_other():
    page = (CONFIG.parent / "docs" / "datasets.md").read_text()
    assert sorted(re.findall(r"`(geobench2-[\w-]+)`", page)) == sorted(ENTRIES)


#: dates of each sample that tests write, of those that are no single image
DATES = {
    "geobench2-dynamic-earthnet-planet-series": 4,
    "geobench2-fotw": 2,
    "geobench2-kuro-siwo-series": 3,
    "geobench2-pastis-s2-series": 2,
    "geobench2-pastis-s1-series": 3,
    "geobench2-biomassters-s2-series": len(MONTHS),
    "geobench2-biomassters-s1-series": len(MONTHS),
    "geobench2-spacenet8": 2,
}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_prepares_files_in_its_layout(tmp_path, name):
    entry = entry_of(name, tmp_path)
    folder = tmp_path / "geobench2" / (dataset := entry["source"]["path"].rpartition("/")[2])
    write_dataset(folder, entry["source"]["files"], dataset, ENTRIES[name].get("classes", []))
    card = (out := Prepared(tmp_path / "out")).run(entry)
    lacking = {"geobench2-biomassters-s2": 2, "geobench2-dynamic-earthnet-s2": 1}
    left_out = name in lacking
    assert card["splits"]["train"]["count"] == 3 - left_out
    assert card["splits"]["val"]["count"] == card["splits"]["test"]["count"] == 2
    assert card["choice"]["left_out"] == left_out
    assert [band["name"] for band in card["bands"]] == bands(name)
    assert card.get("size") == ENTRIES[name].get("size")
    if name in ("geobench2-everwatch", "geobench2-nzcattle", "geobench2-substation"):
        objects = card["detection"]["splits"]["test"]
        assert [objects[key] for key in ("objects", "clipped", "without_area")] == [4, 2, 2]
    store = ImageStore(out.outputs["test"])
    most = (DATES[name],) if name in DATES else ()
    for modality in store.modalities:
        shape = store.store.shape(modality.array)
        assert shape == (2, *most, len(modality.bands), SIZE, SIZE)
        assert (store.date_counts(modality) == (most or 1)).all()
    assert sum(len(modality.bands) for modality in store.modalities) == len(bands(name))


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - {"geobench2-treesatai-s1"}))
def test_every_entry_prepares_the_real_samples_that_are_here(tmp_path, shared_data, name):
    entry = entry_of(name, shared_data)
    dataset = entry["source"]["path"].rpartition("/")[2]
    place = shared_data / "geobench2_samples"
    if not (place / f"{dataset}.tortilla").is_file():
        pytest.skip(f"no real samples of {dataset} in the shared data")
    entry["source"] |= {"path": str(place), "files": [f"{dataset}.tortilla"]}
    card = Prepared(tmp_path / "out").run(entry)
    assert all(split["count"] for split in card["splits"].values())


def test_benv2_vh_lies_below_vv(shared_data):
    found = means("geobench2-benv2-s1", shared_data)
    assert (found["VV"] - found["VH"] > 4).all()


def test_benv2_sentinel_2_has_the_red_edge_between_red_and_infrared(shared_data):
    found = means("geobench2-benv2-s2", shared_data)
    green = found["B08"] > 2 * found["B04"]
    assert green.sum() >= 3
    for low, high in (
        ("B04", "B05"),
        ("B05", "B06"),
        ("B06", "B07"),
        ("B12", "B11"),
        ("B04", "B8A"),
    ):
        assert (found[low] < found[high])[green].all(), (low, high)


def test_treesatai_aerial_begins_with_infrared_and_ends_with_red(shared_data):
    found = means("geobench2-treesatai-aerial", shared_data)
    assert all((found["nir"] > found[band]).all() for band in ("red", "green", "blue"))
    # of leaves: under the package's order this holds for two of nine
    assert (found["green"] > found["red"]).sum() >= 7


def test_treesatai_sentinel_2_shows_forest(shared_data):
    found = means("geobench2-treesatai-s2", shared_data)
    for low, high in (
        ("B04", "B03"),
        ("B03", "B05"),
        ("B05", "B06"),
        ("B06", "B07"),
        ("B12", "B11"),
    ):
        assert (found[low] < found[high]).all(), (low, high)
    assert (found["B08"] > 4 * found["B04"]).all() and (found["B8A"] > 0.9 * found["B08"]).all()


def test_treesatai_vh_lies_below_vv_once_the_numbers_are_unwrapped(shared_data):
    images = [
        image.astype(np.uint16).view(np.int16)
        for image in real("geobench2-treesatai-s1", shared_data)
    ]
    vv, vh = np.array([image.mean((1, 2))[:2] for image in images]).T
    assert bands("geobench2-treesatai-s1")[:2] == ["VV", "VH"]
    assert (vv - vh > 2).all()


def test_dynamic_earthnet_sentinel_2_is_grouped_by_resolution(shared_data):
    found = means("geobench2-dynamic-earthnet-s2", shared_data)
    green = found["B08"] > 2 * found["B04"]
    assert green.sum() >= 3
    for low, high in (
        ("B04", "B05"),
        ("B05", "B06"),
        ("B06", "B07"),
        ("B12", "B11"),
        ("B01", "B05"),
    ):
        assert (found[low] < found[high])[green].all(), (low, high)
    # next to each other in wavelength
    assert (np.abs(found["B8A"] / found["B07"] - 1) < 0.4).all()


def test_dynamic_earthnet_planet_goes_from_blue_to_infrared(shared_data):
    found = means("geobench2-dynamic-earthnet-planet", shared_data)
    planet = np.array([found[band] for band in ("blue", "green", "red", "nir")])
    assert (planet[3] > 1.5 * planet[2]).sum() >= 4
    # what Sentinel-2 sees of the same ground in the same month
    other = means("geobench2-dynamic-earthnet-s2", shared_data)
    same = [np.corrcoef(planet[0], other[band])[0, 1] for band in ("B02", "B04")]
    assert same[0] > 0.8


def test_spacenet7_ends_with_transparency(shared_data):
    found = means("geobench2-spacenet7", shared_data)
    assert (found["alpha"] == 255).all()
    # dry ground and towns
    assert (found["red"] > found["green"]).all() and (found["green"] > found["blue"]).all()


def test_biomassters_sentinel_2_rises_over_the_red_edge(shared_data):
    found = means("geobench2-biomassters-s2", shared_data)
    for low, high in (
        ("B04", "B05"),
        ("B05", "B06"),
        ("B06", "B07"),
        ("B06", "B08"),
        ("B12", "B11"),
        ("B04", "B8A"),
    ):
        assert (found[low] < found[high]).sum() >= len(found[low]) - 1, (low, high)
    clouds = [image[-1].max() for image in real("geobench2-biomassters-s2", shared_data)]
    # a probability in 8 bits, where reflectances are counts to 10,000
    assert max(clouds) <= 255


def test_biomassters_vh_lies_below_vv_in_both_orbits(shared_data):
    images = [
        np.where(i == -9999, np.nan, i) for i in real("geobench2-biomassters-s1", shared_data)
    ]
    vv_asc, vh_asc, vv_desc, vh_desc = np.nanmean(images, (0, 2, 3))
    assert bands("geobench2-biomassters-s1") == ["VV_asc", "VH_asc", "VV_desc", "VH_desc"]
    assert vv_asc - vh_asc > 4 and vv_desc - vh_desc > 4


def test_everwatch_is_red_green_blue(shared_data):
    found = means("geobench2-everwatch", shared_data)
    # wetland: greener than red, and red rather than blue
    assert (found["green"] > found["red"]).all() and (found["red"] > found["blue"]).all()


def test_caffe_shows_the_sea_dark_and_has_one_band(shared_data):
    assert bands("geobench2-caffe") == ["gray"]
    assert all(image.shape == (1, 512, 512) for image in real("geobench2-caffe", shared_data))
