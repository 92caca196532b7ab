"""Slices of a test set: labels by hand, scores by scikit-learn, p-values by all labellings, false alarms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.predictions.labels import multi_label, single_label
from permafrost.core.errors import PermafrostError
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.slices.labels import Labels, slicing
from permafrost.statistics.slices.sliced import _Parts, _upper_tails, score_slices
from sklearn import metrics

META = {"task": "classification", "classes": ["a", "b"], "dataset": "d"}


def lists(values, kind) -> pa.Array:
    values = np.ascontiguousarray(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel(), kind), values.shape[1])


def table_of(groups=None, **columns) -> pa.Table:
    """A table of predictions whose rows are not in the order of their names."""
    count = len(next(iter(columns.values())))
    names = [f"s{row * 7919 % 10007:05d}" for row in range(count)]
    known = {} if groups is None else {"group_id": pa.array(groups, pa.string())}
    return pa.table({"sample_id": names, **known, **columns})


def hits_table(hit, groups=None) -> pa.Table:
    """Predictions of class 0 that are right where `hit`."""
    hit = np.asarray(hit, bool)
    said = np.where(hit, 0, 1).astype(np.int32)
    groups = None if groups is None else [f"g{one}" for one in groups]
    zeros = np.zeros(len(hit), np.int32)
    return table_of(
        groups,
        target=pa.array(zeros),
        prediction=pa.array(said),
        scores=lists(np.eye(2, dtype=np.float32)[said], pa.float32()),
    )


def labels_of(codes) -> Labels:
    codes = np.asarray(codes)
    return Labels([f"slice {one}" for one in range(codes.max() + 1)], codes)


def scored(hit, codes, groups=None, **options):
    options = {"permutations": 0, "intervals": False, **options}
    return score_slices(hits_table(hit, groups), META, labels_of(codes), **options)


# --- labels


def names_by(by: str, **columns) -> list[str | None]:
    found = slicing(by).labels(pa.table(columns))
    assert found.names == list(dict.fromkeys(found.names))
    return [None if code < 0 else found.names[code] for code in found.codes.tolist()]


def test_seasons_are_three_whole_months_and_turn_south_of_the_equator():
    months = [f"2021-{month:02d}-15" for month in range(1, 13)]
    north = ["winter"] * 2 + ["spring"] * 3 + ["summer"] * 3 + ["autumn"] * 3 + ["winter"]
    turned = {"winter": "summer", "summer": "winter", "spring": "autumn", "autumn": "spring"}
    assert names_by("season", lat=[51.0] * 12, date=months) == north
    assert names_by("season", lat=[0.0] * 12, date=months) == north
    assert names_by("season", lat=[-0.1] * 12, date=months) == [turned[one] for one in north]
    order = slicing("season").labels(pa.table({"lat": [51.0] * 12, "date": months})).names
    assert order == ["winter", "spring", "summer", "autumn"]


def test_dates_are_read_as_far_as_they_go():
    dates = [
        "2020-07-01T10:00:00Z",
        "20190304",
        "2018-02",
        "2017",
        None,
        "",
        "summer",
        "2016-13-01",
    ]
    assert names_by("year", date=dates) == [
        *("2020", "2019", "2018", "2017"),
        *(None, None, None, "2016"),
    ]
    assert names_by("month", date=dates) == ["July", "March", "February", *[None] * 5]
    season = names_by("season", lat=[10.0, None, math.nan, *[10.0] * 5], date=dates)
    assert season == ["summer", *[None] * 7]
    found = slicing("month").labels(pa.table({"date": ["2020-12-01", "2020-02-01", "2020-10-01"]}))
    assert found.names == ["February", "October", "December"]


def test_bands_of_latitude_end_at_the_poles_and_at_the_equator():
    lat = [90.0, 89.9, 75.0, 0.0, -0.0, -0.1, -15.0, -15.1, -90.0, None, math.nan, 91.0]
    assert names_by("latitude", lat=lat) == [
        *["75 to 90° N"] * 3,
        *["0 to 15° N"] * 2,
        *["0 to 15° S"] * 2,
        "15 to 30° S",
        "75 to 90° S",
        *[None] * 3,
    ]
    # 40 does not divide 90
    assert names_by("latitude:40", lat=[90.0, -79.0, -81.0]) == [
        *("80 to 90° N", "40 to 80° S", "80 to 90° S")
    ]
    assert slicing("latitude").labels(pa.table({"lat": lat[:9]})).names == [
        *("75 to 90° S", "15 to 30° S", "0 to 15° S", "0 to 15° N", "75 to 90° N")
    ]


def test_cells_of_degrees_meet_at_the_date_line():
    lon, lat = [179.9, 180.0, -180.0, 0.0, -0.1, None], [1.0] * 6
    assert names_by("cell", lon=lon, lat=lat) == [
        "0 to 10° N, 170 to 180° E",
        *["0 to 10° N, 170 to 180° W"] * 2,
        "0 to 10° N, 0 to 10° E",
        "0 to 10° N, 0 to 10° W",
        None,
    ]


@pytest.mark.parametrize("side", [400.0, 1000.0])
def test_cells_of_kilometres_are_about_as_wide_as_high_and_as_large_everywhere(side):
    rng = np.random.default_rng(1)
    lat = np.degrees(np.arcsin(rng.uniform(-1, 1, 60_000)))
    lon = rng.uniform(-180, 180, len(lat))
    found = Labels.of(slicing(f"cell:{side:g}km").keys(lon, lat))
    area = 4 * math.pi * 6371**2 * np.bincount(found.codes) / len(lat)
    assert math.isclose(np.median(area), side**2, rel_tol=0.15)
    counts = len(found.names)
    assert math.isclose(counts, 4 * math.pi * 6371**2 / side**2, rel_tol=0.1)
    # no cell holds both sides of the equator or of the first meridian
    for name, sign in (("lat", np.sign(lat)), ("lon", np.sign(lon))):
        both = {(code, one) for code, one in zip(found.codes.tolist(), sign.tolist(), strict=True)}
        assert len(both) == counts, name


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("named", [True, False])
def test_a_column_of_somebodys_table_sorts_numbers_as_numbers(tmp_path, ending, named):
    path = tmp_path / f"mine.{ending}"
    rows = {"group_id": ["g1", "g2", "g3", "g4"], "clouds": [10, 9, None, 10]}
    if ending == "csv":
        path.write_text("group_id,clouds\ng1,10\ng2,9\ng3,\ng4,10\n")
    else:
        pq.write_table(pa.table(rows), path)
    found = slicing(f"{path}:clouds" if named else str(path)).labels(
        pa.table({"group_id": ["g1", "g1", "g2", "g3", "g4", "g9", None]})
    )
    assert found.names == ["9", "10"]
    assert found.codes.tolist() == [1, 1, 0, -1, 1, -1, -1]


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("seasons", "there is no way to slice by 'seasons', did you mean 'season'"),
        ("season:3", "slices by season have no size"),
        ("latitude:0", "the size '0' is not a positive number of degrees"),
        ("latitude:50km", "the size '50km' is not a positive number of degrees"),
        ("cell:-5", "the size '-5' is not a positive number of degrees or km"),
        ("cell:nan", "the size 'nan' is not"),
        ("missing.csv", "cannot be read as a table"),
        ("two.csv", "the table has several columns: a, b"),
        ("two.csv:c", "the table has no column 'c'"),
        ("keyless.csv", "needs a column sample_id or group_id"),
        ("twice.csv:a", "'s1' of the column sample_id has two values of a"),
        ("ragged.csv", "cannot be read as a table (row 2 has 1 cells"),
    ],
)
def test_what_cannot_make_slices_is_refused(tmp_path, monkeypatch, by, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.csv").write_text("sample_id,a,b\ns1,1,2\n")
    (tmp_path / "keyless.csv").write_text("name,a\ns1,1\n")
    (tmp_path / "twice.csv").write_text("sample_id,a\ns1,1\ns1,2\n")
    (tmp_path / "ragged.csv").write_text("sample_id,a\ns1\n")
    with pytest.raises(PermafrostError) as caught:
        slicing(by)
    assert said in str(caught.value)


def test_samples_without_dates_places_or_groups_say_what_is_missing():
    nothing = pa.table(
        {
            "lat": pa.array([None, None], pa.float64()),
            "lon": pa.array([math.nan] * 2),
            "date": pa.array([None, "soon"], pa.string()),
            "group_id": pa.array([None] * 2, pa.string()),
        }
    )
    for by, said in (
        ("season", "a latitude and a date with its month"),
        ("month", "a date"),
        ("cell", "a longitude and latitude"),
        ("latitude", "a latitude"),
        ("group", "a group"),
    ):
        with pytest.raises(PermafrostError, match=f"no test sample has {said} that is known"):
            slicing(by).labels(nothing)


def test_more_than_a_thousand_slices_are_refused(tmp_path):
    count = 1001
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["sample_id,height", *(f"s{row},{row}" for row in range(count))]))
    samples = pa.table(
        {
            "sample_id": [f"s{row}" for row in range(count)],
            "group_id": [f"g{row}" for row in range(count)],
            "lat": np.linspace(-89, 89, count),
        }
    )
    for by, remedy in (
        (str(path), "put the numbers into classes"),
        ("latitude:0.1", "use larger steps"),
        ("group", "a column of your own table that has fewer values"),
    ):
        with pytest.raises(PermafrostError) as caught:
            slicing(by).labels(samples)
        assert f"there are {count} slices, and at most 1000" in str(caught.value)
        assert remedy in str(caught.value)
        assert len(slicing(by).labels(samples.slice(1)).names) == 1000


@pytest.mark.parametrize("key", ["sample_id", "group_id"])
def test_a_table_of_other_samples_is_told_an_example(tmp_path, key):
    path = tmp_path / "mine.csv"
    path.write_text(f"{key},sensor\nother,S2\n")
    with pytest.raises(PermafrostError, match=f"write {key} as it is in .*'a/b.tif'"):
        slicing(str(path)).labels(pa.table({key: [None, "a/b.tif"]}))
    with pytest.raises(
        PermafrostError, match="no test sample has a (value|group) that .* FILE:COLUMN"
    ):
        slicing(str(path)).labels(pa.table({key: pa.array([None], pa.string())}))


# --- scores


def test_scores_of_classes_are_those_of_scikit_learn_on_the_rows_of_a_slice():
    target, prediction, scores = single_label(300, 5, present=4, ties=True)
    codes = np.random.default_rng(3).integers(0, 4, 300)
    codes[:20] = -1
    table = table_of(
        target=pa.array(target), prediction=pa.array(prediction), scores=lists(scores, pa.float32())
    )
    meta = {"task": "classification", "classes": list("abcde")}
    oracles = {
        "accuracy": metrics.accuracy_score,
        "balanced_accuracy": metrics.balanced_accuracy_score,
    }
    for metric, oracle in oracles.items():
        found = score_slices(table, meta, labels_of(codes), metric=metric, permutations=0)
        assert found.n_unknown == 20 and found.unit == "image"
        for place, one in enumerate(found.slices):
            own, rest = codes == place, (codes != place) & (codes >= 0)
            assert one.value == pytest.approx(oracle(target[own], prediction[own]))
            assert one.rest == pytest.approx(oracle(target[rest], prediction[rest]))
            assert one.n_test == one.n_units == own.sum()


def test_scores_of_label_sets_are_those_of_scikit_learn():
    target, prediction, scores = multi_label(160, ties=True)
    codes = np.arange(160) % 3
    table = table_of(
        target=lists(target, pa.uint8()),
        prediction=lists(prediction, pa.uint8()),
        scores=lists(scores, pa.float32()),
    )
    meta = {"task": "multilabel", "classes": list("abcde")}
    for metric, average in (("micro_ap", "micro"), ("macro_ap", "macro")):
        found = score_slices(table, meta, labels_of(codes), metric=metric, permutations=0)
        for place, one in enumerate(found.slices):
            own = codes == place
            expected = metrics.average_precision_score(target[own], scores[own], average=average)
            assert one.value == pytest.approx(expected)


def test_scores_of_numbers_are_those_of_scikit_learn_and_a_constant_slice_has_no_r2():
    rng = np.random.default_rng(0)
    target = rng.normal(size=120)
    answer = target + rng.normal(0, 0.5, 120)
    codes = np.repeat([0, 1, 2], 40)
    target[codes == 2] = 1.0
    table = table_of(target=pa.array(target), prediction=pa.array(answer))
    meta = {"task": "regression"}
    found = score_slices(table, meta, labels_of(codes), permutations=50)
    assert [one.judged for one in found.slices] == [True, True, False]
    assert math.isnan(found.slices[2].value) and math.isnan(found.slices[2].lower)
    for place, one in enumerate(found.slices[:2]):
        own = codes == place
        assert one.value == pytest.approx(metrics.r2_score(target[own], answer[own]))
    errors = score_slices(table, meta, labels_of(codes), metric="rmse", permutations=0)
    for place, one in enumerate(errors.slices):
        own = codes == place
        assert one.value == pytest.approx(
            math.sqrt(metrics.mean_squared_error(target[own], answer[own]))
        )
    middle = score_slices(table, meta, labels_of(codes), metric="median_absolute_error")
    for place, one in enumerate(middle.slices):
        assert one.value == pytest.approx(np.median(np.abs(answer - target)[codes == place]))
    # a larger error is worse
    assert errors.worst.value == max(one.value for one in errors.slices)


def test_scores_of_masks_are_those_of_their_summed_confusions():
    rng = np.random.default_rng(5)
    confusion = rng.integers(0, 50, (40, 3, 3))
    confusion[:, 2] = 0  # no truth of the last class
    confusion[20:, :, 2] = 0  # nor any prediction of it, in the second slice
    codes = np.repeat([0, 1], 20)
    table = table_of(confusion=lists(confusion.reshape(40, 9), pa.int64()))
    meta = {
        "task": "segmentation",
        "classes": list("abc"),
        "ignore_index": None,
        "dead_classes": [],
    }
    found = score_slices(table, meta, labels_of(codes), permutations=20)
    for place, one in enumerate(found.slices):
        total = confusion[codes == place].sum(axis=0)
        shared = total.diagonal()
        union = total.sum(axis=0) + total.sum(axis=1) - shared
        assert one.value == pytest.approx(np.mean(shared[union > 0] / union[union > 0]))


@pytest.mark.parametrize("grouped", [False, True])
def test_an_interval_is_that_of_the_slice_alone(grouped):
    target, prediction, scores = single_label(200, 4)
    codes = np.arange(200) % 2
    groups = [f"g{row // 5}" for row in range(200)] if grouped else None
    table = table_of(
        groups,
        target=pa.array(target),
        prediction=pa.array(prediction),
        scores=lists(scores, pa.float32()),
    )
    meta = {"task": "classification", "classes": list("abcd")}
    for metric in ("accuracy", "macro_f1"):
        found = score_slices(table, meta, labels_of(codes), metric=metric, permutations=0)
        for place, one in enumerate(found.slices):
            own = np.flatnonzero(codes == place)
            alone = LabelledSamples.from_arrays(
                [table["sample_id"][row].as_py() for row in own.tolist()],
                target[own],
                prediction[own],
                scores[own],
                task="classification",
                classes=list("abcd"),
                groups=None if groups is None else [groups[row] for row in own],
            )
            of_worst = [(found.bounds, 1 - 0.05 / 2)] if one is found.worst else []
            for ends, confidence in [((one.lower, one.upper), 0.95), *of_worst]:
                rows = bootstrap_scores(alone, seed=0, confidence=confidence)
                (row,) = [row for row in rows if row["metric"] == metric]
                assert ends == (row["lower"], row["upper"])
            units = find_units(len(own), sample_ids=alone.sample_ids, groups=alone.groups)
            assert one.n_units == units.count == (40 if grouped else 100)


def test_the_order_of_the_rows_changes_nothing():
    rng = np.random.default_rng(2)
    hit, codes, groups = rng.random(90) < 0.7, rng.integers(0, 3, 90), rng.integers(0, 25, 90)
    table, labels = hits_table(hit, groups), labels_of(codes)
    order = rng.permutation(90)
    turned = Labels(labels.names, labels.codes[order])
    first = score_slices(table, META, labels, permutations=99)
    assert score_slices(table.take(pa.array(order)), META, turned, permutations=99) == first


# --- few units, missing values, errors


def test_slices_with_few_units_are_listed_and_not_judged():
    codes = np.repeat([0, 1, 2], [30, 30, 5])
    found = scored(np.arange(65) % 3 > 0, codes, permutations=99, intervals=True)
    assert [one.judged for one in found.slices] == [True, True, False]
    small = found.slices[2]
    assert small.n_units == 5 and 0 < small.lower < small.value < small.upper < 1
    assert math.isnan(small.p_adjusted)
    # units count, not images
    grouped = scored(np.arange(65) % 3 > 0, codes, groups=codes, permutations=99)
    assert not grouped.judged and grouped.worst is None and grouped.worse == []
    assert math.isnan(grouped.spread) and math.isnan(grouped.gap) and math.isnan(grouped.bounds[0])
    of_groups = scored(np.arange(65) % 3 > 0, codes, groups=codes, of_groups=True)
    assert of_groups.unit == "image" and len(of_groups.judged) == 2
    assert [one.n_units for one in scored(np.ones(65), codes, least=2).judged] == [30, 30, 5]


def test_answers_of_repetitions_to_one_image_are_one_unit_of_a_group():
    images = [f"i{row}" for row in range(24)]
    # the last one is called like a repetition, and is none
    names = [*images, *(f"{one}, 2" for one in images), *(f"{one}, 3" for one in images), "x, 2"]
    hit = np.random.default_rng(0).random(len(names)) < 0.8
    codes = np.array([*[row % 2 for row in range(24)] * 3, 0])
    table = hits_table(hit, codes).set_column(0, "sample_id", pa.array(names))
    found = score_slices(table, META, labels_of(codes), of_groups=True, permutations=99)
    assert found.unit == "image" and [one.n_test for one in found.slices] == [37, 36]
    assert [one.n_units for one in found.slices] == [13, 12]
    units = pa.array([name.split(",")[0] for name in names[:-1]] + ["x, 2"])
    grouped = table.set_column(table.column_names.index("group_id"), "group_id", units)
    assert found.slices == score_slices(grouped, META, labels_of(codes), permutations=99).slices


def test_more_slices_than_a_test_can_take_have_scores_alone():
    codes = np.repeat(np.arange(201), 6)
    found = scored(np.arange(len(codes)) % 10 > 0, codes, permutations=10**9)
    assert len(found.judged) == 201 and not found.worse
    assert math.isnan(found.gap_by_chance) and not math.isnan(found.spread)
    assert all(math.isnan(one.p_adjusted) for one in found.slices)


def test_a_single_slice_an_unknown_metric_and_one_without_direction_are_refused():
    with pytest.raises(PermafrostError, match="all test samples are of one slice: slice 0"):
        scored(np.ones(20), np.zeros(20, int))
    with pytest.raises(PermafrostError, match="has no metric 'acuracy', did you mean 'accuracy'"):
        scored(np.ones(20), np.arange(20) % 2, metric="acuracy")
    with pytest.raises(PermafrostError, match="has no metric 'recall'"):  # one number per class
        scored(np.ones(20), np.arange(20) % 2, metric="recall")


def test_slices_that_are_all_right_have_no_spread_and_none_is_worse():
    found = scored(np.ones(60), np.arange(60) % 3, permutations=99)
    assert (found.spread, found.gap, found.gap_by_chance) == (0, 0, 0)
    assert [one.p_adjusted for one in found.slices] == [1, 1, 1] and found.worst.slice == "slice 0"


# --- p-values


def brute_force(hit, codes) -> np.ndarray:
    """Exact min-P adjusted p-values of "lower than under random labels", by all labellings of two slices."""
    count, first = len(hit), np.count_nonzero(codes == 0)
    values = []
    for chosen in itertools.combinations(range(count), first):
        own = np.isin(np.arange(count), chosen)
        values.append((hit[own].mean(), hit[~own].mean()))
    values = np.array(values)
    tails = np.array(
        [[np.mean(column <= value + 1e-12) for value in column] for column in values.T]
    )
    seen = np.array([hit[codes == place].mean() for place in (0, 1)])
    own = np.array([np.mean(values[:, p] <= seen[p] + 1e-12) for p in (0, 1)])
    smallest = tails.min(axis=0)
    adjusted = np.array([np.mean(smallest <= own.min() + 1e-12)] * 2)
    later = int(np.argmax(own))
    adjusted[later] = max(adjusted[later], np.mean(tails[later] <= own[later] + 1e-12))
    return adjusted


@pytest.mark.parametrize("wrong", [[0, 1, 2, 3], [0, 1, 2, 9], [8, 9], []])
def test_p_values_are_those_of_all_labellings(wrong):
    hit, codes = np.ones(14, bool), np.repeat([0, 1], [8, 6])
    hit[wrong] = False
    count = 6000
    found = scored(hit, codes, permutations=count, seed=3)
    expected = brute_force(hit, codes)
    error = 4 * np.sqrt(expected * (1 - expected) / count) + 2 / count
    assert np.abs([one.p_adjusted for one in found.slices] - expected).max() <= error.max()


def test_tails_count_ties_and_rounding_as_equal():
    rows = np.array([[1.0, 2.0, 1.0 + 1e-15, 0.0], [math.nan, 3.0, 2.0, 3.0]])
    assert _upper_tails(rows).tolist() == [[0.75, 0.25, 0.75, 1.0], [1.0, 0.5, 0.75, 0.5]]


def test_permutations_keep_the_parts_of_a_unit_and_reach_every_labelling():
    groups = np.array([0, 0, 0, 1, 1, 2, 2, 3, 4])
    codes = np.array([0, 1, 1, 2, 0, 2, 1, 0, 1])
    table = hits_table(np.ones(9), groups)
    predictions = LabelledSamples.from_table(table, META)
    names = table["sample_id"].to_pylist()
    sorted_codes = codes[np.argsort(names)]
    parts = _Parts.of(predictions, sorted_codes, 3, "accuracy")
    sets = {0: (0, 1), 1: (0, 2), 2: (1, 2), 3: (0,), 4: (1,)}
    drawn = np.concatenate(list(parts.permuted(4000, np.random.default_rng(0))), axis=1)
    assert drawn.shape == (8, 4000)
    seen = set()
    for column in drawn.T:
        by_unit = [column[parts.cell_unit == unit] for unit in range(5)]
        shown = sorted(tuple(sorted(own.tolist())) for own in by_unit)
        assert shown == sorted(sets.values())
        assert [len(own) for own in by_unit] == np.bincount(parts.cell_unit).tolist()
        seen.add(tuple(column.tolist()))
    # 3! sets of two among three units, 2^3 orders within them, 2! single labels
    assert len(seen) == 6 * 8 * 2


def alike(kind: str, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """A test set whose slices do not differ: hits, slices, groups."""
    if kind == "few errors in small slices":
        codes = np.repeat(np.arange(6), [6, 8, 10, 20, 30, 60])
        return rng.random(len(codes)) < 0.95, codes, None
    units = 40
    chance = 1 / (1 + np.exp(-(1 + 1.5 * rng.normal(size=units))))
    groups = np.repeat(np.arange(units), 6)
    codes = groups % 4 if kind == "whole groups" else rng.integers(0, 4, len(groups))
    return rng.random(len(groups)) < chance[groups], codes, groups


@pytest.mark.parametrize("kind", ["few errors in small slices", "whole groups", "groups cut"])
def test_false_alarms_among_equal_slices_are_rare(kind):
    runs, alarms = 150, 0
    for run in range(runs):
        hit, codes, groups = alike(kind, np.random.default_rng([run, 1]))
        alarms += bool(scored(hit, codes, groups, permutations=99, seed=run).worse)
    assert alarms / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_a_planted_bad_slice_is_found_and_the_others_are_not_accused():
    found = accused = 0
    for run in range(60):
        rng = np.random.default_rng([run, 2])
        codes = np.repeat(np.arange(8), 60)
        hit = rng.random(480) < np.where(codes == 5, 0.6, 0.9)
        worse = [one.slice for one in scored(hit, codes, permutations=199, seed=run).worse]
        found += "slice 5" in worse
        accused += bool(set(worse) - {"slice 5"})
    assert found >= 55 and accused <= 60 * 0.05 + 3 * math.sqrt(60 * 0.05 * 0.95)


def test_one_of_a_hundred_and_fifty_slices_can_be_significant():
    codes = np.repeat(np.arange(150), 12)
    hit = np.where(codes == 70, False, np.arange(1800) % 10 > 0)
    assert [one.slice for one in scored(hit, codes, permutations=99).worse] == ["slice 70"]


def test_the_gap_by_chance_is_that_of_slices_without_a_difference():
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(5), 40)
    hit = rng.random(200) < 0.8
    found = scored(hit, codes, permutations=2000)
    gaps = []
    for _ in range(2000):
        own = hit[rng.permutation(200)].reshape(5, 40).mean(axis=1)
        gaps.append(np.ptp(own))
    assert found.gap_by_chance == pytest.approx(np.median(gaps), abs=0.026)
    assert found.gap == pytest.approx(np.ptp(hit.reshape(5, 40).mean(axis=1)))


# --- spread


def test_the_spread_of_separate_slices_is_the_variance_less_that_of_shares():
    rng = np.random.default_rng(6)
    codes = np.repeat(np.arange(4), [30, 40, 50, 60])
    hit = rng.random(180) < np.array([0.5, 0.7, 0.8, 0.95])[codes]
    values = np.array([hit[codes == place].mean() for place in range(4)])
    sizes = np.array([30, 40, 50, 60])
    sampling = np.mean(values * (1 - values) / (sizes - 1))
    expected = math.sqrt(values.var(ddof=1) - sampling)
    assert scored(hit, codes).spread == pytest.approx(expected)


def test_the_spread_of_shared_units_leaves_out_what_they_share():
    rng = np.random.default_rng(7)
    units, slices = 50, 4
    groups, codes = np.repeat(np.arange(units), slices), np.tile(np.arange(slices), units)
    chance = np.repeat(rng.random(units), slices) * np.array([1, 1, 0.7, 0.5])[codes]
    hit = rng.random(len(groups)) < chance
    each = hit.reshape(units, slices).astype(float)
    apart = each - each.mean(axis=0)
    # the variance over slices of the deviations of a unit, whose common part cancels
    sampling = apart.var(axis=1, ddof=1).sum() / (units * (units - 1))
    expected = math.sqrt(each.mean(axis=0).var(ddof=1) - sampling)
    assert scored(hit, codes, groups).spread == pytest.approx(expected)


def test_the_spread_estimates_that_of_the_true_scores():
    true, none = [], []
    for run in range(80):
        rng = np.random.default_rng([run, 3])
        codes = np.repeat(np.arange(10), 80)
        own = 0.8 + rng.choice([-0.1, 0.1], 10)
        true.append(scored(rng.random(800) < own[codes], codes).spread ** 2)
        none.append(scored(rng.random(800) < 0.8, codes).spread)
    assert np.mean(true) == pytest.approx(0.01, rel=0.12)
    assert np.median(none) < 0.01


def test_numbers_of_one_row_are_refused_as_the_reader_refuses_them():
    table = table_of(target=pa.array([1.0, math.nan] * 8), prediction=pa.array([1.0] * 16))
    with pytest.raises(PermafrostError, match="8 of 16 targets are NaN"):
        score_slices(table, {"task": "regression"}, labels_of(np.arange(16) % 2))
