"""Sections that several kinds of pages have: confused classes, and the images with the most errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from permafrost.core.text import printable_name
from permafrost.evaluators.output.page import Figure, Section
from permafrost.report.figures.matrices import draw_confusion
from permafrost.report.notation import interval_of, number
from permafrost.report.tables.blocks import Block

_DRAWN = 40  # most classes of a figure
_LISTED = 30  # pairs in the table
_LONGEST = 40
_IMAGES = 20  # in the table


def confusion_section(
    counts: np.ndarray, names: Sequence[str], *, unit: str, sides: tuple[str, str], words: str = ""
) -> Section:
    """A heat map of up to 40 classes, and the most frequent confusions of all.

    Parameters
    ----------
    counts : (K, K) integers, rows the truth and columns what was predicted.
    unit : what is counted, such as ``pixels``; sides : words for a row's and a column's class.
    """
    labels = _distinct(names)
    figures = []
    if len(labels) <= _DRAWN and counts.any():
        figures = [
            Figure(
                "confusion",
                draw_confusion(np.asarray(counts), labels, title="Confusion", unit=unit),
                alt="Matrix of true and predicted classes",
                caption=f"Rows: {sides[0]}; columns: {sides[1]}. Colours are shares of a row.",
                wide=len(labels) > 12,
            )
        ]
    return Section("confusion", "Confusion", words, [_pairs(counts, labels, unit, sides)], figures)


def worst_order(errors: np.ndarray) -> list[int]:
    """Positions of the images with errors, those with the most first; equal ones in their order."""
    order = np.argsort(-np.asarray(errors), kind="stable").tolist()
    return [place for place in order if errors[place] > 0]


def image_section(
    names: Sequence,
    columns: Mapping[str, np.ndarray],
    errors: np.ndarray,
    *,
    words: str = "",
    figures: Sequence[Figure] = (),
) -> Section:
    """The images with the most errors.

    Parameters
    ----------
    names : of the I images; columns : heading -> (I,) numbers; errors : (I,) number of errors.
    """
    worst = worst_order(errors)
    lines = [
        [printable_name(names[place], 2 * _LONGEST), *(str(of[place]) for of in columns.values())]
        for place in worst[:_IMAGES]
    ]
    heads = ["image", *columns]
    foot = f"{len(worst)} of {len(names)} images have an error."
    block = Block("Images with the most errors", [heads, *lines], frozenset(columns), foot)
    return Section("images", "Worst images", words, [block], figures)


def slice_section(rows: Sequence[Mapping], metrics: Sequence[str]) -> Section:
    """Scores of parts of the images, a line per part and metric.

    Parameters
    ----------
    rows : with ``axis``, ``label``, ``images``, ``metric``, ``class``, ``value``, ``lower``, ``upper``.
    metrics : that are shown.
    """
    heads = ["part", "images", "metric", "value", "interval"]
    lines = [
        [
            f"{printable_name(row['axis'])} = {printable_name(row['label'])}",
            str(row["images"]),
            row["metric"],
            number(row["value"]),
            interval_of(dict(row)),
        ]
        for row in rows
        if row["metric"] in metrics and row.get("class") is None
    ]
    blocks = [Block("Parts of the images", [heads, *lines], frozenset(heads[1:]))] if lines else []
    words = "The lowest of several scores is low by chance alone."
    return Section("slices", "Slices", words, blocks)


def _pairs(counts: np.ndarray, labels: list[str], unit: str, sides: tuple[str, str]) -> Block:
    wrong = np.where(np.eye(len(labels), dtype=bool), 0, counts)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_LISTED]
    places = [divmod(int(place), len(labels)) for place in order if wrong.flat[place]]
    sums = np.asarray(counts).sum(axis=1)
    lines = [
        [labels[i], labels[j], str(int(counts[i, j])), _percent(counts[i, j] / sums[i])]
        for i, j in places
    ]
    heads = [*sides, unit, "share of the row"]
    found = int(np.count_nonzero(wrong))
    foot = f"{found} kinds of confusion{', the most frequent ones' * (found > len(places))}."
    return Block("Confusions", [heads, *lines], frozenset(heads[2:]), foot)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"


def _distinct(names: Sequence[str]) -> list[str]:
    """Printable names; a figure needs different ones."""
    labels: list[str] = []
    for name in names:
        label = printable_name(name, _LONGEST)
        while label in labels:
            label += "'"
        labels.append(label)
    return labels
