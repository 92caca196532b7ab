"""A score against what a probe was run with (neighbours, training samples), one line per backbone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    MARKERS,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
)

_COLUMNS = 2  # panels side by side
_APART = 0.035  # between the markers of neighbouring backbones, as a share of the axis


@dataclass(frozen=True)
class Point:
    """A score at `x` (> 0) with its interval, and the standard deviation over draws where there is one."""

    x: float
    value: float
    lower: float
    upper: float
    spread: float | None = None


def draw_setting_curves(
    panels: dict[str, dict[str, list[Point]]],
    *,
    title: str,
    across: str,
    up: str,
    note: str,
    scale: float = 1.0,
):
    """Panels that share their scale of scores; where backbones are many, only the best are coloured.

    Parameters
    ----------
    panels : heading -> backbone -> points.
    across : what x is, on a scale where equal ratios are equal steps; its ticks show `scale` times x.
    up : what the score is; note : what bars mean.
    """
    if not panels:
        raise ValueError("no curves to draw")
    names = sorted(
        {name for lines in panels.values() for name in lines},
        key=lambda name: (-_best(panels, name), name),
    )
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    with drawing() as Figure:
        width = PAGE_WIDTH if columns > 1 else 0.75 * PAGE_WIDTH
        figure = Figure(figsize=(width, 0.75 + 2.3 * rows))
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        for axes, (heading, lines) in zip(grid.flat, panels.items(), strict=False):
            _panel(axes, lines, names, scale)
            axes.set_title(plain(heading), weight="normal")
            axes.set_xlabel(plain(across))
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for line in grid:
            line[0].set_ylabel(up)
        handles = [
            grid[0, 0].plot(
                [],
                [],
                color=COLOURS[n],
                marker=MARKERS[n],
                lw=1.4,
                ms=4.5,
                label=plain(shorten(name, 24)),
            )[0]
            for n, name in enumerate(names[: len(COLOURS)])
        ]
        figure.legend(handles=handles, loc="outside right upper", handlelength=1.8)
        put_title(figure, title)
        others = len(names) - len(COLOURS)
        put_note(figure, note + (f" Grey: {others} other backbones." if others > 0 else ""))
    return figure


def _panel(axes, lines: dict[str, list[Point]], names: list[str], scale: float) -> None:
    ticks = sorted({point.x for points in lines.values() for point in points})
    wide = math.log(ticks[-1] / ticks[0]) or 1.0
    coloured = [name for name in names[: len(COLOURS)] if name in lines]
    for name in names[len(COLOURS) :]:
        points = sorted(lines.get(name, []), key=lambda point: point.x)
        axes.plot([p.x for p in points], [p.value for p in points], color="#d5d5d5", lw=0.8)
    for place, name in enumerate(coloured):
        number = names.index(name)
        # side by side, so that bars do not hide each other
        moved = math.exp(
            wide * _APART * (place - (len(coloured) - 1) / 2) / max(1, len(coloured) - 1)
        )
        points = sorted(lines[name], key=lambda point: point.x)
        x = [point.x * moved for point in points]
        axes.plot(
            x,
            [p.value for p in points],
            color=COLOURS[number],
            marker=MARKERS[number],
            ms=4.2,
            lw=1.3,
            zorder=3,
        )
        axes.vlines(
            x,
            [p.lower for p in points],
            [p.upper for p in points],
            color=COLOURS[number],
            lw=0.9,
            zorder=2,
        )
        drawn = [
            (at, point) for at, point in zip(x, points, strict=True) if point.spread is not None
        ]
        axes.vlines(
            [at for at, _ in drawn],
            [p.value - p.spread for _, p in drawn],
            [p.value + p.spread for _, p in drawn],
            color=COLOURS[number],
            lw=4,
            alpha=0.3,
            zorder=1,
        )
    axes.set_xscale("log")
    axes.set_xlim(ticks[0] * math.exp(-0.06 * wide), ticks[-1] * math.exp(0.06 * wide))
    axes.set_xticks(ticks, [f"{scale * tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(labelleft=True, labelcolor=FAINT, labelsize=7.5)
    axes.grid(axis="both")


def _best(panels: dict, name: str) -> float:
    values = [p.value for lines in panels.values() for p in lines.get(name, [])]
    return max((value for value in values if math.isfinite(value)), default=-math.inf)
