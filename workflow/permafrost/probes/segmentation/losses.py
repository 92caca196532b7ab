"""Losses by importable name, with checks and ignored pixels; and the unified focal loss.

Only loss classes of known libraries are allowed: a configuration must not run arbitrary code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module

import torch
from torch import nn
from torch.nn import functional

from permafrost.core.errors import PermafrostError, first_line
from permafrost.probes.dense.map_splits import MaskSplit
from permafrost.probes.segmentation.options import LossOptions

# allowed packages of losses
ROOTS = ("torch.nn", "torchgeo.losses", "segmentation_models_pytorch.losses", "kornia.losses")
OWN = "permafrost.probes.segmentation.losses"


class Loss:
    """A loss of logits (B, K, H, W) and class ids (B, H, W), without ignored pixels.

    A loss with an argument ``ignore_index`` gets the dataset's value. Any other gets the scored
    pixels as one image with a single row: exact for losses that do not depend on the position of pixels,
    such as sums over pixels or comparisons of regions.

    Parameters
    ----------
    name, arguments : as configured; lists for arguments that end in ``weight`` or ``weights`` become
        tensors with one number per class.
    ignore_index : the dataset's ignored class id; None: every pixel counts.
    """

    def __init__(
        self,
        name: str,
        arguments: dict,
        *,
        classes: int,
        ignore_index: int | None,
        device: torch.device,
        where: object = None,
    ) -> None:
        self.name, self.where, self.ignore_index = name, where, ignore_index
        kind = _find(name, where)
        accepted = _parameters(kind)
        arguments = {
            key: _value(key, value, classes, f"{where}: {key}") for key, value in arguments.items()
        }
        self._removes = False
        if ignore_index is not None:
            if "ignore_index" in accepted:
                if arguments.setdefault("ignore_index", ignore_index) != ignore_index:
                    raise PermafrostError(
                        f"the loss ignores {arguments['ignore_index']}, the dataset {ignore_index}",
                        where=where,
                        remedy="leave ignore_index out of the loss, it is taken from the dataset",
                    )
            else:
                self._removes = True
        self.module = self._build(kind, arguments).to(device)

    @classmethod
    def of(cls, options: LossOptions, train: MaskSplit, device: torch.device, where: str) -> Loss:
        """The configured loss for the classes and ignored pixels of a split."""
        return cls(
            options.name,
            options.arguments,
            classes=len(train.classes),
            ignore_index=train.ignore_index,
            device=device,
            where=f"{where}, loss",
        )

    @property
    def described(self) -> dict:
        """The record: the loss, and whether it or Permafrost excludes ignored pixels."""
        how = "removed before the loss" if self._removes else "by the loss"
        return {"name": self.name, "ignored_pixels": None if self.ignore_index is None else how}

    def __call__(
        self, logits: torch.Tensor, masks: torch.Tensor, *, scored: bool = False
    ) -> torch.Tensor | None:
        """The loss, a scalar; None if every pixel is ignored, which no caller with `scored` expects."""
        if self.ignore_index is not None:
            valid = masks != self.ignore_index
            # a GPU would have to be waited for
            if not scored and not valid.any():
                return None
            if self._removes:
                logits = logits.permute(0, 2, 3, 1)[valid].t()[None, :, None, :]
                masks = masks[valid][None, None, :]
        try:
            value = self.module(logits, masks)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # losses of other libraries may raise any error
            raise PermafrostError(
                f"the loss {self.name} failed on logits of shape {tuple(logits.shape)} and class ids of"
                f" shape {tuple(masks.shape)}: {first_line(error)}",
                where=self.where,
                remedy="choose a loss for classes that exclude each other, and its mode (multiclass)",
            ) from error
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            raise PermafrostError(
                f"the loss {self.name} does not give one number per batch",
                where=self.where,
                remedy="set its argument reduction to mean",
            )
        return value.reshape(())

    def _build(self, kind: Callable, arguments: dict) -> nn.Module:
        try:
            return kind(**arguments)
        except Exception as error:  # constructors of other libraries may raise any error
            raise PermafrostError(
                f"the loss {self.name} cannot be built: {first_line(error)}",
                where=self.where,
                remedy=f"its arguments are {', '.join(_parameters(kind)) or 'none'}",
            ) from error


def _find(name: str, where: object) -> type[nn.Module]:
    path, _, attribute = name.rpartition(".")
    allowed = any(path == root or path.startswith(f"{root}.") for root in (*ROOTS, OWN))
    if not allowed:
        raise PermafrostError(
            f"the loss {name!r} is not allowed",
            where=where,
            remedy=f"name a loss of {', '.join(ROOTS)} or {OWN}",
        )
    try:
        kind = getattr(import_module(path), attribute)
    except (ImportError, AttributeError) as error:
        raise PermafrostError(
            f"there is no loss {name!r} ({first_line(error)})",
            where=where,
            remedy="check its spelling, and that the library is installed",
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise PermafrostError(
            f"{name!r} is not a class of loss modules",
            where=where,
            remedy="name the class, such as torch.nn.CrossEntropyLoss",
        )
    return kind


def _parameters(kind: Callable) -> list[str]:
    return [name for name in inspect.signature(kind).parameters if name not in ("args", "kwargs")]


def _value(key: str, value, classes: int, where: str):
    """Lists of weights as tensors, other values unchanged."""
    if not isinstance(value, list) or not key.endswith(("weight", "weights")):
        return value
    if len(value) != classes:
        raise PermafrostError(
            f"{len(value)} weights for {classes} classes",
            where=where,
            remedy="one weight per class",
        )
    return torch.tensor(value, dtype=torch.float32)


SMOOTH = 1e-5


class UnifiedFocalLoss(nn.Module):
    """A focal cross-entropy and a focal Tversky loss in one (Yeung et al. 2022).

    For logits (B, K, H, W) and class ids (B, H, W). With p the probability of the true class, and per class
    tp, fp, fn summed over the scored pixels::

        CE     = mean over pixels of w_class (1 - p)^(1 - gamma) (-log p)
        mTI    = (tp + s) / (tp + (1 - delta) fp + delta fn + s)
        TV     = mean over classes that occur in the truth of (1 - mTI)^gamma
        loss   = lambda CE + (1 - lambda) TV

    Parameters
    ----------
    lam : share of the cross-entropy (lambda), the rest is Tversky.
    gamma : focus, in [0, 1]: a larger value suppresses easy pixels less and enhances rare classes more.
    delta : weight of false negatives in [0, 1]; false positives have 1 - delta.
    weight : weight of each class in the cross-entropy; 1 by default.
    log_cosh : use log(cosh(.)) of the Tversky part, which smooths its gradient.
    ignore_index : class id of ignored pixels.
    """

    def __init__(
        self,
        lam: float = 0.5,
        gamma: float = 0.5,
        delta: float = 0.6,
        weight: torch.Tensor | None = None,
        log_cosh: bool = False,
        ignore_index: int = -100,
    ) -> None:
        super().__init__()
        for name, value in (("lam", lam), ("gamma", gamma), ("delta", delta)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} = {value} is not between 0 and 1")
        self.lam, self.gamma, self.delta = lam, gamma, delta
        self.log_cosh, self.ignore_index = log_cosh, ignore_index
        self.register_buffer("weight", weight)

    def forward(self, logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        logits = logits.float()
        valid = masks != self.ignore_index
        classes = logits.shape[1]
        log_p = functional.log_softmax(logits.permute(0, 2, 3, 1)[valid], dim=1)
        truth = masks[valid]
        return self.lam * self._cross_entropy(log_p, truth) + (1 - self.lam) * self._tversky(
            log_p.exp(), functional.one_hot(truth, classes).to(log_p.dtype)
        )

    def _cross_entropy(self, log_p: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        log_true = log_p.gather(1, truth[:, None])[:, 0]
        # (1 - p)^(1 - gamma) has an infinite slope at p = 1
        easy = (-torch.expm1(log_true)).clamp_min(torch.finfo(log_p.dtype).eps)
        loss = -(easy ** (1 - self.gamma)) * log_true
        return (loss if self.weight is None else loss * self.weight[truth]).mean()

    def _tversky(self, p: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        hits = (p * truth).sum(dim=0)
        false, missed = p.sum(dim=0) - hits, truth.sum(dim=0) - hits
        index = (hits + SMOOTH) / (hits + (1 - self.delta) * false + self.delta * missed + SMOOTH)
        present = truth.any(dim=0)
        loss = (1 - index[present]).clamp_min(torch.finfo(p.dtype).eps) ** self.gamma
        loss = loss.mean()
        return torch.log(torch.cosh(loss)) if self.log_cosh else loss
