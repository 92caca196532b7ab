"""The machine that a profile is of, in words."""

from __future__ import annotations

import os
import platform

import torch

from permafrost.features.devices import device_name


def describe_hardware(device: torch.device) -> dict:
    """What times, memory and energy depend on, beside the backbone; JSON-able.

    Two profiles may be compared where all of it is equal.
    """
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count())
    return {
        "device": device.type,
        "processor": device_name(torch.device("cpu")),
        "cores": os.cpu_count(),
        "cores_usable": len(usable),
        "threads": torch.get_num_threads(),
        **_gpu(device),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def load() -> float | None:
    """Processes that ran or waited in the last minute, this one included; None where it is not known."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _gpu(device: torch.device) -> dict:
    if device.type != "cuda":
        return {}
    about = torch.cuda.get_device_properties(device)
    return {
        "gpu": about.name,
        "gpu_memory_gib": round(about.total_memory / 2**30, 1),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }
