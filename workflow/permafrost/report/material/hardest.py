"""Which test images no backbone gets: how far off each evaluation is on each image, and the least of that."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.core.tables import read_table
from permafrost.core.tasks import task_of
from permafrost.report.figures.detections import Answer
from permafrost.report.material.dataset import Evaluation, Material
from permafrost.report.material.masks import read_dense
from permafrost.report.material.objects import read_detected
from permafrost.report.material.rasters import read_rasters
from permafrost.statistics.predictions.columns import array_of


@dataclass(frozen=True)
class Hardest:
    """Test images, those first on which even the closest evaluation is farthest off.

    Attributes
    ----------
    sample_ids : N names of images that every evaluation answers with some error.
    least : (N,) error of the closest evaluation; see `errors_of` for what it is.
    count : number of test images whose error every evaluation has.
    """

    sample_ids: list[str]
    least: np.ndarray
    count: int


def hardest_images(material: Material, evaluations: list[Evaluation]) -> Hardest:
    """Order the test images by their smallest error, then by their mean error, then by name.

    Images that some evaluation lacks, or that have no error (a mask without a scored pixel), are left out.
    """
    found = [errors_of(material, one) for one in evaluations]
    shared = sorted(set.intersection(*(set(errors) for errors in found)))
    errors = np.array([[one[name] for name in shared] for one in found])
    errors = errors.reshape(len(found), len(shared))
    known = np.isfinite(errors).all(axis=0)
    least, mean = (np.where(known, errors, 0).min(axis=0), np.where(known, errors, 0).mean(axis=0))
    order = np.lexsort((np.arange(len(shared)), -mean, -least))
    order = order[least[order] > 0]
    return Hardest([shared[place] for place in order], least[order], int(known.sum()))


def errors_of(material: Material, evaluation: Evaluation) -> dict[str, float]:
    """Sample id -> how far an evaluation is off on that test image; 0 where it is right.

    Of one class 0 or 1; of several labels the share of those true or predicted that are not both (Jaccard
    distance); of a mask the share of wrong pixels; of a number the absolute error and of a raster its RMSE, in
    the target's unit; of objects 1 - F1 of the detections that score enough,
    whatever the classes.
    """
    path = material.predictions[evaluation]
    expect = material.expected(path)
    targets = task_of(material.card.task).targets
    if targets == "mask":
        masks = read_dense(path, expect=expect)
        values = [1 - masks.accuracy(row) for row in range(len(masks.sample_ids))]
        return dict(zip(masks.sample_ids, values, strict=True))
    if targets == "raster":
        rasters = read_rasters(path, expect=expect)
        return dict(zip(rasters.sample_ids, rasters.rmse.tolist(), strict=True))
    if targets in ("boxes", "points"):
        detected = read_detected(path, expect=expect)
        names = detected.detected.sample_ids.tolist()
        return {name: _objects_missed(detected.answer(name)) for name in names}
    columns = ["sample_id", "target", "prediction"]
    table, _ = read_table(path, expect=expect, columns=columns)
    target, prediction = (array_of(table, name) for name in columns[1:])
    of = {"label": np.not_equal, "labels": _labels_missed, "number": _distance}[targets]
    values = of(target, prediction).astype(float).tolist()
    return dict(zip(table["sample_id"].to_pylist(), values, strict=True))


def _labels_missed(target: np.ndarray, prediction: np.ndarray) -> np.ndarray:
    """(N,) Jaccard distance of two (N, K) sets of labels; 0 where both are empty."""
    true, said = target.astype(bool), prediction.astype(bool)
    either, both = (true | said).sum(axis=1), (true & said).sum(axis=1)
    return np.where(either > 0, 1 - both / np.maximum(either, 1), 0.0)


def _distance(target: np.ndarray, prediction: np.ndarray) -> np.ndarray:
    return np.abs(target.astype(float) - prediction.astype(float))


def _objects_missed(answer: Answer) -> float:
    return 1 - answer.f1 if math.isfinite(answer.f1) else 0.0
