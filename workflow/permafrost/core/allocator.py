"""How this process gets memory from the system."""

from __future__ import annotations

import ctypes

# parameters of mallopt(3) in glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let the C library keep large blocks that were freed, for the next that are asked for.

    It gives each block of a few megabytes back to the system at once, which must clear its pages
    for the next batch. Networks ask for the same blocks batch after batch: on a CPU a forward pass
    took twice as long for it (benchmarks/README.md). No result changes.

    Returns
    -------
    Whether the C library can be told so (glibc can).
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(tell(_M_MMAP_MAX, 0)) and bool(tell(_M_TRIM_THRESHOLD, _LARGEST))
