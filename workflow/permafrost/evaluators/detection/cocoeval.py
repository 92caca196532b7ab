"""`pycocotools.cocoeval.COCOeval` with another engine: same interface, bit-identical numbers.

    from permafrost.evaluators.detection.cocoeval import COCO, COCOeval

    truth = COCO("truth.json")
    run = COCOeval(truth, truth.loadRes("found.json"), "bbox")
    run.evaluate()
    run.accumulate()
    run.summarize()

Intended differences: arguments are never changed; invalid entries raise an error that names them
(QUIRKS.md); `accumulate` rejects parameters that `evaluate` did not use, with which pycocotools
would mix up the results; without categories `params.catIds` is unchanged, so that `evaluate` can be
called again; only `summarize` prints. Matches per image (`evalImgs`, `ious`) are computed on first
access.

The steps of pycocotools are available too (`steps.CocoSteps`). If a subclass, or a patch of the
instance or the class, replaces `_prepare`, `computeIoU`, `computeOks` or `evaluateImg`, `evaluate`
calls them image by image, as slowly as pycocotools, and `evaluation` is None.
"""

from __future__ import annotations

import copy
import datetime
from collections import defaultdict
from dataclasses import replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection import mask as maskUtils
from permafrost.evaluators.detection.coco import COCO
from permafrost.evaluators.detection.coco_images import count_images, likenesses, matches_per_image
from permafrost.evaluators.detection.parameters import (
    Params,
    axes_of,
    check_axes,
    check_summary,
    check_unchanged,
    distinct,
)
from permafrost.evaluators.detection.steps import CocoSteps, any_replaced, image_by_image
from permafrost.metrics.detection.accumulate import Curves, accumulate
from permafrost.metrics.detection.axes import Axes
from permafrost.metrics.detection.categories import restrict_categories
from permafrost.metrics.detection.evaluate import check_settings, solve
from permafrost.metrics.detection.evaluation import Evaluation, Settings
from permafrost.metrics.detection.inputs.parsing import pause_collector
from permafrost.metrics.detection.inputs.predictions import read_predictions
from permafrost.metrics.detection.inputs.tables import Detections, Reading, Truths, positions_of
from permafrost.metrics.detection.inputs.truth import read_truth
from permafrost.metrics.detection.kernels import Problem
from permafrost.metrics.detection.problem import (
    checked_detections,
    checked_truth,
    falloffs,
    reading,
)
from permafrost.metrics.detection.summarise import line, statistics, summarise

__all__ = ["COCO", "COCOeval", "Params", "maskUtils"]

# the parameters that determine matches; `accumulate` needs those of `evaluate`
_MATCHED = ("imgIds", "catIds", "iouThrs", "areaRng", "useCats", "iouType")


class COCOeval(CocoSteps):
    """Evaluation of results, in pycocotools' three steps.

    Attributes
    ----------
    params : parameters of the evaluation; may be changed before `evaluate`.
    eval : after `accumulate`: ``precision`` and ``scores`` (T, R, K, A, M), ``recall`` (T, K, A,
        M), ``counts`` [T, R, K, A, M], ``params`` and ``date``.
    stats : after `summarize`: 12 numbers, for keypoints 10.
    evaluation : after `accumulate`: the result as `Evaluation`, the input of tables, intervals and
        error analyses; None if a step is replaced.

    Parameters
    ----------
    cocoGt, cocoDt : `COCO`, or pycocotools' own.
    boundary_ratio : for ``boundary``: width of the band as a share of the image's diagonal.
    box_convention : for ``oriented``: the convention of boxes of five numbers, see `evaluate`.
    """

    def __init__(
        self,
        cocoGt=None,
        cocoDt=None,
        iouType: str = "segm",
        *,
        boundary_ratio: float = 0.02,
        box_convention: str | None = None,
    ) -> None:
        self.boundary_ratio, self.box_convention = boundary_ratio, box_convention
        self._settings(iouType)
        self.cocoGt, self.cocoDt = cocoGt, cocoDt
        self.params = Params(iouType)
        self.eval: dict = {}
        self.stats: np.ndarray | list = []
        self.evaluation: Evaluation | None = None
        self._paramsEval: Params | None = None
        # results per image, from steps, set by the caller, or computed on first access
        self._likenesses: dict | None = None
        self._images: list | None = None
        # whether to accumulate from them, and whether `evaluate` computed them
        self._by_image = self._stepped = False
        if cocoGt is not None:
            self.params.imgIds = sorted(cocoGt.getImgIds())
            self.params.catIds = sorted(cocoGt.getCatIds())

    def evaluate(self) -> None:
        """Match the detections of every image and category.

        Raises
        ------
        PermafrostError : an invalid entry or parameter; the message names it.
        """
        p = self.params
        if p.useSegm is not None:
            p.iouType = "segm" if p.useSegm == 1 else "bbox"
        p.imgIds = distinct(p.imgIds)
        check_axes(p)
        # columns need non-empty axes
        by_image = any_replaced(self) or not (len(p.iouThrs) and len(p.areaRng) and len(p.recThrs))
        if p.useCats:
            p.catIds = distinct(p.catIds)
        elif not by_image and list(p.catIds) != sorted(set(p.catIds)):
            raise PermafrostError(
                "without categories, catIds must ascend, each once: their order decides ties",
                where="params.catIds",
                remedy="sort them",
            )
        p.maxDets = sorted(p.maxDets)
        settings = self._settings(p.iouType, use_categories=bool(p.useCats))
        self._forget()
        if by_image:
            self._prepare()
            compare = self.computeOks if p.iouType == "keypoints" else self.computeIoU
            categories, cap = p.catIds if p.useCats else [-1], p.maxDets[-1]
            self.evalImgs = image_by_image(
                self,
                p.imgIds,
                categories,
                p.areaRng,
                compare,
                # mypy takes any number of arguments for too many
                lambda *cell: self.evaluateImg(*cell, cap),  # type: ignore[call-arg]
            )
            self._stepped = True
        else:
            with pause_collector():
                problem = self._problem(settings)
                self.evaluation = solve(problem, settings, _axes(p)[0], (), counted=False)
        self._paramsEval = copy.deepcopy(p)

    def _settings(self, iou_type: str, *, use_categories: bool = True) -> Settings:
        return check_settings(
            Settings(
                iou_type,
                "strict",
                use_categories=use_categories,
                boundary_ratio=self.boundary_ratio,
                box_convention=self.box_convention,
            )
        )

    def _forget(self) -> None:
        """Drop the results of the previous evaluation."""
        self.eval, self._by_image = {}, False
        self._likenesses = self._images = self.evaluation = None
        for name in ("_gts", "_dts"):
            vars(self).pop(name, None)

    def accumulate(self, p: Params | None = None) -> None:
        """Accumulate matches into `eval`.

        Parameters
        ----------
        p : replaces `params`; only ``recThrs`` and ``maxDets`` may differ from those of `evaluate`.

        Raises
        ------
        PermafrostError : `evaluate` was not called, or with other parameters.
        """
        p = self.params if p is None else p
        if self._by_image:
            if self._stepped:
                self._check_matched(p)
            curves = count_images(self.evalImgs, p)
        else:
            curves = self._counted(p)
        self.eval = {
            "params": p,
            "counts": [*curves.precision.shape],
            "date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
            "precision": curves.precision,
            "recall": curves.recall,
            "scores": curves.scores,
        }

    def summarize(self) -> None:
        """Print pycocotools' lines, and keep their numbers in `stats`."""
        self.stats, lines = self._summary()
        print("\n".join(lines))

    def __str__(self) -> str:
        return "\n".join(self._summary()[1])

    def _summary(self) -> tuple[np.ndarray, list[str]]:
        if not self.eval:
            raise PermafrostError("there are no counts yet", remedy="call accumulate() first")
        axes, _ = _axes(self.params)
        check_summary(axes, "iouThrs", "areaRngLbl")
        curves = Curves(*(self.eval[name] for name in ("precision", "recall", "scores")))
        summary = statistics(self.params.iouType, axes, strict=True, lvis=False)
        values = np.array([summarise(statistic, curves, axes) for statistic in summary])
        values = np.where(np.isnan(values), -1.0, values)
        pairs = zip(summary, values.tolist(), strict=True)
        return values, [line(statistic, value, axes) for statistic, value in pairs]

    @property
    def evalImgs(self) -> list:
        """Matches in pycocotools' form: a dict, or None if empty, per category, area range and
        image, in this order."""
        if self._images is None and self.evaluation is not None:
            with pause_collector():
                self._images = matches_per_image(self.evaluation, self._paramsEval)
        return [] if self._images is None else self._images

    @evalImgs.setter
    def evalImgs(self, images) -> None:
        # distributed evaluations also set this, after gathering it from all processes
        self._images, self._by_image, self._stepped = list(images), True, False

    @property
    def ious(self) -> dict:
        """(image id, category id) to the (D, G) similarities of its detections, highest score
        first, and its truths; or to an empty list."""
        if self._likenesses is None and self.evaluation is not None:
            self._likenesses = likenesses(self.evaluation, self._paramsEval)
        return {} if self._likenesses is None else self._likenesses

    @ious.setter
    def ious(self, likeness: dict) -> None:
        self._likenesses = likeness

    def __getattr__(self, name: str):
        # called only for attributes that do not exist yet: annotations by image and category
        if name not in ("_gts", "_dts"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._gts, self._dts = defaultdict(list), defaultdict(list)
        if self.__dict__.get("evaluation") is not None:
            self._prepare()
        return self.__dict__[name]

    def _counted(self, p: Params) -> Curves:
        if self.evaluation is None:
            raise PermafrostError("there are no matches yet", remedy="call evaluate() first")
        self._check_matched(p)
        found = self.evaluation
        axes, places = _axes(p)
        scores = found.detections.scores[found.cells.detections]
        curves = accumulate(found.cells, found.matching, scores, axes)
        summary: tuple = ()
        if p.iouType == "keypoints" or len(axes.max_dets) >= 3:
            summary = tuple(statistics(p.iouType, axes, strict=True, lvis=False))
        self.evaluation = replace(found, axes=axes, curves=curves, statistics=summary)
        return as_asked(curves, np.asarray(p.recThrs, np.float64), places)

    def _check_matched(self, p: Params) -> None:
        """Refuse parameters that `evaluate` did not match with."""
        check_unchanged(p, self._paramsEval, _MATCHED)
        missing = set(p.maxDets) - set(self._paramsEval.maxDets)
        if missing:
            raise PermafrostError(
                f"caps of {', '.join(map(str, sorted(missing)))} detections were not evaluated",
                where="params.maxDets",
                remedy="call evaluate() again",
            )

    def _problem(self, settings: Settings) -> Problem:
        """The truth and results that `params` select."""
        p = self.params
        sigmas = list(p.kpt_oks_sigmas) if p.iouType == "keypoints" else None
        how = reading(settings, sigmas, False)
        truths = read_truth(_truth(self.cocoGt, p), how)
        detections = _detections(self.cocoDt, self.cocoGt, truths, how)
        chosen = positions_of(truths.categories.ids, np.array(p.catIds))
        if len(chosen) < len(truths.categories):
            truths, detections = restrict_categories(truths, detections, chosen)
        truths, truth_masks = checked_truth(truths, settings, False)
        detections, masks = checked_detections(truths, detections, settings, False)
        return Problem(
            truths=truths,
            detections=detections,
            truth_masks=truth_masks,
            detection_masks=masks,
            boundary_ratio=settings.boundary_ratio,
            sigmas=falloffs(truths, settings, sigmas),
        )


def _axes(p: Params) -> tuple[Axes, np.ndarray]:
    return axes_of(p.iouThrs, p.recThrs, p.areaRngLbl, p.areaRng, p.maxDets)


def as_asked(curves: Curves, recalls: np.ndarray, places: np.ndarray) -> Curves:
    """Reorder curves on an ascending grid to the requested recalls, at `places` of the grid."""
    if np.array_equal(places, np.arange(curves.precision.shape[1])):
        return curves
    precision, scores = curves.precision[:, places], curves.scores[:, places]
    # pycocotools stops at the first recall that is not reached
    beyond = recalls[:, None, None, None] > curves.recall[:, None]
    beyond = np.logical_or.accumulate(beyond, axis=1) & (precision > -1)
    precision[beyond], scores[beyond] = 0.0, 0.0
    return Curves(precision, curves.recall, scores)


def _truth(coco, p: Params) -> dict:
    """The dataset of `coco` with the requested images and all categories."""
    entries = {identity: coco.imgs.get(identity) for identity in np.array(p.imgIds).tolist()}
    images = [
        # pycocotools evaluates an image that the truth lacks as empty
        {"id": identity, "width": 1, "height": 1}
        if entry is None
        else {"id": identity, **{key: entry[key] for key in ("width", "height") if key in entry}}
        for identity, entry in entries.items()
    ]
    categories = [
        {"id": identity, "name": str(coco.cats.get(identity, {}).get("name", identity))}
        for identity in {**coco.cats, **dict.fromkeys(np.array(p.catIds).tolist())}
    ]
    annotations = coco.dataset.get("annotations", [])
    if len(entries) < len(coco.imgs):
        annotations = [a for i in entries if i in coco.imgToAnns for a in coco.imgToAnns[i]]
    return {"images": images, "categories": categories, "annotations": annotations}


def _detections(coco, truth, truths: Truths, how: Reading) -> Detections:
    """The results: as the caller passed them, or as indexed by `loadRes` or by hand."""
    known = set(truths.images.ids.tolist())
    given = coco.untouched_results if isinstance(coco, COCO) else None
    if given is not None and known.issuperset(truth.imgs):
        detections = read_predictions(given, truths, how)
        # `loadRes` numbers the results and ignores their ids
        return replace(detections, ids=detections.entries + 1)
    entries = [e for e in coco.dataset.get("annotations", []) if e["image_id"] in known]
    detections = read_predictions(entries, truths, how)
    rows = detections.entries.tolist()
    ids = np.array([entries[row]["id"] for row in rows], np.int64)
    if (ids < 1).any() or len(np.unique(ids)) < len(ids):
        raise PermafrostError(
            "ids of detections must be different whole numbers from 1 on",
            where="predictions",
            remedy="number the annotations of the results from 1",
        )
    pairs = zip(rows, detections.areas.tolist(), strict=True)
    areas = [entries[row].get("area", area) for row, area in pairs]
    return replace(detections, ids=ids, areas=np.array(areas, np.float64))
