"""Profiles that cannot be made: one clear error, and nothing left behind."""

from __future__ import annotations

import json

import pytest
import torch
from helpers.backbones import validated
from helpers.stages.profiling import CONVOLUTION, card_in, profile, spec_of, toy
from helpers.stores.images import Dataset
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json
from permafrost.features.running import Run
from permafrost.plan.sources import code_hash
from permafrost.plan.validation import validate
from permafrost.stages.cli import main

FAILING = CONVOLUTION.replace("self.convolution(images).relu()", "self.linear(images)")
SMALLEST = {"backbones": ["rcf"], "datasets": ["demo-landcover"], "probes": {}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "profile.batch_size: 0"),
        ({"repeats": 2}, "profile.repeats: 2"),
        ({"latency_repeats": 0}, "profile.latency_repeats: 0"),
        ({"warm_up": 0}, "profile.warm_up: 0"),
        ({"threads": 0}, "profile.threads: 0"),
    ],
)
def test_too_few_is_refused_by_configuration_and_stage(tmp_path, options, message):
    with pytest.raises(PermafrostError, match=message):
        profile(tmp_path, toy(tmp_path), **options)
    with pytest.raises(PermafrostError, match=f"profile.{next(iter(options))}"):
        validate({**SMALLEST, "profile": options}, "config", where="config.yaml")


@pytest.mark.parametrize("options", [{"most_seconds": 0}, {"batch": 4}, {"threads": "all"}, True])
def test_what_cannot_be_meant_is_refused_by_the_configuration(options):
    with pytest.raises(PermafrostError, match="profile"):
        validate({**SMALLEST, "profile": options}, "config", where="config.yaml")


def test_a_gpu_that_is_not_there_is_refused(tmp_path):
    name = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(PermafrostError, match=rf"there is no device {name} .*use device: auto"):
        profile(tmp_path, toy(tmp_path), device=name)


def test_a_backbone_that_fails_in_its_forward_pass_is_named_and_leaves_no_table(tmp_path, capsys):
    spec = canonical_json(spec_of(validated(toy(tmp_path, FAILING))))
    output = tmp_path / "out/profile.parquet"
    command = [
        "profile",
        "--spec",
        spec,
        "--code",
        code_hash("profile", json.loads(spec)),
        "--device",
        "cpu",
    ]
    command += ["--card", str(card_in(tmp_path)), "--output", str(output)]
    assert main(command) == 1
    assert "backbone tried: the forward pass failed on a batch" in capsys.readouterr().err
    assert not output.parent.exists()


def test_a_backbone_that_cannot_be_built_is_named(tmp_path):
    with pytest.raises(PermafrostError, match="the function failed: ValueError: no weights"):
        profile(tmp_path, toy(tmp_path, "def build(plan):\n    raise ValueError('no weights')\n"))


def test_too_large_a_batch_says_which_option_to_lower(tmp_path, monkeypatch):
    def full(self, images):
        try:
            raise torch.OutOfMemoryError("full")
        except torch.OutOfMemoryError as error:
            raise PermafrostError("no memory", remedy="runtime.batch_size") from error

    monkeypatch.setattr(Run, "outputs", full)
    with pytest.raises(PermafrostError, match="reduce profile.batch_size"):
        profile(tmp_path, toy(tmp_path))


def test_a_card_of_another_plan_and_weights_that_changed_are_refused(tmp_path):
    with pytest.raises(PermafrostError, match="made from another plan"):
        profile(tmp_path, toy(tmp_path), card=card_in(tmp_path, fingerprint="0" * 32))
    (tmp_path / "w.pt").write_bytes(b"weights")
    source = CONVOLUTION.replace("def build(plan)", "def build(plan, weights)")
    entry = toy(tmp_path, source, weights={"source": "file", "path": str(tmp_path / "w.pt")})
    with pytest.raises(PermafrostError, match=r"w\.pt changed since"):
        profile(tmp_path, entry, files={str(tmp_path / "w.pt"): "0" * 64})


def test_a_store_of_another_length_than_the_card_says_is_refused(tmp_path):
    data = Dataset(tmp_path, counts=(5, 2, 2))
    entry = {"kind": "rcf", "features": 8, "mode": "empirical"}
    with pytest.raises(PermafrostError, match="the store has 5 images, the card says 6"):
        profile(
            tmp_path,
            entry,
            card=card_in(tmp_path, size=(32, 32)),
            images=lambda: {"train": data.folder / "train.zarr"},
        )


def test_a_missing_band_is_refused_before_anything_is_built(tmp_path):
    entry = toy(tmp_path, "raise SystemExit", input={"bands": ["red", "B11"]})
    with pytest.raises(PermafrostError, match="has no band 'B11'"):
        profile(tmp_path, entry)
