"""Truth and results with the interfaces of `lvis.LVIS` and `lvis.LVISResults`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from permafrost.evaluators.detection.coco import COCO, dataset_of_results
from permafrost.metrics.detection.inputs.parsing import load


class LVIS(COCO):
    """Images, categories and annotations by their ids, with the interface of `lvis.LVIS`.

    Attributes
    ----------
    dataset : the parsed JSON.
    anns, imgs, cats : id to entry.
    img_ann_map, cat_img_map : image id to its annotations, category id to the ids of its images.
    """

    @property
    def img_ann_map(self) -> Mapping:
        return self.imgToAnns

    @property
    def cat_img_map(self) -> Mapping:
        return self.catToImgs

    def get_ann_ids(self, img_ids=None, cat_ids=None, area_rng=None) -> list:
        """Ids of the annotations on these images and of these categories.

        With `cat_ids` or `area_rng`, only those with an area above 0 and within the bounds.
        """
        entries = self.dataset["annotations"]
        if img_ids is not None:
            entries = [entry for i in img_ids for entry in self.imgToAnns.get(i, [])]
        if cat_ids is not None or area_rng is not None:
            low, high = area_rng or (0, np.inf)
            wanted = set(self.cats if cat_ids is None else cat_ids)
            entries = [
                entry
                for entry in entries
                if entry["category_id"] in wanted and low < entry["area"] < high
            ]
        return [entry["id"] for entry in entries]

    def get_cat_ids(self) -> list:
        """Ids of all categories."""
        return list(self.cats)

    def get_img_ids(self) -> list:
        """Ids of all images."""
        return list(self.imgs)

    def load_anns(self, ids=None) -> list[dict]:
        """The annotations with these ids, all if None."""
        return self.loadAnns(self.anns if ids is None else ids)

    def load_cats(self, ids=None) -> list[dict]:
        """The categories with these ids, all if None."""
        return self.loadCats(self.cats if ids is None else ids)

    def load_imgs(self, ids=None) -> list[dict]:
        """The images with these ids, all if None."""
        return self.loadImgs(self.imgs if ids is None else ids)

    ann_to_rle = COCO.annToRLE
    ann_to_mask = COCO.annToMask


class LVISResults(LVIS):
    """Results on the images of a truth; the `max_dets` highest scores per image (all if negative).

    Parameters
    ----------
    lvis_gt : `LVIS`, or an argument of it.
    results : as in `COCO.loadRes`.
    """

    def __init__(self, lvis_gt, results, max_dets: int = 300) -> None:
        super().__init__()
        truth = lvis_gt if isinstance(lvis_gt, COCO) else LVIS(lvis_gt)
        self._results, self._truth = truth.loadRes(results).untouched_results, truth
        self.max_dets = max_dets
        # computed on first access
        del self.dataset

    @property
    def given(self):
        """The source that the results are read from."""
        return self._results

    def order(self) -> list[int]:
        """Positions of the passed entries in lvis' numbering, which goes image by image."""
        entries, _ = load(self._results, "predictions")
        if self.max_dets < 0:
            return list(range(len(entries)))
        by_image: dict = {}
        for place, entry in enumerate(entries):
            by_image.setdefault(entry["image_id"], []).append(place)
        out = []
        for places in by_image.values():
            if len(places) > self.max_dets:
                places = sorted(places, key=lambda i: entries[i]["score"], reverse=True)
            out += places[: self.max_dets]
        return out

    def make_dataset(self) -> dict:
        """The `dataset` of results: the truth's, with the highest-scoring results as
        annotations."""
        entries, _ = load(self._results, "predictions")
        made = dataset_of_results(self._truth, [entries[i] for i in self.order()])
        return {**self._truth.dataset, "annotations": made["annotations"]}

    def get_top_results(self, img_id, score_thrs: float) -> list[dict]:
        """The results of an image with a score above `score_thrs`."""
        return [entry for entry in self.imgToAnns[img_id] if entry["score"] > score_thrs]
