"""The detection probe end to end on made-up maps: learning, seeds, choices, windows, tables, errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from object_stores import (
    DETECTION,
    run,
    scatter,
    spec,
    telling_maps,
    toy_stores,
    write_objects,
)
from permafrost.core.errors import PermafrostError
from permafrost.data.objects import Objects, objects_of
from permafrost.metrics.detection import evaluate
from permafrost.probes.dense import order
from permafrost.probes.detection.run import run_detection
from permafrost.probes.detection.scoring import hits
from permafrost.probes.detection.splits import ObjectSplit
from permafrost.probes.detection.training import Trainer

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# enough to learn the toys
LEARNS = {"epochs": 25, "learning_rate": 0.02, "hidden": 32}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def toy_points(tmp_path_factory):
    return toy_stores(tmp_path_factory.mktemp("points"), points=True)


@pytest.fixture
def weights(monkeypatch):
    """The weights of every head that is fitted, in order."""
    seen, whole = [], Trainer.fit

    def fit(self):
        fitted = whole(self)
        seen.append([p.detach().clone() for p in fitted.head.state_dict().values()])
        return fitted

    monkeypatch.setattr(Trainer, "fit", fit)
    return seen


def same(first, second) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def detections(table) -> list[list[dict]]:
    return table["detections"].to_pylist()


def certain(table, metadata) -> list[list[dict]]:
    """Those that score enough."""
    least = metadata["settings"]["score_threshold"]
    return [[each for each in row if each["score"] >= least] for row in detections(table)]


def boxes_of(row: list[dict]) -> np.ndarray:
    return np.array([[each[k] for k in ("x_min", "y_min", "x_max", "y_max")] for each in row])


@pytest.mark.parametrize("device", DEVICES)
def test_a_head_learns_what_the_maps_say(toy, tmp_path, device):
    """Scored on train by the evaluator, from the folder as it is."""
    stores = {**toy, "test": toy["train"]}
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


def test_the_table_has_whole_images_their_objects_and_what_it_was_made_from(toy, tmp_path):
    table, metadata = run(toy, tmp_path, pictures=3)
    test = ObjectSplit(toy["test"])
    assert table["sample_id"].to_pylist() == [f"test-{i}" for i in range(12)]
    assert table["group_id"].to_pylist() == [f"group-test-{i}" for i in range(12)]
    assert set(table["height"].to_pylist()) == {64}
    for found, expected in zip(objects_of(table["objects"]), test.objects, strict=True):
        np.testing.assert_array_equal(found.boxes, expected.boxes)
    for row in detections(table):
        scores = [each["score"] for each in row]
        assert scores == sorted(scores, reverse=True)
        corners = boxes_of(row).reshape(-1, 4)
        assert ((corners >= 0) & (corners <= 64)).all()
        assert (corners[:, :2] < corners[:, 2:]).all()
    assert metadata["detection"] == test.detection and metadata["head"] == "fcos"
    assert metadata["task"] == "detection" and metadata["feature_dim"] == 14
    assert (metadata["n_train"], metadata["n_val"], metadata["n_test"]) == (40, 10, 12)
    assert metadata["layers"] == ["layer2", "layer1"] and metadata["working_size"] == [64, 64]
    shown = table["shown"].to_pylist()
    assert [shown.count(each) for each in ("drawn", "worst", "best")] == [3, 2, 2]


def test_the_worst_and_best_shown_are_so_by_f1_among_images_with_objects(toy, tmp_path):
    table, metadata = run(toy, tmp_path, **LEARNS)
    test, least = ObjectSplit(toy["test"]), metadata["settings"]["score_threshold"]
    from permafrost.probes.detection.detections import Detections

    rated = {}
    for i, (image, row) in enumerate(zip(test.images, detections(table), strict=True)):
        row = [each for each in row if each["score"] >= least]
        found = Detections(boxes_of(row).reshape(-1, 4), np.zeros(len(row), int), np.ones(len(row)))
        if len(image.objects) and table["shown"][i].as_py() != "drawn":
            rated[i] = hits(test, image, found).f1
    chosen = {label: [] for label in ("worst", "best")}
    for i, label in enumerate(table["shown"].to_pylist()):
        if label in chosen:
            chosen[label].append(rated[i])
    assert sorted(chosen["worst"]) == sorted(rated.values())[:2]
    assert min(chosen["best"]) >= max(chosen["worst"])


def test_the_folder_is_in_cocos_form_and_names_its_plan(toy, tmp_path):
    table, _ = run(toy, tmp_path, coco=tmp_path / "coco")
    truth = json.loads((tmp_path / "coco/truth.json").read_text())
    assert truth["info"]["fingerprint"] == "0" * 32
    table = table.sort_by("sample_id")
    assert [image["file_name"] for image in truth["images"]] == table["sample_id"].to_pylist()
    assert [image["id"] for image in truth["images"]] == list(range(1, 13))
    assert [each["id"] for each in truth["categories"]] == [1, 2]
    found = json.loads((tmp_path / "coco/detections.json").read_text())
    rows = [(i, each) for i, row in enumerate(detections(table), 1) for each in row]
    assert len(found) == len(rows)
    for entry, (number, each) in zip(found, rows, strict=True):
        x, y, width, height = entry["bbox"]
        assert (entry["image_id"], entry["category_id"]) == (number, each["class"] + 1)
        assert (x, y, entry["score"]) == (each["x_min"], each["y_min"], each["score"])
        assert x + width == pytest.approx(each["x_max"])
        assert y + height == pytest.approx(each["y_max"])


def test_detections_of_equal_score_count_in_the_folder_as_in_the_statistics(tmp_path):
    """The order of images decides between them; it must not be that of the table for one of both."""
    from permafrost.probes.detection.coco_json import coco_folder
    from permafrost.probes.detection.detections import Detections
    from permafrost.probes.detection.splits import Image
    from permafrost.statistics.objects import DetectedObjects

    true, wrong = [10, 10, 30, 30], [40, 40, 60, 60]
    images = [Image(n, n, np.array([0]), (64, 64), Objects.of([true], [0])) for n in ("b", "a")]
    found = [
        Detections(np.array([box], float), np.zeros(1, int), np.full(1, 0.5))
        for box in (true, wrong)
    ]
    with coco_folder(tmp_path / "coco", images, found, classes=["tree"], info={}):
        pass
    paths = [str(tmp_path / "coco" / name) for name in ("truth.json", "detections.json")]
    scored = DetectedObjects.from_arrays(
        ["b", "a"], [image.objects for image in images], found, [(64, 64)] * 2,
        task="detection", classes=["tree"], score_threshold=0.1,
    ).evaluate()  # fmt: skip
    assert evaluate(*paths, iou_type="bbox").stats[0] == scored["AP"]
    assert 0.2 < scored["AP"] < 0.3  # the wrong one of "a" comes first


def test_neither_output_appears_where_one_cannot_be_written(toy, tmp_path, monkeypatch):
    monkeypatch.setattr("permafrost.probes.detection.run.write_detections", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(toy, tmp_path, epochs=1, coco=tmp_path / "coco")
    assert not list(tmp_path.glob("*.parquet")) and not (tmp_path / "coco").exists()


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
        monkeypatch.setattr(Trainer, "_validate", lambda *_, scores=scores: (1.0, next(scores)))
        _, metadata = run(toy, tmp_path, epochs=4, select=select)
        assert metadata["settings"]["epoch"] == epoch


def test_a_given_score_threshold_is_taken_and_needs_no_validation(toy, tmp_path):
    empty = write_toy(tmp_path / "empty.zarr", [], split="val")
    stores = {**toy, "val": empty}
    _, metadata = run(stores, tmp_path, score_threshold=0.25)
    assert metadata["settings"]["score_threshold"] == 0.25
    assert metadata["settings"]["epochs_log"][0]["val_ap"] is None
    with pytest.raises(PermafrostError, match="score_threshold is to be chosen on validation"):
        run(stores, tmp_path)
    with pytest.raises(PermafrostError, match="validation, which has no sample"):
        run(stores, tmp_path, score_threshold=0.25, select="best")


def test_nothing_is_chosen_on_a_validation_without_objects(toy, tmp_path):
    bare = write_toy(tmp_path / "bare.zarr", [NOTHING] * 3, split="val")
    for changes in ({"select": "best"}, {"learning_rate": [0.1, 0.2]}):
        with pytest.raises(PermafrostError, match="validation, which has no object"):
            run({**toy, "val": bare}, tmp_path, score_threshold=0.5, **changes)


NOTHING = Objects.of(np.empty((0, 4)), [])


def write_toy(path, objects, *, seed=0, size=(64, 64), **others):
    """A store of objects in samples that are whole images of the toys' kind."""
    maps = telling_maps(np.random.default_rng(seed), objects, size, (4, 8))
    return write_objects(path, maps, objects, sizes=size, working=size, **others)


def test_train_without_any_object_is_refused(toy, tmp_path):
    crowd = Objects.of([[0, 0, 30, 30]], [0], crowd=[True])
    bare = write_toy(tmp_path / "bare.zarr", [NOTHING, crowd])
    with pytest.raises(PermafrostError, match="no train image has an object"):
        run({**toy, "train": bare}, tmp_path)
    tiny = write_toy(tmp_path / "tiny.zarr", [Objects.of([[1, 1, 2, 2]], [0])] * 2)
    with pytest.raises(PermafrostError, match="no object of train covers the centre of a cell"):
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
    from permafrost.probes.detection.losses import detection_loss
    from permafrost.probes.detection.model import Output
    from permafrost.probes.detection.pyramid import plan_pyramid
    from permafrost.probes.detection.targets import assign
    from permafrost.probes.detection.windows import shown_objects

    box = Objects.of([[2, 2, 30, 30], [32, 32, 64, 64]], [0, 1], crowd=[False, True])
    split = ObjectSplit(write_toy(tmp_path / "x.zarr", [box]))
    pyramid = plan_pyramid(split.layers[1:], split.working_size, 8, points=False)
    targets = assign(shown_objects(split), pyramid, points=False)
    logits = torch.randn(1, 64, 2, requires_grad=True)
    places = torch.rand(1, 64, 4, requires_grad=True)
    centred = torch.randn(1, 64, requires_grad=True)
    chosen = targets.of(np.array([0]))
    detection_loss(Output(logits, places + 0.1, centred), chosen, "giou").backward()
    silent = (logits.grad == 0).all(dim=2).reshape(8, 8)
    assert silent[4:, 4:].all() and silent.sum() == 16
    learned = np.zeros(64, bool)
    learned[chosen.cells] = True
    np.testing.assert_array_equal((places.grad != 0).any(dim=2)[0].numpy(), learned)


def windows_of(objects: Objects, offsets, size) -> list[Objects]:
    """Each window's objects in whole-image pixels, and the same cut, in the window's own."""
    met, own = [], []
    for x, y in offsets:
        low, high = np.array([x, y]), np.array([x + size[1], y + size[0]])
        meets = ((objects.boxes[:, :2] < high) & (objects.boxes[:, 2:] > low)).all(axis=1)
        part = objects.take(meets)
        met.append(part)
        boxes = part.boxes - np.tile(low, 2)
        own.append(Objects.of(boxes.clip(0, [*size[::-1]] * 2), part.classes))
    return met, own


@pytest.mark.parametrize("points", [False, True])
def test_an_object_across_two_windows_is_found_once(toy, toy_points, tmp_path, points):
    """Windows at 0, 48, 96 and, moved back to the edge, 100 of an image 164 px wide."""
    stores = toy_points if points else toy
    boxes = [[44, 8, 70, 34], [100, 20, 126, 52], [4, 30, 24, 56], [140, 4, 162, 30]]
    objects = Objects.of(boxes, [0, 1, 1, 0])
    if points:
        objects = Objects.of(np.tile(objects.centres, 2), objects.classes)
    offsets = [(0, 0), (48, 0), (96, 0), (100, 0)]
    met, own = windows_of(objects, offsets, (64, 64))
    maps = telling_maps(np.random.default_rng(0), own, (64, 64), (4, 8))
    test = write_objects(
        tmp_path / "test.zarr",
        maps,
        met,
        sizes=(64, 64),
        working=(64, 64),
        image_ids=["whole"] * 4,
        offsets=offsets,
        image_sizes=(64, 164),
        geometry="point" if points else "box",
        split="test",
        tiles={"size": 64, "overlap": 0.25},
    )
    table, metadata = run({**stores, "test": test}, tmp_path, **LEARNS)
    assert table["sample_id"].to_pylist() == ["whole"] and metadata["n_test"] == 4
    assert (table["height"][0].as_py(), table["width"][0].as_py()) == (64, 164)
    (truth,), (row,) = objects_of(table["objects"]), certain(table, metadata)
    np.testing.assert_array_equal(truth.boxes, objects.boxes)
    found = boxes_of(row)
    assert len(found) == 4
    for box in truth.boxes:
        assert np.abs(found - box).max(axis=1).min() < 6
    assert "windows_touch" not in metadata["gates"]


def test_windows_that_only_touch_are_a_gate(toy, tmp_path):
    objects = Objects.of([[50, 8, 80, 34]], [0])
    met, own = windows_of(objects, [(0, 0), (64, 0)], (64, 64))
    maps = telling_maps(np.random.default_rng(0), own, (64, 64), (4, 8))
    test = write_objects(
        tmp_path / "test.zarr",
        maps,
        met,
        sizes=(64, 64),
        working=(64, 64),
        image_ids=["whole"] * 2,
        offsets=[(0, 0), (64, 0)],
        image_sizes=(64, 128),
        split="test",
        tiles={"size": 64, "overlap": 0.0},
    )
    _, metadata = run({**toy, "test": test}, tmp_path, epochs=1)
    assert "windows_touch" in metadata["gates"]


def test_images_of_another_size_than_what_is_fed_are_found_in_their_own_pixels(toy, tmp_path):
    """Twice as wide, half as high."""
    rng = np.random.default_rng(9)
    fed = [scatter(rng, (64, 64), most=2) for _ in range(8)]
    maps = telling_maps(rng, fed, (64, 64), (4, 8))
    true = [Objects.of(each.boxes * [2, 0.5, 2, 0.5], each.classes) for each in fed]
    test = write_objects(
        tmp_path / "test.zarr", maps, true, sizes=(32, 128), working=(64, 64), split="test"
    )
    run({**toy, "test": test}, tmp_path, coco=tmp_path / "coco", **LEARNS)
    found = evaluate(
        str(tmp_path / "coco/truth.json"), str(tmp_path / "coco/detections.json"), iou_type="bbox"
    )
    assert found.stats[1] > 0.8


def test_nan_in_the_maps_stops_with_epoch_batch_and_cause_and_leaves_no_file(toy, tmp_path):
    rng = np.random.default_rng(0)
    images = [scatter(rng, (64, 64)) for _ in range(12)]
    maps = telling_maps(rng, images, (64, 64), (4, 8))
    maps[1][5, 2, 0, 0] = np.nan
    broken = write_objects(tmp_path / "broken.zarr", maps, images, sizes=(64, 64), working=(64, 64))
    with pytest.raises(
        PermafrostError,
        match=r"loss became nan in epoch 1, batch \d: the map of layer layer1 .*row 5",
    ):
        run({**toy, "train": broken}, tmp_path, epochs=1)
    with pytest.raises(PermafrostError, match=r"NaN or infinity for images from 'train-0' on"):
        run({**toy, "test": broken}, tmp_path, epochs=1, coco=tmp_path / "coco")
    assert not list(tmp_path.glob("*.parquet")) and not (tmp_path / "coco").exists()


def test_a_loss_that_diverges_stops_with_epoch_and_cause(toy, tmp_path):
    with pytest.raises(PermafrostError, match=r"in epoch \d+, (validation )?batch \d+: the head's"):
        run(toy, tmp_path, learning_rate=1e30, schedule="constant", epochs=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "fp16"}, "fp16 needs a GPU"),
        ({"layers": ["layer9"]}, "no map of layer 'layer9'.*did you mean"),
        ({"learning_rate": 1e-7}, "below min_learning_rate"),
    ],
)
def test_options_that_cannot_work_are_refused(toy, tmp_path, changes, message):
    if torch.cuda.is_available() and "precision" in changes:
        changes = {**changes, "device": "cpu"}
    with pytest.raises(PermafrostError, match=message):
        run(toy, tmp_path, **changes)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (Objects.of([[0, 0, np.nan, 9]], [0]), "corner that is not finite"),
        (Objects.of([[0, 0, 9, 9]], [2]), "class that is not one of 2"),
        (Objects.of([[9, 0, 0, 9]], [0]), "wrong way round"),
    ],
)
def test_objects_that_cannot_be_are_refused_by_sample(toy, tmp_path, objects, message):
    maps = [np.zeros((2, 7, 4, 4)), np.zeros((2, 7, 8, 8))]
    broken = write_objects(
        tmp_path / "broken.zarr", maps, [NOTHING, objects], sizes=(64, 64), working=(64, 64)
    )
    with pytest.raises(
        PermafrostError, match=f"'train-1' has an object with a.* {message}|{message}"
    ):
        run({**toy, "train": broken}, tmp_path)


def test_stores_of_another_plan_or_without_objects_are_refused(toy, tmp_path):
    from map_stores import toy_stores as mask_stores

    masks = mask_stores(tmp_path / "masks")
    with pytest.raises(PermafrostError, match="no maps of layers with objects"):
        run({**toy, "train": masks["train"]}, tmp_path)
    other = spec(DETECTION) | {"inputs": {"features": "0" * 32}}
    with pytest.raises(PermafrostError, match="another plan"):
        run_detection(toy, tmp_path / "x.parquet", spec=other, fingerprint="0" * 32)
