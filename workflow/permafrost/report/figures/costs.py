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
    plain,
    put_names,
    put_title,
    shorten,
)
from permafrost.statistics.across_datasets.ranks import pareto_front
from permafrost.statistics.leaderboard.rows import distinct, finite, metric_name

_FRONT, _BEATEN = COLOURS[0], "#a9b7c0"
_NAMED_UP_TO = 12  # of more backbones, only those on a front have numbers
_COLUMNS = 4  # of names below the figure


def draw_costs(lines: list[dict], scores: list[dict], costs: Sequence[str], *, title: str):
    """A figure of scores against costs on logarithmic axes; a cost of 0 stands left of a gap.

    Points have numbers, in the order of `lines`, and the numbers their names below the panels.

    Parameters
    ----------
    lines : of `costs.cost_lines`.
    scores : primary scores, one line per probe and backbone (`seeds.merge_seeds`).
    costs : which costs to draw, each known of one backbone at least.
    """
    profiles = {line["backbone"]: line["costs"] for line in lines}
    scores = [one for one in scores if one["backbone"] in profiles and finite(one["value"])]
    probes = distinct(scores, "probe")
    points = {
        (probe, cost): _points([one for one in scores if one["probe"] == probe], profiles, cost)
        for probe in probes
        for cost in costs
    }
    every = [one for panel in points.values() for one in panel]
    named = {one["backbone"] for one in every if one["front"] or len(profiles) <= _NAMED_UP_TO}
    numbers = {
        name: number for number, name in enumerate(filter(named.__contains__, profiles), start=1)
    }
    left_out = [
        (c, one["backbone"])
        for (_, c), panel in points.items()
        for one in panel
        if one["cost"] is None
    ]
    height = 0.75 + 1.55 * len(probes) + 0.12 * math.ceil(len(numbers) / _COLUMNS)
    with drawing() as Figure:
        figure = Figure(figsize=(PAGE_WIDTH, height))
        grid = figure.subplots(len(probes), len(costs), sharex="col", sharey="row", squeeze=False)
        for across, cost in enumerate(costs):
            scale = _Scale(
                [profiles[name][cost]["value"] for name in profiles if cost in profiles[name]]
            )
            for down, probe in enumerate(probes):
                known = [one for one in points[probe, cost] if one["cost"] is not None]
                _panel(grid[down, across], known, scale, numbers)
            scale.axes(grid[-1, across], plain(WORDS[cost][0]))
        for down, probe in enumerate(probes):
            metric = next(one["metric"] for one in scores if one["probe"] == probe)
            grid[down, 0].set_ylabel(metric_name(metric), fontsize=7)
            grid[down, 0].set_title(plain(shorten(probe, 30)), fontsize=8)
        put_title(figure, title)
        names = [f"{number}  {shorten(name, 26)}" for name, number in numbers.items()]
        put_names(figure, names, _note(left_out), columns=_COLUMNS)
    return figure


def _points(scores: list[dict], profiles: dict, cost: str) -> list[dict]:
    """Backbone, score with its interval, cost with the quartiles of its repeats, and whether it is on the front."""
    points = []
    for one in scores:
        row = profiles[one["backbone"]].get(cost, {"value": None})
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
            ticks = [
                step * 10.0**power
                for power in range(math.floor(low) - 1, math.ceil(self._limits[1]) + 1)
                for step in steps
                if low <= math.log10(step * 10.0**power) <= self._limits[1]
            ]
            if len(ticks) <= 4:
                break
        if len(ticks) < 2:
            return [10**end for end in dict.fromkeys((self._low, self._high))] if self._any else []
        return ticks[:: math.ceil(len(ticks) / 4)]


def _panel(axes, points: list[dict], scale: _Scale, numbers: dict[str, int]) -> None:
    """Draw points whose cost is known, and their front; those in `numbers` bear theirs."""
    points = [{**one, "x": scale(one["cost"])} for one in points]
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
    # the front lies over the others
    for one in sorted(points, key=lambda one: one["front"]):
        colour, x = (_FRONT if one["front"] else _BEATEN), one["x"]
        number = numbers.get(one["backbone"])
        if one["score_ends"]:
            axes.plot([x, x], one["score_ends"], color=colour, lw=1.2, alpha=0.5, zorder=2)
        if one["cost_ends"]:
            ends = [scale(end) for end in one["cost_ends"]]
            axes.plot(ends, [one["score"]] * 2, color=colour, lw=1.2, alpha=0.5, zorder=2)
        size = 3.4 if number is None else 6.6
        axes.plot([x], [one["score"]], "o", ms=size, mfc=colour, mec="white", mew=0.4, zorder=3)
        if number is not None:
            ink = "white" if one["front"] else INK
            axes.text(
                *(x, one["score"], str(number)),
                fontsize=5.2,
                color=ink,
                ha="center",
                va="center_baseline",
                zorder=3,
            )


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
