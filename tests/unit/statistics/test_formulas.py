"""Metrics of plug-ins on every task: a formula that repeats a metric of the task has its values and its intervals."""

from __future__ import annotations

from dataclasses import replace

import helpers.predictions.objects as objects
import numpy as np
import pytest
import sklearn.metrics
from helpers.predictions.labels import multi_label, single_label
from permafrost.core.errors import PermafrostError
from permafrost.core.plugins import Registry
from permafrost.metrics import tasks
from permafrost.metrics.tasks import METRICS, Metric, metric_of
from permafrost.statistics.predictions.confusions import ChangeConfusions, Confusions
from permafrost.statistics.predictions.formulas import family_of
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.predictions.pixel_numbers import PredictedPixels
from permafrost.statistics.predictions.queries import Queries
from permafrost.statistics.predictions.settings import Draws, Gain, ScoredSetting, WholeSetting
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.scores.bootstrap import bootstrap_scores

COUNT = 60
IDS = [f"{number:03d}" for number in range(COUNT)]
RNG = np.random.default_rng(0)
ABOUT = ScoredSetting("all", {}, 10, 5, [])


def labelled(task: str) -> LabelledSamples:
    arrays = single_label(COUNT, 4) if task == "classification" else multi_label(COUNT, 4)
    return LabelledSamples.from_arrays(IDS, *arrays, task=task, classes=list("abcd"))


def confusions(kind: type[Confusions]) -> Confusions:
    return kind.from_arrays(IDS, RNG.integers(0, 50, (COUNT, 3, 3)), classes=list("abc"))


def numbers() -> PredictedNumbers:
    target = RNG.normal(size=COUNT)
    return PredictedNumbers.from_arrays(IDS, target, target + RNG.normal(size=COUNT))


def pixels() -> PredictedPixels:
    sums = RNG.uniform(1, 2, (COUNT, 5)) * [1, 1, 1, 0.1, 1]
    return PredictedPixels.from_arrays(IDS, sums, np.zeros((COUNT, 4)), centre=0.0)


def queries() -> Queries:
    relevant = RNG.integers(0, 4, COUNT)
    precision = np.where(relevant > 0, RNG.random(COUNT), np.nan)
    found = relevant[:, None] > 1
    return Queries(np.array(IDS), None, precision, relevant, found, (1,), 30, list("ab"), ())


def draws(task: str) -> Draws:
    one = labelled(task)
    drawn = [one.prediction, one.target] if task == "classification" else [one.scores] * 2
    about = {"task": task, "classes": one.classes, "about": ABOUT}
    return Draws(one.sample_ids, None, one.target, np.stack(drawn), **about)


def gain() -> Gain:
    return Gain(WholeSetting(numbers(), ABOUT), WholeSetting(numbers(), ABOUT), ABOUT)


def accuracy(one, weights):
    return sklearn.metrics.accuracy_score(one.target, one.prediction, sample_weight=weights)


def micro_f1(one, weights):
    rows = np.repeat(np.arange(len(one)), weights)
    return sklearn.metrics.f1_score(one.target[rows], one.prediction[rows], average="micro")


def pixel_accuracy(one, weights):
    confusion = np.tensordot(weights, one.confusion, 1)
    return np.trace(confusion) / confusion.sum()


def mae(one, weights):
    return sklearn.metrics.mean_absolute_error(one.target, one.prediction, sample_weight=weights)


def mae_of_pixels(one, weights):
    return weights @ one.sums[:, 2] / (weights @ one.sums[:, 0])


def ratio_of(name: str):
    def ratio(one, weights):
        sums = (one.scores.counts * weights).sum(axis=1, keepdims=True)
        return one.scores.ratios(sums)[name][0]

    return ratio


def mean_ap(one, weights):
    known = one.relevant > 0
    return np.average(one.precision[known], weights=weights[known])


#: the interval is the same, too: no unit lacks what the metric is of, and it is no binomial share
ALIKE = True
# case -> predictions, a metric of their task, the formula that repeats it
CASES = {
    "classification": (lambda: labelled("classification"), "accuracy", accuracy),
    "multilabel": (lambda: labelled("multilabel"), "micro_f1", micro_f1),
    "segmentation": (lambda: confusions(Confusions), "pixel_accuracy", pixel_accuracy, ALIKE),
    "change": (lambda: confusions(ChangeConfusions), "pixel_accuracy", pixel_accuracy, ALIKE),
    "regression": (numbers, "mae", mae, ALIKE),
    "pixel_regression": (pixels, "mae", mae_of_pixels, ALIKE),
    "detection": (lambda: objects.predictions(images=40), "box_recall", ratio_of("box_recall")),
    "point_detection": (
        lambda: objects.predictions("point_detection", images=40),
        "point_recall",
        ratio_of("point_recall"),
    ),
    "oriented_detection": (
        lambda: objects.predictions("oriented_detection", images=40),
        "box_recall",
        ratio_of("box_recall"),
    ),
    "instance_segmentation": (
        lambda: objects.predictions("instance_segmentation", images=40),
        "mask_recall",
        ratio_of("mask_recall"),
    ),
    "retrieval": (queries, "mean_ap", mean_ap),
    "draws of classes": (lambda: draws("classification"), "accuracy", accuracy),
    "draws of labels": (lambda: draws("multilabel"), "micro_f1", micro_f1),
    "differences": (gain, "mae", mae, ALIKE),
}


@pytest.fixture
def add(monkeypatch):
    """A function that adds a metric, for one test."""
    monkeypatch.setattr(tasks, "_BY_NAME", dict(tasks._BY_NAME))
    monkeypatch.setattr(tasks, "ORDER", dict(tasks.ORDER))
    monkeypatch.setattr(tasks, "PLUGINS", Registry("metrics", {}, tasks._add_metric))

    def add(metric: Metric) -> None:
        tasks._add_metric(metric.name, metric)
        tasks.PLUGINS[metric.name] = metric

    return add


def test_every_task_has_a_case():
    assert set(METRICS) <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_formula_has_the_values_and_intervals_of_the_same_metric_of_the_package(case, add):
    make, name, formula, *alike = CASES[case]
    predictions = make()
    without = bootstrap_scores(predictions, seed=0)
    own = replace(metric_of(name), name="own", primary=False)
    add(replace(own, formula=formula, tasks=(predictions.task,)))
    rows = bootstrap_scores(predictions, seed=0)
    # nothing else moves
    assert [row for row in rows if row["metric"] != "own"] == without
    (given,) = (row for row in rows if row["metric"] == name and row["class"] is None)
    (found,) = (row for row in rows if row["metric"] == "own")
    same = ("value", "n_undefined", "higher_is_better", *(("lower", "upper") if alike else ()))
    for key in same:
        assert found[key] == pytest.approx(given[key], rel=1e-9), key
    assert found["lower"] < found["value"] < found["upper"]
    units = np.arange(len(predictions))
    drawn = family_of(predictions, units).replicates(draw_resamples(len(units), 20, 0))
    np.testing.assert_allclose(drawn["own"], drawn[name], rtol=1e-9)


def test_a_formula_may_give_a_value_of_each_class(add):
    def rate(one, weights):
        kinds = range(len(one.classes))
        return [np.average(one.prediction == kind, weights=weights) for kind in kinds]

    add(Metric("rate", "rate", per_class=True, formula=rate, tasks=("classification",)))
    rows = bootstrap_scores(labelled("classification"), seed=0)
    rates = {row["class"]: row["value"] for row in rows if row["metric"] == "rate"}
    assert list(rates) == list("abcd") and sum(rates.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (lambda one, weights: one.confusion.sum(), "fails: AttributeError: .*confusion"),
        (lambda one, weights: weights, r"gives the shape \(60,\) in place of \(\)"),
    ],
)
def test_a_formula_that_a_task_does_not_suit_is_an_error_that_names_both(formula, message, add):
    add(Metric("odd", "odd", formula=formula, tasks=("regression",)))
    with pytest.raises(PermafrostError) as error:
        bootstrap_scores(numbers(), seed=0)
    error.match(f"extra_metrics.odd.*predictions of the task regression.*{message}")
    error.match("leave regression out of the metric's tasks")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": ("regresion",)}, "did you mean 'regression'"),
        ({"tasks": ()}, "give the Metric the name 'own', a formula and its tasks"),
        ({"formula": None}, "give the Metric the name 'own', a formula and its tasks"),
        ({"name": "mine"}, "it has the name 'mine'"),
    ],
)
def test_a_metric_that_would_score_nothing_is_refused(change, message, add):
    metric = Metric("own", "own", formula=mae, tasks=("regression",))
    with pytest.raises(PermafrostError, match=f"extra_metrics.own.*{message}"):
        tasks._add_metric("own", replace(metric, **change))
    with pytest.raises(PermafrostError, match="extra_metrics.mae.*the name is taken"):
        tasks._add_metric("mae", metric)
