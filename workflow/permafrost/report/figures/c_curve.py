"""Validation score against the values of a setting that were tried, with the chosen one marked."""

from __future__ import annotations

import math

from permafrost.report.figures.style import (
    COLOURS,
    INK,
    MARKERS,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
    shorten,
)
from permafrost.report.notation import number

_TOGETHER = len(COLOURS)  # more backbones than colours are drawn as lines of a heat map


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
    """One curve per backbone; where backbones are more than colours, one line of colours each.

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
            figure.axes[0].set_ylabel(f"validation {score}")
        else:
            sign = -1 if lower_is_better else 1
            figure = _lines(Figure, curves, names, setting, f"validation {score}", sign)
        figure.axes[0].set_xlabel(meaning)
        put_title(figure, f"{dataset}: {probe}")
    return figure


def _top(curve: dict, lower_is_better: bool) -> float:
    sign = -1 if lower_is_better else 1
    scores = (sign * value for value in curve["score"] if math.isfinite(value))
    return max(scores, default=-math.inf)


def _one_panel(Figure, curves: dict, names: list[str], setting: str):
    figure = Figure(figsize=(PAGE_WIDTH, 3.4))
    axes = figure.add_subplot()
    for name, colour, marker in zip(names, COLOURS, MARKERS, strict=False):
        _curve(axes, curves[name], colour, marker, label=_label(name, curves))
    axes.set_xscale("log")
    axes.grid(axis="both")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        title=f"chosen {setting}",
        alignment="left",
        borderaxespad=0,
        handlelength=1.6,
    )
    return figure


def _lines(Figure, curves: dict, names: list[str], setting: str, score: str, sign: int):
    """A line of colours per backbone: how far each value of the setting stays behind the backbone's best."""
    import numpy as np

    tried = sorted({value for name in names for value in curves[name]["c"]})
    places = {value: place for place, value in enumerate(tried)}
    behind = np.full((len(names), len(tried)), np.nan)
    for row, name in enumerate(names):
        best = _top(curves[name], sign < 0)
        for value, metric in zip(curves[name]["c"], curves[name]["score"], strict=True):
            behind[row, places[value]] = best - sign * metric
    known = behind[np.isfinite(behind)]
    # a setting that fails altogether must not hide the differences between all others
    most = float(np.percentile(known, 90)) if known.size else 0.0
    figure = Figure(figsize=(PAGE_WIDTH, 1.2 + 0.17 * len(names)))
    axes = figure.add_subplot()
    image = axes.imshow(
        behind, cmap="viridis_r", vmin=0, vmax=most or 1.0, aspect="auto", interpolation="nearest"
    )
    chosen = [_nearest(tried, curves[name]["best"]) for name in names]
    axes.plot(chosen, range(len(names)), "o", ms=3.6, mfc="white", mec=INK, mew=0.9, lw=0)
    axes.set_yticks(
        range(len(names)),
        [
            f"{_label(name, curves, 24)} ({number(sign * _top(curves[name], sign < 0))})"
            for name in names
        ],
        fontsize=6.5,
    )
    marks = range(0, len(tried), max(1, len(tried) // 8))
    axes.set_xticks(list(marks), [_short(tried[place]) for place in marks])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02)
    bar.set_label(f"{score}, behind the best of the line", fontsize=7.5)
    bar.ax.tick_params(labelsize=7)
    bar.outline.set_visible(False)
    put_note(
        figure,
        f"behind each name the chosen {setting} and its best {score}; the dot marks the choice",
    )
    return figure


def _label(name: str, curves: dict, limit: int = 26) -> str:
    return f"{plain(shorten(name, limit))}: {_short(curves[name]['best'])}"


def _nearest(tried: list[float], chosen: float) -> int:
    """Where the chosen value stands; logarithms are compared, as JSON may have rounded it."""
    return min(range(len(tried)), key=lambda place: abs(math.log(tried[place] / chosen)))


def _short(value: float) -> str:
    """Three significant digits, without an exponent from 1e-3 to 1e5."""
    return f"{value:.0f}" if 1000 <= value < 1e5 else f"{value:.3g}"


def _curve(axes, curve: dict, colour: str, marker: str, label: str | None = None) -> None:
    axes.plot(curve["c"], curve["score"], color=colour, lw=1.5)
    place = _nearest(curve["c"], curve["best"])
    axes.plot(
        [curve["c"][place]],
        [curve["score"][place]],
        marker=marker,
        ms=7,
        mfc="white",
        mec=colour,
        mew=1.8,
        color=colour,
        lw=1.5,
        label=label,
        zorder=4,
    )
    if place in (0, len(curve["c"]) - 1):
        axes.annotate(
            "edge",
            (curve["c"][place], curve["score"][place]),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color=INK,
        )
