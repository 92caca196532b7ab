"""Losses by importable name: found in a few libraries, told what to ignore, checked on their way.

Only classes of loss modules of known libraries can be named: a configuration must not run code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module

import torch
from torch import nn

from permafrost.core.errors import PermafrostError, first_line
from permafrost.probes.dense.choice import LossOptions
from permafrost.probes.dense.mask_splits import MaskSplit

# where a loss may come from; of permafrost itself one module
ROOTS = ("torch.nn", "torchgeo.losses", "segmentation_models_pytorch.losses", "kornia.losses")
OWN = "permafrost.probes.segmentation.unified_focal"


class Loss:
    """A loss of logits (B, K, H, W) and class ids (B, H, W), blind to ignored pixels.

    A loss with an argument ``ignore_index`` is given the dataset's. Any other is given the pixels that
    are left, as one image of a single row: exact for losses that sum over pixels or compare regions,
    wherever the pixels lie.

    Parameters
    ----------
    name, arguments : as configured; lists for arguments that end in ``weight`` or ``weights`` become
        tensors of one number per class.
    ignore_index : of the dataset; None: every pixel counts.
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
        """The configured loss for what a split holds."""
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
        """What is recorded: the loss, and who leaves ignored pixels out."""
        how = "removed before the loss" if self._removes else "by the loss"
        return {"name": self.name, "ignored_pixels": None if self.ignore_index is None else how}

    def __call__(self, logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor | None:
        """The loss, a scalar; None where every pixel is ignored."""
        if self.ignore_index is not None:
            valid = masks != self.ignore_index
            if not valid.any():
                return None
            if self._removes:
                logits = logits.permute(0, 2, 3, 1)[valid].t()[None, :, None, :]
                masks = masks[valid][None, None, :]
        try:
            value = self.module(logits, masks)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # losses of other libraries fail in their own ways
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
        except Exception as error:  # constructors of other libraries fail in their own ways
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
            f"the loss {name!r} may not be used",
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
    """Lists of weights as tensors, everything else as it is."""
    if not isinstance(value, list) or not key.endswith(("weight", "weights")):
        return value
    if len(value) != classes:
        raise PermafrostError(
            f"{len(value)} weights for {classes} classes",
            where=where,
            remedy="one weight per class",
        )
    return torch.tensor(value, dtype=torch.float32)
