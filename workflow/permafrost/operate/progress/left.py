"""The remaining time of a run, from the estimate of its jobs, corrected by finished ones."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from permafrost.operate.progress.counts import PARTS, Counts

if TYPE_CHECKING:
    from permafrost.operate.estimate.estimate import Estimate, JobEstimate

_LEAST_S = 2.0  # shortest time between two computations
# largest share of the time for computing; tens of thousands of jobs take a part of a second
_SHARE = 0.02


class TimeLeft:
    """The remaining time of a run, known once its estimate is ready.

    A thread computes the estimate, because reading the records of a large study takes seconds. If
    that fails, the remaining time stays unknown.

    Parameters
    ----------
    make : computes the estimate.
    wanted : (stage, names) of the jobs of this run.
    lost : gives those that will not run because others have failed.
    cores : cores that the jobs share; None: unknown (cluster), estimated from the jobs so far.
    """

    def __init__(
        self,
        make: Callable[[], Estimate],
        wanted: Collection[tuple],
        lost: Callable[[], Collection[tuple]],
        cores: int | None,
    ) -> None:
        self._make, self._wanted, self._lost, self._cores = make, wanted, lost, cores
        self._estimate: Estimate | None = None
        self._said: float | None
        self._said, self._at, self._next = None, 0.0, 0.0
        self.thread = threading.Thread(target=self._begin, daemon=True)
        self.thread.start()

    def _begin(self) -> None:
        try:
            found = self._make()
        except Exception:  # an estimate is optional, so no error may end the run
            return
        jobs = [replace(job, done=(job.stage, job.names) not in self._wanted) for job in found.jobs]
        if not all(job.done for job in jobs):
            self._estimate = replace(found, jobs=jobs)

    def seconds(self, counts: Counts, now: float) -> float | None:
        """The remaining seconds; None: unknown."""
        if self._estimate is None:
            return None
        if now >= self._next:
            began = time.perf_counter()
            self._said, self._at = self._compute(self._estimate, counts, now), now
            took = time.perf_counter() - began
            self._next = now + max(_LEAST_S, took / _SHARE)
        return None if self._said is None else max(self._said - (now - self._at), 0.0)

    def _compute(self, estimate: Estimate, counts: Counts, now: float) -> float | None:
        from permafrost.operate.estimate.estimate import after

        # copies, because this runs in the thread that draws
        begun = {counts.jobs[number].key: start for number, start in list(counts.running.items())}
        spans, lost = dict(counts.spans), self._lost()
        parts = Counter((PARTS[stage], names[:-1]) for stage, names in spans if stage in PARTS)
        found = after(estimate, spans)
        if self._cores is None:
            cores = _cores_taken(spans.values(), begun.values(), now)
            if cores is None:
                return None
            # gpus=0: the measured concurrency already includes jobs on GPUs
            found = replace(found, machines=replace(found.machines, cores=cores, gpus=0))
        jobs = [
            _rest(
                _without(job, parts[job.stage, job.names]), begun.get((job.stage, job.names)), now
            )
            for job in found.jobs
            if (job.stage, job.names) not in lost
        ]
        return replace(found, jobs=jobs).wall()


def _without(job: JobEstimate, parts: int) -> JobEstimate:
    """The rest of a job of which `parts` parts are finished."""
    return replace(job, seconds=job.seconds * max(1 - parts / job.parts, 0.0)) if parts else job


def _rest(job: JobEstimate, start: float | None, now: float) -> JobEstimate:
    """The rest of a job that started at `start`; None: not started."""
    return job if start is None else replace(job, seconds=max(job.seconds - (now - start), 0.0))


def _cores_taken(
    spans: Collection[tuple[float, float]], begun: Collection[float], now: float
) -> float | None:
    """The mean number of concurrent jobs so far; None before the first has ended.

    On a cluster, jobs count from their submission, so waiting is included both in their times and
    in their number.
    """
    first = min([now, *begun, *(start for start, _ in spans)])
    if not spans or now <= first:
        return None
    spent = sum(end - start for start, end in spans) + sum(now - start for start in begun)
    return max(spent / (now - first), 1.0)
