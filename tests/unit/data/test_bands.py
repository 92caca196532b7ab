"""Bands are found by true or unambiguous names; units are declared."""

import re

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.data.bands.selection import dataset_bands, known_band, select_bands
from permafrost.data.bands.sensors import SENSORS, Band
from permafrost.data.bands.units import check_dtype, check_range, resolve_unit
from permafrost.data.entry import Units
from permafrost.plan.validation import load_schema

SENTINEL2 = dataset_bands(list(SENSORS["sentinel2-l1c"]), "sentinel2-l1c")


def names(bands, selection):
    return [bands[i].name for i in select_bands(bands, selection)]


def test_sentinel2_has_13_bands_and_no_cirrus_at_surface_level():
    assert len(SENSORS["sentinel2-l1c"]) == 13
    assert set(SENSORS["sentinel2-l1c"]) - set(SENSORS["sentinel2-l2a"]) == {"B10"}


def test_rgb_is_red_green_blue_whatever_the_order_of_the_files():
    assert names(SENTINEL2, "rgb") == ["B04", "B03", "B02"]
    assert names(dataset_bands(["blue", "green", "red", "nir"], "naip"), "rgb") == [
        "red",
        "green",
        "blue",
    ]


@pytest.mark.parametrize(
    ("spelling", "band"),
    [
        ("B02", "B02"),
        ("B2", "B02"),
        ("b2", "B02"),
        ("S2_B02", "B02"),
        ("blue", "B02"),
        ("8A", "B8A"),
        ("B08A", "B8A"),
        ("nir", "B08"),
        ("swir1", "B11"),
        ("B12", "B12"),
    ],
)
def test_spellings_of_a_band(spelling, band):
    assert names(SENTINEL2, [spelling]) == [band]


def test_a_narrow_near_infrared_is_never_taken_for_the_wide_one():
    assert (
        known_band("sentinel2", "B8A").wavelength_nm != known_band("sentinel2", "B08").wavelength_nm
    )
    with pytest.raises(PermafrostError, match="no band 'nir'"):
        select_bands([band for band in SENTINEL2 if band.name != "B08"], ["nir"])


def test_the_selection_keeps_its_own_order():
    assert names(SENTINEL2, ["B12", "B01", "nir"]) == ["B12", "B01", "B08"]


def test_an_unknown_band_lists_what_exists():
    with pytest.raises(PermafrostError, match=r"no band 'B13'; the bands are B01 \(coastal\), B02"):
        select_bands(SENTINEL2, ["B13"])


def test_a_common_name_of_two_bands_is_ambiguous():
    bands = [*SENTINEL2, *dataset_bands([{"name": "aerial_red", "common_name": "red"}], None)]
    with pytest.raises(PermafrostError, match="ambiguous: B04, aerial_red"):
        select_bands(bands, "rgb")
    assert names(bands, ["aerial_red"]) == ["aerial_red"]


def test_a_band_selected_twice_is_an_error():
    with pytest.raises(PermafrostError, match="twice"):
        select_bands(SENTINEL2, ["B02", "blue"])


def test_a_misspelled_selection_is_no_list_of_letters():
    with pytest.raises(PermafrostError, match="'all', 'rgb' or a list"):
        select_bands(SENTINEL2, "RGB")


def test_the_same_names_mean_other_wavelengths_on_another_sensor():
    assert known_band("landsat8", "B5").common_name == "nir"
    assert known_band("sentinel2", "B5").common_name == "rededge1"


def test_bands_of_a_card_can_be_selected_from():
    card = [{"name": "VV", "common_name": "vv"}, {"name": "B04", "common_name": "red"}]
    assert select_bands(card, ["red", "VV"]) == [1, 0]


def test_declared_twice_and_unknown_sensor_are_errors():
    with pytest.raises(PermafrostError, match="declared twice: B02"):
        dataset_bands(["B02", "B2"], "sentinel2")
    with pytest.raises(PermafrostError, match="did you mean 'sentinel2"):
        dataset_bands(["B02"], "sentinel-2")


def test_a_mapping_overrides_what_the_sensor_says():
    (band,) = dataset_bands([{"name": "B04", "unit": "reflectance"}], "sentinel2")
    own = {"name": "B04", "common_name": "red", "wavelength_nm": 664.6, "unit": "reflectance"}
    assert band == Band(**own, width_nm=31, gsd_m=10, sensor="sentinel2")


def test_white_is_of_pictures_alone_and_stands_in_the_band_where_it_is_stated():
    stated = resolve_unit(Units(unit="uint8", offset=0, white=0.275), where="x")
    assert stated["white"] == 0.275
    assert Band(name="red", **stated).as_dict()["white"] == 0.275
    plain = resolve_unit(Units(unit="uint8", offset=0), where="x")
    assert "white" not in Band(name="red", **plain).as_dict()
    with pytest.raises(PermafrostError, match="digital_number is not a brightness") as caught:
        resolve_unit(Units(unit="digital_number", offset=0, scale=1e-4, white=0.3), where="x")
    assert "declare the unit uint8 or brightness" in caught.value.remedy


def test_units():
    assert resolve_unit(Units(unit="uint8", offset=0), where="x")["scale"] == pytest.approx(1 / 255)
    with pytest.raises(PermafrostError, match="needs a scale"):
        resolve_unit(Units(unit="digital_number", offset=0), where="x")
    with pytest.raises(PermafrostError, match="images hold uint16"):
        check_dtype("uint8", np.uint16, where="x")
    check_dtype("digital_number", np.uint16, where="x")
    reflectance = resolve_unit(Units(unit="reflectance", offset=0), where="x")
    check_range("B04", reflectance, 0.0, 1.4, where="x")
    with pytest.raises(PermafrostError, match="maximum is 4000"):
        check_range("B04", reflectance, 0.0, 4000.0, where="x")


@pytest.mark.parametrize("sensor", SENSORS)
def test_no_two_bands_of_a_sensor_answer_to_one_name(sensor):
    bands = list(SENSORS[sensor].values())
    assert list(SENSORS[sensor]) == [band.name for band in bands]
    for band in bands:
        assert select_bands(bands, [band.name]) == [bands.index(band)]
        if band.common_name:
            assert select_bands(bands, [band.common_name]) == [bands.index(band)]


@pytest.mark.parametrize("sensor", SENSORS)
def test_bands_look_where_their_names_say(sensor):
    """Ranges of the field's common names, and the facts that every row of a table must keep."""
    ranges = {
        "coastal": (400, 455), "blue": (450, 515), "green": (510, 600), "yellow": (585, 625),
        "red": (600, 690), "rededge1": (690, 720), "rededge2": (730, 760), "rededge3": (770, 790),
        "nir": (750, 900), "nir08": (845, 885), "water_vapour": (930, 960), "cirrus": (1360, 1390),
        "swir16": (1550, 1750), "swir22": (2080, 2350), "pan": (450, 900),
    }  # fmt: skip
    for band in SENSORS[sensor].values():
        assert band.sensor == sensor
        assert (band.wavelength_nm is None) == (band.width_nm is None) or sensor in (
            "naip",
            "aerial",
            "rgb",
        )
        if band.common_name in ranges:
            low, high = ranges[band.common_name]
            assert low <= band.wavelength_nm <= high, band
        assert (band.polarisation is not None) == sensor.startswith("sentinel1")


def test_the_schema_names_every_sensor():
    schema = load_schema("dataset")
    described = schema["properties"]["sensor"]["description"]
    assert set(re.findall(r"[a-z]+\d?(?:-[a-z0-9]+)?", described)) >= set(SENSORS)


def test_an_unknown_band_says_that_the_list_is_that_of_the_sensor_and_who_has_it():
    with pytest.raises(PermafrostError, match="no band 'nir'; the bands are red") as caught:
        dataset_bands(["red", "green", "blue", "nir"], "rgb")
    assert caught.value.problem.endswith(", as `sensor: rgb` says")
    assert "or name the sensor of these files (" in caught.value.remedy
    assert "naip" in caught.value.remedy and "rgb" not in caught.value.remedy.split("(")[1]
    # of a band that nobody has, no other sensor is named
    with pytest.raises(PermafrostError) as caught:
        dataset_bands(["gren"], "rgb")
    assert caught.value.remedy == "choose a name from this list"
