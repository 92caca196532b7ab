"""Slices and ensembles of a folder of results: what is read, printed, drawn, and given to Python."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers.plans import fill_root, make_plan
from helpers.results.pages import build_report, prepare, small
from helpers.results.tables import (
    make_card,
    make_image_store,
    make_predictions,
    make_score_rows,
    score_table,
)
from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store, write_store
from permafrost.core.tables import read_table, write_table
from permafrost.interface import Results
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import current_plan, read_plan
from permafrost.report.figures.slices import draw_error_map, draw_slices
from permafrost.report.tables.sliced import (
    SlicedScores,
    samples_like,
    slice_block,
    slice_words,
)
from permafrost.stages.cli import main
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.slices.distance import distances_to_train
from permafrost.statistics.slices.labels import Labels, slicing
from permafrost.statistics.slices.sliced import score_slices
from sklearn.metrics import accuracy_score, f1_score

COUNT = 120
DATES = [f"2021-{1 + row % 12:02d}-05" for row in range(COUNT)]
LAT = [50.0 if row % 2 else -20.0 for row in range(COUNT)]
VALUES = {"stats": 0.4, "net": 0.9, "own": 0.6}


def planned(results, stage: str, **names) -> list[dict]:
    plan = read_plan(current_plan(results))
    rows = [row for row in plan["outputs"] if row["stage"] == stage]
    return [row for row in rows if all(row[key] == value for key, value in names.items())]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A plan's leaderboard, its predictions of the dataset pictures, and the store of its test images."""
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    plan = make_plan(root)
    record_plan(plan, "results")
    evaluated = planned(root / "results", "probe", dataset="pictures")
    rows = [
        score_table(
            make_score_rows(
                **{name: row[name] for name in ("dataset", "backbone", "probe", "seed")},
                value=VALUES[row["backbone"]],
            )
        )
        for row in evaluated
    ]
    made = plan.aggregate().fingerprint
    write_table(
        root / "results/leaderboard.parquet", build_leaderboard(rows), {"fingerprint": made}
    )
    card = make_card("pictures", classes=4, counts=(20, 20, COUNT))
    for row in evaluated:
        about = make_predictions(
            root / row["path"],
            card,
            backbone=row["backbone"],
            probe=row["probe"],
            seed=row["seed"],
            accuracy=VALUES[row["backbone"]],
        )
        path = about.pop("path")
        write_table(path, read_table(path)[0], {**about, "fingerprint": row["fingerprint"]})
    write_places(root / "results")
    return root / "results"


def write_places(results, stage: str = "prepare", **more) -> None:
    row = planned(results, stage, dataset="pictures", split="test")[0]
    with write_store(results.parent / row["path"], fingerprint=row["fingerprint"]) as writer:
        # in another order than the predictions
        order = np.random.default_rng(0).permutation(COUNT).tolist()
        columns = {
            "sample_id": [f"pictures-{place:05d}" for place in order],
            "lon": [7.0] * COUNT,
            "lat": [LAT[place] for place in order],
            "date": [DATES[place] for place in order],
        }
        array = writer.array("labels", (COUNT,), np.int64, rows_per_chunk=COUNT)
        array[:] = 0
        writer.samples(pa.table({**columns, **more}))
        writer.attributes["split"] = "test"


def season(row: int) -> str:
    month, north = 1 + row % 12, row % 2
    number = {12: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2, 8: 2}.get(month, 3)
    return ["winter", "spring", "summer", "autumn"][number if north else (number + 2) % 4]


def of(results, backbone: str, probe: str = "knn") -> pd.DataFrame:
    return Results(results).predictions("pictures", backbone, probe, seed=0)


def test_python_gives_the_scores_of_each_season_with_the_rest_and_units(results):
    found = Results(results).slices("season", "pictures", probe="knn")
    made = of(results, "net")
    where = np.array([season(row) for row in range(COUNT)])
    assert found["slice"].tolist() == ["winter", "spring", "summer", "autumn"]
    assert set(found["backbone"]) == {"net"} and set(found["seed"]) == {0}
    assert set(found["unit"]) == {"group"} and set(found["n_unknown"]) == {0}
    for _, row in found.iterrows():
        own = where == row["slice"]
        assert row["value"] == pytest.approx(
            accuracy_score(made["target"][own], made["prediction"][own])
        )
        assert row["rest"] == pytest.approx(
            accuracy_score(made["target"][~own], made["prediction"][~own])
        )
        assert row["n_test"] == own.sum()
        assert row["n_units"] == made["group_id"][own].nunique()
        assert row["lower"] <= row["value"] <= row["upper"]
        assert row["judged"] and 0 < row["p_adjusted"] <= 1
    lowest = found.loc[found["value"].idxmin()]
    assert set(found["worst"]) == {lowest["slice"]}
    assert (found["worst_lower"] <= lowest["lower"] + 1e-12).all()
    assert "p_adjusted" in repr(found) and "[95 % interval]" in repr(found)


def test_a_backbone_a_seed_and_a_metric_can_be_named(results):
    found = Results(results).slices(
        "month", "pictures", probe="linear", backbone="own", seed=0, metric="macro_f1", least=3
    )
    made = of(results, "own", "linear")
    january = made[np.arange(COUNT) % 12 == 0]
    known = sorted({*january["target"]} | {*january["prediction"]})
    expected = f1_score(
        january["target"], january["prediction"], average="macro", labels=known, zero_division=0
    )
    assert found.loc[0, "slice"] == "January" and found.loc[0, "value"] == pytest.approx(expected)
    assert found["judged"].all() and set(found["backbone"]) == {"own"}


def test_names_that_have_no_scores_are_refused(results):
    for wrong, said in (
        ({"dataset": "picture"}, "no scores that have slices of the dataset 'picture'"),
        ({"probe": "nearest"}, "of the probe 'nearest'"),
        ({"backbone": "other"}, "of the backbone 'other'"),
        ({"seed": 9}, "of the seed 9"),
    ):
        with pytest.raises(PermafrostError) as caught:
            Results(results).slices("group", **{"dataset": "pictures", **wrong})
        assert said in str(caught.value)


def test_places_are_read_from_whichever_store_is_left(results):
    known = Results(results).slices("latitude", "pictures", probe="knn")
    (row,) = planned(results, "prepare", dataset="pictures", split="test")
    (results.parent / row["path"]).rename(results / "gone")
    with pytest.raises(PermafrostError, match="are in its stores, and none of them is here"):
        Results(results).slices("latitude", "pictures")
    # a group is in the predictions
    assert len(Results(results).slices("group", "pictures", probe="knn")) == COUNT / 20
    write_places(results, "extract")
    pd.testing.assert_frame_equal(
        Results(results).slices("latitude", "pictures", probe="knn"), known
    )


def test_groups_are_those_of_the_store_and_units_those_of_the_predictions(
    results, capsys, tmp_path
):
    (row,) = planned(results, "prepare", dataset="pictures", split="test")
    (results.parent / row["path"]).rename(results / "gone")
    order = np.random.default_rng(0).permutation(COUNT)  # that of write_places
    # scenes hold copies of each other in the predictions' units, but these are halves of scenes
    write_places(results, group_id=[f"half{place // 10}" for place in order.tolist()])
    found = Results(results).slices("group", "pictures", probe="knn")
    assert found["slice"].tolist() == sorted(f"half{number}" for number in range(12))
    assert set(found["n_test"]) == {10} and set(found["unit"]) == {"image"}
    mine = tmp_path / "mine.csv"
    lines = [f"half{number},{'ab'[number % 2]}" for number in range(12)]
    mine.write_text("\n".join(["group_id,country", *lines]))
    found = Results(results).slices(f"{mine}:country", "pictures", probe="knn")
    assert found["slice"].tolist() == ["a", "b"] and set(found["n_test"]) == {60}
    # both have a part of each of the six scenes
    assert set(found["unit"]) == {"group"} and set(found["n_units"]) == {6}


def test_windows_stand_for_their_image_and_a_missing_sample_is_refused():
    windows = pa.table(
        {"sample_id": ["a:0", "a:1", "b:0"], "image_id": ["a", "a", "b"], "lat": [1.0, 2.0, 3.0]}
    )
    found = samples_like(pa.table({"sample_id": ["b", "a"]}), windows)
    assert found["lat"].to_pylist() == [3.0, 1.0]
    with pytest.raises(PermafrostError, match="lacks 'c', which was predicted"):
        samples_like(pa.table({"sample_id": ["b", "c"]}), windows)


def shown(capsys, *options: str) -> str:
    assert main(["show", *options]) == 0
    return capsys.readouterr().out


def test_the_command_prints_slices_of_the_best_backbone_with_a_verdict(results, capsys):
    said = shown(capsys, "--by", "season", "--probe", "knn")
    head, header, *lines = said.splitlines()
    assert head == "pictures · knn · net · accuracy by season (95 % intervals)"
    assert header.split("  ")[1:] and "groups" in header
    assert [line.split()[0] for line in lines[:4]] == ["winter", "spring", "summer", "autumn"]
    assert "worst: " in said and "for all 4 judged slices together [" in said
    assert "best less worst: " in said and ", where chance alone gives 0." in said
    assert "is significantly worse" in said or "significantly worse than the rest, of 4" in said


def test_the_command_names_a_planted_bad_slice(results, capsys, tmp_path):
    row = next(
        row for row in planned(results, "probe", backbone="net", probe="knn", seed=0)
        if row["dataset"] == "pictures"
    )  # fmt: skip
    path = results.parent / row["path"]
    table, about = read_table(path)
    target = table["target"].to_numpy()
    wrong = np.arange(COUNT) >= 100
    prediction = pa.array(np.where(wrong, (target + 1) % 4, target).astype(np.int32))
    place = table.column_names.index("prediction")
    write_table(path, table.set_column(place, "prediction", prediction), about)
    mine = tmp_path / "mine.csv"
    names = table["sample_id"].to_pylist()
    lines = [f"{name},{'bad' if wrong[i] else 'good'}{i % 3}" for i, name in enumerate(names[:-1])]
    mine.write_text("\n".join(["sample_id,country", *lines]))
    found = shown(capsys, "--by", f"{mine}:country", "--backbone", "net", "--probe", "knn")
    assert "left out, because their slice is not known: 1 images" in found
    by_group = shown(capsys, "--by", "group", "--backbone", "net", "--probe", "knn")
    assert "significantly worse than the rest, of 6 judged: scene5" in by_group
    assert "each image is a unit" in by_group
    (line,) = [line for line in by_group.splitlines() if line.strip().startswith("scene5")]
    assert line.endswith("worse than the rest") and line.split()[1:3] == ["20", "0.000"]


def test_distances_are_those_to_the_nearest_train_image_of_the_same_fold(tmp_path):
    """Against great circles between all pairs; places may be unknown, and a fold may have no train image."""
    rng = np.random.default_rng(0)
    made = {}
    for split, count in (("test", 40), ("train", 60)):
        lon, lat = rng.uniform(-180, 180, count), np.degrees(np.arcsin(rng.uniform(-1, 1, count)))
        folds = rng.random((count, 3)) < 0.4
        folds[:, 2] &= split == "test"
        lon[:3] = np.nan
        with write_store(tmp_path / f"{split}.zarr", fingerprint="f") as writer:
            writer.array("folds", folds.shape, np.uint8, rows_per_chunk=count)[:] = folds
            places = [None if np.isnan(one) else one for one in lon]
            names = [f"s{i}" for i in range(count)]
            writer.samples(pa.table({"sample_id": names, "lon": places, "lat": lat}))
            writer.attributes["split"] = split
        made[split] = (np.radians(lon), np.radians(lat), folds, Store(tmp_path / f"{split}.zarr"))
    (a, b, inside, test), (c, d, others, train) = made["test"], made["train"]
    half = np.sin((b[:, None] - d) / 2) ** 2 + np.cos(b[:, None]) * np.cos(d) * (
        np.sin((a[:, None] - c) / 2) ** 2
    )
    kilometres = 2 * 6371 * np.arcsin(np.sqrt(half))
    expected = np.full(40, np.nan)
    for fold in range(2):
        rows = inside[:, fold] & ~np.isnan(a)
        expected[rows] = np.nanmin(kilometres[rows][:, others[:, fold]], axis=1)
    np.testing.assert_allclose(distances_to_train(test, train), expected, rtol=1e-4)


def test_slices_by_distance_are_powers_of_ten():
    by = slicing("distance")
    far = [0.0, 0.0999, 0.1, 5.0, 10.0, 999.0, 1000.0, 20_000.0, math.nan, None]
    found = by.labels(pa.table({by.needs[0]: pa.array(far, pa.float64())}))
    assert found.names == [
        *("below 0.1 km", "0.1 to 1 km", "1 to 10 km", "10 to 100 km", "100 to 1000 km"),
        "1000 km and more",
    ]
    assert found.codes.tolist() == [0, 0, 1, 2, 3, 4, 5, 5, -1, -1]


def test_slices_that_cannot_be_made_say_why(results, capsys):
    for options, problem in (
        (["--by", "year"], "all test samples are of one slice: 2021"),
        (["--by", "sensor"], "there is no way to slice by 'sensor'"),
        (["--by", "fold"], "have no fold"),
        (["--backbone", "net"], "--backbone belongs to --by"),
        (["--metric", "macro_f1"], "--metric belongs to --by"),
        (["--ensembles", "--backbone", "net"], "--backbone does not go with --ensembles"),
        (["--ensembles", "--by", "season"], "--by does not go with --ensembles"),
        (["--ensembles", "--metric", "mean_iou"], "has no overall metric 'mean_iou'"),
        (["--by", "season", "--group", "all"], "--group does not go with --by"),
        (["--by", "season", "--compare", "net", "own"], "--compare does not go with --by"),
        (["--by", "season", "--dataset", "world"], "slices of the dataset 'world'"),
        (["--by", "season", "--metric", "mean_iou"], "has no metric 'mean_iou'"),
    ):
        assert main(["show", *options]) == 1
        assert problem in capsys.readouterr().err


@pytest.mark.parametrize("way", ["pair", "greedy"])
def test_ensembles_are_those_of_the_predictions(results, way):
    found = Results(results).ensembles("pictures", "knn", way)
    kept = {name: of(results, name) for name in VALUES}
    assert found["size"].tolist() == ([2, 2, 2] if way == "pair" else [2, 3])
    for _, row in found.iterrows() if way == "pair" else ():
        members = row["backbones"].split(";")
        scores = np.mean([np.stack(kept[one]["scores"]).astype(float) for one in members], axis=0)
        assert row["value"] == accuracy_score(kept["net"]["target"], scores.argmax(axis=1))
        assert row["single"] == max(members, key=VALUES.get)
        assert row["difference"] == pytest.approx(row["value"] - row["single_value"])
    assert set(found["single"]) <= {"net", "own"} and "[95 % interval]" in repr(found)


def test_the_command_prints_the_ensembles_that_python_gives(results, capsys):
    said = shown(capsys, "--ensembles", "--probe", "knn")
    best = Results(results).ensembles("pictures", "knn").iloc[0]
    assert said.startswith("pictures · knn · accuracy of averaged probabilities, pairs")
    line = next(
        line
        for line in said.splitlines()
        if line.strip().startswith(best["backbones"].replace(";", " + "))
    )
    assert f"{best['value']:.3f}" in line
    assert "pictures · knn · accuracy of averaged probabilities, greedy selection" in said
    assert "by backbones selected on the other four" in said


def test_words_of_few_and_of_many_slices():
    few = sliced_hits(np.arange(23) % 4 > 0, [0] * 20 + [1] * 3, permutations=0, intervals=False)
    assert "only one slice has enough units; a comparison needs two" in slice_words(few)
    none = sliced_hits(np.arange(6) % 4 > 0, [0] * 3 + [1] * 3, permutations=0, intervals=False)
    assert "no slice has enough units; a comparison needs two" in slice_words(none)
    codes = np.repeat(np.arange(201), 6).tolist()
    many = sliced_hits(np.arange(1206) % 4 > 0, codes, intervals=False)
    assert "no test, because more than 200 slices are judged: use fewer" in slice_words(many)


def test_answers_of_repetitions_are_counted_next_to_their_images():
    scores = sliced_hits(np.arange(40) % 4 > 0, [0] * 20 + [1] * 20, permutations=0)
    slices = [replace(one, n_units=10) for one in scores.slices]
    for made, expected in (
        (scores, ["images"]),
        (replace(scores, slices=slices), ["answers", "images"]),
    ):
        rows = slice_block(SlicedScores("town", "knn", "net", 0, "group", made)).lines
        assert rows[0][1 : 1 + len(expected)] == expected and rows[0][1 + len(expected)] == "value"
        assert rows[1][1 : 1 + len(expected)] == ["20", "10"][: len(expected)]


def sliced_hits(hit, codes, **options):
    said = np.where(hit, 0, 1).astype(np.int32)
    scores = np.eye(2, dtype=np.float32)[said]
    table = pa.table(
        {
            "sample_id": [f"s{row:04d}" for row in range(len(said))],
            "target": np.zeros(len(said), np.int32),
            "prediction": said,
            "scores": pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), 2),
        }
    )
    labels = Labels([f"part {code}" for code in range(max(codes) + 1)], np.asarray(codes))
    about = {"task": "classification", "classes": ["a", "b"]}
    return score_slices(table, about, labels, **options)


def test_the_dots_are_the_scores_and_hollow_ones_are_not_judged():
    codes = [0] * 20 + [1] * 20 + [2] * 3
    best = sliced_hits(np.arange(43) % 4 > 0, codes, permutations=0)
    other = sliced_hits(np.arange(43) % 3 > 0, codes, permutations=0, intervals=False)
    figure = draw_slices({"x": best, "y": other}, by="season", title="town")
    rows = figure["data"]["values"]
    assert [row["value"] for row in rows] == [
        one.value for found in (best, other) for one in found.slices
    ]
    assert [row["hollow"] for row in rows] == [False, False, True] * 2
    assert all(row["lower"] is None for row in rows[3:])
    assert all(row["lower"] < row["value"] < row["upper"] for row in rows[:2])
    assert "hollow: too few images" in " ".join(figure["title"]["subtitle"])


@pytest.mark.parametrize("seed", range(3))
def test_a_cell_of_the_map_has_the_mean_error_of_its_images(seed):
    rng = np.random.default_rng(seed)
    lon, lat, error = rng.uniform(5, 15, 400), rng.uniform(44, 47, 400), rng.random(400)
    figure = draw_error_map(lon, lat, error, words="wrong", title="town")
    cells = figure["data"]["values"]
    found = np.zeros(400, int)
    for cell in cells:
        own = (lon >= cell["x"]) & (lon < cell["x2"]) & (lat >= cell["y"]) & (lat < cell["y2"])
        found += own
        assert cell["value"] == pytest.approx(error[own].mean())
    assert (found == 1).all()
    # as wide as high on the ground
    size = {(cell["x2"] - cell["x"], cell["y2"] - cell["y"]) for cell in cells}
    wide, high = np.mean(list(size), axis=0)
    assert wide * math.cos(math.radians(45.5)) == pytest.approx(high, rel=0.1)


@pytest.mark.parametrize(
    ("lon", "lat"), [([5.0, 5.0], [1.0, 2.0]), ([179.9, -179.9], [80.0, 80.0]), ([0, 1], [89, 90])]
)
def test_maps_of_lines_and_poles_have_a_size(lon, lat):
    figure = draw_error_map(
        np.array(lon, float), np.array(lat, float), np.zeros(2), words="wrong", title="town"
    )
    assert 50 <= figure["width"] <= 640 and 50 <= figure["height"] <= 400
    assert len(figure["data"]["values"]) == 2


def page(tmp_path, **columns) -> str:
    card = small("eurosat", counts=(40, 20, 80))
    inputs = prepare(tmp_path, datasets={"eurosat": card}, backbones=["net", "own"])
    if columns:
        store = make_image_store(tmp_path / "test.zarr", card, **columns)
        inputs["images"] = {("eurosat", "test"): store}
    build_report(**inputs)
    return (tmp_path / "report/datasets/eurosat.html").read_text()


def test_the_page_of_a_dataset_shows_where_it_fails(tmp_path):
    rng = np.random.default_rng(0)
    text = page(
        tmp_path,
        lon=rng.uniform(-5, 15, 80),
        lat=[-20.0, 50.0] * 40,
        date=pa.array([None] * 80, pa.string()),
        group_id=[f"scene{row // 20}" for row in range(80)],
    )
    assert '<section id="slices">' in text and '<a href="#slices">' in text
    figures = {path.name for path in (tmp_path / "report/figures").iterdir()}
    assert {"slices__eurosat__group.svg", "error_map__eurosat.svg"} <= figures
    # four groups of twenty images: too few units for latitudes, but images are those of groups
    assert "slices__eurosat__latitude.svg" not in figures
    assert re.search(r"By group, own, \w+: worst: scene", text)


def test_slices_need_no_pixels_which_another_dataset_may_have_lost(tmp_path, monkeypatch):
    monkeypatch.setattr("permafrost.report.material.dataset.is_here", lambda path: False)
    text = page(tmp_path, group_id=[f"scene{row // 20}" for row in range(80)])
    assert "No test images are shown" in text and '<section id="slices">' in text


def test_the_page_has_no_such_section_without_places_dates_or_images(tmp_path):
    assert 'id="slices"' not in page(tmp_path / "a")
    count = 80
    text = page(
        tmp_path / "b",
        lon=pa.array([None] * count, pa.float64()),
        lat=pa.array([None] * count, pa.float64()),
        date=pa.array([None] * count, pa.string()),
    )
    assert "error_map" not in text
