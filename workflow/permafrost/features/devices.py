"""Torch devices, and torch settings for reproducible numbers."""

from __future__ import annotations

import contextlib
import platform
import re
from collections.abc import Iterator, Sequence
from typing import Any

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
#: the same of `tf32`
_TF32 = (
    (torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    (torch.backends.cudnn.conv, "fp32_precision", "tf32"),
    (torch.backends.cudnn.rnn, "fp32_precision", "tf32"),
    (torch.backends.mkldnn.matmul, "fp32_precision", "ieee"),
)


@contextlib.contextmanager
def exact_numerics(threads: int | None = None) -> Iterator[None]:
    """Context with full float32 precision (no TF32), deterministic cuDNN and `threads` CPU threads.

    The previous settings are restored on exit. None keeps the number of threads.
    """
    threads_before = torch.get_num_threads()
    with _switched(_SWITCHES):
        try:
            _set_threads(threads or threads_before)
            yield
        finally:
            _set_threads(threads_before)


@contextlib.contextmanager
def tf32() -> Iterator[None]:
    """Context inside `exact_numerics` in which a GPU may use TF32; on a CPU it changes no number."""
    older = torch.get_float32_matmul_precision()
    with _switched(_TF32):
        try:
            # torch.compile asks for this older setting, and torch raises if it contradicts the newer
            torch.set_float32_matmul_precision("high")
            # "high" includes the CPU
            torch.backends.mkldnn.matmul.fp32_precision = "ieee"
            yield
        finally:
            torch.set_float32_matmul_precision(older)


@contextlib.contextmanager
def _switched(switches: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    before = [getattr(place, name) for place, name, _ in switches]
    try:
        for place, name, value in switches:
            setattr(place, name, value)
        yield
    finally:
        for (place, name, _), value in zip(switches, before, strict=True):
            setattr(place, name, value)


def _set_threads(threads: int) -> None:
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
