"""The confusion matrix of rasters, printed and as a table."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.rasters import block, command, crossed, two, write
from permafrost.core.tables import read_table
from permafrost.evaluators.output.confusion_text import confusion_lines
from permafrost.evaluators.raster import evaluate_blocks
from permafrost.evaluators.raster.result import confusion_table


def cells(lines: list[str]) -> list[list[str]]:
    """The words of the lines of a matrix, without its heads."""
    return [line.split() for line in lines]


def test_few_classes_have_counts_and_shares_of_rows():
    lines = confusion_lines(np.array([[900, 100, 0], [1, 2999, 0], [0, 0, 0]]), ["a", "b", "c"])
    assert lines[1] == "Confusion, pixels (rows the reference, columns the prediction):"
    assert cells(lines[2:6]) == [
        ["a", "b", "c", "all"],
        ["a", "900", "100", "0", "1,000"],
        ["b", "1", "2,999", "0", "3,000"],
        ["c", "0", "0", "0", "0"],
    ]
    assert lines[7] == "Confusion, % of the reference pixels of a row:"
    # what is not there is not what rounds to nothing
    assert cells(lines[9:]) == [
        ["a", "90.0", "10.0", "0"],
        ["b", "0.0", "100.0", "0"],
        ["c", *"–––"],
    ]


@pytest.mark.parametrize("classes", [2, 8, 9, 20, 21, 300])
def test_any_number_of_classes_is_readable(classes):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 1000, (classes, classes)) + np.eye(classes, dtype=int) * 10_000
    names = [f"a long name of the class number {number}" for number in range(classes)]
    lines = confusion_lines(counts, names, range(classes))
    assert max(map(len, lines)) < 160 and len(lines) < 30
    assert len({len(line) for line in lines[-3:]}) == 1
    if classes > 20:
        wrong = np.where(np.eye(classes, dtype=bool), 0, counts)
        assert f"{wrong.max()}" in lines[3] and len(lines) == 23
    else:
        assert (f"{counts[0, 0]:,}" in "\n".join(lines)) is (classes <= 8)


def test_many_classes_without_an_error():
    (_, line) = confusion_lines(np.eye(30, dtype=int), range(30))
    assert line == "Confusion of 30 classes: no pixel of a wrong class."


def test_the_table_has_a_row_per_pair():
    found = evaluate_blocks([block([[0, 0, 2]], [[0, 1, 0]])], classes=["a", "b", "c"])
    rows = confusion_table(found).to_pylist()
    assert len(rows) == 9 and sum(row["pixels"] for row in rows) == 3
    first = rows[0]
    assert (first["reference"], first["prediction"], first["pixels"]) == ("a", "a", 1)
    assert first["reference_share"] == first["prediction_share"] == 0.5
    (missing,) = {row["reference_share"] for row in rows if row["reference"] == "b"}
    assert missing is None and "area_m2" not in first


def test_the_command_prints_and_writes_it(tmp_path, capsys):
    reference, prediction = two(classes=3)
    paths = write(tmp_path / "r.tif", reference), write(tmp_path / "p.tif", prediction)
    command(
        "--reference",
        paths[0],
        "--prediction",
        paths[1],
        "--class-names",
        "sea,land,ice",
        "--tables",
        tmp_path,
    )
    printed = capsys.readouterr().out
    counts = crossed(reference, prediction, 3)
    assert "Confusion, pixels" in printed
    assert [f"{count:,}" for count in counts[1]] == next(
        line.split()[2:5] for line in printed.splitlines() if line.startswith("  1 land")
    )
    table, metadata = read_table(tmp_path / "confusion.parquet")
    assert metadata["table"] == "confusion"
    assert table["pixels"].to_pylist() == counts.ravel().tolist()
    assert table["reference"].to_pylist()[:4] == ["sea", "sea", "sea", "land"]
