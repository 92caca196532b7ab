"""Features that cannot be measured: an error that names the row, or a value that says why not."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.stages.measuring import measure_of
from permafrost.core.errors import PermafrostError
from permafrost.metrics import representation as ours


def features(rows=60, dimensions=8):
    return np.random.default_rng(0).normal(size=(rows, dimensions)).astype(np.float32)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_number_names_its_row(bad):
    values = features()
    values[17, 2] = bad
    for call in (
        lambda: ours.measures(values, seed=0),
        lambda: measure_of("rankme", values),
        lambda: measure_of("silhouette", values, np.arange(60) % 2),
        lambda: ours.debiased_cka(values, features()),
        lambda: ours.view_alignment(np.stack([features(), values], axis=1)),
        lambda: ours.lidar(np.stack([values, values], axis=1)[None, :, 0]),
    ):
        with pytest.raises(PermafrostError, match="NaN or infinity"):
            call()
    with pytest.raises(PermafrostError, match="row 17"):
        ours.measures(values, seed=0)


def test_wrong_arguments():
    values = features()
    for wrong, message in [
        (lambda: ours.measures(values[0], seed=0), "shape"),
        (lambda: ours.measures(values[:0], seed=0), "shape"),
        (lambda: ours.measures(values.astype(str), seed=0), "numbers"),
        (lambda: ours.measures(values, np.zeros(5, int), seed=0), "labels"),
        (lambda: ours.measures(values, np.zeros(60), seed=0), "labels"),
        (lambda: ours.measures(values, units=np.arange(5), seed=0), "units"),
        (lambda: ours.measures(values, units=np.arange(60) - 1, seed=0), "units"),
        (lambda: ours.measures(values, seed=0, max_rows=0), "0 rows"),
        (lambda: ours.measures(values, seed=0, names=["rank_me"]), "rankme"),
        (lambda: ours.measures(values, seed=0, names=["silhouette"]), "needs labels"),
        (lambda: ours.debiased_cka(values, values[:30]), "60 and 30 rows"),
        (lambda: ours.view_alignment(values), "views"),
        (lambda: ours.lidar(values), "views"),
        (lambda: ours.lidar(np.zeros((3, 2, 4)), delta=0.0), "delta"),
    ]:
        with pytest.raises(PermafrostError, match=message):
            wrong()


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e30])
def test_collapsed_features(constant):
    values = np.full((40, 6), constant)
    found = ours.measures(values, np.arange(40) % 2, seed=0)
    for name in ("nesum", "participation_ratio", "alpha_req", "dimension_lpca", "silhouette"):
        assert np.isnan(found[name].value)
        assert "equal" in found[name].notes["undefined"]
    for name in ("dimension_two_nn", "dimension_mle"):
        assert "distinct" in found[name].notes["undefined"]
    for measure in found.values():
        assert measure.notes["duplicates"] == 39
    if constant:
        assert found["rankme"].value == pytest.approx(1, abs=1e-4)
        assert found["stable_rank"].value == pytest.approx(1)
        assert found["uniformity"].value == 0.0 and "flag" in found["uniformity"].notes
        assert found["alignment"].value == pytest.approx(0, abs=1e-12)
    else:
        assert "zero" in found["rankme"].notes["undefined"]
        assert "direction" in found["uniformity"].notes["undefined"]
        assert "direction" in found["alignment"].notes["undefined"]


def test_classes_that_say_nothing():
    values = features()
    one = ours.measures(values, np.zeros(60, int), seed=0)
    assert "one class" in one["silhouette"].notes["undefined"]
    assert one["alignment"].notes["flag"] == "one class"
    alone = ours.measures(values, np.arange(60), seed=0)
    assert "one row" in alone["silhouette"].notes["undefined"]
    assert "two rows" in alone["alignment"].notes["undefined"]
    labels = np.repeat([0, 1], 30)
    labels[0] = 5
    single = ours.measures(values, labels, seed=0)
    assert single["silhouette"].notes["singletons"] == single["alignment"].notes["singletons"] == 1
    many = ours.measures(values, np.zeros((60, 3), int), seed=0)
    for name in ours.LABELLED:
        assert "single classes" in many[name].notes["undefined"]
    assert many["rankme"].value == one["rankme"].value


@pytest.mark.parametrize("rows", [1, 2, 3, 9, 20])
def test_few_rows_never_fail(rows):
    found = ours.measures(features(rows), np.arange(rows) % 2, seed=0)
    assert "21 distinct" in found["dimension_mle"].notes["undefined"]
    assert np.isnan(found["dimension_two_nn"].value) == (rows < 10)
    for measure in found.values():
        assert np.isnan(measure.value) == ("undefined" in measure.notes)
        drawn = measure.replicates(np.ones((rows, 3), np.uint8))
        np.testing.assert_allclose(drawn, np.full(3, measure.value))
    assert "5 rows" in ours.debiased_cka(features(4), features(4)).notes["undefined"]


def test_rows_without_direction_and_lattices():
    values = features()
    values[[3, 9]] = 0.0
    found = ours.measures(values, np.arange(60) % 3, seed=0)
    assert found["uniformity"].notes["zero_rows"] == found["alignment"].notes["zero_rows"] == 2
    assert found["silhouette_normalised"].notes["zero_rows"] == 2
    kept = np.delete(values, [3, 9], axis=0)
    assert found["uniformity"].value == pytest.approx(
        measure_of("uniformity", kept).value, abs=1e-12
    )
    # corners of a simplex: every row is equally far from all others
    simplex = ours.measures(np.eye(30), seed=0)
    assert "equally far" in simplex["dimension_two_nn"].notes["undefined"]
    assert "equally far" in simplex["dimension_mle"].notes["undefined"]


def test_distances_that_vanish():
    values = features().astype(np.float64)
    values[5] = values[4]
    values[5, 0] = np.nextafter(values[4, 0], 1) if values[4, 0] else 1e-300
    values[6] = values[7] = 0.0
    values[7, 0] = 1e-250
    found = measure_of("dimension_two_nn", values)
    assert found.notes["zero_distances"] == 2
    assert np.isfinite(found.value)


def test_features_that_do_not_vary_have_no_cka():
    constant = ours.debiased_cka(np.ones((30, 4)), features(30))
    assert "equal" in constant.notes["undefined"]
    twice = np.repeat(np.eye(2)[0][None], 30, axis=0)
    twice[0] = [0.0, 1.0]
    found = ours.debiased_cka(twice, features(30))
    assert np.isfinite(found.value) != ("undefined" in found.notes)


def test_views_that_say_nothing():
    assert "two images" in ours.lidar(np.ones((1, 4, 3))).notes["undefined"]
    assert "two images" in ours.lidar(np.ones((4, 1, 3))).notes["undefined"]
    assert "equal" in ours.lidar(np.full((4, 3, 3), 0.1)).notes["undefined"]
