"""`lvis.LVISEval` with another engine: the same interface and bit-identical numbers.

    from permafrost.evaluators.detection.lviseval import LVIS, LVISEval, LVISResults

    run = LVISEval("truth.json", "found.json", "bbox")
    run.run()
    run.print_results()

Intended differences: arguments are never changed; invalid entries raise an error that names them
(QUIRKS.md); `eval` has no ``dt_pointers`` (`analysis.detection_table` of `evaluation` gives the
outcome of every detection). Matches per image (`eval_imgs`, `ious`) are computed on first access.
If a step of lvis (`steps.LvisSteps`) is replaced, `evaluate` calls the steps image by image, as in
`COCOeval`.
"""

from __future__ import annotations

import copy
import datetime
import os
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.evaluators.detection.coco_images import count_images, likenesses, matches_per_image
from permafrost.evaluators.detection.cocoeval import as_asked
from permafrost.evaluators.detection.lvis import LVIS, LVISResults
from permafrost.evaluators.detection.parameters import Params as CocoParams
from permafrost.evaluators.detection.parameters import (
    axes_of,
    check_numbers,
    check_summary,
    check_unchanged,
    distinct,
)
from permafrost.evaluators.detection.steps import LVIS_KEYS, LvisSteps, any_replaced, image_by_image
from permafrost.metrics.detection.accumulate import Curves, accumulate
from permafrost.metrics.detection.axes import AREA_RANGES, IOU_THRESHOLDS, RECALL_GRID, Axes
from permafrost.metrics.detection.evaluate import check_settings, solve
from permafrost.metrics.detection.evaluation import Evaluation, Settings
from permafrost.metrics.detection.inputs.parsing import pause_collector
from permafrost.metrics.detection.problem import Request, read_problem
from permafrost.metrics.detection.summarise import statistics

__all__ = ["LVIS", "LVISEval", "LVISResults", "Params"]

_FREQUENCIES = ["r", "c", "f"]
# the parameters that determine matches; `accumulate` needs those of `evaluate`
_MATCHED = ("img_ids", "cat_ids", "iou_thrs", "area_rng", "use_cats", "iou_type")
# attributes set by `_prepare`
_PREPARED = ("_gts", "_dts", "img_nel", "freq_groups")


class Params:
    """lvis' parameters, by its names.

    Attributes
    ----------
    img_ids, cat_ids : ids of the evaluated images and categories.
    iou_thrs, rec_thrs : (T,) IoU thresholds and (R,) recalls at which precision is read.
    max_dets : used only in the names of recalls; `LVISResults` already capped the detections.
    area_rng, area_rng_lbl : A bounds in square pixels, and their names.
    use_cats : 0 evaluates no category at all, as in lvis.
    img_count_lbl : groups of categories by frequency.
    """

    def __init__(self, iou_type: str) -> None:
        self.img_ids: list = []
        self.cat_ids: list = []
        self.iou_thrs, self.rec_thrs = IOU_THRESHOLDS.copy(), RECALL_GRID.copy()
        self.max_dets = 300
        self.area_rng = [list(bounds) for bounds in AREA_RANGES.values()]
        self.area_rng_lbl = list(AREA_RANGES)
        self.use_cats = 1
        self.img_count_lbl = list(_FREQUENCIES)
        self.iou_type = iou_type


class _Counts(dict):
    """`LVISEval.eval`."""

    def __missing__(self, key):
        if key != "dt_pointers":
            raise KeyError(key)
        raise PermafrostError(
            "dt_pointers are not available",
            where="LVISEval.eval",
            remedy="use analysis.detection_table(run.evaluation) for the result of every detection",
        )


class LVISEval(LvisSteps):
    """Evaluation of results by LVIS's rules.

    Attributes
    ----------
    params : parameters of the evaluation; may be changed before `evaluate`.
    eval : after `accumulate`: ``precision`` (T, R, K, A), ``recall`` (T, K, A), ``counts``
        [T, R, K, A], ``params`` and ``date``.
    results : after `summarize`: name to number, -1 if there is no truth.
    evaluation : after `accumulate`: the result as `Evaluation`, the input of tables, intervals and
        error analyses; None if a step is replaced.

    Parameters
    ----------
    lvis_gt : `LVIS`, lvis' own class, or an argument of `LVIS`.
    lvis_dt : `LVISResults`, or an argument of it.
    iou_type : ``segm`` or ``bbox``; also ``boundary``, which lvis lacks.
    """

    def __init__(
        self, lvis_gt, lvis_dt, iou_type: str = "segm", *, boundary_ratio: float = 0.008
    ) -> None:
        check_settings(Settings(iou_type, "strict", lvis=True, boundary_ratio=boundary_ratio))
        if isinstance(lvis_gt, str | os.PathLike | Mapping):
            lvis_gt = LVIS(lvis_gt)
        elif not isinstance(lvis_gt, LVIS):
            lvis_gt = LVIS(lvis_gt.dataset)
        self.lvis_gt = lvis_gt
        if not isinstance(lvis_dt, LVISResults):
            if hasattr(lvis_dt, "dataset"):
                raise PermafrostError(
                    "the results were prepared by another program",
                    where="lvis_dt",
                    remedy="give their original path or list",
                )
            lvis_dt = LVISResults(lvis_gt, lvis_dt)
        self.lvis_dt = lvis_dt
        self.boundary_ratio = boundary_ratio
        self.params = Params(iou_type)
        self.params.img_ids = sorted(lvis_gt.get_img_ids())
        self.params.cat_ids = sorted(lvis_gt.get_cat_ids())
        self.eval: dict = {}
        self.results: OrderedDict = OrderedDict()
        self.evaluation: Evaluation | None = None
        self._evaluated: Params | None = None
        # results per image, from steps, set by the caller, or computed on first access
        self._likenesses: dict | None = None
        self._images: list | None = None
        # whether to accumulate from them
        self._by_image = False

    def evaluate(self) -> None:
        """Match the detections of every image and category.

        Raises
        ------
        PermafrostError : an invalid entry or parameter; the message names it.
        """
        p = self.params
        for name in ("iou_thrs", "rec_thrs", "area_rng"):
            check_numbers(getattr(p, name), f"params.{name}", pairs=name == "area_rng")
        p.img_ids = distinct(p.img_ids)
        if list(p.cat_ids) != sorted(set(p.cat_ids)) or not len(p.cat_ids):
            raise PermafrostError(
                "cat_ids must ascend, each once, and hold one at least",
                where="params.cat_ids",
                remedy="sort them",
            )
        settings = check_settings(
            Settings(
                p.iou_type,
                "strict",
                lvis=True,
                use_categories=bool(p.use_cats),
                boundary_ratio=self.boundary_ratio,
            )
        )
        self._evaluated, self._by_image = copy.deepcopy(p), False
        self.eval, self.evaluation, self._likenesses, self._images = {}, None, None, None
        for name in _PREPARED:
            vars(self).pop(name, None)
        # columns need non-empty axes
        if any_replaced(self) or not (len(p.iou_thrs) and len(p.area_rng) and len(p.rec_thrs)):
            self._prepare()
            categories = p.cat_ids if p.use_cats else [-1]
            self.eval_imgs = image_by_image(
                self, p.img_ids, categories, p.area_rng, self.compute_iou, self.evaluate_img
            )
            return
        images = np.array(p.img_ids).tolist()
        categories = np.array(p.cat_ids).tolist()
        request = Request(
            settings,
            self._axes(self.lvis_dt.max_dets)[0],
            categories=None if len(categories) == len(self.lvis_gt.cats) else categories,
        )
        with pause_collector():
            problem = read_problem(
                self.lvis_gt.dataset,
                self.lvis_dt.given,
                request,
                images=None if len(images) == len(self.lvis_gt.imgs) else images,
            )
            self.evaluation = solve(problem, settings, request.axes, (), counted=False)

    def accumulate(self) -> None:
        """Accumulate matches into `eval`.

        Raises
        ------
        PermafrostError : `evaluate` was not called, or with other parameters (recalls may differ).
        """
        p, found = self.params, self.evaluation
        if found is None and not self._by_image:
            raise PermafrostError("there are no matches yet", remedy="call evaluate() first")
        check_unchanged(p, self._evaluated, _MATCHED)
        if self._by_image:
            curves = self._counted_by_image()
        else:
            axes, places = self._axes(self.lvis_dt.max_dets)
            scores = found.detections.scores[found.cells.detections]
            curves = accumulate(found.cells, found.matching, scores, axes)
            summary = tuple(statistics(p.iou_type, axes, strict=True, lvis=True))
            self.evaluation = replace(found, axes=axes, curves=curves, statistics=summary)
            curves = as_asked(curves, np.asarray(p.rec_thrs, np.float64), places)
        precision, recall = curves.precision[..., 0], curves.recall[..., 0]
        self.eval = _Counts(
            params=p,
            counts=[*precision.shape],
            date=datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S"),
            precision=precision,
            recall=recall,
        )

    def summarize(self) -> None:
        """Compute lvis' summary numbers into `results`.

        Raises
        ------
        PermafrostError : `accumulate` was not called; no threshold, or a missing area range.
        """
        if not self.eval:
            raise PermafrostError("there are no counts yet", remedy="call accumulate() first")
        check_summary(self._axes(self.params.max_dets)[0], "iou_thrs", "area_rng_lbl")
        cap, sizes = self.params.max_dets, ("small", "medium", "large")
        found = {
            "AP": self._summarize("ap"),
            "AP50": self._summarize("ap", iou_thr=0.5),
            "AP75": self._summarize("ap", iou_thr=0.75),
            **{f"AP{size[0]}": self._summarize("ap", area_rng=size) for size in sizes},
            **{
                f"AP{group}": self._summarize("ap", freq_group_idx=place)
                for place, group in enumerate(_FREQUENCIES)
            },
            f"AR@{cap}": self._summarize("ar"),
            **{f"AR{size[0]}@{cap}": self._summarize("ar", area_rng=size) for size in sizes},
        }
        self.results.update(found)

    def _summarize(self, summary_type, iou_thr=None, area_rng="all", freq_group_idx=None) -> float:
        """Mean precision (``ap``) or recall (``ar``) over cells with truth; -1 without any."""
        p = self.params
        values = self.eval["precision" if summary_type == "ap" else "recall"]
        if iou_thr is not None:
            values = values[np.flatnonzero(iou_thr == np.asarray(p.iou_thrs))]
        values = values[
            ..., [place for place, name in enumerate(p.area_rng_lbl) if name == area_rng]
        ]
        if summary_type == "ap" and freq_group_idx is not None and p.use_cats:
            values = values[:, :, self.freq_groups[freq_group_idx]]
        there = values[values > -1]
        return float(np.mean(there)) if there.size else -1.0

    def run(self) -> None:
        """`evaluate`, `accumulate` and `summarize`."""
        self.evaluate()
        self.accumulate()
        self.summarize()

    def get_results(self) -> OrderedDict:
        """`results`."""
        return self.results

    def print_results(self) -> None:
        """Print lvis' lines."""
        p = self.params
        for key, value in self.results.items():
            precision, mark = "AP" in key, key[2:3]
            title = "Average Precision" if precision else "Average Recall"
            iou = f"{p.iou_thrs[0]:0.2f}:{p.iou_thrs[-1]:0.2f}"
            if mark.isdigit():
                iou = f"{float(key[2:]) / 100:0.2f}"
            group = mark if mark in _FREQUENCIES else "all"
            area = mark if mark in ("s", "m", "l") else "all"
            print(
                f" {title:<18} {'(AP)' if precision else '(AR)'} @[ IoU={iou:<9} | area={area:>6s} |"
                f" maxDets={p.max_dets:>3d} catIds={group:>3s}] = {value:0.3f}"
            )

    @property
    def eval_imgs(self) -> list:
        """Matches in lvis' form: per category, area range and image, a dict, or None if empty."""
        if self._images is None and self.evaluation is not None:
            self._images = self._made_images()
        return [] if self._images is None else self._images

    @eval_imgs.setter
    def eval_imgs(self, images) -> None:
        self._images, self._by_image = list(images), True
        self._evaluated = self._evaluated or copy.deepcopy(self.params)

    def _made_images(self) -> list:
        detections = self.evaluation.detections
        order = np.array(self.lvis_dt.order(), np.int64)
        number = np.zeros(max(order.max(initial=-1), detections.entries.max(initial=-1)) + 1, int)
        number[order] = np.arange(1, len(order) + 1)
        found = replace(
            self.evaluation, detections=replace(detections, ids=number[detections.entries])
        )
        with pause_collector():
            made = matches_per_image(found, self._coco_params())
            return [
                None if each is None else {name: each[key] for key, name in LVIS_KEYS.items()}
                for each in made
            ]

    @property
    def ious(self) -> dict:
        """(image id, category id) to the (D, G) similarities of its detections, highest score
        first, and its truths; or to an empty list."""
        if self._likenesses is None and self.evaluation is not None:
            self._likenesses = likenesses(self.evaluation, self._coco_params())
        return {} if self._likenesses is None else self._likenesses

    @ious.setter
    def ious(self, likeness: dict) -> None:
        self._likenesses = likeness

    def __getattr__(self, name: str):
        # called only for attributes that do not exist yet: those that `_prepare` sets
        if name not in _PREPARED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._gts, self._dts = defaultdict(list), defaultdict(list)
        if self.__dict__.get("evaluation") is not None or name == "freq_groups":
            self._prepare()
        return self.__dict__[name]

    def _counted_by_image(self) -> Curves:
        """Curves of `eval_imgs`."""
        images = [
            None if each is None else {key: each[name] for key, name in LVIS_KEYS.items()}
            for each in self.eval_imgs
        ]
        p, asked = self._coco_params(), self.params
        p.iouThrs, p.recThrs = asked.iou_thrs, np.asarray(asked.rec_thrs, np.float64)
        # detections were already capped per image
        p.maxDets = [max((len(e["dtScores"]) for e in images if e is not None), default=0)]
        return count_images(images, p)

    def _coco_params(self) -> CocoParams:
        evaluated, p = self._evaluated, CocoParams("bbox")
        p.imgIds, p.catIds, p.areaRng = evaluated.img_ids, evaluated.cat_ids, evaluated.area_rng
        p.useCats = evaluated.use_cats
        return p

    def _axes(self, cap: int) -> tuple[Axes, np.ndarray]:
        p = self.params
        return axes_of(p.iou_thrs, p.rec_thrs, p.area_rng_lbl, p.area_rng, (cap,))
