"""Measures of features beside the primary metric: backbones in rows, a panel for each measure."""

from __future__ import annotations

import math

from permafrost.report.explanations.measures import LABELLED, OF_VIEWS, is_flagged, words_of
from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
    stripe_rows,
)
from permafrost.statistics.leaderboard.rows import finite, metric_name

_ACROSS = 5
_SCORE, _FREE, _OF_LABELS, _OF_VIEWS = COLOURS[0], COLOURS[2], COLOURS[1], COLOURS[3]


def draw_measures(lines: list[dict], names: list[str], *, title: str):
    """Every measure with its interval, and first the best primary score of each backbone.

    Parameters
    ----------
    lines : of `measured.measured_lines`, from top to bottom.
    names : the measures to draw.
    """
    across = min(_ACROSS, len(names) + 1)
    down = math.ceil((len(names) + 1) / across)
    step = 0.2 if len(lines) <= 12 else 0.14
    with drawing() as Figure:
        figure = Figure(figsize=(PAGE_WIDTH, 0.85 + down * (0.52 + step * len(lines))))
        grid = figure.subplots(down, across, sharey=True, squeeze=False)
        panels = list(grid.flat)
        _panel(panels[0], [line["best"] for line in lines], _SCORE)
        panels[0].set_title(_name_of_score(lines), fontsize=7.5)
        for axes, name in zip(panels[1:], names, strict=False):
            rows = [line["measures"].get(name) for line in lines]
            _panel(axes, rows, _colour(name))
            axes.set_title(plain(words_of(name)[0]), fontsize=7.5, weight="normal")
        for axes in panels[len(names) + 1 :]:
            axes.set_visible(False)
        labels = [plain(shorten(line["backbone"], 26)) for line in lines]
        grid[0, 0].set_ylim(len(lines) - 0.5, -0.5)
        grid[0, 0].set_yticks(range(len(lines)), labels)
        for axes in grid[:, 0]:
            axes.tick_params(axis="y", labelsize=7 if len(lines) <= 12 else 6)
        put_title(figure, title)
        put_note(figure, _note(lines, names))
    return figure


def _colour(name: str) -> str:
    if name in OF_VIEWS:
        return _OF_VIEWS
    return _OF_LABELS if name in LABELLED else _FREE


def _name_of_score(lines: list[dict]) -> str:
    known = [line["best"] for line in lines if line["best"]]
    return metric_name(known[0]["metric"]) if known else "no score"


def _note(lines: list[dict], names: list[str]) -> str:
    probes = sorted({line["best"]["probe"] for line in lines if line["best"]})
    parts = [
        f"blue: best score of each backbone ({', '.join(probes) or 'none'}), which orders them"
    ]
    if set(names) - LABELLED - OF_VIEWS:
        parts.append("green: measures without labels")
    if any(name in LABELLED for name in names):
        parts.append("orange: measures with labels")
    if any(name in OF_VIEWS for name in names):
        parts.append("pink: of augmented views")
    if any(is_flagged(row) for line in lines for row in line["measures"].values()):
        parts.append("hollow: doubtful")
    return "; ".join(parts)


def _panel(axes, rows: list[dict | None], colour: str) -> None:
    stripe_rows(axes, len(rows))
    shown = []
    for place, row in enumerate(rows):
        if row is None or not finite(row["value"]):
            axes.annotate(
                "no score" if row is None else "undefined",
                (0.5, place),
                color=FAINT,
                xycoords=("axes fraction", "data"),
                ha="center",
                va="center",
                fontsize=6,
            )
            continue
        shown.append(row["value"])
        if finite(row["lower"]) and finite(row["upper"]):
            shown += [row["lower"], row["upper"]]
            axes.plot(
                [row["lower"], row["upper"]],
                [place, place],
                color=colour,
                lw=1.5,
                alpha=0.55,
                solid_capstyle="butt",
            )
        doubtful = bool(row["gates"]) if row["primary"] else is_flagged(row)
        axes.plot(
            [row["value"]],
            [place],
            "o",
            ms=3.6,
            color=colour,
            mfc="white" if doubtful else colour,
            mew=1.0,
            zorder=3,
        )
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=6.5, pad=2)
    axes.locator_params(axis="x", nbins=3)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    if shown:
        low, high = min(shown), max(shown)
        margin = 0.08 * (high - low) or max(0.05 * abs(high), 0.01)
        axes.set_xlim(low - margin, high + margin)
    else:
        axes.set_xticks([])
