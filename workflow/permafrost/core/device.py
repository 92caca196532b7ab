"""What ``device: auto`` means, decided without importing a heavy library."""

from __future__ import annotations

import os
from pathlib import Path


def resolve_device(device: str) -> str:
    """``auto`` becomes ``cuda`` where the driver shows a GPU to this process, else ``cpu``."""
    if device != "auto":
        return device
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return "cuda" if Path("/dev/nvidiactl").exists() and not hidden else "cpu"
