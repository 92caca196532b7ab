"""Measures of features: known values, what resampling makes of them, and what they share."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.measuring import measure_of
from permafrost.metrics import representation as ours
from permafrost.metrics.representation.measure import Measure


def mixture(generator, rows=250, dimensions=24, classes=3):
    scales = np.arange(1, dimensions + 1) ** -0.5
    centres = np.random.default_rng(77).normal(size=(classes, dimensions))
    labels = generator.integers(0, classes, rows)
    return generator.normal(size=(rows, dimensions)) * scales + centres[labels], labels


def value(measure: Measure) -> float:
    assert "undefined" not in measure.notes
    return measure.value


def test_isotropic_features_use_all_their_dimensions():
    features = np.random.default_rng(0).normal(size=(20_000, 10))
    assert value(measure_of("rankme", features)) == pytest.approx(10, rel=2e-3)
    assert value(measure_of("participation_ratio", features)) == pytest.approx(10, rel=5e-3)
    assert value(measure_of("nesum", features)) == pytest.approx(10, rel=0.05)
    assert value(measure_of("dimension_lpca", features)) == 10


def test_exact_low_rank():
    generator = np.random.default_rng(1)
    basis = np.linalg.qr(generator.normal(size=(64, 5)))[0]
    rows = np.linalg.qr(generator.normal(size=(300, 5)))[0]
    features = rows @ basis.T
    # five equal singular values; the 1e-7 of the 59 others adds 59e-7 log(1e7) to the entropy
    assert value(measure_of("rankme", features)) == pytest.approx(5, rel=2e-4)
    assert value(measure_of("stable_rank", features)) == pytest.approx(5, rel=1e-9)
    assert value(measure_of("dimension_lpca", features)) == 5


def test_an_exact_power_law():
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(500, 120))
    rows = np.linalg.qr(rows - rows.mean(axis=0))[0]
    features = rows * np.arange(1, 121) ** -0.65
    assert value(measure_of("alpha_req", features)) == pytest.approx(1.3, rel=1e-8)


@pytest.mark.parametrize("dimension", [2, 5])
def test_dimension_of_gaussians_and_spheres(dimension):
    generator = np.random.default_rng(3)
    flat = generator.normal(size=(2000, dimension)) @ generator.normal(size=(dimension, 40))
    ball = generator.normal(size=(2000, dimension + 1))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    for features in (flat, ball):
        assert value(measure_of("dimension_two_nn", features)) == pytest.approx(dimension, rel=0.1)
        assert value(measure_of("dimension_mle", features)) == pytest.approx(dimension, rel=0.1)


def test_uniformity_of_even_directions_is_near_minus_four():
    features = np.random.default_rng(4).normal(size=(600, 2000))
    assert value(measure_of("uniformity", features)) == pytest.approx(-4, abs=0.01)
    assert value(measure_of("uniformity", np.ones((4, 3)))) == 0.0


def test_alignment_by_hand():
    features = np.array([[2.0, 0], [0, 3], [-1, 0], [5, 0]])
    assert value(ours.alignment(features, [0, 0, 1, 1])) == pytest.approx((2 + 4) / 2)
    # a row of the larger class is drawn more often
    assert value(ours.alignment(features, [1, 0, 0, 1])) == pytest.approx((0 + 2) / 2)
    uneven = ours.alignment(np.vstack([features, [[1.0, 0]]]), [0, 0, 1, 1, 1])
    assert value(uneven) == pytest.approx((2 * 2 + 3 * (4 + 4 + 0) / 3) / 5)


def test_lidar_of_images_that_augmentations_do_not_move():
    generator = np.random.default_rng(5)
    means = np.linalg.qr(generator.normal(size=(40, 6)))[0]
    means = np.linalg.qr(means - means.mean(axis=0))[0] * 10
    views = np.repeat(means[:, None], 3, axis=1)
    assert value(ours.lidar(views)) == pytest.approx(6, rel=1e-4)


def test_cka_of_rotated_and_of_independent_features():
    generator = np.random.default_rng(6)
    features = generator.normal(size=(300, 15)) * np.arange(1, 16)
    rotation = np.linalg.qr(generator.normal(size=(15, 15)))[0]
    assert value(ours.debiased_cka(features, 7 * features @ rotation + 3)) == pytest.approx(1)
    # more dimensions than rows: the biased form would give 0.9 here
    wide = generator.normal(size=(2, 100, 1000))
    assert abs(value(ours.debiased_cka(*wide))) < 0.1


def test_all_at_once_are_what_they_are_alone():
    features, labels = mixture(np.random.default_rng(7), dimensions=130)
    together = ours.measures(features, labels, seed=0)
    assert tuple(together) == ours.MEASURES
    for name, measure in together.items():
        alone = measure_of(name, features, labels)
        assert alone.value == pytest.approx(measure.value, rel=1e-9), name
        np.testing.assert_allclose(alone.terms, measure.terms, rtol=1e-5, atol=1e-9)
    assert tuple(ours.measures(features, seed=0)) == ours.LABEL_FREE
    assert list(ours.measures(features, seed=0, names=["nesum"])) == ["nesum"]


def test_scale_moves_no_measure():
    features, labels = mixture(np.random.default_rng(8), rows=80)
    expected = {k: m.value for k, m in ours.measures(features, labels, seed=0).items()}
    for factor in (1e-200, 3.0, 1e200):
        found = ours.measures(features * factor, labels, seed=0)
        assert {k: m.value for k, m in found.items()} == pytest.approx(
            expected, rel=1e-7, nan_ok=True
        )


def test_rows_are_drawn_by_seed_and_the_same_for_every_backbone():
    features, labels = mixture(np.random.default_rng(9), rows=300)
    first = ours.measures(features, labels, seed=1, max_rows=100)
    again = ours.measures(features, labels, seed=1, max_rows=100)
    other = ours.measures(features, labels, seed=2, max_rows=100)
    assert first["rankme"].value == again["rankme"].value != other["rankme"].value
    assert first["rankme"].notes == {"rows": 100, "drawn_from": 300}
    assert len(first["rankme"].terms) == 300
    drawn = np.flatnonzero(first["rankme"].terms[:, 0])
    backbone = ours.measures(2 * features[:, :5], seed=1, max_rows=100)
    np.testing.assert_array_equal(drawn, np.flatnonzero(backbone["rankme"].terms[:, 0]))


def test_equal_rows_are_counted_once_for_dimensions():
    features, _ = mixture(np.random.default_rng(10), rows=120)
    doubled = np.concatenate([features, features[:30]])
    for name in ("dimension_two_nn", "dimension_mle"):
        found = measure_of(name, doubled)
        assert found.value == pytest.approx(measure_of(name, features).value, rel=1e-9)
        assert found.notes["duplicates"] == 30


@pytest.mark.parametrize("grouped", [False, True])
def test_terms_are_what_leaving_a_unit_out_takes_away(grouped):
    features, labels = mixture(np.random.default_rng(11), rows=400)
    units = np.arange(400) // 4 if grouped else np.arange(400)
    names = [name for name in ours.MEASURES if name not in ("dimension_lpca", "alpha_req")]
    names = [name for name in names if not name.startswith("dimension")]
    whole = ours.measures(features, labels, units=units, seed=0, names=names)
    left = {name: [] for name in names}
    chosen = np.arange(0, units.max() + 1, 9)
    for unit in chosen:
        kept = units != unit
        found = ours.measures(features[kept], labels[kept], seed=0, names=names)
        for name in names:
            left[name].append(found[name].value)
    for name in names:
        counts = np.ones((units.max() + 1, len(chosen)))
        counts[chosen, np.arange(len(chosen))] = 0
        linear = whole[name].replicates(counts) - whole[name].value
        exact = np.array(left[name]) - whole[name].value
        assert np.corrcoef(linear, exact)[0, 1] > 0.995, name
        # fewer rows also give another value on the whole, which is no effect of this unit
        linear, exact = linear - linear.mean(), exact - exact.mean()
        assert np.linalg.norm(linear - exact) < 0.1 * np.linalg.norm(exact), name


def test_intervals_cover_the_expected_value():
    counts = np.random.default_rng(0).multinomial(150, np.ones(150) / 150, size=300).T
    values, bounds = {}, {}
    for seed in range(80):
        features, labels = mixture(np.random.default_rng(seed), rows=150, dimensions=16)
        for name, measure in ours.measures(features, labels, seed=0).items():
            if name == "alpha_req":
                continue  # five ranks of sixteen: undefined
            values.setdefault(name, []).append(measure.value)
            drawn = measure.replicates(counts)
            bounds.setdefault(name, []).append(np.quantile(drawn, [0.025, 0.975]))
    for name, each in bounds.items():
        low, high = np.array(each).T
        mean = np.mean(values[name])
        covered = np.mean((low <= mean) & (mean <= high))
        # 0.95 of 80 has a standard error of 0.024; measures of neighbours are wider, knowingly
        assert covered >= 0.87, (name, covered)
        if name == "dimension_lpca":
            continue  # whole numbers: their quantiles are too
        width = np.mean(high - low) / (3.92 * np.std(values[name]))
        assert 0.8 < width < 2.1, (name, width)


def test_the_interval_of_a_cka_covers_it():
    counts = np.random.default_rng(0).multinomial(100, np.ones(100) / 100, size=300).T
    found = []
    for seed in range(100):
        generator = np.random.default_rng(seed)
        first = generator.normal(size=(100, 8))
        second = first @ np.random.default_rng(5).normal(size=(8, 6)) + generator.normal(
            size=(100, 6)
        )
        measure = ours.debiased_cka(first, second)
        found.append((measure.value, *np.quantile(measure.replicates(counts), [0.025, 0.975])))
    values, low, high = np.array(found).T
    assert np.mean((low <= values.mean()) & (values.mean() <= high)) >= 0.87
    assert 0.8 < np.mean(high - low) / (3.92 * values.std()) < 1.4


def test_replicates_of_what_counts_and_of_what_has_no_value():
    margins = np.array([0.5, -0.1])
    measure = Measure(9.0, {}, np.array([[-0.2, 0.2], [0.2, -0.2]]), "count", margins)
    np.testing.assert_array_equal(measure.replicates(np.array([[1, 2, 0], [1, 0, 2]])), [9, 10, 9])
    assert np.isnan(Measure(float("nan")).replicates(np.ones((3, 2)))).all()
    with pytest.raises(ValueError, match="units"):
        measure.replicates(np.ones((3, 2)))
