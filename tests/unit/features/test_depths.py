"""Features of blocks in feature stores: their arrays, dates, native sizes, parts, and stores without them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stores.images import SPLITS, Dataset, SeveralDataset
from permafrost.core.errors import PermafrostError
from permafrost.features import writing
from permafrost.features.devices import exact_numerics

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]
VIT = {"kind": "timm", "model": "test_vit", "weights": {"source": "random"}, "seed": 3}
RESNET = {**VIT, "model": "test_resnet"}
SMALL = {"size": 32, "depths": "all"}


def bytes_of(folder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def by_hand(images: np.ndarray, device="cpu") -> list[np.ndarray]:
    """The mean patch token of each block of `VIT`, by hooks and a loop of our own."""
    import timm

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = timm.create_model("test_vit", num_classes=0, img_size=32).eval().to(device)
    kept: list[list] = [[] for _ in model.blocks]
    for block, rows in zip(model.blocks, kept, strict=True):
        block.register_forward_hook(lambda *given, rows=rows: rows.append(given[-1][:, 1:].mean(1)))
    with exact_numerics(), torch.inference_mode():
        for part in torch.from_numpy(images).split(8):
            model((part.to(device).float() - 100.0) * torch.tensor(1 / 50.0, device=device))
    return [torch.cat(rows).cpu().numpy() for rows in kept]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    return Dataset(tmp_path_factory.mktemp("images"))


@pytest.mark.parametrize("device", DEVICES)
def test_every_block_has_an_array_beside_the_embeddings(dataset, device):
    stores = dataset.extract(VIT, extraction=SMALL, batch_size=8, device=device)
    for split, store in stores.items():
        expected = by_hand(dataset.images[split], device)
        assert store.attributes["depths"] == [
            {"name": f"blocks.{place}", "array": f"block{place + 1}", "block": place + 1, "of": 6,
             "features": 64}
            for place in range(6)
        ]  # fmt: skip
        for number, rows in enumerate(expected, 1):
            found = store.read(f"block{number}")
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, rows, rtol=1e-5, atol=1e-5)
            assert store.chunk_rows(f"block{number}") == store.chunk_rows("embeddings")
        assert "layers" not in store.attributes


def test_without_the_option_a_store_has_the_same_bytes_and_nothing_of_blocks(dataset):
    kept = dataset.extract(RESNET, extraction=SMALL, out="kept")
    plain = dataset.extract(RESNET, extraction={"size": 32}, out="plain")
    for split in SPLITS:
        about = plain[split].attributes
        assert set(about["arrays"]) == {"embeddings", "labels"}
        assert "depths" not in about and "depths" not in about["notes"]
        for name in about["arrays"]:
            folders = [one[split].path / name for one in (plain, kept)]
            assert bytes_of(folders[0]) == bytes_of(folders[1])
        extra = {*kept[split].attributes["arrays"]} - {*about["arrays"]}
        assert extra == {f"block{number}" for number in range(1, 6)}


def test_only_the_blocks_that_were_asked_for_are_stored(dataset):
    store = dataset.extract(RESNET, extraction={"size": 32, "depths": [1.0, 0.6]})["test"]
    kept = store.attributes["depths"]
    assert [(one["name"], one["array"]) for one in kept] == [
        ("layer2", "block3"),
        ("layer4", "block5"),
    ]
    assert [one["features"] for one in kept] == [store.shape(one["array"])[1] for one in kept]


def test_they_have_the_type_of_the_embeddings(dataset):
    half = dataset.extract(RESNET, extraction={**SMALL, "dtype": "float16"}, out="half")["test"]
    whole = dataset.extract(RESNET, extraction=SMALL, out="whole")["test"]
    for number in range(1, 6):
        rows = half.read(f"block{number}")
        assert rows.dtype == np.float16
        assert np.array_equal(rows, whole.read(f"block{number}").astype(np.float16))


def test_a_backbone_without_blocks_has_none_and_says_why(dataset):
    store = dataset.extract({"kind": "imagestats"}, extraction=SMALL, out="none")["test"]
    assert store.attributes["depths"] == []
    assert store.attributes["notes"]["depths"].startswith("no blocks are known")


def test_images_of_native_sizes_keep_their_order(tmp_path):
    dataset = Dataset(tmp_path, ragged=True, counts=(9, 2, 3))
    native = {"size": None, "depths": "all"}
    together = dataset.extract(RESNET, extraction=native, out="together", batch_size=9)
    single = dataset.extract(RESNET, extraction=native, out="single", batch_size=1)
    for name in ("embeddings", *(f"block{number}" for number in range(1, 6))):
        left, right = (one["train"].read(name) for one in (together, single))
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)
        assert len(np.unique(left, axis=0)) == len(left)


def test_every_date_of_a_series_has_its_own_and_missing_ones_are_0(tmp_path):
    dataset = SeveralDataset(tmp_path)
    entry = {**VIT, "input": {"bands": ["red", "green", "blue"]}}
    store = dataset.extract(entry, extraction={"size": 32, "depths": [0.5]}, batch_size=4)["train"]
    rows, counts = store.read("block3"), dataset.counts["train"]
    assert rows.shape == (9, 4, 64) and store.shape("embeddings")[:2] == (9, 4)
    there = np.arange(4) < counts[:, None]
    assert (rows[~there] == 0).all() and rows[there].any(axis=1).all()


PARTS = {
    "images": lambda folder: Dataset(folder, counts=(43, 11, 0)),
    "series": lambda folder: SeveralDataset(folder, samples=(31, 6, 9)),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_have_the_bytes_of_an_undivided_run(tmp_path, monkeypatch, name):
    monkeypatch.setattr(writing, "ROWS_PER_CHUNK", 10)
    dataset = PARTS[name](tmp_path)
    entry = {**RESNET, "input": {"bands": ["red", "green", "blue"]}}
    whole = dataset.extract(entry, extraction=SMALL, out="whole", batch_size=8)
    parts = dataset.extract(entry, extraction=SMALL, out="parts", batch_size=8, parts=3)
    for split in SPLITS:
        assert bytes_of(parts[split].path) == bytes_of(whole[split].path)


def test_values_that_float16_does_not_hold_are_refused_with_the_option_to_change(
    dataset, monkeypatch
):
    from permafrost.backbones import backbone

    to_map = backbone.to_map
    monkeypatch.setattr(backbone, "to_map", lambda *given, **named: 1e6 * to_map(*given, **named))
    with pytest.raises(PermafrostError, match="use extraction.dtype: float32") as caught:
        dataset.extract(RESNET, extraction={**SMALL, "dtype": "float16"}, out="refused")
    assert "layer act1 as float16" in str(caught.value)
