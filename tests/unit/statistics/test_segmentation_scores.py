"""From a segmentation probe's table to score rows, gates and comparisons."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from helpers.predictions.masks import (
    IGNORE,
    confusions,
    masks,
    metadata,
    prediction_table,
    predictions,
    write_predictions,
)
from helpers.stages.specifications import specification
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.tables import read_table
from permafrost.metrics.tasks import METRICS
from permafrost.statistics.predictions.confusions import Confusions
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.scores import gates
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.scores.compare import compare
from permafrost.statistics.scores.comparison_table import compare_predictions
from permafrost.statistics.scores.score_table import score_predictions
from permafrost.statistics.tables import ScoreColumns

OPTIONS = {"resamples": 100, "confidence": 0.95, "method": "percentile", "seed": 3}
GROUPS = [f"scene {i % 4}" for i in range(12)]
NAMES = [f"class {i}" for i in range(5)]


def spec_of(inputs="made", **more):
    spec = {"stage": "bootstrap", "dataset": "demo-segments", "options": OPTIONS}
    return spec | {"inputs": {"predictions": inputs}} | more


def scored(tmp_path, found, **change):
    write_predictions(tmp_path / "predictions.parquet", found, **change)
    line = score_predictions(
        tmp_path / "predictions.parquet",
        tmp_path / "scores.parquet",
        spec=specification(spec_of()),
        fingerprint="scores",
    )
    table, _ = read_table(tmp_path / "scores.parquet", expect="scores")
    assert table.column_names == ScoreColumns.names()
    return table.to_pylist(), line


def test_score_rows_of_a_table_are_those_of_its_confusion_matrices(tmp_path):
    found = predictions(groups=GROUPS, boundary=True)
    rows, line = scored(tmp_path, found)
    expected = [
        (metric.name, name)
        for metric in sorted(METRICS["segmentation"], key=lambda one: one.per_class)
        for name in (NAMES if metric.per_class else [None])
    ]
    assert [(row["metric"], row["class"]) for row in rows] == expected
    assert [row["metric"] for row in rows if row["primary"]] == ["mean_iou"]
    seed = derive_seed("bootstrap", "demo-segments", 3)
    direct = bootstrap_scores(found, resamples=100, seed=seed, method="percentile")
    for row, other in zip(rows, direct, strict=True):
        for key in ("metric", "class", "value", "lower", "upper", "n_undefined", "n_units"):
            assert row[key] == pytest.approx(other[key], nan_ok=True), key
    first = rows[0]
    assert (first["unit"], first["n_units"], first["n_test"]) == ("group", 4, 12)
    assert (first["task"], first["kind"], first["feature_dim"]) == (
        "segmentation",
        "segmentation",
        960,
    )
    assert first["gates"] == "few_units;spatially_random"
    assert first["bootstrap_seed"] == 3
    settings = json.loads(first["settings"])
    assert (settings["head"], settings["epoch"]) == ("fpn", 10)
    assert "epochs_log" not in settings, "what has a number per epoch stays with the predictions"
    assert line.startswith("demo-segments | resnet18 | fpn: mean_iou 0.")


def test_without_counted_boundaries_there_are_no_boundary_rows(tmp_path):
    rows, _ = scored(tmp_path, predictions())
    assert not [row for row in rows if "boundary" in row["metric"]]
    assert {row["unit"] for row in rows} == {"image"}


def test_segmentation_is_scored_on_the_resamples_of_every_other_probe_of_the_dataset():
    # images of one pixel: pixel accuracy is accuracy, so its interval must be the very same
    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    ids = [f"image {i:02}" for i in rng.permutation(60)]
    labels = LabelledSamples.from_arrays(
        ids, truth, guess, np.eye(3)[guess], task="classification", classes="abc"
    )
    pixels = confusions(truth[:, None, None], guess[:, None, None], 3)
    segmented = Confusions.from_arrays(ids, pixels, classes="abc")
    one = bootstrap_scores(labels, seed=9, method="percentile")[0]
    other = bootstrap_scores(segmented, seed=9, method="percentile")[2]
    assert (one["metric"], other["metric"]) == ("accuracy", "pixel_accuracy")
    for key in ("value", "lower", "upper"):
        assert other[key] == pytest.approx(one[key], abs=1e-12)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_order_of_rows_changes_nothing(method):
    found = predictions(groups=GROUPS, boundary=True)
    order = np.random.default_rng(0).permutation(12)
    shuffled = Confusions.from_arrays(
        found.sample_ids[order],
        found.confusion[order],
        classes=NAMES,
        groups=found.groups[order],
        ignore_index=IGNORE,
        boundaries=[counts[order] for counts in found.boundaries],
    )
    assert bootstrap_scores(shuffled, seed=1, method=method) == bootstrap_scores(
        found, seed=1, method=method
    )


def test_a_dead_class_has_no_score_and_moves_no_mean(tmp_path):
    case = {"present": 4}
    alive = {row["metric"]: row for row in scored(tmp_path, predictions(case))[0][:6]}
    rows, _ = scored(tmp_path, predictions(case, dead_classes=(4,)))
    dead = {row["metric"]: row for row in rows if row["class"] is None}
    assert dead["mean_iou"]["value"] == pytest.approx(alive["mean_iou"]["value"] * 5 / 4)
    assert dead["pixel_accuracy"]["value"] == alive["pixel_accuracy"]["value"]
    row = next(row for row in rows if row["class"] == "class 4")
    assert np.isnan([row["value"], row["lower"], row["upper"]]).all()
    assert row["n_undefined"] == 100


def test_an_ignored_class_counts_as_dead():
    truth, prediction = masks(ignored=0)
    matrices = np.stack(
        [
            confusions(np.where(t == 0, IGNORE, t)[None], p[None], 5)[0]
            for t, p in zip(truth, prediction, strict=True)
        ]
    )
    ids = list(map(str, range(12)))
    found = Confusions.from_arrays(ids, matrices, classes=NAMES, ignore_index=0, dead_classes=[3])
    assert found.dead_classes == (0, 3)
    assert Confusions.from_arrays(ids, matrices, classes=NAMES, ignore_index=255).dead_classes == ()


def test_chance_is_the_mean_iou_of_always_giving_the_most_frequent_class():
    found = predictions({"present": 3}, dead_classes=(4,))
    most = int(found.truth.sum(axis=0).argmax())
    always = np.zeros_like(found.confusion)
    always[:, :, most] = found.truth
    constant = Confusions.from_arrays(
        found.sample_ids, always, classes=NAMES, dead_classes=(4,), ignore_index=IGNORE
    )
    chance = gates.chance_level(found.truth, "segmentation", (4,))
    assert chance == pytest.approx(float(constant.evaluate()["mean_iou"]), abs=1e-15)
    assert gates.score_gates(constant, bootstrap_scores(constant, seed=0)) == [
        "one_class_predictions",
        "class_missing_in_test:3",
    ]
    assert np.isnan(gates.chance_level(found.truth, "segmentation", range(5)))


def test_gates_accuse_what_is_worse_than_chance_and_not_what_is_better():
    good = predictions({"skill": 0.9})
    assert gates.score_gates(good, bootstrap_scores(good, seed=0)) == []
    bad = predictions({"skill": 0.0, "classes": 2}, classes=2)
    wrong = Confusions.from_arrays(
        bad.sample_ids, bad.confusion * (1 - np.eye(2, dtype=int)), classes=["a", "b"]
    )
    assert gates.score_gates(wrong, bootstrap_scores(wrong, seed=0)) == ["below_chance"]


def test_a_test_set_of_one_class_is_no_reason_to_accuse_one_class_predictions():
    found = predictions({"present": 1, "skill": 1.0, "classes": 2}, classes=2)
    assert gates.one_class_predictions(found.truth, found.answers, "segmentation") == []


def test_comparisons_through_the_table(tmp_path):
    folder = tmp_path / "predictions"
    fingerprints = {}
    for seed in (0, 1):
        for backbone, skill in (("good", 0.95), ("poor", 0.3)):
            path = folder / f"demo-segments/{backbone}/seed{seed}/fpn.parquet"
            fingerprint = f"{backbone} {seed}"
            write_predictions(
                path,
                predictions({"skill": skill, "seed": seed}, groups=GROUPS),
                backbone=backbone,
                seed=seed,
                fingerprint=fingerprint,
            )
            fingerprints[f"{backbone}/seed{seed}"] = fingerprint
    spec = spec_of(fingerprints, probe="fpn", stage="compare")
    compare_predictions(folder, tmp_path / "c.parquet", spec=specification(spec), fingerprint="f")
    rows = read_table(tmp_path / "c.parquet")[0].to_pylist()
    assert [(row["seeds"], row["n_runs"], row["backbone_a"], row["metric"]) for row in rows] == [
        ("0;1", 2, "good", "mean_iou")
    ]
    assert all(row["lower"] > 0 and row["p_adjusted"] == row["p_value"] < 0.05 for row in rows)
    assert {row["p_mcnemar"] for row in rows} == {None}


def test_any_overall_metric_can_be_compared_if_it_was_measured():
    found = {name: predictions({"seed": seed}, boundary=True) for seed, name in enumerate("ab")}
    row = compare(found, metric="mean_boundary_iou", seed=0)[0]
    values = [float(one.evaluate()["mean_boundary_iou"]) for one in found.values()]
    assert row["difference"] == pytest.approx(values[0] - values[1])
    without = {name: predictions({"seed": seed}) for seed, name in enumerate("ab")}
    with pytest.raises(PermafrostError, match="no overall metric 'mean_boundary_iou'"):
        compare(without, metric="mean_boundary_iou", seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"case": {"truth": 1}}, "targets .first for the sample image 0000"),
        ({"ids": [f"chip {i:04}" for i in range(12)]}, "test samples .24 are in one only"),
        ({"case": {"ignored": 0.5}}, "targets"),
        ({"groups": GROUPS}, "groups"),
        ({"dead_classes": (4,)}, "dead classes"),
    ],
)
def test_backbones_of_different_test_sets_are_refused_by_name(change, message):
    found = {"resnet": predictions(), "vit": predictions(**change)}
    with pytest.raises(PermafrostError, match=f"'resnet' and 'vit'.*different {message}"):
        compare(found, seed=0)


def test_a_table_is_read_as_it_was_written():
    found = predictions(groups=GROUPS, boundary=True, dead_classes=(1,))
    table = prediction_table(found)
    # in chunks that do not start at their buffers' beginning, and in another order
    table = pa.concat_tables([table.slice(7), table.slice(0, 7)])
    again = predictions_from_table(table, metadata(dead_classes=[1]))
    for name in ("sample_ids", "groups", "confusion", "truth", "answers"):
        assert np.array_equal(getattr(again, name), getattr(found, name)), name
    assert np.array_equal(again.boundaries, found.boundaries)
    assert (again.dead_classes, again.ignore_index) == ((1,), IGNORE)
