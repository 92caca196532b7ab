"""Evaluators of torchvision's references and of detectron2 (rotated boxes), with ours and with pycocotools.

The classes are those of the clones; the data are random. Run by `acceptance.py`.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import types

import numpy as np
import pytest
from permafrost.evaluators.detection import init_as_pycocotools

SIDE = 64


def random_truth(rng, *, rotated: bool = False) -> dict:
    images = [{"id": i, "width": SIDE, "height": SIDE} for i in range(1, 6)]
    annotations = []
    for number, (image, _) in enumerate(itertools.product(images, range(6)), 1):
        x, y, w, h = rng.integers(8, SIDE // 2, 4).tolist()
        points = [[x + i % 4, y + i // 4, 2] for i in range(17)]
        annotations.append(
            {
                "id": number,
                "image_id": image["id"],
                "category_id": int(rng.integers(1, 3)),
                "iscrowd": int(not rotated and rng.random() < 0.1),
                "bbox": [x, y, w, h, float(rng.integers(0, 90))] if rotated else [x, y, w, h],
                "area": w * h,
                "segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]],
                "keypoints": np.ravel(points).tolist(),
                "num_keypoints": 17,
            }
        )
    categories = [{"id": k, "name": f"kind {k}"} for k in (1, 2)]
    return {"images": images, "categories": categories, "annotations": annotations, "info": {}}


def index_of(truth: dict):
    from pycocotools.coco import COCO

    data = COCO()
    data.dataset = truth
    data.createIndex()
    return data


def with_both(modules: list[str], call) -> list:
    """What `call` gives with pycocotools, and with ours; `modules` are imported anew for each."""
    found = []
    for stand_in in (False, True):
        for name in modules:
            sys.modules.pop(name, None)
        if stand_in:
            with init_as_pycocotools():
                found.append(call())
        else:
            found.append(call())
    return found


def assert_equal(theirs, ours) -> None:
    assert "permafrost" in repr(type(ours).__mro__) and "permafrost" not in repr(
        type(theirs).__mro__
    )
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(theirs.eval[name], ours.eval[name]), name
    assert np.array_equal(theirs.stats, ours.stats)
    assert theirs.stats[0] > 0


@pytest.mark.parametrize("iou_type", ["bbox", "segm", "keypoints"])
@pytest.mark.parametrize("seed", range(3))
def test_torchvision(iou_type, seed):
    torch = pytest.importorskip("torch")
    # older references ask for a module that torch no longer has
    sys.modules.setdefault("torch._six", types.SimpleNamespace(string_classes=str))
    rng = np.random.default_rng(seed)
    truth = random_truth(rng)
    predictions = {image["id"]: {} for image in truth["images"]}
    for image in list(predictions)[:-1]:
        own = [e for e in truth["annotations"] if e["image_id"] == image]
        boxes = torch.tensor([e["bbox"] for e in own], dtype=torch.float32)
        boxes[:, 2:] += boxes[:, :2]
        points = torch.tensor([e["keypoints"] for e in own], dtype=torch.float32)
        masks = torch.zeros(len(own), 1, SIDE, SIDE)
        for pixels, (left, top, right, bottom) in zip(masks, boxes.int().tolist(), strict=True):
            pixels[:, top + 1 : bottom, left:right] = 1
        predictions[image] = {
            "boxes": boxes + torch.tensor(rng.normal(0, 1, boxes.shape), dtype=torch.float32),
            "labels": torch.tensor([e["category_id"] for e in own]),
            "scores": torch.tensor(np.round(rng.random(len(own)), 1)),
            "masks": masks,
            "keypoints": points.reshape(-1, 17, 3)
            + torch.tensor(rng.integers(0, 4, (len(own), 17, 3))),
        }

    def call():
        evaluator = importlib.import_module("coco_eval").CocoEvaluator(index_of(truth), [iou_type])
        for part in itertools.batched(predictions.items(), 2):
            evaluator.update(dict(part))
        evaluator.synchronize_between_processes()
        evaluator.accumulate()
        evaluator.summarize()
        return evaluator.coco_eval[iou_type]

    assert_equal(*with_both(["coco_eval", "utils"], call))


def rotated_overlap(detected, true):
    """(D, G) IoU of boxes (centre x, centre y, width, height, degrees); detectron2's is compiled."""
    import torch
    from shapely import affinity, box

    def shape(row):
        x, y, w, h, angle = row
        whole = box(x - w / 2, y - h / 2, x + w / 2, y + h / 2)
        return affinity.rotate(whole, -angle, origin=(x, y))

    first, second = ([shape(row) for row in each.tensor.tolist()] for each in (detected, true))
    values = [[a.intersection(b).area / a.union(b).area for b in second] for a in first]
    return torch.tensor(values).reshape(len(first), len(second))


@pytest.mark.parametrize("seed", range(3))
def test_detectron2_rotated(seed):
    rng = np.random.default_rng(seed)
    truth = random_truth(rng, rotated=True)
    found = [
        {
            **{key: entry[key] for key in ("image_id", "category_id")},
            "bbox": (np.array(entry["bbox"]) + rng.normal(0, 1, 5)).tolist(),
            "score": float(rng.random()),
        }
        for entry in truth["annotations"]
    ]

    name = "detectron2.evaluation.rotated_coco_evaluation"

    def call():
        module = importlib.import_module(name)
        module.pairwise_iou_rotated = rotated_overlap
        evaluator = types.SimpleNamespace()
        evaluate = module.RotatedCOCOEvaluator._evaluate_predictions_on_coco
        return evaluate(evaluator, index_of(truth), found)

    assert_equal(*with_both([name], call))
