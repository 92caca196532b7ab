"""Dot plot with intervals: one dataset, backbones as rows, probes as colours or as panels."""

from __future__ import annotations

from typing import Any

from permafrost.report.figures import chart
from permafrost.report.figures.style import shorten
from permafrost.statistics.leaderboard.rows import (
    better_first,
    distinct,
    interval_words,
    mean_value,
    metric_name,
    overall,
)

_PROBES_TOGETHER = 3  # with more probes, or more backbones than below, draw a panel per probe
_BACKBONES_TOGETHER = 12
_PANELS_PER_ROW = 3


def draw_dotplot(rows: list[dict], *, dataset: str, chance: float | None = None) -> dict:
    """Values of the primary metric with their intervals.

    Parameters
    ----------
    rows : score rows (leaderboard table as dictionaries); rows of other datasets are ignored.
    dataset : the dataset to draw.
    chance : level without any information from the images (`statistics.scores.gates.chance_level`),
        drawn as a line.

    Returns
    -------
    A figure: one row per backbone, best at the top; the seeds of a probe are below each other.
    """
    rows = overall(rows, dataset=dataset)
    if not rows:
        raise ValueError(f"no scores of dataset {dataset!r}")
    labels, probes = chart.shortened(_best_first(rows), 34), distinct(rows, "probe")
    seeds, x = (
        distinct(rows, "seed"),
        chart.number("value", metric_name(rows[0]["metric"]), padding=8),
    )
    layers = [] if chance is None else [chart.reference(x=chance)]
    if len(probes) == 1 or (len(probes) <= _PROBES_TOGETHER and len(labels) <= _BACKBONES_TOGETHER):
        lanes = [f"{probe} {seed}" for probe in probes for seed in seeds]
        step = max(22, min(60, 9 * len(lanes) + 9))
        colours = chart.series(chart.shortened(probes, 22))
        view = chart.dots(
            map(_row, rows), labels, x, colours, lanes=lanes, step=step, layers=layers
        )
    else:
        across = min(_PANELS_PER_ROW, len(probes))
        look: dict[str, Any] = {"step": max(14, 7 * (len(seeds) + 1)), "size": 26, "layers": layers}
        look["width"] = max(90, (chart.WIDTH - chart.room(labels)) / across - 20)
        colours = chart.series(dict.fromkeys(probes, ""), legend=False)
        views = [
            chart.dots(
                [_row(row) for row in rows if row["probe"] == probe],
                labels,
                x,
                colours,
                lanes=[f"{probe} {seed}" for seed in seeds],
                beside=place % across > 0,
                title=shorten(probe, 26),
                **look,
            )
            for place, probe in enumerate(probes)
        ]
        view = chart.panels(views, across, x="shared")
    return chart.figure(view, title=dataset, note=_caption(rows, chance))


def _row(row: dict) -> dict:
    about = {"row": row["backbone"], "series": row["probe"], "hollow": bool(row["gates"])}
    return chart.measured(row, lane=f"{row['probe']} {row['seed']}", **about)


def _best_first(rows: list[dict]) -> list[str]:
    """Backbones by their mean over probes and seeds, best first, those without a value last."""
    means = [
        {
            "backbone": name,
            "value": mean_value(row for row in rows if row["backbone"] == name),
            "higher_is_better": rows[0]["higher_is_better"],
        }
        for name in distinct(rows, "backbone")
    ]
    return [mean["backbone"] for mean in sorted(means, key=better_first)]


def _caption(rows: list[dict], chance: float | None) -> str:
    notes = [interval_words(rows[0])]
    notes += ["dashed: chance level"] if chance is not None else []
    notes += ["hollow: with a warning"] if any(row["gates"] for row in rows) else []
    return "; ".join(notes)
