"""One notation of numbers, intervals and ranks wherever a person reads them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import permafrost.report
import pytest
from permafrost.report.notation import interval, number, places, signed

SOURCES = Path(permafrost.report.__file__).parent


@pytest.mark.parametrize(
    "value, text",
    [(0.9307, "0.931"), (-0.02, "−0.020"), (-0.0001, "0.000"), (None, "–"), (math.nan, "–"), (math.inf, "–")],
)  # fmt: skip
def test_a_number_has_a_true_minus_and_no_sign_where_it_rounds_to_zero(value, text):
    assert number(value) == text


def test_a_difference_has_its_sign():
    assert [signed(value, 2) for value in (0.031, -0.02, 0, None)] == [
        "+0.03",
        "−0.02",
        "+0.00",
        "–",
    ]


def test_an_interval_stands_in_brackets_and_is_absent_where_a_limit_is():
    assert interval(-0.051, 0.082) == "[−0.051, 0.082]"
    assert interval(1, 2, "{:g} ms".format) == "[1 ms, 2 ms]"
    assert interval(None, 0.1) == interval(0.1, math.nan) == ""


@pytest.mark.parametrize(
    "ranks, words",
    [
        ([1.0, 2.0, 3.0], ["1", "2", "3"]),
        ([2.0, 2.0, 2.0], ["1=", "1=", "1="]),
        ([1.0, 2.5, 2.5, 4.0], ["1", "2=", "2=", "4"]),
        ([3.0, 1.5, None, 1.5], ["3", "1=", "–", "1="]),
    ],
)
def test_tied_ranks_are_written_as_in_competitions(ranks, words):
    assert places(ranks) == words


def test_no_other_notation_of_an_interval_is_left_in_the_sources():
    """Limits with a dash or dots between them: ``0.1 – 0.2``, ``0.1 … 0.2``."""
    other = re.compile(r"\}\s(?:–|…)\s(?:\{|<)|\" … \"\.join")
    found = [
        f"{path.name}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*"))
        if path.suffix in (".py", ".j2")
        for line in path.read_text().splitlines()
        if other.search(line)
    ]
    assert not found
