"""Libraries raise errors that say nothing: what is told is then the type of the error, and no IndexError."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.datasets.images import geotiff
from permafrost.core.errors import PermafrostError
from permafrost.data.files import decode
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.labels import masks, rasters
from permafrost.data.sources import reading, torchgeo_samples

GREY = np.zeros((1, 8, 8), np.uint8)


def silent(*_, **__):
    raise EOFError


# --- backbones ------------------------------------------------------------------------------------


def timm_backbone(**entry):
    from helpers.backbones import build, plan_input
    from helpers.stores.images import card_of, rgb_bands
    from permafrost.backbones.backbone import Resources

    card = card_of(rgb_bands())
    entry = {"kind": "timm", "model": "resnet18", **entry}
    plan = plan_input(entry, {"size": 64}, card, where="backbone x")
    return build(entry, plan, Resources("backbone x", card, 0, None))


def test_options_that_timm_refuses_without_a_word():
    with pytest.raises(PermafrostError, match=r"timm cannot build resnet18 \(AssertionError\)"):
        timm_backbone(weights={"source": "random"}, options={"output_stride": 7})


@pytest.mark.parametrize("kind", [OSError, RuntimeError])
def test_weights_that_timm_cannot_have_without_a_word(kind, monkeypatch):
    import timm

    def fails(*_, **__):
        raise kind

    monkeypatch.setattr(timm, "create_model", fails)
    with pytest.raises(PermafrostError, match=rf"weights of resnet18.*\({kind.__name__}\)"):
        timm_backbone(weights={"source": "random"})


def test_an_empty_weights_file(tmp_path):
    file = tmp_path / "empty.pth"
    file.touch()
    with pytest.raises(PermafrostError, match=r"empty.pth: .*cannot be read safely \(.*EOF"):
        timm_backbone(weights={"source": "file", "path": str(file)})


@pytest.mark.parametrize("loader", ["torch.load", "safetensors.torch.load_file"])
def test_a_weights_file_whose_reader_fails_without_a_word(loader, tmp_path, monkeypatch):
    from permafrost.backbones.weights.checkpoint import read_state_dict

    file = tmp_path / ("x.pth" if loader == "torch.load" else "x.safetensors")
    file.touch()
    monkeypatch.setattr(loader, silent)
    with pytest.raises(PermafrostError, match=r"cannot be read safely \(EOFError\)"):
        read_state_dict(file, where="backbone x")


# --- files of datasets ----------------------------------------------------------------------------


def test_images_whose_decoder_fails_without_a_word(monkeypatch):
    monkeypatch.setattr(decode, "read_tiff", silent)
    with pytest.raises(UnreadableImage, match="^EOFError$"):
        decode.decode_image(geotiff(GREY), None)


def test_headers_whose_reader_fails_without_a_word(monkeypatch):
    monkeypatch.setattr(decode, "open_tiff", silent)
    with pytest.raises(UnreadableImage, match="^EOFError$"):
        decode.tiff_place(geotiff(GREY))


def test_masks_whose_decoder_fails_without_a_word(monkeypatch):
    monkeypatch.setattr(masks, "_tiff", silent)
    with pytest.raises(UnreadableImage, match="^EOFError$"):
        masks.decode_mask(geotiff(GREY))


def test_rasters_whose_decoder_fails_without_a_word(monkeypatch):
    monkeypatch.setattr(rasters, "open_tiff", silent)
    with pytest.raises(UnreadableImage, match="^EOFError$"):
        rasters.decode_raster(geotiff(GREY))


def test_members_whose_reader_fails_without_a_word():
    with pytest.raises(UnreadableImage, match="^EOFError$"), reading.readable():
        silent()


# --- classes of torchgeo --------------------------------------------------------------------------


class Silent:
    """A split whose samples cannot be read."""

    __getitem__ = silent


def test_sizes_that_pillow_cannot_read_without_a_word(tmp_path, monkeypatch):
    from PIL import Image

    def fails(*_, **__):
        raise OSError

    monkeypatch.setattr(Image, "open", fails)
    monkeypatch.setattr(torchgeo_samples, "sample_path", lambda part, number: "x.png")
    with pytest.raises(UnreadableImage, match="^OSError$"):
        torchgeo_samples.sample_size(None, 0)


def test_samples_of_torchgeo_that_fail_without_a_word():
    from permafrost.data.sources.torchgeo import TorchgeoDetection
    from permafrost.data.sources.torchgeo_source import TorchgeoSource

    images = object.__new__(TorchgeoSource)
    images._index, images._parts = [("train", 0)], {"train": Silent()}
    with pytest.raises(UnreadableImage, match="^EOFError$"):
        images.decode(0)
    with pytest.raises(UnreadableImage, match="^EOFError$"):
        TorchgeoDetection._annotated(images, "a", "train", 0, None)


def test_a_dataset_of_torchgeo_that_cannot_be_built_without_a_word(tmp_path, monkeypatch):
    from helpers.datasets.images import open_source
    from torchgeo.datasets import EuroSAT

    def fails(self, root="data", split="train", bands=(), transforms=None, download=False):
        raise OSError

    monkeypatch.setattr(EuroSAT, "__init__", fails)
    entry = {
        "task": "classification",
        "sensor": "sentinel2-l1c",
        "bands": ["B04"],
        "units": {"unit": "digital_number", "scale": 1e-4},
        "source": {"kind": "torchgeo", "name": "EuroSAT", "arguments": {"root": str(tmp_path)}},
    }
    with pytest.raises(PermafrostError, match=r"cannot be built from .*: OSError\. Remedy"):
        open_source(entry, where="x")


@pytest.mark.parametrize("family", ["weights of torchgeo", "a file in their place"])
def test_weights_of_torchgeo_that_cannot_be_had_without_a_word(family, tmp_path, monkeypatch):
    import torchgeo.models
    from permafrost.backbones.torchgeo import models, weights

    if family == "weights of torchgeo":

        def fails(**_):
            raise OSError

        monkeypatch.setattr(torchgeo.models, "resnet18", fails)
        with pytest.raises(PermafrostError, match=r"weights or options \(OSError\)"):
            models._create("resnet18", "W", {}, "backbone x")
        return
    file = tmp_path / "x.pth"
    file.touch()
    monkeypatch.setattr("torch.load", silent)
    like = torchgeo.models.ResNet18_Weights.SENTINEL2_RGB_MOCO
    with pytest.raises(PermafrostError, match=r"cannot be read safely \(EOFError\)"):
        weights.LocalWeights(like, "resnet18", file, "backbone x").get_state_dict()
