"""The raster metrics as torchmetrics classes, for training loops.

Each keeps one (K, K) matrix of counts, summed over batches and processes, and computes the metric
once at the end, as geodl does; it does not average over batches. Classes with the same options
share their updates in a ``torchmetrics.MetricCollection``.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.extras import explained
from permafrost.evaluators.raster import assessment

with explained():
    import torch
    from torchmetrics import Metric


class RasterMetric(Metric):
    """Base class: keeps the matrix of counts; subclasses compute a metric from it.

    Parameters
    ----------
    classes : K; 2 in the binary mode.
    mode : ``multiclass``, or ``binary`` (one logit per pixel, of class 1).
    smooth, class_weights, like : see `assessment`; the binary mode scores class 1 only.
    threshold : class 1 if the sigmoid of a single logit is strictly larger.
    zero_based : targets start at 0, else at 1.
    ignore_index : target value of pixels that are not counted.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    counts: torch.Tensor

    def __init__(
        self,
        classes: int = 2,
        *,
        mode: str = "multiclass",
        smooth: float | None = None,
        class_weights=None,
        like: str | None = None,
        threshold: float = 0.5,
        zero_based: bool = True,
        ignore_index: int | None = None,
        **arguments,
    ) -> None:
        super().__init__(**arguments)
        binary = mode == "binary"
        if mode not in ("multiclass", "binary") or (binary and classes != 2):
            raise PermafrostError(f"the mode {mode!r} with {classes} classes does not exist")
        if binary and class_weights is not None:
            raise PermafrostError("the binary mode has no class weights")
        if not 0 < threshold < 1:
            raise PermafrostError(f"the threshold {threshold} is not a probability")
        weights = assessment.BINARY_WEIGHTS if binary else class_weights
        self.class_weights = assessment.check_weights(weights, classes)
        self.classes, self.binary, self.like = classes, binary, like
        self.smooth = assessment.smooth_of(smooth, like)
        self.threshold, self.first = threshold, 0 if zero_based else 1
        self.ignore_index = ignore_index
        self.add_state(
            "counts", torch.zeros(classes, classes, dtype=torch.int64), dist_reduce_fx="sum"
        )

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """Count one batch.

        Parameters
        ----------
        preds : logits (B, K, …), or (B, 1, …) in the binary mode.
        target : (B, …) or (B, 1, …) integer classes.

        Raises
        ------
        PermafrostError : shapes that do not fit, targets outside the classes, NaN.
        """
        channels = 1 if self.binary else self.classes
        if target.ndim == preds.ndim and target.shape[1] == 1:
            target = target[:, 0]
        if preds.shape[1] != channels or preds.shape[:1] + preds.shape[2:] != target.shape:
            raise PermafrostError(
                f"logits of the shape {tuple(preds.shape)} do not fit targets of"
                f" {tuple(target.shape)} and {channels} channels"
            )
        if target.is_floating_point():
            raise PermafrostError("targets are integers", remedy="call target.long()")
        if preds.isnan().any():
            raise PermafrostError("a logit is NaN")
        found = (
            (preds[:, 0].double().sigmoid() > self.threshold).long()
            if self.binary
            else preds.argmax(dim=1)
        )
        counted = torch.ones_like(target, dtype=torch.bool)
        if self.ignore_index is not None:
            counted = target != self.ignore_index
        target, found = target[counted].long() - self.first, found[counted]
        if target.numel() and (target.min() < 0 or target.max() >= self.classes):
            raise PermafrostError(
                f"targets are outside {self.first} to {self.first + self.classes - 1}",
                remedy="set ignore_index, zero_based or classes",
            )
        cells = torch.bincount(target * self.classes + found, minlength=self.classes**2)
        self.counts += cells.reshape(self.classes, self.classes)

    def compute(self) -> torch.Tensor:
        """The metric over all batches, float64."""
        value = self.measure(self.counts.cpu().numpy())
        return torch.as_tensor(np.asarray(value, np.float64), device=self.counts.device)

    def measure(self, counts: np.ndarray):
        """The metric of a (K, K) matrix of counts, rows the target."""
        raise NotImplementedError

    @property
    def _options(self) -> dict:
        return {"smooth": self.smooth, "class_weights": self.class_weights, "like": self.like}


class OverallAccuracy(RasterMetric):
    """Share of the pixels with the right class; neither smoothed nor weighted."""

    def measure(self, counts: np.ndarray):
        return assessment.overall_accuracy(counts)


class Recall(RasterMetric):
    """Weighted mean of the classes' recall."""

    def measure(self, counts: np.ndarray):
        return assessment.recall(counts, **self._options)


class Precision(RasterMetric):
    """Weighted mean of the classes' precision."""

    def measure(self, counts: np.ndarray):
        return assessment.precision(counts, **self._options)


class F1Score(RasterMetric):
    """Harmonic mean of `Recall` and `Precision`."""

    def measure(self, counts: np.ndarray):
        return assessment.f1(counts, **self._options)


class MeanIoU(RasterMetric):
    """Mean IoU over the classes that occur in targets or predictions."""

    def measure(self, counts: np.ndarray):
        return assessment.mean_iou(counts)


class CohenKappa(RasterMetric):
    """Agreement beyond chance."""

    def measure(self, counts: np.ndarray):
        return assessment.kappa(counts)
