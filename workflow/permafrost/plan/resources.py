"""Resources that jobs request at their first attempt, for rules and estimates.

Those of probes are in their kinds.
"""

from __future__ import annotations

from typing import NamedTuple

from permafrost.probes.kinds import KINDS


class Asked(NamedTuple):
    """Resources of a job: memory in MB, time limit in minutes, and cores.

    ``threads=None``: those of `reading_threads`.
    """

    memory_mb: int
    minutes: int
    threads: int | None = 1


# sized for a million test items (statistics; docs/simulations.md) and 10,000 rows (measures)
_STAGES = {
    "prepare": Asked(4000, 120, None),
    "extract": Asked(6000, 120, None),
    "resplit": Asked(4000, 60),
    "extract_harder": Asked(6000, 120, None),
    "select": Asked(2000, 30),
    "derive": Asked(4000, 60),
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
    """The resources that a job requests.

    Parameters
    ----------
    kind : of the probe, if the stage is ``probe``.
    views : the job also measures augmented views.
    """
    if kind is not None:
        known = KINDS[kind]
        return Asked(known.memory_mb, known.minutes, 2 if known.reads == "images" else 1)
    if stage == "measure" and views:
        return _STAGES[stage]._replace(memory_mb=_MEASURE_OF_VIEWS_MB)
    return _STAGES[stage]


def reading_threads(workers: int | None, cores: int = 0) -> int:
    """Threads of a job that decodes images: the option ``workers``, or a number for `cores`.

    Parameters
    ----------
    cores : of the run, if the job feeds a GPU, which would wait for two threads; the other half of
        them is for other jobs.
    """
    return workers or min(max(2, cores // 2), 8)


def device_of(kind: str, device: str) -> str:
    """The device of a probe's job, from the configuration's; ``auto``: the CPU for cheap kinds."""
    gpu = KINDS[kind].gpu
    return "cpu" if gpu == "never" or (gpu == "named" and device == "auto") else device
