"""Validation score against the values of a setting that were tried, with the chosen one marked."""

from __future__ import annotations

import math

from .style import COLOURS, FAINT, INK, MARKERS, PAGE_WIDTH, drawing, plain, put_title, shorten

_TOGETHER = len(COLOURS)  # more curves than colours are drawn in panels of their own


def draw_c_curve(
    curves: dict[str, dict],
    *,
    dataset: str,
    probe: str,
    score: str = "accuracy",
    setting: str = "C",
    meaning: str = "C (inverse regularisation strength, log scale)",
    lower_is_better: bool = False,
):
    """One curve per backbone.

    Parameters
    ----------
    curves : backbone -> {"c": list of C (> 0), "score": validation score per C, "best": chosen C}.
    score : what was scored on validation, for the axis.
    setting, meaning : what was tried instead of C, briefly and for the axis.
    """
    if not curves:
        raise ValueError("no curves to draw")
    names = sorted(curves, key=lambda name: (-_top(curves[name], lower_is_better), name))
    with drawing() as Figure:
        if len(names) <= _TOGETHER:
            figure = _one_panel(Figure, curves, names, setting)
        else:
            figure = _panels(Figure, curves, names, setting)
        put_title(figure, f"{dataset}: {probe}")
        across, up = meaning, f"validation {score}"
        if len(figure.axes) == 1:
            figure.axes[0].set(xlabel=across, ylabel=up)
        else:
            figure.supxlabel(across, fontsize=8.5)
            figure.supylabel(up, fontsize=8.5)
    return figure


def _top(curve: dict, lower_is_better: bool) -> float:
    sign = -1 if lower_is_better else 1
    found = (sign * value for value in curve["score"] if math.isfinite(value))
    return max(found, default=-math.inf)


def _one_panel(Figure, curves: dict, names: list[str], setting: str):
    figure = Figure(figsize=(PAGE_WIDTH, 3.4))
    axes = figure.add_subplot()
    for number, name in enumerate(names):
        _curve(axes, curves[name], COLOURS[number], MARKERS[number], label=_label(name, curves))
    axes.set_xscale("log")
    axes.grid(axis="both")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), title=f"chosen {setting}", alignment="left",
                borderaxespad=0, handlelength=1.6)  # fmt: skip
    return figure


def _panels(Figure, curves: dict, names: list[str], setting: str):
    columns = 4
    rows = math.ceil(len(names) / columns)
    figure = Figure(figsize=(PAGE_WIDTH, 0.7 + 1.45 * rows))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axes, name in zip(grid.flat, names, strict=False):
        for other in names:
            axes.plot(curves[other]["c"], curves[other]["score"], color="#e3e3e3", lw=0.7)
        _curve(axes, curves[name], COLOURS[0], "o")
        axes.set_xscale("log")
        axes.set_title(f"{plain(shorten(name, 24))}", fontsize=7.5, weight="normal")
        axes.annotate(f"{setting} = {_short(curves[name]['best'])}", (0.97, 0.06), xycoords="axes fraction",
                      ha="right", fontsize=7, color=FAINT)  # fmt: skip
        axes.tick_params(labelsize=7)
        axes.locator_params(axis="y", nbins=4)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for axes in grid.flat[max(0, len(names) - columns) : len(names)]:
        axes.tick_params(labelbottom=True)  # also where the panel below is an empty one
    return figure


def _label(name: str, curves: dict) -> str:
    return f"{plain(shorten(name, 26))}: {_short(curves[name]['best'])}"


def _short(value: float) -> str:
    """Three significant digits, without an exponent from 1e-3 to 1e5."""
    return f"{value:.0f}" if 1000 <= value < 1e5 else f"{value:.3g}"


def _curve(axes, curve: dict, colour: str, marker: str, label: str | None = None) -> None:
    axes.plot(curve["c"], curve["score"], color=colour, lw=1.5)
    best = curve["best"]
    # the chosen C is one of the grid; compare logarithms, as JSON may have rounded it
    place = min(range(len(curve["c"])), key=lambda i: abs(math.log(curve["c"][i] / best)))
    axes.plot([curve["c"][place]], [curve["score"][place]], marker=marker, ms=7, mfc="white",
              mec=colour, mew=1.8, color=colour, lw=1.5, label=label, zorder=4)  # fmt: skip
    if place in (0, len(curve["c"]) - 1):
        axes.annotate("edge", (curve["c"][place], curve["score"][place]), xytext=(0, 7),
                      textcoords="offset points", ha="center", fontsize=7, color=INK)  # fmt: skip
