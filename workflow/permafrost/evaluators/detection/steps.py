"""The steps of pycocotools and lvis for one image and category, which subclasses override.

`evaluate` works on whole columns. If a step is replaced, by a subclass, on one instance or on the
class, `evaluate` calls these steps instead, image by image as pycocotools and lvis do. Marks in
annotations (``ignore``, ``_ignore``, masks as run lengths) are set in copies that the index owns.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from permafrost.evaluators.detection import mask as maskUtils
from permafrost.evaluators.detection.coco import COCO
from permafrost.metrics.detection.inputs.columns import Columns
from permafrost.metrics.detection.inputs.oriented_boxes import read_corners
from permafrost.metrics.detection.kernels import MASK_KERNELS
from permafrost.metrics.detection.kernels.boundary import BoundaryOverlap
from permafrost.metrics.detection.kernels.keypoints import KeypointSimilarity
from permafrost.metrics.detection.kernels.oriented import oriented_iou
from permafrost.metrics.detection.kernels.segm import MaskOverlap

if TYPE_CHECKING:
    from permafrost.evaluators.detection.lviseval import Params as LvisParams
    from permafrost.evaluators.detection.parameters import Params


class CocoSteps:
    """pycocotools' steps of `COCOeval`; `_gts` and `_dts` map (image id, category id) to lists."""

    if TYPE_CHECKING:  # a subclass gives these
        params: Params
        boundary_ratio: float
        box_convention: str | None
        cocoGt: Any
        cocoDt: Any
        ious: Any

    def _prepare(self) -> None:
        """Gather the truths and results that `params` select."""
        p = self.params
        chosen = {"imgIds": p.imgIds, **({"catIds": p.catIds} if p.useCats else {})}
        sides = []
        for coco in map(_own, (self.cocoGt, self.cocoDt)):
            sides.append(coco.loadAnns(coco.getAnnIds(**chosen)))
            if p.iouType in MASK_KERNELS:
                for entry in sides[-1]:
                    entry["segmentation"] = coco.annToRLE(entry)
        gts, dts = sides
        for gt in gts:
            ignored = gt.get("ignore", 0) if p.iouType == "boundary" else 0
            gt["ignore"] = ignored or gt.get("iscrowd", False)
            if p.iouType == "keypoints":
                gt["ignore"] = gt["num_keypoints"] == 0 or gt["ignore"]
        self._gts, self._dts = _by_cell(gts), _by_cell(dts)

    def computeIoU(self, imgId, catId):
        """(D, G) IoU of detections, highest score first, and truths; an empty list for none."""
        p = self.params
        gts, dts = _cell(self, imgId, catId)
        dts = best_first(dts, p.maxDets[-1])
        crowd = [int(gt.get("iscrowd", 0)) for gt in gts]
        if p.iouType == "oriented":
            return _oriented_overlap(dts, gts, crowd, self.box_convention)
        return overlap(dts, gts, crowd, p.iouType, self.boundary_ratio)

    def computeOks(self, imgId, catId):
        """(D, G) object keypoint similarity, as in `computeIoU`."""
        gts = self._gts[imgId, catId]
        dts = best_first(self._dts[imgId, catId], self.params.maxDets[-1])
        if not len(gts) or not len(dts):
            return []
        found, true = (
            np.array([each["keypoints"] for each in side], np.float64).reshape(len(side), -1, 3)
            for side in (dts, gts)
        )
        kernel = KeypointSimilarity(
            found,
            true,
            np.array([gt["bbox"] for gt in gts], np.float64),
            np.array([gt["area"] for gt in gts], np.float64),
            np.zeros(len(gts), np.int64),
            np.asarray(self.params.kpt_oks_sigmas, np.float64)[None],
        )
        return _all_pairs(kernel, len(dts), len(gts))

    def evaluateImg(self, imgId, catId, aRng, maxDet) -> dict | None:
        """The matches of one image, category and area range; None if it is empty."""
        gts, dts = _cell(self, imgId, catId)
        if not len(gts) and not len(dts):
            return None
        gts, order = counted_first(gts, aRng)
        dts = best_first(dts, maxDet)
        crowd = [bool(gt.get("iscrowd", 0)) for gt in gts]
        found = match_image(dts, gts, self.ious[imgId, catId], order, crowd, self.params.iouThrs)
        head = {"image_id": imgId, "category_id": catId, "aRng": aRng, "maxDet": maxDet}
        return head | _result(gts, dts, found, [_outside(dt, aRng) for dt in dts])


class LvisSteps:
    """lvis' steps of `LVISEval`; `_gts` and `_dts` as in `CocoSteps`."""

    if TYPE_CHECKING:  # a subclass gives these
        params: LvisParams
        boundary_ratio: float
        lvis_gt: Any
        lvis_dt: Any
        ious: Any

    def _prepare(self) -> None:
        """Gather the selected truths and results, and the images annotated per category."""
        p = self.params
        sides = []
        for lvis in map(_own, (self.lvis_gt, self.lvis_dt)):
            sides.append(lvis.load_anns(lvis.get_ann_ids(p.img_ids, list(p.cat_ids) or None)))
            if p.iou_type in MASK_KERNELS:
                self._to_mask(sides[-1], lvis)
        gts, dts = sides
        for gt in gts:
            gt.setdefault("ignore", 0)
        images = self.lvis_gt.load_imgs(p.img_ids)
        known = {(gt["image_id"], gt["category_id"]) for gt in gts}
        known |= {(image["id"], k) for image in images for k in image["neg_category_ids"]}
        self.img_nel = {image["id"]: image["not_exhaustive_category_ids"] for image in images}
        self._gts = _by_cell(gts)
        self._dts = _by_cell(dt for dt in dts if (dt["image_id"], dt["category_id"]) in known)
        self.freq_groups = self._prepare_freq_group()

    def _to_mask(self, anns: list[dict], lvis) -> None:
        """Set the annotations' masks as run lengths."""
        for entry in anns:
            entry["segmentation"] = lvis.ann_to_rle(entry)

    def _prepare_freq_group(self) -> list[list[int]]:
        """Positions of the categories in each frequency group."""
        p = self.params
        groups: list[list[int]] = [[] for _ in p.img_count_lbl]
        for place, category in enumerate(self.lvis_gt.load_cats(p.cat_ids)):
            if category.get("frequency") in p.img_count_lbl:
                groups[p.img_count_lbl.index(category["frequency"])].append(place)
        return groups

    def _get_gt_dt(self, img_id, cat_id) -> tuple[list, list]:
        """Truths and detections of an image and category."""
        if self.params.use_cats:
            return self._gts[img_id, cat_id], self._dts[img_id, cat_id]
        count = len(self.params.cat_ids)
        return self._gts[img_id, cat_id] * count, self._dts[img_id, cat_id] * count

    def compute_iou(self, img_id, cat_id):
        """(D, G) IoU of detections, highest score first, and truths; an empty list for none."""
        gts, dts = self._get_gt_dt(img_id, cat_id)
        none = [0] * len(gts)
        return overlap(best_first(dts), gts, none, self.params.iou_type, self.boundary_ratio)

    def evaluate_img(self, img_id, cat_id, area_rng) -> dict | None:
        """The matches of one image, category and area range; None if it is empty."""
        gts, dts = self._get_gt_dt(img_id, cat_id)
        if not len(gts) and not len(dts):
            return None
        gts, order = counted_first(gts, area_rng)
        dts = best_first(dts)
        single = [False] * len(gts)
        found = match_image(
            dts, gts, self.ious[img_id, cat_id], order, single, self.params.iou_thrs
        )
        excused = [
            _outside(dt, area_rng) or dt["category_id"] in self.img_nel[dt["image_id"]]
            for dt in dts
        ]
        head = {"image_id": img_id, "category_id": cat_id, "area_rng": area_rng}
        result = _result(gts, dts, found, excused)
        return head | {LVIS_KEYS[name]: value for name, value in result.items()}


#: pycocotools' keys of a result per image to those of lvis
LVIS_KEYS = {
    "image_id": "image_id",
    "category_id": "category_id",
    "aRng": "area_rng",
    "dtIds": "dt_ids",
    "gtIds": "gt_ids",
    "dtMatches": "dt_matches",
    "gtMatches": "gt_matches",
    "dtScores": "dt_scores",
    "gtIgnore": "gt_ignore",
    "dtIgnore": "dt_ignore",
}


def _result(gts: list, dts: list, found: tuple, excused: list[bool]) -> dict:
    """The matches of an image by pycocotools' keys; `excused` detections may stay unmatched."""
    taken, taker, ignored = found
    return {
        "dtIds": [dt["id"] for dt in dts],
        "gtIds": [gt["id"] for gt in gts],
        "dtMatches": taken,
        "gtMatches": taker,
        "dtScores": [dt["score"] for dt in dts],
        "gtIgnore": np.array([gt["_ignore"] for gt in gts]),
        "dtIgnore": ignored | ((taken == 0) & np.array(excused, bool)),
    }


def image_by_image(
    run: CocoSteps | LvisSteps, images: list, categories: list, areas: list, compare, match
) -> list:
    """`evaluate` by steps: `compare` fills `ious`, `match` returns the matches."""
    run.ious = {(i, k): compare(i, k) for i in images for k in categories}
    return [match(i, k, bounds) for k in categories for bounds in areas for i in images]


def _steps_of(kind: type) -> dict:
    return {name: step for name, step in vars(kind).items() if callable(step)}


# methods of an index that the steps call
_ASKED = ("getAnnIds", "loadAnns", "annToRLE")
_STEPS = {kind: _steps_of(kind) for kind in (CocoSteps, LvisSteps)}


def any_replaced(run: CocoSteps | LvisSteps) -> bool:
    """Whether a step, or an index method that a step calls, was overridden by a subclass or
    replaced on the instance or the class."""
    for kind, steps in _STEPS.items():
        if isinstance(run, kind) and _differs(run, steps):
            return True
    return isinstance(run, CocoSteps) and any(
        _differs(index, {name: getattr(base, name) for name in _ASKED})
        for index in (run.cocoGt, run.cocoDt)
        for base in type(index).__mro__[:-1]
        if base is COCO or base.__module__ == "pycocotools.coco"
    )


def _differs(given, functions: dict) -> bool:
    return any(
        name in vars(given) or getattr(type(given), name) is not function
        for name, function in functions.items()
    )


def _cell(run: CocoSteps, image, category) -> tuple[list, ...]:
    sides = run._gts, run._dts
    if run.params.useCats:
        return tuple(side[image, category] for side in sides)
    return tuple([e for k in run.params.catIds for e in side[image, k]] for side in sides)


def _own(index):
    """An index whose annotations may be marked."""
    if isinstance(index, COCO):
        index.own_annotations()
    return index


def _by_cell(entries) -> defaultdict:
    cells: defaultdict = defaultdict(list)
    for entry in entries:
        cells[entry["image_id"], entry["category_id"]].append(entry)
    return cells


def best_first(dts: list, most: int | None = None) -> list:
    """The `most` detections of highest score; ties keep their order."""
    order = np.argsort([-dt["score"] for dt in dts], kind="stable")
    return [dts[place] for place in order[:most]]


def counted_first(gts: list, bounds) -> tuple[list, np.ndarray]:
    """Mark ignored truths, also by area, and sort them last; also return the old indices."""
    for gt in gts:
        gt["_ignore"] = 1 if gt["ignore"] or _outside(gt, bounds) else 0
    order = np.argsort([gt["_ignore"] for gt in gts], kind="stable")
    return [gts[place] for place in order], order


def _outside(entry: dict, bounds) -> bool:
    return entry["area"] < bounds[0] or entry["area"] > bounds[1]


def overlap(dts: list, gts: list, crowd: list, iou_type: str, boundary_ratio: float):
    """(D, G) IoU, or an empty list if either side is empty."""
    if iou_type == "bbox":
        return maskUtils.iou([dt["bbox"] for dt in dts], [gt["bbox"] for gt in gts], crowd)
    found, true = ([each["segmentation"] for each in side] for side in (dts, gts))
    if iou_type == "segm" or not found or not true:
        return maskUtils.iou(found, true, crowd)
    masks = MaskOverlap(
        maskUtils.masks_of(found), maskUtils.masks_of(true), np.asarray(crowd, bool)
    )
    return _all_pairs(BoundaryOverlap(masks, boundary_ratio), len(found), len(true))


def _oriented_overlap(dts: list, gts: list, crowd: list, convention: str | None):
    if not dts or not gts:
        return []
    found, true = (
        read_corners(Columns(side, name, ""), convention)[0]
        for side, name in ((dts, "detections"), (gts, "annotations"))
    )
    return oriented_iou(found, true, crowd)


def _all_pairs(kernel, rows: int, columns: int) -> np.ndarray:
    pairs = np.repeat(np.arange(rows), columns), np.tile(np.arange(columns), rows)
    return kernel.exact(*pairs).reshape(rows, columns)


def match_image(dts: list, gts: list, likeness, order, crowd: list, thresholds):
    """pycocotools' greedy matching of one image.

    Parameters
    ----------
    dts, gts : detections, highest score first, and truths, ignored ones last.
    likeness : (D', G) similarities, indexable like an array, columns in the order before `order`;
        or empty.
    order : (G,) columns in the order of `gts`.
    crowd : (G,) truths that may match several detections.

    Returns
    -------
    (T, D) ids of the matched truths, (T, G) ids of the detections that matched them, (T, D) bool:
    detections matched to ignored truths.
    """
    taken, taker = np.zeros((len(thresholds), len(dts))), np.zeros((len(thresholds), len(gts)))
    ignored = np.zeros(taken.shape, bool)
    if not len(likeness):
        return taken, taker, ignored
    likeness = likeness[:, order]
    for t, threshold in enumerate(thresholds):
        for d, dt in enumerate(dts):
            needed, best = min(threshold, 1 - 1e-10), -1
            for g, gt in enumerate(gts):
                if taker[t, g] > 0 and not crowd[g]:
                    continue
                if best > -1 and not gts[best]["_ignore"] and gt["_ignore"]:
                    break
                if likeness[d, g] < needed:
                    continue
                needed, best = likeness[d, g], g
            if best > -1:
                ignored[t, d] = gts[best]["_ignore"]
                taken[t, d], taker[t, best] = gts[best]["id"], dt["id"]
    return taken, taker, ignored
