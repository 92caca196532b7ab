"""Average precision by the rules of Open Images' challenges.

Of one class and image, each detection looks at the single object with the largest overlap (of equals, the first in the
file), as by VOC's rules, but an overlap equal to the threshold is enough. Those that are then false alarms look at the
*groups*, boxes around several objects: of the detections of which at least the threshold's share of the area lies in
a group (of several groups, the one with the largest share), the highest-scored is right, with the weight of groups, and
the others are neither right nor wrong. A group counts with its weight among what is to be found. With a weight of 0
groups only excuse false alarms.

Detections of a class that people neither saw nor excluded on an image are left out; those without area, too.

Source: Open Images Challenge 2018 and 2019, Object Detection Track; ``per_image_evaluation`` and
``OpenImagesChallengeEvaluator`` of TensorFlow's models. With weight 0 and without labels: Open Images V2's metric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.axes import make_axes
from permafrost.metrics.detection.cells import Cells, make_cells
from permafrost.metrics.detection.evaluate import check_settings, make_request
from permafrost.metrics.detection.inputs.open_images import is_open_images, read_open_images
from permafrost.metrics.detection.inputs.parsing import load, pause_collector
from permafrost.metrics.detection.inputs.tables import Detections, Truths, rows_of
from permafrost.metrics.detection.kernels.bbox import BoxOverlap
from permafrost.metrics.detection.problem import read_problem
from permafrost.metrics.detection.ragged import by_descending
from permafrost.metrics.detection.voc import THRESHOLD, VocEvaluation, best_truths, outcomes

_GROUP = "is_group_of"


@dataclass(frozen=True)
class OpenImagesEvaluation(VocEvaluation):
    """As `VocEvaluation`; `right` is 1, 0, or at a group its weight.

    Attributes
    ----------
    group_weight : weight of a group, ≥ 0.
    unverified : number of detections left out as nobody verified their class on their image.
    """

    group_weight: float = 1.0
    unverified: int = 0

    @property
    def points(self) -> None:
        """The area under the curve."""
        return None

    @cached_property
    def difficult(self) -> np.ndarray:
        """(G,) bool: single objects that are not to be found."""
        return self.truths.ignored & ~self.truths.crowd

    @cached_property
    def positives(self) -> np.ndarray:
        """(K, I) weight of what is to be found, by class and image."""
        single = self._counted(~self.difficult & ~self.truths.crowd)
        return single + self.group_weight * self._counted(self.truths.crowd)

    @property
    def reached(self) -> str:
        """What an overlap must be to find a truth, before the threshold."""
        return "of at least"

    @property
    def marked(self) -> dict[str, int]:
        """Kind of truth that has rules of its own, as a word, to its number."""
        return {**super().marked, "groups": int(self.truths.crowd.sum())}

    def remarks(self) -> list[str]:
        """What the reader of the figures should know of the detections."""
        if not self.unverified:
            return super().remarks()
        return [
            f"{self.unverified} detections were left out, as nobody verified their class on their image",
            *super().remarks(),
        ]


def evaluate_open_images(
    truth,
    predictions,
    *,
    image_labels=None,
    hierarchy=None,
    class_names=None,
    group_weight: float = 1.0,
    expand_detections: bool = False,
    iou_thresholds=(THRESHOLD,),
    mode: str = "corrected",
    invalid: str = "error",
    images=None,
    categories=None,
) -> OpenImagesEvaluation:
    """Evaluate boxes by the rules of Open Images' challenges.

    Parameters
    ----------
    truth, predictions : paths of Open Images' CSV files, see `inputs.open_images`; or both as in `evaluate`, where
        `iscrowd` or ``is_group_of`` marks groups, `ignore` difficult objects, and all classes are
        verified on all images.
    image_labels : path of the CSV of labels verified by people; without, every detection counts that is on an image
        with boxes, or on one of `images`.
    hierarchy : path of the JSON of classes; boxes of the truth count for the classes above theirs, too.
    class_names : path of the CSV of names.
    expand_detections : detections, too, count for the classes above theirs. Else the file must hold them.
    group_weight : weight of a group, 1 in the challenges.
    mode : ``strict`` keeps ties in the order of the file, and a group met only by scores of 0 or less is missed, as in
        TensorFlow's models; ``corrected`` orders ties by box, and scores only by their order.

    Raises
    ------
    PermafrostError : an invalid entry, which the message names, or an invalid option.
    """
    if not (math.isfinite(group_weight) and group_weight >= 0):
        raise PermafrostError(
            f"must be a number of at least 0, not {group_weight}", where="group_weight"
        )
    request = make_request(
        iou_type="bbox", iou_thresholds=iou_thresholds, invalid=invalid, categories=categories
    )
    verified, dropped, source = None, {}, None
    with pause_collector():
        if is_open_images(truth):
            read = read_open_images(
                truth,
                predictions,
                image_labels=image_labels,
                hierarchy=hierarchy,
                class_names=class_names,
                both=expand_detections,
                drop=request.drop,
                images=images,
            )
            truth, predictions, source = read.truth, read.predictions, str(truth)
            verified, dropped = read.verified, read.dropped
        else:
            _refuse_csv_options(image_labels, hierarchy, class_names, expand_detections)
            truth = _groups_marked(truth)
        problem = read_problem(truth, predictions, request, images=images)
    settings = check_settings(replace(request.settings, mode=mode))
    truths = problem.truths if source is None else replace(problem.truths, source=source)
    _note(truths, dropped)
    detections, unverified = _evaluatable(truths, problem.detections, verified)
    thresholds = make_axes("bbox", iou_thresholds=iou_thresholds).thresholds
    cells, right, wrong = _outcomes(truths, detections, thresholds, group_weight, settings.strict)
    order = by_descending(cells.detection_bucket, detections.scores[cells.detections])
    return OpenImagesEvaluation(
        "open_images",
        settings,
        False,
        thresholds,
        truths,
        detections,
        cells.detections[order],
        cells.detection_bucket[order],
        right[order],
        wrong[order],
        group_weight,
        unverified,
    )


def _refuse_csv_options(*values) -> None:
    names = ("image_labels", "hierarchy", "class_names", "expand_detections")
    for name, value in zip(names, values, strict=True):
        if value:
            raise PermafrostError(
                "is used with Open Images' CSV files only",
                where=name,
                remedy="leave it out, or give truth and predictions as CSV",
            )


def _groups_marked(truth):
    """The truth with ``is_group_of`` of its annotations as `iscrowd`."""
    truth, _ = load(truth, "truth")
    entries = truth.get("annotations") if isinstance(truth, dict) else None
    if not isinstance(entries, list):
        return truth
    marked = [{**e, "iscrowd": 1} if isinstance(e, dict) and e.get(_GROUP) else e for e in entries]
    return {**truth, "annotations": marked}


def _note(table: Truths | Detections, dropped: dict[str, int]) -> None:
    table.notes.dropped.update(dropped)
    table.notes.warnings.extend(f"left out {n}: {what}" for what, n in dropped.items())


def _evaluatable(
    truths: Truths, detections: Detections, verified: set[tuple[str, str]] | None
) -> tuple[Detections, int]:
    """The detections with area and of classes that are verified on their image; the number of the unverified."""
    area = (detections.boxes[:, 2:] > 0).all(axis=1)
    if not area.all():
        _note(detections, {"detections without area": int((~area).sum())})
        detections = rows_of(detections, area)
    if verified is None:
        return detections, 0
    images, classes = truths.images.ids.tolist(), truths.categories.ids.tolist()
    pairs = zip(detections.image.tolist(), detections.category.tolist(), strict=True)
    known = np.array([(images[i], classes[k]) in verified for i, k in pairs], bool)
    return rows_of(detections, known), int((~known).sum())


def _outcomes(
    truths: Truths, detections: Detections, thresholds: np.ndarray, weight: float, strict: bool
) -> tuple[Cells, np.ndarray, np.ndarray]:
    """Cells of single objects, and (D, T) what is right (float) and wrong (bool), in row order."""
    single, groups = rows_of(truths, ~truths.crowd), rows_of(truths, truths.crowd)
    # rows do not depend on the truths, so they are the same in both
    cells, crowded = (
        make_cells(some, detections, use_categories=True, cap=None, by_box=not strict)
        for some in (single, groups)
    )
    overlap = BoxOverlap(detections.boxes, single.boxes, single.crowd)
    hit, wrong = outcomes(cells, overlap, thresholds, single.ignored[cells.truths], at=True)
    right = hit.astype(np.float64)
    inside = BoxOverlap(detections.boxes, groups.boxes, groups.crowd)
    rows, column, largest = best_truths(crowded, inside, float(thresholds.min()))
    positive = detections.scores[cells.detections] > 0
    for t, threshold in enumerate(thresholds):
        met = np.flatnonzero((largest >= threshold) & wrong[rows, t])
        wrong[rows[met], t] = False
        # rows ascend by descending score in a cell: the first finds the group
        finder = rows[met[np.unique(column[met], return_index=True)[1]]]
        right[finder if not strict else finder[positive[finder]], t] = weight
    return cells, right, wrong
