"""Time repeated work after a warm-up, by a monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

#: minimum number of repeats, even beyond the time limit, so that quartiles exist
LEAST = 3


@dataclass(frozen=True)
class Times:
    """Seconds of each repeat: ``wall`` time, and ``cpu`` time of all threads of this process."""

    wall: list[float]
    cpu: list[float]


def time_repeats(
    work: Callable[[], object],
    device: torch.device,
    *,
    repeats: int,
    warm_up: int,
    most_seconds: float,
) -> Times:
    """Run `work` `warm_up` times unmeasured, then `repeats` times, each until the device has finished.

    Warm-up and repeats each end early after `most_seconds`, but not before one warm-up and `LEAST`
    repeats.
    """
    began = time.perf_counter()
    for done in range(warm_up):
        if done and time.perf_counter() - began > most_seconds:
            break
        work()
    finish(device)
    wall: list[float]
    cpu: list[float]
    wall, cpu = [], []
    began = time.perf_counter()
    while len(wall) < repeats:
        if len(wall) >= LEAST and time.perf_counter() - began > most_seconds:
            break
        cpu_start, start = time.process_time(), time.perf_counter()
        work()
        finish(device)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    return Times(wall, cpu)


def finish(device: torch.device) -> None:
    """Wait for the GPU to finish; does nothing for a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
