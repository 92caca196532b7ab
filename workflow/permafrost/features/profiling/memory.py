"""Measure the peak memory of a forward pass."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from permafrost.core.memory import fresh_memory
from permafrost.features.profiling.quantity import Quantity, undefined
from permafrost.features.profiling.timing import finish

UNIT = "MB"
_PROCESS = Path("/proc/self")


def peak_memory(work: Callable[[], object], device: torch.device, held: int) -> Quantity:
    """Peak memory in MB (10^6 bytes): `held` bytes of parameters and buffers, plus the peak of `work`.

    On a GPU, memory that torch allocates for tensors. On a CPU, resident memory of the process,
    whose peak is reset before; if the system cannot reset it, an earlier peak may exceed that of
    `work`, and the value is undefined. Libraries and the construction of the network do not count.
    """
    measure = _on_gpu if device.type == "cuda" else _of_process
    added, method = measure(work, device)
    if added is None:
        return undefined(UNIT, method)
    return Quantity((held + added) / 1e6, UNIT, notes={"method": method})


def _on_gpu(work: Callable[[], object], device: torch.device) -> tuple[int, str]:
    finish(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    finish(device)
    return torch.cuda.max_memory_allocated(device) - before, "allocated by torch on the GPU"


def _of_process(work: Callable[[], object], device: torch.device) -> tuple[int | None, str]:
    with fresh_memory():
        if _reset_mark():
            before = _status("VmRSS")
            work()
            return max(0, _status("VmHWM") - before), "resident memory of the process"
        before = _highest()
        work()
        after = _highest()
    if after == before:
        return None, "the process had used more memory before, and the system can't reset that mark"
    return after - before, "resident memory of the process beyond its earlier peak"


def _reset_mark() -> bool:
    """Reset the peak of resident memory (Linux: proc(5), clear_refs); returns whether it worked."""
    try:
        (_PROCESS / "clear_refs").write_text("5")
        # some kernels accept the request without an effect
        return _status("VmHWM") <= 1.05 * _status("VmRSS")
    except (OSError, ValueError, KeyError):
        return False


def _status(key: str) -> int:
    """The value of a line of /proc/self/status, in bytes."""
    lines = (_PROCESS / "status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return 1024 * int(found[key].split()[0])


def _highest() -> int:
    """Peak resident memory in bytes; getrusage returns kilobytes, except on macOS."""
    mark = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return mark if sys.platform == "darwin" else 1024 * mark
