"""Small selections on tidy score rows (plain dictionaries), shared by figures, page and terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from permafrost.metrics.tasks import metric_of, place_of


def metric_name(metric: str) -> str:
    """A metric's name in words; an unlisted metric keeps its name."""
    return metric_of(metric).words


def overall(rows: Iterable[dict], *, primary: bool = True, **where) -> list[dict]:
    """Rows without a class that match `where`; with `primary` only those of the primary metric.

    Rows of single settings are excluded: the probe's own row is the selected setting or the mean.
    """
    return [
        row
        for row in rows
        if row["class"] is None
        and row["setting"] is None
        and (row["primary"] or not primary)
        and all(row[key] == value for key, value in where.items())
    ]


def of_metrics(rows: Iterable[dict]) -> list[str]:
    """The distinct metrics of rows, in the order of their task; others follow by name."""
    return sorted({row["metric"] for row in rows}, key=lambda name: (place_of(name), name))


def distinct(rows: Iterable[dict], column: str) -> list:
    """The distinct values of a column, sorted."""
    return sorted({row[column] for row in rows})


def copies(rows: Iterable[dict]) -> dict[tuple[str, str], str]:
    """(dataset, backbone) to the first backbone with the same ``input_id``, for duplicates."""
    named = sorted({(row["dataset"], row.get("input_id") or "", row["backbone"]) for row in rows})
    first: dict[tuple[str, str], str] = {}
    found = {}
    for dataset, made, backbone in named:
        if made and first.setdefault((dataset, made), backbone) != backbone:
            found[dataset, backbone] = first[dataset, made]
    return found


def finite(value) -> bool:
    """Whether a value is a finite number; None is not."""
    return value is not None and math.isfinite(value)


def better_first(row: dict) -> tuple:
    """Sorting key: best value first, non-numbers last, then by name."""
    value = row["value"]
    if not finite(value):
        return (1, 0.0, row["backbone"])
    return (0, -value if row["higher_is_better"] else value, row["backbone"])


def mean_value(rows: Iterable[dict]) -> float:
    """Mean over rows of the finite values; NaN if there is none."""
    values = [row["value"] for row in rows if finite(row["value"])]
    return sum(values) / len(values) if values else math.nan


def gates_of(row: dict) -> list[str]:
    """The warnings (``gates``) of a score row as a list."""
    return [gate for gate in (row["gates"] or "").split(";") if gate]


def interval_words(row: dict) -> str:
    """How a row's interval was computed, e.g. ``95 % interval, 200 resamples of 12 groups``, or ``…
    over 12 groups``."""
    # a jackknife draws nothing (`statistics.resampling.jackknife`)
    left_out = row["method"].startswith(("wilson", "jackknife"))
    how = " over" if left_out else f", {row['resamples']} resamples of"
    return f"{100 * row['confidence']:g} % interval{how} {row['n_units']} {row['unit']}s"


def brief_count(count: int) -> str:
    """A count in at most six characters: ``9876``, ``98.8 k``, ``1.2 M``."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= size:
            shown = count / (1000 if letter == "k" else size)
            return f"{shown:.0f} {letter}" if shown >= 100 else f"{shown:.3g} {letter}"
    return str(count)
