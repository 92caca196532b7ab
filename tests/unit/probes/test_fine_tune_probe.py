"""The probe `fine_tune` end to end on made-up images: learning, what is recorded, what leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stages.fine_tune import Scenes, accuracy
from helpers.stages.specifications import specification
from permafrost.core.identity import fingerprint
from permafrost.core.tables import read_table
from permafrost.statistics.scores.score_table import score_predictions

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# mirror images turn the third kind of stripes into another
PLAIN = {"augmentation": {"flip": False, "rotate": False}}
LEARNS = {**PLAIN, "epochs": 12, "learning_rate": 0.01, "head_learning_rate": 0.05}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return Scenes(tmp_path_factory.mktemp("scenes"))


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    return Scenes(tmp_path_factory.mktemp("masked"), "segmentation")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("start", ["probe", "random"])
def test_a_small_set_is_learned(scenes, start, device):
    table, metadata = scenes.tune(**LEARNS, start=start, device=device)
    assert accuracy(table) == 1.0 == accuracy(table, 0)
    log = metadata["settings"]["epochs_log"]
    assert len(log) == 12 and log[-1]["train_loss"] < 0.3 * log[0]["train_loss"]
    np.testing.assert_allclose(np.stack(table["scores"].to_pylist()).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_masks_are_learned_by_head_and_backbone(masked, device):
    table, metadata = masked.tune(
        **{**LEARNS, "epochs": 15}, head="fpn", boundary=0.05, device=device
    )
    tuned, frozen = np.stack(table["setting_confusions"].to_pylist()).reshape(12, 2, 3, 3).sum(0)
    assert np.trace(tuned) / tuned.sum() > 0.95 and (tuned != frozen).any()
    confusion = np.stack(table["confusion"].to_pylist()).reshape(12, 3, 3).sum(axis=0)
    assert np.array_equal(confusion, tuned)
    assert metadata["layers"] == ["second", "first"] and metadata["settings"]["head"] == "fpn"
    assert {"boundary_union", "mask", "shown"} <= set(table.column_names)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_labels_and_numbers_are_learned_too(tmp_path, task):
    scenes = Scenes(tmp_path / task, task)
    table, metadata = scenes.tune(**LEARNS)
    target = np.array(table["target"].to_pylist())
    prediction = np.array(table["prediction"].to_pylist())
    if task == "multilabel":
        assert (target == prediction).mean() > 0.9
        assert len(table["setting_scores"][0]) == 2 * 3
    else:
        assert np.abs(target - prediction).mean() < 2.5
        assert len(table["setting_numbers"][0]) == 2
    value = metadata["settings"]["epochs_log"][-1]
    assert value["val_micro_ap" if task == "multilabel" else "val_r2"] > 0.8


def test_frozen_and_gain_are_scored_beside_the_fine_tuned_backbone(scenes, masked, tmp_path):
    for one, metric in ((scenes, "accuracy"), (masked, "mean_iou")):
        one.tune(**LEARNS, out="scored")
        output = tmp_path / "scores.parquet"
        options = {"resamples": 30, "confidence": 0.95, "method": "percentile", "seed": 0}
        spec = {
            "stage": "bootstrap",
            "dataset": "tiny",
            "options": options,
            "inputs": {"predictions": "f" * 32},
        }
        score_predictions(
            one.folder / "scored.parquet",
            output,
            spec=specification(spec),
            fingerprint=fingerprint("s"),
        )
        rows = [row for row in read_table(output)[0].to_pylist() if row["metric"] == metric]
        by = {row["setting"]: row for row in rows}
        assert list(by) == [None, "fine-tuned", "frozen", "fine-tuned minus frozen"]
        assert [row["primary"] for row in by.values()] == [True, False, False, False]
        gain = by["fine-tuned minus frozen"]
        assert gain["value"] == by["fine-tuned"]["value"] - by["frozen"]["value"]
        assert by[None]["value"] == by["fine-tuned"]["value"]
        assert gain["lower"] <= gain["value"] <= gain["upper"] and gain["gates"] == ""


def test_the_same_seed_gives_the_same_bytes_streamed_or_kept(scenes, masked):
    for one in (scenes, masked):
        files = []
        for out, memory, seed in (("a", None, 0), ("b", 0, 0), ("c", None, 1)):
            torch.manual_seed(len(files))
            one.tune(out=out, memory=memory, seed=seed, augmentation={"crop": [0.5, 1.0]})
            files.append((one.folder / f"{out}.parquet").read_bytes())
        assert files[0] == files[1] != files[2]


def test_nothing_global_is_changed(scenes):
    torch.manual_seed(5)
    before = torch.random.get_rng_state(), torch.is_grad_enabled(), torch.get_num_threads()
    scenes.tune()
    after = torch.random.get_rng_state(), torch.is_grad_enabled(), torch.get_num_threads()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]


def test_what_was_done_is_recorded(scenes):
    rates = [1e-3, 1e-4, 1e-5]
    _, metadata = scenes.tune(
        learning_rate=rates, head_learning_rate=[1e-2, 1e-3], layer_decay=0.5, precision="bf16"
    )
    settings = metadata["settings"]
    assert settings["learning_rates"] == rates and len(settings["val_scores"]) == 3
    assert settings["learning_rate"] in rates and 1 <= settings["epoch"] <= 3
    assert settings["precision"] == "bf16" and settings["batch_norm"] == "frozen"
    assert settings["augmentation"] == {"flip": True, "rotate": True, "crop": None}
    layers = settings["layer_rates"]
    assert [one["layer"] for one in layers] == ["first", "second", "head"]
    full = settings["learning_rate"]
    assert [one["learning_rate"] for one in layers[:2]] == [0.25 * full, 0.5 * full]
    # what the module keeps fixed is not counted
    counts = [8 * 28, 12 * 73, 3 * 13]
    assert [one["parameters"] for one in layers] == counts
    assert settings["trainable_parameters"] == sum(counts)
    frozen = settings["frozen"]
    assert frozen["head_learning_rate"] == settings["head_learning_rate"]
    assert len(frozen["grid"]) == 2 and len(frozen["epochs_log"]) == 3
    assert metadata["backbone_fingerprint"] == "b" * 32 and metadata["feature_dim"] == 12


def test_a_backbone_without_parameters_is_scored_as_it_is(scenes):
    table, metadata = scenes.tune({"kind": "rcf", "features": 8}, head_learning_rate=0.05)
    assert "nothing_to_fine_tune" in metadata["gates"]
    assert accuracy(table, 0) == accuracy(table, 1)
    assert metadata["settings"]["epochs_log"] == []


def test_the_last_epoch_is_scored_where_that_is_wished_for(scenes):
    _, metadata = scenes.tune(select="last")
    assert metadata["settings"]["epoch"] == 3 == metadata["settings"]["frozen"]["epoch"]
