"""Running a backbone over image stores."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from helpers.stages.specifications import extraction_of, specification
from helpers.stores.images import Dataset, sentinel2_bands
from permafrost.core.errors import PermafrostError
from permafrost.features.devices import exact_numerics
from permafrost.features.writing import worth_compressing
from torch.nn import functional as F

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]
MODEL = {"kind": "timm", "model": "test_resnet", "weights": {"source": "random"}, "seed": 3}
SMALL = {"size": 48}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    return Dataset(tmp_path_factory.mktemp("uniform"))


@pytest.fixture(scope="module")
def ragged(tmp_path_factory) -> Dataset:
    return Dataset(tmp_path_factory.mktemp("ragged"), ragged=True)


@pytest.mark.parametrize(
    ("fit", "kind", "like"), [("authors", "copied", 3), ("geobench2", "neutral", None)]
)
def test_a_policys_tensor_reaches_the_model_and_the_store_says_what_was_done(
    tmp_path, fit, kind, like
):
    dataset = Dataset(tmp_path, bands=sentinel2_bands(("B02", "B03", "B04", "B11")))
    known = {"normalization": "weights", "mean": 0.01, "std": 0.005, "unit": "reflectance"}
    wanted = {"bands": ["B02", "B03", "B04", "swir16", "cirrus"], **known}
    store = dataset.extract({**MODEL, "input": wanted}, extraction={**SMALL, "fit": fit})["train"]
    told = store.attributes["input"]
    assert (told["fit"], told["policy"]) == (kind, fit)
    assert (told["bands_real"], told["bands_wanted"]) == (4, 5)
    assert "cirrus" in told["reason"]
    train = dataset.images["train"].astype(np.float64)
    plain = train.transpose(1, 0, 2, 3).reshape(4, -1)
    fed = (plain * 1e-4 - 0.01) / 0.005 if fit == "authors" else (plain - 100.0) / 50.0
    expected = [*fed.mean(1), 0.0 if like is None else fed[like].mean()]
    np.testing.assert_allclose(told["tensor_fingerprint"]["mean"], expected, atol=0.01)
    assert np.isfinite(store.read("embeddings")).all()


def same(left, right) -> bool:
    return all(
        np.array_equal(left[s].read("embeddings"), right[s].read("embeddings")) for s in left
    )


@pytest.mark.parametrize("device", DEVICES)
def test_the_same_bits_as_a_plain_loop(dataset, device):
    import timm

    stores = dataset.extract(MODEL, extraction=SMALL, batch_size=8, device=device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = timm.create_model("test_resnet", num_classes=0).eval().to(device)
    if device == "cpu":
        model = model.to(memory_format=torch.channels_last)
    layout = torch.channels_last if device == "cpu" else torch.contiguous_format
    for split, store in stores.items():
        expected = []
        with exact_numerics(), torch.inference_mode():
            for part in torch.from_numpy(dataset.images[split]).split(8):
                pixels = part.to(device).float().contiguous(memory_format=layout)
                pixels = (pixels - 100.0) * torch.tensor(1 / 50.0, device=device)
                pixels = F.interpolate(pixels, (48, 48), mode="bilinear", align_corners=False)
                expected.append(model(pixels).cpu().numpy())
        assert np.array_equal(store.read("embeddings"), np.concatenate(expected))


@pytest.mark.parametrize("workers", [1, 8])
def test_a_repeat_gives_the_same_bytes(dataset, workers):
    dataset.extract(MODEL, extraction=SMALL, out="once")
    dataset.extract(MODEL, extraction=SMALL, out="twice", workers=workers)
    files = sorted(p for p in (dataset.folder / "once").rglob("*") if p.is_file())
    assert files
    for file in files:
        other = dataset.folder / "twice" / file.relative_to(dataset.folder / "once")
        assert file.read_bytes() == other.read_bytes(), file


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_the_batch_size_changes_neither_order_nor_values(dataset, batch_size):
    whole = dataset.extract(MODEL, extraction=SMALL, out="whole", batch_size=20)
    cut = dataset.extract(MODEL, extraction=SMALL, out="cut", batch_size=batch_size)
    for split in whole:
        np.testing.assert_allclose(
            cut[split].read("embeddings"), whole[split].read("embeddings"), rtol=1e-4, atol=1e-5
        )
    fingerprints = [s["train"].attributes["input"]["tensor_fingerprint"] for s in (whole, cut)]
    assert fingerprints[0] == fingerprints[1]


def test_order_labels_and_samples_are_those_of_the_images(dataset):
    """Image statistics tell every image apart, so a swapped pair would show."""
    stores = dataset.extract({"kind": "imagestats", "input": {"size": None}}, batch_size=3)
    for split, store in stores.items():
        pixels = dataset.images[split].astype(np.float64)
        expected = np.concatenate(
            [
                pixels.mean(axis=(2, 3)),
                pixels.std(axis=(2, 3), ddof=1),
                pixels.max(axis=(2, 3)),
                pixels.min(axis=(2, 3)),
            ],
            axis=1,
        )
        np.testing.assert_allclose(store.read("embeddings"), expected, rtol=1e-5)
        assert store.samples()["sample_id"].to_pylist() == [
            f"{split}-{i}" for i in range(len(pixels))
        ]


@pytest.mark.parametrize("size", [24, None])
def test_ragged_images_are_taken_at_their_true_size(ragged, size):
    store = ragged.extract({"kind": "imagestats", "input": {"size": size}}, batch_size=5)["train"]
    for image, (height, width), row in zip(
        ragged.images["train"], ragged.sizes["train"], store.read("embeddings"), strict=True
    ):
        true = torch.from_numpy(image[None, :, :height, :width]).float()
        if size:
            true = F.interpolate(true, (size, size), mode="bilinear", align_corners=False)
        np.testing.assert_allclose(row[:3], true.mean(dim=(2, 3))[0], rtol=1e-5)
        np.testing.assert_allclose(row[6:9], true.amax(dim=(2, 3))[0], rtol=1e-5)


def test_bands_are_fed_in_the_order_wanted_and_missing_ones_as_zeros(tmp_path):
    dataset = Dataset(tmp_path, bands=sentinel2_bands(("B02", "B03", "B04")), dtype=np.uint16)
    entry = {
        "kind": "imagestats",
        "input": {"bands": ["B04", "B10", "B02"], "missing": "zero", "size": None},
    }
    store = dataset.extract(entry)["test"]
    means = dataset.images["test"].mean(axis=(2, 3))
    np.testing.assert_allclose(store.read("embeddings")[:, [0, 2]], means[:, [2, 0]], rtol=1e-5)
    assert not store.read("embeddings")[:, 1].any()
    assert store.attributes["input"]["zero_filled"] == ["B10"]


@pytest.mark.parametrize("device", DEVICES)
def test_bfloat16_is_close_and_recorded(dataset, device):
    exact = dataset.extract(MODEL, extraction=SMALL, out="exact", device=device)["test"]
    half = dataset.extract(
        MODEL, extraction={**SMALL, "precision": "bf16"}, out="half", device=device
    )["test"]
    left, right = exact.read("embeddings"), half.read("embeddings")
    assert half.attributes["precision"] == "bf16"
    assert not np.array_equal(left, right)
    assert np.abs(left - right).max() < 0.05 * np.abs(left).max()


@pytest.mark.parametrize("device", DEVICES)
def test_tf32_is_float32_on_a_cpu_and_close_to_it_on_a_gpu(dataset, device):
    exact = dataset.extract(MODEL, extraction=SMALL, out="exact", device=device)["test"]
    options = {**SMALL, "precision": "tf32"}
    fast = dataset.extract(MODEL, extraction=options, out="fast", device=device)["test"]
    left, right = exact.read("embeddings"), fast.read("embeddings")
    assert fast.attributes["precision"] == "tf32"
    assert np.array_equal(left, right) or device == "cuda"
    assert np.abs(left - right).max() < 0.01 * np.abs(left).max()


def test_float16_on_disk_is_an_option(dataset):
    store = dataset.extract(MODEL, extraction={**SMALL, "dtype": "float16"}, out="f16")["val"]
    assert store.read("embeddings").dtype == np.float16


def test_features_are_compressed_where_that_pays(dataset, tmp_path):
    noise = np.random.default_rng(0).standard_normal((4, 8, 14, 14))
    for kind in (np.float16, np.float32):
        assert not worth_compressing(noise.astype(kind))
        assert worth_compressing(np.maximum(noise, 0).astype(kind))
    dense = "torch.sin(images.mean((1, 2, 3))[:, None] * torch.arange(1.0, 601.0))"
    for name, expression, compressed in (
        ("dense", dense, False),
        ("sparse", f"{dense}.relu()", True),
    ):
        store = dataset.extract(_entrypoint(tmp_path, expression), out=name)["train"]
        codecs = json.loads((store.path / "embeddings/zarr.json").read_bytes())["codecs"]
        assert ("zstd" in [codec["name"] for codec in codecs]) is compressed


def test_values_beyond_float16_are_an_error_not_infinity(tmp_path):
    dataset = Dataset(tmp_path, dtype=np.float32)
    entry = _entrypoint(tmp_path, "images.mean(dim=(2, 3)) * 1e4")
    with pytest.raises(PermafrostError, match="exceed what float16"):
        dataset.extract(entry, extraction={"dtype": "float16"})


def test_attributes_tell_where_the_features_come_from(dataset):
    attributes = dataset.extract(MODEL, extraction=SMALL, out="told")["train"].attributes
    assert attributes["backbone"] == "tried"
    assert attributes["split"] == "train"
    assert attributes["classes"] == ["a", "b", "c"]
    assert (
        attributes["feature_dim"]
        == dataset.extract(MODEL, extraction=SMALL)["train"].shape("embeddings")[1]
    )
    assert attributes["gates"] == []
    assert attributes["parameters"] > 0
    assert {"permafrost", "python", "numpy", "torch", "timm"} <= attributes["versions"].keys()
    told = attributes["input"]
    assert (told["bands"], told["size"], told["normalization"]) == (
        ["red", "green", "blue"],
        48,
        "dataset",
    )


def test_the_fingerprint_of_the_tensor_is_that_of_the_tensor_fed(dataset):
    attributes = dataset.extract({"kind": "rcf", "features": 8}, extraction={"size": None})[
        "train"
    ].attributes
    pixels = (dataset.images["train"].astype(np.float64) - 100) / 50
    told = attributes["input"]["tensor_fingerprint"]
    np.testing.assert_allclose(told["mean"], pixels.mean(axis=(0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(told["std"], pixels.std(axis=(0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(told["min"], pixels.min(axis=(0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(told["max"], pixels.max(axis=(0, 2, 3)), rtol=1e-5)


def _switches() -> list:
    backends = torch.backends
    return [
        backends.cudnn.conv.fp32_precision,
        backends.cudnn.rnn.fp32_precision,
        backends.cuda.matmul.fp32_precision,
        backends.mkldnn.matmul.fp32_precision,
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.get_num_threads(),
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    ]


@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_no_state_of_the_process_is_changed(dataset, precision):
    before = _switches()
    options = {**SMALL, "precision": precision}
    dataset.extract(MODEL, extraction=options, threads=torch.get_num_threads() + 1)
    assert _switches() == before


def test_tf32_is_off_and_threads_are_set_while_features_are_computed(dataset, tmp_path):
    entry = _entrypoint(
        tmp_path,
        "images.new_tensor([[float(torch.backends.cudnn.conv.fp32_precision == 'ieee'),"
        " float(torch.backends.cuda.matmul.fp32_precision == 'ieee'),"
        " float(torch.get_num_threads()), float(torch.is_grad_enabled())]]).repeat(len(images), 1)",
    )
    store = dataset.extract(entry, threads=3, out="switches")["val"]
    assert store.read("embeddings")[0].tolist() == [1.0, 1.0, 3.0, 0.0]


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_tf32_is_on_where_it_is_asked_for_and_only_for_a_gpu(dataset, tmp_path, precision):
    """All settings agree, the older ones that torch.compile reads, too."""
    on_gpu = ("cudnn.conv", "cudnn.rnn", "cuda.matmul")
    asked = [f"torch.backends.{one}.fp32_precision == 'tf32'" for one in on_gpu]
    asked += [
        "torch.backends.cuda.matmul.allow_tf32",
        "torch.get_float32_matmul_precision() == 'high'",
        *(f"torch.backends.mkldnn.{one}.fp32_precision != 'ieee'" for one in ("matmul", "conv")),
    ]
    entry = _entrypoint(
        tmp_path, f"images.new_tensor([[{', '.join(asked)}]]).repeat(len(images), 1)"
    )
    store = dataset.extract(entry, extraction={"precision": precision})["val"]
    assert store.read("embeddings")[0].tolist() == [precision == "tf32"] * 5 + [False] * 2


def test_settings_are_restored_after_a_forward_pass_that_fails(dataset, tmp_path):
    before = _switches()
    with pytest.raises(PermafrostError, match="division by zero"):
        dataset.extract(_entrypoint(tmp_path, "1 / 0"), extraction={"precision": "tf32"})
    assert _switches() == before


def _entrypoint(folder, expression: str) -> dict:
    file = folder / "own.py"
    file.write_text(
        "import torch\n"
        "class Own(torch.nn.Module):\n"
        "    def forward(self, images):\n"
        f"        return {expression}\n"
        "def build(inputs):\n"
        "    return Own()\n"
    )
    return {
        "kind": "entrypoint",
        "entrypoint": f"{file}:build",
        "input": {"normalization": "none", "size": None},
    }


@pytest.mark.parametrize(
    ("expression", "collapsed"),
    [
        ("images.new_ones(len(images), 5)", True),
        ("images.mean(dim=(1, 2, 3))[:, None] * torch.arange(1.0, 6.0)", True),
        ("images.mean(dim=(2, 3))", False),
        ("images.mean(dim=(1, 2, 3))[:, None]", False),
    ],
)
def test_collapsed_features_are_recorded_as_a_gate(dataset, tmp_path, expression, collapsed):
    store = dataset.extract(_entrypoint(tmp_path, expression), out="gate")["train"]
    assert store.attributes["gates"] == (["collapsed_features"] if collapsed else [])


def test_features_that_are_nan_stop_the_run_and_name_the_first_sample(dataset, tmp_path):
    poison = "torch.where(images[:, :, 0, 0] == images.new_tensor(%s), torch.nan, images.mean(dim=(2, 3)))"
    target = dataset.images["val"][3, :, 0, 0].tolist()
    entry = _entrypoint(tmp_path, poison % target)
    with pytest.raises(
        PermafrostError, match=r"(?s)backbone tried on tiny.*hold NaN or infinity.*'(train|val)-"
    ):
        dataset.extract(entry, out="poisoned")
    assert not list((dataset.folder / "poisoned").glob("**/val.zarr"))
    assert not list((dataset.folder / "poisoned").glob(".*"))


def test_a_forward_pass_that_fails_is_told_with_the_shape_it_was_given(dataset, tmp_path):
    entry = _entrypoint(tmp_path, "images @ images.new_zeros(3, 3)")
    with pytest.raises(PermafrostError, match=r"forward pass.*\(5, 3, 32, 32\)"):
        dataset.extract(entry, out="failed", batch_size=5)


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("images.mean(dim=(2, 3))[1:]", r"4 rows of features, in shape \(4, 3\)"),
        ("images.mean(dim=(2, 3)).repeat(2, 1)", r"10 rows of features, in shape \(10, 3\)"),
        (
            "images.mean(dim=(2, 3)).mean(dim=0, keepdim=True)",
            r"1 row of features, in shape \(1, 3\)",
        ),
        # tokens in the order of an older convention, (T, B, K)
        ("images.mean(dim=2).permute(2, 0, 1)", r"32 rows of features, in shape \(32, 3\)"),
    ],
    ids=["one too few", "twice as many", "one for all", "tokens first"],
)
def test_a_batch_that_gives_other_rows_than_its_images_is_named(
    dataset, tmp_path, expression, made
):
    entry = _entrypoint(tmp_path, expression)
    place = r"backbone tried on tiny \(train\), images 1 to 5: "
    with pytest.raises(PermafrostError, match=f"{place}a batch of 5 images gave {made}"):
        dataset.extract(entry, out="rows", batch_size=5)
    assert not (dataset.folder / "rows").exists() or not any((dataset.folder / "rows").iterdir())


def test_the_batch_that_is_named_is_the_one_that_failed(dataset, tmp_path):
    expression = "images.mean(dim=(2, 3)) if len(images) == 5 else images.mean(dim=(2, 3))[:0]"
    with pytest.raises(PermafrostError, match=r"tiny \(test\), images 6 to 7: .* 0 rows"):
        dataset.extract(_entrypoint(tmp_path, expression), out="rows", batch_size=5)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("images.flatten(1)[:, : 1 + len(images)]", r"\(test\), .*3 numbers.*earlier.* 6"),
        ("images.mean(dim=(2, 3))[:, :0]", r"no numbers at all.*\(5, 0\)"),
        ("torch.fft.fft2(images).mean(dim=(2, 3))", "complex numbers"),
        ("images.mean(dim=(2, 3)).numpy()", "returned a ndarray, not a tensor"),
        ("(images.mean(dim=(2, 3)),)", "returned a tuple, not a tensor"),
        ("images.mean(dim=(1, 2, 3))", r"a tensor of shape \(5,\)"),
        ("{'embedding': images.mean(dim=(2, 3))}", "a mapping with embedding, none of"),
        ("self.nothing(images)", r"failed on a batch.*no attribute 'nothing'"),
        ("{}[len(images)]", r"failed on a batch.*KeyError: 5"),
    ],
)
def test_an_output_that_is_no_row_per_image_is_refused_by_what_it_is(
    dataset, tmp_path, expression, problem
):
    with pytest.raises(PermafrostError, match=problem) as caught:
        dataset.extract(_entrypoint(tmp_path, expression), out="odd", batch_size=5)
    assert "backbone tried on tiny" in str(caught.value)


def test_features_of_another_width_in_a_later_split_are_refused(dataset, tmp_path):
    # a whole split at a time, so that the width is the same within each
    assert len(dataset.images["val"]) == 5 != len(dataset.images["train"])
    expression = "images.flatten(1)[:, : 4 if len(images) == 5 else 3]"
    with pytest.raises(PermafrostError, match=r"tiny \(val\).*4 numbers.*earlier"):
        dataset.extract(_entrypoint(tmp_path, expression), out="widths", batch_size=100)


def test_images_of_another_plan_are_refused(dataset):
    from permafrost.features.extract import extract
    from permafrost.features.specification import Running

    spec = {
        "stage": "extract",
        "backbone": "x",
        "dataset": "tiny",
        "entry": {"kind": "imagestats"},
        "extraction": extraction_of(),
        "inputs": {"images": "other"},
    }
    splits = ("train", "val", "test")
    with pytest.raises(PermafrostError, match="made from another plan"):
        extract(
            specification(spec),
            images={split: dataset.folder / f"{split}.zarr" for split in splits},
            card=dataset.folder / "card.json",
            outputs={split: dataset.folder / "none" / f"{split}.zarr" for split in splits},
            fingerprint="f",
            running=Running(),
        )


def test_unknown_options_of_extraction_are_errors(dataset):
    with pytest.raises(PermafrostError, match="did you mean 'precision'"):
        dataset.extract(MODEL, extraction={"precison": "fp32"})
    with pytest.raises(PermafrostError, match="there is no device cuda:99"):
        dataset.extract(MODEL, device="cuda:99")


def test_weights_that_changed_since_the_plan_are_refused(dataset, tmp_path):
    import timm

    path = tmp_path / "weights.pt"
    torch.save(timm.create_model("test_resnet").state_dict(), path)
    entry = {**MODEL, "weights": {"source": "file", "path": str(path)}}
    with pytest.raises(PermafrostError, match="changed since this run was planned"):
        dataset.extract(entry, files={str(path): "0" * 64}, out="stale")


@pytest.mark.parametrize("parts", [None, 3])
def test_an_offset_that_the_card_found_is_a_gate_of_the_backbones_that_are_fed_its_bands(
    tmp_path, parts
):
    found = {"bands": ["B02", "B04"], "found": "…", "offset": "left in all images"}
    other = {"bands": ["B08"], "found": "B08 is constant"}
    bands = sentinel2_bands(("B02", "B04", "B08"))
    audit = {"audit": {"bands": [other, found]}}
    dataset = Dataset(tmp_path, bands=bands, dtype=np.uint16, card=audit)
    for wanted, gates in ((["B04", "B08"], ["sentinel2_offset:left in all images"]), (["B08"], [])):
        entry = {"kind": "imagestats", "input": {"bands": wanted}}
        stores = dataset.extract(entry, extraction=SMALL, parts=parts, out="-".join(wanted))
        assert all(store.attributes["gates"] == gates for store in stores.values())


def test_what_is_fed_is_recorded_by_the_card_and_a_gate_where_it_is_unusual(tmp_path):
    """The statistics of the card are 100 ± 50 for every band."""
    dataset = Dataset(tmp_path)
    own = {"normalization": "weights", "unit": "unit_interval"}
    wide = {**MODEL, "input": {**own, "mean": [0.4], "std": [0.9]}}
    for entry, mean, std, gates in (
        (MODEL, 0, 1, []),
        ({"kind": "imagestats"}, 100, 50, []),
        (wide, (100 / 255 - 0.4) / 0.9, 50 / 255 / 0.9, ["unusual_input"]),
    ):
        attributes = dataset.extract(entry, extraction=SMALL)["test"].attributes
        np.testing.assert_allclose(attributes["input"]["as_fed"]["mean"], [mean] * 3, atol=1e-12)
        np.testing.assert_allclose(attributes["input"]["as_fed"]["std"], [std] * 3)
        assert [gate.partition(":")[0] for gate in attributes["gates"]] == gates
