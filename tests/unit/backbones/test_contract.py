"""Where what a backbone wants meets what a dataset has."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.project import REPOSITORY
from helpers.stores.images import band, card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.input.contract import InputContract, input_contract, resolve_input
from permafrost.core.errors import PermafrostError


def plan(contract: InputContract, bands: list[dict], **card):
    return resolve_input(contract, card_of(bands, **card), where="backbone x")


def indices(contract: InputContract, bands: list[dict], **card):
    return [channel.index for channel in plan(contract, bands, **card).channels]


def fed(contract: InputContract, bands: list[dict], stored: float) -> list[float]:
    return [(stored - c.center) * c.gain for c in plan(contract, bands).channels]


# --- bands -------------------------------------------------------------------------------------------


def test_rgb_is_red_green_blue_whatever_the_order_of_the_dataset():
    assert indices(InputContract(bands="rgb"), sentinel2_bands()) == [3, 2, 1]
    assert indices(InputContract(bands="rgb"), rgb_bands()) == [0, 1, 2]


def test_all_is_the_datasets_selection_in_its_order():
    bands = sentinel2_bands()
    assert indices(InputContract(bands="all"), bands, selected=["B12", "B02"]) == [12, 1]


@pytest.mark.parametrize("spelling", ["B8A", "B8a", "b08a"])
def test_names_match_however_they_are_padded_or_cased(spelling):
    assert indices(
        InputContract(bands=("B2", spelling), sensor="sentinel2"), sentinel2_bands()
    ) == [1, 8]


def test_the_same_name_of_another_sensor_is_not_the_same_band():
    optical = {"sensor": "landsat8", "unit": "reflectance", "scale": 1.0}
    landsat = [
        band("B5", common_name="nir", wavelength_nm=864.7, **optical),
        band("B4", common_name="red", wavelength_nm=654.6, **optical),
    ]
    assert indices(InputContract(bands=("B5",), sensor="landsat8"), landsat) == [0]
    # Sentinel-2's B5 is red edge; its B4 is answered by Landsat's red, because that is red
    assert indices(InputContract(bands=("B4",), sensor="sentinel2"), landsat) == [1]
    with pytest.raises(PermafrostError, match=r"no band 'B5'"):
        plan(InputContract(bands=("B4", "B5"), sensor="sentinel2"), landsat)


def test_a_wavelength_within_20_nm_is_the_last_resort():
    drone = [
        band("a", wavelength_nm=840.0, unit="uint8", scale=1 / 255),
        band("b", wavelength_nm=480.0, unit="uint8", scale=1 / 255),
    ]
    assert indices(InputContract(bands=("B8", "B2"), sensor="sentinel2"), drone) == [0, 1]
    with pytest.raises(PermafrostError, match=r"no band 'B3'"):
        plan(InputContract(bands=("B8", "B3"), sensor="sentinel2"), drone)


def test_two_bands_that_answer_to_one_wish_are_an_error_that_names_them():
    twins = [
        band("left_red", common_name="red"),
        band("right_red", common_name="red"),
        *rgb_bands()[1:],
    ]
    with pytest.raises(PermafrostError, match="'red' is ambiguous: left_red, right_red"):
        plan(InputContract(bands="rgb"), twins)


def test_a_missing_band_is_an_error_that_lists_what_exists_and_what_is_not_selected():
    with pytest.raises(PermafrostError) as error:
        plan(
            InputContract(bands=("B10", "B2"), sensor="sentinel2"),
            sentinel2_bands(("B02", "B03", "B04")),
            selected=["B02", "B03"],
        )
    assert "no band 'B10'" in str(error.value)
    assert "B02 (blue), B03 (green)" in str(error.value)
    assert "not selected: B04" in str(error.value)


def test_missing_zero_fills_known_bands_only():
    bands = sentinel2_bands(("B02", "B03", "B04"))
    assert indices(
        InputContract(bands=("B2", "B10"), sensor="sentinel2", missing="zero"), bands
    ) == [0, None]
    with pytest.raises(PermafrostError, match="no band 'B22'"):
        plan(InputContract(bands=("B2", "B22"), sensor="sentinel2", missing="zero"), bands)
    with pytest.raises(PermafrostError, match="no band 'B9', 'B10'"):
        plan(InputContract(bands=("B9", "B10"), sensor="sentinel2", missing="zero"), bands)


def test_two_wishes_must_not_lead_to_one_band():
    with pytest.raises(PermafrostError, match="match the same band of the dataset: B02"):
        plan(InputContract(bands=("B2", "blue")), sentinel2_bands())


def nir_of(common_name: str | None, wavelength_nm: float | None) -> dict:
    known = {"common_name": common_name, "wavelength_nm": wavelength_nm}
    return band("NIR", **known, unit="reflectance", scale=1.0)


@pytest.mark.parametrize(
    ("nm", "common_name", "kept"),
    [(864.7, "nir", "B8A"), (830.0, "nir", "B08"), (850.0, None, "B8A"), (None, "nir", "B08")],
)
@pytest.mark.parametrize("missing", ["leave_out", "zero"])
def test_one_band_for_two_wishes_is_fed_for_the_nearest_where_the_other_may_be_absent(
    missing, nm, common_name, kept
):
    bands = [*sentinel2_bands(("B04",)), nir_of(common_name, nm)]
    contract = InputContract(bands=("B08", "B4", "B8A"), sensor="sentinel2", missing=missing)
    found = plan(contract, bands)
    assert [c.wanted for c in found.channels if c.index == 1] == [kept]
    other = {"B08": "B8A", "B8A": "B08"}[kept]
    if missing == "leave_out":
        assert found.left_out == (other,) == tuple(found.describe()["left_out"])
        assert len(found) == 2
    else:
        assert found.describe()["zero_filled"] == [other] and found.left_out == ()
        assert len(found) == 3


def test_a_band_of_the_wished_name_goes_before_a_nearer_wish():
    bands = [band("B08", common_name="nir", wavelength_nm=864.7, unit="reflectance", scale=1.0)]
    contract = InputContract(bands=("B8A", "B08"), sensor="sentinel2", missing="leave_out")
    assert plan(contract, bands).left_out == ("B8A",)


def test_the_copy_of_a_band_that_is_fed_for_itself_equals_its_channel():
    contract = dataclasses.replace(
        nearest(("B10", "B11"), 300, "sentinel2"),
        normalization="weights",
        unit="digital_number",
        mean=(506.0, 2472.0),
        std=(442.0, 1331.0),
    )
    copy, own = plan(contract, sentinel2_bands(("B11",))).channels
    assert (copy.stands_for, copy.index) == ("B10", own.index)
    assert (copy.center, copy.gain) == (own.center, own.gain) == (2472.0, 1 / 1331.0)
    # of a band that is not fed for itself, only the statistics of the wanted one are known
    alone = dataclasses.replace(contract, bands=("B10",), mean=(506.0,), std=(442.0,))
    (only,) = plan(alone, sentinel2_bands(("B11",))).channels
    assert (only.center, only.gain) == (506.0, 1 / 442.0)


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ({"normalization": "weights", "mean": (506.0,), "std": (442.0,)}, 0.0),
        ({"normalization": "dataset"}, 0.0),
        ({"normalization": "none"}, 0.0),
        ({"normalization": "two_sigma", "clip": True}, 0.5),
        ({"normalization": "two_sigma", "mean": (506.0,), "std": (442.0,)}, 0.5),
        ({"normalization": "percentile"}, 0.5),
        ({"normalization": "minmax"}, 0.5),
        # SSL4EO-S12 has a mean of 2177 in B11
        ({"normalization": "weights", "mean": (0.0,), "std": (1e4,)}, 0.2177),
        (
            {"normalization": "weights", "mean": (0.0,), "std": (1.0,), "unit": "reflectance"},
            0.2177,
        ),
        ({"normalization": "weights", "mean": (0.0,), "std": (255.0,), "unit": "stored"}, 0.0),
    ],
)
def test_an_absent_band_is_neutral_in_every_normalisation(wanted, value):
    contract = InputContract(
        bands=("B04", "B11"),
        sensor="sentinel2",
        missing="zero",
        **{"unit": "digital_number", **wanted},
    )
    found = plan(contract, sentinel2_bands(("B04",)))
    assert found.channels[1].index is None
    assert found.channels[1].value == pytest.approx(value)
    assert found.describe().get("filled_with", {}) == (
        {"B11": pytest.approx(value)} if value else {}
    )


# --- units and normalisation -------------------------------------------------------------------------

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def test_eight_bit_values_reach_the_unit_interval_by_255():
    contract = InputContract(normalization="weights", unit="unit_interval", **IMAGENET)
    expected = (200 / 255 - np.array(IMAGENET["mean"])) / np.array(IMAGENET["std"])
    np.testing.assert_allclose(fed(contract, rgb_bands(), 200.0), expected, rtol=1e-12)


def test_digital_numbers_reach_the_unit_interval_by_their_scale_and_offset():
    bands = sentinel2_bands(("B04", "B03", "B02"))
    for b in bands:
        b["offset"] = -0.1
    contract = InputContract(
        normalization="weights", unit="unit_interval", mean=(0.5,), std=(0.25,)
    )
    np.testing.assert_allclose(
        fed(contract, bands, 3000.0), [(0.3 - 0.1 - 0.5) / 0.25] * 3, rtol=1e-12
    )


@pytest.mark.parametrize(
    ("unit", "have", "scale", "white", "stored", "expected"),
    [
        ("digital_number", "digital_number", 1e-4, None, 2500.0, 2500.0),
        ("digital_number", "reflectance", 1.0, None, 0.25, 2500.0),
        ("digital_number", "uint8", 1 / 255, 0.3558, 255.0, 3558.0),
        ("reflectance", "digital_number", 1e-4, None, 2500.0, 0.25),
        ("uint8", "uint8", 1 / 255, None, 77.0, 77.0),
        ("uint8", "digital_number", 1e-4, None, 10000.0, 255.0),
        ("uint8", "digital_number", 1e-4, 0.3558, 3558.0, 255.0),
        ("db", "db", 1.0, None, -12.0, -12.0),
        ("stored", "metre", 1.0, None, 812.0, 812.0),
    ],
)
def test_every_declared_way_from_unit_to_unit(unit, have, scale, white, stored, expected):
    own, other = ({"white": white}, {}) if have == "uint8" else ({}, {"white": white})
    bands = [band("x", unit=have, scale=scale, **own)]
    contract = InputContract(
        bands="all", normalization="weights", unit=unit, mean=(0.0,), std=(1.0,), **other
    )
    np.testing.assert_allclose(fed(contract, bands, stored), [expected], rtol=1e-12)


@pytest.mark.parametrize(
    ("unit", "have", "scale", "offset", "stored", "expected"),
    [
        # Sentinel-2 since baseline 04.00: 3000 stored are 2000
        ("digital_number", "digital_number", 1e-4, -0.1, 3000.0, 2000.0),
        ("uint8", "digital_number", 1e-4, -0.1, 3000.0, 51.0),
        ("reflectance", "digital_number", 1e-4, -0.1, 3000.0, 0.2),
        ("unit_interval", "digital_number", 1e-4, -0.1, 3000.0, 0.2),
        # Landsat's collection 2
        ("digital_number", "digital_number", 2.75e-5, -0.2, 20000.0, 3500.0),
        ("uint8", "uint8", 1 / 255, 0.2, 51.0, 102.0),
        ("db", "db", 1.0, -30.0, 18.0, -12.0),
        ("stored", "metre", 1.0, -5.0, 812.0, 812.0),
    ],
)
def test_the_offset_of_a_band_reaches_every_unit(unit, have, scale, offset, stored, expected):
    bands = [band("x", unit=have, scale=scale, offset=offset)]
    contract = InputContract(bands="all", normalization="weights", unit=unit, mean=(0,), std=(1,))
    np.testing.assert_allclose(fed(contract, bands, stored), [expected], rtol=1e-12)


@pytest.mark.parametrize(
    ("unit", "have", "message"),
    [
        ("digital_number", "uint8", "8-bit brightness.*state `white`"),
        ("unit_interval", "db", "holds db"),
        ("db", "digital_number", "holds digital_number"),
        (None, "uint8", "unit of the mean and std .* unknown"),
        ("percent", "uint8", "unknown unit 'percent'"),
    ],
)
def test_a_unit_that_cannot_be_reached_is_an_error_with_a_remedy(unit, have, message):
    contract = InputContract(
        bands="all", normalization="weights", unit=unit, mean=(0.0,), std=(1.0,)
    )
    with pytest.raises(PermafrostError, match=message):
        plan(contract, [band("x", unit=have, scale=1.0)])


def test_dataset_normalisation_is_the_z_score_of_stored_values():
    bands = [band("x", mean=40.0, std=8.0, unit="db", scale=1.0)]
    assert fed(InputContract(bands="all", normalization="dataset"), bands, 56.0) == [2.0]


def test_minmax_maps_the_train_range_to_the_unit_interval():
    bands = [band("x", min=10.0, max=30.0, unit="db", scale=1.0)]
    contract = InputContract(bands="all", normalization="minmax")
    assert fed(contract, bands, 10.0) == [0.0]
    assert fed(contract, bands, 30.0) == [1.0]


def test_none_feeds_stored_values():
    assert fed(InputContract(normalization="none"), rgb_bands(), 7.0) == [7.0] * 3


def test_a_constant_band_cannot_be_normalised():
    with pytest.raises(PermafrostError, match="band x is constant"):
        plan(InputContract(bands="all", normalization="dataset"), [band("x", std=0.0)])


def test_statistics_of_three_channels_do_not_serve_thirteen():
    contract = InputContract(bands="all", normalization="weights", unit="unit_interval", **IMAGENET)
    with pytest.raises(PermafrostError, match="mean has 3 values, but 13 channels are fed"):
        plan(contract, sentinel2_bands())


def test_statistics_of_three_channels_do_not_stand_in_the_way_of_z_scores():
    contract = InputContract(bands="all", normalization="dataset", unit="unit_interval", **IMAGENET)
    assert len(plan(contract, sentinel2_bands())) == 13


def test_weights_without_statistics_are_an_error():
    with pytest.raises(PermafrostError, match="needs the mean and std"):
        plan(InputContract(normalization="weights", unit="unit_interval"), rgb_bands())


# --- who decides -------------------------------------------------------------------------------------


def test_the_entry_wins_over_the_weights_and_the_weights_over_the_run():
    own = {"size": 256, "crop": 224, "antialias": True, "normalization": "weights"}
    run = {"size": 128, "interpolation": "bicubic", "antialias": False}
    contract = input_contract(own, {}, run)
    assert (contract.size, contract.crop, contract.interpolation, contract.antialias) == (
        256,
        224,
        "bicubic",
        True,
    )
    assert input_contract({}, {}, run).size == 128
    assert input_contract(own, {"normalization": "dataset"}, run).normalization == "dataset"


def test_a_size_in_the_entry_replaces_resize_and_crop_as_a_whole():
    contract = input_contract({"size": 256, "crop": 224}, {"size": 96}, {})
    assert (contract.size, contract.crop) == (96, None)
    assert input_contract({}, {"size": None}, {"size": 224}).size is None


def test_unknown_keys_of_input_are_errors():
    with pytest.raises(PermafrostError, match="did you mean 'bands'"):
        input_contract({}, {"band": "rgb"}, {}, where="backbone x")
    with pytest.raises(PermafrostError, match="mean and std must be given together"):
        input_contract({}, {"mean": 0.5}, {})


def test_two_sigma_maps_two_deviations_around_the_mean_to_the_unit_interval():
    bands = [band("a", mean=100.0, std=50.0, unit="uint8", scale=1 / 255)]
    wanted = InputContract(bands="all", normalization="two_sigma")
    assert [fed(wanted, bands, stored)[0] for stored in (0.0, 100.0, 200.0)] == [0.0, 0.5, 1.0]
    # given statistics are in their own unit: 1000 ± 2 · 250 digital numbers are reflectances of 0.05 to 0.15
    given = InputContract(
        bands="all", normalization="two_sigma", mean=(1000.0,), std=(250.0,), unit="digital_number"
    )
    optical = [band("a", mean=9.0, std=9.0, unit="reflectance", scale=1.0)]
    assert np.allclose([fed(given, optical, x)[0] for x in (0.05, 0.1, 0.15)], [0, 0.5, 1])


def test_percentile_maps_the_2nd_and_98th_percentile_to_the_unit_interval():
    bands = [band("a", p2=20.0, p98=60.0, unit="uint8", scale=1 / 255)]
    wanted = InputContract(bands="all", normalization="percentile")
    assert [fed(wanted, bands, stored)[0] for stored in (10.0, 20.0, 60.0)] == [-0.25, 0.0, 1.0]


def test_equal_percentiles_cannot_normalise():
    bands = [band("a", p2=0.0, p98=0.0, unit="uint8", scale=1 / 255)]
    with pytest.raises(PermafrostError, match="2nd and the 98th percentile .* both 0") as error:
        plan(InputContract(bands="all", normalization="percentile"), bands)
    assert "minmax" in error.value.remedy


def test_two_sigma_takes_the_statistics_of_the_entry_and_not_those_of_other_normalisations():
    own = {"normalization": "weights", "unit": "unit_interval", **IMAGENET}
    chosen = input_contract(own, {"normalization": "two_sigma"}, {})
    assert (chosen.mean, chosen.std, chosen.unit) == (None, None, None)
    entry = {"normalization": "two_sigma", "mean": 5.0, "std": 2.0, "unit": "db"}
    assert input_contract(own, entry, {}).mean == 5.0
    assert input_contract({**own, "normalization": "two_sigma"}, {}, {}).mean == IMAGENET["mean"]


@pytest.mark.parametrize("normalization", ["dataset", "weights", "none"])
def test_clipping_is_for_the_unit_interval(normalization):
    wanted = InputContract(bands="rgb", normalization=normalization, clip=True, **IMAGENET)
    with pytest.raises(PermafrostError, match="two_sigma or percentile or minmax"):
        plan(wanted, rgb_bands())
    assert plan(InputContract(normalization="minmax", clip=True), rgb_bands()).clip


# --- bands by wavelength, and the nearest ------------------------------------------------------------


def test_a_number_is_a_wavelength():
    assert indices(InputContract(bands=(665, 560.0, "B02")), sentinel2_bands()) == [3, 2, 1]
    with pytest.raises(PermafrostError, match="no band '620 nm'"):
        plan(InputContract(bands=(665, 620)), sentinel2_bands())


def nearest(bands, most, sensor=None):
    return InputContract(bands=bands, sensor=sensor, missing="nearest", nearest_nm=most)


def test_the_nearest_band_stands_for_one_that_is_missing_and_may_be_fed_twice():
    bands = sentinel2_bands(("B02", "B03", "B04", "B08"))
    found = plan(nearest(("B4", "B5", "B8A"), 40, "sentinel2"), bands)
    assert [channel.index for channel in found.channels] == [2, 2, 3]
    assert found.describe()["nearest"] == {
        "B5": {"band": "B04", "distance_nm": pytest.approx(704.1 - 664.6)},
        "B8A": {"band": "B08", "distance_nm": pytest.approx(864.7 - 832.8)},
    }
    assert found.describe()["zero_filled"] == []
    # the model is told where the band that it gets looks
    assert found.wavelengths_nm == [664.6, 664.6, 832.8]


def test_a_band_that_is_too_far_is_an_error_that_says_how_far():
    bands = sentinel2_bands(("B02", "B03", "B04", "B08"))
    with pytest.raises(PermafrostError, match=r"no band 'B11'.*B08 is 780.9 nm from B11.* 40"):
        plan(nearest(("B4", "B11"), 40, "sentinel2"), bands)
    with pytest.raises(PermafrostError, match="give input.nearest_nm"):
        plan(nearest(("B4", "B5"), None, "sentinel2"), bands)


def test_radar_and_bare_names_of_far_apart_bands_have_no_nearest():
    radar = [band("VV", common_name="vv", sensor="sentinel1", unit="db", scale=1.0)]
    with pytest.raises(PermafrostError, match="no band 'VH'"):
        plan(nearest(("VV", "VH"), 1e9, "sentinel1"), radar)
    # B5 is red edge for Sentinel-2, near infrared for Landsat 8 and short-wave infrared for Landsat 5
    with pytest.raises(PermafrostError, match="no band 'B5'"):
        plan(nearest(("B04", "B5"), 1e9), sentinel2_bands(("B04", "B08")))
    # a common name means about the same everywhere
    assert indices(nearest(("red", "rededge1"), 60), sentinel2_bands(("B04", "B08"))) == [0, 0]


# --- some of the bands that a model knows ---------------------------------------------------------


def test_bands_that_the_dataset_lacks_are_left_out_with_their_statistics():
    contract = InputContract(
        bands=("B02", "B05", "B04"),
        sensor="sentinel2",
        missing="leave_out",
        normalization="weights",
        unit="digital_number",
        mean=(100.0, 300.0, 200.0),
        std=(1.0, 3.0, 2.0),
    )
    found = plan(contract, sentinel2_bands(("B02", "B03", "B04")))
    assert [(c.wanted, c.index, c.center, c.gain) for c in found.channels] == [
        ("B02", 0, 100.0, 1.0),
        ("B04", 2, 200.0, 0.5),
    ]
    with pytest.raises(PermafrostError, match="no band 'B05'"):
        plan(dataclasses.replace(contract, missing="error"), sentinel2_bands(("B02", "B04")))
    with pytest.raises(PermafrostError, match="no band 'B02', 'B05', 'B04'"):
        plan(contract, sentinel2_bands(("B11", "B12")))
    misspelt = dataclasses.replace(contract, bands=("B02", "B99", "B04"))
    with pytest.raises(PermafrostError, match="no band 'B99'"):
        plan(misspelt, sentinel2_bands(("B02", "B04")))


def test_each_name_may_be_of_a_sensor_of_its_own():
    bands = [
        band("nir", common_name="nir", sensor="landsat8", unit="reflectance", scale=1.0),
        band("VV", common_name="vv", sensor="sentinel1", unit="db", scale=1.0),
    ]
    contract = InputContract(bands=("VV", "B5"), sensor=("sentinel1", "landsat8"))
    assert indices(contract, bands) == [1, 0]
    # Sentinel-2's B5 is red edge
    with pytest.raises(PermafrostError, match="no band 'B5'"):
        plan(InputContract(bands=("VV", "B5"), sensor=("sentinel1", "sentinel2")), bands)


def test_the_documented_defaults_are_those_of_the_code():
    text = (REPOSITORY / "docs" / "backbones.md").read_text(encoding="utf-8")
    table = text.partition("| key | default |")[2].partition("\n\n")[0].splitlines()[2:]
    documented = {}
    for line in table:
        keys, default, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        for key in keys.split(", "):
            documented[key.strip("`")] = default.strip("`")
    fields = {
        field.name: "none" if field.default is None else str(field.default)
        for field in dataclasses.fields(InputContract)
        if field.name not in ("sensor", "pictures", "fit", "picture", "assumed_white")
    }
    fields = {key: value.lower() if value == "False" else value for key, value in fields.items()}
    assert documented == fields
