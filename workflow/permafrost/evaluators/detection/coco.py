"""COCO's index of a dataset and of results, with the interface of `pycocotools.coco.COCO`."""

from __future__ import annotations

import copy
import os
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.inputs.columns import Columns
from permafrost.metrics.detection.inputs.oriented_boxes import holds_oriented, with_areas
from permafrost.metrics.detection.inputs.parsing import load
from permafrost.metrics.detection.inputs.predictions import branch_of
from permafrost.metrics.detection.inputs.segmentations import read_masks
from permafrost.metrics.detection.masks.codec import encode

_SECTIONS = {"anns": "annotations", "imgs": "images", "cats": "categories"}


class COCO:
    """Images, categories and annotations by their ids.

    Like pycocotools' class, with four differences: it accepts a parsed dataset as well as a path,
    it never changes its arguments, it builds the index and the entries of results on first access,
    and it neither draws nor downloads images.

    Attributes
    ----------
    dataset : the parsed JSON.
    anns, imgs, cats : id to entry.
    imgToAnns, catToImgs : image id to its annotations, category id to the ids of its images.
    """

    def __init__(self, annotation_file=None) -> None:
        # arguments of `loadRes`, until the entries are first accessed
        self._results: Any
        self._truth: COCO | None
        self._results = self._truth = None
        # the dataset whose annotations are copies
        self._owned: dict | None = None
        if annotation_file is None:
            self.dataset: dict = {}
            return
        data, source = load(annotation_file, "truth")
        if not isinstance(data, dict):
            raise PermafrostError(
                "ground truth must be an object with images, categories and annotations",
                where=source,
                remedy="write COCO JSON",
            )
        self.dataset = data

    def __getattr__(self, name: str):
        # called only for attributes that do not exist yet
        if name == "dataset" and self.__dict__.get("_truth") is not None:
            self.dataset = self._owned = self.make_dataset()
        elif name in _SECTIONS:
            setattr(self, name, _by_id(self.dataset, _SECTIONS[name]))
        elif name in ("imgToAnns", "catToImgs"):
            self._index_annotations()
        if name in self.__dict__:
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def untouched_results(self):
        """The argument of `loadRes` if no entry was accessed, and so none changed; else None."""
        return None if "dataset" in self.__dict__ else self._results

    def make_dataset(self) -> dict:
        """The `dataset` of results, see `loadRes`."""
        return dataset_of_results(self._truth, self._results)

    def own_annotations(self) -> None:
        """Copy the annotations, so that marks do not change the caller's objects."""
        if self._owned is not self.dataset:
            annotations = [dict(entry) for entry in self.dataset.get("annotations", [])]
            self.dataset = self._owned = {**self.dataset, "annotations": annotations}
            self.createIndex()

    def createIndex(self) -> None:
        """Index the entries of `dataset`; call it again after changing `dataset`."""
        for name, section in _SECTIONS.items():
            setattr(self, name, _by_id(self.dataset, section))
        self._index_annotations()

    def _index_annotations(self) -> None:
        self.imgToAnns, self.catToImgs = defaultdict(list), defaultdict(list)
        for place, entry in enumerate(self.dataset.get("annotations", [])):
            self.imgToAnns[_value(entry, "image_id", "annotations", place)].append(entry)
            if "categories" in self.dataset:
                category = _value(entry, "category_id", "annotations", place)
                self.catToImgs[category].append(entry["image_id"])

    def info(self) -> None:
        """Print the dataset's ``info``."""
        for key, value in self.dataset.get("info", {}).items():
            print(f"{key}: {value}")

    def getAnnIds(self, imgIds=(), catIds=(), areaRng=(), iscrowd=None) -> list:
        """Ids of the annotations on these images, of these categories, with an area between the
        bounds `areaRng`; an empty argument restricts nothing."""
        imgIds, catIds = _listed(imgIds), _listed(catIds)
        entries = self.dataset["annotations"]
        if len(imgIds):
            entries = [e for i in imgIds if i in self.imgToAnns for e in self.imgToAnns[i]]
        if len(catIds):
            wanted = set(catIds)
            entries = [entry for entry in entries if entry["category_id"] in wanted]
        if len(areaRng):
            low, high = areaRng
            entries = [entry for entry in entries if low < entry["area"] < high]
        return [e["id"] for e in entries if iscrowd is None or e["iscrowd"] == iscrowd]

    def getCatIds(self, catNms=(), supNms=(), catIds=()) -> list:
        """Ids of the categories with these names, supercategories and ids."""
        wanted = {"name": catNms, "supercategory": supNms, "id": catIds}
        wanted = {key: set(_listed(values)) for key, values in wanted.items()}
        return [
            entry["id"]
            for entry in self.dataset["categories"]
            if all(not values or entry[key] in values for key, values in wanted.items())
        ]

    def getImgIds(self, imgIds=(), catIds=()) -> list:
        """Ids of the images that are among `imgIds` and hold all of `catIds`."""
        imgIds, catIds = _listed(imgIds), _listed(catIds)
        if not len(imgIds) and not len(catIds):
            return list(self.imgs)
        found = set(imgIds)
        for place, category in enumerate(catIds):
            own = set(self.catToImgs[category])
            found = own if place == 0 and not found else found & own
        return list(found)

    def loadAnns(self, ids=()) -> list[dict]:
        """The annotations with these ids."""
        return [self.anns[each] for each in _listed(ids)]

    def loadCats(self, ids=()) -> list[dict]:
        """The categories with these ids."""
        return [self.cats[each] for each in _listed(ids)]

    def loadImgs(self, ids=()) -> list[dict]:
        """The images with these ids."""
        return [self.imgs[each] for each in _listed(ids)]

    def loadRes(self, resFile) -> COCO:
        """Results on these images.

        Parameters
        ----------
        resFile : path of JSON in COCO's results format, the parsed list, a data frame with a row per
            detection, or an (N, 7) array of image id, x, y, width, height, score and category id.

        Raises
        ------
        PermafrostError : the file is missing, or the results are not a list. Invalid entries raise
            when they are evaluated or accessed.
        """
        if isinstance(resFile, np.ndarray):
            resFile = self.loadNumpyAnnotations(resFile)
        if isinstance(resFile, str | os.PathLike):
            if not os.path.exists(resFile):
                raise PermafrostError("the file does not exist", where=resFile)
        else:
            resFile, _ = load(resFile, "predictions")
            if not isinstance(resFile, list | tuple):
                raise PermafrostError(
                    "results must be a list with an object per detection",
                    where="predictions",
                    remedy="pass COCO's results format",
                )
        found = COCO()
        del found.dataset
        found._results, found._truth = resFile, self
        return found

    def loadNumpyAnnotations(self, data: np.ndarray) -> list[dict]:
        """The rows of an (N, 7) array as results, see `loadRes`.

        Raises
        ------
        PermafrostError : the array is not (N, 7).
        """
        data = np.asarray(data)
        if data.ndim != 2 or data.shape[1] != 7:
            raise PermafrostError(
                f"an array of results must be (N, 7), not {data.shape}",
                where="predictions",
                remedy="give image id, x, y, width, height, score and category id in each row",
            )
        return [
            {
                "image_id": int(row[0]),
                "bbox": row[1:5],
                "score": row[5],
                "category_id": int(row[6]),
            }
            for row in data.tolist()
        ]

    def annToRLE(self, ann: dict) -> Mapping:
        """The mask of an annotation as compressed run lengths: ``size`` and ``counts`` (bytes)."""
        given = ann["segmentation"]
        if isinstance(given, Mapping) and not isinstance(given["counts"], list | tuple):
            return given
        masks = self._mask(ann)
        size = [int(masks.heights[0]), int(masks.widths[0])]
        return {"size": size, "counts": encode(masks)[0]}

    def annToMask(self, ann: dict) -> np.ndarray:
        """The mask of an annotation as (height, width) uint8 of 0 and 1."""
        return self._mask(ann).dense(0)

    def _mask(self, ann: dict):
        image = self.imgs[ann["image_id"]]
        given = [ann["segmentation"]]
        where = f"annotation {ann.get('id')}"
        return read_masks(
            given, [image["height"]], [image["width"]], lambda _: where, strict=True
        ).masks

    def showAnns(self, anns, draw_bbox: bool = False) -> None:
        """Not available: Permafrost draws no annotations.

        Raises
        ------
        PermafrostError : always; drawing is not supported.
        """
        raise PermafrostError(
            "COCO.showAnns is not available",
            remedy="draw with pycocotools, or run permafrost evaluate-boxes --pictures",
        )

    def download(self, tarDir=None, imgIds=()) -> None:
        """Not available: Permafrost downloads no images.

        Raises
        ------
        PermafrostError : always; downloads are not supported.
        """
        raise PermafrostError("COCO.download is not available", remedy="use pycocotools for it")


def _listed(given):
    """One id, or several, as a list."""
    return given if hasattr(given, "__iter__") and not isinstance(given, str) else [given]


def _value(entry, key: str, section: str, place: int):
    if not isinstance(entry, Mapping) or key not in entry:
        raise PermafrostError(f"has no {key}", where=f"{section}[{place}]")
    return entry[key]


def _by_id(dataset: Mapping, section: str) -> dict:
    entries = enumerate(dataset.get(section, []))
    return {_value(entry, "id", section, place): entry for place, entry in entries}


def dataset_of_results(truth: COCO, results) -> dict:
    """The dataset that pycocotools builds from results: each entry with an id, area and box.

    Raises
    ------
    PermafrostError : results are not a list; an invalid entry, or an image that the truth lacks.
    """
    entries, source = load(results, "predictions")
    if not isinstance(entries, list | tuple):
        raise PermafrostError(
            "results must be a list with an object per detection",
            where=source,
            remedy="pass COCO's results format",
        )
    columns = Columns(list(entries), source, "")
    foreign = [
        i for i, e in enumerate(columns.identities("image_id").tolist()) if e not in truth.imgs
    ]
    columns.refuse(foreign, "image_id is not among the images of the truth", key="image_id")
    oriented = len(columns) and holds_oriented(columns.first())
    branch = "" if oriented else branch_of(columns)
    if oriented:
        made = with_areas(columns)
    elif columns.raw(branch) and branch == "segmentation":
        made = _with_masks(entries, columns)
    else:
        made = [_with_box(entry, branch, columns, row) for row, entry in enumerate(entries)]
    for number, entry in enumerate(made, 1):
        entry["id"] = number
    head = {key: copy.deepcopy(truth.dataset[key]) for key in ("info",) if key in truth.dataset}
    images = list(truth.dataset.get("images", []))
    categories = copy.deepcopy(truth.dataset.get("categories", []))
    return {**head, "images": images, "categories": categories, "annotations": made}


def _with_box(entry: dict, branch: str, columns: Columns, row: int) -> dict:
    numbers = entry[branch]
    numbers = numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
    # a subclass may compare rotated boxes, which have more than four numbers
    needed = 4 if branch == "bbox" else 3
    if not isinstance(numbers, list | tuple) or len(numbers) < needed:
        columns.refuse([row], f"{branch} is not a list of {needed} numbers or more", key=branch)
    if branch == "bbox":
        x, y, width, height = numbers[:4]
        right, bottom = x + width, y + height
        polygon = [[x, y, x, bottom, right, bottom, right, y]]
        return {"segmentation": polygon, **entry, "area": width * height, "iscrowd": 0}
    xs, ys = numbers[0::3], numbers[1::3]
    box = [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)]
    return {**entry, "area": box[2] * box[3], "bbox": box}


def _with_masks(entries, columns: Columns) -> list[dict]:
    masks = [entry["segmentation"] for entry in entries]
    # results must be compressed run lengths, which include the size
    sizes = [mask.get("size") if isinstance(mask, Mapping) else None for mask in masks]
    wrong = [i for i, size in enumerate(sizes) if size is None]
    columns.refuse(wrong, "the segmentation is not compressed run lengths")
    heights, widths = np.array(sizes, np.int64).reshape(-1, 2).T
    read = read_masks(masks, heights, widths, columns.where, strict=True)
    return [
        {"bbox": box, **entry, "area": int(area), "iscrowd": 0}
        for entry, area, box in zip(entries, read.areas, read.boxes.tolist(), strict=True)
    ]
