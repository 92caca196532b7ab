"""How far a run is: its jobs by stage, as Snakemake's events tell of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from permafrost.operate.failures import NAMES, stage_of
from permafrost.plan.grid import LABELS

#: rules whose jobs share the work of another one, by its name
PARTS = {"prepare_part": "prepare", "extract_part": "extract"}


@dataclass
class Stage:
    """The jobs of a stage, by what became of them; the others wait."""

    name: str
    total: int = 0
    done: int = 0
    running: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Job:
    """A job that has been started: what it is called, and where it logs."""

    stage: str
    key: tuple[str, tuple]
    title: str
    log: str


def key_of(rule: str, wildcards: Mapping[str, str]) -> tuple[str, tuple]:
    """Stage and names of a job, as estimates know it."""
    stage = stage_of(rule)
    labels = (*LABELS[PARTS[stage]], "part") if stage in PARTS else LABELS.get(stage, ())
    found = (wildcards.get(label, "") for label in labels)
    return stage, tuple(int(one) if one.isdigit() else one for one in map(str, found))


def job_of(rule: str, wildcards: Mapping[str, str], log: str) -> Job:
    """A job of a rule as it is shown."""
    named = {name: str(wildcards[name]) for name in (*NAMES, "part") if name in wildcards}
    if "seed" in named:
        named["seed"] = f"seed {named['seed']}"
    key = key_of(rule, wildcards)
    return Job(key[0], key, " ".join([key[0], *named.values()]), log)


class Counts:
    """The jobs of a run, fed with one event after the other.

    Attributes
    ----------
    stages : by name, in the order of the flow.
    running : number of a job -> when it was started, in seconds since 1970.
    spans : `Job.key` -> when a job that has ended well began and ended.
    """

    def __init__(self) -> None:
        self.stages: dict[str, Stage] = {}
        self.jobs: dict[int, Job] = {}
        self.running: dict[int, float] = {}
        self.spans: dict[tuple[str, tuple], tuple[float, float]] = {}
        self._failed: set[int] = set()

    def expect(self, rules: Mapping[str, int]) -> None:
        """Jobs that are to be run, by rule."""
        for rule, count in rules.items():
            self._stage(stage_of(rule)).total += count

    def start(self, number: int, job: Job, now: float) -> None:
        """A job was started, perhaps again after it had failed."""
        self.stop(number)
        self.jobs[number] = job
        if number in self._failed:
            self._failed.remove(number)
            self._stage(job.stage).failed -= 1
        self.running[number] = now
        self._stage(job.stage).running += 1

    def stop(self, number: int) -> float | None:
        """A job runs no more, whatever became of it; returns when it was started."""
        began = self.running.pop(number, None)
        if began is not None:
            self._stage(self.jobs[number].stage).running -= 1
        return began

    def finish(self, number: int, now: float) -> bool:
        """A job has ended well; returns whether it was the last one of its stage."""
        began = self.stop(number)
        if began is None:
            return False
        job = self.jobs[number]
        self.spans[job.key] = began, now
        stage = self._stage(job.stage)
        stage.done += 1
        return stage.done + stage.failed == stage.total

    def fail(self, number: int) -> None:
        """A job has failed."""
        if self.stop(number) is not None:
            self._failed.add(number)
            self._stage(self.jobs[number].stage).failed += 1

    def sum(self, what: str) -> int:
        """Jobs of all stages: ``total``, ``done``, ``running`` or ``failed``."""
        # a copy: the view is drawn in another thread
        return sum(getattr(stage, what) for stage in list(self.stages.values()))

    def _stage(self, name: str) -> Stage:
        return self.stages.setdefault(name, Stage(name))
