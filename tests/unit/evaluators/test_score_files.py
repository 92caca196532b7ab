"""Tables of evaluated files as CSV: numbers in full, nothing undefined as zero, no formulas."""

from __future__ import annotations

import csv
import math

import numpy as np
import pyarrow as pa
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import together
from permafrost.evaluators.output.score_files import csv_bytes, score_table, write_tables


def rows_of(content: bytes) -> list[list[str]]:
    return list(csv.reader(content.decode("utf-8").splitlines()))


def test_numbers_come_back_as_they_were():
    rng = np.random.default_rng(0)
    values = [*rng.random(200), 1 / 3, 0.1, 1e-300, 5e-324, 1e22, -0.0, 1.7976931348623157e308]
    whole = [2**63 - 1, -(2**63), *range(len(values) - 2)]
    _, *rows = rows_of(csv_bytes(pa.table({"x": values, "n": whole}), "t"))
    assert [float(x) for x, _ in rows] == values
    assert [int(n) for _, n in rows] == whole
    assert math.copysign(1, float(rows[values.index(-0.0)][0])) in (-1, 1)


def test_what_is_undefined_is_empty_and_an_empty_text_is_one():
    table = pa.table({"x": [None, 1.0], "name": ["", None], "flag": [True, None]})
    content = csv_bytes(table, "t").decode()
    assert content.splitlines() == ['"x","name","flag"', ',"",true', "1,,"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_text_is_never_a_formula(start):
    name = f'{start}HYPERLINK("x")'
    (written,) = list(
        csv.reader([csv_bytes(pa.table({"n": [name]}), "t").decode().partition("\n")[2]])
    )
    assert written == [f"'{name}"] or start == "\r"
    assert csv_bytes(pa.table({"n": [name]}), "t").split(b"\n")[1].startswith(b"\"'")


def test_other_texts_stay_as_they_are():
    names = ["a,b", 'say "x"', "two\nlines", "x=1", "näher", "__mean__", " -1"]
    content = csv_bytes(pa.table({"n": names}), "t").decode()
    assert [row[0] for row in csv.reader(content.splitlines(keepends=True))][1:] == names


def test_nested_columns_are_refused_before_anything_is_written(tmp_path):
    tables = {"good": pa.table({"x": [1]}), "bad": pa.table({"box": [[1.0, 2.0]]})}
    refused = pytest.raises(PermafrostError, match="column box holds lists or records")
    with refused, together() as group:
        write_tables(tmp_path / "t", tables, {}, kind="csv", group=group)
    assert not list(tmp_path.rglob("*.csv"))


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(PermafrostError, match="did you mean 'csv'"):
        write_tables(tmp_path, {}, {}, kind="cvs")


def test_scores_as_csv(tmp_path):
    row = {"metric": "AP", "class": None, "value": 1 / 3, "lower": None, "upper": 0.5}
    write_tables(tmp_path, {"scores": score_table([{**row, "n_undefined": 0}])}, {}, kind="csv")
    head, figures = rows_of((tmp_path / "scores.csv").read_bytes())
    assert dict(zip(head, figures, strict=True)) == {
        **{"metric": "AP", "class": "", "value": repr(1 / 3), "lower": "", "upper": "0.5"},
        "n_undefined": "0",
        "gates": "",
    }
