"""What jobs ask for at their first attempt. Rules and estimates look it up here; for probes their kinds say it."""

from __future__ import annotations

from typing import NamedTuple

from permafrost.probes.kinds import KINDS


class Asked(NamedTuple):
    """Memory, the time after which a cluster ends the job, and cores; None of these: the configuration's workers."""

    memory_mb: int
    minutes: int
    threads: int | None = 1


# statistics: for a million test items (docs/simulations.md); measures: for 10,000 rows
_STAGES = {
    "prepare": Asked(4000, 120, None),
    "extract": Asked(6000, 120, None),
    "views": Asked(6000, 120, 2),
    "measure": Asked(2000, 30),
    "similarity": Asked(4000, 240),
    "profile": Asked(6000, 60),
    "bootstrap": Asked(2000, 30),
    "compare": Asked(2000, 60),
    "aggregate": Asked(2000, 30),
    "report": Asked(3000, 30),
}
_MEASURE_OF_VIEWS_MB = 4000


def asked(stage: str, *, kind: str | None = None, views: bool = False) -> Asked:
    """What a job of a stage asks for.

    Parameters
    ----------
    kind : of the probe, where the stage is ``probe``. views : the job measures augmented views too.
    """
    if kind is not None:
        known = KINDS[kind]
        return Asked(known.memory_mb, known.minutes, 2 if known.reads == "images" else 1)
    if stage == "measure" and views:
        return _STAGES[stage]._replace(memory_mb=_MEASURE_OF_VIEWS_MB)
    return _STAGES[stage]


def device_of(kind: str, device: str) -> str:
    """Where the job of a probe runs, by what the configuration names: ``auto`` is the CPU for kinds that are light."""
    gpu = KINDS[kind].gpu
    return "cpu" if gpu == "never" or (gpu == "named" and device == "auto") else device
