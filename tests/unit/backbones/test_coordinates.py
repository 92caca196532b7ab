"""Encoders of longitude and latitude: their formulas, SatCLIP's weights, a module of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.backbones import backbone_entry
from helpers.stores.places import point
from permafrost.backbones.coordinates import harmonics, sines
from permafrost.backbones.registry import locate, published_weights
from permafrost.backbones.weights.published import PublishedFile
from permafrost.core.errors import PermafrostError

GENERATOR = np.random.default_rng(0)
LON, LAT = GENERATOR.uniform(-180, 180, 40), GENERATOR.uniform(-89, 89, 40)
PLACES = [point(lon, lat, name=str(i)) for i, (lon, lat) in enumerate(zip(LON, LAT, strict=True))]


def encoder(**entry):
    return locate(backbone_entry({"kind": "coordinates", **entry}), "backbone x")


def features(**entry) -> np.ndarray:
    return encoder(**entry).features(PLACES)[0]


def test_first_harmonics_are_those_of_the_books():
    """Real, orthonormal, with the Condon-Shortley phase: degrees 0 to 2 in x, y, z."""
    lon, lat = np.radians(LON), np.radians(LAT)
    x, y, z = np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)
    pi = np.pi
    one, two = np.sqrt(3 / (4 * pi)), np.sqrt(15 / (4 * pi))
    expected = [np.full(40, np.sqrt(1 / (4 * pi))), -one * y, one * z, -one * x]
    expected += [two * x * y, -two * y * z, np.sqrt(5 / (16 * pi)) * (3 * z**2 - 1)]
    expected += [-two * x * z, two / 2 * (x**2 - y**2)]
    np.testing.assert_allclose(harmonics(LON, LAT, 3), np.stack(expected, axis=1), atol=1e-12)


def test_harmonics_are_orthonormal_and_have_no_seam():
    """Exact quadrature: Gauss-Legendre in sin(lat), equal steps in longitude."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    lon, sine = np.meshgrid(np.arange(24) * 15.0, nodes)
    made = harmonics(lon.ravel(), np.degrees(np.arcsin(sine.ravel())), 8)
    area = np.repeat(weights, 24) * 2 * np.pi / 24
    np.testing.assert_allclose(made.T @ (made * area[:, None]), np.eye(64), atol=1e-10)
    west, east = (harmonics(np.array([lon]), np.array([12.0]), 8) for lon in (-180.0, 180.0))
    np.testing.assert_allclose(west, east, atol=1e-12)


def test_sines_tell_near_places_apart_and_know_no_seam():
    made = sines(np.array([8.0, 8.01, -180.0, 180.0]), np.array([47.0, 47.0, 3.0, 3.0]), 12)
    assert made.shape == (4, 72)
    assert np.abs(made[0] - made[1]).max() > 0.2
    # the finest phase is 2^11 pi, of which rounding is magnified so often
    np.testing.assert_allclose(made[2], made[3], atol=1e-10)
    np.testing.assert_allclose((made**2).sum(axis=1), 36.0)


@pytest.mark.parametrize(
    ("name", "width"), [("harmonics", 100), ("sines", 72), ("satclip", 256), ("geoclip", 512)]
)
def test_each_place_by_itself_whatever_the_others(name, width):
    one = encoder(encoder=name)
    whole, reasons = one.features(PLACES)
    assert whole.shape == (40, width) and whole.dtype == np.float32 and not reasons
    parts = np.concatenate([one.features(PLACES[i : i + 7])[0] for i in range(0, 40, 7)])
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)
    assert one.features([])[0].shape == (0, width)


def satclip_file(path) -> tuple[Path, np.ndarray]:
    """A file in the layout of SatCLIP's checkpoint, with random numbers for the trained ones, and its features."""
    from torchgeo.models import SatCLIP_Weights, satclip

    torch.manual_seed(1)
    meta = SatCLIP_Weights.SATCLIP_VIT16_L40.meta
    shape = {
        key: meta[key] for key in ("legendre_polys", "capacity", "embed_dim", "num_hidden_layers")
    }
    model = satclip(**shape).eval()
    state = {f"model.location.{key}": one for key, one in model.state_dict().items()}
    torch.save({"state_dict": {**state, "model.visual.x": torch.zeros(1)}}, path)
    with torch.inference_mode():
        expected = model.double()(torch.from_numpy(np.stack([LON, LAT], axis=1))).float().numpy()
    return path, expected


def test_satclip_from_a_file_is_torchgeos_own(tmp_path):
    from permafrost.core.identity import file_digest

    path, expected = satclip_file(tmp_path / "satclip.ckpt")
    weights = {
        "source": "file",
        "path": str(path),
        "like": "SatCLIP_Weights.SATCLIP_VIT16_L40",
    }
    found = encoder(encoder="satclip", weights=weights)
    assert np.array_equal(found.features(PLACES)[0], expected)
    assert found.weights_sha256 == file_digest(path)
    assert found.parameters == 1213696
    # the state dict of torchgeo's own class
    content = torch.load(path, weights_only=True)["state_dict"]
    own = {
        name.removeprefix("model.location."): one
        for name, one in content.items()
        if "location" in name
    }
    torch.save(own, tmp_path / "own.pth")
    again = encoder(encoder="satclip", weights={**weights, "path": str(tmp_path / "own.pth")})
    assert np.array_equal(again.features(PLACES)[0], expected)


def test_geoclip_from_a_file_is_its_formula(tmp_path):
    """Written anew in double precision: the Equal Earth projection, random Fourier features, three networks."""
    torch.manual_seed(2)
    state = {}
    for at, sigma in enumerate((1.0, 16.0, 256.0)):
        state[f"LocEnc{at}.capsule.0.b"] = torch.randn(256, 2) * sigma
        for place, shape in {
            "capsule.1": (1024, 512),
            "capsule.3": (1024, 1024),
            "capsule.5": (1024, 1024),
            "head.0": (512, 1024),
        }.items():
            state[f"LocEnc{at}.{place}.weight"] = torch.randn(shape) / shape[1] ** 0.5
            state[f"LocEnc{at}.{place}.bias"] = torch.randn(shape[0])
    path = tmp_path / "location_encoder_weights.pth"
    torch.save(state, path)
    one = {key: value.double().numpy() for key, value in state.items()}
    theta = np.arcsin(np.sqrt(3) / 2 * np.sin(np.radians(LAT)))
    slope = np.polynomial.Polynomial([0, 1.340264, 0, -0.081106, 0, 0, 0, 0.000893, 0, 0.003796])
    x = 2 * np.sqrt(3) / 3 * np.radians(LON) * np.cos(theta) / slope.deriv()(theta)
    plane = np.stack([x, slope(theta)], axis=1) * 66.50336 / 180
    expected = 0
    for at in range(3):
        phases = 2 * np.pi * plane @ one[f"LocEnc{at}.capsule.0.b"].T
        made = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
        for place in ("capsule.1", "capsule.3", "capsule.5"):
            made = made @ one[f"LocEnc{at}.{place}.weight"].T + one[f"LocEnc{at}.{place}.bias"]
            made = np.maximum(made, 0)
        expected += made @ one[f"LocEnc{at}.head.0.weight"].T + one[f"LocEnc{at}.head.0.bias"]
    found = encoder(encoder="geoclip", weights={"source": "file", "path": str(path)})
    np.testing.assert_allclose(found.features(PLACES)[0], expected, rtol=1e-5, atol=1e-6)
    assert found.parameters == sum(p.numel() for p in state.values()) == 9449472
    state.pop("LocEnc2.head.0.bias")
    torch.save(state, path)
    with pytest.raises(PermafrostError, match="LocEnc2"):
        encoder(encoder="geoclip", weights={"source": "file", "path": str(path)})
    with pytest.raises(PermafrostError, match="no weights named"):
        encoder(encoder="geoclip", weights="SatCLIP_Weights.SATCLIP_VIT16_L40")


def test_satclips_own_weights_lie_in_the_data_folder_or_are_downloaded(tmp_path, monkeypatch):
    from permafrost.core.identity import file_digest
    from torchgeo.models import SatCLIP_Weights

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    name = "SatCLIP_Weights.SATCLIP_VIT16_L40"
    entry = backbone_entry({"kind": "coordinates", "encoder": "satclip", "weights": name})
    entry = replace(entry, weights_folder=str(tmp_path / "weights"))
    assert published_weights(entry, where="x").name == name
    with pytest.raises(PermafrostError, match="are missing and cannot be downloaded"):
        locate(entry, "backbone x")
    made, expected = satclip_file(tmp_path / "made.ckpt")
    place = tmp_path / "weights" / SatCLIP_Weights.SATCLIP_VIT16_L40.url.rpartition("/")[2]
    monkeypatch.setattr(PublishedFile, "sha256", None)
    place.parent.mkdir(exist_ok=True)
    made.rename(place)
    found = locate(entry, "backbone x")
    assert np.array_equal(found.features(PLACES)[0], expected)
    assert found.weights_sha256 == file_digest(place)


def test_a_file_of_satclip_says_what_it_is_like(tmp_path):
    with pytest.raises(
        PermafrostError, match="needs the name of weights with the same architecture"
    ):
        encoder(encoder="satclip", weights={"source": "file", "path": str(tmp_path / "x.ckpt")})


def test_weights_of_another_model_are_refused():
    with pytest.raises(PermafrostError, match="weights of resnet50, not of satclip"):
        encoder(encoder="satclip", weights="ResNet50_Weights.SENTINEL2_RGB_MOCO")


OWN = """
import torch
from torch import nn


class Plane(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.columns = columns

    def forward(self, places):
        return places[:, :self.columns] if self.columns else places.sum()


def build(columns=2):
    return Plane(columns)


def other():
    return 3
"""


def test_module_of_ones_own(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN)
    found = features(encoder="entrypoint", entrypoint=f"{file}:build")
    np.testing.assert_allclose(found, np.stack([LON, LAT], axis=1), rtol=1e-6)
    with pytest.raises(PermafrostError, match="40 places gave .*not one row each"):
        features(encoder="entrypoint", entrypoint=f"{file}:build", options={"columns": 0})
    with pytest.raises(PermafrostError, match="returned a int, not a torch"):
        features(encoder="entrypoint", entrypoint=f"{file}:other")
    with pytest.raises(PermafrostError, match="needs the key `entrypoint`"):
        features(encoder="entrypoint")
