"""Maps assessed with reference points: published examples, simulated designs, files, mistakes."""

from __future__ import annotations

import argparse
import json
import math

import numpy as np
import pandas as pd
import pytest
from helpers.predictions.rasters import write
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.evaluators.map_accuracy import evaluate
from permafrost.evaluators.map_accuracy.measures import DISAGREEMENTS, PLAIN, measures, slopes
from permafrost.evaluators.raster import area_estimates
from permafrost.stages import evaluate_map
from rasterio.transform import from_origin
from rasterio.warp import transform
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score, confusion_matrix, precision_recall_fscore_support

# Olofsson et al. (2014), table 8: rows the map, columns the reference; mapped pixels of 30 m
OLOFSSON = np.array([[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]])
PIXELS = dict(zip("abcd", (200_000, 150_000, 3_200_000, 6_450_000), strict=True))
NAMES = np.array(list("abcd"))


def points(counts=OLOFSSON) -> pd.DataFrame:
    first, second = np.indices(counts.shape)
    times = counts.ravel()
    return pd.DataFrame(
        {
            "map": np.repeat(NAMES[first.ravel()], times),
            "reference": np.repeat(NAMES[second.ravel()], times),
        }
    )


def published():
    areas = {name: 900 * count for name, count in PIXELS.items()}
    return evaluate(points(), design="stratified", strata_areas=areas, area_unit="m2")


def test_the_worked_example_of_olofsson_and_others():
    found = published()
    rows = {(row["metric"], row["class"]): row for row in found.rows(resamples=0)}
    half = {
        name: (row["upper"] - row["lower"]) / 2
        for name, row in rows.items()
        if row["lower"] is not None
    }
    deforestation = rows["area_ha", "a"]
    # 21,158 ha ± 6,158 ha, which are 235,086 pixels ± 68,418
    assert round(deforestation["value"] / 0.09) == 235_086
    assert round(half["area_ha", "a"] / 0.09) == pytest.approx(68_418, abs=3)
    assert [round(rows["area_ha", name]["value"]) for name in "abcd"] == [
        21_158,
        11_686,
        285_770,
        581_386,
    ]
    overall = "overall_accuracy", None
    assert (round(rows[overall]["value"], 2), round(half[overall], 2)) == (0.95, 0.02)
    assert [round(rows["users_accuracy", name]["value"], 2) for name in "abcd"] == [
        0.88,
        0.73,
        0.93,
        0.96,
    ]
    assert [round(rows["producers_accuracy", name]["value"], 2) for name in "abcd"] == [
        0.75,
        0.85,
        0.93,
        0.96,
    ]
    assert (
        round(half["users_accuracy", "b"], 2) == 0.10
        and round(half["producers_accuracy", "a"], 2) == 0.21
    )
    # and to the last digit those of the formulas in `evaluators.raster.area`
    expected = area_estimates(OLOFSSON.T, np.array([*PIXELS.values()]))
    for metric, name in (
        ("users_accuracy",) * 2,
        ("producers_accuracy",) * 2,
        ("area_share", "area"),
    ):
        for place, label in enumerate("abcd"):
            row = rows[metric, label]
            assert row["value"] == pytest.approx(getattr(expected, name)[place], rel=1e-12)
            assert row["standard_error"] == pytest.approx(
                getattr(expected, f"{name}_se")[place], rel=1e-9
            )
    assert rows[overall]["standard_error"] == pytest.approx(expected.overall_accuracy_se, rel=1e-9)
    # without resamples nothing is said of what needs them
    assert rows["exchange", None]["value"] > 0 and rows["exchange", None]["lower"] is None


def test_the_worked_example_of_stehman_whose_strata_are_not_the_classes():
    # International Journal of Remote Sensing 35 (2014), pages 4932 to 4936
    table = pd.DataFrame(
        {
            "stratum": list("a" * 10 + "b" * 10 + "c" * 10 + "d" * 10),
            "map": list("A" * 7 + "BBB" + "A" + "B" * 11 + "C" * 6 + "BB" + "D" * 10),
            "reference": list("AAAAACBABC" + "ABBBBBAABB" + "CCCCCDDBBA" + "DDDDDDDCCB"),
        }
    )
    areas = dict(zip("abcd", (0.4, 0.3, 0.2, 0.1), strict=True))
    found = evaluate(table, design="stratified", strata_areas=areas, area_unit="share")
    expected = {
        ("area_share", "A"): (0.35, 0.082),
        ("area_share", "C"): (0.20, 0.064),
        ("overall_accuracy", None): (0.63, 0.085),
        ("users_accuracy", "B"): (0.574, 0.125),
    }
    for name, (value, error) in expected.items():
        assert found.values[name] == pytest.approx(value, abs=5.1e-4), name
        assert found.standard_errors[name] == pytest.approx(error, abs=1.1e-3), name
    assert found.shares[2, 1] == pytest.approx(0.08)
    # his equation 28 for the ratio of two sums
    true = (table["reference"] == "B").to_numpy(float)
    right = true * (table["map"] == "B").to_numpy(float)
    parts = [slice(10 * place, 10 * place + 10) for place in range(4)]
    total = sum(w * true[p].mean() for w, p in zip(areas.values(), parts, strict=True))
    ratio = sum(w * right[p].mean() for w, p in zip(areas.values(), parts, strict=True)) / total
    variance = 0.0
    for w, p in zip(areas.values(), parts, strict=True):
        (yy, xy), (_, xx) = np.cov(right[p], true[p])
        variance += w**2 / 10 * (yy + ratio**2 * xx - 2 * ratio * xy)
    assert (
        found.values["producers_accuracy", "B"]
        == pytest.approx(ratio)
        == pytest.approx(0.794, abs=5e-4)
    )
    error = math.sqrt(variance) / total
    assert found.standard_errors["producers_accuracy", "B"] == pytest.approx(error)
    assert found.square_metres is None


def random_table(seed=0, count=400, classes=4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    true = rng.choice(classes, count, p=np.arange(1, classes + 1) / 10)
    maps = [
        np.where(rng.random(count) < p, true, rng.integers(0, classes, count)) for p in (0.7, 0.6)
    ]
    return pd.DataFrame({"reference": true, "map": maps[0], "against": maps[1]})


def test_a_simple_random_sample_gives_scikit_learns_figures():
    table = random_table()
    found = evaluate(table, design="simple")
    true, mapped = table["reference"], table["map"]
    np.testing.assert_array_equal(found.counts, confusion_matrix(true, mapped))
    each = precision_recall_fscore_support(true, mapped)
    for metric, values in zip(("users_accuracy", "producers_accuracy", "f1"), each, strict=False):
        for name, value in zip("0123", values, strict=True):
            assert found.values[metric, name] == pytest.approx(value, rel=1e-12)
    assert found.values["mean_f1", None] == pytest.approx(each[2].mean(), rel=1e-12)
    assert found.values["kappa", None] == pytest.approx(cohen_kappa_score(true, mapped), rel=1e-12)
    accuracy = np.mean(true == mapped)
    error = found.standard_errors["overall_accuracy", None]
    assert error == pytest.approx(math.sqrt(accuracy * (1 - accuracy) / (len(true) - 1)))
    # equal weights are the same design
    same = evaluate(table.assign(weight=7.0), design="probabilities")
    assert same.values == pytest.approx(found.values) and same.standard_errors == pytest.approx(
        found.standard_errors
    )


def test_disagreements_by_hand():
    # Pontius and Santacruz: a cycle of three classes is shift, an exchanged pair is exchange
    shares = np.array([[0.3, 0.1, 0.0], [0.0, 0.2, 0.1], [0.1, 0.0, 0.2]])
    shift = measures(shares, ("a", "b", "c"))
    assert [shift[name, None] for name in DISAGREEMENTS] == pytest.approx([0, 0.3, 0, 0.3])
    pair = measures(np.array([[0.4, 0.2], [0.1, 0.3]]), ("a", "b"))
    assert [pair[name, None] for name in DISAGREEMENTS] == pytest.approx([0.1, 0.2, 0.2, 0])
    assert pair["quantity_disagreement", None] + pair[
        "allocation_disagreement", None
    ] == pytest.approx(1 - pair["overall_accuracy", None])


@pytest.mark.parametrize("seed", range(4))
def test_slopes_are_numerical_derivatives(seed):
    rng, names = np.random.default_rng(seed), ("a", "b", "c", "d")
    shares = rng.dirichlet(np.ones(16)).reshape(4, 4)
    found, step = slopes(shares, names), 1e-7
    for row, column in np.ndindex(4, 4):
        moved = np.zeros((4, 4))
        moved[row, column] = step
        above, below = measures(shares + moved, names), measures(shares - moved, names)
        for name, slope in found.items():
            assert slope[row, column] == pytest.approx(
                (above[name] - below[name]) / (2 * step), abs=1e-5
            ), name


def test_two_maps_at_the_same_points():
    table = random_table(1)
    found = evaluate(table, design="simple", against=True)
    rows = {(row["metric"], row["class"]): row for row in found.differences()}
    first, second = (table[name] == table["reference"] for name in ("map", "against"))
    only = np.sum(first & ~second), np.sum(second & ~first)
    row, count = rows["overall_accuracy", None], len(table)
    assert row["difference"] == pytest.approx((only[0] - only[1]) / count)
    error = math.sqrt(np.var(first.astype(int) - second.astype(int), ddof=1) / count)
    assert (row["upper"] - row["lower"]) / 2 == pytest.approx(1.959964 * error, rel=1e-5)
    test = found.mcnemar()
    assert (test["only_first"], test["only_second"]) == only
    assert test["p_value"] == pytest.approx(binomtest(int(only[0]), int(sum(only))).pvalue)
    same = evaluate(table.assign(against=table["map"]), design="simple", against=True)
    assert {row["difference"] for row in same.differences()} == {0.0}
    assert same.mcnemar()["p_value"] == 1.0
    assert "area_share" not in {name for name, _ in rows}


@pytest.mark.parametrize("design", ["simple", "stratified", "probabilities"])
def test_intervals_cover_what_is_true_of_a_known_map(design):
    rng = np.random.default_rng(5)
    size, names = 20_000, ("0", "1", "2")
    mapped = rng.choice(3, size, p=[0.1, 0.3, 0.6])
    true = np.where(
        rng.random(size) < np.array([0.7, 0.8, 0.93])[mapped], mapped, rng.integers(0, 3, size)
    )
    other = np.where(rng.random(size) < 0.8, true, rng.integers(0, 3, size))
    population = np.bincount(true * 3 + mapped, minlength=9).reshape(3, 3) / size
    truth = measures(population, names)
    accuracy = [np.mean(each == true) for each in (mapped, other)]
    chance = np.array([0.03, 0.02, 0.01])[mapped]
    covered: dict = {}
    stated: dict = {}
    trials = 120
    for _ in range(trials):
        if design == "simple":
            chosen = rng.choice(size, 300, replace=False)
        elif design == "stratified":
            chosen = np.concatenate(
                [rng.choice(np.flatnonzero(mapped == k), 100, replace=False) for k in range(3)]
            )
        else:
            chosen = np.flatnonzero(rng.random(size) < chance)
        table = pd.DataFrame(
            {"reference": true, "map": mapped, "against": other, "inclusion_probability": chance}
        )
        areas = None
        if design == "stratified":
            areas = {"strata_areas": dict(enumerate(np.bincount(mapped))), "area_unit": "share"}
        found = evaluate(
            table.iloc[chosen].reset_index(drop=True), design=design, against=True, **(areas or {})
        )
        rows = [(row, truth) for row in found.rows(resamples=100)]
        difference = {("overall_accuracy", None): accuracy[0] - accuracy[1]}
        rows += [
            (
                {**row, "metric": "difference"},
                {("difference", None): difference["overall_accuracy", None]},
            )
            for row in found.differences()
            if row["metric"] == "overall_accuracy"
        ]
        for row, expected in rows:
            name = row["metric"], row["class"]
            if row["lower"] is not None:
                covered.setdefault(name, []).append(row["lower"] <= expected[name] <= row["upper"])
            if row["metric"] in PLAIN:
                stated.setdefault(name, []).append(
                    (row["value"] - expected[name], row["standard_error"] or 0)
                )
    for name, hits in covered.items():
        # normal intervals of shares near 1 are known to be too narrow
        assert len(hits) > 0.9 * trials and np.mean(hits) >= 0.82, (name, np.mean(hits))
    for name, pairs in stated.items():
        off, error = np.array(pairs).T
        assert abs(off.mean()) < 3 * off.std() / math.sqrt(trials), name
        assert off.std() == pytest.approx(error.mean(), rel=0.25), name


def test_a_single_sample_in_a_stratum_leaves_its_variance_undefined():
    table = points(np.array([[66, 4, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]))
    areas = {"a": 3, "b": 1}
    found = evaluate(table, design="stratified", strata_areas=areas, area_unit="ha")
    rows = {(row["metric"], row["class"]): row for row in found.rows()}
    for name in (("overall_accuracy", None), ("producers_accuracy", "b"), ("users_accuracy", "b")):
        assert rows[name]["value"] is not None and rows[name]["standard_error"] is None
        assert rows[name]["lower"] is None and rows[name]["gates"].startswith("one_unit")
    # the other stratum has a variance of its own
    assert rows["users_accuracy", "a"]["standard_error"] > 0
    assert "Strata with one sample: b" in " ".join(found.notes())


def test_points_that_were_drawn_together_are_one_unit():
    table = random_table(2)
    twice = pd.concat([table, table], ignore_index=True)
    twice["group"] = np.tile(np.arange(len(table)), 2)
    one, both = evaluate(table, design="simple"), evaluate(twice, design="simple")
    grouped = evaluate(twice.assign(group=twice["group"]), design="simple")
    assert grouped.standard_errors == pytest.approx(one.standard_errors)
    without = evaluate(twice.drop(columns="group"), design="simple")
    assert (
        without.standard_errors["overall_accuracy", None]
        < 0.75 * one.standard_errors["overall_accuracy", None]
    )
    assert both.values == pytest.approx(one.values)


# --- rasters ---------------------------------------------------------------------------------------------------------

UTM = {"crs": "EPSG:32640", "transform": from_origin(300_000, 2_700_000, 10, 10), "nodata": 255}


@pytest.fixture
def site(tmp_path):
    """A map, another one, and points at random pixels."""
    rng = np.random.default_rng(3)
    codes = rng.integers(1, 4, (60, 1100)).astype(np.uint8)
    codes[:, :5] = 255
    row, column = np.divmod(rng.choice(np.arange(60 * 1000), 300, replace=False), 1000)
    column += 50
    mapped = codes[row, column]
    true = np.where(rng.random(300) < 0.8, mapped, rng.integers(1, 4, 300))
    other = np.where(rng.random(codes.shape) < 0.5, codes, 2).astype(np.uint8)
    paths = write(tmp_path / "map.tif", codes, **UTM), write(tmp_path / "other.tif", other, **UTM)
    x, y = 300_000 + 10 * (column + rng.random(300)), 2_700_000 - 10 * (row + rng.random(300))
    table = pd.DataFrame({"x": x, "y": y, "reference": true})
    return codes, paths, table, mapped


def test_a_map_is_read_at_the_points(site):
    codes, paths, table, mapped = site
    found = evaluate(table, paths[0], design="stratified", against=paths[1])
    areas = {str(k): int(np.sum(codes == k)) for k in (1, 2, 3)}
    expected = evaluate(
        table.drop(columns=["x", "y"]).assign(map=mapped),
        design="stratified",
        strata_areas=areas,
        area_unit="share",
    )
    assert found.values == pytest.approx(expected.values)
    assert found.standard_errors == pytest.approx(expected.standard_errors)
    assert found.square_metres == pytest.approx(100 * np.sum(codes < 255))
    assert found.names == ("1", "2", "3") and found.against is not None
    # a column of strata that are the map's classes changes nothing, names are those of the codes
    named = table.assign(
        stratum=mapped, reference=np.array(["", "sea", "wood", "town"])[table["reference"]]
    )
    other = evaluate(
        named, paths[0], design="stratified", class_names={1: "sea", 2: "wood", 3: "town"}
    )
    assert other.names == ("sea", "wood", "town")
    assert list(other.values.values()) == pytest.approx(list(found.values.values()))


@pytest.mark.parametrize("ending", ["geojson", "gpkg", "csv"])
def test_points_in_degrees_lie_where_they_lie(site, tmp_path, ending):
    geopandas = pytest.importorskip("geopandas")
    _, paths, table, _ = site
    expected = evaluate(table, paths[0], design="simple")
    x, y = transform("EPSG:32640", "EPSG:4326", table["x"], table["y"])
    path, crs = tmp_path / f"points.{ending}", None
    if ending == "csv":
        crs = "EPSG:4326"
        pd.DataFrame({"lon": x, "lat": y, "reference": table["reference"]}).to_csv(
            path, index=False
        )
    else:
        shapes = geopandas.points_from_xy(x, y, crs="EPSG:4326")
        geopandas.GeoDataFrame(table[["reference"]], geometry=shapes).to_file(path)
    columns = {"x": "lon", "y": "lat"} if crs else None
    found = evaluate(path, paths[0], design="simple", columns=columns, crs=crs)
    assert found.values == expected.values and found.square_metres == expected.square_metres


def test_areas_in_degrees_are_true_areas(tmp_path):
    codes = np.repeat([1, 2], 50)[:, None] * np.ones((1, 10), np.uint8)
    place = {"crs": "EPSG:4326", "transform": from_origin(0, 60, 0.1, 1.2)}
    path = write(tmp_path / "map.tif", codes.astype(np.uint8), **place)
    table = pd.DataFrame(
        {"x": [0.05, 0.15] * 2, "y": [50, 40, -20, -30], "reference": [1, 2, 2, 2]}
    )
    found = evaluate(table, path, design="stratified")
    # the sphere's zones: sin of the latitudes 60 to 0 and 0 to -60 are alike
    assert found.shares.sum(axis=0) == pytest.approx([0.5, 0.5])
    expected = math.radians(1) * 2 * math.sin(math.radians(60)) * 6_371_000**2
    assert found.square_metres == pytest.approx(expected, rel=5e-3)


def test_points_off_the_map_are_refused_or_counted(site):
    _, paths, table, _ = site
    table.loc[3, "x"], table.loc[5, "x"] = 299_000, 300_015
    with pytest.raises(PermafrostError, match="1 of 300 samples lie outside of the map .row 3"):
        evaluate(table, paths[0], design="simple")
    found = evaluate(table, paths[0], design="simple", outside="drop")
    assert len(found.reference) == 298 and sorted(found.dropped.values()) == [1, 1]
    assert "lie where the map has no data (row 5)" in " ".join(found.notes())


BAD = {
    "degrees": (
        lambda t: t.assign(x=55.1, y=t["y"] / 1e5),
        {},
        "all 300 samples lie outside .* EPSG:32640",
    ),
    "no such crs": (lambda t: t, {"crs": "EPSG:0"}, "'EPSG:0' is not a coordinate system"),
    "class": (lambda t: t.assign(reference="wood"), {}, "unknown reference class 'wood'"),
    "named class": (
        lambda t: t.assign(reference="sand"),
        {"class_names": {1: "sea", 2: "wood", 3: "town"}},
        "unknown reference class 'sand'",
    ),
    "code": (
        lambda t: t,
        {"class_names": {1: "sea", 2: "wood"}},
        "code 3, which has no name|reference class '3'",
    ),
    "empty": (
        lambda t: t.assign(reference=[*t["reference"][:-1], None]),
        {},
        "1 of 300 samples have no reference",
    ),
    "twice": (
        lambda t: t.assign(x=t["x"][0], y=t["y"][0]),
        {},
        "299 of 300 samples lie where another",
    ),
    "x": (lambda t: t.assign(x="east"), {}, "have a x that is not a number"),
    "column": (lambda t: t.drop(columns="y"), {}, "no column 'y'"),
    "role": (
        lambda t: t,
        {"columns": {"class": "reference"}},
        "no column for 'class'|no column for",
    ),
    "both maps": (lambda t: t.assign(map=1), {}, "a map is given as a raster"),
    "design": (lambda t: t, {"design": "random"}, "sampling design cannot be"),
    "weight": (
        lambda t: t.assign(weight=[0.0, *[1.0] * 299]),
        {"design": "probabilities"},
        "not above 0 .row 0",
    ),
    "chance": (
        lambda t: t.assign(inclusion_probability=2),
        {"design": "probabilities"},
        "probability above 1",
    ),
    "no weight": (lambda t: t, {"design": "probabilities"}, "needs one of the columns"),
    "strata": (
        lambda t: t.assign(stratum=1),
        {"design": "stratified"},
        "stratum that is not the class of the map",
    ),
    "areas": (
        lambda t: t,
        {"design": "stratified", "strata_areas": {"1": 2, "2": 3}, "area_unit": "ha"},
        "the strata '3' have no area",
    ),
    "zero": (
        lambda t: t,
        {"design": "stratified", "strata_areas": {"1": 2, "2": 3, "3": 0}, "area_unit": "ha"},
        "areas of the strata '3' are not above 0",
    ),
    "unsampled": (
        lambda t: t,
        {
            "design": "stratified",
            "strata_areas": {"1": 2, "2": 3, "3": 1, "4": 1},
            "area_unit": "ha",
        },
        "the strata '4' have an area but no sample",
    ),
    "unit": (
        lambda t: t,
        {"design": "stratified", "strata_areas": {"1": 2}},
        "areas of strata need a unit",
    ),
    "areas for nothing": (
        lambda t: t,
        {"strata_areas": {"1": 2}},
        "only the design stratified uses them",
    ),
    "nothing": (lambda t: t[:0], {}, "there is no sample"),
    # the area of the one would be that of both
    "one name of two codes": (
        lambda t: t,
        {"class_names": {1: "sea", 2: "wood", 3: "sea"}},
        "two codes have the name 'sea'",
    ),
    "a digit that is not a number": (
        lambda t: t.assign(reference="²"),
        {"class_names": {1: "sea", 2: "wood", 3: "town"}},
        "unknown reference class",
    ),
    "pandas' NA": (
        lambda t: t.assign(reference=t["reference"].astype("Int64").mask(t.index == 4)),
        {},
        r"1 of 300 samples have no reference \(row 4\)",
    ),
    "lengths": (
        lambda t: {**t, "reference": t["reference"][:-1]},
        {},
        "different lengths: .*reference 299",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named(site, case):
    change, options, message = BAD[case]
    _, paths, table, _ = site
    with pytest.raises(PermafrostError, match=message) as caught:
        evaluate(change(table), paths[0], **{"design": "simple", **options})
    assert caught.value.remedy


# --- the command -----------------------------------------------------------------------------------------------------


def command(*options) -> None:
    parser = argparse.ArgumentParser()
    evaluate_map.add_arguments(parser)
    evaluate_map.run(parser.parse_args([str(option) for option in options]))


def test_the_command_prints_and_writes_all(site, tmp_path, capsys):
    _, paths, table, _ = site
    table.to_csv(tmp_path / "points.csv", index=False)
    given = [
        "--samples",
        tmp_path / "points.csv",
        "--map",
        paths[0],
        "--design",
        "stratified",
        "--resamples",
        50,
    ]
    names = ["--class-names", "1=sea,2=wood,3=town", "--against", paths[1]]
    command(*given, *names, "--output", tmp_path / "s.json", "--tables", tmp_path / "tables")
    printed = capsys.readouterr().out
    for text in (
        "user's accuracy",
        "producer's accuracy",
        "area, ha",
        "discouraged",
        "Difference to",
        "wood",
    ):
        assert text in printed
    assert "McNemar" not in printed
    written = json.loads((tmp_path / "s.json").read_text())
    found = evaluate(
        table, paths[0], design="stratified", class_names={1: "sea", 2: "wood", 3: "town"}
    )
    values = {(row["metric"], row["class"]): row["value"] for row in written["scores"]}
    assert {name: values[name] for name in found.values} == found.values
    assert values["area_ha", "sea"] == pytest.approx(
        found.values["area_share", "sea"] * 660 * 0.995454, rel=1e-4
    )
    assert set(written["strata"]) == {"sea", "wood", "town"} and written["n_units"] == 300
    tables = {path.stem for path in (tmp_path / "tables").iterdir()}
    assert tables == {"scores", "confusion", "estimates", "comparison"}
    estimates = read_table(tmp_path / "tables" / "estimates.parquet")[0].to_pylist()
    assert sum(row["standard_error"] is not None for row in estimates) > 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--class-names", "1=sea,1=wood"], "is not name=value"),
        (["--class-names", "a=sea"], "not a whole number"),
        (["--columns", "x"], "is not name=value"),
        (["--area-unit", "ha"], "used with --strata-areas"),
        (["--strata-areas", "areas.csv", "--area-unit", "ha"], "the stratum '1' occurs twice"),
    ],
)
def test_options_that_make_no_sense_are_refused(site, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    site[2].to_csv("points.csv", index=False)
    (tmp_path / "areas.csv").write_text("stratum,area\n1,3\n1,4\n")
    with pytest.raises(PermafrostError, match=message):
        command("--samples", "points.csv", "--map", site[1][0], "--design", "stratified", *options)
