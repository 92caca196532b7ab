"""The hardest test images: error of each evaluation per image, and the smallest of these."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from permafrost.core.tables import read_table
from permafrost.core.targets import (
    Boxes,
    ClassMask,
    ManyLabels,
    Number,
    NumberRaster,
    OneClass,
    by_targets,
)
from permafrost.core.tasks import targets_of
from permafrost.report.material.dataset import Evaluation, Material
from permafrost.report.material.masks import read_dense
from permafrost.report.material.objects import read_detected
from permafrost.report.material.rasters import read_rasters
from permafrost.statistics.predictions.columns import array_of


@dataclass(frozen=True)
class Hardest:
    """Test images, sorted by the error of the best evaluation, largest first.

    Attributes
    ----------
    sample_ids : N names of images on which every evaluation has some error.
    least : (N,) smallest error of any evaluation; see `error_of` for its definition.
    count : number of test images for which every evaluation has an error value.
    """

    sample_ids: list[str]
    least: np.ndarray
    count: int


def hardest_images(material: Material, evaluations: list[Evaluation]) -> Hardest:
    """Order the test images by their smallest error, then by their mean error, then by name.

    Images that an evaluation lacks, or without a defined error (a mask without a scored pixel), are
    excluded.
    """
    found = [errors_of(material, one) for one in evaluations]
    shared = sorted(set.intersection(*(set(errors) for errors in found)))
    errors = np.array([[one[name] for name in shared] for one in found])
    errors = errors.reshape(len(found), len(shared))
    known = np.isfinite(errors).all(axis=0)
    errors = np.where(known, errors, 0)
    least, mean = errors.min(axis=0), errors.mean(axis=0)
    order = np.lexsort((np.arange(len(shared)), -mean, -least))
    order = order[least[order] > 0]
    return Hardest([shared[place] for place in order], least[order], int(known.sum()))


def errors_of(material: Material, evaluation: Evaluation) -> dict[str, float]:
    """Sample id -> error of an evaluation on that test image, see `error_of`; 0 if it is right."""
    path = material.predictions[evaluation]
    names, values = error_of(material).read(path, material.expected(path))
    return dict(zip(names, np.asarray(values, float).tolist(), strict=True))


@dataclass(frozen=True)
class Error:
    """Error of a prediction, for one form of targets.

    Attributes
    ----------
    read : returns names and errors of the N test images in a predictions file, after checking its
        fingerprint.
    least : words for the smallest error of all backbones; by : the kind of error, in a sentence on
        all images; unit : what the number is, in a legend.
    """

    read: Callable[[Path, str | None], tuple[Sequence[str], ArrayLike]]
    least: Callable[[float], str] = lambda error: ""
    by: str = ""
    unit: str = "wrong"


def error_of(material: Material) -> Error | None:
    """The error for the task of a dataset; None if its targets have none."""
    return by_targets(_ERRORS, targets_of(material.card.task))


def _of_columns(error: Callable[[np.ndarray, np.ndarray], np.ndarray]):
    """Errors from targets and predictions in a table, one row per image."""

    def read(path: Path, expect: str | None) -> tuple[list[str], np.ndarray]:
        wanted = ["sample_id", "target", "prediction"]
        table, _ = read_table(path, expect=expect, columns=wanted)
        target, prediction = (array_of(table, name) for name in wanted[1:])
        return table["sample_id"].to_pylist(), error(target, prediction)

    return read


def _labels_missed(target: np.ndarray, prediction: np.ndarray) -> np.ndarray:
    """(N,) Jaccard distance of two (N, K) sets of labels; 0 if both are empty."""
    true, said = target.astype(bool), prediction.astype(bool)
    either, both = (true | said).sum(axis=1), (true & said).sum(axis=1)
    return np.where(either > 0, 1 - both / np.maximum(either, 1), 0.0)


def _distance(target: np.ndarray, prediction: np.ndarray) -> np.ndarray:
    return np.abs(target.astype(float) - prediction.astype(float))


def _of_masks(path: Path, expect: str | None) -> tuple[Sequence[str], list[float]]:
    masks = read_dense(path, expect=expect)
    return masks.sample_ids, [1 - masks.accuracy(row) for row in range(len(masks.sample_ids))]


def _of_rasters(path: Path, expect: str | None) -> tuple[Sequence[str], np.ndarray]:
    rasters = read_rasters(path, expect=expect)
    return rasters.sample_ids, rasters.rmse


def _of_objects(path: Path, expect: str | None) -> tuple[Sequence[str], list[float]]:
    """1 - F1 of the detections above the threshold, ignoring classes; 0 without objects and
    detections."""
    detected = read_detected(path, expect=expect)
    errors = [1 - f1 if math.isfinite(f1) else 0.0 for f1 in detected.f1()]
    return detected.detected.sample_ids.tolist(), errors


_OBJECTS = Error(
    _of_objects,
    lambda error: f"F1 {1 - error:.2f} at most",
    "by F1, whatever the classes",
    "1 − F1",
)
# by form of targets
_ERRORS = {
    OneClass: Error(_of_columns(np.not_equal)),
    ManyLabels: Error(
        _of_columns(_labels_missed),
        lambda error: f"at best {1 - error:.0%} of labels",
        "by the labels that are both true and predicted, of those that are either",
        "share of labels wrong",
    ),
    ClassMask: Error(
        _of_masks,
        lambda error: f"at best {1 - error:.0%} of pixels",
        "by the share of pixels that are right",
        "share of pixels wrong",
    ),
    Number: Error(
        _of_columns(_distance),
        lambda error: f"off by {error:.3g} or more",
        "by the absolute error",
        "absolute error",
    ),
    NumberRaster: Error(
        _of_rasters, lambda error: f"RMSE {error:.3g} or more", "by the RMSE of an image", "RMSE"
    ),
    Boxes: _OBJECTS,
}
