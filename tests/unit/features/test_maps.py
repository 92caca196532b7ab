"""Maps of layers in feature stores of segmentation datasets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stores.images import Dataset
from permafrost.backbones.outputs.projected import Projection
from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store
from permafrost.features import maps as maps_module
from permafrost.features.devices import exact_numerics
from permafrost.features.kept_layers import KeptLayers
from permafrost.features.maps import rows_together
from permafrost.probes.dense.map_splits import MaskSplit

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]
MODEL = {"kind": "timm", "model": "test_resnet", "weights": {"source": "random"}, "seed": 3}
SMALL = {"size": 64}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    return Dataset(tmp_path_factory.mktemp("masked"), masks=True)


def small_chunks(monkeypatch, chunk: int, shard: int) -> None:
    """Chunks and shards of about so many bytes, so that a tiny dataset has several."""
    monkeypatch.setattr(maps_module, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(maps_module, "SHARD_BYTES", shard)


def plain_maps(dataset, split, device, layers=("layer4", "layer3", "layer2", "layer1")):
    """By hooks and a loop of our own."""
    import timm
    from torch.nn import functional as F

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = timm.create_model("test_resnet", num_classes=0).eval().to(device)
    layout = torch.channels_last if device == "cpu" else torch.contiguous_format
    model = model.to(memory_format=layout)
    kept: dict = {}
    for name in layers:
        model.get_submodule(name).register_forward_hook(
            lambda *given, name=name: kept.setdefault(name, []).append(given[-1].half().cpu())
        )
    with exact_numerics(), torch.inference_mode():
        for part in torch.from_numpy(dataset.images[split]).split(8):
            pixels = part.to(device).float().contiguous(memory_format=layout)
            pixels = (pixels - 100.0) * torch.tensor(1 / 50.0, device=device)
            model(F.interpolate(pixels, (64, 64), mode="bilinear", align_corners=False))
    return [torch.cat(kept[name]).contiguous().numpy() for name in layers]


@pytest.mark.parametrize("device", DEVICES)
def test_maps_masks_and_attributes_are_as_agreed(dataset, device, monkeypatch):
    small_chunks(monkeypatch, 200_000, 600_000)
    stores = dataset.extract(MODEL, extraction=SMALL, batch_size=8, device=device)
    layers = [
        {"name": "layer4", "array": "map0", "channels": 256, "height": 2, "width": 2},
        {"name": "layer3", "array": "map1", "channels": 192, "height": 4, "width": 4},
        {"name": "layer2", "array": "map2", "channels": 96, "height": 8, "width": 8},
        {"name": "layer1", "array": "map3", "channels": 64, "height": 16, "width": 16},
    ]
    for split, store in stores.items():
        for index, expected in enumerate(plain_maps(dataset, split, device)):
            found = store.read(f"map{index}")
            assert found.dtype == np.float16
            assert np.array_equal(found, expected)
        assert np.array_equal(store.read("masks"), dataset.masks[split])
        assert store.attributes["working_size"] == [64, 64]
        assert store.attributes["ignore_index"] == 255
        assert store.attributes["dead_classes"] == [2]
        assert store.attributes["classes"] == ["a", "b", "c"]
        for told, layer in zip(store.attributes["layers"], layers, strict=True):
            assert {**told, "channels": 0} == {**layer, "channels": 0}
            assert store.shape(layer["array"])[1] == told["channels"]
        rows = {store.chunk_rows(name) for name in ("map0", "map3", "masks")}
        assert len(rows) == 1, "what is read side by side has the same chunks"
    train = stores["train"]
    for name, several in (("map0", False), ("map3", True)):
        files = [file for file in (train.path / name / "c").rglob("*") if file.is_file()]
        assert len(files) < -(-len(train) // train.chunk_rows(name)), "shards hold several chunks"
        assert len(files) > 1 or not several


def test_the_embeddings_are_those_of_a_run_without_maps(dataset):
    with_maps = dataset.extract(MODEL, extraction=SMALL, out="with")
    without = dataset.extract(MODEL, extraction={**SMALL, "maps": False}, out="without")
    for split in with_maps:
        left, right = (one[split].read("embeddings") for one in (with_maps, without))
        assert np.array_equal(left, right)
        assert list(without[split].attributes["arrays"]) == ["embeddings"]
        assert not {"layers", "working_size"} & set(without[split].attributes)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_the_batch_size_changes_no_order(dataset, batch_size, monkeypatch):
    whole = dataset.extract(MODEL, extraction=SMALL, out="whole", batch_size=20)
    small_chunks(monkeypatch, 100_000, 300_000)
    cut = dataset.extract(MODEL, extraction=SMALL, out="cut", batch_size=batch_size)
    for name in ("map0", "map3"):
        left, right = (one["train"].read(name) for one in (whole, cut))
        np.testing.assert_allclose(left, right, rtol=2e-3, atol=2e-3)


def test_a_repeat_gives_the_same_bytes(dataset):
    for out in ("once", "twice"):
        dataset.extract(MODEL, extraction=SMALL, out=out)
    files = sorted(p for p in (dataset.folder / "once").rglob("*") if p.is_file())
    assert any("map3" in str(file) for file in files)
    for file in files:
        other = dataset.folder / "twice" / file.relative_to(dataset.folder / "once")
        assert file.read_bytes() == other.read_bytes(), file


def test_the_layers_of_the_entry_and_the_type_of_maps_are_options(dataset):
    entry = {**MODEL, "layers": ["layer3", "layer1"]}
    store = dataset.extract(entry, extraction={**SMALL, "maps_dtype": "float32"}, out="own")["val"]
    assert [layer["name"] for layer in store.attributes["layers"]] == ["layer3", "layer1"]
    assert store.read("map1").dtype == np.float32
    assert "map2" not in store


def test_maps_in_half_precision_are_close(dataset):
    exact = dataset.extract(MODEL, extraction=SMALL, out="exact")["test"]
    other = dataset.extract(MODEL, extraction={**SMALL, "precision": "bf16"}, out="other")["test"]
    for name in ("map0", "map3"):
        left, right = exact.read(name).astype(float), other.read(name).astype(float)
        assert np.abs(left - right).max() < 0.05 * np.abs(left).max()


def test_a_split_without_images_has_empty_maps(tmp_path):
    stores = Dataset(tmp_path, masks=True, counts=(4, 0, 3)).extract(MODEL, extraction=SMALL)
    assert stores["val"].shape("map3") == (0, *stores["train"].shape("map3")[1:])
    assert stores["val"].attributes["layers"] == stores["train"].attributes["layers"]


def test_images_keep_a_native_size_that_is_no_square(tmp_path):
    dataset = Dataset(tmp_path, masks=True)
    for split in ("train", "val", "test"):
        dataset.images[split] = dataset.images[split][:, :, :, :24].copy()
        dataset.sizes[split] = np.tile([32, 24], (len(dataset.images[split]), 1))
        dataset.masks[split] = dataset.masks[split][:, :, :24].copy()
        dataset._write(split, np.zeros(len(dataset.images[split]), int))
    store = dataset.extract(MODEL, extraction={"size": None})["train"]
    assert store.attributes["working_size"] == [32, 24]
    assert store.shape("map3")[2:] == (8, 6)


def test_native_images_of_several_sizes_are_an_error(tmp_path):
    dataset = Dataset(tmp_path, masks=True, ragged=True)
    with pytest.raises(PermafrostError, match=r"keep their native size.*sizes.*input\.size"):
        dataset.extract(MODEL, extraction={"size": None})
    store = dataset.extract(MODEL, extraction=SMALL)["train"]
    assert store.shape("map3")[2:] == (16, 16)


def test_the_whole_image_is_fed_where_the_weights_want_a_crop(dataset):
    entry = {**MODEL, "input": {"size": 96, "crop": 64}}
    cropped = dataset.extract(entry, out="cropped")["val"]
    resized = dataset.extract(MODEL, extraction=SMALL, out="resized")["val"]
    assert np.array_equal(cropped.read("map3"), resized.read("map3"))
    assert "whole image is resized to 64 x 64" in cropped.attributes["notes"]["crop"]
    assert cropped.attributes["input"]["crop"] is None
    assert "crop" not in resized.attributes["notes"]
    plain = dataset.extract(entry, extraction={"maps": False}, out="plain")["val"]
    assert plain.attributes["input"]["crop"] == 64 and "crop" not in plain.attributes["notes"]


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1_000, (16, 64_000)),
        (752_640, (10, 80)),
        (3_000_000, (2, 20)),
        (50_000_000, (1, 1)),
        (500_000_000, (1, 1)),
    ],
)
def test_chunks_and_shards_are_of_bounded_size(size, expected):
    assert rows_together(size) == expected


def test_masks_that_are_larger_than_the_maps_are_copied_in_shards_of_their_own(
    dataset, monkeypatch
):
    small_chunks(monkeypatch, 4_000, 8_000)
    copied, read = [], Store.read

    def counted(store, name, start=0, stop=None):
        if name == "masks":
            copied.append(stop - start)
        return read(store, name, start, stop)

    monkeypatch.setattr(Store, "read", counted)
    # maps of 24 bytes an image, masks of 1,024
    stores = dataset.extract(
        {"kind": "imagestats", "layers": ["stride64"]}, extraction=SMALL, out="small-maps"
    )
    assert max(copied) <= 16
    monkeypatch.undo()
    for split, store in stores.items():
        assert store.chunk_rows("masks") == store.chunk_rows("map0")
        assert np.array_equal(store.read("masks"), dataset.masks[split])


def entrypoint(folder, body: str, layers='("mix",)', extra="") -> dict:
    file = folder / "own.py"
    file.write_text(
        "import torch\nfrom torch import nn\n"
        "class Own(nn.Module):\n"
        f"    layers = {layers}\n{extra}"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.mix = nn.Identity()\n"
        "    def forward(self, images):\n"
        f"        {body}\n"
        "        return images.mean(dim=(2, 3))\n"
        "def build(inputs):\n"
        "    return Own()\n"
    )
    options = {"normalization": "none", "size": None}
    return {"kind": "entrypoint", "entrypoint": f"{file}:build", "input": options}


def test_maps_that_float16_cannot_hold_are_an_error_that_names_sample_and_layer(dataset, tmp_path):
    large = dataset.images["train"][3, 0, 0, 0]
    body = f"self.mix(images * torch.where(images[:, :1, :1, :1] == {large}, 1e4, 1.0))"
    with pytest.raises(PermafrostError, match=r"layer mix as float16.*'train-\d+'.*maps_dtype"):
        dataset.extract(entrypoint(tmp_path, body), out="large")
    store = dataset.extract(
        entrypoint(tmp_path, body), out="wide", extraction={"maps_dtype": "float32"}
    )["train"]
    assert store.read("map0").max() > 65504


@pytest.mark.parametrize(
    "about", [{"maps_dtype": "float16"}, {"maps_dtype": "float32"}, {"maps_channels": 2}]
)
def test_maps_with_nan_are_an_error_that_names_sample_and_layer(dataset, tmp_path, about):
    pixel = dataset.images["train"][3, :, 5, 7].tolist()
    same = f"images[:, :, 5:6, 7:8] == images.new_tensor({pixel})[None, :, None, None]"
    body = f"self.mix(torch.where({same}, torch.nan, images))"
    with pytest.raises(PermafrostError, match=r"layer mix: .*'train-\d+'.*look for NaN"):
        dataset.extract(entrypoint(tmp_path, body), out="poisoned", extraction=about)
    assert not list((dataset.folder / "poisoned").glob("*.zarr"))


def test_layers_from_fine_to_coarse_are_an_error_that_gives_the_order(dataset):
    entry = {**MODEL, "layers": ["layer1", "layer3"]}
    with pytest.raises(PermafrostError, match=r"not listed coarse to fine.*\[layer3, layer1\]"):
        dataset.extract(entry, extraction=SMALL, out="order")


@pytest.mark.parametrize(
    ("layers", "extra", "message"),
    [
        ("()", "", "declares none in its attribute `layers`"),
        ('"mix"', "", "declares layers = 'mix'"),
        ('("mx",)', "", "did you mean 'mix'"),
        ('("mix",)', "    layer_layouts = {'mix': 'NCWH'}\n", "declares layer_layouts"),
        ('("mix",)', "    grid = 14\n", "declares grid = 14"),
    ],
)
def test_a_wrong_declaration_of_layers_is_an_error(dataset, tmp_path, layers, extra, message):
    with pytest.raises(PermafrostError, match=message):
        dataset.extract(entrypoint(tmp_path, "self.mix(images)", layers, extra), out="declared")


def test_tokens_of_an_entry_point_lie_on_the_grid_that_it_declares(dataset, tmp_path):
    extra = "    num_prefix_tokens = 2\n    grid = (8, 4)\n"
    body = (
        "cells = torch.nn.functional.avg_pool2d(images, (4, 8)).flatten(2).transpose(1, 2); "
        "self.mix(torch.cat([cells[:, :2], cells], 1))"
    )
    store = dataset.extract(entrypoint(tmp_path, body, extra=extra), out="tokens")["val"]
    expected = dataset.images["val"].reshape(-1, 3, 8, 4, 4, 8).mean(axis=(3, 5))
    np.testing.assert_allclose(store.read("map0"), expected, rtol=1e-3)


def test_images_without_masks_or_objects_have_no_maps(tmp_path):
    with pytest.raises(PermafrostError, match="neither masks nor objects"):
        Dataset(tmp_path).extract(MODEL, extraction={"maps": True})


def test_an_unknown_type_of_maps_is_an_error(dataset):
    with pytest.raises(PermafrostError, match="maps_dtype: 'int8' is not one of"):
        dataset.extract(MODEL, extraction={"maps_dtype": "int8"})


@pytest.mark.parametrize("kind", ["imagestats", "rcf"])
def test_the_baselines_have_maps(dataset, kind):
    store = dataset.extract({"kind": kind, "layers": ["stride8"]}, extraction=SMALL, out=kind)
    assert store["val"].shape("map0")[2:] == (8, 8)


@pytest.mark.parametrize("parts", [None, 3])
def test_maps_of_many_channels_are_projected_to_their_principal_directions(dataset, parts):
    plain = {**SMALL, "maps_dtype": "float32"}
    full = dataset.extract(MODEL, extraction=plain, out="full")
    options = {"extraction": {**plain, "maps_channels": 64}, "parts": parts, "batch_size": 5}
    stores = dataset.extract(MODEL, out=f"projected-{parts}", **options)
    store = stores["val"]
    layers = store.attributes["layers"]
    assert [one.get("projected_from") for one in layers] == [96, 192, None, None]
    assert [one["channels"] for one in layers] == [64, 64, 48, 32]
    assert np.array_equal(store.read("embeddings"), full["val"].read("embeddings"))
    for index in (0, 1):
        known, asked = (_patches(full[split], index) for split in ("train", "val"))
        _, singular, directions = np.linalg.svd(known, full_matrices=False)
        # an orthonormal basis keeps products
        expected = asked @ directions[:64].T
        found = _patches(store, index)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, rtol=1e-3, atol=1e-3)
        share = (singular[:64] ** 2).sum() / (singular**2).sum()
        assert layers[index]["share_kept"] == pytest.approx(share, abs=1e-4)
    for index in (2, 3):
        assert np.array_equal(store.read(f"map{index}"), full["val"].read(f"map{index}"))


def _patches(store, index: int) -> np.ndarray:
    maps = store.read(f"map{index}").astype(np.float64)
    return maps.transpose(0, 2, 3, 1).reshape(-1, maps.shape[1])


def test_a_projection_hardly_depends_on_rounding_and_not_on_signs():
    rng = np.random.default_rng(0)
    patches = rng.normal(size=(500, 40)) * np.repeat([3.0, 1.0], 20)  # no gap among the first 20
    moment = patches.T @ patches
    found = [
        Projection.fitted(moment + noise, 20, torch.device("cpu"))
        for noise in (0.0, 1e-9 * rng.normal(size=moment.shape))
    ]
    matrix = found[0].matrix.double().numpy()
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(20), atol=1e-6)
    np.testing.assert_allclose(found[1].matrix.numpy(), matrix, atol=1e-6)
    assert 0.85 < found[0].share < 0.95
    empty = Projection.fitted(np.zeros((40, 40)), 20, torch.device("cpu"))
    assert empty.share == 1.0 and torch.isfinite(empty.matrix).all()


@pytest.mark.parametrize("parts", [None, 3])
@pytest.mark.parametrize(
    ("kept", "names"),
    [
        (KeptLayers(("layer3", "layer1")), ["layer3", "layer1"]),
        (KeptLayers(("layer1",), (16,)), ["layer3", "layer1"]),
        # 12 pixels are as far from 8 as from 16
        (KeptLayers(strides=(12,)), ["layer3"]),
        (KeptLayers(("another",)), ["layer4", "layer3", "layer2", "layer1"]),
    ],
)
def test_only_the_layers_that_are_read_are_stored_as_among_all(
    dataset, monkeypatch, kept, names, parts
):
    small_chunks(monkeypatch, 60_000, 300_000)
    how = {"extraction": SMALL, "batch_size": 5}
    full = dataset.extract(MODEL, out="full", **how)
    some = dataset.extract(MODEL, out=f"some-{parts}", parts=parts, kept=kept, **how)
    for split, store in some.items():
        known = {one["name"]: one for one in full[split].attributes["layers"]}
        assert store.attributes["layers"] == [known[name] for name in names]
        left_out = [one for name, one in known.items() if name not in names]
        assert store.attributes.get("left_out", []) == left_out
        for name in ("embeddings", "masks", *(known[name]["array"] for name in names)):
            assert np.array_equal(store.read(name), full[split].read(name))
            # on which the order of training depends
            assert store.chunk_rows(name) == full[split].chunk_rows(name)
        assert not any(one["array"] in store for one in left_out)
    assert full["train"].chunk_rows("map0") < 16, "chunks of other maps are smaller"


def test_a_probe_refuses_a_layer_that_was_not_stored(dataset):
    dataset.extract(MODEL, out="one", extraction=SMALL, kept=KeptLayers(("layer4", "layer2")))
    split = MaskSplit(dataset.folder / "one/train.zarr")
    assert [one.array for one in split.choose_layers(["layer2"], where="here")] == ["map2"]
    assert split.closest_layer(8).name == "layer2"
    for choose in (
        lambda: split.closest_layer(16),
        lambda: split.choose_layers(None, where="here"),
        lambda: split.choose_layers(["layer3"], where="here"),
    ):
        with pytest.raises(PermafrostError, match=r"no maps of .*layer3.*runtime.keep_maps"):
            choose()
    with pytest.raises(PermafrostError, match="there is no map of layer"):
        split.choose_layers(["layer9"], where="here")
