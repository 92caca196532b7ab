"""Cells that take far more memory than their file are counted before they are read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from permafrost.core import parquet_files
from permafrost.core.parquet_files import check_expansion

ROWS = 20_000


def repeated(value, count: int = ROWS) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([value]))


def lists(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(0, len(values) + 1, 4), pa.int32()), values)


ZEROS = pa.array([0] * ROWS, pa.int64())
PREFIXES = pa.array(["x" * length for length in range(3000)])
# each has 100 kB to 4.5 MB of cells, in a file of a few hundred bytes
EXPANDED = {
    "numbers": ZEROS,
    "numbers in lists": lists(ZEROS),
    "numbers in structs": pa.StructArray.from_arrays([ZEROS], ["a"]),
    "texts": repeated("x" * 200),
    "bytes": repeated(b"x" * 200),
    "texts in lists": lists(repeated("x" * 200)),
    "texts that begin alike": PREFIXES,
    "fixed bytes": pa.array([b"x" * 16] * ROWS, pa.binary(16)),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(parquet_files, "_ANY", 50_000)
    monkeypatch.setattr(parquet_files, "_TIMES", 20)


def written(path, columns: dict, **options):
    pq.write_table(pa.table(columns), path, store_schema=False, **options)
    return path


@pytest.mark.parametrize("name", EXPANDED)
def test_a_file_whose_cells_take_far_more_is_refused_from_a_path_and_from_bytes(name, tmp_path):
    options = {"compression": "zstd"}
    if EXPANDED[name] is PREFIXES:
        options |= {"use_dictionary": False, "column_encoding": {"a": "DELTA_BYTE_ARRAY"}}
    path = written(
        tmp_path / "a.parquet", {"a": EXPANDED[name], "b": ["x"] * len(EXPANDED[name])}, **options
    )
    assert 20 * path.stat().st_size < EXPANDED[name].nbytes or pa.types.is_dictionary(
        EXPANDED[name].type
    )
    for source in (path, path.read_bytes()):
        with pytest.raises(ValueError, match="would take more than .* MB of memory"):
            check_expansion(source)
        with pytest.raises(ValueError, match="would take more than"):
            check_expansion(source, ["a"], group=0)
    check_expansion(path, ["b"])


def test_row_groups_count_together_and_each_alone(tmp_path):
    path = written(tmp_path / "a.parquet", {"a": ZEROS}, row_group_size=ROWS // 10)
    check_expansion(path, group=3)
    with pytest.raises(ValueError, match="would take more than"):
        check_expansion(path)


def test_ordinary_tables_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "_ANY", 3_000_000)
    ordinary = {
        "id": [f"image {number}" for number in range(ROWS)],
        "label": ["forest", "field"] * (ROWS // 2),
        "place": [[1.0, 2.0]] * ROWS,
        "names": [["a", None], None] * (ROWS // 2),
        "nothing": pa.nulls(ROWS, pa.string()),
    }
    check_expansion(written(tmp_path / "a.parquet", ordinary))
    check_expansion(written(tmp_path / "empty.parquet", {"a": pa.array([], pa.string())}))
