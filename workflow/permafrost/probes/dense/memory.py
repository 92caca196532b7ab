"""Whether maps are kept in memory."""

from __future__ import annotations

import sys

from permafrost.core.memory import available_bytes

# share of what is free that a split may fill; train and validation, and other jobs of the same run,
# decide at the same time
CPU_SHARE, GPU_SHARE = 0.25, 0.3


def fits(
    needed: int, device, *, label: str, budget: int | None = None, what: str = "maps and masks"
) -> bool:
    """Whether `needed` bytes may be kept on `device` (a torch.device); says why on standard error.

    `budget` stands for the measured memory where it is given.
    """
    if budget is not None:
        allowed, source = budget, "allowed"
    elif device.type == "cuda":
        import torch

        allowed, source = int(torch.cuda.mem_get_info(device)[0] * GPU_SHARE), "of free GPU memory"
    else:
        free = available_bytes()
        allowed = 0 if free is None else int(free * CPU_SHARE)
        source = "of free memory" if free is not None else "(free memory unknown)"
    kept = needed <= allowed
    how = "kept in memory" if kept else "streamed from the store"
    sizes = f"{needed / 2**20:.0f} MiB of {what}, {allowed / 2**20:.0f} MiB {source}"
    print(f"{label}: {how} ({sizes})", file=sys.stderr, flush=True)
    return kept
