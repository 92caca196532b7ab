"""Readers of objects: COCO and LVIS JSON, their masks, tables of crowns, panoptic JSON, manifests."""

from __future__ import annotations

import json

from permafrost.evaluators.detection.slices import read_rows
from permafrost.evaluators.panoptic import evaluate as evaluate_panoptic

from helpers.fuzzing import Reader, detections
from helpers.fuzzing.bounds import written
from helpers.predictions.panoptic import as_bytes, panoptic_case

_TEXT = (
    "id image_id category_id bbox area iscrowd ignore segmentation keypoints num_keypoints score size counts"
    " images annotations categories width height name image_path xmin ymin xmax ymax label geometry POLYGON POINT"
    " MULTIPOLYGON EMPTY NaN Infinity 1e999 null true not_exhaustive_category_ids neg_category_ids frequency"
    " segments_info isthing file_name"
)
_WORDS = tuple(_TEXT.split())
_PANOPTIC = panoptic_case(1, images=2)


def _manifest(data: bytes) -> None:
    read_rows(written(data[1:], "rows.csv" if data[:1] == b"c" else "rows.json"))


def _panoptic(data: bytes) -> None:
    """Any bytes as the JSON of the truth, or of the predictions."""
    (truth, maps), (predicted, other) = _PANOPTIC
    path = written(data[1:], "panoptic.json")
    if data[:1] == b"t":
        evaluate_panoptic((path, maps), (predicted, other))
    else:
        evaluate_panoptic((truth, maps), (path, other))


READERS = {
    name: Reader(read, lambda name=name: detections.seeds(name), _WORDS)
    for name, read in detections.TARGETS.items()
} | {
    "manifest": Reader(
        _manifest,
        lambda: [
            b"cimage_id,weather\n1,fog\n2,sun\n",
            b"j" + json.dumps([{"image_id": 1, "weather": "fog"}]).encode(),
            b"j" + json.dumps({"images": [{"id": 1, "weather": "fog"}]}).encode(),
        ],
        _WORDS,
    ),
    "panoptic": Reader(
        _panoptic,
        lambda: [b"t" + as_bytes(_PANOPTIC[0][0]), b"p" + as_bytes(_PANOPTIC[1][0])],
        _WORDS,
    ),
}
