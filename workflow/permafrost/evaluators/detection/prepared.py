"""A ground truth that is read once and evaluated many times, such as after each training epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection import federated
from permafrost.metrics.detection.axes import Axes
from permafrost.metrics.detection.categories import (
    detections_of,
    find_categories,
    restrict_categories,
)
from permafrost.metrics.detection.evaluate import make_request, solve
from permafrost.metrics.detection.evaluation import Evaluation, Settings
from permafrost.metrics.detection.inputs.crown_tables import is_crown_table
from permafrost.metrics.detection.inputs.dota import is_dota
from permafrost.metrics.detection.inputs.parsing import pause_collector
from permafrost.metrics.detection.inputs.plausibility import detection_warnings
from permafrost.metrics.detection.inputs.predictions import (
    branch_of,
    detection_columns,
    read_predictions,
)
from permafrost.metrics.detection.inputs.tables import (
    Categories,
    Detections,
    Notes,
    Reading,
    Truths,
    Whole,
    digest,
    restrict,
)
from permafrost.metrics.detection.inputs.truth import read_truth
from permafrost.metrics.detection.kernels import MASK_KERNELS, Problem
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.detection.problem import (
    checked_detections,
    checked_truth,
    falloffs,
    reading,
    warn,
)
from permafrost.metrics.detection.summarise import Statistic


@dataclass(frozen=True)
class PreparedTruth:
    """All that predictions are compared with; `prepare` makes it.

    Attributes
    ----------
    truths, masks : the annotations, and their masks for kernels that compare masks.
    settings, axes, statistics : the requested evaluation.
    sigmas : (K, J) falloff of the keypoints, for that kernel.
    reading : how the predictions are read.
    whole : digest and number of images.
    every, chosen : if only some categories are evaluated: the whole truth, and the positions of the
        evaluated categories.
    """

    truths: Truths
    masks: Masks | None
    settings: Settings
    axes: Axes
    statistics: tuple[Statistic, ...]
    sigmas: np.ndarray | None
    reading: Reading
    whole: Whole
    every: Categories | None = None
    chosen: np.ndarray | None = None

    def evaluate(self, predictions) -> Evaluation:
        """The result of `evaluate` for this truth; predictions as in `evaluate`."""
        with pause_collector():
            everywhere = np.ones(len(self.truths.images), bool)
            return self.finished(self.matched(predictions, everywhere, counted=True))

    def matched(
        self, predictions, chosen: np.ndarray, *, before: int = 0, counted: bool = False
    ) -> Evaluation:
        """Evaluate some of the images.

        Parameters
        ----------
        predictions : as in `evaluate`, on the chosen images only.
        chosen : (I,) bool.
        before : number of detections in earlier parts, for a common numbering.
        counted : if False, `joining.join` computes the curves.

        Raises
        ------
        PermafrostError : an invalid entry, named; a detection on an image that is not chosen.
        """
        known = self.truths if self.every is None else replace(self.truths, categories=self.every)
        detections = read_predictions(predictions, known, self.reading, judged=False)
        if self.every is not None:
            if self.settings.lvis:
                # the cap applies to the detections of an image over all categories
                detections = federated.trim(detections, self.axes.max_dets[-1])
            detections = detections_of(detections, self.chosen, len(self.every))
        foreign = np.flatnonzero(~chosen[detections.image])
        if len(foreign):
            image = self.truths.images.ids[detections.image[foreign[0]]]
            raise PermafrostError(
                f"the detection is on the image {image}, which is not in the given images",
                where=detections.where(foreign[0]),
                remedy="name every image with detections",
            )
        truths, detections = restrict(self.truths, detections, chosen)
        detections, masks = checked_detections(truths, detections, self.settings, self.reading.drop)
        if self.settings.iou_type not in MASK_KERNELS:
            # only their areas are still needed; parts must have the same columns
            detections = replace(detections, segmentations=None)
        rows = np.flatnonzero(chosen[self.truths.image])
        problem = Problem(
            truths=truths,
            detections=_numbered(detections, before),
            truth_masks=None if self.masks is None else self.masks.take(rows),
            detection_masks=masks,
            boundary_ratio=self.settings.boundary_ratio,
            sigmas=self.sigmas,
            whole=self.whole,
        )
        return solve(problem, self.settings, self.axes, self.statistics, counted=counted)

    def finished(self, joined: Evaluation) -> Evaluation:
        """An evaluation of `matched`, or several joined, with the warnings about its inputs."""
        notes = self.truths.notes
        truths = replace(joined.truths, notes=Notes([*notes.warnings], {**notes.dropped}))
        found = joined.detections
        warnings = found.notes.warnings + detection_warnings(found, truths.images)
        detections = replace(found, notes=Notes(warnings, {**found.notes.dropped}))
        warn(truths, detections, self.settings, self.axes)
        problem = replace(joined.problem, truths=truths, detections=detections)
        return replace(joined, truths=truths, detections=detections, problem=problem)

    def branch(self, predictions) -> str | None:
        """Strict mode: the data kind of the first detection, which decides for its file."""
        if is_crown_table(predictions) or is_dota(predictions):
            return "bbox"
        if not self.settings.strict or self.reading.oriented:
            return None
        columns = detection_columns(predictions, self.reading.drop)
        return branch_of(columns) if len(columns) else None


def prepare(truth, **options) -> PreparedTruth:
    """Read a ground truth, with masks; options (except ``images``) and errors as in `evaluate`."""
    request = make_request(**options)
    settings, wanted = request.settings, request.categories
    how = reading(settings, request.sigmas, request.drop)
    with pause_collector():
        truths = read_truth(truth, how)
        every = chosen = None
        if wanted is not None:
            every, chosen = truths.categories, find_categories(truths.categories, wanted)
            truths, _ = restrict_categories(truths, None, chosen)
        whole = Whole(digest(truths), len(truths.images))
        truths, masks = checked_truth(truths, settings, how.drop)
    return PreparedTruth(
        truths,
        masks,
        settings,
        request.axes,
        request.statistics,
        falloffs(truths, settings, request.sigmas),
        how,
        whole,
        every=every,
        chosen=chosen,
    )


def _numbered(detections: Detections, before: int) -> Detections:
    """Number the detections across all parts; ids from the input stay."""
    ids = detections.ids
    if ids.dtype.kind != "U" and np.array_equal(ids, detections.entries + 1):
        ids = ids + before
    return replace(detections, entries=detections.entries + before, ids=ids)
