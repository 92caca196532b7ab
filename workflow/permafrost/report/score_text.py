"""Figures of an evaluation of given files as aligned text for a terminal."""

from __future__ import annotations

from .notation import interval_of, number


def print_scores(rows: list[dict], *, heading: str, unit: str, confidence: float, notes) -> None:
    """The figures as a table, overall ones first, and remarks below."""
    print(f"{heading}\n{100 * confidence:g} % intervals: {unit}\n")
    print_rows(rows, digits=4)
    for note in notes:
        print(f"\n{note}")


def print_rows(rows: list[dict], *, digits: int) -> None:
    """Metric, class, value, interval and, where there is one, p-value as aligned columns."""
    lines = [
        (
            row["metric"],
            row["class"] or "",
            number(row["value"], digits),
            interval_of(row, lambda value: number(value, digits)),
            f"p = {row['p_value']:.3f}" if row.get("p_value") is not None else "",
        )
        for row in rows
    ]
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(4)]
    for metric, label, value, bounds, p_value in lines:
        text = (
            f"  {metric:<{widths[0]}}  {label:<{widths[1]}}  {value:>{widths[2]}}"
            f"  {bounds:<{widths[3]}}  {p_value}"
        )
        print(text.rstrip())


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
