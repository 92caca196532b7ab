"""Progress of a run: numbers of jobs by stage, from Snakemake's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from permafrost.operate.failures import NAMES, stage_of
from permafrost.plan.grid import LABELS

#: rule of parts -> the rule whose work they share
PARTS = {"prepare_part": "prepare", "extract_part": "extract"}


@dataclass
class Stage:
    """Numbers of jobs of a stage, by state; the others are waiting."""

    name: str
    total: int = 0
    done: int = 0
    running: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Job:
    """A started job: its stage, key (see `key_of`), title and the path of its log."""

    stage: str
    key: tuple[str, tuple]
    title: str
    log: str


def key_of(rule: str, wildcards: Mapping[str, str]) -> tuple[str, tuple]:
    """Stage and names of a job, as in `JobEstimate`."""
    stage = stage_of(rule)
    labels = (*LABELS[PARTS[stage]], "part") if stage in PARTS else LABELS.get(stage, ())
    found = (wildcards.get(label, "") for label in labels)
    return stage, tuple(int(one) if one.isdigit() else one for one in map(str, found))


def job_of(rule: str, wildcards: Mapping[str, str], log: str) -> Job:
    """The job of a rule, with its title for display."""
    named = {name: str(wildcards[name]) for name in (*NAMES, "part") if name in wildcards}
    if "seed" in named:
        named["seed"] = f"seed {named['seed']}"
    key = key_of(rule, wildcards)
    return Job(key[0], key, " ".join([key[0], *named.values()]), log)


class Counts:
    """Counts the jobs of a run from its events.

    Attributes
    ----------
    stages : by name, in the order of the data flow.
    jobs : number of a job -> the started job.
    running : number of a job -> its start, seconds since 1970.
    spans : `Job.key` -> start and end of a successful job.
    """

    def __init__(self) -> None:
        self.stages: dict[str, Stage] = {}
        self.jobs: dict[int, Job] = {}
        self.running: dict[int, float] = {}
        self.spans: dict[tuple[str, tuple], tuple[float, float]] = {}
        self._failed: set[int] = set()

    def expect(self, rules: Mapping[str, int]) -> None:
        """Add jobs to run: rule -> number of jobs."""
        for rule, count in rules.items():
            self._stage(stage_of(rule)).total += count

    def start(self, number: int, job: Job, now: float) -> None:
        """Record the start of a job, or its restart after a failure."""
        self.stop(number)
        self.jobs[number] = job
        if number in self._failed:
            self._failed.remove(number)
            self._stage(job.stage).failed -= 1
        self.running[number] = now
        self._stage(job.stage).running += 1

    def stop(self, number: int) -> float | None:
        """Record that a job has ended; returns its start, or None if it was not running."""
        began = self.running.pop(number, None)
        if began is not None:
            self._stage(self.jobs[number].stage).running -= 1
        return began

    def finish(self, number: int, now: float) -> bool:
        """Record the success of a job; returns whether its stage is complete."""
        began = self.stop(number)
        if began is None:
            return False
        job = self.jobs[number]
        self.spans[job.key] = began, now
        stage = self._stage(job.stage)
        stage.done += 1
        return stage.done + stage.failed == stage.total

    def fail(self, number: int) -> None:
        """Record the failure of a job."""
        if self.stop(number) is not None:
            self._failed.add(number)
            self._stage(self.jobs[number].stage).failed += 1

    def sum(self, what: str) -> int:
        """The number of jobs of all stages: ``total``, ``done``, ``running`` or ``failed``."""
        # a copy, because the view is drawn in another thread
        return sum(getattr(stage, what) for stage in list(self.stages.values()))

    def _stage(self, name: str) -> Stage:
        return self.stages.setdefault(name, Stage(name))
