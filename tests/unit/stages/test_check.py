"""``permafrost check``: one batch through a backbone before a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from permafrost.stages.cli import main
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
SQUASHED = """
import torch


class Module(torch.nn.Module):
    def forward(self, images):
        together = images.mean(dim=(0, 2, 3))
        return together.expand(len(images), -1)


def build(inputs):
    return Module()
"""
PHOTOS = {
    "task": "classification",
    "source": {"kind": "folder", "path": "{data}/photos"},
    "sensor": "rgb",
    "bands": ["red", "green", "blue"],
    "units": {"unit": "uint8"},
    "splits": {"method": "random"},
}


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Run the command on the demo; returns (status, what it printed, what it complained of)."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "mine.py").write_text(SQUASHED)
    mine = {"kind": "entrypoint", "entrypoint": f"{tmp_path}/mine.py:build"}
    config = {
        "extra_backbones": {"mine": mine},
        "extra_datasets": {"photos": PHOTOS},
        "results": str(tmp_path / "results"),
    }
    random = np.random.default_rng(0)
    for number in range(24):
        path = tmp_path / "photos" / ("field", "water")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (16, 16, 3), np.uint8)).save(path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))

    def run(name: str, *options: str, dataset: str = "photos"):
        places = ["--config", str(tmp_path / "config.yaml"), "--data", str(tmp_path)]
        status = main(["check", name, "--dataset", dataset, *places, *options])
        printed = capsys.readouterr()
        return status, " ".join(printed.out.split()), printed.err

    return run


def test_a_batch_is_fed_and_said_to_be_sound(check, tmp_path):
    status, said, _ = check("rcf", "--images", "4")
    assert status == 0 and "fed 4 images, tensor (4, 3, 224, 224), float32" in said
    assert "features (4, 512), pooling mean" in said and "nothing strange was found" in said
    assert "differ by 0.0e+00 of the largest" in said and "channel mean deviation" in said
    assert "4 images of each split, prepared for this check" in said
    # nothing is left behind in the results
    assert not (tmp_path / "results").exists()


def test_the_normalisation_is_said_and_stored_values_of_baselines_are_not_doubted(check):
    _, said, _ = check("imagestats", "--images", "4")
    assert "values as they are stored value red stored value green stored" in said
    assert "nothing strange was found" in said
    _, said, _ = check("mobilenetv2-untrained", "--images", "4")
    assert "values (x - mean) / std, with the statistics of the weights" in said
    assert "assumed mean 0.5; std 0.5; unit unit_interval" in said
    assert "value red (stored - 127.5) x 0.00784314" in said and "nothing strange" in said


def test_unusual_channels_and_doubts_about_bands_are_said(check, tmp_path):
    for path in (tmp_path / "photos").rglob("*.png"):
        grey = np.asarray(Image.open(path)) // 4 + 190
        Image.fromarray(grey[..., :1].repeat(3, axis=2)).save(path)
    _, said, _ = check("mobilenetv2-untrained", "--images", "4")
    assert "look at: unusual input: red 0.7" in said and "green 0.7" in said
    assert "look at: red, green and blue hold the same values, each as often" in said


@pytest.mark.slow
def test_maps_of_a_dense_task_are_shown(check):
    status, said, _ = check("resnet50-untrained", "--images", "2", dataset="demo-segmentation")
    assert status == 0 and "map layer4 (2, 2048, 7, 7)" in said
    assert "look at: fewer than three images" in said


def test_features_that_collapse_or_mix_the_batch_are_doubted(check):
    status, said, _ = check("mine", "--images", "4")
    assert status == 0 and "lie in one point or on one line" in said
    assert "depend on the other images of its batch" in said


@pytest.mark.parametrize(
    ("name", "options", "dataset", "words"),
    [
        ("nosuch", [], "photos", "there is no backbone 'nosuch'"),
        ("rcf", [], "nosuch", "there is no dataset 'nosuch'"),
        ("croma-base", [], "photos", "has no band 'B1'"),
        ("rcf", ["--images", "0"], "photos", "--images 0 must be at least 1"),
        ("mobilenetv2-imagenet", [], "photos", "the weights file does not exist"),
    ],
)
def test_what_would_stop_a_run_is_one_error(check, name, options, dataset, words):
    status, _, complained = check(name, *options, dataset=dataset)
    assert status == 1 and words in complained and "Traceback" not in complained
