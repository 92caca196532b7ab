"""What the extraction of features took per image, from the logs of its jobs: a cost that needs no profile."""

from __future__ import annotations

import contextlib
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# the line of `core.progress` at the end of a split
_LINE = re.compile(r"^.* on .*/\w+: (\d+)/(\d+) images, ([\d.]+)/s$", re.MULTILINE)


@dataclass(frozen=True)
class ExtractionTime:
    """The time of one job.

    Attributes
    ----------
    milliseconds : per image, of reading, preparing, the network and writing.
    images : number of images of all splits.
    device : on which the network ran; empty if unknown.
    """

    milliseconds: float
    images: int
    device: str


def read_extraction_times(
    logs: Mapping[tuple[str, str], Path], metadata: Iterable[Mapping]
) -> dict[tuple[str, str], ExtractionTime]:
    """(dataset, backbone) -> time of the extraction; without those whose log is missing or has no times.

    A job that took its features from a cache, or joined shards, has no times.

    Parameters
    ----------
    logs : of extraction jobs. metadata : of tables of predictions, which record the device.
    """
    devices = {
        (one["dataset"], one["backbone"]): one["device"] for one in metadata if one.get("device")
    }
    found = {}
    for names, path in logs.items():
        with contextlib.suppress(OSError):
            if one := _time(path.read_text(encoding="utf-8", errors="replace")):
                found[names] = ExtractionTime(*one, devices.get(names, ""))
    return found


def _time(log: str) -> tuple[float, int] | None:
    """Milliseconds per image over all splits, and their number of images."""
    ends = [
        (int(done), float(rate))
        for done, of, rate in _LINE.findall(log)
        if done == of and float(rate) > 0
    ]
    images = sum(count for count, _ in ends)
    if not images:
        return None
    return 1000 * sum(count / rate for count, rate in ends) / images, images


def typical_times(times: Mapping[tuple[str, str], ExtractionTime]) -> dict[str, float]:
    """Backbone -> median milliseconds over the datasets on which all of these backbones have times.

    Without such a dataset there is none, since images of other sizes take other times.
    """
    backbones = {backbone for _, backbone in times}
    shared = [
        dataset
        for dataset in sorted({dataset for dataset, _ in times})
        if all((dataset, backbone) in times for backbone in backbones)
    ]
    if not shared:
        return {}
    return {
        name: statistics.median(times[dataset, name].milliseconds for dataset in shared)
        for name in sorted(backbones)
    }


def device_words(times: Iterable[ExtractionTime]) -> str:
    """The devices, or that they are not known."""
    named = sorted({one.device for one in times if one.device})
    return " and ".join(named) or "a device that was not recorded"


def brief_ms(value: float) -> str:
    """Milliseconds with two digits, or all whole ones."""
    if value >= 10:
        return f"{value:.0f}"
    return f"{value:.{max(1, 1 - math.floor(math.log10(value)))}f}" if value > 0 else "0"
