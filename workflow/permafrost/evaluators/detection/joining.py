"""Join evaluations of different images, without matching again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

import numpy as np

from permafrost.metrics.detection.accumulate import accumulate
from permafrost.metrics.detection.cells import Cells
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.inputs.forms import compacted
from permafrost.metrics.detection.inputs.tables import Detections, Images, Notes, Truths, rows_of
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.detection.matching import Matching
from permafrost.metrics.detection.pairs import Pairs


def join(parts: list[Evaluation]) -> Evaluation:
    """One evaluation of the images of all parts, which must not overlap.

    The parts must have the same settings, axes and categories. Images are sorted by id, whatever
    the order of the parts, so that ties are broken as in an evaluation of all images together.
    """
    images, numbers = _images([part.truths.images for part in parts])
    truths, truth_place, truth_order = _rows([part.truths for part in parts], numbers)
    truths = replace(truths, images=images)
    detections, detection_place, detection_order = _rows(
        [part.detections for part in parts], numbers
    )
    if len(np.unique(detections.ids)) < len(detections):
        detections = replace(detections, ids=np.arange(1, len(detections) + 1))
    count = max(len(images), 1)
    cells = [part.cells for part in parts]
    truth_cell = _cells([c.truth_cell for c in cells], cells, numbers, count)
    detection_cell = _cells([c.detection_cell for c in cells], cells, numbers, count)
    columns, column_place = _sorted(truth_cell, [len(c.truths) for c in cells])
    rows, row_place = _sorted(detection_cell, [len(c.detections) for c in cells])
    joined = Cells(
        truths=_mapped([c.truths for c in cells], truth_place)[columns],
        detections=_mapped([c.detections for c in cells], detection_place)[rows],
        truth_cell=truth_cell[columns],
        detection_cell=detection_cell[rows],
        ranks=np.concatenate([c.ranks for c in cells])[rows],
        first=_first(cells, column_place)[rows],
        count=np.concatenate([c.count for c in cells])[rows],
        buckets=cells[0].buckets,
        images=len(images),
    )
    matching = _matching([part.matching for part in parts], rows, columns, row_place, column_place)
    problem = replace(
        parts[0].problem,
        truths=truths,
        detections=detections,
        truth_masks=_masks([part.problem.truth_masks for part in parts], truth_order),
        detection_masks=_masks([part.problem.detection_masks for part in parts], detection_order),
    )
    scores = detections.scores[joined.detections]
    return replace(
        parts[0],
        curves=accumulate(joined, matching, scores, parts[0].axes),
        truths=truths,
        detections=detections,
        cells=joined,
        pairs=_pairs([part.pairs for part in parts], row_place, column_place),
        matching=matching,
        problem=problem,
    )


def _images(parts: list[Images]) -> tuple[Images, list[np.ndarray]]:
    """All images sorted by id, and per part the new index of each of its images."""
    order = np.argsort(np.concatenate([part.ids for part in parts]), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    arrays = [
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("ids", "widths", "heights")
    ]
    lists = {}
    for name in ("negative", "not_exhaustive"):
        if getattr(parts[0], name) is not None:
            values = [value for part in parts for value in getattr(part, name)]
            lists[name] = [values[i] for i in order.tolist()]
    return Images(*arrays, **lists), _cut(place, [len(part) for part in parts])


def _rows(tables: list[Truths] | list[Detections], numbers: list[np.ndarray]):
    """The joined table, per part the new row indices, and the sorting order."""
    first = tables[0]
    arrays = {
        field.name: np.concatenate([getattr(table, field.name) for table in tables])
        for field in fields(first)
        if isinstance(getattr(first, field.name), np.ndarray)
    }
    pairs: Iterable[tuple[Truths | Detections, np.ndarray]] = zip(tables, numbers, strict=True)
    arrays["image"] = np.concatenate([number[table.image] for table, number in pairs])
    segmentations = None
    if first.segmentations is not None:
        segmentations = compacted([value for table in tables for value in table.segmentations])
    joined = replace(first, **arrays, segmentations=segmentations, notes=_notes(tables))
    entries = joined.entries
    # entries of one file return to its order; those of several files stay part by part
    whole = len(np.unique(entries)) == len(entries)
    order = np.argsort(entries, kind="stable") if whole else np.arange(len(entries))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return rows_of(joined, order), _cut(place, [len(table) for table in tables]), order


def _notes(tables) -> Notes:
    warnings = list(dict.fromkeys(text for table in tables for text in table.notes.warnings))
    dropped: dict[str, int] = {}
    for table in tables:
        for what, count in table.notes.dropped.items():
            dropped[what] = dropped.get(what, 0) + count
    return Notes(warnings, dropped)


def _cut(values: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
    return np.split(values, np.cumsum(lengths)[:-1])


def _cells(parts, cells: list[Cells], numbers, count: int) -> np.ndarray:
    out = [np.empty(0, np.int64)]
    for cell, part, number in zip(parts, cells, numbers, strict=True):
        images = max(part.images, 1)
        if len(cell):
            out.append(cell // images * count + number[cell % images])
    return np.concatenate(out)


def _sorted(cell: np.ndarray, lengths: list[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The order by cell, and per part the new index of each entry."""
    order = np.argsort(cell, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return order, _cut(place, lengths)


def _mapped(parts: list[np.ndarray], places: list[np.ndarray]) -> np.ndarray:
    pairs = zip(parts, places, strict=True)
    return np.concatenate([place[values] for values, place in pairs])


def _first(cells: list[Cells], column_place: list[np.ndarray]) -> np.ndarray:
    """First column of the cell of every row; 0 where the cell has none."""
    out = []
    for part, place in zip(cells, column_place, strict=True):
        first = np.zeros(len(part.first), np.int64)
        has = part.count > 0
        first[has] = place[part.first[has]]
        out.append(first)
    return np.concatenate(out)


def _matching(parts: list[Matching], rows, columns, row_place, column_place) -> Matching:
    candidates = _mapped([part.candidates for part in parts], row_place)
    order = np.argsort(candidates)
    column = [
        np.where(part.column >= 0, place[part.column], -1) if len(place) else part.column
        for part, place in zip(parts, column_place, strict=True)
    ]
    return Matching(
        candidates=candidates[order],
        column=np.concatenate(column)[order].astype(np.int32),
        similarity=np.concatenate([part.similarity for part in parts])[order],
        truth_ignored=np.concatenate([part.truth_ignored for part in parts])[columns],
        outside=np.concatenate([part.outside for part in parts])[rows],
        unseen=np.concatenate([part.unseen for part in parts])[columns],
    )


def _pairs(parts: list[Pairs], row_place, column_place) -> Pairs:
    rows = _mapped([part.rows for part in parts], row_place)
    order = np.argsort(rows, kind="stable")
    columns = _mapped([part.columns for part in parts], column_place)
    return Pairs(
        rows[order],
        columns[order],
        np.concatenate([part.similarity for part in parts])[order],
    )


def _masks(parts: list[Masks | None], order: np.ndarray) -> Masks | None:
    return None if parts[0] is None else Masks.joined(parts).take(order)
