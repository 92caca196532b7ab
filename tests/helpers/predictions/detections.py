"""Random ground truth and detections in COCO's format, full of what is rare and difficult."""

from __future__ import annotations

import numpy as np
from permafrost.metrics.detection.masks.runs import Masks, masks_of_runs

SIZES = ((60, 80), (100, 70), (64, 64), (128, 130))


def coco_case(
    seed: int,
    *,
    images: int = 12,
    categories: int = 4,
    truths: float = 4.0,
    detections: float = 8.0,
    ties: bool = True,
    whole: bool = True,
    crowds: float = 0.15,
    ignores: float = 0.0,
    first_id: int = 1,
    scale: float = 1.0,
    geometry: str = "bbox",
) -> tuple[dict, list[dict]]:
    """Ground truth and detections.

    Parameters
    ----------
    truths, detections : mean numbers per image; some images have none of either.
    ties : few distinct scores.
    whole : coordinates are whole or half pixels, so that IoUs coincide and hit thresholds.
    crowds, ignores : share of truths with iscrowd, with an explicit ignore.
    first_id : of the annotations; 0 meets the peers' id-0 quirk.
    scale : of the images, so that large areas occur.
    geometry : ``bbox``, ``segm`` (polygons, both run-length forms) or ``keypoints``.
    """
    rng = np.random.default_rng(seed)
    made = _Maker(rng, whole, geometry)
    data = {
        "images": [
            {
                "id": int(10 + 3 * i),
                "height": int(SIZES[i % 4][0] * scale),
                "width": int(SIZES[i % 4][1] * scale),
            }
            for i in range(images)
        ],
        "categories": [{"id": int(2 + 5 * k), "name": f"kind {k}"} for k in range(categories)],
        "annotations": [],
    }
    rng.shuffle(data["images"])
    results = []
    for image in data["images"]:
        mine = []
        for _ in range(rng.poisson(truths) * int(rng.random() > 0.15)):
            box = made.box(image)
            entry = {
                "id": 0,
                "image_id": image["id"],
                "category_id": int(2 + 5 * rng.integers(categories)),
                "bbox": box,
                "area": float(box[2] * box[3] * rng.choice([1.0, 0.7])),
                "iscrowd": int(rng.random() < crowds),
            }
            if rng.random() < ignores:
                entry["ignore"] = int(rng.random() < 0.7)
            made.truth_geometry(entry, image)
            mine.append(entry)
        data["annotations"] += mine
        for _ in range(rng.poisson(detections) * int(rng.random() > 0.15)):
            near = mine[rng.integers(len(mine))] if mine and rng.random() < 0.7 else None
            box = made.box(image) if near is None else made.moved(near["bbox"])
            score = rng.integers(1, 8) / 8 if ties else float(rng.random())
            entry = {
                "image_id": image["id"],
                "category_id": int(2 + 5 * rng.integers(categories))
                if near is None or rng.random() < 0.1
                else near["category_id"],
                "bbox": box,
                "score": float(score),
            }
            made.detection_geometry(entry, image, near)
            results.append(entry)
    rng.shuffle(data["annotations"])
    rng.shuffle(results)
    for number, entry in enumerate(data["annotations"]):
        entry["id"] = first_id + number
    return data, results


class _Maker:
    def __init__(self, rng, whole: bool, geometry: str) -> None:
        self.rng, self.whole, self.geometry = rng, whole, geometry

    def box(self, image: dict) -> list[float]:
        size = self.rng.uniform(0.05, 0.6, 2) * (image["width"], image["height"])
        corner = self.rng.uniform(0, 0.7, 2) * (image["width"], image["height"])
        return self._rounded([*corner, *size])

    def moved(self, box: list[float]) -> list[float]:
        if self.rng.random() < 0.2:
            return list(box)
        shift = self.rng.normal(0, 0.08, 4) * (box[2], box[3], box[2], box[3])
        return self._rounded(np.maximum(np.array(box) + shift, [-5, -5, 1, 1]))

    def _rounded(self, values) -> list[float]:
        values = np.asarray(values, float)
        if self.whole:
            values = np.maximum(np.round(values * 2) / 2, [-5, -5, 0.5, 0.5])
        return [float(v) for v in values]

    def truth_geometry(self, entry: dict, image: dict) -> None:
        if self.geometry == "segm":
            kind = self.rng.integers(4) if not entry["iscrowd"] else 3
            entry["segmentation"] = self._mask(entry["bbox"], image, kind)
        if self.geometry == "keypoints":
            x, y, w, h = entry["bbox"]
            points = np.empty((17, 3))
            points[:, :2] = self.rng.uniform(0, 1, (17, 2)) * (w, h) + (x, y)
            points[:, 2] = self.rng.integers(0, 3, 17) * int(self.rng.random() > 0.2)
            points[points[:, 2] == 0, :2] = 0
            entry["keypoints"] = [float(v) for v in points.ravel()]
            entry["num_keypoints"] = int((points[:, 2] > 0).sum())

    def detection_geometry(self, entry: dict, image: dict, near: dict | None) -> None:
        if self.geometry == "segm":
            kind = 2 if self.rng.random() < 0.8 else 3
            entry["segmentation"] = self._mask(entry["bbox"], image, kind)
        if self.geometry == "keypoints":
            x, y, w, h = entry["bbox"]
            points = np.ones((17, 3))
            points[:, :2] = self.rng.uniform(0, 1, (17, 2)) * (w, h) + (x, y)
            if near is not None:
                true = np.array(near["keypoints"]).reshape(-1, 3)
                points[:, :2] = true[:, :2] + self.rng.normal(0, 0.03, (17, 2)) * (w, h)
            entry["keypoints"] = [float(v) for v in points.ravel()]
            del entry["bbox"]

    def _mask(self, box: list[float], image: dict, kind: int):
        x, y, w, h = box
        turn = np.linspace(0, 2 * np.pi, 9)[:-1] + self.rng.uniform(0, 0.5)
        ring = np.stack(
            [x + w / 2 + w / 2 * np.cos(turn), y + h / 2 + h / 2 * np.sin(turn)], axis=1
        )
        if kind == 0:
            return [[float(v) for v in ring.ravel()]]
        if kind == 1:
            other = ring + (w / 3, 0)
            return [[float(v) for v in part.ravel()] for part in (ring, other)]
        rows, columns = np.mgrid[: image["height"], : image["width"]]
        dense = ((columns - x - w / 2) / (w / 2)) ** 2 + ((rows - y - h / 2) / (h / 2)) ** 2 <= 1
        if self.rng.random() < 0.3:
            dense &= self.rng.random(dense.shape) < 0.9
        return run_lengths(dense, compressed=kind == 2)


def run_lengths(dense: np.ndarray, *, compressed: bool) -> dict:
    """A mask in COCO's run-length forms, written here once more and plainly."""
    flat = dense.T.ravel().astype(int)
    edges = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    if flat.size and flat[0]:
        counts = [0, *counts]
    size = [int(n) for n in dense.shape]
    return {"size": size, "counts": compress(counts) if compressed else counts}


def compress(counts: list[int]) -> str:
    """COCO's string of run lengths."""
    out = []
    for i, count in enumerate(counts):
        value, more = count - counts[i - 2] if i > 2 else count, True
        while more:
            digit = value & 31
            value >>= 5
            more = value != -1 if digit & 16 else value != 0
            out.append(chr(48 + digit + 32 * more))
    return "".join(out)


def federate(truth: dict, seed: int) -> dict:
    """The same truth as LVIS has it: categories annotated in some images only."""
    rng = np.random.default_rng(seed + 1000)
    ids = [category["id"] for category in truth["categories"]]
    for place, category in enumerate(truth["categories"]):
        category["frequency"] = "rcf"[place % 3]
    for image in truth["images"]:
        present = {a["category_id"] for a in truth["annotations"] if a["image_id"] == image["id"]}
        absent = [k for k in ids if k not in present]
        image["neg_category_ids"] = [k for k in absent if rng.random() < 0.4]
        rest = [k for k in ids if k not in image["neg_category_ids"]]
        image["not_exhaustive_category_ids"] = [k for k in rest if rng.random() < 0.3]
    return truth


def masks_of_images(images) -> Masks:
    """From 2-d arrays in which everything that is not 0 is foreground."""
    runs = []
    for image in images:
        flat = (np.asarray(image) != 0).T.ravel()
        edges = np.flatnonzero(np.diff(flat, prepend=False, append=not flat[-1]))
        runs.append(np.diff(edges, prepend=0))
    heights, widths = np.array([image.shape for image in images], np.int64).T
    lengths = [len(each) for each in runs]
    return masks_of_runs(lengths, np.concatenate(runs), heights, widths)
