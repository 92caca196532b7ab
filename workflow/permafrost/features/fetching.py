"""What the forward pass made, on its way from the device to the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Outputs:
    """Of one batch: ``features`` (n, K) float32, ``maps`` (n, C, H, W) each, and whether each map is finite."""

    features: np.ndarray
    maps: Sequence[np.ndarray] = ()
    finite: Sequence[bool] = ()


def fetch(features: torch.Tensor, maps: Sequence[torch.Tensor]) -> Callable[[], Outputs]:
    """A function that returns the outputs as arrays; on a GPU the copy runs meanwhile."""
    tensors = [features, *maps, *map(total, maps)]
    wait = _copied(tensors) if features.device.type == "cuda" else lambda: tensors

    def outputs() -> Outputs:
        rows, *rest = (tensor.numpy() for tensor in wait())
        found, totals = rest[: len(maps)], rest[len(maps) :]
        return Outputs(rows, found, [bool(np.isfinite(value)) for value in totals])

    return outputs


def total(values: torch.Tensor) -> torch.Tensor:
    """Their sum, which is finite if they all are: one pass on the device instead of three on the host."""
    return values.sum(dtype=torch.float64 if values.dtype == torch.float32 else torch.float32)


def _copied(tensors: Sequence[torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
    hosts = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
    for host, one in zip(hosts, tensors, strict=True):
        host.copy_(one, non_blocking=True)
    done = torch.cuda.Event()
    done.record()

    def wait() -> list[torch.Tensor]:
        done.synchronize()
        return hosts

    return wait
