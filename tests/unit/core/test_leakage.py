"""What the audit says of test images becomes columns and gates, and is said in words wherever scores are shown."""

import pyarrow as pa
import pytest
from helpers.results.tables import card_of, make_card, make_score_rows
from permafrost.core.leakage import LEAKS, leakage_gates, sample_columns, worst_leak
from permafrost.report.explanations.gates import (
    explain,
    explain_at_length,
    leakage_flags,
    leakage_said,
)


def table(leaks, **further):
    names = [f"s{i}" for i in range(len(leaks))]
    columns = {"sample_id": names, "group_id": [None] * len(leaks), "leak": leaks, **further}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def test_gates_have_count_and_share_of_each_kind_once():
    assert leakage_gates(table(["copy", "copy", "near", None, "group"])) == [
        "test_duplicates_in_train:2 of 5 test images (40 %)",
        "test_near_duplicates_in_train:1 of 5 test images (20 %)",
        "test_groups_in_train:1 of 5 test images (20 %)",
    ]
    assert leakage_gates(table([None, None]).drop_columns("leak")) == []


@pytest.mark.parametrize(
    ("count", "total", "share"), [(1, 1000, "< 1"), (999, 1000, "> 99"), (7, 7, "100")]
)
def test_a_share_is_never_0_or_100_per_cent_of_what_is_neither(count, total, share):
    leaks = ["copy"] * count + [None] * (total - count)
    (gate,) = leakage_gates(table(leaks))
    assert gate.endswith(f"({share} %)")


def test_predictions_take_units_for_groups_where_there_are_any():
    plain = sample_columns(table([None, "copy"]))
    assert plain["group_id"].to_pylist() == [None, None]
    units = sample_columns(table([None, "copy"], unit_id=["a", "a"]))
    assert units["group_id"].to_pylist() == ["a", "a"]
    assert units["leak"].to_pylist() == [None, "copy"]


def test_an_image_leaks_as_its_worst_window_does():
    assert worst_leak(iter([None, "group", "near"])) == "near"
    assert worst_leak([None]) is None


@pytest.mark.parametrize("gate", LEAKS.values())
def test_every_gate_has_its_words(gate):
    counted = f"{gate}:3 of 6 test images (50 %)"
    assert explain(counted).startswith("3 of 6 test images (50 %) are ")
    assert explain_at_length(counted).startswith("3 of 6 test images (50 %) ")


def test_a_sentence_of_each_dataset_that_leaks_and_counts():
    gates = leakage_gates(table(["copy", "group", None, None]))
    leaky = make_score_rows(dataset="leaky", backbone="a", gates=";".join(["few_units", *gates]))
    rows = [*leaky, *make_score_rows(dataset="fine", backbone="a", gates="few_units")]
    said = (
        "Leakage in leaky: 1 of 4 test images (25 %) are duplicates of training images and "
        "1 of 4 test images (25 %) are of groups in training."
    )
    assert leakage_said(rows) == leakage_said(rows, ["leaky", "fine"]) == [said]
    assert leakage_said(rows, ["fine"]) == []


def test_the_card_says_what_the_gates_say_and_how_many_units_are_left():
    card = make_card("leaky")
    count = card["splits"]["test"]["count"]
    card["audit"] |= {
        "test_in_train": {"copy": count // 2, "near": 0, "group": 0},
        "copies_in_test": {"exact": 4, "near": 1, "units": count - 5},
    }
    leak, copies = leakage_flags(card_of(card))
    assert leak["short"].startswith(f"{count // 2} of {count} test images")
    assert f"{count - 5} units of {count}" in copies["short"]
    assert "4 equal" in copies["long"]
