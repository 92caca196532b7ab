"""Assessment metrics from counts: published matrices, conventions, area-weighted estimates."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.raster import area_estimates, assessment

# geodl's vignette on model assessment prints these, rows the prediction and columns the reference
SIX = np.array(
    [
        [75, 7, 59, 46, 1, 6],
        [13, 20585, 62, 617, 142, 21],
        [10, 8, 196, 33, 22, 12],
        [63, 138, 34, 2413, 84, 1],
        [1, 64, 75, 72, 270, 2],
        [1, 5, 0, 1, 1, 158],
    ]
).T
MINES = np.array([[4820, 20], [2, 158]]).T
MINES_RASTER = np.array([[35994704, 152228], [27311, 1148966]]).T


def rounded(value) -> list:
    return np.round(value, 4).tolist()


def test_the_published_matrix_of_six_classes():
    assert rounded(assessment.overall_accuracy(SIX)) == 0.9367
    assert rounded(assessment.f1(SIX)) == 0.6991
    assert rounded(assessment.recall(SIX)) == 0.6629
    assert rounded(assessment.precision(SIX)) == 0.7395
    each = assessment.per_class(SIX)
    assert rounded(each["precision"]) == [0.3866, 0.9601, 0.6975, 0.8829, 0.5579, 0.9518]
    assert rounded(each["recall"]) == [0.4601, 0.9893, 0.4601, 0.7583, 0.5192, 0.7900]
    assert rounded(each["f1"]) == [0.4202, 0.9745, 0.5545, 0.8159, 0.5378, 0.8634]
    # the mean of the classes' F1 is another number
    assert rounded(each["f1"].mean()) == rounded(assessment.macro_f1(SIX)) == 0.6944
    for name in ("recall", "precision", "f1"):
        ours, theirs = (getattr(assessment, name)(SIX, like=like) for like in (None, "geodl"))
        assert ours == pytest.approx(theirs, abs=1e-8), "where all classes occur, rules agree"


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (MINES, [0.9956, 0.8876, 0.9875, 0.9996, 0.9959, 0.9349]),
        (MINES_RASTER, [0.9952, 0.8830, 0.9768, 0.9992, 0.9958, 0.9275]),
    ],
)
def test_the_published_binary_matrices(counts, expected):
    options = {"class_weights": assessment.BINARY_WEIGHTS}
    each = assessment.per_class(counts)
    found = [
        assessment.overall_accuracy(counts),
        assessment.recall(counts, **options),
        assessment.precision(counts, **options),
        each["recall"][0],  # specificity
        each["precision"][0],  # negative predictive value
        assessment.f1(counts, **options),
    ]
    assert rounded(found) == expected


@pytest.mark.parametrize(
    ("precision", "recall", "f1"),
    [(0.9274127, 0.9782254, 0.9521416), (0.8210625, 0.8265532, 0.8237987)],
)
def test_published_f1_is_the_harmonic_mean_of_the_means(precision, recall, f1):
    assert 2 * precision * recall / (precision + recall + 1e-8) == pytest.approx(f1, abs=2e-7)


def test_smoothing_enters_numerator_and_denominator():
    counts = np.array([[8, 2], [1, 9]])
    assert assessment.recall(counts, smooth=1) == pytest.approx((9 / 11 + 10 / 11) / 2)
    assert assessment.precision(counts, smooth=1) == pytest.approx((9 / 10 + 10 / 12) / 2)
    assert assessment.overall_accuracy(counts) == 0.85
    weighted = assessment.recall(counts, smooth=0, class_weights=(3, 1))
    assert weighted == pytest.approx((3 * 0.8 + 0.9) / 4)


def test_an_absent_class_is_left_out_and_by_geodls_rule_counts_one():
    counts = np.zeros((3, 3), int)
    counts[:2, :2] = [[5, 5], [0, 10]]
    assert assessment.recall(counts) == assessment.recall(counts, smooth=0) == 0.75
    assert assessment.recall(counts, class_weights=(1, 1, 0)) == 0.75
    assert np.isnan(assessment.recall(counts, class_weights=(0, 0, 1)))
    assert np.isnan(assessment.f1(counts, class_weights=(0, 0, 1)))
    geodl = {"like": assessment.GEODL}
    assert assessment.recall(counts, **geodl) == pytest.approx((0.5 + 1 + 1) / 3)
    assert np.isnan(assessment.recall(counts, smooth=0, **geodl))
    assert assessment.recall(counts, smooth=0, class_weights=(1, 1, 0), **geodl) == 0.75
    assert assessment.mean_iou(counts) == pytest.approx((5 / 10 + 10 / 15) / 2)


def test_kappa_knows_chance():
    assert assessment.kappa(np.array([[25, 25], [25, 25]])) == 0
    assert assessment.kappa(np.array([[5, 0], [0, 5]])) == 1
    assert assessment.kappa(np.array([[20, 5], [10, 15]])) == pytest.approx(0.4)
    assert np.isnan(assessment.kappa(np.array([[9, 0], [0, 0]])))


def test_leading_axes_are_kept():
    stack = np.stack([MINES, MINES_RASTER, SIX[:2, :2]])
    for metric in ("overall_accuracy", "recall", "precision", "f1", "mean_iou", "kappa"):
        found = getattr(assessment, metric)(stack)
        assert found.shape == (3,)
        assert found[1] == getattr(assessment, metric)(MINES_RASTER)


@pytest.mark.parametrize("weights", [(1,), (1, -1), (0, 0), (1, np.nan)])
def test_weights_without_a_mean_are_refused(weights):
    with pytest.raises(PermafrostError):
        assessment.recall(MINES, class_weights=weights)


# Olofsson et al. (2014), table 8: rows the map; the paper prints these estimates on page 54
SAMPLE = np.array([[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]]).T
MAPPED = np.array([200_000, 150_000, 3_200_000, 6_450_000])
HECTARES = MAPPED.sum() * 900 / 10_000


def half_width(estimates, name: str):
    lower, upper = estimates.interval(name)
    return (np.asarray(upper) - lower) / 2


def test_the_published_area_estimates():
    found = area_estimates(SAMPLE, MAPPED)
    hectares = [21_158, 11_686, 285_770, 581_386]
    np.testing.assert_allclose(found.area * HECTARES, hectares, atol=0.5)
    widths = [6_158, 3_756, 15_510, 16_282]
    np.testing.assert_allclose(half_width(found, "area") * HECTARES, widths, atol=1)
    assert np.round(found.users_accuracy, 2).tolist() == [0.88, 0.73, 0.93, 0.96]
    assert np.round(half_width(found, "users_accuracy"), 2).tolist() == [0.07, 0.1, 0.04, 0.02]
    assert np.round(found.producers_accuracy, 2).tolist() == [0.75, 0.85, 0.93, 0.96]
    assert np.round(half_width(found, "producers_accuracy"), 2)[[0, 2]].tolist() == [0.21, 0.03]
    assert round(found.overall_accuracy, 2) == 0.95
    assert round(float(half_width(found, "overall_accuracy")), 2) == 0.02


def test_a_second_published_example():
    # the documentation of the R package mapac prints these for Card's estimator
    found = area_estimates(np.array([[410, 26], [67, 369]]).T, [828837, 33067283])
    np.testing.assert_allclose(found.area, [0.1729063, 0.8270937], atol=5e-8)
    np.testing.assert_allclose(found.area_se, [0.01687046] * 2, atol=5e-9)
    np.testing.assert_allclose(found.producers_accuracy, [0.132986, 0.998237], atol=5e-7)
    assert found.overall_accuracy == pytest.approx(0.84862969, abs=5e-9)
    assert found.overall_accuracy_se == pytest.approx(0.01687046, abs=5e-9)


def test_standard_errors_are_those_of_repeated_samples():
    """Stratified samples drawn from a known map: estimates are unbiased, their spread as stated."""
    rng = np.random.default_rng(0)
    share = np.array([[0.8, 0.15, 0.05], [0.1, 0.85, 0.05], [0.02, 0.03, 0.95]])  # by map class
    mapped, sizes = np.array([5e6, 2e7, 7.5e7]), (80, 120, 200)
    weight = mapped / mapped.sum()
    truth = weight @ share
    draws = [
        area_estimates(
            np.stack([rng.multinomial(n, p) for n, p in zip(sizes, share, strict=True)]).T, mapped
        )
        for _ in range(1500)
    ]
    for name, expected in (
        ("area", truth),
        ("producers_accuracy", weight * np.diag(share) / truth),
        ("users_accuracy", np.diag(share)),
        ("overall_accuracy", float(weight @ np.diag(share))),
    ):
        values = np.stack([getattr(draw, name) for draw in draws])
        stated = np.stack([getattr(draw, f"{name}_se") for draw in draws])
        np.testing.assert_allclose(values.mean(axis=0), expected, rtol=0.02)
        np.testing.assert_allclose(values.std(axis=0), stated.mean(axis=0), rtol=0.1)


def test_what_a_sample_cannot_tell_is_undefined_or_refused():
    with pytest.raises(PermafrostError, match=r"\[1\] are mapped but not sampled"):
        area_estimates([[5, 0], [2, 0]], [10, 10])
    with pytest.raises(PermafrostError, match="do not fit"):
        area_estimates([[5, 0], [2, 0]], [10, 10, 10])
    single = area_estimates([[9, 0], [3, 1]], [50, 50])
    assert np.isnan(single.overall_accuracy_se) and single.overall_accuracy == 0.875
    unmapped = area_estimates([[9, 0], [3, 0]], [50, 0])
    assert np.isnan(unmapped.users_accuracy[1]) and unmapped.area.tolist() == [0.75, 0.25]
    assert unmapped.producers_accuracy.tolist() == [1, 0]
