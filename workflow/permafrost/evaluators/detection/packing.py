"""Pack an evaluation into plain arrays and JSON, and restore it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

import numpy as np

from permafrost.metrics.detection.accumulate import accumulate
from permafrost.metrics.detection.axes import Axes
from permafrost.metrics.detection.cells import Cells
from permafrost.metrics.detection.evaluation import Evaluation, Settings
from permafrost.metrics.detection.inputs.tables import (
    Categories,
    Detections,
    Images,
    Notes,
    Truths,
    Whole,
    digest,
    plain,
)
from permafrost.metrics.detection.kernels import Problem
from permafrost.metrics.detection.masks.runs import Masks
from permafrost.metrics.detection.matching import Matching
from permafrost.metrics.detection.pairs import Pairs
from permafrost.metrics.detection.ragged import offsets_of
from permafrost.metrics.detection.summarise import statistics

_TABLES = {
    "images": Images,
    "truths": Truths,
    "detections": Detections,
    "cells": Cells,
    "pairs": Pairs,
    "matching": Matching,
    "truth_masks": Masks,
    "detection_masks": Masks,
}


def describe(evaluation: Evaluation) -> dict:
    """The JSON that `restore` needs with the arrays; joined parts must share its ``identity``."""
    return {
        "identity": _identity(evaluation),
        "whole_images": _whole(evaluation).images,
        "names": list(evaluation.truths.categories.names),
        "frequencies": evaluation.truths.categories.frequencies,
        "counts": [evaluation.cells.buckets, evaluation.cells.images],
        "truths": _notes(evaluation.truths),
        "detections": _notes(evaluation.detections),
    }


def _whole(evaluation: Evaluation) -> Whole:
    whole = evaluation.problem.whole
    return whole or Whole(digest(evaluation.truths), len(evaluation.truths.images))


def _identity(evaluation: Evaluation) -> dict:
    """The settings and data that joined parts must share, as JSON."""
    settings = asdict(evaluation.settings)
    axes = evaluation.axes
    sigmas = evaluation.problem.sigmas
    return {
        "kernel": settings.pop("iou_type"),
        **settings,
        "iou_thresholds": axes.thresholds.tolist(),
        "recall_grid": axes.recall_grid.tolist(),
        "area_ranges": [
            [name, *bounds]
            for name, bounds in zip(axes.area_names, axes.areas.tolist(), strict=True)
        ],
        "max_dets": list(axes.max_dets),
        "sigmas": None if sigmas is None else sigmas.tolist(),
        "categories": evaluation.truths.categories.ids.tolist(),
        # last: the options decide what is read of a truth and what is ignored
        "dataset": _whole(evaluation).digest,
    }


def _notes(table: Truths | Detections) -> dict:
    return {
        "source": table.source,
        "warnings": table.notes.warnings,
        "dropped": table.notes.dropped,
    }


def arrays_of(evaluation: Evaluation) -> dict[str, np.ndarray]:
    """All arrays by name; lists of different lengths are flattened, with offsets."""
    problem = evaluation.problem
    items = {
        "images": evaluation.truths.images,
        "truth_masks": problem.truth_masks,
        "detection_masks": problem.detection_masks,
        **{
            name: getattr(evaluation, name)
            for name in ("truths", "detections", "cells", "pairs", "matching")
        },
    }
    out = {"category_ids": evaluation.truths.categories.ids}
    for prefix, item in items.items():
        for field in fields(item) if item is not None else ():
            value = getattr(item, field.name)
            if isinstance(value, np.ndarray):
                out[f"{prefix}.{field.name}"] = value
            elif field.name == "segmentations" and value is not None:
                text = json.dumps(value, default=plain).encode()
                out[f"{prefix}.segmentations"] = np.frombuffer(text, np.uint8)
            elif field.name in ("negative", "not_exhaustive") and value is not None:
                out[f"{prefix}.{field.name}"] = np.concatenate([np.empty(0, np.int64), *value])
                out[f"{prefix}.{field.name}.offsets"] = offsets_of([len(each) for each in value])
    return out


def restore(head: dict, arrays: dict[str, np.ndarray]) -> Evaluation:
    """The evaluation from the output of `describe` and `arrays_of`."""
    identity = head["identity"]
    names, *_ = zip(*identity["area_ranges"], strict=True)
    axes = Axes(
        np.array(identity["iou_thresholds"]),
        np.array(identity["recall_grid"]),
        tuple(names),
        np.array([bounds for _, *bounds in identity["area_ranges"]]),
        tuple(identity["max_dets"]),
    )
    settings = Settings(
        iou_type=identity["kernel"],
        **{
            field.name: identity[field.name]
            for field in fields(Settings)
            if field.name != "iou_type"
        },
    )
    frequencies = head["frequencies"]
    categories = Categories(
        arrays["category_ids"],
        tuple(head["names"]),
        None if frequencies is None else tuple(frequencies),
    )
    images = _item("images", arrays)
    truths = _item("truths", arrays, **_told(head["truths"]), images=images, categories=categories)
    detections = _item("detections", arrays, **_told(head["detections"]))
    buckets, count = head["counts"]
    cells = _item("cells", arrays, buckets=buckets, images=count)
    matching = _item("matching", arrays)
    masks = {
        name: _item(name, arrays) if f"{name}.starts" in arrays else None
        for name in ("truth_masks", "detection_masks")
    }
    sigmas = None if identity["sigmas"] is None else np.array(identity["sigmas"])
    whole = Whole(identity["dataset"], head["whole_images"])
    problem = Problem(
        truths=truths,
        detections=detections,
        boundary_ratio=settings.boundary_ratio,
        sigmas=sigmas,
        whole=whole,
        **masks,
    )
    return Evaluation(
        settings,
        axes,
        accumulate(cells, matching, detections.scores[cells.detections], axes),
        tuple(statistics(settings.iou_type, axes, strict=settings.strict, lvis=settings.lvis)),
        truths,
        detections,
        cells,
        _item("pairs", arrays),
        matching,
        problem,
    )


def _told(notes: dict) -> dict:
    return {"source": notes["source"], "notes": Notes(notes["warnings"], notes["dropped"])}


def _item(prefix: str, arrays: dict[str, np.ndarray], **more):
    """One object of `_TABLES` from its arrays."""
    kind = _TABLES[prefix]
    for field in fields(kind):
        key = f"{prefix}.{field.name}"
        if key not in arrays or field.name in more:
            continue
        value = arrays[key]
        if field.name == "segmentations":
            value = json.loads(value.tobytes())
        elif field.name in ("negative", "not_exhaustive"):
            value = np.split(value, arrays[f"{key}.offsets"][1:-1])[: len(arrays["images.ids"])]
        more[field.name] = value
    return kind(**more)
