"""Memory available to this process, and settings of the C library's allocator."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path


def available_bytes(root: Path = Path("/")) -> int | None:
    """Free main memory in bytes under all limits of this process; None if unknown.

    The minimum of ``MemAvailable`` and of the free memory of each control group (versions 1 and 2)
    of this process. Page cache that a group can reclaim counts as free.
    """
    found = [_meminfo(root / "proc/meminfo"), *_group_limits(root)]
    return min((value for value in found if value is not None), default=None)


def _meminfo(path: Path) -> int | None:
    try:
        for line in path.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _group_limits(root: Path):
    """Free bytes of each control group, from this process's own up to the root."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, inside = line.split(":", 2)
        if controllers == "":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = base / inside.lstrip("/")
        for group in (folder, *folder.parents):
            yield _left(group, *names)
            if group == base:
                break


def _left(group: Path, limit: str, usage: str, cache: str) -> int | None:
    try:
        allowed = (group / limit).read_text().strip()
        if allowed == "max":
            return None
        left = int(allowed) - int((group / usage).read_text())
        for line in (group / "memory.stat").read_text().splitlines():
            name, value = line.split()
            if name == cache:
                left += int(value)
    except (OSError, ValueError):
        return None
    return max(left, 0)


# parameters of mallopt(3) in glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let the C library keep large freed blocks for later allocations.

    By default it returns blocks of a few megabytes to the system at once, which must clear their
    pages again for the next batch. Networks allocate the same blocks for every batch: on a CPU, a
    forward pass took twice as long (benchmarks/README.md). Results do not change.

    Returns
    -------
    Whether the C library supports this (glibc does).
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return bool(tell(_M_MMAP_MAX, 0)) and bool(tell(_M_TRIM_THRESHOLD, _LARGEST))


class _Allocated(ctypes.Structure):
    """The result of mallinfo2(3)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


# bytes at the end of the heap that may stay free, and that are left for small blocks
_FREE, _SMALL = 1 << 20, 1 << 16


@contextlib.contextmanager
def fresh_memory() -> Iterator[None]:
    """Within this context, large allocations get new memory from the system (glibc; else no effect).

    Freed memory is returned to the system. If the free end of the heap cannot be returned, because
    something else has grown the heap behind it, placeholder blocks occupy it meanwhile.
    """
    held: list[int] = []
    try:
        library = ctypes.CDLL(None)
        library.malloc_trim(0)
        asked, free, state = library.malloc, library.free, library.mallinfo2
        asked.argtypes, asked.restype = [ctypes.c_size_t], ctypes.c_void_p
        free.argtypes, free.restype, state.restype = [ctypes.c_void_p], None, _Allocated
        # a hole in the heap may take a block meant for its end; then try again
        while (left := state().keepcost) > _FREE and (block := asked(left - _SMALL)):
            held.append(block)
    except (OSError, AttributeError, TypeError):
        pass
    try:
        yield
    finally:
        for block in held:
            free(block)
