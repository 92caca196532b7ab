"""Heads for masks of change are chosen by the metric that the task is ranked by."""

from __future__ import annotations

import types

import pytest
import torch
from helpers.stores.maps import run, separable, write_maps
from permafrost.core.errors import PermafrostError
from permafrost.probes.dense.mask_scoring import MaskScore, MaskTask


@pytest.fixture
def stores(tmp_path) -> dict:
    """Stores of change: pixels of one class in three."""
    made = {}
    for seed, (split, count) in enumerate({"train": 16, "val": 6, "test": 6}.items()):
        maps, masks = separable(count, seed=seed)
        changed = (masks == 1).astype("uint8")
        path = tmp_path / f"{split}.zarr"
        made[split] = write_maps(path, maps, changed, classes=2, split=split, task="change")
    return made


def scored(task: str, truth: list[int], predicted: list[int]) -> float | None:
    score = MaskScore(MaskTask(task, 2, None, ()))
    logits = torch.nn.functional.one_hot(torch.tensor(predicted), 2).float()
    batch = types.SimpleNamespace(masks=torch.tensor(truth)[None, None])
    score.add(batch, logits.T[None, :, None])
    return score.value()


def test_each_task_is_scored_by_its_primary_metric():
    truth, predicted = [0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 0, 1, 1]
    assert scored("change", truth, predicted) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert scored("segmentation", truth, predicted) == pytest.approx((4 / 6 + 2 / 4) / 2)
    assert scored("change", [0, 0], [0, 0]) is None and scored("change", [0, 0], [0, 1]) == 0


def test_the_epoch_is_that_of_the_best_f1_of_change(stores, tmp_path):
    options = {"select": "best", "epochs": 5, "learning_rate": [0.3, 0.01], "schedule": "constant"}
    _, metadata = run(stores, tmp_path / "run", **options)
    log, epoch = metadata["settings"]["epochs_log"], metadata["settings"]["epoch"]
    values = [one["val_change_f1"] for one in log]
    assert values[epoch - 1] == max(values) > 0.5
    grid = {one["learning_rate"]: one["val_change_f1"] for one in metadata["settings"]["grid"]}
    assert grid[metadata["settings"]["learning_rate"]] == max(grid.values()) == max(values)


def test_nothing_is_chosen_where_validation_shows_no_change(stores, tmp_path):
    for split in ("train", "val"):
        maps, masks = separable(8)
        path = tmp_path / f"same-{split}.zarr"
        stores[split] = write_maps(path, maps, 0 * masks, classes=2, split=split, task="change")
    with pytest.raises(PermafrostError, match="validation, which has no changed pixel"):
        run(stores, tmp_path / "run", select="best", epochs=30, learning_rate=0.05)
