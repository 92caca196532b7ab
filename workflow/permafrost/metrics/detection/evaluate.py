"""Evaluate detections: truth and predictions in, an `Evaluation` out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.oriented import convention_named
from permafrost.metrics.detection import federated
from permafrost.metrics.detection.accumulate import NO_CURVES, accumulate
from permafrost.metrics.detection.axes import Axes, make_axes
from permafrost.metrics.detection.cells import make_cells
from permafrost.metrics.detection.evaluation import Evaluation, Settings
from permafrost.metrics.detection.inputs.parsing import pause_collector
from permafrost.metrics.detection.inputs.tables import check_choice, rows_of
from permafrost.metrics.detection.kernels import KERNELS, Problem, make_kernel
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.detection.matching import match
from permafrost.metrics.detection.pairs import find_pairs
from permafrost.metrics.detection.problem import Request, read_problem
from permafrost.metrics.detection.summarise import statistics

MODES = ("strict", "corrected")
DETECTION_AREAS = ("auto", "bbox", "mask")


def evaluate(
    truth,
    predictions,
    *,
    iou_type: str,
    mode: str = "corrected",
    lvis: bool = False,
    use_categories: bool = True,
    max_dets=None,
    iou_thresholds=None,
    area_ranges=None,
    recall_grid=None,
    boundary_ratio: float = 0.02,
    detection_area: str = "auto",
    box_convention: str | None = None,
    sigmas=None,
    invalid: str = "error",
    images=None,
    categories=None,
) -> Evaluation:
    """Evaluate detections against ground truth by COCO's or LVIS's rules.

    Parameters
    ----------
    truth : path of COCO JSON; its parsed content; or the same as arrays: a mapping with ``annotations``,
        and optionally ``images`` and ``categories``, each a data frame or a mapping of columns.
        Annotations have ``image_id`` (N,), ``category_id`` (N,), ``bbox`` (N, 4) x, y, width, height in
        pixels, and optionally ``area`` (N,) in square pixels, ``iscrowd`` (N,) 0 or 1, ``ignore`` (N,),
        ``id`` (N,), ``segmentation`` (a list of N), ``keypoints`` (N, 3 J) or (N, J, 3) with
        ``num_keypoints`` (N,). Images have ``id`` (I,), ``width`` and ``height`` (I,) in pixels, categories
        ``id`` (K,) and ``name``; by default they are those that occur in the annotations.
        The columns of the annotations alone are enough.
    predictions : path of COCO's results, a list of objects; its parsed content; or a data frame or mapping of
        columns ``image_id``, ``category_id``, ``score`` (N,), and ``bbox``, ``segmentation`` or ``keypoints``
        as above; or an array (N, 7) of image_id, x, y, width, height, score, category_id, as in
        pycocotools' ``loadRes``. Arrays may be tensors; in optional columns NaN means missing.
        Lists with arrays per image: see `from_torchmetrics`. For boxes, truth and predictions may
        also be CSV files or data frames in DeepForest's columns, see `inputs.crown_tables`.
    iou_type : ``bbox``, ``segm``, ``boundary``, ``keypoints`` or ``oriented``: oriented boxes, in the keys of
        `inputs.oriented_boxes`.
    mode : ``strict`` reproduces pycocotools 2.0.11, lvis 0.5.3 and boundary-iou-api bit for bit;
        ``corrected`` differs as described in QUIRKS.md.
    lvis : use LVIS's federated rules.
    use_categories : False pools all categories.
    max_dets, iou_thresholds, area_ranges, recall_grid : axes that replace COCO's, see `make_axes`.
    boundary_ratio : width of the band, as a share of the image's diagonal (LVIS uses 0.008).
    detection_area : ``auto``, ``bbox`` or ``mask``: the geometry that decides the area range of a detection.
    box_convention : oriented boxes of five numbers only: their convention, a name of `data.labels.oriented`.
    sigmas : keypoints only: one list of sigmas, or a mapping from category id to one; COCO's 17 if None.
    invalid : ``error`` refuses the first invalid entry, ``drop`` omits and counts invalid ones.
    images : ids of the images to evaluate, all of the truth if None; see `partial`.
    categories : names or ids of the categories to evaluate, all of the truth if None. Truths and
        detections of others are omitted.

    Raises
    ------
    PermafrostError : an invalid entry, which the message names, or an invalid option.
    """
    request = make_request(
        iou_type=iou_type,
        mode=mode,
        lvis=lvis,
        use_categories=use_categories,
        max_dets=max_dets,
        iou_thresholds=iou_thresholds,
        area_ranges=area_ranges,
        recall_grid=recall_grid,
        boundary_ratio=boundary_ratio,
        detection_area=detection_area,
        box_convention=box_convention,
        sigmas=sigmas,
        invalid=invalid,
        categories=categories,
    )
    # the garbage collector would repeatedly scan millions of small objects of parsed JSON
    with pause_collector():
        problem = read_problem(truth, predictions, request, images=images)
        return solve(problem, request.settings, request.axes, request.statistics)


def make_request(
    *,
    max_dets=None,
    iou_thresholds=None,
    area_ranges=None,
    recall_grid=None,
    sigmas=None,
    invalid: str = "error",
    categories=None,
    **settings,
) -> Request:
    """Check the options of `evaluate`; `settings` are the fields of `Settings`."""
    asked = check_settings(Settings(**settings))
    check_choice(invalid, ("error", "drop"), "invalid")
    axes = make_axes(
        asked.iou_type,
        lvis=asked.lvis,
        iou_thresholds=iou_thresholds,
        area_ranges=area_ranges,
        max_dets=max_dets,
        recall_grid=recall_grid,
    )
    summary = statistics(asked.iou_type, axes, strict=asked.strict, lvis=asked.lvis)
    return Request(asked, axes, tuple(summary), sigmas, invalid == "drop", categories)


def check_settings(settings: Settings) -> Settings:
    """Return the settings; refuse an invalid one by name."""
    check_choice(settings.iou_type, KERNELS, "iou_type")
    check_choice(settings.mode, MODES, "mode")
    check_choice(settings.detection_area, DETECTION_AREAS, "detection_area")
    if not 0 < settings.boundary_ratio < 1:
        raise PermafrostError(
            f"the boundary ratio must lie between 0 and 1, not {settings.boundary_ratio}",
            where="boundary_ratio",
            remedy="COCO uses 0.02, LVIS 0.008",
        )
    if settings.lvis and settings.iou_type in ("keypoints", "oriented"):
        raise PermafrostError(f"LVIS has no {settings.iou_type}", where="iou_type")
    if settings.iou_type == "oriented":
        _check_oriented(settings)
    elif settings.box_convention is not None:
        raise PermafrostError(
            f"a convention of oriented boxes changes nothing of {settings.iou_type}",
            where="box_convention",
            remedy="leave it out, or evaluate oriented boxes (iou_type oriented)",
        )
    return settings


def _check_oriented(settings: Settings) -> None:
    if settings.box_convention is not None:
        convention_named(settings.box_convention)
    if settings.detection_area == "mask":
        raise PermafrostError(
            "oriented boxes have no masks to take areas from",
            where="detection_area",
            remedy="leave it out: the area is that of the oriented box",
        )


def solve(
    problem: Problem, settings: Settings, axes: Axes, wanted, *, counted: bool = True, kernel=None
) -> Evaluation:
    """Match and count; `wanted` are the statistics of the summary.

    `kernel` compares detections with truths, see `pairs.Similarity`; None: the one of the settings.

    Without `counted` the curves stay empty: `joining.join` joins such parts and counts them.
    """
    problem, partial = _federated(problem, settings, axes)
    truths, detections = problem.truths, problem.detections
    cells = make_cells(
        truths,
        detections,
        use_categories=settings.use_categories,
        cap=None if settings.lvis else axes.max_dets[-1],
        by_box=not settings.strict,
    )
    lowest = min(float(axes.thresholds.min()), 1 - 1e-10)
    if _blind(settings):
        cells = replace(cells, count=np.zeros_like(cells.count))
    pairs = find_pairs(cells, kernel or make_kernel(settings.iou_type, problem), lowest)
    low, high = axes.areas.T
    areas = truths.areas[cells.truths][:, None]
    ignored = truths.ignored[cells.truths][:, None] | (areas < low) | (areas > high)
    areas = detections.areas[cells.detections][:, None]
    outside = (areas < low) | (areas > high) | partial[cells.detections][:, None]
    unseen = None
    if settings.strict and truths.ids.dtype.kind != "U":
        unseen = truths.ids[cells.truths] == 0
    matching = match(
        cells,
        pairs,
        axes.thresholds,
        truth_ignored=ignored,
        crowd=truths.crowd[cells.truths],
        outside=outside,
        unseen=unseen,
    )
    curves = NO_CURVES
    if counted:
        curves = accumulate(cells, matching, detections.scores[cells.detections], axes)
    return Evaluation(
        settings, axes, curves, wanted, truths, detections, cells, pairs, matching, problem
    )


def _blind(settings: Settings) -> bool:
    """Whether pycocotools finds nothing: with pooled categories, its keypoints search for category -1."""
    return settings.strict and settings.iou_type == "keypoints" and not settings.use_categories


def _federated(problem: Problem, settings: Settings, axes: Axes) -> tuple[Problem, np.ndarray]:
    """The problem by LVIS's rules, and (D,) bool: detections of categories not fully annotated."""
    if not settings.lvis:
        return problem, np.zeros(len(problem.detections), bool)
    strict = settings.strict
    numbered = replace(problem.detections, entries=np.arange(len(problem.detections)))
    kept = federated.without_area(federated.trim(numbered, axes.max_dets[-1]), strict)
    truth_rows = replace(problem.truths, entries=np.arange(len(problem.truths)))
    truths = federated.without_area(truth_rows, strict)
    kept = federated.in_annotated_cells(truths, kept)
    if strict and not settings.use_categories:
        # as in lvis, which does not pool but searches for category -1
        kept, truths = rows_of(kept, np.zeros(0, np.int64)), rows_of(truths, np.zeros(0, np.int64))
    partial = federated.not_exhaustive(truths, kept)
    return rows_of_problem(problem, truths.entries, kept.entries), partial


def rows_of_problem(problem: Problem, truths: np.ndarray, detections: np.ndarray) -> Problem:
    """The problem with some rows of its tables and their masks."""

    def taken(masks: Masks | None, rows):
        return None if masks is None else masks.take(rows)

    return replace(
        problem,
        truths=rows_of(problem.truths, truths),
        detections=rows_of(problem.detections, detections),
        truth_masks=taken(problem.truth_masks, truths),
        detection_masks=taken(problem.detection_masks, detections),
    )
