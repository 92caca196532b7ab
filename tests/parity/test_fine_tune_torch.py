"""Fine-tuning against loops written by hand with torch's own optimiser."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from helpers.stages.fine_tune import Scenes
from permafrost.backbones.backbone import isolated_seed
from permafrost.core.identity import derive_seed
from torch import nn
from torch.nn import functional

SEED = derive_seed("tiny", "toy", "tune", 0)
ALL = 24  # images of train: one batch
PLAIN = {
    "augmentation": {"flip": False, "rotate": False}, "batch_size": ALL, "schedule": "constant",
    "warmup_epochs": 0, "select": "last", "start": "random", "weight_decay": 0.1,
}  # fmt: skip


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return Scenes(tmp_path_factory.mktemp("scenes"))


def network(scenes: Scenes) -> nn.Module:
    """The backbone as an entry without a seed draws it."""
    spec = importlib.util.spec_from_file_location("toy_by_hand", scenes.folder / "toy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with isolated_seed(0):
        return module.build([0, 1, 2]).eval()


def images(scenes: Scenes, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Prepared by hand: the card says mean 100, std 50."""
    import zarr

    group = zarr.open_group(scenes.folder / f"{split}.zarr", mode="r")
    pixels = torch.from_numpy(group["images"][:]).float()
    return (pixels - 100) / 50, torch.from_numpy(group["labels"][:])


def fresh_head(features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, nn.Linear]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        spread = features.std(dim=0, correction=0)
        return features.mean(dim=0), spread.clamp_min(0.01 * float(spread.max())), nn.Linear(12, 3)


def scores(table) -> np.ndarray:
    return np.stack(table["scores"].to_pylist())


@pytest.mark.parametrize("clip", [None, 0.05])
def test_full_batch_steps_are_those_of_a_loop_written_by_hand(scenes, clip):
    table, metadata = scenes.tune(
        **PLAIN,
        epochs=3,
        clip_norm=clip,
        learning_rate=0.01,
        head_learning_rate=0.02,
        layer_decay=0.5,
    )
    model, (x, y), (test, _) = network(scenes), images(scenes, "train"), images(scenes, "test")
    with torch.no_grad():
        mean, scale, head = fresh_head(model(x).mean(dim=(2, 3)))
    parts = [(model.first, 0.01 * 0.25), (model.second, 0.01 * 0.5), (head, 0.02)]
    groups = [
        {"params": [parameter], "lr": rate, "weight_decay": 0.1 * (parameter.ndim > 1)}
        for part, rate in parts
        for parameter in part.parameters()
    ]
    optimiser, losses = torch.optim.AdamW(groups, foreach=False), []
    for _ in range(3):
        loss = functional.cross_entropy(head((model(x).mean(dim=(2, 3)) - mean) / scale), y)
        optimiser.zero_grad()
        loss.backward()
        if clip is not None:
            learned = [parameter for group in groups for parameter in group["params"]]
            norm = torch.stack([p.grad.norm() for p in learned]).norm()
            assert norm > clip
            for parameter in learned:
                parameter.grad *= clip / (norm + 1e-6)
        optimiser.step()
        losses.append(loss.item())
    log = metadata["settings"]["epochs_log"]
    np.testing.assert_allclose([one["train_loss"] for one in log], losses, rtol=1e-5)
    with torch.no_grad():
        expected = head((model(test).mean(dim=(2, 3)) - mean) / scale).softmax(dim=1)
    np.testing.assert_allclose(scores(table), expected.numpy(), atol=2e-5)


def test_without_steps_of_the_backbone_the_head_learns_from_the_features_of_extract(scenes):
    """Learning rate 0 of the backbone: the answers are those of the head on frozen features."""
    table, metadata = scenes.tune(
        **{**PLAIN, "batch_size": 8},
        epochs=4,
        head_epochs=4,
        clip_norm=None,
        learning_rate=0.0 + 1e-30,
        head_learning_rate=0.02,
    )
    frozen = metadata["settings"]["frozen"]["epochs_log"]
    np.testing.assert_allclose(
        [one["train_loss"] for one in metadata["settings"]["epochs_log"]],
        [one["train_loss"] for one in frozen],
        rtol=1e-5,
    )
    answers = np.stack(table["setting_predictions"].to_pylist())
    assert np.array_equal(answers[:, 0], answers[:, 1])


def test_the_frozen_head_is_one_that_is_trained_on_extracted_features(scenes):
    _, metadata = scenes.tune(
        **PLAIN, epochs=1, head_epochs=5, clip_norm=None, head_learning_rate=0.02
    )
    features = scenes.extract()
    x = torch.from_numpy(features["train"])
    _, labels = images(scenes, "train")
    mean, scale, head = fresh_head(x)
    losses = []
    optimiser = torch.optim.AdamW(
        [
            {"params": [head.weight], "weight_decay": 0.1},
            {"params": [head.bias], "weight_decay": 0.0},
        ],
        lr=0.02,
        foreach=False,
    )
    for _ in range(5):
        loss = functional.cross_entropy(head((x - mean) / scale), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    log = metadata["settings"]["frozen"]["epochs_log"]
    np.testing.assert_allclose([one["train_loss"] for one in log], losses, rtol=1e-5)
