"""Folds: who is tested when, what stays together, how far apart train and test are, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.option_models import read
from permafrost.data.derived import Folds, check_folds
from permafrost.data.labels.folds import divided, joined, make_folds
from permafrost.data.labels.regions import season, year_month
from permafrost.data.records import Record

SPLITS = ("train", "val", "test")
EARTH_KM = 6371.0


def folds_of(data, same=None, together=None, *, name="made", **options):
    alone = np.arange(len(data))
    same = alone if same is None else np.asarray(same)
    together = same if together is None else np.asarray(together)
    asked = read(Folds, options, where="test")
    check_folds(asked, where="set")
    return make_folds(data, asked, same, together, name=name, where="set")


def records(count, classes=3, **columns):
    return [
        Record(f"s{i}", label=i % classes, **{key: column[i] for key, column in columns.items()})
        for i in range(count)
    ]


def placed(lonlat, classes=2, **columns):
    lon, lat = np.asarray(lonlat, float).T
    return records(len(lon), classes, lon=lon.tolist(), lat=lat.tolist(), **columns)


def over_the_earth(rng, count):
    """(N, 2) places, some of them at the poles and beside the meridian of 180 degrees."""
    lonlat = np.stack(
        [rng.uniform(-180, 180, count), np.degrees(np.arcsin(rng.uniform(-1, 1, count)))], 1
    )
    lonlat[:4] = [[0, 90], [120, -90], [179.999, 10], [-179.999, 10]]
    return lonlat


def great_circle_km(one, other):
    """By the formula of Vincenty for a sphere, which is exact at all distances."""
    (a, b), (c, d) = np.radians(np.asarray(one)), np.radians(np.asarray(other))
    between = c - a
    up = np.hypot(
        np.cos(d) * np.sin(between),
        np.cos(b) * np.sin(d) - np.sin(b) * np.cos(d) * np.cos(between),
    )
    return EARTH_KM * np.arctan2(
        up, np.sin(b) * np.sin(d) + np.cos(b) * np.cos(d) * np.cos(between)
    )


def check_invariants(found, same, together, repeats=1):
    """Every image is tested once per repetition, and the three splits of a fold share nothing."""
    count = len(same)
    tested = np.bincount(np.concatenate([fold.indices["test"] for fold in found]), minlength=count)
    assert (tested == repeats).all()
    for fold in found:
        assert fold.indices.keys() == set(SPLITS)
        for rows in fold.indices.values():
            assert len(rows) and (np.diff(rows) > 0).all()
        learned = np.concatenate([fold.indices["train"], fold.indices["val"]])
        assert not set(same[learned].tolist()) & set(same[fold.indices["test"]].tolist())
        inside = [set(together[fold.indices[split]].tolist()) for split in ("train", "val")]
        assert not inside[0] & inside[1]
        assert not set(fold.indices["train"]) & set(fold.indices["val"])


@pytest.mark.parametrize("trial", range(40))
def test_each_image_is_tested_once_and_units_are_never_divided(trial):
    rng = np.random.default_rng(trial)
    count = int(rng.integers(60, 200))
    same = rng.integers(0, count // 3, count)
    # a unit of `together` is one or more of `same`
    together = joined(same, rng.integers(0, count // 6, count))
    if len(np.unique(together)) < 12:
        together = same
    repeats = int(rng.integers(1, 4))
    found = folds_of(
        records(count),
        same,
        together,
        by=rng.choice(["group", "image"]),
        k=int(rng.integers(2, 7)),
        repeats=repeats,
        seed=trial,
        val=float(rng.uniform(0.15, 0.5)),
    )
    check_invariants(found, same, together, repeats)
    if repeats == 1:
        # nothing is wasted without a buffer: whole units are tested
        assert all(sum(map(len, fold.indices.values())) == count for fold in found)


@pytest.mark.parametrize("by", ["image", "group"])
def test_folds_have_equal_sizes_and_shares_of_classes(by):
    data = records(300)
    same = np.arange(300) if by == "image" else np.arange(300) // 5
    for fold in folds_of(data, same, by=by, k=5, seed=3):
        labels = np.array([one.label for one in data])
        assert np.abs(np.bincount(labels[fold.indices["test"]], minlength=3) - 20).max() <= 2
        assert np.abs(np.bincount(labels[fold.indices["val"]], minlength=3) - 16).max() <= 3


@pytest.mark.parametrize(
    ("classes", "each"), [(10, 3), (45, 4), (20, 6)], ids=["3 each", "4 each", "6 each"]
)
def test_folds_of_classes_with_few_images_are_as_large_as_each_other(classes, each):
    """Remainders of small classes are spread, and do not all go to the first folds."""
    data = [Record(f"s{i}", label=i // each) for i in range(classes * each)]
    sizes = [len(fold.indices["test"]) for fold in folds_of(data, by="image", k=5)]
    assert max(sizes) - min(sizes) <= 0.5 * len(data) / 5, sizes


@pytest.mark.parametrize("groups", [30, 60])
def test_folds_of_groups_with_one_class_each_are_as_large_as_each_other(groups):
    """As in a field campaign where each site has one class: ten classes in `groups` groups of five."""
    same = np.repeat(np.arange(groups), 5)
    data = [Record(f"s{i}", label=int(unit * 10 // groups)) for i, unit in enumerate(same)]
    sizes = [len(fold.indices["test"]) for fold in folds_of(data, same, by="group", k=5)]
    assert max(sizes) - min(sizes) <= 10, sizes


def test_a_seed_and_a_name_decide_the_folds_and_repetitions_differ():
    data = records(60)

    def tested(**options):
        return [
            fold.indices["test"].tolist() for fold in folds_of(data, by="image", k=3, **options)
        ]

    assert tested(seed=1) == tested(seed=1)
    assert tested(seed=1) != tested(seed=2)
    assert tested(seed=1) != tested(seed=1, name="other")
    twice = folds_of(data, by="image", k=3, seed=1, repeats=2)
    assert [fold.name for fold in twice] == [f"fold {k}, {r}" for r in (1, 2) for k in (1, 2, 3)]
    first, second = twice[:3], twice[3:]
    assert [fold.indices["test"].tolist() for fold in first] == tested(seed=1)
    assert [f.indices["test"].tolist() for f in second] != tested(seed=1)
    assert [fold.name for fold in folds_of(data, by="image", k=2)] == ["fold 1", "fold 2"]


def test_without_k_there_are_five_folds():
    assert len(folds_of(records(60), by="image")) == len(folds_of(records(60), by="group")) == 5


def test_each_group_can_be_a_fold_and_copies_of_its_images_elsewhere_are_left_out():
    groups = [f"g{i % 7}" for i in range(84)]
    # an image of g0 is a copy of one of g1, so the two groups are one unit
    same = np.arange(84) % 7
    same[same == 1] = 0
    found = folds_of(records(84, 3, group_id=groups), same, by="group", k="each")
    assert [fold.name for fold in found] == [f"g{i}" for i in range(7)]
    for number, linked in ((0, {0, 1}), (1, {0, 1}), (5, {5})):
        rows = found[number].indices
        assert {groups[i] for i in rows["test"]} == {f"g{number}"}
        learned = {groups[i] for split in ("train", "val") for i in rows[split]}
        assert learned == {f"g{i}" for i in range(7) if i not in linked}


def test_blocks_stay_whole_and_can_be_folds():
    # 32 places in blocks of their own, each with six images of all classes
    corners = [(lon, lat) for lon in range(8) for lat in range(4)]
    data, homes = placed(np.repeat(corners, 6, axis=0), 3), np.repeat(np.arange(32), 6)
    for fold in folds_of(data, by="block", k=4, block_km=20):
        learned = np.concatenate([fold.indices["train"], fold.indices["val"]])
        assert not set(homes[learned]) & set(homes[fold.indices["test"]])
        assert len(fold.indices["test"]) == 48
    each = folds_of(data, by="block", k="each", block_km=20)
    assert sorted(tuple(fold.indices["test"].tolist()) for fold in each) == [
        tuple(range(6 * i, 6 * i + 6)) for i in range(32)
    ]


def test_copies_in_two_blocks_are_in_one_fold():
    lonlat = np.repeat([(lon, 10.0) for lon in range(10, 40, 2)], 4, axis=0)
    same = np.arange(60)
    same[59] = same[0]
    found = folds_of(placed(lonlat), same, np.arange(60), by="block", k=3, block_km=50)
    homes = [{0, 59} & set(fold.indices["test"].tolist()) for fold in found]
    assert sorted(map(len, homes)) == [0, 0, 2]


@pytest.mark.parametrize(
    ("month", "north"),
    [(12, "winter"), (1, "winter"), (2, "winter"), (3, "spring"), (5, "spring")]
    + [(6, "summer"), (8, "summer"), (9, "autumn"), (11, "autumn")],
)
def test_seasons_are_those_of_the_hemisphere(month, north):
    south = {"winter": "summer", "summer": "winter", "spring": "autumn", "autumn": "spring"}[north]
    assert season(month, 50)[1] == season(month, 0)[1] == north
    assert season(month, -30)[1] == season(month, -1e-9)[1] == south
    for date in ("2019-{:02d}", "2019-{:02d}-15", "2019-{:02d}-01T00:00:00Z", "2019{:02d}01"):
        assert year_month(date.format(month)) == (2019, month)


def test_a_season_is_a_fold():
    dates = [f"20{10 + i % 5}-{1 + i % 12:02d}-10" for i in range(120)]
    lats = [40.0 if i % 2 else -30.0 for i in range(120)]
    data = placed(np.stack([np.zeros(120), lats], 1), 3, date=dates)
    found = folds_of(data, by="season")
    assert [fold.name for fold in found] == ["autumn", "spring", "summer", "winter"]
    summer = found[2].indices["test"]
    assert {(int(dates[i][5:7]), lats[i]) for i in summer} == {
        (m, 40.0 if m in (6, 8) else -30.0) for m in (6, 8, 1)
    } | {(m, -30.0) for m in (1,)}
    check_invariants(found, np.arange(120), np.arange(120))


def test_a_year_is_a_fold():
    dates = [f"{2017 + i % 3}-07-10" for i in range(60)]
    found = folds_of(records(60, 4, date=dates), by="year")
    assert [fold.name for fold in found] == ["2017", "2018", "2019"]
    assert {i % 3 for i in found[1].indices["test"]} == {1}


def test_a_band_of_latitude_is_a_fold_and_the_poles_belong_to_the_last_ones():
    lats = np.tile([-90, -75.1, -15, -0.1, 0, 14.9, 15, 75, 89.9, 90], 6)
    data = placed(np.stack([np.zeros(60), lats], 1), 3)
    found = {fold.name: set(lats[fold.indices["test"]]) for fold in folds_of(data, by="latitude")}
    assert found == {
        "75 to 90° S": {-90, -75.1},
        "0 to 15° S": {-15, -0.1},
        "0 to 15° N": {0, 14.9},
        "15 to 30° N": {15},
        "75 to 90° N": {75, 89.9, 90},
    }
    wide = folds_of(data, by="latitude", degrees=90)
    assert {fold.name for fold in wide} == {"0 to 90° S", "0 to 90° N"}


def test_latitude_minus_zero_is_zero():
    lats = np.tile([-0.0, 0.0, 5.0, 20.0], 10)
    found = folds_of(placed(np.stack([np.zeros(40), lats], 1), 3), by="latitude")
    assert [fold.name for fold in found] == ["0 to 15° N", "15 to 30° N"]


@pytest.mark.parametrize("degrees", [0.25, 0.3, 1.5])
def test_the_edge_of_a_band_belongs_to_the_band_above(degrees):
    lats = np.round(np.arange(1, 9) * degrees, 6)
    data = placed(np.stack([np.zeros(80), np.tile(lats, 10)], 1), 3)
    assert len(folds_of(data, by="latitude", degrees=degrees)) == len(lats)


@pytest.mark.parametrize("trial", range(12))
@pytest.mark.parametrize("buffer_km", [1.0, 300.0, 2500.0])
def test_no_image_within_the_buffer_is_learned_from_and_all_others_are(trial, buffer_km):
    rng = np.random.default_rng([trial, int(buffer_km)])
    lonlat = over_the_earth(rng, 60)
    if buffer_km < 2:
        # places a fraction of a kilometre apart
        lonlat = np.array([7.0, 46.5]) + rng.uniform(-0.1, 0.1, (60, 2))
    data, same = placed(lonlat), rng.integers(0, 30, 60)
    try:
        found = folds_of(data, same, by="image", k=6, buffer_km=buffer_km, val=0.4)
    except PermafrostError as error:
        assert "has no image left for" in error.problem and buffer_km == 2500
        return
    check_invariants(found, same, same)
    for fold in found:
        rows = fold.indices
        nearest = np.array(
            [min(great_circle_km(lonlat[i], lonlat[j]) for j in rows["test"]) for i in range(60)]
        )
        apart = ~np.isin(same, same[rows["test"]]) & (nearest >= buffer_km)
        assert np.flatnonzero(apart).tolist() == sorted([*rows["train"], *rows["val"]])


def test_validation_is_the_asked_share_of_what_is_left():
    for fold in folds_of(records(500), by="image", k=5, val=0.25):
        assert len(fold.indices["val"]) == pytest.approx(100, abs=3)


def test_only_some_folds_are_tested_and_they_are_as_with_all():
    dates = [f"{2017 + i % 3}-{1 + i % 12:02d}-10" for i in range(90)]
    data = records(90, 4, date=dates)
    every = {fold.name: fold.indices for fold in folds_of(data, by="year")}
    (fold,) = folds_of(data, by="year", only=["2019"])
    assert fold.name == "2019"
    np.testing.assert_array_equal(fold.indices["test"], every["2019"]["test"])
    groups = [f"g{i % 5}" for i in range(90)]
    some = folds_of(
        records(90, 4, group_id=groups), np.arange(90) % 5, by="group", k="each", only=["g3", "g1"]
    )
    assert [fold.name for fold in some] == ["g1", "g3"]


def test_a_fold_does_not_depend_on_which_others_are_tested():
    dates = [f"{2017 + i % 3}-{1 + i % 12:02d}-10" for i in range(90)]
    data = records(90, 4, date=dates)
    every = {fold.name: fold.indices for fold in folds_of(data, by="year")}
    (fold,) = folds_of(data, by="year", only=["2019"])
    np.testing.assert_array_equal(fold.indices["val"], every["2019"]["val"])


def test_what_is_kept_by_a_share_is_stratified_and_keeps_units_whole():
    rng = np.random.default_rng(0)
    strata, rows = np.arange(200) % 4, np.arange(0, 200)
    kept = divided(rows, 0.25, np.arange(200), strata, rng) == 0
    assert np.bincount(strata[kept]).tolist() == pytest.approx([12.5] * 4, abs=0.51)
    units = np.arange(200) // 4
    kept = divided(rows, 0.25, units, strata, rng) == 0
    assert set(units[kept]).isdisjoint(units[~kept]) and 46 <= kept.sum() <= 54


def test_joined_units_are_the_finest_that_keep_both():
    rng = np.random.default_rng(0)
    for _ in range(30):
        one, other = rng.integers(0, 12, 40), rng.integers(0, 30, 40)
        found, names = joined(one.astype(str), other), np.arange(40)
        while True:  # the least name of all that are linked, by brute force
            again = np.array(
                [names[(one == one[i]) | (other == other[i])].min() for i in range(40)]
            )
            if (again == names).all():
                break
            names = again
        np.testing.assert_array_equal(found[:, None] == found, names[:, None] == names)


# --- what is refused -------------------------------------------------------------------------------

DATED = {"date": ["2019-01-01", "2019-07-01"] * 10}
NOWHERE = {"lon": [1.0] * 19 + [None], "lat": [2.0 * i for i in range(19)] + [None]}
HERE = {"lon": [1.0] * 20, "lat": [2.0 * i for i in range(20)]}


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (NOWHERE, {"by": "latitude"}, "the latitude of s19 is not known"),
        (NOWHERE | DATED, {"by": "season"}, "the latitude of s19 is not known"),
        (HERE, {"by": "season"}, "the month of s0 is not known"),
        ({"date": [None] * 20}, {"by": "year"}, "the year of s0 is not known"),
        (HERE | {"date": ["2019"] * 20}, {"by": "season"}, "the month of s0 is not known"),
        (
            NOWHERE,
            {"by": "block", "block_km": 1},
            "need lon and lat; 1 records have none, e.g. s19",
        ),
        (NOWHERE, {"by": "image", "buffer_km": 1}, "need lon and lat; 1 records have none"),
        ({}, {"by": "group", "k": "each"}, "need a group for every record; 20 have none, e.g. s0"),
        ({}, {"by": "image", "k": 21}, "21 folds need as many images, and there are 20"),
        (HERE, {"by": "block", "block_km": 9e4}, "5 folds need as many blocks, and there are "),
        (DATED, {"by": "year"}, r"all images have the same year \(2019\)"),
        (
            HERE,
            {"by": "latitude", "degrees": 90},
            r"all images have the same latitude \(0 to 90° N\)",
        ),
        ({"group_id": ["g"] * 20}, {"by": "group", "k": "each"}, r"the same group \(g\)"),
        (
            HERE | DATED,
            {"by": "season", "only": ["monsoon"]},
            "there is no fold 'monsoon' by season",
        ),
        (HERE, {"by": "image", "k": 2, "buffer_km": 9000}, "has no image left for train"),
    ],
)
def test_data_that_do_not_suffice_are_refused(columns, options, said):
    with pytest.raises(PermafrostError, match=said) as raised:
        folds_of(records(20, 2, **columns), **options)
    assert raised.value.remedy and str(raised.value).startswith("set")


def test_too_few_groups_are_refused_with_the_number_that_would_do():
    with pytest.raises(
        PermafrostError, match="5 folds need as many groups, and there are 4.*at most 4"
    ):
        folds_of(records(20, 2), np.arange(20) % 4, by="group")
    with pytest.raises(PermafrostError, match="choose other folds"):
        folds_of(records(20, 2), np.zeros(20, int), by="group", k=2)


def test_a_year_alone_is_enough_for_folds_by_year():
    """A date may be a year, as in tables of field campaigns."""
    found = folds_of(records(20, 2, date=["2018", "2019"] * 10), by="year")
    assert [fold.name for fold in found] == ["2018", "2019"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "season", "k": 3}, "k has no effect by season"),
        ({"by": "year", "k": "each"}, "k has no effect by year"),
        ({"by": "image", "k": "each"}, "each image cannot be a fold"),
        ({"by": "block"}, "folds by block need block_km"),
        ({"by": "group", "block_km": 3}, "block_km has no effect by group"),
        ({"by": "latitude", "repeats": 2}, "the folds are the same in each repetition"),
        ({"by": "group", "k": "each", "repeats": 2}, "the folds are the same in each repetition"),
        ({"by": "image", "only": ["fold 1"]}, "only names values, but folds are numbered"),
        ({"by": "block", "block_km": 3, "only": ["0"]}, "only names values"),
        ({"table": "a.csv"}, "table and column go together"),
        ({"table": "a.csv", "column": "c", "by": "year"}, "by: year has no effect with a table"),
        ({"table": "a.csv", "column": "c", "k": 3}, "k has no effect by c: each c is a fold"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, said):
    with pytest.raises(PermafrostError, match=said) as raised:
        check_folds(read(Folds, options, where="test"), where="derived_datasets.x")
    assert raised.value.remedy and "derived_datasets.x: folds" in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        *({"k": 1}, {"k": "all"}, {"k": 2.5}, {"val": 0}, {"val": 1}, {"repeats": 0}),
        *({"degrees": 0}, {"block_km": 0}, {"buffer_km": 0}, {"seed": -1}, {"by": "country"}),
        *({"only": []}, {"only": ["a", "a"]}, {"only": [""]}, {"folds": 3}),
    ],
    ids=str,
)
def test_values_out_of_range_are_refused(options):
    with pytest.raises(PermafrostError):
        read(Folds, options, where="test")
