"""What a page shows of detections by VOC's or Open Images' rules: curves, right and wrong detections of classes."""

from __future__ import annotations

import numpy as np

from permafrost.core.text import printable_name
from permafrost.evaluators.output.page import Figure, Section
from permafrost.metrics.detection.axes import RECALL_GRID
from permafrost.metrics.detection.voc import VocEvaluation
from permafrost.report.figures.detection_curves import MOST, draw_precision_recall
from permafrost.report.tables.blocks import Block


def voc_sections(found: VocEvaluation, labels: list[str]) -> list[Section]:
    """Curves of the classes with the most truths at the first threshold, and what became of detections."""
    truths = found.positives.sum(axis=1)
    chosen = [k for k in np.argsort(-truths, kind="stable").tolist() if truths[k]][:MOST]
    curves = {printable_name(labels[k]): _envelope(*found.curve(k)) for k in chosen}
    note = f"a detection is right at an IoU {found.reached} {found.thresholds[0]:g}; best precision from each recall on"
    figure = Figure(
        "curves",
        draw_precision_recall(curves, title="Precision and recall", note=note, order=""),
        alt=f"Precision against recall: {', '.join(curves)}",
        caption="Precision against recall, of the classes with the most truths.",
    )
    heads = ["class", "truths", "right", "wrong"]
    sides = [
        np.bincount(found.bucket, of[:, 0], minlength=len(labels))
        for of in (found.right, found.wrong)
    ]
    lines = [
        [printable_name(label), *(f"{number[k]:.10g}" for number in (truths, *sides))]
        for k, label in enumerate(labels)
    ]
    block = Block("Detections, whatever their score", [heads, *lines], frozenset(heads[1:]))
    return [
        Section("curves", "Precision and recall", "", (), [figure]),
        Section("errors", "Kinds of errors", "", [block]),
    ]


def _envelope(recall: np.ndarray, precision: np.ndarray) -> dict[str, list]:
    """The best precision at each recall of a grid or beyond; 0 beyond the highest recall."""
    best = np.append(np.maximum.accumulate(precision[::-1])[::-1], 0.0)
    places = np.searchsorted(recall, RECALL_GRID)
    return {"recall": RECALL_GRID.tolist(), "precision": best[places].tolist()}
