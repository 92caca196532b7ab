"""The result of a raster evaluation: counts, values, their replicates, and Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.text import printable_name
from permafrost.evaluators.raster import assessment
from permafrost.evaluators.raster.area import AreaEstimates, area_estimates
from permafrost.evaluators.raster.pixel_areas import PixelAreas
from permafrost.metrics.ratios import divide

Name = tuple[str, str | None]  # metric, class (None: overall)


@dataclass(frozen=True)
class RasterEvaluation:
    """Pixel counts, and every value computed from them.

    Attributes
    ----------
    codes : (K,) class codes; names : (K,) their names.
    cells : (C, 2) positions (reference, prediction) of the pairs that occur.
    block_counts : (C, U) int64, counts of these pairs in each block that has a counted pixel.
    mapped : (K,) int64: pixels of each class in the whole prediction, with or without reference.
    pixels, ignored, unpredicted : all pixels; those without a reference class; those with one, but
        without a prediction.
    smooth, class_weights, like : see `assessment`.
    pixel_areas : areas of the pixels, as far as known. If they differ:
    area_sums, mapped_area : (2, K, K) and (K,), see `area.area_estimates`, in square metres; else
        None.
    """

    codes: tuple[int, ...]
    names: tuple[str, ...]
    cells: np.ndarray
    block_counts: np.ndarray
    mapped: np.ndarray
    pixels: int
    ignored: int
    unpredicted: int
    smooth: float
    class_weights: np.ndarray
    like: str | None = None
    pixel_areas: PixelAreas = field(default_factory=PixelAreas)
    area_sums: np.ndarray | None = None
    mapped_area: np.ndarray | None = None

    @cached_property
    def counts(self) -> np.ndarray:
        """(K, K) int64: rows the reference, columns the prediction."""
        return self._scatter(self.block_counts.sum(axis=1, keepdims=True))[0].astype(np.int64)

    @property
    def n_blocks(self) -> int:
        """Number of blocks with a counted pixel: the resampled units."""
        return self.block_counts.shape[1]

    @cached_property
    def values(self) -> dict[Name, float]:
        """Every value by metric and class; NaN if undefined.

        ``overall_accuracy``, the means ``recall`` and ``precision`` and their ``f1``, ``macro_f1``,
        ``mean_iou`` and ``kappa``, see `assessment`; per class ``recall``, ``precision``, ``f1`` and
        ``iou`` without smoothing.
        """
        return {name: float(value) for name, value in self._measure(self.counts).items()}

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) values on resamples of the blocks; `counts` (U, B) is how often each was drawn."""
        # sums of pixels stay below 2^53, so float64 is exact and fast
        blocks, drawn = self.block_counts.astype(np.float64), counts.astype(np.float64)
        step = max(1, _MOST_BYTES // (8 * len(self.codes) ** 2))
        parts = [
            self._measure(self._scatter(blocks @ drawn[:, start : start + step]))
            for start in range(0, max(drawn.shape[1], 1), step)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    @property
    def means(self) -> dict[Name, list[Name]]:
        """The class values that each overall value averages, exactly or approximately."""
        each = {
            "recall": "recall",
            "precision": "precision",
            "f1": "f1",
            "macro_f1": "f1",
            "mean_iou": "iou",
        }
        return {
            (metric, None): [(of_class, name) for name in self.names]
            for metric, of_class in each.items()
        }

    @property
    def truths(self) -> dict[str, np.ndarray]:
        """(U,) reference pixels of every class, in each block."""
        return {
            name: self.block_counts[self.cells[:, 0] == place].sum(axis=0)
            for place, name in enumerate(self.names)
        }

    @property
    def complete(self) -> bool:
        """Whether every mapped pixel has a reference: a census, which has no sampling error."""
        return int(self.mapped.sum()) == int(self.counts.sum())

    def heading(self) -> str:
        """What was evaluated, in one line."""
        counted = int(self.counts.sum())
        rule = "means as geodl's" if self.like else "means over the classes that occur"
        return (
            f"{counted} of {self.pixels} pixels in {self.n_blocks} blocks, {len(self.codes)} classes;"
            f" {rule}, smoothing {self.smooth:g},"
            f" class weights {', '.join(f'{w:g}' for w in self.class_weights)}"
        )

    def notes(self) -> list[str]:
        """Remarks on pixels and classes that were handled separately."""
        said = []
        if self.ignored:
            said.append(f"{self.ignored} pixels have no reference class and are not counted.")
        if self.unpredicted:
            said.append(f"{self.unpredicted} pixels with a reference were not predicted: left out.")
        _, references, predictions = assessment.margins(self.counts)
        weighted = np.flatnonzero(self.class_weights)
        present = [(self.names[k], references[k] > 0, predictions[k] > 0) for k in weighted]
        absent: list[str]
        lacking: list[str]
        unseen: list[str]
        absent, lacking, unseen = [], [], []
        for name, referenced, predicted in present:
            if not (referenced and predicted):
                where = (
                    absent if not (referenced or predicted) else unseen if referenced else lacking
                )
                where.append(printable_name(name))
        if self.like and self.smooth > 0 and (absent or lacking or unseen):
            said.append(
                f"The classes {_listed([*absent, *lacking, *unseen])} are missing in a raster: smoothing, as"
                " geodl's, gives undefined recall and precision as 1, which raises the means."
            )
        elif not self.like:
            if unseen:
                said.append(
                    f"Never predicted: {_listed(unseen)}. The undefined precision counts 0 in the mean."
                )
            if lacking:
                said.append(
                    f"Not in the reference: {_listed(lacking)}. The undefined recall counts 0 in the mean."
                )
            if absent:
                said.append(
                    f"The classes {_listed(absent)} occur in neither raster, and are left out of all means."
                )
        return said

    def areas(self) -> AreaEstimates:
        """Area-weighted estimates, with the reference pixels as a sample of the map; see `area`."""
        mapped = self.mapped if self.mapped_area is None else self.mapped_area
        return area_estimates(self.counts, mapped, self.area_sums)

    def area_rows(self, confidence: float) -> tuple[list[dict], list[str]]:
        """`areas` as rows like those of other scores, and remarks on them.

        No rows if the reference covers the whole map: then nothing is estimated, and ``recall``,
        ``precision`` and the shares of reference pixels are exact.
        """
        remarks = [said] if (said := self.pixel_areas.sentence()) else []
        if self.pixel_areas.problem:
            return [], remarks
        if self.complete:
            return [], [
                *remarks,
                "The reference covers every mapped pixel: a census, so there are no area-weighted"
                " estimates; they are for reference pixels that are a sample of the map.",
            ]
        try:
            estimates = self.areas()
        except PermafrostError as error:
            return [], [*remarks, f"No area-weighted estimates: {error.problem}."]
        rows = _area_rows(estimates, self.names, confidence)
        if any(row["value"] is not None and row["lower"] is None for row in rows):
            remarks.append(
                "Area-weighted estimates without an interval: where no sampled pixel of a mapped class"
                " disagrees with the map, or there is only one, the sample does not show how wrong they are."
            )
        return rows, [
            *remarks,
            "The area-weighted estimates (weighted_, area_share) take the reference pixels for a"
            " random sample within each mapped class; their intervals are normal (Olofsson et al.,"
            " 2014). A sample drawn in clusters makes them too narrow.",
        ]

    def _measure(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        weights = {"class_weights": self.class_weights}
        options = {"smooth": self.smooth, "like": self.like, **weights}
        found: dict[Name, np.ndarray] = {
            ("overall_accuracy", None): assessment.overall_accuracy(counts),
            ("recall", None): assessment.recall(counts, **options),
            ("precision", None): assessment.precision(counts, **options),
            ("f1", None): assessment.f1(counts, **options),
            ("macro_f1", None): assessment.macro_f1(counts, **weights),
            ("mean_iou", None): assessment.mean_iou(counts),
            ("kappa", None): assessment.kappa(counts),
        }
        each = assessment.per_class(counts)
        for place, name in enumerate(self.names):
            found.update({(metric, name): ratio[..., place] for metric, ratio in each.items()})
        return found

    def _scatter(self, totals: np.ndarray) -> np.ndarray:
        """(C, B) totals to (B, K, K) counts."""
        size = len(self.codes)
        counts = np.zeros((totals.shape[1], size, size))
        counts[:, self.cells[:, 0], self.cells[:, 1]] = totals.T
        return counts


def _listed(names: list[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" * (len(names) > most))


# bytes of the matrices of resamples that are evaluated at once
_MOST_BYTES = 1 << 28
_REPORTED = {
    "weighted_overall_accuracy": "overall_accuracy",
    "weighted_precision": "users_accuracy",
    "weighted_recall": "producers_accuracy",
    "area_share": "area",
}


def _area_rows(estimates: AreaEstimates, names: tuple[str, ...], confidence: float) -> list[dict]:
    rows = []
    for metric, name in _REPORTED.items():
        columns = [np.atleast_1d(getattr(estimates, name))]
        columns += map(np.atleast_1d, estimates.interval(name, confidence))
        labels = (None,) if name == "overall_accuracy" else names
        for label, *cells in zip(labels, *columns, strict=True):
            defined = [None if np.isnan(cell) else float(cell) for cell in cells]
            if (
                defined[1] == defined[2]
            ):  # no error was observed, which does not prove that there is none
                defined[1:] = None, None
            values = dict(zip(("value", "lower", "upper"), defined, strict=True))
            rows.append({"metric": metric, "class": label, **values, "n_undefined": 0})
    return rows


def confusion_table(evaluation: RasterEvaluation):
    """One row per pair of classes, including pairs without pixels.

    Columns: ``reference``, ``prediction`` (class names); ``reference_code``, ``prediction_code``;
    ``pixels``; ``reference_share`` and ``prediction_share``, the share of the pixels of that
    reference class and of that predicted class (null for a class without pixels), on the diagonal
    recall and precision; if pixels differ in area, ``area_m2``, the sum of their areas.
    """
    counts, size = evaluation.counts, len(evaluation.codes)
    first, second = (places.ravel() for places in np.indices((size, size)))
    shares = {
        "reference_share": divide(counts, counts.sum(axis=1, keepdims=True)).ravel(),
        "prediction_share": divide(counts, counts.sum(axis=0, keepdims=True)).ravel(),
    }
    names, codes = np.array(evaluation.names, object), np.array(evaluation.codes, np.int64)
    columns = {
        "reference": pa.array(names[first], pa.string()),
        "prediction": pa.array(names[second], pa.string()),
        "reference_code": codes[first],
        "prediction_code": codes[second],
        "pixels": counts.ravel(),
        **{
            name: pa.array(values, pa.float64(), mask=np.isnan(values))
            for name, values in shares.items()
        },
    }
    if evaluation.area_sums is not None:
        columns["area_m2"] = evaluation.area_sums[0].ravel()
    return pa.table(columns)
