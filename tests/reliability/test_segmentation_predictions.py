"""Tables of segmentation predictions that cannot be scored are refused with what is wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from helpers.predictions.masks import fixed_lists, metadata, prediction_table, predictions
from permafrost.core.errors import PermafrostError
from permafrost.statistics.predictions.confusions import Confusions
from permafrost.statistics.predictions.reading import predictions_from_table


def with_column(name, column):
    table = prediction_table(predictions(boundary=True))
    return table.set_column(table.column_names.index(name), name, column)


def negative():
    confusion = predictions().confusion.copy()
    confusion[3, 0, 1] = -1
    return fixed_lists(confusion)


@pytest.mark.parametrize("name", ["sample_id", "confusion", "boundary_union"])
def test_a_missing_column_is_named(name):
    table = prediction_table(predictions(boundary=True)).drop_columns([name])
    with pytest.raises(PermafrostError, match=f"lacks the columns {name}") as caught:
        predictions_from_table(table, metadata())
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("confusion", fixed_lists(np.ones((12, 16), int)), "lists of 16 numbers, not lists of 25"),
        ("confusion", pa.array([[1] * 25] * 12), "the type list<.*, not lists of 25"),
        ("confusion", pa.array([None] * 12, pa.list_(pa.int64(), 25)), "empty entries"),
        ("confusion", fixed_lists(np.ones((12, 25))), "no counts of pixels for 12 images"),
        ("confusion", negative(), "no counts of pixels for 12 images and 5 classes"),
        ("confusion", fixed_lists(np.zeros((12, 25), int)), "no pixel of the test set is scored"),
        ("boundary_union", fixed_lists(np.ones((12, 4), int)), "lists of 4 .* not lists of 5"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(name, column, message):
    with pytest.raises(PermafrostError, match=message) as caught:
        predictions_from_table(with_column(name, column), metadata())
    assert caught.value.remedy


def test_another_number_of_classes_than_the_matrices_have_is_refused():
    table = prediction_table(predictions())
    with pytest.raises(PermafrostError, match="lists of 25 numbers, not lists of 36"):
        predictions_from_table(table, metadata(classes=[*"abcdef"]))


def test_arrays_of_another_size_are_refused():
    found = predictions()
    with pytest.raises(PermafrostError, match="12 images and 4 classes"):
        Confusions.from_arrays(found.sample_ids, found.confusion, classes="abcd")


def test_a_dead_class_that_does_not_exist_is_refused():
    found = predictions(dead_classes=(9,))
    with pytest.raises(PermafrostError, match="dead classes 9 of a dataset of 5"):
        found.evaluate()
