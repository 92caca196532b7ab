"""Scores of an evaluation as aligned text for a terminal."""

from __future__ import annotations

from permafrost.core.text import LONGEST_NAME, printable_name
from permafrost.report.notation import interval_of, number, p_value_text
from permafrost.statistics.resampling.jackknife import PARTS

# with more classes than this, they are only in the files
SHOWN = 20
# reasons per remark, and scores named per reason
_REASONS, _NAMES = 3, 4
# characters of a reason, which names a class
_LONGEST_REASON = 200


def score_lines(
    rows: list[dict], *, heading: str, unit: str, confidence: float, notes
) -> list[str]:
    """The scores as a table, overall ones first, and remarks below."""
    lines = [heading, f"{100 * confidence:g} % intervals: {unit}", "", *row_lines(rows, digits=4)]
    return [*lines, *note_lines(notes)]


def note_lines(notes) -> list[str]:
    """Each remark after an empty line."""
    return [line for note in notes for line in ("", note)]


def row_lines(rows: list[dict], *, digits: int, longest: int = LONGEST_NAME) -> list[str]:
    """Metric, class, value, interval and, if any, p-value as aligned columns.

    Class names are cut to `longest` characters. A star marks an unreliable interval, see
    `gate_remarks`.
    """
    cells = [
        (
            row["metric"],
            printable_name(row["class"] or "", longest),
            number(row["value"], digits),
            starred(row, interval_of(row, lambda value: number(value, digits))),
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


def starred(row: dict, text: str) -> str:
    """`text`, the interval of a row, with a star if it is unreliable."""
    return f"{text} *".strip() if row.get("gates") else text


def gate_remarks(rows: list[dict], what: str = "classes") -> list[str]:
    """One remark that lists the scores with unreliable intervals and the reasons, or none.

    Parameters
    ----------
    what : plural noun for the rows that have a ``class``.
    """
    gated = [row for row in rows if row.get("gates")]
    if not gated:
        return []
    reasons: dict[str, list[str]] = {}
    of_classes = [row for row in gated if row["class"] is not None]
    for row in gated:
        if row["class"] is None:
            reasons.setdefault(row["gates"], []).append(row["metric"])
    said = []
    for gate, names in list(reasons.items())[:_REASONS]:
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        reason = printable_name(gate, _LONGEST_REASON)
        said.append(f"{', '.join(names[:_NAMES])}{more} ({reason})")
    if len(reasons) > _REASONS:
        rest = list(reasons.values())[_REASONS:]
        said.append(f"{sum(map(len, rest))} more figures")
    if of_classes:
        first, such = of_classes[0], ""
        if not reasons:
            name = printable_name(first["class"], _LONGEST_REASON)
            reason = printable_name(first["gates"], _LONGEST_REASON)
            such = f" such as {first['metric']} of {name} ({reason})"
        said.append(f"{len(of_classes)} of {what}{such}")
    return [
        f"* Intervals not to be trusted, since few units carry the figures: {'; '.join(said)}."
        " See gates in --output and --tables."
    ]


def difference_lines(rows: list[dict], against, *, digits: int, most: int = SHOWN) -> list[str]:
    """Differences with intervals and p-values; classes only if there are at most `most`."""
    few = len({row["class"] for row in rows}) <= most
    heading = f"Difference to {against} on the same images (p-values of single figures):"
    shown = [{**row, "value": row["difference"]} for row in rows if few or row["class"] is None]
    return ["", heading, *row_lines(shown, digits=digits)]


def _test(row: dict) -> str:
    if row.get("p_value") is None:
        return ""
    counted = (row.get("resamples") or 0) - row.get("n_undefined", 0)
    # a two-sided p-value from resamples, see `statistics.resampling.p_values.bootstrap_p_value`
    text = p_value_text(row["p_value"], smallest=2 / (counted + 1) if counted > 0 else 0.0)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def interval_method_words(
    count: int, kind: str, resamples: int, *, size: str = "", method: str = "", hint: str = ""
) -> str:
    """How the intervals were computed, or why there are none.

    For example ``Student's t, leaving out each of 12 images; bias from 1000 resamples``.

    Parameters
    ----------
    count, kind : number of units, and the name of one.
    size : size of a unit; method : ``basic`` or ``percentile`` for the bootstrap; hint : remedy for
        a single unit. All are text, or empty.
    """
    if not resamples:
        return "none asked for (--resamples 0)"
    if count <= 1:
        return f"none, a single {kind} cannot be resampled{hint}"
    if method in ("basic", "percentile"):
        return f"bootstrap of {count} {kind}s{size}, {resamples} resamples, {method}"
    parts = f"each of {count} {kind}s{size}"
    if count > PARTS:
        parts = f"each of {PARTS} parts of {count} {kind}s{size}"
    return f"Student's t, leaving out {parts}; bias from {resamples} resamples"
