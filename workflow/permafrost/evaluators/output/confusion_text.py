"""A confusion matrix as text for a terminal."""

from __future__ import annotations

import numpy as np

from permafrost.core.text import printable_name
from permafrost.report.notation import NONE

# most classes for a matrix of counts; most classes for a matrix of shares
_COUNTED, _SHOWN = 8, 20
# pairs of classes listed if a matrix has no room
_LISTED = 20
_LONGEST = 24  # characters of a class's name
_NARROW = 10  # the same above a column


def confusion_lines(counts: np.ndarray, names, codes=None) -> list[str]:
    """The matrix as aligned columns: counts for up to 8 classes, shares for up to 20; for more
    classes, the confused pairs with the most pixels.

    Parameters
    ----------
    counts : (K, K) pixels, rows the reference and columns the prediction.
    names : (K,) class names.
    codes : (K,) column headings if names are too long; None for the names.
    """
    codes = [str(code) for code in (names if codes is None else codes)]
    names = [str(name) for name in names]
    if len(names) > _SHOWN:
        return _pair_lines(counts, names)
    labels = [
        printable_name(name if name == code else f"{code} {name}", _LONGEST)
        for name, code in zip(names, codes, strict=True)
    ]
    few = len(names) <= _COUNTED
    heads = [printable_name(name, _NARROW) for name in (names if few else codes)]
    if len(set(heads)) < len(heads):
        heads = codes
    lines = []
    if few:
        total = np.hstack([counts, counts.sum(axis=1, keepdims=True)])
        cells = [[f"{count:,}" for count in row] for row in total.tolist()]
        lines += ["", "Confusion, pixels (rows the reference, columns the prediction):"]
        lines += aligned([*heads, "all"], labels, cells)
    sums = counts.sum(axis=1).tolist()
    cells = [
        [_percent(count, total) for count in row]
        for row, total in zip(counts.tolist(), sums, strict=True)
    ]
    lines += ["", "Confusion, % of the reference pixels of a row:"]
    return lines + aligned(heads, labels, cells)


def _percent(count: int, total: int) -> str:
    if not total:
        return NONE
    return f"{100 * count / total:.1f}" if count else "0"


def _pair_lines(counts: np.ndarray, names: list[str]) -> list[str]:
    wrong = np.where(np.eye(len(names), dtype=bool), 0, counts)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_LISTED]
    pairs = [divmod(int(place), len(names)) for place in order if wrong.flat[place]]
    heading = f"Confusion of {len(names)} classes, the {len(pairs)} most frequent errors"
    if not pairs:
        return ["", f"Confusion of {len(names)} classes: no pixel of a wrong class."]
    sums = counts.sum(axis=1)
    cells = [
        [printable_name(names[j], _LONGEST), f"{counts[i, j]:,}", _percent(counts[i, j], sums[i])]
        for i, j in pairs
    ]
    heads = ["prediction", "pixels", "% of the reference's"]
    labels = [printable_name(names[i], _LONGEST) for i, _ in pairs]
    rest = " (--output and --tables have all):"
    return ["", heading + rest, *aligned(heads, labels, cells, corner="reference")]


def aligned(heads: list[str], labels: list[str], cells: list[list[str]], corner="") -> list[str]:
    """Rows of `cells` with `labels` before and `heads` above them, as aligned columns."""
    rows = [[corner, *heads], *([label, *row] for label, row in zip(labels, cells, strict=True))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
