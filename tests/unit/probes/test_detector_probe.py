"""The detection probe end to end on made-up maps: learning, seeds, choices, gates."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from helpers.stores.devices import waits_in_epochs
from helpers.stores.objects import (
    LEARNS,
    NOTHING,
    boxes_of,
    certain,
    detections,
    run,
    scatter,
    toy_stores,
    write_toy,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import Objects, objects_of
from permafrost.evaluators.detection import evaluate
from permafrost.probes.dense import map_stream as order
from permafrost.probes.detection.detection_trainer import DetectionTrainer
from permafrost.probes.detection.object_splits import ObjectSplit

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def toy_points(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("points"), points=True)


@pytest.fixture
def weights(monkeypatch):
    """The weights of every head that is fitted, in order."""
    seen, whole = [], DetectionTrainer.fit

    def fit(self):
        fitted = whole(self)
        seen.append([p.detach().clone() for p in fitted.head.state_dict().values()])
        return fitted

    monkeypatch.setattr(DetectionTrainer, "fit", fit)
    return seen


def same(first, second) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_a_head_learns_what_the_maps_say(tmp_path_factory, tmp_path, device):
    """Scored on the images of train by the evaluator, from the folder as it is."""
    # the same seed: the same images
    stores = toy_stores(tmp_path_factory.mktemp("twice"), counts=(40, 10, 40), seeds=(0, 1, 0))
    _, metadata = run(stores, tmp_path, device=device, coco=tmp_path / "coco", **LEARNS)
    found = evaluate(
        str(tmp_path / "coco/truth.json"), str(tmp_path / "coco/detections.json"), iou_type="bbox"
    )
    assert found.stats[1] > 0.9 and found.stats[0] > 0.5
    log = metadata["settings"]["epochs_log"]
    assert [entry["epoch"] for entry in log] == list(range(1, 26))
    assert log[-1]["train_loss"] < 0.6 * log[0]["train_loss"]
    assert log[-1]["val_ap"] > 0.5 and 0.05 < metadata["settings"]["score_threshold"] < 0.95
    assert metadata["gates"] == []


@pytest.mark.parametrize("device", DEVICES)
def test_points_are_learned_too(toy_points, tmp_path, device):
    table, metadata = run(toy_points, tmp_path, device=device, **LEARNS)
    assert metadata["settings"]["epochs_log"][-1]["val_ap"] > 0.9
    assert metadata["settings"]["strides"] == [16, 8]
    for truth, row in zip(objects_of(table["objects"]), certain(table, metadata), strict=True):
        boxes = boxes_of(row).reshape(-1, 4)
        assert (boxes[:, :2] == boxes[:, 2:]).all() and len(boxes) == len(truth)
        for centre in truth.centres:
            assert np.hypot(*(boxes[:, :2] - centre).T).min() < 4


def test_no_batch_waits_for_numbers_of_the_device(toy, toy_points, tmp_path, monkeypatch):
    for stores in (toy, toy_points):
        with waits_in_epochs(DetectionTrainer, monkeypatch) as waits:
            run(stores, tmp_path, epochs=2)
        assert waits == [0, 0]


@pytest.mark.parametrize("changes", [{"box_loss": "iou"}, {"precision": "bf16"}, {"depth": 2}])
def test_other_options_learn(toy, tmp_path, changes):
    _, metadata = run(toy, tmp_path, **{**LEARNS, **changes})
    assert metadata["settings"]["epochs_log"][-1]["val_ap"] > 0.4
    assert metadata["settings"]["precision"] == changes.get("precision", "fp32")


def test_one_coarse_map_is_enlarged_until_small_objects_are_found(tmp_path):
    stores = toy_stores(tmp_path / "stores", grids=(8,), size=(128, 128), counts=(12, 4, 4))
    _, metadata = run(stores, tmp_path, epochs=1)
    assert metadata["settings"]["strides"] == [16, 8]
    _, metadata = run(stores, tmp_path, epochs=1, finest_stride=32)
    assert metadata["settings"]["strides"] == [32]


@pytest.mark.parametrize("kind", ["toy", "toy_points"])
def test_kept_and_streamed_training_give_the_same_bytes(
    kind, tmp_path, weights, monkeypatch, request
):
    monkeypatch.setattr(order, "WINDOW_BYTES", 1)
    stores = request.getfixturevalue(kind)
    for memory in (2**40, 0):
        run(stores, tmp_path, memory=memory, coco=tmp_path / f"coco{memory}")
    assert same(*weights)
    outputs = sorted(tmp_path.glob("*.parquet")), sorted(tmp_path.glob("coco*/detections.json"))
    for first, second in outputs:
        assert first.read_bytes() == second.read_bytes()


def test_seeds_reproduce_and_differ_whatever_ran_before(toy, tmp_path, weights):
    for seed in (0, 0, 1):
        torch.manual_seed(np.random.default_rng().integers(2**31))
        run(toy, tmp_path, seed=seed)
    assert same(weights[0], weights[1]) and not same(weights[0], weights[2])


def test_global_random_state_and_switches_are_left_alone(toy, tmp_path):
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    grad, matmul = torch.is_grad_enabled(), torch.backends.mkldnn.matmul.fp32_precision
    run(toy, tmp_path, epochs=1)
    assert torch.equal(before[0], torch.random.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])
    assert torch.is_grad_enabled() == grad
    assert torch.backends.mkldnn.matmul.fp32_precision == matmul


def test_the_learning_rate_is_chosen_on_validation(toy, tmp_path, weights):
    rates = [1e-5, 0.03, 1e-4]
    _, metadata = run(toy, tmp_path, learning_rate=rates, epochs=6)
    settings = metadata["settings"]
    values = [entry["val_ap"] for entry in settings["grid"]]
    assert settings["learning_rate"] == rates[int(np.argmax(values))] == 0.03
    assert "best_learning_rate_on_edge" in metadata["gates"]
    run(toy, tmp_path, learning_rate=0.03, epochs=6)
    assert same(*weights)  # as if it had been the only one


def test_the_best_epoch_is_kept_if_asked_for(toy, tmp_path, monkeypatch):
    for select, epoch in (("best", 2), ("last", 4)):
        scores = iter([0.3, 0.9, 0.9, 0.1])
        monkeypatch.setattr(
            DetectionTrainer, "_validate", lambda *_, scores=scores: (1.0, next(scores))
        )
        _, metadata = run(toy, tmp_path, epochs=4, select=select)
        assert metadata["settings"]["epoch"] == epoch


def test_a_given_score_threshold_is_taken_and_needs_no_validation(toy, tmp_path):
    empty = write_toy(tmp_path / "empty.zarr", [], split="val")
    stores = {**toy, "val": empty}
    _, metadata = run(stores, tmp_path, score_threshold=0.25)
    assert metadata["settings"]["score_threshold"] == 0.25
    assert metadata["settings"]["epochs_log"][0]["val_ap"] is None
    with pytest.raises(PermafrostError, match="score_threshold is chosen on validation"):
        run(stores, tmp_path)
    with pytest.raises(PermafrostError, match="validation, which has no sample"):
        run(stores, tmp_path, score_threshold=0.25, select="best")


def test_nothing_is_chosen_on_a_validation_without_objects(toy, tmp_path):
    bare = write_toy(tmp_path / "bare.zarr", [NOTHING] * 3, split="val")
    for changes in ({"select": "best"}, {"learning_rate": [0.1, 0.2]}):
        with pytest.raises(PermafrostError, match="validation, which has no object"):
            run({**toy, "val": bare}, tmp_path, score_threshold=0.5, **changes)


def test_train_without_any_object_is_refused(toy, tmp_path):
    crowd = Objects.of([[0, 0, 30, 30]], [0], crowd=[True])
    bare = write_toy(tmp_path / "bare.zarr", [NOTHING, crowd])
    with pytest.raises(PermafrostError, match="no train image has an object"):
        run({**toy, "train": bare}, tmp_path)
    tiny = write_toy(tmp_path / "tiny.zarr", [Objects.of([[1, 1, 2, 2]], [0])] * 2)
    with pytest.raises(PermafrostError, match="no training object covers the centre of a cell"):
        run({**toy, "train": tiny}, tmp_path)


def test_images_without_objects_and_classes_that_do_not_occur_are_no_obstacle(toy, tmp_path):
    rng = np.random.default_rng(0)
    images = [scatter(rng, (64, 64), classes=1) for _ in range(12)] + [NOTHING] * 9
    train = write_toy(tmp_path / "train.zarr", images)
    bare = write_toy(tmp_path / "bare.zarr", [NOTHING] * 4, split="test")
    table, metadata = run({**toy, "train": train, "test": bare}, tmp_path)
    assert metadata["gates"] == ["class_missing_in_train:1"] or "no_detections" in metadata["gates"]
    assert len(table) == 4 and set(table["shown"].to_pylist()) <= {"drawn", None}


def test_objects_too_small_for_the_cells_and_silence_are_gates(toy, tmp_path):
    small = Objects.of([[1, 1, 2, 2], [20, 20, 50, 50]], [0, 1])
    train = write_toy(tmp_path / "train.zarr", [small] * 8)
    _, metadata = run(
        {**toy, "train": train}, tmp_path, epochs=1, learning_rate=1e-6, nms_threshold=0.0
    )
    assert "objects_without_cell" in metadata["gates"]
    assert metadata["settings"]["objects"] == {"learned": 16, "without_cell": 8}


def test_no_detections_at_all_is_a_gate(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("permafrost.probes.detection.decode.LEAST_SCORE", 1.0)
    table, metadata = run(toy, tmp_path, epochs=1, coco=tmp_path / "coco")
    assert {"no_detections", "nothing_found_on_validation"} <= set(metadata["gates"])
    assert detections(table) == [[]] * 12
    assert json.loads((tmp_path / "coco/detections.json").read_text()) == []


def test_one_class_is_enough(tmp_path):
    stores = toy_stores(tmp_path / "stores", classes=1)
    table, metadata = run(stores, tmp_path, **LEARNS)
    assert metadata["settings"]["epochs_log"][-1]["val_ap"] > 0.5
    assert {each["class"] for row in detections(table) for each in row} == {0}


def test_cells_in_a_crowd_have_no_gradient(tmp_path):
    from permafrost.probes.detection.detection_trainer import detection_loss
    from permafrost.probes.detection.model import Output
    from permafrost.probes.detection.pyramid import plan_pyramid
    from permafrost.probes.detection.stitching import shown_objects
    from permafrost.probes.detection.targets import assign

    box = Objects.of([[2, 2, 30, 30], [32, 32, 64, 64]], [0, 1], crowd=[False, True])
    split = ObjectSplit(write_toy(tmp_path / "x.zarr", [box]))
    pyramid = plan_pyramid(split.layers[1:], split.working_size, 8, sized=True)
    targets = assign(shown_objects(split), pyramid, split.shape)
    logits = torch.randn(1, 64, 2, requires_grad=True)
    places = torch.rand(1, 64, 4, requires_grad=True)
    centred = torch.randn(1, 64, requires_grad=True)
    chosen = targets.of(np.array([0]))
    detection_loss(Output(logits, places + 0.1, centred), chosen, split.shape, "giou").backward()
    silent = (logits.grad == 0).all(dim=2).reshape(8, 8)
    assert silent[4:, 4:].all() and silent.sum() == 16
    learned = np.zeros(64, bool)
    learned[chosen.cells] = True
    np.testing.assert_array_equal((places.grad != 0).any(dim=2)[0].numpy(), learned)
