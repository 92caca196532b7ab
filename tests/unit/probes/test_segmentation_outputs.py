"""What a segmentation probe leaves behind: its table, the images shown, padding, predicted masks."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from helpers.stores.maps import (
    FINGERPRINT,
    confusion,
    run,
    separable,
    toy_stores,
    write_maps,
)
from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store
from permafrost.probes.dense.shown import Ranked
from PIL import Image


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("toy"))


def test_the_table_says_everything_that_identifies_it(toy, tmp_path):
    table, metadata = run(toy, tmp_path, layers=["layer1"], boundary=0.05)
    assert table.column_names == [
        "sample_id",
        "group_id",
        "confusion",
        "shown",
        "mask",
        "boundary_intersection",
        "boundary_union",
    ]
    assert table["sample_id"].to_pylist() == [f"test-{i}" for i in range(10)]
    assert (confusion(table).sum(axis=(1, 2)) == 16 * 16).all()
    expected = {
        "task": "segmentation",
        "head": "linear",
        "layers": ["layer1"],
        "feature_dim": 5,
        "resolution": "native",
        "ignore_index": 255,
        "n_train": 24,
        "n_val": 8,
        "n_test": 10,
        "backbone_fingerprint": FINGERPRINT,
        "gates": [],
    }
    assert {key: metadata[key] for key in expected} == expected
    settings = metadata["settings"]
    assert settings["parameters"] == 2 * 5 + 5 * 3 + 3
    assert json.dumps(settings, allow_nan=False)


def test_images_are_shown_for_every_seed_alike_and_the_extremes_besides(toy, tmp_path):
    tables = [run(toy, tmp_path, seed=seed, epochs=1)[0] for seed in (0, 1)]
    drawn = []
    for table in tables:
        shown = table["shown"].to_pylist()
        drawn.append([i for i, kind in enumerate(shown) if kind == "drawn"])
        matrices = confusion(table)
        accuracy = [np.trace(m) / m.sum() for m in matrices]
        rest = [i for i in range(10) if i not in drawn[-1]]
        worst = {i for i, kind in enumerate(shown) if kind == "worst"}
        assert worst == set(sorted(rest, key=lambda i: (accuracy[i], i))[:2])
        best = {i for i, kind in enumerate(shown) if kind == "best"}
        assert best == set(sorted(rest, key=lambda i: (-accuracy[i], i))[:2])
        truth = separable(10, seed=2)[1]
        for i, packed in enumerate(table["mask"].to_pylist()):
            assert (packed is None) == (shown[i] is None)
            if packed is not None:
                mask = np.asarray(Image.open(io.BytesIO(packed)))
                found = np.bincount(truth[i].ravel() * 3 + mask.ravel(), minlength=9)
                np.testing.assert_array_equal(found.reshape(3, 3), matrices[i])
    assert drawn[0] == drawn[1] and len(drawn[0]) == 2


def test_each_dataset_has_a_drawing_of_its_own():
    drawn = [Ranked(1000, 4, name).drawn for name in ("a", "a", "b")]
    assert drawn[0] == drawn[1] != drawn[2]


def test_no_pictures_means_no_masks_in_the_table(toy, tmp_path):
    table, _ = run(toy, tmp_path, pictures=0, epochs=1)
    assert table["mask"].null_count == table["shown"].null_count == 10


def test_padded_images_are_scored_at_their_true_size_and_padding_never_counts(tmp_path):
    maps, masks = separable(10, seed=2)
    sizes = np.array([[16, 16]] * 5 + [[12, 16]] * 3 + [[16, 7]] * 2)
    padded = np.full((10, 20, 24), 1, np.uint8)
    padded[:, :16, :16] = masks
    stores = toy_stores(tmp_path / "stores")
    stores["test"] = write_maps(
        tmp_path / "padded.zarr", maps, padded, sizes=sizes, working=(16, 16), split="test"
    )
    for resolution, pixels in (("native", sizes.prod(axis=1)), ("working", [256] * 10)):
        table, _ = run(stores, tmp_path, resolution=resolution, epochs=1)
        np.testing.assert_array_equal(confusion(table).sum(axis=(1, 2)), pixels)


@pytest.mark.parametrize("kind", ["zarr", "geotiff"])
def test_predicted_masks_are_written_with_the_table(tmp_path, kind):
    import pyarrow as pa
    import pyarrow.parquet as pq

    maps, masks = separable(10, seed=2)
    stores = toy_stores(tmp_path / "stores")
    transform = [[10.0, 0.0, 500_000.0 + i, 0.0, -10.0, 4e6] for i in range(10)]
    extra = {
        "crs": pa.array(["EPSG:32632"] * 9 + [None]),
        "transform": pa.array([*transform[:9], None], pa.list_(pa.float64(), 6)),
    }
    stores["test"] = write_maps(
        tmp_path / "test.zarr", maps, masks, split="test", extra=extra, working=(8, 8)
    )
    place = tmp_path / "masks.out"
    table, _ = run(stores, tmp_path, masks=kind, second_output=place, resolution="working")
    if kind == "zarr":
        store = Store(place, expect="0" * 32)
        found = store.read("predictions")
        assert store.samples()["height"].to_pylist() == [8] * 10
    else:
        import rasterio

        names = pq.read_table(place / "samples.parquet")["file"].to_pylist()
        files = [rasterio.open(place / name) for name in names]
        found = np.stack([file.read(1) for file in files])
        # pixels of the working size cover the same ground
        assert files[3].transform == rasterio.Affine(20, 0, 500_003, 0, -20, 4e6)
        assert files[3].crs.to_epsg() == 32632 and files[9].crs is None
    assert found.shape == (10, 8, 8) and found.dtype == np.uint8
    shown = [i for i, kind in enumerate(table["shown"].to_pylist()) if kind]
    for i in shown:
        mask = np.asarray(Image.open(io.BytesIO(table["mask"][i].as_py())))
        np.testing.assert_array_equal(found[i], mask)


def test_masks_need_a_place_and_vanish_with_a_failed_run(toy, tmp_path, monkeypatch):
    with pytest.raises(PermafrostError, match="needs a place"):
        run(toy, tmp_path, masks="zarr")
    monkeypatch.setattr("permafrost.probes.dense.tables.write_masks", lambda *_, **__: 1 / 0)
    for kind in ("zarr", "geotiff"):
        with pytest.raises(ZeroDivisionError):
            run(toy, tmp_path, masks=kind, second_output=tmp_path / "out")
    assert not list(tmp_path.iterdir())
