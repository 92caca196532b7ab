"""Read and check truth and predictions as one problem for a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection import federated
from permafrost.metrics.detection.axes import Axes
from permafrost.metrics.detection.categories import find_categories, restrict_categories
from permafrost.metrics.detection.cut import Cut
from permafrost.metrics.detection.evaluation import Settings
from permafrost.metrics.detection.inputs.forms import taken
from permafrost.metrics.detection.inputs.predictions import read_predictions
from permafrost.metrics.detection.inputs.segmentations import ReadMasks, read_masks
from permafrost.metrics.detection.inputs.tables import (
    Detections,
    Notes,
    Reading,
    Truths,
    Whole,
    digest,
    restrict,
    rows_of,
)
from permafrost.metrics.detection.inputs.truth import read_truth
from permafrost.metrics.detection.kernels import MASK_KERNELS, Problem
from permafrost.metrics.detection.kernels.keypoints import sigmas_per_category
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.detection.summarise import Statistic


@dataclass(frozen=True)
class Request:
    """The options of an evaluation.

    Attributes
    ----------
    settings, axes : checked settings and axes.
    statistics : statistics of the summary.
    sigmas : keypoints only, as in `evaluate`.
    drop : omit and count invalid entries.
    categories : names or ids of the categories to evaluate, None for all.
    """

    settings: Settings
    axes: Axes
    statistics: tuple[Statistic, ...] = ()
    sigmas: object = None
    drop: bool = False
    categories: object = None


def read_problem(truth, predictions, request: Request, *, images=None) -> Problem:
    """Read and check truth and predictions, including masks, for the `images` with these ids (None: all)."""
    settings, drop, sigmas = request.settings, request.drop, request.sigmas
    how = reading(settings, sigmas, drop)
    truths = read_truth(truth, how)
    detections = read_predictions(predictions, truths, how)
    whole = None
    if request.categories is not None:
        chosen = find_categories(truths.categories, request.categories)
        if settings.lvis:
            # LVIS's cap is per image, over all categories
            detections = federated.trim(detections, request.axes.max_dets[-1])
        truths, detections = restrict_categories(truths, detections, chosen)
    if images is not None:
        truths, detections, whole = _only(truths, detections, images)
    truths, truth_masks = checked_truth(truths, settings, drop)
    detections, detection_masks = checked_detections(truths, detections, settings, drop)
    warn(truths, detections, settings, request.axes)
    return Problem(
        truths=truths,
        detections=detections,
        truth_masks=truth_masks,
        detection_masks=detection_masks,
        boundary_ratio=settings.boundary_ratio,
        sigmas=falloffs(truths, settings, sigmas),
        whole=whole,
    )


def reading(settings: Settings, sigmas, drop: bool) -> Reading:
    """The options of reading truth and predictions."""
    if sigmas is not None and settings.iou_type != "keypoints":
        raise PermafrostError(
            f"sigmas change nothing of {settings.iou_type}: they are used with the iou_type keypoints",
            where="sigmas",
            remedy="leave them out",
        )
    return Reading(
        settings.iou_type,
        settings.strict,
        settings.lvis,
        settings.use_categories,
        settings.detection_area,
        _joints(sigmas),
        drop,
        settings.box_convention,
    )


def checked_truth(truths: Truths, settings: Settings, drop: bool) -> tuple[Truths, Masks | None]:
    """Truths checked as a whole, and their masks if the kernel needs them."""
    if settings.lvis and not settings.strict:
        federated.check_lists(truths)
    if settings.iou_type not in MASK_KERNELS:
        return truths, None
    return _truth_masks(truths, settings, drop)


def falloffs(truths: Truths, settings: Settings, sigmas) -> np.ndarray | None:
    """(K, J) sigmas of the keypoints; None for other kernels."""
    if settings.iou_type != "keypoints":
        return None
    return sigmas_per_category(sigmas, truths.categories)


def _only(truths: Truths, detections: Detections, images) -> tuple[Truths, Detections, Whole]:
    """The truths and detections of the images with these ids; those of other images are counted."""
    known = {str(identity): place for place, identity in enumerate(truths.images.ids.tolist())}
    chosen = np.zeros(len(known), bool)
    for identity in images:
        place = known.get(str(identity))
        if place is None:
            raise PermafrostError(
                f"the image {identity} is not in the truth",
                where="images",
                remedy="name only images of the truth",
            )
        chosen[place] = True
    elsewhere = int(np.count_nonzero(~chosen[detections.image]))
    whole = Whole(digest(truths), len(truths.images), elsewhere)
    return *restrict(truths, detections, chosen), whole


def _joints(sigmas) -> int:
    if sigmas is None:
        return 17
    first = next(iter(sigmas.values()), []) if isinstance(sigmas, dict) else sigmas
    return len(first)


def _truth_masks(truths: Truths, settings: Settings, drop: bool) -> tuple[Truths, Masks]:
    read = read_masks(
        truths.segmentations,
        truths.images.heights[truths.image],
        truths.images.widths[truths.image],
        truths.where,
        strict=settings.strict,
        drop=drop,
        measured=np.isnan(truths.areas),
    )
    areas = np.where(np.isnan(truths.areas), read.areas, truths.areas)
    return _without_bad(replace(truths, areas=areas), read)


def checked_detections(truths: Truths, detections: Detections, settings: Settings, drop: bool):
    """Detections with complete boxes and areas, and their masks if the kernel needs them."""
    if detections.segmentations is None:
        return detections, None
    needed = settings.iou_type in MASK_KERNELS
    incomplete = np.isnan(detections.areas) | np.isnan(detections.boxes).any(axis=1)
    rows = np.flatnonzero(needed | incomplete)
    images = truths.images
    _check_sizes(images, detections, rows)
    read = read_masks(
        taken(detections.segmentations, rows),
        images.heights[detections.image[rows]],
        images.widths[detections.image[rows]],
        lambda place: detections.where(rows[place]),
        strict=settings.strict,
        drop=drop,
        keep=_has_partner(truths, detections, settings)[rows] & needed,
        measured=incomplete[rows],
    )
    boxes, areas = detections.boxes.copy(), detections.areas.copy()
    boxes[rows] = np.where(np.isnan(boxes[rows]), read.boxes, boxes[rows])
    areas[rows] = np.where(np.isnan(areas[rows]), read.areas, areas[rows])
    detections = replace(detections, boxes=boxes, areas=areas)
    if needed:
        return _without_bad(detections, read)
    bad = np.zeros(len(detections), bool)
    bad[rows] = read.bad
    _note(detections, read)
    return (rows_of(detections, ~bad) if bad.any() else detections), None


def _check_sizes(images, detections: Detections, rows: np.ndarray) -> None:
    unknown = (images.heights * images.widths == 0)[detections.image[rows]]
    if unknown.any():
        image = images.ids[detections.image[rows[np.flatnonzero(unknown)[0]]]]
        raise PermafrostError(
            f"image {image} has no width and height, which its masks need", where="images"
        )


def _has_partner(truths: Truths, detections: Detections, settings: Settings) -> np.ndarray:
    """(N,) bool: detections with a truth in their cell; only their masks are compared."""
    if not settings.use_categories:
        return np.isin(detections.image, truths.image)
    count = max(len(truths.categories), 1)
    return np.isin(
        detections.image * count + detections.category, truths.image * count + truths.category
    )


def _without_bad(table, read: ReadMasks):
    _note(table, read)
    if not read.bad.any():
        return table, read.masks
    good = np.flatnonzero(~read.bad)
    return rows_of(table, good), read.masks.take(good)


def _note(table: Truths | Detections, read: ReadMasks) -> None:
    section = "annotations" if isinstance(table, Truths) else "detections"
    table.notes.dropped.update({f"{section}: {what}": n for what, n in read.dropped.items()})


def warn(truths: Truths, detections: Detections, settings: Settings, axes: Axes) -> None:
    """Add to the notes of the truths the warnings about omitted entries and unusual input."""
    notes: Notes = truths.notes
    for dropped in (truths.notes.dropped, detections.notes.dropped):
        notes.warnings.extend(f"left out {count}: {what}" for what, count in dropped.items())
    if settings.strict and truths.ids.dtype.kind != "U" and (truths.ids == 0).any():
        notes.warnings.append(
            f"{truths.source}: an annotation has the id 0, which strict mode counts as missed even"
            " where it is found, as pycocotools does"
        )
    if settings.lvis:
        cut = Cut.of_cells(
            detections.image, truths.image[:0], len(truths.images), axes.max_dets[-1]
        )
        if cut:
            notes.warnings.append(
                f"{detections.source}: {cut.words()} on {cut.images} of {len(truths.images)} images are beyond"
                f" LVIS's cap of {cut.cap} detections of an image; raise max_dets, for example --max-dets"
                f" {cut.most}"
            )
    frequencies = truths.categories.frequencies
    if settings.lvis and "" in (frequencies or ()):
        missing = sum(not f for f in frequencies)
        notes.warnings.append(
            f"{truths.source}: {missing} categories have no frequency (r, c or f) and are in none"
            " of APr, APc and APf"
        )


def with_all_masks(problem: Problem, settings: Settings) -> Problem:
    """The problem with the masks of all detections, also of those without a truth in their cell.

    Comparisons across categories need them. They were checked when they were first read.
    """
    # masks that were not read from a file are all there
    if problem.detection_masks is None or problem.detections.segmentations is None:
        return problem
    detections, images = problem.detections, problem.truths.images
    read = read_masks(
        detections.segmentations,
        images.heights[detections.image],
        images.widths[detections.image],
        detections.where,
        strict=settings.strict,
        measured=np.zeros(len(detections), bool),
    )
    return replace(problem, detection_masks=read.masks)
