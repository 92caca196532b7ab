"""How much memory a forward pass takes at its peak, beside what the process holds already."""

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
    """Megabytes (10^6 bytes): the `held` bytes of parameters and buffers, and what `work` adds at its peak.

    On a GPU, of the tensors that torch has allocated. On a CPU, of the resident memory of the process,
    whose high-water mark is reset before; where the system can't reset it, an earlier peak may hide that
    of `work`, and then there is no value. Libraries, and what building the network took, count nowhere.
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
    """Set the high-water mark to what is resident now (Linux: proc(5), clear_refs)."""
    try:
        (_PROCESS / "clear_refs").write_text("5")
        # some kernels take the order and do nothing
        return _status("VmHWM") <= 1.05 * _status("VmRSS")
    except (OSError, ValueError, KeyError):
        return False


def _status(key: str) -> int:
    """Bytes of a line of /proc/self/status."""
    lines = (_PROCESS / "status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return 1024 * int(found[key].split()[0])


def _highest() -> int:
    """The high-water mark in bytes, which getrusage gives in kilobytes but on macOS."""
    mark = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return mark if sys.platform == "darwin" else 1024 * mark
