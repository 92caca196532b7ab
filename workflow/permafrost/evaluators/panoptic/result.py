"""The result of a panoptic evaluation: sums per image and class, values, and their replicates.

Every value follows from sums over images, so a bootstrap reweights the sums without matching again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.evaluators.panoptic.entries import Categories
from permafrost.metrics.ratios import divide, mean_of_defined

Name = tuple[str, str | None]  # metric, class (None: overall)
MEASURES = ("pq", "sq", "rq")


@dataclass(frozen=True)
class PanopticEvaluation:
    """Matches of segments, and every value computed from them.

    Attributes
    ----------
    images : (I,) ids of the images; categories : the C categories of the truth.
    tp, fp, fn : (I, C) int64 matches, false alarms and misses.
    iou : (I, C) float64 sums of the IoU of the matches.
    mode, boundary_ratio : the settings, see `evaluate`.
    digests : SHA-256 of the label maps of the truth and of the predictions, in the order of `images`.
    """

    images: tuple
    categories: Categories
    tp: np.ndarray
    fp: np.ndarray
    fn: np.ndarray
    iou: np.ndarray
    mode: str
    boundary_ratio: float | None
    digests: tuple[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categories."""
        return self.categories.names

    @cached_property
    def values(self) -> dict[Name, float]:
        """Every value by metric and class; NaN if undefined.

        ``pq``, ``sq`` and ``rq`` are means over the classes with a match, a false alarm or a miss;
        ``pq_things`` … and ``pq_stuff`` … are means over these among the things, and the stuff. Per
        class, ``pq`` = sum of IoU / (TP + FP / 2 + FN / 2), ``sq`` = sum of IoU / TP (0 without a
        match), ``rq`` = TP / (TP + FP / 2 + FN / 2).
        """
        sums = (kind.sum(axis=0)[:, None] for kind in self._kinds)
        return {name: float(value[0]) for name, value in self._measure(*sums).items()}

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) values on resamples of the images; `counts` (I, B) is how often each was drawn."""
        weights = counts.astype(np.float64)
        return self._measure(*(kind.T.astype(np.float64) @ weights for kind in self._kinds))

    @property
    def means(self) -> dict[Name, list[Name]]:
        """The class values that each overall value averages."""
        things = self.categories.things
        parts = {"": np.ones_like(things), "_things": things, "_stuff": ~things}
        return {
            (measure + part, None): [(measure, self.names[k]) for k in np.flatnonzero(chosen)]
            for part, chosen in parts.items()
            for measure in MEASURES
        }

    @property
    def truths(self) -> dict[str, np.ndarray]:
        """(I,) segments of the truth of every class, in each image."""
        return dict(zip(self.names, (self.tp + self.fn).T, strict=True))

    def class_counts(self) -> list[dict]:
        """Per category: id, name, whether it is a thing, and the sums over all images."""
        sums = {
            name: getattr(self, name).sum(axis=0).tolist() for name in ("tp", "fp", "fn", "iou")
        }
        sums["iou_sum"] = sums.pop("iou")
        return [
            {
                "id": self.categories.ids[place],
                "name": name,
                "isthing": bool(self.categories.things[place]),
                **{kind: values[place] for kind, values in sums.items()},
            }
            for place, name in enumerate(self.names)
        ]

    def heading(self) -> str:
        """What was evaluated, and with which settings, in one line."""
        what = "panoptic quality"
        if self.boundary_ratio is not None:
            what = f"boundary panoptic quality (bands of {self.boundary_ratio:g} of the diagonal)"
        things = int(self.categories.things.sum())
        return (
            f"{what} of {len(self.images)} images, {things} classes of things and"
            f" {len(self.names) - things} of stuff, mode {self.mode}: {int(self.tp.sum())} matches,"
            f" {int(self.fp.sum())} false alarms, {int(self.fn.sum())} misses"
        )

    def notes(self) -> list[str]:
        """Remarks on classes that were handled separately."""
        seen = (self.tp + self.fp + self.fn).sum(axis=0) > 0
        absent = [name for name, has in zip(self.names, seen, strict=True) if not has]
        if not absent:
            return []
        shown = ", ".join(absent[:5]) + (f" and {len(absent) - 5} more" if len(absent) > 5 else "")
        return [
            f"{len(absent)} of {len(seen)} classes are not in the means, since nothing of them was"
            f" matched, missed or falsely found: {shown}."
        ]

    @property
    def _kinds(self) -> tuple[np.ndarray, ...]:
        return self.tp, self.fp, self.fn, self.iou

    def _measure(self, tp, fp, fn, iou) -> dict[Name, np.ndarray]:
        """Values from (C, B) sums."""
        below = tp + 0.5 * fp + 0.5 * fn
        # a class without a match has no mean IoU; panopticapi sets it to 0
        sq = np.where(below > 0, divide(iou, tp, undefined=0.0), np.nan)
        ratios = dict(zip(MEASURES, (divide(iou, below), sq, divide(tp, below)), strict=True))
        things = self.categories.things
        parts = {"": np.ones_like(things), "_things": things, "_stuff": ~things}
        found: dict[Name, np.ndarray] = {
            (measure + part, None): mean_of_defined(ratio[chosen])
            for part, chosen in parts.items()
            for measure, ratio in ratios.items()
        }
        for place, name in enumerate(self.names):
            found.update({(measure, name): ratio[place] for measure, ratio in ratios.items()})
        return found
