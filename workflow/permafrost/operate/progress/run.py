"""Access to Snakemake's workflow for the view of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from permafrost.core.device import takes_gpu
from permafrost.core.snakemake_internals import (
    dependent_jobs,
    failed_jobs,
    jobs_to_run,
    log_files,
    read_records,
    redirect_jobs,
    resources_set,
)
from permafrost.operate.progress.counts import key_of
from permafrost.operate.progress.left import TimeLeft
from permafrost.plan.object_store import bring_shown
from permafrost.plan.plan import Plan


class Run:
    """A run of a plan.

    Parameters
    ----------
    workflow : Snakemake's, when its jobs are known and before they start.
    messages : number of a failed job -> the executor's message.
    """

    def __init__(self, workflow, plan: Plan, messages: Mapping[int, str]) -> None:
        self.messages = messages
        self._workflow, self._plan = workflow, plan
        self._wanted = {_key(job) for job in jobs_to_run(workflow)}
        self._kept: list = []

    def targets(self) -> set[str]:
        """Names of the rules without output, which only collect others."""
        return {rule.name for rule in self._workflow.rules if not rule.output}

    def log_here(self, log: str, since: float) -> str:
        """The local path of a job's log, downloaded if results are on an object store.

        Parameters
        ----------
        log : as Snakemake's message names it.
        since : start of the run, seconds since 1970; older logs are not downloaded.
        """
        return bring_shown(self._workflow, log, since=since)

    def time_left(self, cores: int | None) -> TimeLeft:
        """The remaining time of this run's jobs on `cores` cores; None: on a cluster."""
        return TimeLeft(lambda: self._estimate(cores), self._wanted, self._lost, cores)

    def _lost(self) -> set[tuple]:
        """(stage, names) of the failed jobs, and of all jobs that depend on them."""
        failed = failed_jobs(self._workflow)
        left = [job for one in failed for job in (one.jobs if one.is_group() else [one])]
        found = set()
        while left:
            job = left.pop()
            if job not in found:
                found.add(job)
                left += dependent_jobs(self._workflow, job)
        return {_key(job) for job in found}

    def _estimate(self, cores: int | None):
        from permafrost.operate.estimate.estimate import Machines, estimate
        from permafrost.operate.estimate.work import default_rates

        return estimate(
            self._plan,
            default_rates(),
            Machines(cores or 1, int(self._takes_gpu(cores))),
            results=self._plan.config["results"],
            records=read_records(Path.cwd()),
        )

    def _takes_gpu(self, cores: int | None) -> bool:
        """Whether this machine has a GPU; on a cluster, whether the profile requests one."""
        if cores is not None:
            return takes_gpu(self._plan.config["runtime"]["device"])
        return any("gpu" in resources for resources in resources_set(self._workflow))

    def keep_output(self) -> None:
        """Redirect the output of jobs to Snakemake's log, so it does not disturb the view."""
        # without a log, on a full disk for example, the output goes to the terminal
        with contextlib.suppress(OSError):
            if logs := self.printed():
                self._kept.append(redirect_jobs(open(logs[-1], "a")))  # noqa: SIM115

    def printed(self) -> list[Path]:
        """Files with what the jobs' commands print."""
        return log_files(self._workflow)

    def release_output(self) -> None:
        """End the redirection, for commands that run after all jobs."""
        if self._kept:
            redirect_jobs(self._kept.pop())


def _key(job) -> tuple:
    return key_of(job.rule.name, job.wildcards_dict)
