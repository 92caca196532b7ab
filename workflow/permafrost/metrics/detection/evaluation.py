"""The result of an evaluation: scores, and the matching from which analyses start."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.core.text import printable_name
from permafrost.metrics.detection.accumulate import Curves
from permafrost.metrics.detection.axes import Axes
from permafrost.metrics.detection.cells import Cells
from permafrost.metrics.detection.cut import Cut
from permafrost.metrics.detection.inputs.tables import Detections, Truths
from permafrost.metrics.detection.kernels import Problem
from permafrost.metrics.detection.matching import Matching
from permafrost.metrics.detection.pairs import Pairs
from permafrost.metrics.detection.summarise import Statistic, line, summarise

# largest number of categories that a warning names
_NAMED = 3


@dataclass(frozen=True)
class Settings:
    """The options of an evaluation, as reports show them."""

    iou_type: str
    mode: str = "corrected"
    lvis: bool = False
    use_categories: bool = True
    boundary_ratio: float = 0.02
    detection_area: str = "auto"
    box_convention: str | None = None

    @property
    def strict(self) -> bool:
        """Whether to reproduce the quirks of pycocotools, lvis and boundary-iou-api."""
        return self.mode == "strict"


@dataclass(frozen=True)
class Evaluation:
    """Scores, and the matching, so that tables, intervals and error analyses need not match again.

    Attributes
    ----------
    settings, axes : the options and axes.
    curves : precision, recall and scores, see `Curves`.
    statistics : definitions of `stats`.
    truths, detections : the evaluated objects.
    cells, pairs, matching : see `Cells`, `Pairs`, `Matching`; all use the rows and columns of `cells`.
    problem : data that a kernel needs to compare further pairs.
    """

    settings: Settings
    axes: Axes
    curves: Curves
    statistics: tuple[Statistic, ...]
    truths: Truths
    detections: Detections
    cells: Cells
    pairs: Pairs
    matching: Matching
    problem: Problem

    @property
    def precision(self) -> np.ndarray:
        """(T, R, K, A, M), -1 for categories without truths; LVIS: (T, R, K, A)."""
        return self._without_caps(self.curves.precision)

    @property
    def recall(self) -> np.ndarray:
        """(T, K, A, M), -1 for categories without truths; LVIS: (T, K, A)."""
        return self._without_caps(self.curves.recall)

    @property
    def scores(self) -> np.ndarray:
        """(T, R, K, A, M) scores at which the recalls are reached; LVIS: (T, R, K, A)."""
        return self._without_caps(self.curves.scores)

    def _without_caps(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self.settings.lvis else values

    @property
    def stats(self) -> np.ndarray:
        """float64 in pycocotools' (or LVIS's) order; -1 without truths, and NaN if
        a threshold, area range or cap was not evaluated (strict: -1)."""
        values = np.array([self.value(statistic) for statistic in self.statistics])
        return np.where(np.isnan(values), -1.0, values) if self.settings.strict else values

    @property
    def names(self) -> tuple[str, ...]:
        """Names of `stats`."""
        return tuple(statistic.name for statistic in self.statistics)

    @property
    def dropped(self) -> dict[str, int]:
        """Reason to the number of entries omitted for it."""
        return {**self.truths.notes.dropped, **self.detections.notes.dropped}

    @property
    def warnings(self) -> list[str]:
        """Warnings for readers of the scores."""
        said = self.truths.notes.warnings + self.detections.notes.warnings
        said = [*said, *self.uncounted()]
        whole, images = self.problem.whole, len(self.truths.images)
        if whole is not None and images < whole.images:
            others = f"; {whole.elsewhere} detections are on others" if whole.elsewhere else ""
            said = [*said, f"only {images} of {whole.images} images are evaluated{others}"]
        return said

    @cached_property
    def cut(self) -> Cut:
        """Detections and objects beyond the largest cap; for LVIS, whose cap is per image, see `warnings`."""
        pooled, images = not self.settings.use_categories, len(self.truths.images)
        cap = -1 if self.settings.lvis else self.axes.max_dets[-1]
        cells = [
            table.image if pooled else table.category * images + table.image
            for table in (self.detections, self.truths)
        ]
        counted = ~(self.truths.ignored | self.truths.crowd)
        return Cut.of_cells(cells[0], cells[1][counted], images, cap)

    @cached_property
    def without_truth(self) -> dict[str, int]:
        """Name of every category with detections, but without truths that count, to the number of detections."""
        if not self.settings.use_categories:
            return {}
        names = self.truths.categories.names
        found = np.bincount(self.detections.category, minlength=len(names))
        there = np.bincount(self.truths.category[~self.truths.ignored], minlength=len(names))
        places = np.flatnonzero((found > 0) & (there == 0)).tolist()
        return {names[place]: int(found[place]) for place in places}

    def uncounted(self) -> list[str]:
        """Warnings about detections and objects that are in no score."""
        said, cut, bare, source = [], self.cut, self.without_truth, self.detections.source
        if cut:
            unfound = ", so these objects cannot be found" if cut.objects else ""
            each = "image and category" if self.settings.use_categories else "image"
            caps = ",".join(map(str, (*self.axes.max_dets[:-1], cut.most)))
            said.append(
                f"{source}: {cut.words()} on {cut.images} of {len(self.truths.images)} images are beyond the"
                f" cap of {cut.cap} detections of an {each}{unfound}; raise max_dets, for example --max-dets"
                f" {caps}"
            )
        if bare:
            few = [printable_name(name) for name in list(bare)[:_NAMED]]
            more = f" and {len(bare) - _NAMED} more" if len(bare) > _NAMED else ""
            said.append(
                f"{source}: {sum(bare.values())} of {len(self.detections)} detections count in no figure, as"
                f" their categories have no truth: {', '.join(few)}{more}"
            )
        return said

    def value(self, statistic: Statistic) -> float:
        """The value of any mean over the curves."""
        categories = self.truths.categories if self.settings.use_categories else None
        return summarise(statistic, self.curves, self.axes, categories)

    def average_precision(
        self, *, threshold: float | None = None, area: str = "all", cap: int | None = None
    ) -> np.ndarray:
        """(K,) average precision of every category; -1 without truths.

        Raises
        ------
        PermafrostError : a threshold, range or cap that was not evaluated.
        """
        axes = self.axes
        cap = axes.max_dets[-1] if cap is None else cap
        values = self.curves.precision[..., axes.area_index(area), axes.cap_index(cap)]
        if threshold is not None:
            at = axes.threshold_index(threshold)
            values = values[at : at + 1]
        out = np.full(values.shape[2], -1.0)
        found = (values > -1).all(axis=(0, 1))
        for k in np.flatnonzero(found):
            out[k] = np.mean(values[:, :, k])
        return out

    def lines(self) -> list[str]:
        """The summary in the format of pycocotools (or lvis)."""
        pairs = zip(self.statistics, self.stats, strict=True)
        return [line(statistic, value, self.axes) for statistic, value in pairs]
