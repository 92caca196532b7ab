"""Croissant of every entry of the catalogue, and of prepared images."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pyarrow as pa
import pytest
from permafrost.operate.croissant import croissant, extent
from permafrost.operate.offers import read_offers
from permafrost.plan.catalogue import EVERY
from permafrost.stages.cli import main

ROOT = Path(__file__).resolve().parents[3]
OFFERS = read_offers(ROOT)
NAMES = OFFERS.datasets.names([EVERY])


def made(name: str) -> dict:
    return croissant(name, OFFERS.dataset(name))


def test_every_entry_has_what_the_format_requires():
    for name in NAMES:
        about, entry = json.loads(json.dumps(made(name))), OFFERS.dataset(name)
        assert about["name"] == name and len(about["conformsTo"]) == 2
        files = about.get("distribution", [])
        assert len({one["@id"] for one in files}) == len(files)
        for one in files:
            required = ["includes"] if one["@type"] == "cr:FileSet" else ["sha256", "contentUrl"]
            assert all(one[key] for key in [*required, "encodingFormat"]), name
        bands = about["geocr:bandConfiguration"]
        assert bands["geocr:totalBands"] == len(bands["geocr:bandNameList"]) > 0
        if "bands" in entry:
            known = [one if isinstance(one, str) else one["name"] for one in entry["bands"]]
            assert bands["geocr:bandNameList"] == known
        assert ("geocr:spatialResolution" in about) == ("gsd_m" in entry)


def test_mlcroissant_accepts_every_entry(tmp_path, caplog):
    mlcroissant = pytest.importorskip("mlcroissant")
    caplog.set_level(logging.ERROR)
    for name in NAMES:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(made(name)), encoding="utf-8")
        classes = OFFERS.dataset(name).get("classes")
        dataset = mlcroissant.Dataset(str(path))
        if classes:
            assert [one["classes/name"] for one in dataset.records("classes")] == classes


def test_radar_has_names_and_optical_bands_have_wavelengths():
    described = made("geobench2-benv2")["geocr:spectralBandMetadata"]
    blue = next(one for one in described if one["name"] == "B02")
    assert blue["geocr:centerWavelength"] == {
        "@type": "QuantitativeValue", "value": 492.4, "unitText": "nm",
    }  # fmt: skip
    assert not {"VV", "VH"} & {one["name"] for one in described}
    assert {"VV", "VH"} < {
        *made("geobench2-benv2")["geocr:bandConfiguration"]["geocr:bandNameList"]
    }


def test_extent_of_prepared_images_as_far_as_it_is_known():
    nan = float("nan")
    one = pa.table(
        {
            "lon": pa.array([10.5, None, nan]),
            "lat": [-4.0, None, nan],
            "date": ["2020-05-01T10:00", None, None],
            "crs": ["EPSG:32632", None, "EPSG:32632"],
        }
    )
    two = pa.table({"lon": [-3.25], "lat": [50.0], "dates_s2": [["2019-01-02", "2021-07-01"]]})
    found = extent([one, two])
    assert found["spatialCoverage"]["geo"]["box"] == "-4 -3.25 50 10.5"
    assert found["temporalCoverage"] == "2019-01-02/2021-07-01"
    assert found["geocr:coordinateReferenceSystem"] == "EPSG:32632"
    unknown = {name: pa.array([None], pa.float64()) for name in ("lon", "lat")}
    assert extent([pa.table(unknown)]) == extent([]) == {}


def test_the_command_prints_it_for_datasets_only(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["info", "eurosat", "--croissant"]) == 0
    assert json.loads(capsys.readouterr().out)["license"] == "https://spdx.org/licenses/MIT"
    assert main(["info", "rcf", "--croissant"]) == 1
    assert "'rcf' is a backbone" in capsys.readouterr().err
