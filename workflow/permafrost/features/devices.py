"""The device that a user names, and how it is called in the record."""

from __future__ import annotations

import platform
import re

import torch

from permafrost.core.device import resolve_device
from permafrost.core.errors import PermafrostError


def choose_device(name: str) -> torch.device:
    """``auto`` (see `resolve_device`), ``cpu``, ``cuda`` or ``cuda:N``; one that is not there is refused."""
    name = resolve_device(name, "torch")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise PermafrostError(
            f"unknown device {name!r}", where="device", remedy="use auto, cpu, cuda or cuda:N"
        )
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise PermafrostError(
            f"there is no device {name} ({torch.cuda.device_count()} GPUs are visible to torch"
            f" {torch.__version__})",
            where="device",
            remedy="use device: auto or cpu, or install the CUDA environment",
        )
    return device


def device_name(device: torch.device) -> str:
    """The model of the GPU or CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        with open("/proc/cpuinfo") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
