"""Predicted numbers against true ones, and how far apart they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.specification import SPLITS
from permafrost.report.figures.style import (
    COLOURS,
    FAINT,
    MARKERS,
    PAGE_WIDTH,
    drawing,
    plain,
    put_note,
    put_title,
)

if TYPE_CHECKING:
    from permafrost.data.card import Card

# with more dots than these, an SVG of them would be larger than their picture
_DOTS = 1000


def draw_numbers(target: np.ndarray, prediction: np.ndarray, *, words: str, title: str):
    """Left, predicted against true; right, errors against true.

    Parameters
    ----------
    target, prediction : (N,).
    words : what the numbers are, for the axes.
    """
    low = min(target.min(), prediction.min())
    high = max(target.max(), prediction.max())
    margin = 0.04 * (high - low) or 0.5
    error = prediction - target
    with drawing() as Figure:
        figure = Figure(figsize=(PAGE_WIDTH, 3.5))
        left, right = figure.subplots(1, 2)
        left.plot([low, high], [low, high], color=FAINT, lw=1, ls=(0, (3, 2)), zorder=1)
        right.axhline(0, color=FAINT, lw=1, ls=(0, (3, 2)), zorder=1)
        for axes, values, what in ((left, prediction, "predicted"), (right, error, "error")):
            axes.plot(
                target,
                values,
                lw=0,
                marker="o",
                ms=3.2,
                color=COLOURS[0],
                mew=0,
                alpha=0.75 if len(target) <= 200 else 0.35,
                rasterized=len(target) > _DOTS,
            )
            axes.set_xlim(low - margin, high + margin)
            axes.set_xlabel(f"true {plain(words)}")
            axes.set_ylabel(f"{what} {plain(words)}" if axes is left else "predicted − true")
            axes.grid(axis="both", lw=0.5)
        left.set_ylim(low - margin, high + margin)
        left.set_aspect("equal")
        put_title(figure, title)
        put_note(figure, f"{len(target)} test samples; dashed: no error")
    return figure


def draw_targets(card: Card):
    """How the numbers of a dataset are spread, split by split, as shares of the split's samples or pixels."""
    target, of = card.target, "pixels" if card.task == "pixel_regression" else "samples"
    edges = np.array(target["edges"])
    with drawing() as Figure:
        figure = Figure(figsize=(PAGE_WIDTH * 0.85, 2.6))
        axes = figure.add_subplot()
        for number, split in enumerate(s for s in SPLITS if s in target["splits"]):
            counts = np.array(target["splits"][split]["histogram"])
            middle = (edges[:-1] + edges[1:]) / 2
            axes.plot(
                middle,
                counts / counts.sum(),
                color=COLOURS[number],
                lw=1.3,
                marker=MARKERS[number],
                ms=3.6,
                label=f"{split} ({counts.sum()})",
            )
        axes.set_ylim(bottom=0)
        axes.grid(axis="both", lw=0.5)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        axes.set_ylabel(f"share of the split's {of}")
        axes.set_xlabel(plain(target_words(card)))
        axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=3, borderaxespad=0.2)
        put_title(figure, f"{card.dataset}: target")
    return figure


def target_words(card: Card) -> str:
    """The target's name, and its unit where one is known."""
    target = card.target
    return f"{target['name']} ({target['unit']})" if target["unit"] else target["name"]
