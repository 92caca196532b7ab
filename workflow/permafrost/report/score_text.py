"""Figures of an evaluation of given files as aligned text for a terminal."""

from __future__ import annotations

import math

from permafrost.core.text import LONGEST_NAME, printable_name

from .notation import interval_of, number

# more classes than this are in the files, not on the screen
SHOWN = 20


def score_lines(
    rows: list[dict], *, heading: str, unit: str, confidence: float, notes
) -> list[str]:
    """The figures as a table, overall ones first, and remarks below."""
    lines = [heading, f"{100 * confidence:g} % intervals: {unit}", "", *row_lines(rows, digits=4)]
    return [*lines, *note_lines(notes)]


def note_lines(notes) -> list[str]:
    """Each remark after an empty line."""
    return [line for note in notes for line in ("", note)]


def row_lines(rows: list[dict], *, digits: int, longest: int = LONGEST_NAME) -> list[str]:
    """Metric, class, value, interval and, where there is one, p-value as aligned columns.

    Names of classes are shown in at most `longest` characters.
    """
    cells = [
        (
            row["metric"],
            printable_name(row["class"] or "", longest),
            number(row["value"], digits),
            interval_of(row, lambda value: number(value, digits)),
            _test(row),
        )
        for row in rows
    ]
    widths = [max((len(row[column]) for row in cells), default=0) for column in range(4)]
    return [
        (
            f"  {metric:<{widths[0]}}  {label:<{widths[1]}}  {value:>{widths[2]}}"
            f"  {bounds:<{widths[3]}}  {p_value}"
        ).rstrip()
        for metric, label, value, bounds, p_value in cells
    ]


def difference_lines(rows: list[dict], against, *, digits: int, most: int = SHOWN) -> list[str]:
    """Differences with intervals and p-values; of the classes only if there are at most so many."""
    few = len({row["class"] for row in rows}) <= most
    heading = f"Difference to {against} on the same resamples (p-values of single figures):"
    shown = [{**row, "value": row["difference"]} for row in rows if few or row["class"] is None]
    return ["", heading, *row_lines(shown, digits=digits)]


def p_value_text(value: float | None, *, smallest: float = 0.0, digits: int = 3) -> str:
    """A p-value in words: ``< 0.001`` below what the digits show, and at the smallest one that can be.

    Parameters
    ----------
    smallest : 1 / (resamples + 1) for a p-value that counts resamples; it only says that the true one is
        no larger.
    """
    if value is None or math.isnan(value):
        return "–"
    step = 10**-digits
    bound = max(step, math.ceil(smallest / step - 1e-9) * step) if value <= smallest else step
    return f"< {bound:.{digits}f}" if value < bound else f"{value:.{digits}f}"


def _test(row: dict) -> str:
    if row.get("p_value") is None:
        return ""
    counted = row.get("resamples", 0) - row.get("n_undefined", 0)
    # a two-sided count of resamples, see `statistics.p_values.bootstrap_p_value`
    text = p_value_text(row["p_value"], smallest=2 / (counted + 1) if counted > 0 else 0.0)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def bootstrap_words(
    count: int, kind: str, resamples: int, *, size: str = "", method: str = "", hint: str = ""
) -> str:
    """What intervals come from, e.g. ``bootstrap of 12 images, 1000 resamples``, or why there are none.

    Parameters
    ----------
    count, kind : number of units, and what one is called.
    size : of a unit; method : of the interval; hint : what to do about a single unit. In words, or empty.
    """
    if not resamples:
        return "none asked for"
    if count <= 1:
        return f"none, a single {kind} cannot be resampled{hint}"
    return ", ".join(
        [
            f"bootstrap of {count} {kind}s{size}",
            f"{resamples} resamples",
            *([method] if method else []),
        ]
    )
