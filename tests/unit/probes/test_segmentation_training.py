"""The segmentation probe end to end on made-up maps: learning, seeds, choices, ignored pixels, tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stages.probe_jobs import run_probe
from helpers.stores.devices import waits_in_epochs
from helpers.stores.maps import (
    FINGERPRINT,
    SEGMENTATION,
    confusion,
    run,
    separable,
    spec,
    toy_stores,
    write_maps,
)
from permafrost.core import device as device_module
from permafrost.core.errors import PermafrostError
from permafrost.metrics.segmentation import evaluate
from permafrost.probes.dense import map_stream as order
from permafrost.probes.dense.head_trainer import COPIES
from permafrost.probes.dense.map_splits import MaskSplit
from permafrost.probes.dense.map_stream import MapStream
from permafrost.probes.dense.mask_scoring import confusion_per_image
from permafrost.probes.segmentation import probe as probe
from permafrost.probes.segmentation.probe import MaskTrainer

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def weights(monkeypatch):
    """The weights of every head that is fitted, in order."""
    seen, whole = [], MaskTrainer.fit

    def fit(self):
        fitted = whole(self)
        seen.append([p.detach().clone() for p in fitted.head.state_dict().values()])
        return fitted

    monkeypatch.setattr(MaskTrainer, "fit", fit)
    return seen


def same(first, second) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("head", ["linear", "conv_block", "fpn"])
def test_a_head_learns_what_the_maps_say(toy, tmp_path, head, device):
    table, metadata = run(toy, tmp_path, head=head, epochs=8, learning_rate=0.05, device=device)
    assert evaluate(confusion(table).sum(axis=0))["mean_iou"] > 0.75
    log = metadata["settings"]["epochs_log"]
    assert [entry["epoch"] for entry in log] == list(range(1, 9))
    assert log[-1]["train_loss"] < 0.6 * log[0]["train_loss"]
    assert log[-1]["val_mean_iou"] > 0.7


@pytest.mark.parametrize("device", DEVICES)
def test_dpt_learns_what_the_maps_say(tmp_path, device):
    stores = toy_stores(tmp_path / "stores", grids=(2, 4, 8, 16))
    table, metadata = run(stores, tmp_path, head="dpt", epochs=4, learning_rate=0.02, device=device)
    assert evaluate(confusion(table).sum(axis=0))["mean_iou"] > 0.75
    assert metadata["settings"]["layers"] == ["layer4", "layer3", "layer2", "layer1"]


@pytest.mark.parametrize("precision", ["bf16"])
def test_reduced_precision_is_recorded_and_learns(toy, tmp_path, precision):
    table, metadata = run(toy, tmp_path, epochs=8, learning_rate=0.05, precision=precision)
    assert metadata["settings"]["precision"] == precision
    assert evaluate(confusion(table).sum(axis=0))["mean_iou"] > 0.75


def test_kept_and_streamed_training_give_the_same_weights(toy, tmp_path, weights, monkeypatch):
    monkeypatch.setattr(order, "WINDOW_BYTES", 1)
    ways, kept, streamed = [], MapStream._from_memory, MapStream._from_store
    monkeypatch.setattr(
        MapStream, "_from_memory", lambda self, x: ways.append("kept") or kept(self, x)
    )
    monkeypatch.setattr(
        MapStream, "_from_store", lambda self, x: ways.append("streamed") or streamed(self, x)
    )
    tables = []
    for memory, way in ((2**40, "kept"), (0, "streamed")):
        tables.append(run(toy, tmp_path, head="conv_block", memory=memory))
        # the test split is read once, and never kept
        assert way in ways[:-1] and {*ways[:-1]} == {way} and ways[-1] == "streamed"
        ways.clear()
    assert same(*weights)
    assert tables[0][0].equals(tables[1][0]) and tables[0][1] == tables[1][1]


def test_seeds_reproduce_and_differ_whatever_ran_before(toy, tmp_path, weights):
    for seed in (0, 0, 1):
        torch.manual_seed(np.random.default_rng().integers(2**31))
        run(toy, tmp_path, seed=seed)
    assert same(weights[0], weights[1]) and not same(weights[0], weights[2])


def test_global_random_state_and_switches_are_left_alone(tmp_path):
    stores = toy_stores(tmp_path / "stores", grids=(2, 4, 8, 16), counts=(8, 4, 4))
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    grad, matmul = torch.is_grad_enabled(), torch.backends.mkldnn.matmul.fp32_precision
    run(stores, tmp_path, head="dpt", epochs=1)
    assert torch.equal(before[0], torch.random.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])
    assert torch.is_grad_enabled() == grad
    assert torch.backends.mkldnn.matmul.fp32_precision == matmul


def test_the_learning_rate_is_chosen_on_validation(toy, tmp_path, weights):
    rates = [1e-5, 0.05, 1e-4]
    _, metadata = run(toy, tmp_path, learning_rate=rates, epochs=3)
    settings = metadata["settings"]
    assert [entry["learning_rate"] for entry in settings["grid"]] == rates
    values = [entry["val_mean_iou"] for entry in settings["grid"]]
    assert settings["learning_rate"] == rates[int(np.argmax(values))] == 0.05
    assert settings["epochs_log"][0]["learning_rate"] == 0.05
    assert "best_learning_rate_on_edge" in metadata["gates"]
    run(toy, tmp_path, learning_rate=0.05, epochs=3)
    assert same(*weights)  # as if it had been the only one


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("select", ["last", "best"])
def test_rates_that_share_batches_train_as_if_each_were_alone(
    tmp_path, weights, monkeypatch, select, device
):
    """Also dropout, and if memory for the heads of two rates of three, or of one, is left."""
    rates = [0.003, 0.05, 0.01]
    how = {"head": "dpt", "epochs": 2, "select": select, "device": device}
    stores = toy_stores(tmp_path / "stores", grids=(2, 4, 8, 16), counts=(10, 4, 2))
    alone = [run(stores, tmp_path, learning_rate=[rate], **how)[1]["settings"] for rate in rates]
    passes, whole = [], MapStream.shuffled
    monkeypatch.setattr(
        MapStream, "shuffled", lambda self, *which: passes.append(which) or whole(self, *which)
    )
    of_two = 2 * COPIES * 4 * alone[0]["parameters"]
    found = []
    for memory, groups in ((2**30, 1), (of_two, 2), (of_two - 1, 3), (0, 3)):
        found.append(run(stores, tmp_path, learning_rate=rates, memory=memory, **how))
        assert len(passes) == 2 * groups
        passes.clear()
    best = max(alone, key=lambda one: one["grid"][0]["val_mean_iou"])
    for table, metadata in found:
        assert table.equals(found[0][0]) and metadata == found[0][1]
        assert metadata["settings"]["grid"] == [one["grid"][0] for one in alone]
        assert metadata["settings"]["epochs_log"] == best["epochs_log"]
    assert all(same(one, weights[alone.index(best)]) for one in weights[3:])


def test_a_rate_that_diverges_next_to_others_is_named(toy, tmp_path):
    with pytest.raises(PermafrostError, match=r"batch \d+ at learning rate 1e\+30: the head's"):
        run(toy, tmp_path, learning_rate=[0.01, 1e30], schedule="constant", epochs=4)
    assert not list(tmp_path.glob("*.parquet"))


def test_the_best_epoch_is_kept_if_asked_for(toy, tmp_path, monkeypatch):
    scores = iter([0.3, 0.9, 0.9, 0.1])
    monkeypatch.setattr(MaskTrainer, "_validate", lambda *_: [(1.0, next(scores))])
    _, metadata = run(toy, tmp_path, epochs=4, select="best")
    assert metadata["settings"]["epoch"] == 2
    scores = iter([0.3, 0.9, 0.9, 0.1])
    _, metadata = run(toy, tmp_path, epochs=4, select="last")
    assert metadata["settings"]["epoch"] == 4


def test_the_best_epoch_has_the_weights_of_that_epoch(toy, tmp_path, weights, monkeypatch):
    run(toy, tmp_path, epochs=2, schedule="constant")
    scores = iter([0.3, 0.9, 0.2])
    monkeypatch.setattr(MaskTrainer, "_validate", lambda *_: [(1.0, next(scores))])
    run(toy, tmp_path, epochs=3, schedule="constant", select="best")
    assert same(*weights)


def test_a_batch_of_ignored_pixels_changes_nothing(tmp_path, weights, monkeypatch):
    """24 samples, and 8 more without labels that make batches of their own."""
    maps, masks = separable(24)
    more = [np.concatenate([m, np.full_like(m[:8], 50)]) for m in maps]
    blank = np.concatenate([masks, np.full_like(masks[:8], 255)])
    stores = toy_stores(tmp_path / "stores")
    monkeypatch.setattr(
        order.Windows,
        "shuffled",
        lambda self, *_: [np.arange(start, start + 8) for start in range(0, self.count, 8)],
    )
    for values, truth in ((maps, masks), (more, blank)):
        stores["train"] = write_maps(tmp_path / f"{len(truth)}.zarr", values, truth)
        run(stores, tmp_path)
    assert same(*weights)


def test_a_split_that_is_ignored_altogether_is_an_error(toy, tmp_path):
    maps, masks = separable(8)
    blank = write_maps(tmp_path / "blank.zarr", maps, np.full_like(masks, 255))
    with pytest.raises(PermafrostError, match="every pixel of every train mask"):
        run({**toy, "train": blank}, tmp_path)


def test_ignored_pixels_have_no_gradient():
    from permafrost.probes.segmentation.losses import Loss

    loss = Loss(
        "torch.nn.CrossEntropyLoss", {}, classes=3, ignore_index=255, device=torch.device("cpu")
    )
    logits = torch.randn(2, 3, 4, 4, requires_grad=True)
    masks = torch.randint(0, 3, (2, 4, 4))
    masks[0, :2] = 255
    loss(logits, masks).backward()
    assert (logits.grad[0, :, :2] == 0).all() and (logits.grad[0, :, 2:] != 0).all()


def test_the_losses_of_an_epoch_are_those_read_batch_by_batch(toy, tmp_path, monkeypatch):
    def plain(self, trainings, epoch):
        (one,) = trainings
        one.head.train()
        total, seen = 0.0, 0
        for batch in self.train.shuffled(self.seed, epoch):
            loss = self._loss(self._forward(one.head, batch), batch, "train")
            one.optimiser.zero_grad()
            loss.backward()
            one.optimiser.step()
            total, seen = total + float(loss.detach()) * len(batch.rows), seen + len(batch.rows)
        return [total / seen]

    together = run(toy, tmp_path, epochs=3)
    monkeypatch.setattr(MaskTrainer, "_epoch", plain)
    one_by_one = run(toy, tmp_path, epochs=3)
    assert together[0].equals(one_by_one[0])
    assert together[1]["settings"] == one_by_one[1]["settings"]


@pytest.mark.parametrize("memory", [None, 0])
def test_no_batch_waits_for_numbers_of_the_device(toy, tmp_path, monkeypatch, memory):
    """Also where pixels are ignored."""
    with waits_in_epochs(MaskTrainer, monkeypatch) as waits:
        run(toy, tmp_path, epochs=2, memory=memory)
    assert waits == [0, 0]


def test_nan_in_the_maps_stops_with_epoch_batch_and_cause_and_leaves_no_file(toy, tmp_path):
    maps, masks = separable(24)
    maps[1][5, 2, 0, 0] = np.nan
    broken = write_maps(tmp_path / "broken.zarr", maps, masks)
    with pytest.raises(
        PermafrostError,
        match=r"loss became nan in epoch 1, batch \d: the map of layer layer1 .*row 5",
    ):
        run({**toy, "train": broken}, tmp_path, epochs=1)
    assert not list(tmp_path.glob("*.parquet"))


def test_a_loss_that_diverges_stops_with_epoch_and_cause(toy, tmp_path):
    with pytest.raises(PermafrostError, match=r"in epoch \d+, (validation )?batch \d+: the head's"):
        run(toy, tmp_path, learning_rate=1e30, schedule="constant", epochs=4)
    with pytest.raises(PermafrostError, match=r"loss became nan in epoch 1, batch 1: torch.nn"):
        weighted = {"name": "torch.nn.CrossEntropyLoss", "arguments": {"weight": [0, 0, 0]}}
        run(toy, tmp_path, loss=weighted)
    assert not list(tmp_path.glob("*.parquet"))


def test_native_scoring_resizes_logits_once(tmp_path, weights, monkeypatch):
    """Masks twice as large as what was fed: the head's logits go straight to their size."""
    stores = toy_stores(tmp_path / "stores")
    maps, masks = separable(10, seed=2)
    large = masks.repeat(2, axis=1).repeat(2, axis=2)
    stores["test"] = write_maps(
        tmp_path / "large.zarr", maps, large, working=(16, 16), split="test"
    )
    kept, whole = [], probe.score

    def score(fitted, *arguments, **others):
        kept.append(fitted)
        whole(fitted, *arguments, **others)

    monkeypatch.setattr(probe, "score", score)
    table, _ = run(stores, tmp_path, epochs=1)
    split = MaskSplit(stores["test"])
    inputs = [torch.from_numpy(split.store.read(layer.array)).float() for layer in split.layers]
    with torch.no_grad():
        prediction = kept[0].head(inputs, (32, 32)).argmax(dim=1).numpy()
    for i in range(10):
        expected = np.bincount(large[i].ravel() * 3 + prediction[i].ravel(), minlength=9)
        np.testing.assert_array_equal(confusion(table)[i].ravel(), expected)


def test_confusion_per_image_equals_brute_force():
    rng = np.random.default_rng(0)
    truth, prediction = rng.integers(0, 5, (4, 9, 7)), rng.integers(0, 4, (4, 9, 7))
    truth[truth == 4] = 255
    truth[2] = 255
    found = confusion_per_image(torch.from_numpy(truth), torch.from_numpy(prediction), 4, 255)
    expected = np.zeros((4, 4, 4), int)
    for i, row, column in np.ndindex(truth.shape):
        if truth[i, row, column] != 255:
            expected[i, truth[i, row, column], prediction[i, row, column]] += 1
    np.testing.assert_array_equal(found, expected)


def test_an_ignore_value_that_is_a_class_counts_in_no_row(tmp_path):
    stores = toy_stores(tmp_path / "stores", ignore_index=1)
    table, metadata = run(stores, tmp_path)
    counted = confusion(table).sum(axis=(0, 2))
    assert counted[1] == 0 and (counted[[0, 2]] > 0).all() and metadata["ignore_index"] == 1


def test_a_class_without_train_pixels_is_a_gate_unless_it_is_dead(tmp_path):
    stores = toy_stores(tmp_path / "stores", classes=5, dead_classes=[4])
    _, metadata = run(stores, tmp_path, epochs=1)
    assert metadata["gates"] == ["class_missing_in_train:3"] and metadata["dead_classes"] == [4]


def test_validation_may_be_empty_only_if_nothing_is_chosen_on_it(toy, tmp_path):
    maps, masks = separable(2)
    empty = write_maps(tmp_path / "empty.zarr", [m[:0] for m in maps], masks[:0], split="val")
    _, metadata = run({**toy, "val": empty}, tmp_path)
    assert metadata["settings"]["epochs_log"][0]["val_mean_iou"] is None
    for changes in ({"select": "best"}, {"learning_rate": [0.1, 0.2]}):
        with pytest.raises(PermafrostError, match="validation, which has no sample"):
            run({**toy, "val": empty}, tmp_path, **changes)


@pytest.mark.parametrize("changes", [{"select": "best"}, {"learning_rate": [0.1, 0.2]}])
def test_nothing_is_chosen_on_a_validation_that_is_ignored_altogether(toy, tmp_path, changes):
    maps, masks = separable(3)
    ignored = write_maps(tmp_path / "ignored.zarr", maps, np.full_like(masks, 255), split="val")
    _, metadata = run({**toy, "val": ignored}, tmp_path)
    assert metadata["settings"]["epochs_log"][0]["val_mean_iou"] is None
    with pytest.raises(PermafrostError, match="validation, which has no pixel that is scored"):
        run({**toy, "val": ignored}, tmp_path, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "fp16"}, "fp16 needs a GPU"),
        ({"layers": ["layer9"]}, "no map of layer 'layer9'.*did you mean"),
        ({"head": "dpt"}, "toy, backbone made-up, head dpt, layers layer2, layer1.*exactly 4"),
        ({"learning_rate": 1e-7}, "below min_learning_rate"),
    ],
)
def test_options_that_cannot_work_are_refused(toy, tmp_path, changes, message):
    with pytest.raises(PermafrostError, match=message):
        run(toy, tmp_path, **changes)


def test_auto_is_a_gpu_only_where_torch_can_use_it(toy, tmp_path, monkeypatch):
    """A driver that shows a GPU is not enough: torch decides."""
    monkeypatch.setattr(device_module, "gpu_is_visible", lambda: True)
    monkeypatch.setattr(device_module, "torch_sees_gpu", lambda: False)
    run(toy, tmp_path, epochs=1, device="auto")
    monkeypatch.setattr(device_module, "torch_sees_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(PermafrostError, match="no device cuda"):
        run(toy, tmp_path, epochs=1, device="auto")


def test_stores_of_another_plan_or_without_maps_are_refused(toy, tmp_path):
    from permafrost.core.stores import write_store

    with write_store(tmp_path / "flat.zarr", fingerprint=FINGERPRINT) as writer:
        writer.array("embeddings", (2, 3), "float32", rows_per_chunk=2)[:] = 0
        writer.samples(MaskSplit(toy["val"]).samples.slice(0, 2))
    with pytest.raises(PermafrostError, match="no maps"):
        run({**toy, "train": tmp_path / "flat.zarr"}, tmp_path)
    other = spec(SEGMENTATION) | {"inputs": {"features": "0" * 32}}
    with pytest.raises(PermafrostError, match="another plan"):
        run_probe(other, toy, tmp_path / "x.parquet")
