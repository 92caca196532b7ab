"""Torch devices, and torch settings for reproducible numbers."""

from __future__ import annotations

import contextlib
import platform
import re
from collections.abc import Iterator

import torch

from permafrost.core.device import resolve_device
from permafrost.core.errors import PermafrostError


def choose_device(name: str) -> torch.device:
    """The torch device for ``auto`` (see `resolve_device`), ``cpu``, ``cuda`` or ``cuda:N``.

    Raises
    ------
    PermafrostError : the name is unknown, or torch does not see this device.
    """
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
    """Model name of the GPU or CPU."""
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


#: (object, attribute, value inside of `exact_numerics`)
_SWITCHES = (
    (torch.backends.cuda.matmul, "fp32_precision", "ieee"),
    (torch.backends.cudnn.conv, "fp32_precision", "ieee"),
    (torch.backends.cudnn.rnn, "fp32_precision", "ieee"),
    (torch.backends.mkldnn.matmul, "fp32_precision", "ieee"),
    (torch.backends.mkldnn.conv, "fp32_precision", "ieee"),
    (torch.backends.cudnn, "deterministic", True),
    (torch.backends.cudnn, "benchmark", False),
)


@contextlib.contextmanager
def exact_numerics(threads: int | None = None) -> Iterator[None]:
    """Context with full float32 precision (no TF32), deterministic cuDNN and `threads` CPU threads.

    The previous settings are restored on exit. None keeps the number of threads.
    """
    before = [getattr(place, name) for place, name, _ in _SWITCHES]
    threads_before = torch.get_num_threads()
    try:
        for place, name, value in _SWITCHES:
            setattr(place, name, value)
        _set_threads(threads or threads_before)
        yield
    finally:
        for (place, name, _), value in zip(_SWITCHES, before, strict=True):
            setattr(place, name, value)
        _set_threads(threads_before)


def _set_threads(threads: int) -> None:
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
