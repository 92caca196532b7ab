"""Maps, masks and options that a segmentation probe cannot use: one clear error, and no file."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.probe_jobs import run_probe
from helpers.stores.maps import DENSE_KNN, SEGMENTATION, separable, spec, toy_stores, write_maps
from permafrost.core.errors import PermafrostError


@pytest.fixture
def stores(tmp_path):
    return toy_stores(tmp_path / "stores", counts=(8, 4, 4))


def refused(stores, folder, message, **options):
    kind = {"segmentation": SEGMENTATION, "dense_knn": DENSE_KNN}
    base = kind[options.get("kind", "segmentation")]
    output = folder / "out" / "x.parquet"
    with pytest.raises(PermafrostError, match=message) as caught:
        run_probe(
            spec({**base, **options}),
            stores,
            output,
            device="cpu",
            second_output=folder / "out" / "masks",
        )
    assert caught.value.where and caught.value.remedy
    assert not output.parent.exists() or not list(output.parent.iterdir())


def stores_of(folder, sizes):
    rng = np.random.default_rng(0)
    made = {}
    for split in ("train", "val", "test"):
        maps = [rng.normal(size=(4, 3, *size)).astype(np.float32) for size in sizes]
        made[split] = write_maps(
            folder / f"{split}.zarr",
            maps,
            rng.integers(0, 3, (4, 16, 16)).astype(np.uint8),
            split=split,
        )
    return made


def test_fpn_on_a_layer_without_spatial_extent(tmp_path):
    made = stores_of(tmp_path, [(1, 1), (4, 4)])
    refused(made, tmp_path, "seg on toy, backbone made-up.*layers layer2, layer1.*1x1", head="fpn")


def test_dpt_on_three_layers(tmp_path):
    made = stores_of(tmp_path, [(2, 2), (4, 4), (8, 8)])
    refused(made, tmp_path, "backbone made-up.*layer3, layer2.*exactly 4 layers, got 3", head="dpt")


def test_layers_of_a_pyramid_listed_from_fine_to_coarse(stores, tmp_path):
    refused(stores, tmp_path, "coarse to fine", head="fpn", layers=["layer1", "layer2"])


@pytest.mark.parametrize("kind", ["segmentation", "dense_knn"])
def test_a_mask_value_that_is_no_class(stores, tmp_path, kind):
    maps, masks = separable(8)
    masks[3, 0, 0] = 77
    stores["train"] = write_maps(tmp_path / "bad.zarr", maps, masks)
    refused(stores, tmp_path, r"sample 'train-3' holds \[77\]", kind=kind)


@pytest.mark.parametrize("kind", ["segmentation", "dense_knn"])
def test_train_masks_that_are_all_ignored(stores, tmp_path, kind):
    maps, masks = separable(8)
    stores["train"] = write_maps(tmp_path / "bad.zarr", maps, np.full_like(masks, 255))
    refused(stores, tmp_path, "every pixel of every train mask is ignored", kind=kind)


@pytest.mark.parametrize("kind", ["segmentation", "dense_knn"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_a_damaged_chunk_of_maps(stores, tmp_path, kind, split):
    for name in ("map0", "map1"):
        chunk = sorted(path for path in (stores[split] / name / "c").rglob("*") if path.is_file())[
            0
        ]
        data = bytearray(chunk.read_bytes())
        data[40] ^= 255
        chunk.write_bytes(data)
    refused(stores, tmp_path, "are damaged", kind=kind, masks="geotiff")


@pytest.mark.parametrize("kind", ["segmentation", "dense_knn"])
def test_infinite_maps_of_the_test_split(stores, tmp_path, kind):
    maps, masks = separable(4, seed=2)
    for values in maps:
        values[2, 0] = np.inf
    stores["test"] = write_maps(tmp_path / "bad.zarr", maps, masks, split="test")
    refused(stores, tmp_path, "NaN or infinity", kind=kind, masks="zarr")


def test_a_train_split_of_one_sample_with_maps_of_one_pixel(tmp_path):
    made = stores_of(tmp_path, [(1, 1)])
    maps, masks = separable(1)
    one = [np.ones((1, 3, 1, 1), np.float32)]
    made["train"] = write_maps(tmp_path / "one.zarr", one, masks)
    for head in ("linear", "conv_block"):
        for precision in ("fp32", "bf16"):
            refused(made, tmp_path, "single value per channel", head=head, precision=precision)


def test_a_loss_that_a_configuration_may_not_name(stores, tmp_path):
    loss = {"name": "os.system", "arguments": {"command": "true"}}
    refused(stores, tmp_path, "is not allowed", loss=loss)


def test_validation_masks_with_a_foreign_value(stores, tmp_path):
    maps, masks = separable(4, seed=1)
    masks[1, 0, 0] = 200
    stores["val"] = write_maps(tmp_path / "bad.zarr", maps, masks, split="val")
    refused(stores, tmp_path, r"sample 'val-1' holds \[200\]")
