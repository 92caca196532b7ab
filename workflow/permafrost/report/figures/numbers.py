"""Predicted against true numbers, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.specification import SPLITS
from permafrost.core.tasks import targets_of
from permafrost.report.figures import chart
from permafrost.report.figures.style import COLOURS

if TYPE_CHECKING:
    from permafrost.data.store.card import Card

# more samples than this are counted in cells
_DOTS = 1000
_CELLS = 60
_SIDE = chart.WIDTH / 2 - 60


def draw_numbers(target: np.ndarray, prediction: np.ndarray, *, words: str, title: str) -> dict:
    """Left, predicted against true; right, errors against true. Many samples are counted in cells.

    Parameters
    ----------
    target, prediction : (N,).
    words : name of the target, for the axes.
    """
    both = np.concatenate([target, prediction])
    low, high = float(both.min()), float(both.max())
    margin = 0.04 * (high - low) or 0.5
    limits, error = (low - margin, high + margin), prediction - target
    far = (error.min() - margin, error.max() + margin)
    true, predicted = _axes(limits, words)
    off = chart.number("y", "predicted − true", domain=[float(end) for end in far])
    drawn = _counted if len(target) > _DOTS else _dotted
    left = drawn(target, prediction, true, predicted, chart.diagonal(*limits, true, predicted))
    right = drawn(target, error, true, off, chart.reference(y=0))
    note = f"{len(target)} test samples; dashed: no error"
    return chart.figure(chart.panels([left, right], 2), title=title, note=note)


def draw_histogram(
    counts: np.ndarray, limits: tuple[float, float], *, words: str, title: str
) -> dict:
    """Pixels by true and predicted number, on a logarithmic scale.

    Parameters
    ----------
    counts : (B, B), rows true, columns predicted, in equal bins between `limits`.
    words : name of the target, for the axes.
    """
    x, y = _axes(limits, words)
    view = _cells(counts, x, y, chart.diagonal(*limits, x, y), "pixels", 300)
    note = (
        f"{int(counts.sum())} pixels of the test set; dashed: no error; predictions beyond the axes count in the"
        " outermost bins"
    )
    return chart.figure(view, title=title, note=note, width=0.7 * chart.WIDTH)


def _axes(limits: tuple[float, float], words: str) -> tuple[dict, dict]:
    """Channels: true numbers to the right, predicted ones upwards."""
    return (
        chart.number("x", f"true {words}", domain=list(limits)),
        chart.number("y", f"predicted {words}", domain=list(limits)),
    )


def _dotted(x: np.ndarray, y: np.ndarray, across: dict, up: dict, line: dict) -> dict:
    opacity = 0.75 if len(x) <= 200 else 0.35
    dots = {
        "data": {"values": [{"x": a, "y": b} for a, b in zip(x.tolist(), y.tolist(), strict=True)]},
        "mark": {"type": "point", "filled": True, "size": 18, "opacity": opacity},
        "encoding": {"x": across, "y": up, "color": {"value": COLOURS[0]}},
    }
    return {"width": _SIDE, "height": _SIDE, "layer": [line, dots]}


def _counted(x: np.ndarray, y: np.ndarray, across: dict, up: dict, line: dict) -> dict:
    limits = [channel["scale"]["domain"] for channel in (across, up)]
    counts = np.histogram2d(x, y, bins=_CELLS, range=limits)[0]
    return _cells(counts, across, up, line, "samples", _SIDE)


def _cells(counts: np.ndarray, x: dict, y: dict, line: dict, of: str, side: float) -> dict:
    """Counts (to the right, upwards) in equal bins of the channels' domains."""
    edges = [
        np.linspace(*channel["scale"]["domain"], bins + 1).tolist()
        for channel, bins in zip((x, y), counts.shape, strict=True)
    ]
    rows = [
        {"x": edges[0][i], "x2": edges[0][i + 1], "y": edges[1][j], "y2": edges[1][j + 1]}
        | {"value": int(counts[i, j])}
        for i, j in zip(*(places.tolist() for places in np.nonzero(counts)), strict=True)
    ]
    scale = {"type": "log", "scheme": "viridis", "domain": [1, max(2, int(counts.max()))]}
    size = {"width": side, "height": side}
    return chart.cells(rows, x, y, scale, of, layers=[line], empty="white", **size)


def draw_targets(card: Card) -> dict:
    """Distribution of a dataset's targets per split, as shares of its samples or pixels."""
    target, of = card.target, "pixels" if targets_of(card.task).pixels else "samples"
    edges, rows, labels = np.array(target["edges"]), [], {}
    middle = ((edges[:-1] + edges[1:]) / 2).tolist()
    for split in (split for split in SPLITS if split in target["splits"]):
        counts = np.array(target["splits"][split]["histogram"])
        shares = (counts / counts.sum()).tolist()
        labels[split] = f"{split} ({counts.sum()})"
        rows += [{"x": x, "y": y, "series": split} for x, y in zip(middle, shares, strict=True)]
    x = chart.number("x", target_words(card), padding=6)
    y = chart.number("y", f"share of the split's {of}", zero=True, axis={"format": "~%"})
    view = chart.lines(rows, x, y, chart.series(labels), width=0.8 * chart.WIDTH, height=170)
    return chart.figure(view, title=f"{card.dataset}: target")


def target_words(card: Card) -> str:
    """The target's name, and its unit if one is known."""
    target = card.target
    return f"{target['name']} ({target['unit']})" if target["unit"] else target["name"]
