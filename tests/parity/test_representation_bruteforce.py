"""Measures of features against their definitions, written out without any of the short cuts."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.measuring import measure_of
from permafrost.metrics import representation as ours
from permafrost.metrics.representation import pairs


def features(rows=200, dimensions=20, seed=0, offset=1.0):
    generator = np.random.default_rng(seed)
    scales = np.arange(1, dimensions + 1) ** -0.8
    return generator.normal(size=(rows, dimensions)) * scales + offset * generator.random(
        dimensions
    )


def squared_gaps(values):
    return ((values[:, None] - values[None]) ** 2).sum(axis=2)


def unit(values):
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def test_uniformity(monkeypatch):
    monkeypatch.setattr(pairs, "BLOCK_BYTES", 17 * 200 * 8)
    values = features()
    others = ~np.eye(200, dtype=bool)
    expected = np.log(np.exp(-2 * squared_gaps(unit(values))[others]).mean())
    assert measure_of("uniformity", values).value == pytest.approx(expected, abs=1e-12)


def test_alignment_of_classes_and_of_views():
    values = features()
    labels = np.random.default_rng(1).choice([0, 4, 9], 200, p=[0.6, 0.3, 0.1])
    gaps = squared_gaps(unit(values))
    to_positives = [
        np.delete(gaps[row], row)[np.delete(labels, row) == labels[row]].mean()
        for row in range(200)
    ]
    assert ours.alignment(values, labels).value == pytest.approx(np.mean(to_positives), abs=1e-12)
    views = features(seed=5)
    expected = ((unit(values) - unit(views)) ** 2).sum(axis=1).mean()
    pairs = np.stack([values, views], axis=1)
    assert ours.view_alignment(pairs).value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("shape", [(200, 20), (40, 90), (90, 90)])
@pytest.mark.parametrize("kind", ["plain", "low rank", "one huge direction", "dead dimensions"])
def test_spectra(shape, kind):
    values = features(*shape)
    if kind == "low rank":
        values = values[:, :7] @ features(7, shape[1], seed=9)
    elif kind == "one huge direction":
        values[:, 0] *= 1e7
    elif kind == "dead dimensions":
        values[:, 3:9] = 0.0
    whole = np.linalg.svd(values, compute_uv=False)
    shares = whole / whole.sum() + 1e-7
    centred = np.linalg.svd(values - values.mean(axis=0), compute_uv=False) ** 2
    expected = {
        "rankme": np.exp(-(shares * np.log(shares)).sum()),
        "stable_rank": (whole**2).sum() / whole[0] ** 2,
        "nesum": centred.sum() / centred[0],
        "participation_ratio": centred.sum() ** 2 / (centred**2).sum(),
        "dimension_lpca": np.count_nonzero(centred > 0.05 * centred[0]),
    }
    for name, value in expected.items():
        assert measure_of(name, values).value == pytest.approx(value, rel=1e-9), name


def test_alpha_req():
    values = features(400, 150)
    centred = np.linalg.svd(values - values.mean(axis=0), compute_uv=False) ** 2
    ranks = np.arange(12, 101)
    slope = np.polyfit(np.log(ranks), np.log(centred[ranks - 1]), 1, w=ranks**-0.5)[0]
    assert measure_of("alpha_req", values).value == pytest.approx(-slope, rel=1e-10)


@pytest.mark.parametrize("images", [12, 60])
def test_lidar(images):
    generator = np.random.default_rng(2)
    views = generator.normal(size=(images, 1, 30)) + 0.3 * generator.normal(size=(images, 5, 30))
    means = views.mean(axis=1)
    between = np.cov(means.T, bias=True)
    inner = (views - means[:, None]).reshape(-1, 30)
    within = inner.T @ inner / len(inner) + 1e-4 * np.eye(30)
    scales, axes = np.linalg.eigh(within)
    root = axes / np.sqrt(scales) @ axes.T
    values = np.clip(np.linalg.eigvalsh(root @ between @ root), 0, None)
    shares = values / values.sum() + 1e-7
    # beyond the rank of the images' means there is nothing but the 1e-7
    shares = shares[-images:]
    expected = np.exp(-(shares * np.log(shares)).sum())
    assert ours.lidar(views).value == pytest.approx(expected, rel=1e-8)


def naive_cka(first, second):
    def hsic(one, other):
        rows = len(one)
        k, m = one @ one.T, other @ other.T
        np.fill_diagonal(k, 0)
        np.fill_diagonal(m, 0)
        ones = np.ones(rows)
        value = np.trace(k @ m) + (ones @ k @ ones) * (ones @ m @ ones) / ((rows - 1) * (rows - 2))
        return value - 2 / (rows - 2) * (ones @ k @ m @ ones)

    return hsic(first, second) / np.sqrt(hsic(first, first) * hsic(second, second))


@pytest.mark.parametrize("widths", [(8, 12), (150, 200), (8, 150)])
def test_cka_and_its_delete_one_values(widths):
    first = features(60, widths[0])
    second = features(60, widths[1], seed=4)
    second[:, :6] += 2 * first[:, :6]
    found = ours.debiased_cka(first, second)
    assert found.value == pytest.approx(naive_cka(first, second), abs=1e-10)
    left = [naive_cka(np.delete(first, row, 0), np.delete(second, row, 0)) for row in range(60)]
    np.testing.assert_allclose(
        found.terms[:, 0], (np.mean(left) - left) * 59 / 60, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("kept", [0, 1 << 30])
def test_cka_matrix_whatever_it_keeps(kept):
    sets = {name: features(30, 5, seed) for seed, name in enumerate("abcd")}
    loaders = {name: (lambda values=values: values) for name, values in sets.items()}
    found = ours.cka_matrix(loaders, kept_bytes=kept)
    assert list(found) == [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    for (one, other), measure in found.items():
        assert measure.value == pytest.approx(naive_cka(sets[one], sets[other]), abs=1e-10)


def brute_dimensions(values):
    distances = np.sqrt(squared_gaps(values))
    np.fill_diagonal(distances, np.inf)
    distances.sort(axis=1)
    ratios = np.sort(np.log(distances[:, 1] / distances[:, 0]))
    kept = int(len(values) * 0.9)
    heights = -np.log(1 - np.arange(1, kept + 1) / len(values))
    near = distances[:, :20]
    local = np.log(near[:, -1:] / near[:, :-1]).mean(axis=1)
    return ratios[:kept] @ heights / (ratios[:kept] @ ratios[:kept]), 1 / local.mean()


@pytest.mark.parametrize("kind", ["plain", "far clusters", "far row", "tight and far", "units"])
def test_dimensions(kind):
    values = features(150, 6)
    if kind == "far clusters":
        values[::2] += 1e6
    elif kind == "far row":
        values[3] = 1e7
    elif kind == "tight and far":
        # differences survive in the numbers, but not in products of them
        values = np.repeat([[0.0] * 6, [64.0] * 6], 75, axis=0) + np.round(values * 2**20) / 2**45
    elif kind == "units":
        values = values * 1e150
    given = values / 1e150 if kind == "units" else values
    found = measure_of("dimension_two_nn", values).value, measure_of("dimension_mle", values).value
    assert found == pytest.approx(brute_dimensions(given), rel=1e-9)


def test_the_effects_of_units_on_the_mle_are_those_of_leaving_them_out():
    values, units = features(120, 4), np.random.default_rng(0).permutation(120) % 40
    found = measure_of("dimension_mle", values, units=units)
    logs = [np.log(brute_dimensions(values[units != unit])[1]) for unit in range(40)]
    effects = np.log(found.value) - logs
    np.testing.assert_allclose(found.terms[:, 0], effects - effects.mean(), atol=1e-10)


# scikit-dimension 0.5.0 on the arrays below: TwoNN, MLE (20 neighbours), lPCA
RECORDED = {
    "subspace": (10.940884799186106, 9.930020720598954, 12.0),
    "sphere": (4.858268497870606, 4.777181280820428, 6.0),
    "cube": (2.963014654188231, 2.813311771758359, 3.0),
    "power law": (17.232620765094122, 12.748767896041898, 8.0),
}


def recorded_arrays():
    generator = np.random.Generator(np.random.PCG64(7))
    yield generator.normal(size=(1000, 12)) @ generator.normal(size=(12, 128))
    sphere = unit(generator.normal(size=(800, 6)))
    yield np.concatenate([sphere, np.zeros((800, 24))], axis=1)
    yield generator.random((700, 3))
    yield generator.normal(size=(600, 40)) * np.arange(1, 41) ** -0.7


def test_dimensions_that_scikit_dimension_gave():
    for (name, expected), values in zip(RECORDED.items(), recorded_arrays(), strict=True):
        found = (
            measure_of("dimension_two_nn", values).value,
            measure_of("dimension_mle", values).value,
            measure_of("dimension_lpca", values).value,
        )
        assert found == pytest.approx(expected, rel=1e-9), name


def weighted_silhouette(distances, labels, weights):
    each = np.zeros(len(labels))
    for row, label in enumerate(labels):
        others = np.arange(len(labels)) != row
        means = {
            kind: np.average(distances[row][chosen], weights=weights[chosen])
            for kind in set(labels)
            if (chosen := others & (labels == kind)).any()
        }
        if label in means:
            inner = means.pop(label)
            outer = min(means.values())
            each[row] = (outer - inner) / max(inner, outer)
    return np.average(each, weights=weights)


def weighted_uniformity(squared, labels, weights):
    pairs = np.outer(weights, weights) * ~np.eye(len(weights), dtype=bool)
    return np.log((pairs * np.exp(-2 * squared)).sum() / pairs.sum())


def weighted_alignment(squared, labels, weights):
    total = used = 0.0
    for kind in set(labels):
        chosen = np.flatnonzero(labels == kind)
        if len(chosen) > 1:
            pairs = np.outer(weights[chosen], weights[chosen]) * ~np.eye(len(chosen), dtype=bool)
            mean = (pairs * squared[np.ix_(chosen, chosen)]).sum() / pairs.sum()
            total, used = total + weights[chosen].sum() * mean, used + weights[chosen].sum()
    return total / used


def test_effects_of_rows_are_derivatives_in_their_weights():
    values = features(30, 6)
    labels = np.repeat([0, 1, 2, 3], [14, 10, 5, 1])
    squared, chords = squared_gaps(values), squared_gaps(unit(values))
    cases = [
        (measure_of("silhouette", values, labels), weighted_silhouette, np.sqrt(squared)),
        (measure_of("silhouette_normalised", values, labels), weighted_silhouette, np.sqrt(chords)),
        (measure_of("uniformity", values), weighted_uniformity, chords),
        (ours.alignment(values, labels), weighted_alignment, chords),
    ]
    for measure, weighted, distances in cases:
        assert measure.value == pytest.approx(weighted(distances, labels, np.ones(30)), abs=1e-12)
        slopes = []
        for row in range(30):
            step = 1e-6 * (np.arange(30) == row)
            high, low = (weighted(distances, labels, 1 + sign * step) for sign in (1, -1))
            slopes.append((high - low) / 2e-6)
        np.testing.assert_allclose(measure.terms[:, 0], slopes, rtol=1e-5, atol=1e-8)


def test_effects_of_rows_on_two_nn_and_lidar_are_those_of_leaving_them_out():
    def two_nn(values):
        return measure_of("dimension_two_nn", values)

    values = features(300, 4)
    generator = np.random.default_rng(2)
    scales = np.arange(1, 13) ** -0.7
    views = scales * generator.normal(size=(300, 1, 12)) + 0.3 * generator.normal(size=(300, 3, 12))
    for measure, given, enough in ((two_nn, values, 0.98), (ours.lidar, views, 0.999)):
        found = measure(given)
        left = [np.log(measure(np.delete(given, row, 0)).value) for row in range(0, 300, 5)]
        effects = np.mean(left) - left
        linear = found.terms[::5, 0]
        assert np.corrcoef(linear, effects)[0, 1] > enough, measure.__name__
        assert np.std(linear) == pytest.approx(np.std(effects), rel=0.1), measure.__name__
