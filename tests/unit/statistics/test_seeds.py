"""The spread of scores over seeds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from permafrost.statistics.across_datasets.ranks import add_seed_spread

COLUMNS = ("n_seeds", "seed_mean", "seed_std")


def table_of(rows):
    names = ("dataset", "backbone", "probe", "setting", "metric", "class", "seed", "value")
    kinds = {"seed": pa.int64(), "value": pa.float64()}
    return pa.table(
        {
            name: pa.array([row[i] for row in rows], kinds.get(name, pa.string()))
            for i, name in enumerate(names)
        }
    )


def rows_of(
    values, backbone="a", probe="fpn", setting=None, metric="mean_iou", name=None, dataset="d"
):
    return [
        (dataset, backbone, probe, setting, metric, name, seed, value)
        for seed, value in enumerate(values)
    ]


def spread(table):
    found = add_seed_spread(table)
    return list(zip(*(found.column(name).to_pylist() for name in COLUMNS), strict=True))


def test_mean_and_standard_deviation_over_seeds():
    found = spread(table_of(rows_of((0.5, 0.6, 0.8))))
    assert len(set(found)) == 1
    assert found[0] == pytest.approx((3, np.mean([0.5, 0.6, 0.8]), np.std([0.5, 0.6, 0.8], ddof=1)))


def test_one_seed_has_no_spread():
    assert spread(table_of(rows_of((0.5,)))) == [(1, 0.5, None)]


def test_equal_seeds_have_a_spread_of_zero():
    assert spread(table_of(rows_of((0.25, 0.25)))) == [(2, 0.25, 0.0)] * 2


def test_undefined_values_are_not_counted():
    found = spread(table_of(rows_of((np.nan, 0.5, 0.7))))
    assert found == [(2, pytest.approx(0.6), pytest.approx(np.std([0.5, 0.7], ddof=1)))] * 3
    assert spread(table_of(rows_of((np.nan, None)))) == [(0, None, None)] * 2
    assert spread(table_of(rows_of((np.nan, 0.5)))) == [(1, 0.5, None)] * 2


@pytest.mark.parametrize("other", ["dataset", "backbone", "probe", "setting", "metric", "name"])
def test_nothing_is_mixed_that_differs_in_more_than_the_seed(other):
    # the rows alternate, so that they are found by what they say and not by where they stand
    one, two = rows_of((0.1, 0.3)), rows_of((0.7, 0.9), **{other: "other"})
    found = spread(table_of([row for pair in zip(one, two, strict=True) for row in pair]))
    assert [row[1] for row in found] == pytest.approx([0.2, 0.8, 0.2, 0.8])
    assert [row[0] for row in found] == [2] * 4


def test_other_columns_and_an_empty_table_are_left_as_they_were():
    table = table_of(rows_of((0.5, 0.6)))
    assert add_seed_spread(table).select(table.column_names).equals(table)
    empty = add_seed_spread(table.slice(0, 0))
    assert empty.column_names[-3:] == list(COLUMNS)
    assert [str(kind) for kind in empty.schema.types[-3:]] == ["int64", "double", "double"]
