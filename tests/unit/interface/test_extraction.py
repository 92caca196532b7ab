"""Features of arrays: those that the network gives on what the stages feed it, in the order of the images."""

from __future__ import annotations

import warnings

import numpy as np
import permafrost as pf
import pytest
import torch
from permafrost.core.errors import PermafrostError
from torch import nn

RGB = {"bands": "rgb", "normalization": "dataset"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def images(count: int, channels: int = 3, dtype=np.uint8) -> np.ndarray:
    rng = np.random.default_rng(count)
    return (
        rng.random((count, channels, 16, 16)) * 200 + np.arange(count)[:, None, None, None]
    ).astype(dtype)


def network(channels: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(channels, 5, 4, 4), nn.ReLU())


def direct(module: nn.Module, given: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Z-scores by the statistics of each channel, the forward pass, and the mean over places."""
    values, known = given.astype(np.float64), reference.astype(np.float64)
    axes = (0, 2, 3)
    scores = (values - known.mean(axes, keepdims=True)) / known.std(axes, keepdims=True)
    with torch.inference_mode():
        return module(torch.tensor(scores, dtype=torch.float32)).mean((2, 3)).numpy()


@pytest.mark.parametrize("count", [1, 2, 13])
def test_a_module_gives_what_it_gives_directly(count, tmp_path):
    given = images(count)
    found = pf.extract(network(), given, input=RGB, batch_size=4)
    # of one image there are two in train, which changes no statistic
    assert found == pytest.approx(direct(network(), given, given), abs=1e-5)
    assert found.dtype == np.float32 and list(tmp_path.iterdir()) == []


def test_statistics_are_those_of_the_reference():
    given, reference = images(4), images(9)
    found = pf.extract(network(), given, input=RGB, reference=reference)
    assert found == pytest.approx(direct(network(), given, reference), abs=1e-5)


def test_more_bands_of_other_types_and_units():
    given = images(6, channels=4, dtype=np.uint16)
    bands = ["red", "green", "blue", "nir"]
    found = pf.extract(
        network(4),
        given,
        bands=bands,
        sensor="naip",
        units={"unit": "digital_number", "scale": 0.001},
        input={"bands": bands, "normalization": "dataset"},
    )
    assert found == pytest.approx(direct(network(4), given, given), abs=1e-4)


def test_entries_are_built_as_in_a_run():
    given = images(5)
    found = pf.extract({"kind": "imagestats", "input": {"bands": "all"}}, given)
    means = given.astype(np.float64).mean(axis=(2, 3))
    assert found[:, :3] == pytest.approx(means, abs=1e-3)
    with pytest.raises(PermafrostError, match="there is no backbone 'imagestat'"):
        pf.extract("imagestat", given, catalogues=())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((3, 8, 8)), "give \\(number, channels, height, width\\)"),
        (np.zeros((2, 4, 8, 8)), "4 channels for 3 bands"),
        (np.zeros((0, 3, 8, 8)), "have the shape"),
        (np.zeros((2, 8, 8, 3), np.uint8), "transpose\\(0, 3, 1, 2\\)"),
        (np.zeros((2, 3, 8, 8)), "images are float64, and units say uint8"),
        ("pictures", "images is a path"),
        ([np.zeros((3, 8, 8)), np.zeros((3, 8, 9))], "give images of one size"),
    ],
)
def test_wrong_shapes_are_named(given, words):
    with pytest.raises(ValueError, match=words):
        pf.extract(network(), given)


def test_bands_that_are_missing_are_named():
    entry = {"kind": "rcf", "input": {"bands": ["nir"], "normalization": "dataset"}}
    with pytest.raises(PermafrostError, match="nir"):
        pf.extract(entry, images(3))


def test_it_prints_when_asked_and_warns_always(capfd):
    pf.extract(network(), images(3), input=RGB)
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")
    pf.extract(network(), images(3), input=RGB, progress=True)
    said = capfd.readouterr()
    assert "images" in said.out + said.err

    class Warns(nn.Module):
        def forward(self, given):
            warnings.warn("this network is unsure", stacklevel=1)
            return given.mean((2, 3))

    with pytest.warns(UserWarning, match="unsure"):
        pf.extract(Warns(), images(3), input=RGB)
