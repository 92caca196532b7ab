"""Confusion matrix of samples or of pixels: rows are normalised, counts or shares are written."""

from __future__ import annotations

import numpy as np

from permafrost.report.figures.style import (
    FAINT,
    INK,
    PAGE_WIDTH,
    drawing,
    plain,
    put_title,
    shorten,
)
from permafrost.statistics.leaderboard.rows import brief_count

_COUNTS_UP_TO = 25  # more classes than this leave no room for numbers in the cells
_LETTERS = 24  # that names of up to five columns may have side by side, all as long as the longest


def confusion_counts(target: np.ndarray, prediction: np.ndarray, classes: int) -> np.ndarray:
    """Counts (classes, classes): rows are true classes, columns predicted ones."""
    target, prediction = np.asarray(target, np.int64), np.asarray(prediction, np.int64)
    for name, ids in (("target", target), ("prediction", prediction)):
        if ids.size and (ids.min() < 0 or ids.max() >= classes):
            raise ValueError(f"{name} holds ids outside 0…{classes - 1}")
    flat = np.bincount(target * classes + prediction, minlength=classes * classes)
    return flat.reshape(classes, classes)


def draw_confusion(counts: np.ndarray, classes: list[str], *, title: str, unit: str = "samples"):
    """Share of each true class (row) that was predicted as each class (column).

    Parameters
    ----------
    counts : (K, K) integer counts, rows true, columns predicted. A class without a sample has an
        empty (grey) row.
    classes : K names.
    unit : what is counted, ``samples`` or ``pixels``. Cells hold counts of samples, but per cent of
        pixels, of which there are too many to be read.
    """
    from matplotlib.colors import LinearSegmentedColormap

    count = len(classes)
    totals = counts.sum(axis=1, keepdims=True)
    share = np.where(totals > 0, counts / np.maximum(totals, 1), np.nan)
    font = 8 if count <= 12 else 6.6 if count <= 25 else 5.2
    limit = 22 if count <= 25 else 18
    names = [plain(shorten(name, limit)) for name in classes]
    with drawing() as Figure:
        side = min(PAGE_WIDTH - 0.7, max(3.6, 1.9 + 0.42 * count))
        # "compressed" keeps labels with axes of a fixed aspect, which the plain layout does not
        figure = Figure(figsize=(side + 0.7, side), layout="compressed")
        axes = figure.add_subplot()
        blues = LinearSegmentedColormap.from_list("share", ["#ffffff", "#56B4E9", "#00375c"])
        colours = blues.with_extremes(bad="#eeeeee")
        image = axes.imshow(share, cmap=colours, vmin=0, vmax=1, aspect="equal")
        _cells(axes, counts, share, font, unit)
        upright = count > 5 or count * max(map(len, names)) > _LETTERS
        axes.set_xticks(range(count), names, rotation=90 if upright else 0, fontsize=font)
        axes.set_yticks(
            range(count),
            [f"{n} ({brief_count(int(t[0]))})" for n, t in zip(names, totals, strict=True)],
            fontsize=font,
        )
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("predicted")
        axes.set_ylabel(f"true (number of {unit})")
        put_title(figure, title)
        bar = figure.colorbar(image, ax=axes, fraction=0.035, pad=0.02, ticks=[0, 0.5, 1])
        bar.ax.set_yticklabels(["0", "50 %", "100 %"], fontsize=7.5)
        bar.set_label("share of the true class", color=FAINT)
        bar.outline.set_visible(False)
    return figure


def _cells(axes, counts: np.ndarray, share: np.ndarray, font: float, unit: str) -> None:
    edges = np.arange(len(counts) + 1) - 0.5
    width = 0.8 if len(counts) <= _COUNTS_UP_TO else 0.3
    axes.vlines(edges, edges[0], edges[-1], color="#e8e8e8", lw=width)
    axes.hlines(edges, edges[0], edges[-1], color="#e8e8e8", lw=width)
    if len(counts) > _COUNTS_UP_TO:
        return
    for row, column in zip(*np.nonzero(counts), strict=True):
        dark = share[row, column] > 0.45
        text = str(counts[row, column]) if unit == "samples" else _percent(share[row, column])
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=font,
            color="white" if dark else INK,
        )


def _percent(share: float) -> str:
    """A share in whole per cent; one that rounds to none but is some is ``<1``."""
    return f"{100 * share:.0f}" if share >= 0.005 else "<1"
