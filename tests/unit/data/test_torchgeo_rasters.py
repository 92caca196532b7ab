"""Rasters of numbers as torchgeo's classes return them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.datasets.images import Prepared, geotiff, write_folder
from permafrost.core.errors import PermafrostError
from permafrost.plan.validation import validate


def truth(number: int) -> np.ndarray:
    made = np.random.default_rng(number).normal(20, 5, (12, 12)).astype(np.float32)
    made[0, : 1 + number] = -1
    return made


def entry_of(root, **more) -> dict:
    """Copernicus-Bench's NO2 at the ground, from what Sentinel-5P sees of it."""
    files, number = {}, 0
    for split, count in {"train": 4, "val": 2, "test": 3}.items():
        names = [f"place{number + i}" for i in range(count)]
        files[f"airquality_s5p/no2/{split}.csv"] = "\n".join(names).encode()
        for name in names:
            image = np.random.default_rng(100 + number).random((1, 12, 12)).astype(np.float32)
            file = f"s5p_annual/{name}/2021-01-01_2021-12-31.tif"
            files[f"airquality_s5p/no2/{file}"] = geotiff(image)
            files[f"airquality_s5p/no2/label_annual/{name}.tif"] = geotiff(truth(number)[None])
            number += 1
    write_folder(root, files)
    return {
        "task": "pixel_regression",
        "source": {
            "kind": "torchgeo",
            "name": "CopernicusBenchAQNO2S5P",
            "arguments": {"root": str(root)},
        },
        "bands": [{"name": "NO2"}],
        "units": {"unit": "digital_number", "scale": 1},
        "target": {"name": "NO2 at the ground", "unit": "µg/m³", "nodata": -1},
        **more,
    }


def test_targets_per_pixel_of_a_torchgeo_class(tmp_path):
    entry, out = entry_of(tmp_path / "data"), Prepared(tmp_path / "out")
    validate(entry, "dataset", where="test")
    card = out.run(entry)
    assert [card["splits"][split]["count"] for split in ("train", "val", "test")] == [4, 2, 3]
    expected = np.stack([truth(number) for number in range(6, 9)])
    expected[expected == -1] = np.nan
    np.testing.assert_array_equal(out.store("test").read("targets"), expected)
    assert card["target"]["splits"]["val"]["without_data"] == pytest.approx((5 + 6) / 288)


def test_another_key_than_that_of_the_targets_is_refused(tmp_path):
    entry = entry_of(tmp_path / "data")
    entry["source"]["label_key"] = "height"
    with pytest.raises(PermafrostError, match="returns no 'height' for train"):
        Prepared(tmp_path / "out").run(entry)
