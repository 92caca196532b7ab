"""The leaderboard: one tidy table in a fixed order, exact in CSV, readable in a terminal."""

from __future__ import annotations

import csv
import math
import subprocess
import sys

import pytest
from helpers.results.tables import format_leaderboard, make_score_rows, score_table
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table, write_table
from permafrost.report.explanations.gates import explain, explain_at_length, gather_classes
from permafrost.statistics.leaderboard.leaderboard import (
    build_leaderboard,
    read_scores,
    write_leaderboard,
)


def tables(**values) -> list:
    return [
        score_table(
            make_score_rows(backbone=name, probe=probe, value=value, classes=["Forest", "River"])
        )
        for probe in ("linear", "knn")
        for name, value in values.items()
    ]


def test_every_row_is_kept_and_the_best_backbone_is_first():
    made = build_leaderboard(tables(weak=0.4, strong=0.9, middle=0.6))
    assert made.num_rows == sum(
        table.num_rows for table in tables(weak=0.4, strong=0.9, middle=0.6)
    )
    rows = made.to_pylist()
    assert [row["backbone"] for row in rows[:3]] == ["strong", "middle", "weak"]
    assert [row["rank"] for row in rows[:3]] == [1.0, 2.0, 3.0]
    assert rows[0]["probe"] == "knn" and rows[0]["metric"] == "accuracy"
    assert {row["rank"] for row in rows if row["class"]} == {None}


def test_the_order_does_not_depend_on_the_order_of_the_tables():
    given = tables(weak=0.4, strong=0.9, middle=0.6)
    assert build_leaderboard(given).equals(build_leaderboard(given[::-1]))


def test_csv_gives_back_every_float_bit_for_bit(tmp_path):
    value = 0.1 + 0.2
    given = [score_table(make_score_rows(backbone="rcf", value=value, half=1 / 3))]
    made = write_leaderboard(
        given, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "f"}
    )
    with open(tmp_path / "l.csv", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert list(lines[0]) == made.column_names
    assert [float(line["lower"]) for line in lines] == made["lower"].to_pylist()
    assert float(lines[0]["value"]) == value
    assert lines[0]["class"] == "" and lines[0]["primary"] == "true"
    assert b"\r" not in (tmp_path / "l.csv").read_bytes()
    table, metadata = read_table(tmp_path / "l.parquet", expect="f")
    assert table.equals(made) and metadata["fingerprint"] == "f"


def test_the_same_scores_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_leaderboard(
            tables(x=0.5, y=0.6),
            tmp_path / name / "l.parquet",
            tmp_path / name / "l.csv",
            {"fingerprint": "f"},
        )
    for file in ("l.parquet", "l.csv"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_hostile_names_survive_csv(tmp_path):
    name = 'a,"b"\nc;<script>'
    write_leaderboard(
        [score_table(make_score_rows(backbone=name))],
        tmp_path / "l.parquet",
        tmp_path / "l.csv",
        {"fingerprint": "f"},
    )
    with open(tmp_path / "l.csv", newline="") as stream:
        assert {line["backbone"] for line in csv.DictReader(stream)} == {name}


def test_undefined_values_have_no_rank_and_come_last():
    made = build_leaderboard(
        [
            score_table(make_score_rows(backbone="broken", value=math.nan, half=math.nan)),
            score_table(make_score_rows(backbone="fine", value=0.2)),
        ]
    )
    rows = [row for row in made.to_pylist() if row["metric"] == "accuracy"]
    assert [row["backbone"] for row in rows] == ["fine", "broken"]
    assert rows[1]["rank"] is None and math.isnan(rows[1]["value"])
    assert format_leaderboard(made).splitlines()[3].split() == ["–", "broken", "–"]


def test_no_score_a_repeated_score_and_unequal_columns_are_errors():
    one = score_table(make_score_rows(backbone="rcf"))
    with pytest.raises(PermafrostError, match="no scores"):
        build_leaderboard([])
    with pytest.raises(PermafrostError, match="occurs twice .*backbone rcf"):
        build_leaderboard([one, one])
    with pytest.raises(PermafrostError, match=r"differ in their columns \(unit\)"):
        build_leaderboard([one, one.drop_columns(["unit"])])


def test_scores_of_another_plan_are_refused(tmp_path):
    path = tmp_path / "s.parquet"
    write_table(path, score_table(make_score_rows(backbone="rcf")), {"fingerprint": "old"})
    assert len(read_scores([path], expect={str(path): "old"})) == 1
    with pytest.raises(PermafrostError, match="made from another plan"):
        read_scores([path], expect={str(path): "new"})


def test_the_terminal_shows_rank_value_interval_and_marks_gates():
    flagged = make_score_rows(backbone="rcf", value=0.61234, half=0.02, gates="best_c_on_edge")
    leaky = make_score_rows(backbone="stats", value=0.5, spatially_random=True)
    text = format_leaderboard(build_leaderboard([score_table(flagged), score_table(leaky)]))
    lines = text.splitlines()
    assert lines[0] == "eurosat · linear · accuracy (95 % interval over 10 groups)"
    assert lines[2].split() == ["1", "rcf", "0.612", "[0.592,", "0.632]", "*"]
    assert lines[3].endswith("†")
    assert lines[-2:] == ["* C on the grid's edge", "† random split of spatial data"]


def test_a_spread_over_seeds_gets_a_column_only_where_there_are_several():
    one = [score_table(make_score_rows(backbone="rcf", seed=0))]
    two = [*one, score_table(make_score_rows(backbone="rcf", seed=1))]
    assert "seed" not in format_leaderboard(build_leaderboard(one))
    assert "seeds" in format_leaderboard(build_leaderboard(two))


def test_every_seed_keeps_its_row_and_all_of_them_name_the_spread():
    made = build_leaderboard(
        [
            score_table(make_score_rows(backbone="rcf", seed=seed, value=value))
            for seed, value in ((0, 0.4), (7, 0.6))
        ]
    )
    rows = [row for row in made.to_pylist() if row["primary"]]
    assert [(row["seed"], row["value"], row["n_seeds"]) for row in rows] == [
        (0, 0.4, 2),
        (7, 0.6, 2),
    ]
    assert {row["seed_mean"] for row in rows} == {0.5}
    assert [row["seed_std"] for row in rows] == pytest.approx([0.2 / 2**0.5] * 2)


def test_the_leaderboard_starts_without_heavy_libraries():
    code = (
        "import sys, permafrost.statistics.leaderboard.leaderboard, permafrost.report.tables.terminal\n"
        "heavy = {'torch', 'sklearn', 'pandas', 'matplotlib', 'scipy', 'zarr', 'jinja2'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_same_of_many_classes_is_said_once():
    missing = [f"class_missing_in_test:{number}" for number in (0, 3, 10, 2)]
    two = [f"class_missing_in_train:{number}" for number in (1, 4)]
    gathered = gather_classes(["below_chance", *missing, *two])
    assert gathered == ["below_chance", "class_missing_in_test:0, 2, 3, 10", *two]
    assert [explain(gate) for gate in gathered[1:3]] == [
        "4 classes missing in test",
        "class 1 missing in train",
    ]
    assert "The classes 0, 2, 3, 10 have no test sample" in explain_at_length(gathered[1])
    rows = make_score_rows(backbone="rcf", gates=";".join(sorted([*missing, *two])))
    text = format_leaderboard(build_leaderboard([score_table(rows)]))
    assert "4 classes missing in test" in text and "class 0" not in text


def test_sentinel_2_s_offset_is_explained_with_its_remedy():
    gate = "sentinel2_offset:left in 20 of 40 images"
    assert explain(gate) == "Sentinel-2's offset left in 20 of 40 images"
    assert "set `offset: -0.1` under `units`" in explain_at_length(gate)


def test_unusual_input_is_explained():
    gate = "unusual_input:B04 -1.1 ± 0.2, B03 -1.1 ± 0.2 and 8 more"
    assert explain(gate) == "unusual input: B04 -1.1 ± 0.2, B03 -1.1 ± 0.2 and 8 more"
    assert "`input: {normalization: dataset}`" in explain_at_length(gate)
