"""Features of real and random networks against timm used by hand."""

from __future__ import annotations

import numpy as np
import pytest
import timm
import torch
from helpers.stores.images import Dataset
from torch.nn import functional as F
from torchvision.transforms import v2


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    return Dataset(tmp_path_factory.mktemp("images"), counts=(6, 2, 2), side=64)


def test_mobilenet_with_its_real_weights(dataset, shared_data):
    from safetensors.torch import load_file

    path = shared_data / "weights" / "mobilenetv2_100.tf_coral_in1k.fp16.safetensors"
    entry = {
        "kind": "timm",
        "model": "mobilenetv2_100",
        "weights": {"source": "file", "path": str(path)},
        "input": {"mean": 0.5, "std": 0.5},
    }
    ours = dataset.extract(entry)["train"].read("embeddings")
    model = timm.create_model("mobilenetv2_100")
    model.load_state_dict(load_file(path))
    model.reset_classifier(0)
    pixels = torch.from_numpy(dataset.images["train"]).float() / 255
    pixels = F.interpolate(pixels, (224, 224), mode="bilinear", align_corners=False)
    with torch.inference_mode():
        expected = model.eval()((pixels - 0.5) / 0.5).numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4 * expected.max())


@pytest.mark.parametrize("name", ["test_vit", "test_convnext", "test_efficientnet"])
def test_normalisation_is_that_of_timms_own_transform(dataset, name, tmp_path):
    """timm's evaluation transform (to tensor, normalise), at the size of the network."""
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=0).eval()
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    config = timm.data.resolve_data_config({}, model=model)
    size = config["input_size"][-1]
    entry = {
        "kind": "timm",
        "model": name,
        "weights": {"source": "file", "path": str(tmp_path / "weights.pt")},
        "input": {"size": size, "antialias": True},
    }
    ours = dataset.extract(entry)["train"].read("embeddings")
    transform = v2.Compose(
        [
            v2.ToDtype(torch.float32, scale=True),
            v2.Resize((size, size), antialias=True),
            v2.Normalize(config["mean"], config["std"]),
        ]
    )
    with torch.inference_mode():
        expected = model(transform(torch.from_numpy(dataset.images["train"]))).numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


def test_adapted_input_convolution_is_timms(tmp_path):
    from helpers.backbones import build, plan_input
    from helpers.stores.images import card_of, sentinel2_bands
    from permafrost.backbones.backbone import Resources
    from timm.models import adapt_input_conv

    model = timm.create_model("test_convnext", num_classes=0)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    entry = {
        "kind": "timm",
        "model": "test_convnext",
        "weights": {"source": "file", "path": str(tmp_path / "weights.pt")},
        "input": {"bands": "all", "normalization": "dataset"},
    }
    card = card_of(sentinel2_bands())
    plan = plan_input(entry, {}, card, where="x")
    ours = build(entry, plan, Resources("x", card, 0, None)).module.state_dict()
    name = f"{model.pretrained_cfg['first_conv']}.weight"
    assert torch.equal(ours[name], adapt_input_conv(13, model.state_dict()[name]))
