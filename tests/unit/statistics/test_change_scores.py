"""Scores, intervals and gates of predicted change."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.masks import IGNORE, confusions, masks
from permafrost.core.errors import PermafrostError
from permafrost.metrics.segmentation import confusion_matrix, evaluate
from permafrost.statistics.predictions.confusions import ChangeConfusions
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.resampling.resamples import Resamples
from permafrost.statistics.scores import gates
from permafrost.statistics.scores.bootstrap import bootstrap_scores

KINDS = {2: ["no change", "change"], 3: ["no change", "built", "cleared"]}


def predicted(truth, prediction, classes=2, groups=None) -> ChangeConfusions:
    return ChangeConfusions.from_arrays(
        [f"image {i:03}" for i in range(len(truth))],
        confusions(truth, prediction, classes),
        classes=KINDS[classes],
        groups=groups,
        ignore_index=IGNORE,
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_intervals_resample_scenes(classes):
    truth, prediction = masks(classes=classes)
    groups = [f"city {i % 7}" for i in range(len(truth))]
    rows = bootstrap_scores(predicted(truth, prediction, classes, groups), seed=0)
    primary = next(row for row in rows if row["primary"])
    assert primary["metric"] == "change_f1" and primary["n_units"] == 7
    assert 0 < primary["lower"] < primary["value"] < primary["upper"] < 1


def test_replicates_are_the_metrics_of_the_pixels_that_were_drawn():
    truth, prediction = masks(classes=3)
    units = np.arange(len(truth)) % 5
    counts = np.random.default_rng(0).multinomial(5, [0.2] * 5, 20).T
    found = (
        predicted(truth, prediction, 3)
        .family(units)
        .replicates(Resamples(counts, 5, int(counts.max())))
    )
    for number, resample in enumerate(counts.T):
        rows = np.repeat(np.arange(len(truth)), resample[units])
        confusion = confusion_matrix(truth[rows], prediction[rows], 3, IGNORE)
        for name, value in evaluate(confusion, task="change").items():
            np.testing.assert_allclose(found[name][..., number], value, err_msg=name)


def test_the_baselines_are_those_of_never_and_of_always_saying_change():
    truth, _ = masks(classes=2)
    share = (truth == 1).sum() / (truth != IGNORE).sum()
    never, always = (
        predicted(truth, np.full_like(truth, answer)).evaluate()["change_f1"] for answer in (0, 1)
    )
    chance = gates.chance_level(predicted(truth, truth).truth, "change")
    assert never == 0 and always == pytest.approx(2 * share / (1 + share)) == chance


def test_of_several_kinds_the_baseline_is_the_best_single_answer():
    truth, _ = masks(classes=3)
    scores = [
        predicted(truth, np.full_like(truth, answer), 3).evaluate()["change_f1"]
        for answer in range(3)
    ]
    assert gates.chance_level(predicted(truth, truth, 3).truth, "change") == max(scores)
    # of a dead kind nothing is known
    confusion = predicted(truth, truth, 3)
    assert gates.chance_level(confusion.truth, "change", [2]) == pytest.approx(
        2 * (truth == 1).sum() / ((truth == 1).sum() + (truth != IGNORE).sum())
    )


@pytest.mark.parametrize(
    ("skill", "expected"), [(0.9, []), (0.0, [gates.BELOW_CHANCE]), (None, [gates.BELOW_CHANCE])]
)
def test_who_does_not_beat_always_saying_change_is_flagged(skill, expected):
    truth, prediction = masks(classes=2, n=40, skill=0.9)
    if skill != 0.9:
        # a coin, or never
        rng = np.random.default_rng(5)
        prediction = (rng.random(truth.shape) < (0.3 if skill == 0 else 0)).astype(int)
    found = predicted(truth, prediction)
    rows = bootstrap_scores(found, seed=0)
    raised = gates.score_gates(found, rows)
    assert [one for one in raised if one == gates.BELOW_CHANCE] == expected
    assert (gates.ONE_CLASS in raised) == (skill is None)


def test_without_a_change_in_test_nothing_is_promised():
    nothing = np.zeros((4, 4, 4), int)
    found = predicted(nothing, nothing)
    assert np.isnan(gates.chance_level(found.truth, "change"))
    raised = gates.score_gates(found, bootstrap_scores(found, seed=0))
    assert "class_missing_in_test:1" in raised


def test_a_table_of_the_task_is_read_as_change():
    import pyarrow as pa

    truth, prediction = masks(classes=2, n=3)
    counts = pa.array(confusions(truth, prediction, 2).ravel())
    table = pa.table(
        {
            "sample_id": ["a", "b", "c"],
            "group_id": ["x", "x", "y"],
            "confusion": pa.FixedSizeListArray.from_arrays(counts, 4),
        }
    )
    about = {"task": "change", "classes": KINDS[2], "ignore_index": IGNORE, "dead_classes": []}
    assert predictions_from_table(table, about).task == "change"
    with pytest.raises(PermafrostError, match="unknown task 'changes'"):
        predictions_from_table(table, about | {"task": "changes"})
