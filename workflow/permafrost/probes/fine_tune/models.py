"""Models to train: a head on vectors or on maps, on the frozen backbone's outputs or together with the backbone."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from permafrost.features.running import Run
from permafrost.probes.dense.head_trainer import autocast
from permafrost.probes.fine_tune.depth import Layers


class VectorHead(nn.Module):
    """A linear layer on pooled features, standardised by their mean and scale before training.

    Parameters
    ----------
    mean, scale : (K,) of the frozen backbone's features of train.
    outputs : number of classes or labels; 1 for a number.
    """

    def __init__(self, mean: torch.Tensor, scale: torch.Tensor, outputs: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", scale.float())
        self.linear = nn.Linear(len(mean), outputs)

    def forward(self, features: torch.Tensor, maps, size=None) -> torch.Tensor:
        """(B, K) -> (B, outputs)."""
        return self.linear((features - self.mean) / self.scale)


class MapHead(nn.Module):
    """A segmentation head on maps of layers.

    Parameters
    ----------
    head : see `segmentation.heads`.
    size : default height and width of the logits.
    precision : precision of the head's forward pass.
    """

    def __init__(self, head: nn.Module, size: tuple[int, int], precision: str) -> None:
        super().__init__()
        self.head, self._size, self._precision = head, size, precision

    def forward(self, features: torch.Tensor, maps, size=None) -> torch.Tensor:
        """Maps (B, C, H, W), coarse to fine -> logits (B, classes, *size) float32."""
        with autocast(features.device, self._precision):
            return self.head(maps, size or self._size).float()


class OnFrozen(nn.Module):
    """A head on precomputed features and maps."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, features: torch.Tensor, maps, *, size=None) -> torch.Tensor:
        return self.head(features, maps, size)

    def groups(self, rate: float, head_rate: float, weight_decay: float) -> list[dict]:
        """Parameter groups of the optimiser: the head at `head_rate`."""
        return _groups("head", self.head.named_parameters(), head_rate, weight_decay)


class Tuned(nn.Module):
    """A backbone and a head that are trained together.

    The backbone stays in evaluation mode (no dropout), except batch normalisation: with
    `batch_norm` ``trained`` it uses (and updates) the statistics of each batch, with ``frozen`` those of the
    pretrained weights. Its scale and shift are learned in either case.

    Parameters
    ----------
    run : the backbone's run, on its device.
    decay : learning rate of a layer as a share of that of the next layer; the last one has the share `decay`
        of the full rate.
    """

    def __init__(
        self, run: Run, head: nn.Module, layers: Layers, *, batch_norm: str, decay: float
    ) -> None:
        super().__init__()
        self.backbone, self.head = run.backbone.module, head
        self._run, self._layers, self._decay = run, layers, decay
        self._batch_norm = batch_norm

    def forward(
        self, images: torch.Tensor, told: dict[str, torch.Tensor], *, size=None
    ) -> torch.Tensor:
        """Input images (B, C, H, W) and their metadata -> the head's output."""
        return self.head(*self._run.outputs(images, **told), size)

    def train(self, mode: bool = True) -> Tuned:
        super().train(False)
        self.head.train(mode)
        if mode and self._batch_norm == "trained":
            for module in batch_norms(self.backbone):
                module.train()
        return self

    def groups(self, rate: float, head_rate: float, weight_decay: float) -> list[dict]:
        """Parameter groups of the optimiser: layers of the backbone, input first, then the head at `head_rate`."""
        learned = {id(parameter) for parameter in self._run.backbone.learnable}
        named: dict[int, list] = {}
        for name, parameter in self.backbone.named_parameters():
            if id(parameter) in learned:
                named.setdefault(self._layers.places[name], []).append((name, parameter))
        found = []
        for number in sorted(named):
            share = self._decay ** (len(self._layers) - number)
            found += _groups(
                self._layers.names[number],
                named[number],
                rate * share,
                weight_decay,
                self._layers.undecayed,
            )
        return found + _groups("head", self.head.named_parameters(), head_rate, weight_decay)


def batch_norms(module: nn.Module) -> list[nn.Module]:
    """Modules of batch normalisation with running statistics."""
    found = [one for one in module.modules() if isinstance(one, _BatchNorm)]
    return [one for one in found if one.track_running_stats]


def _groups(
    layer: str,
    named: Iterable[tuple[str, nn.Parameter]],
    rate: float,
    weight_decay: float,
    undecayed: frozenset[str] = frozenset(),
) -> list[dict]:
    """Two groups of parameters: with weight decay, and without (biases, scales and shifts, and `undecayed`)."""
    decayed: list[nn.Parameter]
    others: list[nn.Parameter]
    decayed, others = [], []
    for name, parameter in named:
        plain = parameter.ndim > 1 and not name.endswith(".bias") and name not in undecayed
        (decayed if plain else others).append(parameter)
    return [
        {"params": parameters, "full": rate, "weight_decay": decay, "layer": layer}
        for parameters, decay in ((decayed, weight_decay), (others, 0.0))
        if parameters
    ]
