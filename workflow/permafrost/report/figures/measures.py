"""Feature metrics next to the primary metric: backbones in rows, a panel per measure."""

from __future__ import annotations

from permafrost.report.explanations.measures import LABELLED, OF_VIEWS, is_flagged, words_of
from permafrost.report.figures import chart
from permafrost.statistics.leaderboard.rows import finite, metric_name

_ACROSS = 5
_SCORE, _LABELS, _FREE, _VIEWS = _KINDS = (
    "best score",
    "measures with labels",
    "measures without labels",
    "of augmented views",
)


def draw_measures(lines: list[dict], names: list[str], *, title: str) -> dict:
    """The best primary score of each backbone, then every measure with its interval.

    Parameters
    ----------
    lines : from `measured.measured_lines`, from top to bottom.
    names : the measures to draw.
    """
    across = min(_ACROSS, len(names) + 1)
    labels = chart.shortened((line["backbone"] for line in lines), 26)
    kinds = {None: _SCORE} | {name: _kind(name) for name in names}
    shown = [kind for kind in _KINDS if kind in kinds.values()]
    colours = chart.series(dict(zip(_KINDS, _KINDS, strict=True)), values=shown)
    colours["shape"] = {"value": "circle"}
    views = [
        chart.dots(
            [_row(line, name, kind) for line in lines],
            labels,
            chart.number("value", padding=6, axis={"tickCount": 3, "format": ".3~g"}),
            colours,
            step=16 if len(lines) <= 12 else 12,
            size=24,
            width=(chart.WIDTH + 40 - chart.room(labels)) / across - 18,
            beside=place % across > 0,
            title=_name_of_score(lines) if name is None else words_of(name)[0],
        )
        for place, (name, kind) in enumerate(kinds.items())
    ]
    return chart.figure(chart.panels(views, across), title=title, note=_note(lines))


def _kind(name: str) -> str:
    if name in OF_VIEWS:
        return _VIEWS
    return _LABELS if name in LABELLED else _FREE


def _row(line: dict, name: str | None, kind: str) -> dict:
    """The columns of a backbone: its best score, or the measure `name`."""
    about = {"row": line["backbone"], "series": kind}
    row = line["best"] if name is None else line["measures"].get(name)
    if row is None or not finite(row["value"]):
        return {**about, "said": "no score" if row is None else "undefined"}
    hollow = bool(row["gates"]) if row["primary"] else is_flagged(row)
    return chart.measured(row, hollow=hollow, **about)


def _name_of_score(lines: list[dict]) -> str:
    known = [line["best"] for line in lines if line["best"]]
    return metric_name(known[0]["metric"]) if known else "no score"


def _note(lines: list[dict]) -> str:
    probes = sorted({line["best"]["probe"] for line in lines if line["best"]})
    order = f"the best score of each backbone ({', '.join(probes) or 'none'}) orders them"
    doubtful = any(is_flagged(row) for line in lines for row in line["measures"].values())
    return f"{order}; hollow: doubtful" if doubtful else order
