"""The steps of derived backbones against scikit-learn and formulas written out, on what they learn and what they do."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.backbones.derived import Product, Step
from permafrost.core.errors import PermafrostError
from permafrost.features.derived import steps as derived
from permafrost.features.derived.steps import Train, apply, learn
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler, normalize


def train_of(rows: np.ndarray, block: int = 7) -> Train:
    return Train(
        lambda: (rows[start : start + block] for start in range(0, len(rows), block)), len(rows)
    )


def through(steps: list[Step], train: np.ndarray, rows: np.ndarray) -> np.ndarray:
    learned, width, _ = learn(steps, train_of(train), train.shape[1], "x")
    found = apply(steps, rows, learned)
    assert found.shape == (len(rows), width)
    return found


@pytest.fixture
def data():
    rng = np.random.default_rng(3)
    mixed = rng.standard_normal((6, 6)) * [9, 5, 3, 1, 0.5, 0.1]
    return (rng.standard_normal((200, 6)) + 3) @ mixed, (rng.standard_normal((50, 6)) + 3) @ mixed


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("count", [1, 4, 6])
def test_components_are_those_of_scikit_learn_up_to_their_sign(data, whiten, count):
    train, test = data
    step = Step(whiten=count) if whiten else Step(pca=count)
    expected = PCA(count, whiten=whiten, svd_solver="full").fit(train).transform(test)
    found = through([step], train, test)
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=1e-9)


def test_a_component_has_its_largest_coefficient_positive(data):
    learned, _, _ = learn([Step(pca=6)], train_of(data[0]), 6, "x")
    matrix = learned[0]["matrix"]
    assert (matrix[np.abs(matrix).argmax(axis=0), np.arange(6)] > 0).all()


def test_scales_are_those_of_scikit_learn_also_for_constant_features_and_zero_rows(data):
    train, test = (np.column_stack([one, np.full(len(one), 7.0)]) for one in data)
    test[0] = 0
    np.testing.assert_allclose(
        through([Step(scale="standardise")], train, test),
        StandardScaler().fit(train).transform(test),
        atol=1e-9,
    )
    np.testing.assert_allclose(through([Step(scale="unit")], train, test), normalize(test))


def test_a_projection_keeps_squared_lengths_on_average_and_is_the_same_for_other_data(data):
    rows = np.random.default_rng(0).standard_normal((40, 300))
    found = through([Step(project=2000)], rows, rows)
    np.testing.assert_allclose((found**2).sum(axis=1) / (rows**2).sum(axis=1), 1, atol=0.15)
    np.testing.assert_array_equal(found, through([Step(project=2000)], rows[:5] + 1, rows))


def test_the_first_features(data):
    np.testing.assert_array_equal(through([Step(first=2)], *data), data[1][:, :2])


@pytest.mark.parametrize(("form", "levels"), [("int8", 256), ("int4", 16), ("int2", 4)])
def test_linear_levels_lie_between_the_smallest_and_the_largest_value_of_train(data, form, levels):
    train, test = data
    low, high = train.min(axis=0), train.max(axis=0)
    test[0], test[1] = high + 100, low - 100
    codes = np.clip(np.round((test - low) / (high - low) * (levels - 1)), 0, levels - 1)
    found = through([Step(quantise=form)], train, test)
    np.testing.assert_allclose(found, low + codes / (levels - 1) * (high - low), atol=1e-12)
    inside = (test >= low) & (test <= high)
    assert (
        np.abs(found - test)[inside]
        <= np.broadcast_to((high - low) / (levels - 1) / 2, test.shape)[inside] + 1e-9
    ).all()
    # every level is used at its ends
    np.testing.assert_allclose(through([Step(quantise=form)], train, train).max(axis=0), high)


@pytest.mark.parametrize(
    ("form", "levels"), [("int8-quantiles", 256), ("int2-quantiles", 4), ("int1-quantiles", 2)]
)
def test_quantile_levels_are_means_of_the_values_of_train_between_two_quantiles(data, form, levels):
    train, test = data
    # ties, a constant feature, and one of two values
    train = np.column_stack(
        [train, np.round(train[:, 0]), np.full(len(train), 2.0), train[:, 1] > 3]
    )
    test = np.column_stack([test, np.round(test[:, 0]), np.full(len(test), 5.0), test[:, 1] > 3])
    found = through([Step(quantise=form)], train, test)
    for feature in range(train.shape[1]):
        column = train[:, feature]
        ends = np.quantile(column, np.arange(1, levels) / levels)
        bins = np.array([(value > ends).sum() for value in column])
        for value, read in zip(test[:, feature], found[:, feature], strict=True):
            at = (value > ends).sum()
            own = column[bins == at]
            expected = own.mean() if len(own) else ends[min(at, levels - 2)]
            assert read == pytest.approx(expected, abs=1e-9)


def test_the_power_law_is_that_of_alphaearth_for_rows_of_length_one(data):
    train, test = (normalize(one) for one in data)
    codes = np.clip(np.rint(np.sign(test) * np.abs(test) ** 0.5 * 127.5), -127, 127).astype(np.int8)
    expected = (codes / 127.5) ** 2 * np.sign(codes)
    np.testing.assert_allclose(through([Step(quantise="int8-power")], train, test), expected)


def test_the_power_law_of_larger_values_is_relative_to_the_largest_of_train(data):
    train, test = data
    found = through([Step(quantise="int8-power")], 1000 * train, 1000 * test)
    np.testing.assert_allclose(
        found,
        1000
        * np.abs(train).max()
        * through(
            [Step(quantise="int8-power")], train / np.abs(train).max(), test / np.abs(train).max()
        ),
    )


def test_signs(data):
    rows = np.array([[0.0, -0.0, 3.0, -2.0, 1e-300, -1e300]])
    np.testing.assert_array_equal(
        through([Step(quantise="sign")], data[0], rows), [[-1, -1, 1, -1, 1, -1]]
    )


@pytest.mark.parametrize(("form", "kind"), [("float32", np.float32), ("float16", np.float16)])
def test_floating_point_forms(data, form, kind):
    np.testing.assert_array_equal(through([Step(quantise=form)], *data), data[1].astype(kind))


def test_a_product_quantiser_takes_the_nearest_codeword_of_each_part(data):
    train, test = data
    step = [Step(product=Product(parts=3, bits=4))]
    learned, _, _ = learn(step, train_of(train), 6, "x")
    words = learned[0]["words"]
    assert words.shape == (3, 16, 2)
    found = apply(step, test, learned)
    for part in range(3):
        own = test[:, 2 * part : 2 * part + 2]
        apart = ((own[:, None] - words[part]) ** 2).sum(axis=2)
        np.testing.assert_array_equal(
            found[:, 2 * part : 2 * part + 2], words[part][apart.argmin(axis=1)]
        )
    again, _, _ = learn(step, train_of(train, 50), 6, "x")
    np.testing.assert_array_equal(again[0]["words"], words)


EVERY = [
    Step(first=3),
    Step(project=5),
    Step(pca=3),
    Step(whiten=3),
    Step(scale="standardise"),
    Step(scale="unit"),
    *(Step(quantise=form) for form in ("float16", "int8", "int4-quantiles", "int8-power", "sign")),
    Step(product=Product(parts=3, bits=4)),
]


@pytest.mark.parametrize("step", EVERY, ids=lambda step: "-".join(map(str, step.chosen))[:20])
def test_no_result_depends_on_how_rows_are_blocked(data, step):
    train, test = data
    learned, _, _ = learn([step], train_of(train, len(train)), 6, "x")
    whole = apply([step], test, learned).astype(np.float32)
    for size in (1, 3, 16):
        parts = [apply([step], test[at : at + size], learned) for at in range(0, len(test), size)]
        np.testing.assert_array_equal(np.concatenate(parts).astype(np.float32), whole)


def test_a_step_learns_from_what_the_steps_before_it_leave(data):
    train, test = data
    both = through([Step(scale="standardise"), Step(pca=2)], train, test)
    scaled = [through([Step(scale="standardise")], train, one) for one in (train, test)]
    np.testing.assert_allclose(both, through([Step(pca=2)], *scaled), atol=1e-9)


@pytest.mark.parametrize(
    ("steps", "bits"),
    [
        ([], 192),
        ([Step(first=3)], 96),
        ([Step(quantise="int8")], 48),
        ([Step(quantise="int8"), Step(first=3)], 24),
        ([Step(quantise="int8"), Step(scale="unit")], 48),
        ([Step(pca=2), Step(quantise="sign")], 2),
        ([Step(quantise="int4"), Step(pca=2)], 64),
        ([Step(product=Product(parts=2, bits=6))], 12),
    ],
)
def test_the_bits_of_a_sample_are_those_that_must_be_stored(data, steps, bits):
    assert learn(steps, train_of(data[0]), 6, "x")[2] == bits


@pytest.mark.parametrize("key", ["first", "pca", "whiten"])
def test_of_fewer_features_than_asked_for_all_are_kept(data, key):
    few, many = ([Step(**{key: count})] for count in (6, 60))
    np.testing.assert_array_equal(through(many, *data), through(few, *data))
    assert learn(many, train_of(data[0]), 6, "x")[1:] == (6, 192)


@pytest.mark.parametrize(
    ("step", "rows", "said"),
    [
        (Step(pca=4), 4, "give a number from 1 to 3"),
        (Step(product=Product(parts=4)), 300, "cannot be divided into 4 equal parts"),
        (Step(product=Product(parts=3, bits=8)), 200, "256 codewords need as many train samples"),
    ],
)
def test_a_step_that_the_features_do_not_allow_is_refused(data, step, rows, said):
    train = np.resize(data[0], (rows, 6))
    with pytest.raises(PermafrostError, match=said):
        learn([step], train_of(train), 6, "x")


def test_whitening_refuses_components_that_do_not_vary(data):
    train = data[0].copy()
    train[:, 5] = train[:, 0]
    with pytest.raises(PermafrostError, match="only 5 vary over train"):
        learn([Step(whiten=6)], train_of(train), 6, "x")
    with pytest.raises(PermafrostError, match="its features do not vary"):
        learn([Step(whiten=1)], train_of(np.ones((9, 6))), 6, "x")


def test_components_of_too_many_features_are_refused(data, monkeypatch):
    monkeypatch.setattr(derived, "MOST_FEATURES", 5)
    with pytest.raises(PermafrostError, match="keep at most 5 features"):
        learn([Step(pca=2)], train_of(data[0]), 6, "x")


def test_quantiles_of_many_rows_are_those_of_rows_spread_evenly(data, monkeypatch):
    monkeypatch.setattr(derived, "LEARNED_FROM", 50)
    train = data[0]
    chosen = train[np.unique(np.linspace(0, 199, 50).round().astype(int))]
    np.testing.assert_array_equal(
        through([Step(quantise="int2-quantiles")], train, train),
        through([Step(quantise="int2-quantiles")], chosen, train),
    )
