"""Scores against costs: a row of panels for each probe, a panel for each cost, and the Pareto front in it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from permafrost.report.explanations.costs import WORDS, brief_cost
from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    INK,
    PAGE_WIDTH,
    drawing,
    lay_out,
    plain,
    put_note,
    put_title,
    shorten,
)
from permafrost.report.values.rows import distinct, finite, metric_name
from permafrost.statistics.across_datasets.pareto import pareto_front

_FRONT, _BEATEN = COLOURS[0], "#a9b7c0"
_LABELS_UP_TO = 12  # of more backbones, only those on the front are named
_FONT = 5.6


def draw_costs(lines: list[dict], scores: list[dict], costs: Sequence[str], *, title: str):
    """A figure of scores against costs on logarithmic axes; a cost of 0 stands left of a gap.

    Parameters
    ----------
    lines : of `costs.cost_lines`.
    scores : primary scores, one line per probe and backbone (`seeds.merge_seeds`).
    costs : which costs to draw, each known of one backbone at least.
    """
    own = {line["backbone"]: line["costs"] for line in lines}
    scores = [one for one in scores if one["backbone"] in own and finite(one["value"])]
    probes = distinct(scores, "probe")
    with drawing() as Figure:
        figure = Figure(figsize=(PAGE_WIDTH, 0.75 + 1.55 * len(probes)))
        grid = figure.subplots(len(probes), len(costs), sharex="col", sharey="row", squeeze=False)
        left_out, panels = [], []
        for across, cost in enumerate(costs):
            scale = _Scale([own[name][cost]["value"] for name in own if cost in own[name]])
            for down, probe in enumerate(probes):
                points = _points([one for one in scores if one["probe"] == probe], own, cost)
                known = [
                    {**one, "x": scale(one["cost"])} for one in points if one["cost"] is not None
                ]
                _panel(grid[down, across], known, scale)
                panels.append((grid[down, across], known))
                left_out += [(cost, one["backbone"]) for one in points if one["cost"] is None]
            scale.axes(grid[-1, across], plain(WORDS[cost][0]))
        for down, probe in enumerate(probes):
            metric = next(one["metric"] for one in scores if one["probe"] == probe)
            grid[down, 0].set_ylabel(metric_name(metric), fontsize=7)
            grid[down, 0].set_title(plain(shorten(probe, 30)), fontsize=8)
        put_title(figure, title)
        put_note(figure, _note(left_out))
        _name_points(figure, panels)
    return figure


def _points(scores: list[dict], own: dict, cost: str) -> list[dict]:
    """Backbone, score with its interval, cost with the quartiles of its repeats, and whether it is on the front."""
    points = []
    for one in scores:
        row = own[one["backbone"]].get(cost, {"value": None})
        known = finite(row["value"])
        points.append(
            {
                "backbone": one["backbone"],
                "score": one["value"],
                "score_ends": _ends(one),
                "cost": row["value"] if known else None,
                "cost_ends": _ends(row) if known else None,
            }
        )
    front = pareto_front(
        [one["cost"] for one in points],
        [one["score"] for one in points],
        higher_is_better=scores[0]["higher_is_better"],
    )
    return [{**one, "front": bool(on)} for one, on in zip(points, front, strict=True)]


def _ends(row: dict) -> tuple[float, float] | None:
    known = finite(row["lower"]) and finite(row["upper"])
    return (row["lower"], row["upper"]) if known else None


class _Scale:
    """Where costs lie on an axis: at their logarithm, and those of 0 left of all others."""

    def __init__(self, values: Sequence[float | None]) -> None:
        known = [value for value in values if finite(value)]
        above = [math.log10(value) for value in known if value > 0]
        self._any = bool(above)
        self._low, self._high = (min(above), max(above)) if above else (0.0, 0.0)
        span = max(self._high - self._low, 0.3)
        self.zero = self._low - 0.3 * span if len(above) < len(known) else None
        margin = 0.14 * span
        self._limits = (
            (self._low if self.zero is None else self.zero) - margin,
            self._high + margin,
        )
        self.gap = None if self.zero is None or not above else self._low - 0.15 * span

    def __call__(self, value: float) -> float:
        return math.log10(value) if value > 0 else self.zero

    def axes(self, axes, name: str) -> None:
        ticks = {self(value): brief_cost(value) for value in self._ticks()}
        if self.zero is not None:
            ticks[self.zero] = "0"
        axes.set_xticks(list(ticks), list(ticks.values()), fontsize=6.5)
        axes.set_xlim(*self._limits)
        axes.set_xlabel(name, fontsize=7)

    def _ticks(self) -> list[float]:
        """Round numbers within the axis, four at most; of costs that lie too close for two of them, their ends."""
        low = self._limits[0] if self.gap is None else self.gap
        for steps in ((1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
            found = [
                step * 10.0**power
                for power in range(math.floor(low) - 1, math.ceil(self._limits[1]) + 1)
                for step in steps
                if low <= math.log10(step * 10.0**power) <= self._limits[1]
            ]
            if len(found) <= 4:
                break
        if len(found) < 2:
            return [10**end for end in dict.fromkeys((self._low, self._high))] if self._any else []
        return found[:: math.ceil(len(found) / 4)]


def _panel(axes, points: list[dict], scale: _Scale) -> None:
    """Draw points whose cost is known, ``x`` being its place on the axis, and their front."""
    axes.grid(lw=0.5)
    axes.tick_params(axis="y", labelsize=6.5)
    axes.tick_params(axis="both", length=2, pad=2)
    if scale.gap is not None:
        axes.axvline(scale.gap, color=FAINT, lw=0.6, ls=(0, (1, 2)))
    front = sorted((one for one in points if one["front"]), key=lambda one: one["x"])
    if front:
        places = [one["x"] for one in front]
        heights = [one["score"] for one in front]
        # what the front reaches at a cost, it reaches at any higher one
        axes.step(
            [*places, 1e3],
            [*heights, heights[-1]],
            where="post",
            color=_FRONT,
            lw=0.9,
            alpha=0.6,
            zorder=2,
            scalex=False,
        )
    for one in points:
        colour, x = (_FRONT if one["front"] else _BEATEN), one["x"]
        if one["score_ends"]:
            axes.plot([x, x], one["score_ends"], color=colour, lw=1.2, alpha=0.5, zorder=2)
        if one["cost_ends"]:
            ends = [scale(end) for end in one["cost_ends"]]
            axes.plot(ends, [one["score"]] * 2, color=colour, lw=1.2, alpha=0.5, zorder=2)
        axes.plot([x], [one["score"]], "o", ms=3.4, color=colour, zorder=3)


def _name_points(figure, panels: list[tuple]) -> None:
    """Write each point's backbone beside it, where no name or point is yet; what finds no room has no name.

    Parameters
    ----------
    panels : axes and the points in them.
    """
    lay_out(figure)
    pixels = figure.dpi / 72  # of a point
    for axes, points in panels:
        box = axes.get_window_extent()
        places = [axes.transData.transform((one["x"], one["score"])) for one in points]
        taken = [(x - 4, y - 4, x + 4, y + 4) for x, y in places]
        taken += _lines(axes, points, places, box)
        order = sorted(
            range(len(points)), key=lambda i: (not points[i]["front"], -points[i]["score"])
        )
        for one, (x, y) in ((points[i], places[i]) for i in order):
            if not one["front"] and len(points) > _LABELS_UP_TO:
                continue
            text = shorten(one["backbone"], 22)
            wide, high = 0.56 * _FONT * len(text) * pixels, 1.15 * _FONT * pixels
            corner = _free_corner((x, y), wide, high, taken, box)
            if corner is None:
                continue
            taken.append((*corner, corner[0] + wide, corner[1] + high))
            # in points from the dot, so that it fits whatever the resolution
            offset = ((corner[0] - x) / pixels, (corner[1] - y) / pixels)
            axes.annotate(
                plain(text),
                (one["x"], one["score"]),
                offset,
                fontsize=_FONT,
                textcoords="offset points",
                ha="left",
                va="bottom",
                color=INK if one["front"] else FAINT,
            )


def _lines(axes, points: list[dict], places: list, box) -> list[tuple]:
    """The bars of the scores and the steps of the front as narrow boxes (left, bottom, right, top) in pixels."""
    found = []
    for one, (x, _) in zip(points, places, strict=True):
        if one["score_ends"]:
            low, high = (axes.transData.transform((one["x"], end))[1] for end in one["score_ends"])
            found.append((x - 1, low, x + 1, high))
    front = sorted(tuple(at) for one, at in zip(points, places, strict=True) if one["front"])
    for (x, y), (right, above) in zip(front, [*front[1:], (box.x1, None)], strict=True):
        found.append((x, y - 1, right, y + 1))
        if above is not None:
            found.append((right - 1, min(y, above), right + 1, max(y, above)))
    return found


def _free_corner(dot, wide: float, high: float, taken: list, box) -> tuple[float, float] | None:
    """Lower left corner of the first place round a dot that is inside the panel and free."""
    x, y = dot
    for gap in (5, 9, 14, 20, 28, 38, 50):
        for left, bottom in (
            (x + gap / 2, y + gap),
            (x + gap, y - high / 2),
            (x + gap / 2, y - gap - high),
            (x - wide - gap / 2, y + gap),
            (x - wide - gap, y - high / 2),
            (x - wide - gap / 2, y - gap - high),
        ):
            inside = (
                left >= box.x0
                and left + wide <= box.x1 + 6
                and bottom >= box.y0
                and bottom + high <= box.y1
            )
            clear = all(
                left >= right or left + wide <= start or bottom >= top or bottom + high <= base
                for start, base, right, top in taken
            )
            if inside and clear:
                return left, bottom
    return None


def _note(left_out: list[tuple[str, str]]) -> str:
    parts = [
        "line: Pareto front (no other backbone costs no more and scores no worse)",
        "pale: not on it",
        "bars: interval of the score, and quartiles of a cost's repeats",
    ]
    if left_out:
        named = dict.fromkeys(f"{WORDS[cost][0]} of {name}" for cost, name in left_out)
        parts.append(f"unknown: {', '.join(named)}")
    return "; ".join(parts)
