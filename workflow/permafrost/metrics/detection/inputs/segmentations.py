"""Read COCO segmentations (polygons, run lengths, compressed run lengths) as masks, and check each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.inputs.forms import (
    Compressed,
    as_drawn,
    coordinates,
    is_size,
    plain_polygons,
    plain_sizes,
    polygon_problem,
    run_problem,
    without_numpy,
)
from permafrost.metrics.detection.masks.codec import decode
from permafrost.metrics.detection.masks.polygons import COORDINATE_LIMIT, rasterise
from permafrost.metrics.detection.masks.runs import Masks, masks_of_runs
from permafrost.metrics.detection.ragged import offsets_of

if TYPE_CHECKING:
    from permafrost.metrics.detection.masks.text import Text


@dataclass(frozen=True)
class ReadMasks:
    """N masks, and the invalid entries.

    Attributes
    ----------
    masks : the masks; those not requested have no foreground.
    areas : (N,) pixels of foreground; NaN if not requested.
    boxes : (N, 4) x, y, width, height in pixels; NaN if not requested.
    bad : (N,) bool, entries to omit.
    dropped : reason to the number of entries.
    """

    masks: Masks
    areas: np.ndarray
    boxes: np.ndarray
    bad: np.ndarray
    dropped: dict[str, int]


def read_masks(
    segmentations: list | Compressed,
    heights: np.ndarray,
    widths: np.ndarray,
    where: Callable[[int], str],
    *,
    strict: bool = False,
    drop: bool = False,
    keep: np.ndarray | None = None,
    measured: np.ndarray | None = None,
) -> ReadMasks:
    """Read one segmentation per entry.

    Parameters
    ----------
    segmentations : a list or `Compressed` of lists of polygons [x0, y0, x1, y1, …], or
        {"size": [h, w], "counts": …} with the run lengths as a list or as COCO's compressed string.
    heights, widths : (N,) sizes of the images.
    where : gives the name of an entry, for messages.
    strict : a mask of another size than its image keeps its size (and overlaps no mask of
        another size); a last odd coordinate is ignored.
    drop : mark invalid entries instead of refusing the first.
    keep : (N,) bool, masks whose runs are needed (all if None); all masks are checked.
    measured : (N,) bool, masks whose area and box are needed; all if None.

    Raises
    ------
    PermafrostError : an invalid segmentation, which the message names.
    """
    return _Reader(segmentations, heights, widths, where, strict, drop, keep, measured).read()


class _Reader:
    def __init__(self, segmentations, heights, widths, where, strict, drop, keep, measured) -> None:
        count = len(segmentations)
        self.given, self.where, self.strict, self.drop = segmentations, where, strict, drop
        self.heights = np.asarray(heights, np.int64).copy()
        self.widths = np.asarray(widths, np.int64).copy()
        self.keep = np.ones(count, bool) if keep is None else keep
        self.measured = np.ones(count, bool) if measured is None else measured
        self.measures = np.full((count, 5), np.nan)
        self.bad = np.zeros(count, bool)
        self.dropped: Counter[str] = Counter()

    def read(self) -> ReadMasks:
        strings, lists, polygons = self._sorted_by_kind()
        parts = [
            (rows, masks)
            for rows, masks in (
                self._strings(strings),
                self._lists(lists),
                self._polygons(polygons),
            )
            if len(rows)
        ]
        masks = self._assembled(parts)
        return ReadMasks(
            masks, self.measures[:, 0], self.measures[:, 1:], self.bad, dict(self.dropped)
        )

    def refuse(self, row: int, problem: str) -> None:
        if not self.drop:
            raise PermafrostError(f"malformed segmentation: {problem}", where=self.where(int(row)))
        if not self.bad[row]:
            self.bad[row] = True
            self.dropped[f"segmentation: {problem}"] += 1

    def _sorted_by_kind(self) -> tuple[list, list, list]:
        if isinstance(self.given, Compressed):
            rows = np.arange(len(self.given))
            self._check_sizes(rows, self.given.sizes)
            return rows[~self.bad].tolist(), [], []
        strings, lists, polygons, sized = [], [], [], []
        for row, given in enumerate(self.given):
            kind = type(given)
            if kind is dict:
                counts = given.get("counts")
                if type(counts) is str or type(counts) is bytes:
                    strings.append(row)
                elif isinstance(counts, list | tuple):
                    lists.append(row)
                else:
                    self.refuse(row, "counts is neither a list nor a string")
                    continue
                sized.append(row)
            elif kind is list or kind is tuple or kind is np.ndarray:
                polygons.append(row)
            else:
                self.refuse(row, "neither polygons nor run lengths")
        self._sizes(sized)
        return cast(
            tuple[list, list, list],
            tuple([i for i in rows if not self.bad[i]] for rows in (strings, lists, polygons)),
        )

    def _sizes(self, rows: list[int]) -> None:
        sizes = [self.given[row].get("size") for row in rows]
        if not plain_sizes(sizes):
            for row, size in zip(rows, sizes, strict=True):
                if not is_size(size):
                    self.refuse(row, "size is not [height, width]")
            rows = [row for row in rows if not self.bad[row]]
            # clipped: all sizes beyond 32 bits are equally invalid
            sizes = [
                [min(max(int(n), -1), 1 << 32) for n in self.given[row]["size"]] for row in rows
            ]
        self._check_sizes(np.array(rows, np.int64), np.array(sizes, np.int64).reshape(-1, 2))

    def _check_sizes(self, rows: np.ndarray, given: np.ndarray) -> None:
        """Refuse impossible sizes, and sizes that differ from the image's."""
        wrong = (given < 1).any(axis=1) | (given.astype(np.float64).prod(axis=1) >= 1 << 32)
        for row in rows[wrong]:
            self.refuse(row, "size is not an image size")
        rows, given = rows[~wrong], given[~wrong]
        other = (given[:, 0] != self.heights[rows]) | (given[:, 1] != self.widths[rows])
        if self.strict:
            self.heights[rows], self.widths[rows] = given[:, 0], given[:, 1]
            return
        for place in np.flatnonzero(other):
            row = rows[place]
            self.refuse(
                row,
                f"the mask is {given[place, 0]} high and {given[place, 1]} wide, its image"
                f" {self.heights[row]} and {self.widths[row]}"
                if not self.drop
                else "the mask has another size than its image",
            )

    def _strings(self, rows: list[int]) -> tuple[np.ndarray, Masks]:
        texts: Text | list[bytes] | list[str]
        if isinstance(self.given, Compressed):
            counts = self.given.counts
            texts = counts if len(rows) == len(counts) else counts.take(np.array(rows))
        else:
            texts = [self.given[row]["counts"] for row in rows]
        at = np.array(rows, np.int64)
        masks, measures, problems = decode(
            texts, self.heights[at], self.widths[at], self._kept(at), self.measured[at]
        )
        for place in sorted(problems):
            self.refuse(rows[place], problems[place])
        self.measures[at] = measures
        return at, masks

    def _lists(self, rows: list[int]) -> tuple[np.ndarray, Masks]:
        counts = [self.given[row]["counts"] for row in rows]
        checked = []
        for row, runs in zip(rows, counts, strict=True):
            problem = run_problem(runs, int(self.heights[row]) * int(self.widths[row]))
            if problem:
                self.refuse(row, problem)
            checked.append([] if problem else list(map(int, runs)))
        at = np.array(rows, np.int64)
        masks = masks_of_runs(
            [len(runs) for runs in checked],
            np.array(list(chain.from_iterable(checked)), np.int64),
            self.heights[at],
            self.widths[at],
        )
        return at, self._measured(at, masks)

    def _polygons(self, rows: list[int]) -> tuple[np.ndarray, Masks]:
        given = [self.given[row] for row in rows]
        if not plain_polygons(given):
            given = [self._polygon(row) for row in rows]
        polygons = list(chain.from_iterable(given))
        sizes = np.array(list(map(len, polygons)), np.int64) // 2
        flat = coordinates(polygons)
        owners = np.repeat(np.arange(len(rows)), list(map(len, given)))
        sizes, flat, owners = self._finite(rows, sizes, flat.reshape(-1, 2), owners)
        at = np.array(rows, np.int64)
        masks = rasterise(flat, sizes, owners, self.heights[at], self.widths[at])
        return at, self._measured(at, masks)

    def _polygon(self, row: int) -> list:
        """The checked polygons of an entry; none if they are invalid."""
        given = without_numpy(self.given[row])
        problem = polygon_problem(given, self.strict)
        if problem:
            self.refuse(row, problem)
        return [] if problem else as_drawn(given)

    def _finite(self, rows, sizes, points, owners):
        """The polygons without those of entries with a coordinate that cannot be drawn."""
        wrong = ~(np.abs(points) <= COORDINATE_LIMIT).all(axis=1)
        if not wrong.any():
            return sizes, points, owners
        owner_of_point = np.repeat(owners, sizes)
        guilty = np.unique(owner_of_point[wrong])
        for place in guilty:
            self.refuse(rows[place], "a coordinate is gigantic or not finite")
        innocent = ~np.isin(owners, guilty)
        return sizes[innocent], points[~np.isin(owner_of_point, guilty)], owners[innocent]

    def _measured(self, at: np.ndarray, masks: Masks) -> Masks:
        if self.measured[at].any():
            self.measures[at, 0], self.measures[at, 1:] = masks.areas(), masks.boxes()
        return masks

    def _kept(self, at: np.ndarray) -> np.ndarray:
        return self.keep[at] & ~self.bad[at]

    def _assembled(self, parts: list[tuple[np.ndarray, Masks]]) -> Masks:
        if len(parts) == 1 and len(parts[0][0]) == len(self.given):
            return parts[0][1]
        masks = Masks.joined([Masks.empty([], []), *(masks for _, masks in parts)])
        rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in parts)])
        places = np.empty(len(rows), np.int64)
        order = np.argsort(rows)
        lengths = np.zeros(len(self.given), np.int64)
        places = order
        ordered = masks.take(places)
        lengths[rows[order]] = np.diff(ordered.offsets)
        return Masks(offsets_of(lengths), ordered.starts, ordered.stops, self.heights, self.widths)
