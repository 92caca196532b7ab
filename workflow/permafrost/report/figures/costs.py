"""Scores against costs with Pareto fronts: a row of panels per probe, a panel per cost."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from permafrost.report.explanations.costs import WORDS, brief_cost
from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS, INK, shorten
from permafrost.statistics.across_datasets.ranks import pareto_front
from permafrost.statistics.leaderboard.rows import distinct, finite, metric_name

_FRONT, _BEATEN = COLOURS[0], "#a9b7c0"
_NAMED_UP_TO = 12  # with more backbones, only those on a front are numbered


def draw_costs(lines: list[dict], scores: list[dict], costs: Sequence[str], *, title: str) -> dict:
    """A figure of scores against costs on logarithmic axes; a cost of 0 is left of a dashed line.

    Points are numbered in the order of `lines`; the names of the numbers are above the panels.

    Parameters
    ----------
    lines : from `costs.cost_lines`.
    scores : primary scores, one line per probe and backbone (`seeds.merge_seeds`).
    costs : the costs to draw, each known for at least one backbone.
    """
    profiles = {line["backbone"]: line["costs"] for line in lines}
    scores = [one for one in scores if one["backbone"] in profiles and finite(one["value"])]
    probes = {
        probe: [one for one in scores if one["probe"] == probe]
        for probe in distinct(scores, "probe")
    }
    points = {
        (probe, cost): _points(of_probe, profiles, cost)
        for probe, of_probe in probes.items()
        for cost in costs
    }
    every = [one for panel in points.values() for one in panel]
    named = {one["backbone"] for one in every if one["front"] or len(profiles) <= _NAMED_UP_TO}
    numbers = {
        name: str(place) for place, name in enumerate(filter(named.__contains__, profiles), start=1)
    }
    x = {cost: _cost_axis([one.get(cost) for one in profiles.values()], cost) for cost in costs}
    y = {probe: _score_axis(of_probe) for probe, of_probe in probes.items()}
    views = [
        _panel(
            [{**one, "number": numbers.get(one["backbone"], "")} for one in panel],
            *x[cost],
            y[probe] if cost == costs[0] else {**y[probe], "title": None},
            title=shorten(probe, 30) if cost == costs[0] else "",
            width=chart.WIDTH / len(costs) - 30,
        )
        for (probe, cost), panel in points.items()
    ]
    unknown = dict.fromkeys(
        f"{WORDS[cost][0]} of {one['backbone']}"
        for (_, cost), panel in points.items()
        for one in panel
        if one["cost"] is None
    )
    names = "; ".join(f"{place}: {shorten(name, 26)}" for name, place in numbers.items())
    drawn = chart.figure(chart.panels(views, len(costs)), title=title, note=_note(unknown))
    drawn["title"]["subtitle"] += textwrap.wrap(names, int(chart.WIDTH / 5.9))
    return drawn


def _points(scores: list[dict], profiles: dict, cost: str) -> list[dict]:
    """Backbone, score with interval, cost with quartiles, and whether it is on the front."""
    points = []
    for one in scores:
        row = profiles[one["backbone"]].get(cost, {"value": None, "lower": None, "upper": None})
        cost_of = {"cost": row["value"], "cheap": row["lower"], "dear": row["upper"]}
        if not finite(row["value"]):
            cost_of = dict.fromkeys(cost_of)
        points.append(chart.measured(one, backbone=one["backbone"], **cost_of))
    front = pareto_front(
        [one["cost"] for one in points],
        [one["value"] for one in points],
        higher_is_better=scores[0]["higher_is_better"],
    )
    return [{**one, "front": bool(on)} for one, on in zip(points, front, strict=True)]


def _score_axis(scores: list[dict]) -> dict:
    """The score channel of a probe, the same in all its panels."""
    ends = [one[key] for one in scores for key in ("value", "lower", "upper") if finite(one[key])]
    margin = 0.06 * (max(ends) - min(ends)) or 0.01
    domain = [min(ends) - margin, max(ends) + margin]
    title = metric_name(scores[0]["metric"])
    return chart.number("value", title, domain=domain, axis={"tickCount": 4})


def _cost_axis(rows: list[dict | None], cost: str) -> tuple[dict, float | None, float]:
    """The channel of a cost, the position of a cost of 0, if any, and of the line next to it."""
    known = [row["value"] for row in rows if row is not None and finite(row["value"])]
    above = [value for value in known if value > 0] or [1.0]
    low, high = min(above), max(above)
    wide = max(high / low, 2.0)
    zero = low / wide**0.3 if 0 in known else None
    ticks = {tick: brief_cost(tick) for tick in chart.log_ticks(low, high, 4)}
    ticks |= {} if zero is None else {zero: "0"}
    words = [f"abs(datum.value / {at} - 1) < 1e-6 ? '{text}'" for at, text in ticks.items()]
    axis = {"values": list(ticks), "labelExpr": " : ".join([*words, "''"])}
    domain = [(zero or low) / wide**0.14, high * wide**0.14]
    x = chart.number("place", WORDS[cost][0], type="log", domain=domain, axis=axis)
    return x, zero, low / wide**0.15


def _panel(points: list[dict], x: dict, zero: float | None, beside: float, y: dict, **look) -> dict:
    """Points with a known cost, and their front on top; numbered points show their number."""
    places = {"place": "cost", "cheap": "cheap", "dear": "dear"}
    rows = [
        one | {place: zero if one[key] == 0 else one[key] for place, key in places.items()}
        for one in sorted(points, key=lambda one: one["front"])
        if one["cost"] is not None
    ]
    front = [{"place": one["place"], "value": one["value"]} for one in rows if one["front"]]
    if front:
        # the front continues at the same score to any higher cost
        last = max(front, key=lambda one: one["place"])
        front.append({"place": x["scale"]["domain"][1], "value": last["value"]})

    def conditional(test: str, yes, no) -> dict:
        return {"condition": {"test": f"datum.{test}", "value": yes}, "value": no}

    at = {"x": x, "y": y}
    bar = {"type": "rule", "strokeWidth": 1.5, "opacity": 0.5}
    return {
        "data": {"values": rows},
        "height": 120,
        "encoding": {"color": conditional("front", _FRONT, _BEATEN)},
        "layer": [
            *([] if zero is None else [chart.reference(x=beside)]),
            {
                "data": {"values": front},
                "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.2},
                "encoding": {**at, "color": {"value": _FRONT}, "opacity": {"value": 0.6}},
            },
            {
                "mark": bar,
                "encoding": {"x": x, "y": {**y, "field": "lower"}, "y2": {"field": "upper"}},
            },
            {
                "mark": bar,
                "encoding": {"y": y, "x": {**x, "field": "cheap"}, "x2": {"field": "dear"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1},
                "encoding": {**at, "size": conditional("number", 110, 24)},
            },
            {
                "mark": {"type": "text", "fontSize": 8},
                "encoding": {**at, "text": {"field": "number"}}
                | {"color": conditional("front", "white", INK)},
            },
        ],
        **look,
    }


def _note(unknown) -> str:
    parts = [
        "line: Pareto front (no other backbone costs no more and scores no worse)",
        "pale: not on it",
        "bars: interval of the score, and quartiles of a cost's repeats",
    ]
    if unknown:
        parts.append(f"unknown: {', '.join(unknown)}")
    return "; ".join(parts)
