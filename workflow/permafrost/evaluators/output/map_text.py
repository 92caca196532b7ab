"""The accuracy of a map as text for a terminal."""

from __future__ import annotations

from permafrost.core.text import printable_name
from permafrost.evaluators.map_accuracy.result import AREA, MapAccuracy
from permafrost.evaluators.output.confusion_text import aligned
from permafrost.evaluators.output.score_text import SHOWN, difference_lines, row_lines, starred
from permafrost.report.notation import number

_LONGEST = 24
# metric -> heading, factor and digits
_COLUMNS = {
    "users_accuracy": ("user's accuracy", 1.0, 3),
    "producers_accuracy": ("producer's accuracy", 1.0, 3),
    "f1": ("F1", 1.0, 3),
    "area_share": ("area, %", 100.0, 2),
    AREA: ("area, ha", 1.0, 1),
}


def accuracy_lines(found: MapAccuracy, rows: list[dict], *, confidence: float) -> list[str]:
    """Heading, overall measures with intervals, and a table of the classes with value ± half of the interval."""
    overall = [row for row in rows if row["class"] is None]
    heads = [found.heading(), f"{100 * confidence:g} % intervals; ± is half of one", ""]
    return [
        *heads,
        *row_lines(overall, digits=4),
        *_class_lines(found, rows),
        *_matrix_lines(found),
    ]


def _class_lines(found: MapAccuracy, rows: list[dict]) -> list[str]:
    each = {(row["metric"], row["class"]): row for row in rows}
    columns = [metric for metric in _COLUMNS if (metric, found.names[0]) in each]
    sides = found.counts.sum(axis=0).tolist(), found.shares.sum(axis=0).tolist()
    cells = [
        [
            str(count),
            f"{100 * share:.2f}",
            *(_cell(each[metric, name], metric) for metric in columns),
        ]
        for name, count, share in zip(found.names, *sides, strict=True)
    ]
    labels = [printable_name(name, _LONGEST) for name in found.names]
    heads = ["points", "mapped, %", *(_COLUMNS[metric][0] for metric in columns)]
    return ["", *aligned(heads, labels, cells, corner="mapped class")]


def _cell(row: dict, metric: str) -> str:
    _, factor, digits = _COLUMNS[metric]
    if row["value"] is None:
        return number(None, digits)
    text = f"{factor * row['value']:,.{digits}f}"
    if row["lower"] is None:
        return starred(row, text)
    return starred(row, f"{text} ± {factor * (row['upper'] - row['lower']) / 2:,.{digits}f}")


def _matrix_lines(found: MapAccuracy) -> list[str]:
    if len(found.names) > SHOWN:
        return []
    labels = [printable_name(name, _LONGEST) for name in found.names]
    heads = [printable_name(name, 10) for name in found.names]
    cells = [
        [f"{count} ({100 * share:.2f})" for count, share in zip(*each, strict=True)]
        for each in zip(found.counts.tolist(), found.shares.tolist(), strict=True)
    ]
    title = "Points, and estimated % of the area (rows the reference, columns the map):"
    return ["", title, *aligned(heads, labels, cells)]


def comparison_lines(rows: list[dict], against, test: dict | None) -> list[str]:
    """Differences to another map at the same points, and McNemar's test if the design has it."""
    lines = difference_lines(rows, against, digits=4)
    lines[1] = f"Difference to {against} at the same points (p-values of single figures):"
    if test is None:
        return lines
    said = f"only this map is right at {test['only_first']} points, only the other at {test['only_second']}"
    return [*lines, f"  McNemar's exact test: {said}, p = {test['p_value']:.3g}"]
