"""Dot plot with intervals: one dataset, backbones as rows, probes as colours or as columns."""

from __future__ import annotations

import math

from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    MARKERS,
    PAGE_WIDTH,
    drawing,
    plain,
    put_title,
    shorten,
    stripe_rows,
)
from permafrost.statistics.leaderboard.rows import (
    better_first,
    distinct,
    finite,
    interval_words,
    mean_value,
    metric_name,
    overall,
)

_PROBES_TOGETHER = 3  # more probes, or more backbones than the next line, get a panel per probe
_BACKBONES_TOGETHER = 12
_PANELS_PER_ROW = 3


def draw_dotplot(rows: list[dict], *, dataset: str, chance: float | None = None):
    """Values of the primary metric with their intervals.

    Parameters
    ----------
    rows : score rows (leaderboard table as dictionaries); other datasets' rows are left out.
    dataset : whose results are drawn.
    chance : what is reached without looking at the images (`statistics.scores.gates.chance_level`), a line.

    Returns
    -------
    A matplotlib figure: one row per backbone, best at the top; the seeds of a probe stand beside each other.
    """
    rows = overall(rows, dataset=dataset)
    if not rows:
        raise ValueError(f"no scores of dataset {dataset!r}")
    backbones, probes = _best_first(rows), distinct(rows, "probe")
    together = len(probes) <= _PROBES_TOGETHER and len(backbones) <= _BACKBONES_TOGETHER
    with drawing() as Figure:
        if together or len(probes) == 1:
            figure = _one_panel(Figure, rows, backbones, probes, chance)
        else:
            figure = _panels(Figure, rows, backbones, probes, chance)
        put_title(figure, dataset)
        figure.supxlabel(_caption(rows, chance), fontsize=8)
    return figure


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
    notes = ["dashed: chance level"] if chance is not None else []
    notes += ["hollow: flagged by a gate"] if any(row["gates"] for row in rows) else []
    first = f"{metric_name(rows[0]['metric'])}, {interval_words(rows[0])}"
    return "\n".join([first, "; ".join(notes)]) if notes else first


def _one_panel(Figure, rows, backbones, probes, chance):
    lanes = [(probe, seed) for probe in probes for seed in distinct(rows, "seed")]
    line = max(0.28, min(0.6, 0.12 * len(lanes) + 0.12))
    figure = Figure(figsize=(PAGE_WIDTH, 1.25 + line * len(backbones)))
    axes = figure.add_subplot()
    for number, probe in enumerate(probes):
        of_probe = [row for row in rows if row["probe"] == probe]
        heights = [
            backbones.index(row["backbone"]) + _offset(lanes, (probe, row["seed"]))
            for row in of_probe
        ]
        _dots(axes, of_probe, heights, number)
    _axes(axes, rows, backbones, chance)
    axes.legend(
        _handles(probes),
        [plain(shorten(probe, 22)) for probe in probes],
        loc="lower right",
        bbox_to_anchor=(1.01, 1.0),
        ncols=len(probes),
        borderaxespad=0.2,
        handletextpad=0.5,
        columnspacing=1.6,
    )
    return figure


def _panels(Figure, rows, backbones, probes, chance):
    across = min(_PANELS_PER_ROW, len(probes))
    down = math.ceil(len(probes) / across)
    line = max(0.17, 0.09 * len(distinct(rows, "seed")))
    figure = Figure(figsize=(PAGE_WIDTH, 0.9 + down * (0.45 + line * len(backbones))))
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    for number, (axes, probe) in enumerate(zip(grid.flat, probes, strict=False)):
        of_probe = [row for row in rows if row["probe"] == probe]
        lanes = distinct(of_probe, "seed")
        heights = [
            backbones.index(row["backbone"]) + _offset(lanes, row["seed"]) for row in of_probe
        ]
        _dots(axes, of_probe, heights, number, size=3.6)
        _axes(axes, rows, backbones, chance, font=7)
        axes.set_title(plain(shorten(probe, 26)), fontsize=8, weight="normal")
    for axes in grid.flat[len(probes) :]:
        axes.set_visible(False)
    for axes in grid.flat[max(0, len(probes) - across) : len(probes)]:
        axes.tick_params(labelbottom=True)  # also where the panel below is an empty one
    return figure


def _offset(lanes: list, lane) -> float:
    """Where in a backbone's row (height 1, centre 0) a lane lies."""
    return (lanes.index(lane) - (len(lanes) - 1) / 2) * min(0.26, 0.72 / len(lanes))


def _dots(axes, rows: list[dict], heights: list[float], number: int, size: float = 5.2) -> None:
    """Values of one probe with their intervals: few artists, however many backbones there are."""
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    known, bounded = [], []
    for row, y in zip(rows, heights, strict=True):
        if not finite(row["value"]):
            axes.annotate(
                "no value",
                (0.01, y),
                xycoords=("axes fraction", "data"),
                color=colour,
                va="center",
                fontsize=7,
            )
            continue
        known.append((row, y))
        if finite(row["lower"]) and finite(row["upper"]):
            bounded.append((row, y))
    axes.hlines(
        [y for _, y in bounded],
        [row["lower"] for row, _ in bounded],
        [row["upper"] for row, _ in bounded],
        color=colour,
        lw=size / 3,
        alpha=0.55,
    )
    for face, flagged in ((colour, False), ("white", True)):
        chosen = [(row["value"], y) for row, y in known if bool(row["gates"]) == flagged]
        if chosen:
            axes.plot(
                *zip(*chosen, strict=True),
                marker=marker,
                ms=size,
                lw=0,
                color=colour,
                mfc=face,
                mew=1.2,
                zorder=3,
            )


def _axes(axes, rows: list[dict], backbones: list[str], chance, font: float = 8.5) -> None:
    stripe_rows(axes, len(backbones))
    axes.set_ylim(len(backbones) - 0.5, -0.5)
    axes.set_yticks(range(len(backbones)), [plain(shorten(n)) for n in backbones], fontsize=font)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=font)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    shown = [row[key] for row in rows for key in ("lower", "value", "upper") if finite(row[key])]
    shown += [chance] if chance is not None else []
    if shown:
        low, high = min(shown), max(shown)
        margin = max(0.04 * (high - low), 0.01)
        axes.set_xlim(low - margin, high + margin)
    if chance is not None:
        axes.axvline(chance, color=FAINT, lw=1, ls=(0, (3, 2)), zorder=1)


def _handles(probes: list[str]) -> list:
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)],
            lw=1.8,
            markeredgecolor=COLOURS[i % len(COLOURS)],
        )
        for i in range(len(probes))
    ]
