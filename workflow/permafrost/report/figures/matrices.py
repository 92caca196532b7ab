"""Heat maps of classes and of backbones: confusion matrices, and similarity of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from permafrost.report.figures import chart
from permafrost.report.notation import number
from permafrost.statistics.leaderboard.rows import brief_count

_WRITTEN_UP_TO = 25  # with more rows, cells have no room for text
_UPRIGHT = 5  # with more columns, their names are vertical
_BLUES = ("#ffffff", "#56B4E9", "#00375c")
_DARK = 0.45  # share of the scale from which text is white


def confusion_counts(target: np.ndarray, prediction: np.ndarray, classes: int) -> np.ndarray:
    """Counts (classes, classes): rows are true classes, columns predicted ones."""
    target, prediction = np.asarray(target, np.int64), np.asarray(prediction, np.int64)
    for name, ids in (("target", target), ("prediction", prediction)):
        if ids.size and (ids.min() < 0 or ids.max() >= classes):
            raise ValueError(f"{name} holds ids outside 0…{classes - 1}")
    flat = np.bincount(target * classes + prediction, minlength=classes * classes)
    return flat.reshape(classes, classes)


def draw_confusion(
    counts: np.ndarray, classes: list[str], *, title: str, unit: str = "samples"
) -> dict:
    """Share of each true class (row) that was predicted as each class (column).

    Parameters
    ----------
    counts : (K, K) integer counts, rows true, columns predicted. A class without a sample has an
        empty (grey) row.
    classes : K names.
    unit : ``samples`` or ``pixels``. Cells show counts of samples, but percentages of pixels, whose
        counts would be too long.
    """
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.where(totals > 0, counts / np.maximum(totals, 1), np.nan)
    texts = [
        [
            "" if not n else str(n) if unit == "samples" else _percent(share)
            for n, share in zip(*row, strict=True)
        ]
        for row in zip(counts.tolist(), shares.tolist(), strict=True)
    ]
    across = chart.shortened(classes, 22 if len(classes) <= _WRITTEN_UP_TO else 18)
    down = {
        name: f"{text} ({brief_count(total)})"
        for (name, text), total in zip(across.items(), totals[:, 0].tolist(), strict=True)
    }
    words = ("predicted", f"true (number of {unit})")
    return chart.figure(
        _matrix(shares, texts, across, down, "share of the true class", words, format=".0%"),
        title=title,
    )


def draw_similarity(
    values: np.ndarray, backbones: list[str], *, title: str, note: str = ""
) -> dict:
    """A heat map with the value in every cell.

    Parameters
    ----------
    values : (M, M) symmetric; NaN if undefined (a grey cell with a dash). The diagonal is 1.
    backbones : M names, from top to bottom and left to right.
    """
    texts = [
        [
            "1" if row == column and value == 1 else number(value, 2)
            for column, value in enumerate(line)
        ]
        for row, line in enumerate(values.tolist())
    ]
    labels = chart.shortened(backbones, 26)
    view = _matrix(values, texts, labels, labels, "debiased linear CKA", ("", ""))
    return chart.figure(view, title=title, note=note)


def _matrix(
    values: np.ndarray,
    texts: list[list[str]],
    across: dict[str, str],
    down: dict[str, str],
    legend: str,
    words: tuple[str, str],
    **look,
) -> dict:
    """Cells from white (0) to dark blue (1), with `texts` if few; `words` are axis titles."""
    count = len(down)
    side = max(11, min(42, int((chart.WIDTH - chart.room(down)) / count)))
    font = 11 if count <= 12 else 9 if count <= _WRITTEN_UP_TO else 8
    rows = [
        {"column": column, "row": row, "value": value, "text": text, "dark": value > _DARK}
        for row, line, written in zip(down, values.tolist(), texts, strict=True)
        for column, value, text in zip(across, line, written, strict=True)
    ]
    level = count <= _UPRIGHT and chart.room(across) < side
    x, y = (
        chart.names(field, labels, labelFontSize=font, labelPadding=4, **about)
        | {"title": word or None}
        for field, labels, about, word in (
            ("column", across, {"labelAngle": 0 if level else -90}, words[0]),
            ("row", down, {}, words[1]),
        )
    )
    scale = {"domain": [0, 0.5, 1], "range": _BLUES, "interpolate": "rgb", "clamp": True}
    written = font if count <= _WRITTEN_UP_TO else 0
    size: dict[str, Any] = {"width": side * count, "height": side * count}
    return chart.cells(
        rows, x, y, scale, legend, written=written, values=[0, 0.5, 1], **size, **look
    )


def _percent(share: float) -> str:
    """A share in whole per cent; a positive share that rounds to 0 is ``<1``."""
    return f"{100 * share:.0f}" if share >= 0.005 else "<1"
