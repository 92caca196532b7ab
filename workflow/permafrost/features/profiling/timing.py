"""Timing work that is done again and again: by a clock that only runs forward, warmed up first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

#: repeats that are made however long they take, so that there are quartiles
LEAST = 3


@dataclass(frozen=True)
class Times:
    """Seconds of each repeat: ``wall`` by the clock, ``cpu`` of all threads of this process."""

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
    """Do `work` `warm_up` times unmeasured, then `repeats` times, each until the device is done with it.

    No more repeats are begun when `most_seconds` have passed, once there are `LEAST`; nor is
    more warmed up than that, once it was done. ``time.perf_counter`` is monotonic.
    """
    began = time.perf_counter()
    for done in range(warm_up):
        if done and time.perf_counter() - began > most_seconds:
            break
        work()
    finish(device)
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
    """Wait for a GPU; a CPU is done when a function returns."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
