"""Tables that others published: the rules that they are read by, and what is refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.report.tables.beside import beside, pairs_block
from permafrost.statistics.leaderboard.published import (
    _GEOBENCH2,
    TORCHGEO_BENCH,
    bands_spelt,
    read_published,
)
from permafrost.statistics.leaderboard.published_table import given_names, wrong_names

SHARED = Path(__file__).parents[4] / "shared" / "data" / "published"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the published tables are not here")
ROW = {
    "dataset": "m-eurosat", "method": "linear", "metric_name": "accuracy", "metric_value": "0.5", "ci_lower": "0.4",
    "ci_upper": "0.6", "n_train": "2000", "n_test": "1000", "seed": "0", "name": "net", "normalization": "zscore",
    "image_size": "224.0", "bands": "b02,b01", "c_range_start": "-6", "c_range_stop": "4", "c_range_num": "40",
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def write(*rows: dict, columns=TORCHGEO_BENCH) -> Path:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**ROW, **row} for row in rows)
        path = tmp_path / "theirs.csv"
        path.write_text(stream.getvalue())
        return path

    return write


def test_a_row_is_read(write):
    (row,) = read_published(write({})).rows
    assert (row.backbone, row.dataset, row.method, row.metric) == (
        "net",
        "m-eurosat",
        "linear",
        "accuracy",
    )
    assert (row.value, row.lower, row.upper, row.seed, row.row) == (0.5, 0.4, 0.6, 0, 2)
    assert (row.bands, row.image_size, row.grid) == ("b01,b02", "224", "1e-06..10000 by 40")
    (row,) = read_published(write({"method": "knn5", "ci_lower": "0", "ci_upper": "0"})).rows
    assert (row.lower, row.upper, row.grid) == (None, None, "")


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("blue,green,red,nir,red_edge_1", "b02,b03,b04,b05,b08"),
        ("B02, b8a".replace(" ", ""), "b02,b8a"),
        ("rgb", "rgb"),
        ("all", "all"),
        ("blue,vh", "blue,vh"),
        ("", ""),
    ],
)
def test_bands_have_one_spelling(text, spelt):
    assert bands_spelt(text) == spelt


def test_rows_that_occur_twice(write):
    twice = read_published(write({}, {}, {"dataset": "other"}))
    assert (len(twice.rows), twice.identical, twice.replaced) == (2, 1, 0)
    path = write({}, {"metric_value": "0.7"})
    with pytest.raises(
        PermafrostError, match=r"rows 2 and 3 are of one configuration .* say 0\.5 and 0\.7"
    ):
        read_published(path)
    for rule, value in (("first", 0.5), ("last", 0.7)):
        found = read_published(path, duplicates=rule)
        assert [row.value for row in found.rows] == [value] and found.replaced == 1
    # the same value with another interval is no contradiction, and is counted by itself
    path = write({}, {"ci_upper": "0.61"})
    for rule, upper in (("refuse", 0.6), ("first", 0.6), ("last", 0.61)):
        found = read_published(path, duplicates=rule)
        assert [row.upper for row in found.rows] == [upper]
        assert (found.identical, found.same_value, found.replaced) == (0, 1, 0)
    # what the protocol tells apart stays apart
    apart = (
        {"image_size": "64"},
        {"c_range_stop": "5"},
        {"seed": "1"},
        {"normalization": "none"},
        {"bands": "rgb"},
        {"interpolation": "bicubic"},
        {"partition": "0.01x_train"},
        {"merge_val": "False"},
    )
    apart = [{**one, "metric_value": f"0.{place}"} for place, one in enumerate(apart, start=1)]
    assert len(read_published(write({}, *apart)).rows) == 9


#: the header of every file in results/models of torchgeo-bench's repository in October 2026
TODAY = (
    "dataset,method,metric_name,metric_value,ci_lower,ci_upper,feature_dim,best_c,best_lr,best_batch_size,n_train,"
    "n_val,n_test,seed,model,name,normalization,image_size,interpolation,partition,bands,num_classes,config_hash,"
    "c_range_start,c_range_stop,c_range_num,merge_val,bootstrap,res,pool,fw_iou,precision,recall,f1,ece,rms_ce,mce,"
    "ece_ts,rms_ce_ts,mce_ts,temperature,calibration_n_bins"
)


def test_the_columns_are_those_of_today_and_what_belongs_to_a_configuration_keeps_rows_apart(write):
    assert ",".join(TORCHGEO_BENCH) == TODAY
    apart = ({"pool": "mean"}, {"pool": "cls"}, {"res": "10"}, {"resolved_bands": "b02"})
    same = ({"config_hash": "aa"}, {"num_classes": "10"})
    rows = [{**one, "metric_value": f"0.{place}"} for place, one in enumerate(apart, start=1)]
    found = read_published(
        write(
            *rows,
            *({**rows[0], **one} for one in same),
            columns=(*TORCHGEO_BENCH, "resolved_bands"),
        )
    )
    assert [row.settings for row in found.rows] == [
        "pool=mean",
        "pool=cls",
        "res=10",
        "resolved_bands=b02",
    ]
    assert (found.same_value, found.unknown) == (2, ())


def test_columns_that_are_not_known_are_kept_and_said(write):
    columns = (*TORCHGEO_BENCH, "surprise", "more")
    found = read_published(write({"surprise": "a", "more": "1.5"}, {"seed": "1"}, columns=columns))
    assert [row.other for row in found.rows] == ["surprise=a, more=1.5", ""]
    assert found.unknown == ("surprise", "more")
    assert found.table()["other"].to_pylist() == ["surprise=a, more=1.5", ""]
    path = write({"surprise": "a"}, {"surprise": "b", "metric_value": "0.7"}, columns=columns)
    with pytest.raises(
        PermafrostError, match="rows 2 and 3 .* may tell them apart: surprise, more"
    ):
        read_published(path)


def test_rows_that_are_no_scores_are_left_out_and_counted(write):
    found = read_published(
        write(
            {},
            {"method": "profile", "metric_name": "gflops", "metric_value": "0.5"},
            {"method": "intrinsic_dim", "metric_name": "id_lPCA_train", "metric_value": "12"},
            {"metric_name": "new_error", "metric_value": "3.5"},
            {"metric_name": "new_share", "metric_value": "0.75"},
        )
    )
    assert [row.metric for row in found.rows] == ["accuracy", "new_share"] and found.aside == 3
    for text in ("much", "nan"):
        with pytest.raises(PermafrostError, match="no new_share"):
            read_published(write({"metric_name": "new_share", "metric_value": text}))


def test_the_files_of_a_folder_are_one_source(write, tmp_path):
    folder = tmp_path / "models"
    (folder / "more").mkdir(parents=True)
    with pytest.raises(PermafrostError, match="the folder has no CSV file"):
        read_published(folder)
    for name, row in (("a.csv", {}), ("b.csv", {"name": "other"}), ("more/c.csv", {})):
        write(row).rename(folder / name)
    (folder / "README.md").touch()
    found = read_published(folder)
    assert [(row.file, row.backbone) for row in found.rows] == [
        ("a.csv", "net"),
        ("b.csv", "other"),
    ]
    assert found.identical == 1
    write({"metric_value": "0.7"}).rename(folder / "d.csv")
    with pytest.raises(
        PermafrostError, match="rows 2 of a.csv and 2 are of one configuration"
    ) as met:
        read_published(folder)
    assert str(folder / "d.csv") in str(met.value)
    (folder / "e.csv").write_text("a,b\n1,2\n")
    with pytest.raises(PermafrostError, match="lacks columns") as met:
        read_published(folder, duplicates="last")
    assert str(folder / "e.csv") in str(met.value)


@pytest.mark.parametrize("column", ["data_percentages", "partition_name", "lr", "n_trials"])
def test_learning_settings_tell_rows_apart(tmp_path, column):
    row = dict.fromkeys(_GEOBENCH2, "1") | {"dataset": "m", "Metric": "Acc", "test metric": "0.5"}
    rows = [row, {**row, column: "2", "test metric": "0.6"}]
    path = tmp_path / "theirs.csv"
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, _GEOBENCH2)
        writer.writeheader()
        writer.writerows(rows)
    assert [one.value for one in read_published(path).rows] == [0.5, 0.6]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"metric_value": "1.2"}, r"row 2: metric_value is '1\.2', no accuracy"),
        ({"metric_value": "nan"}, "no accuracy"),
        ({"metric_value": "-0.1"}, "no accuracy"),
        ({"metric_value": "inf", "metric_name": "rmse"}, "no rmse"),
        ({"metric_value": ""}, "no accuracy"),
        ({"ci_lower": "high"}, "ci_lower is 'high'"),
        ({"name": ""}, "name is '', no name"),
        ({"name": "x" * 600}, "no name"),
        ({"n_test": "many"}, "n_test is 'many', no number"),
        ({"seed": "1.5"}, "seed is '1.5'"),
        ({"c_range_stop": "x"}, "C goes from -6 to x by 40"),
    ],
)
def test_what_cannot_be_is_refused_by_row(write, row, words):
    with pytest.raises(PermafrostError, match=words):
        read_published(write(row))


def test_other_files_are_refused(write, tmp_path):
    with pytest.raises(PermafrostError, match="lacks columns: metric_value"):
        read_published(
            write({}, columns=[name for name in TORCHGEO_BENCH if name != "metric_value"])
        )
    with pytest.raises(PermafrostError, match="lacks columns: name"):
        read_published(write({}, columns=[name for name in TORCHGEO_BENCH if name != "name"]))
    with pytest.raises(PermafrostError, match="repeats columns: dataset"):
        read_published(write({}, columns=("dataset", *TORCHGEO_BENCH)))
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.csv").touch()
    for name, words in (
        ("bytes.csv", "cannot be read"),
        ("empty.csv", "lacks columns"),
        ("none.csv", "cannot be read"),
    ):
        with pytest.raises(PermafrostError, match=words):
            read_published(tmp_path / name)
    path = write({})
    path.write_text(path.read_text() + "a,b\n")
    with pytest.raises(PermafrostError, match="row 3: 2 cells below 42 columns"):
        read_published(path)


def test_names_are_shown_as_text(write):
    name = "<b>\x1b[31mnet</b>"
    references = read_published(write({"name": name})).rows
    assert references[0].backbone == name
    (refused,) = wrong_names("backbone", {"x": "y"}, references, ["y"], "here")
    assert "\x1b" not in str(refused)


def test_scores_stand_beside_ones_own_with_what_differs(write):
    references = read_published(write({}, {"method": "knn5"})).rows
    own = {
        "backbone": "mine",
        "dataset": "eurosat",
        "probe": "linear",
        "value": 0.55,
        "metric": "accuracy",
    }
    own |= {"n_train": 2000, "n_test": 900, "seed": 0, "method": "wilson"}
    plan = {
        "backbones": {"mine": {"input": {"size": 224}}},
        "datasets": {"eurosat": {"bands": ["B02", "B03"]}},
        "probes": {"linear": {"c_min": 1e-6, "c_max": 1e4, "c_count": 40}},
        "config": {"extraction": {"size": 128}},
    }
    names = {
        "backbones": {"net": "mine"},
        "datasets": {"m-eurosat": "eurosat"},
        "probes": {"linear": "linear"},
    }
    (pair,) = beside(references, [own], plan, **names)
    assert (pair["theirs"], pair["ours"], pair["row"]) == (0.5, 0.55, 2)
    assert pair["difference"] == pytest.approx(0.05)
    assert pair["differences"].split("; ") == [
        "test images: 1000 there, 900 here",
        "bands: b01,b02 there, B02,B03 here",
        "normalisation: zscore there, not said here",
        "interval: bootstrap there, wilson here",
    ]
    assert "+0.050" in pairs_block([pair]).plain()
    assert (
        "No pair" in pairs_block(beside(references, [own], plan, **{**names, "probes": {}})).plain()
    )
    # our intervals that a bootstrap forms are no difference
    (pair,) = beside(references, [{**own, "method": "percentile"}], plan, **names)
    assert "interval" not in pair["differences"]


def test_names_must_exist_on_their_side(write):
    references = read_published(write({})).rows
    assert given_names("backbone", ["net=mine", "a=b=mine"]) == {"net": "mine", "a=b": "mine"}
    with pytest.raises(PermafrostError, match="is no pair of names"):
        given_names("dataset", ["m-eurosat"])
    wrong = wrong_names("backbone", {"nett": "mine", "net": "other"}, references, ["mine"], "x")
    assert [one.problem.split(",")[0] for one in wrong] == [
        "no backbone 'nett' published",
        "no backbone 'other' here",
    ]
    assert not wrong_names("backbone", {"net": "mine"}, references, ["mine"], "x")


@needs_shared
def test_the_published_tables_are_read(tmp_path, capsys):
    from permafrost.stages.cli import main

    path = SHARED / "torchgeo-bench_results.csv"
    with pytest.raises(PermafrostError, match="of one configuration"):
        read_published(path)
    found = read_published(path, duplicates="last")
    assert (len(found.rows), found.identical, found.same_value, found.replaced) == (2296, 34, 0, 12)
    assert {row.bands for row in found.rows if row.bands.startswith("b01")} == {
        "b01,b02,b03,b04,b05,b06,b07,b08,b8a,b09,b11,b12"
    }
    submitted = sorted(SHARED.glob("geobench2/*/results_and_parameters.csv"))
    assert [len(read_published(one).rows) for one in submitted] == [1630, 285, 750]
    written = tmp_path / "all.csv"
    assert main(["published", str(path), "--duplicates", "last", "--output", str(written)]) == 0
    assert "2296 published scores, 51 backbones, 11 datasets" in capsys.readouterr().out
    assert len(written.read_text().splitlines()) == 2297
    assert main(["published", str(path)]) == 1
    assert main(["published", *map(str, submitted), "--output", str(tmp_path / "a.xlsx")]) == 1
    assert "use .csv or .parquet" in capsys.readouterr().err and not (tmp_path / "a.xlsx").exists()
