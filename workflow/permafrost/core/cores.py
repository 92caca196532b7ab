"""Cores of this machine."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Number of cores that this process may use; of all where the system does not report it, as on macOS."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
