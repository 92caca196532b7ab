"""CSV of embeddings, shaped as NeuCo-Bench and TerraTorch write them: id, then a column for every number."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.backbones import backbone_entry
from helpers.stores.places import PlacedDataset, point
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.embeddings import csv_rows
from permafrost.data.embeddings.tables import TableEmbeddings, stem

NEUCO = {"by": "stem", "id": "id", "embedding": "*"}
EXTREMES = [0.0, -0.0, 1e-45, -1.1754944e-38, 3.4028235e38, 0.1, 1 / 3, 16777217.0]


def opened(path, **table) -> TableEmbeddings:
    entry = {"kind": "embeddings", "path": str(path), "table": table}
    return TableEmbeddings(str(path), backbone_entry(entry).options.table, "backbone x")


def their_file(path, ids, values, first=0, **options):
    """A file as pandas writes it in NeuCo-Bench's scripts (columns from 0) and in TerraTorch's (from 1)."""
    frame = pd.DataFrame(values, columns=[str(first + i) for i in range(values.shape[1])])
    frame.insert(0, "id", ids)
    frame.to_csv(path, index=False, **options)
    return path


def as_they_read(path) -> pd.DataFrame:
    """Ids without ending, and numbers in single precision by their column, as NeuCo-Bench's loader says."""
    frame = pd.read_csv(path, dtype={"id": str})
    frame["id"] = frame["id"].str.replace(".zarr.zip", "").str.replace(".zarr", "")
    digits = sorted((name for name in frame.columns if name.isdigit()), key=int)
    return frame.set_index("id")[digits].astype(np.float32)


def read(source, names) -> np.ndarray:
    return source.read([source.find(point(0, 0, name=name)).row for name in names])


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("ending", ["", ".zarr", ".zarr.zip"])
@pytest.mark.parametrize("lines", ["\n", "\r\n"])
def test_their_file_gives_the_numbers_that_they_read(tmp_path, first, ending, lines):
    generator = np.random.default_rng(0)
    values = generator.normal(size=(40, 1024)).astype(np.float32)
    values[0, : len(EXTREMES)] = np.array(EXTREMES, np.float32)
    names = [f"{number:064x}" for number in generator.permutation(40)]
    ids = [name + ending for name in names]
    path = their_file(tmp_path / "e.csv", ids, values, first, lineterminator=lines)
    source = opened(path, **NEUCO)
    assert source.describe() == {"tables": 1, "rows": 40}
    order = generator.permutation(40)
    found = read(source, [f"part-000000/{names[i]}.tif" for i in order])
    assert found.dtype == np.float32 and found.shape == (40, 1024)
    assert found.tobytes() == values[order].tobytes()
    expected = as_they_read(path).loc[[names[i] for i in order]].to_numpy()
    assert found.tobytes() == expected.tobytes()


def test_columns_in_any_order_and_further_ones_count_by_number(tmp_path):
    path = tmp_path / "e.csv"
    path.write_bytes(b"\xef\xbb\xbf10,note,id,2,0,1\n1,x,b,2,3,4\n\n5,,a,6,7,8")
    source = opened(path, **NEUCO)
    assert read(source, ["a", "b"]).tolist() == [[7, 8, 6, 5], [3, 4, 2, 1]]
    assert as_they_read(path).loc["a"].tolist() == [7, 8, 6, 5]
    # without numbers as names, all but the id, in the order of the file
    path.write_text("id,feature_b,feature_a\na,1,2\n")
    assert read(opened(path, **NEUCO), ["a"]).tolist() == [[1, 2]]
    # so in parquet
    table = pa.table({"10": [1.0], "id": ["a"], "9": [2.0], "x": ["y"]})
    pq.write_table(table, tmp_path / "e.parquet")
    assert read(opened(tmp_path / "e.parquet", **NEUCO), ["a"]).tolist() == [[2, 1]]


def test_quoted_ids_and_ids_of_digits_are_texts(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text('"id","0"\n"a,b",1\n"say ""x""",2\n007,3\nNA,4\n')
    source = opened(path, by="id", id="id", embedding="*")
    assert read(source, ["a,b", 'say "x"', "007", "NA"]).ravel().tolist() == [1, 2, 3, 4]
    assert source.find(point(0, 0, name="7")).row is None


def test_several_files_and_the_nearest_of_a_csv(tmp_path):
    their_file(tmp_path / "1.csv", ["a", "b"], np.array([[1, 2], [3, 4]]))
    their_file(tmp_path / "2.csv", ["c"], np.array([[5, 6]]))
    source = opened(tmp_path, **NEUCO, pattern="*.csv")
    assert read(source, ["c", "a"]).tolist() == [[5, 6], [1, 2]]
    path = tmp_path / "places.csv"
    path.write_text("lon,lat,day,0\n8,47,2020-01-01,1\n9,47,2020-01-01,2\n9,47,2021-01-01,3\n")
    near = {"by": "nearest", "within_m": 10, "lon": "lon", "lat": "lat", "embedding": "*"}
    source = opened(path, **near, date="day")
    assert source.read([source.find(point(9, 47, day="2021-05-05")).row]).tolist() == [[3]]
    assert source.find(point(8.5, 47, day="2020-01-01")).row is None


def test_only_the_lines_asked_for_are_read_whatever_their_length(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_rows, "_BLOCK", 64)
    values = np.random.default_rng(0).normal(size=(300, 200)).astype(np.float32)
    path = their_file(tmp_path / "e.csv", [f"n{i}" for i in range(300)], values)
    source = opened(path, **NEUCO)
    rows = np.random.default_rng(1).permutation(300)
    assert np.array_equal(source.read(rows), values[rows])
    # damage in another line is no matter
    text = path.read_text().splitlines()
    text[5] = text[5].replace(".", "x")
    path.write_text("\n".join(text))
    source = opened(path, **NEUCO)
    assert np.array_equal(read(source, ["n3"]), values[[3]])
    with pytest.raises(PermafrostError, match=r"e\.csv: .*cannot be read \(In CSV column #1"):
        read(source, ["n4"])


@pytest.mark.parametrize("cell", ["", "nan", "NaN", "inf", "-inf", "1e39"])
def test_a_number_that_is_none_is_named(tmp_path, cell):
    path = tmp_path / "e.csv"
    path.write_text(f"id,0,1\na,1,2\nb,3,{cell}\n")
    source = opened(path, **NEUCO)
    assert read(source, ["a"]).tolist() == [[1, 2]]
    with pytest.raises(PermafrostError, match=r"first in row 2 below the header, column '1'"):
        read(source, ["a", "b"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it has no header"),
        ("id,0,0\na,1,2\n", "two columns have the same name"),
        ("id,0,1\na,1\n", "Expected 3 columns, got 2"),
        ("id,0\na,1,2\n", "Expected 2 columns, got 3"),
        ("name,0\na,1\n", "there is no column 'id'"),
        ("id;0\na;1\n", "there is no column 'id'"),
        ("id,0\rb,1\ra,2\n", "new-line character seen in unquoted field"),
        ("id,0\nb,1\ra,2\n", "cells have line ends, or lines end in more than one way"),
        ('id,0\n"a\nb",2\n', "cells have line ends, or lines end in more than one way"),
        ("id,0\n\xff,1\n", "cannot be read"),
    ],
)
def test_a_damaged_file_is_one_error(tmp_path, text, problem):
    path = tmp_path / "e.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(PermafrostError, match=problem) as found:
        opened(path, **NEUCO)
    assert "e.csv" in str(found.value)


def test_an_endless_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_rows, "_LONGEST", 100)
    path = tmp_path / "e.csv"
    path.write_text("id,0\na,1" + "0" * 100)
    with pytest.raises(PermafrostError, match="a line has more than 100 bytes"):
        opened(path, **NEUCO)


def test_a_file_without_numbers_or_without_rows(tmp_path):
    path = tmp_path / "e.csv"
    path.write_text("id,0\n")
    assert opened(path, **NEUCO).find(point(0, 0, name="a")).reason == "no row has its name"
    path.write_text("id\na\n")
    with pytest.raises(PermafrostError, match=r"there is no column of embeddings '\*'"):
        read(opened(path, **NEUCO), ["a"])


def test_files_of_other_lengths_are_refused(tmp_path):
    their_file(tmp_path / "1.csv", ["a"], np.ones((1, 3)))
    their_file(tmp_path / "2.csv", ["b"], np.ones((1, 2)))
    with pytest.raises(PermafrostError, match="embeddings have 3 numbers and 2"):
        read(opened(tmp_path, **NEUCO, pattern="*.csv"), ["a", "b"])


def test_two_rows_or_two_samples_of_one_name_are_refused(tmp_path):
    path = their_file(tmp_path / "e.csv", ["a", "b", "a.zarr"], np.ones((3, 2)))
    source = opened(path, **NEUCO)
    assert source.find(point(0, 0, name="x/b.tif")).row == 1
    with pytest.raises(PermafrostError, match=r"2 rows match sample 'a.tif' .*\(rows 1, 3"):
        source.find(point(0, 0, name="a.tif"))
    assert source.find(point(0, 0, name="x/b.tif")).row == 1
    with pytest.raises(
        PermafrostError, match=r"'x/b\.tif' and 'y/b\.tif' are both called 'b' in the tables"
    ):
        source.find(point(0, 0, name="y/b.tif"))
    # by id, names count whole
    by_id = opened(path, by="id", id="id", embedding="*")
    assert by_id.find(point(0, 0, name="a")).row == 0
    assert by_id.find(point(0, 0, name="x/b.tif")).row is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", "a"),
        ("a.tif", "a"),
        ("part-000000/0af3.zarr.zip", "0af3"),
        ("0af3.zarr", "0af3"),
        ("x/y/tile_10.5", "tile_10.5"),
        ("x/tile_10.5.tiff", "tile_10.5"),
        ("a.b.tif", "a.b"),
        (".tif", ".tif"),
        ("x/.tif", ".tif"),
        ("dir.d/", ""),
        ("", ""),
    ],
)
def test_names_without_folder_and_ending(name, expected):
    assert stem(name) == expected


def test_options_of_stem_are_those_of_id(tmp_path):
    path = their_file(tmp_path / "e.csv", ["a"], np.ones((1, 2)))
    with pytest.raises(PermafrostError, match="by: stem needs the name of the column"):
        opened(path, by="stem", embedding="*")
    with pytest.raises(PermafrostError, match="by: stem uses neither within_m"):
        opened(path, **NEUCO, within_m=1.0)


def test_their_file_becomes_feature_stores(tmp_path):
    names = {split: [f"{split}/{i}_{split}.tif" for i in range(3)] for split in SPLITS}
    places = {
        split: [point(None, None, name=name) for name in listed] for split, listed in names.items()
    }
    values = np.random.default_rng(0).normal(size=(9, 5)).astype(np.float32)
    ids = [stem(name) for listed in names.values() for name in listed]
    path = their_file(tmp_path / "e.csv", ids[::-1], values[::-1])
    entry = {"kind": "embeddings", "path": str(path), "table": NEUCO}
    stores = PlacedDataset(tmp_path, places).extract(entry)
    found = np.concatenate([stores[split].read("embeddings") for split in names])
    assert np.array_equal(found, values)
    # an image without a row is named
    their_file(path, ids[1:], values[1:])
    with pytest.raises(PermafrostError, match="1 of 9 images have no embedding"):
        PlacedDataset(tmp_path, places).extract(entry, out="again")
