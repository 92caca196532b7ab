"""Estimate the jobs, time and memory of a run, by stage, and correct it by finished jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from permafrost.core.snakemake_internals import Record
from permafrost.operate.estimate.sizes import (
    ASSUMED_IMAGES,
    dataset_size,
    derived_size,
    size_of_features,
)
from permafrost.operate.estimate.work import (
    Context,
    Rates,
    forward_macs,
    read_values,
    uses_gpu,
    work_of,
)
from permafrost.operate.maps_on_disk import lacks_layers
from permafrost.plan.grid import LABELS, Grid
from permafrost.plan.parts import number_of_parts
from permafrost.plan.plan import Plan
from permafrost.plan.record import outputs_of
from permafrost.plan.resources import asked, reading_threads
from permafrost.probes.kinds import KINDS

# share of the cores' time that jobs use; for example, a job of two cores waits for two free ones
_FILLED = 0.85
# stages that run after all others, one after the other
_LAST = ("aggregate", "report")


@dataclass(frozen=True)
class JobEstimate:
    """A job and its estimated time.

    Attributes
    ----------
    kind : the kind of its probe, else its stage; rates are listed by it.
    paths : its outputs, below the working directory.
    threads : cores that it uses; gpu : it runs on a GPU.
    estimated : seconds, from the rates.
    seconds : the same, corrected by finished jobs of this run.
    span : start and end of the last job that wrote these outputs, seconds since 1970, or None.
    done : its outputs exist and belong to this plan.
    again : it was done, but another job reads its stores, which were removed or lack a layer.
    parts : number of jobs that share the work. Their times are not recorded, because their outputs
        are joined and removed.
    """

    stage: str
    kind: str
    names: tuple
    paths: tuple[str, ...]
    threads: int
    gpu: bool
    memory_mb: int
    estimated: float
    seconds: float
    span: tuple[float, float] | None = None
    done: bool = False
    again: bool = False
    parts: int = 1

    @property
    def took(self) -> float | None:
        """Seconds of the last job that wrote these outputs; None: unknown."""
        return None if self.span is None or self.parts > 1 else self.span[1] - self.span[0]

    @property
    def keys(self) -> tuple[str, str]:
        """Keys of corrections for this job, the most specific first: kind and backbone, kind."""
        backbone = self.names[1] if LABELS[self.stage][1:2] == ("backbone",) else ""
        return f"{self.kind} {backbone}".strip(), self.kind


@dataclass(frozen=True)
class Machines:
    """Total numbers of cores and GPUs (0: none) of all machines."""

    cores: float
    gpus: int


@dataclass(frozen=True)
class Estimate:
    """All jobs of a configuration.

    Attributes
    ----------
    context : sizes of datasets and features.
    corrections : key (see `JobEstimate.keys`) to the ratio of measured to estimated time.
    """

    context: Context
    jobs: list[JobEstimate]
    machines: Machines
    corrections: dict[str, float] = field(default_factory=dict)

    def wall(self, *, everything: bool = False) -> float:
        """Wall-clock seconds of the remaining jobs, which share cores and GPUs.

        Parameters
        ----------
        everything : count finished jobs too.
        """
        jobs = [job for job in self.jobs if everything or not job.done]
        early = [job for job in jobs if job.stage not in _LAST]
        on_gpu = self.machines.gpus > 0
        cores = sum(job.seconds * min(job.threads, self.machines.cores) for job in early)
        gpus = sum(job.seconds for job in early if job.gpu) if on_gpu else 0.0
        shared = max(cores / self.machines.cores / _FILLED, gpus / max(self.machines.gpus, 1))
        last = sum(job.seconds for job in jobs if job.stage in _LAST)
        return max(shared, _longest_chain(early)) + last

    @property
    def lasted(self) -> float:
        """Seconds during which at least one of the finished jobs ran."""
        total, until = 0.0, float("-inf")
        for start, end in sorted(job.span for job in self.jobs if job.span):
            total += max(end - max(start, until), 0.0)
            until = max(until, end)
        return total


def _longest_chain(jobs: Iterable[JobEstimate]) -> float:
    """Seconds of the longest chain of dependent jobs, over datasets."""
    longest: dict[tuple, float] = defaultdict(float)
    for job in jobs:
        dataset = job.names[0]
        longest[dataset, job.stage] = max(longest[dataset, job.stage], job.seconds / job.parts)
    chains: dict[str, float] = defaultdict(float)
    for (dataset, _), seconds in longest.items():
        chains[dataset] += seconds
    return max(chains.values(), default=0.0)


def estimate(
    grid: Grid,
    rates: Rates,
    machines: Machines,
    *,
    results: str,
    records: Mapping[str, Record],
    corrections: Mapping[str, float] | None = None,
    assumed: int = ASSUMED_IMAGES,
    data: Path | None = None,
) -> Estimate:
    """Estimate every job of a configuration.

    Parameters
    ----------
    grid : with a `Plan`, finished jobs are detected; else all jobs count as not done.
    results : the folder of the outputs.
    records : output to the record of its finished job; they correct the rates.
    corrections : from another run; used if `records` have none.
    assumed : number of images of a dataset of unknown size.
    data : data folder, to count images of datasets of unknown size; None: they are not counted.
    """
    context = _context(grid, Path(results), assumed, data)
    jobs = [
        _job(context, rates, machines, results, records, stage, names)
        for stage, every in grid.every().items()
        for names in every
    ]
    jobs = _with_deleted_stores(grid, results, jobs)
    known = {**(corrections or {}), **corrections_of(jobs)}
    corrected = [_corrected(job, known) for job in jobs]
    return Estimate(context, corrected, machines, known)


def uncorrected(found: Estimate) -> Estimate:
    """The estimate without corrections, as before any job was run."""
    return replace(found, jobs=[replace(job, seconds=job.estimated) for job in found.jobs])


def after(found: Estimate, spans: Mapping[tuple[str, tuple], tuple[float, float]]) -> Estimate:
    """The estimate with further finished jobs, whose times correct the others.

    Parameters
    ----------
    spans : (stage, names) of a job -> its start and end, seconds since 1970.
    """
    jobs = [
        replace(job, span=spans[job.stage, job.names], done=True)
        if (job.stage, job.names) in spans
        else job
        for job in found.jobs
    ]
    known = {**found.corrections, **corrections_of(jobs)}
    return replace(found, jobs=[_corrected(job, known) for job in jobs], corrections=known)


def corrections_of(jobs: Iterable[JobEstimate]) -> dict[str, float]:
    """Key -> ratio of measured to estimated time of the jobs with a known time."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for job in jobs:
        if job.took is None:
            continue
        for key in job.keys:
            sums[key][0] += job.took
            sums[key][1] += job.estimated
    return {key: took / estimated for key, (took, estimated) in sums.items() if estimated > 0}


def _context(grid: Grid, results: Path, assumed: int, data: Path | None) -> Context:
    sizes = {
        name: dataset_size(entry, results / "images" / name / "card.json", assumed, data)
        for name, entry in grid.datasets.items()
        if name not in grid.origins
    }
    sizes |= {name: derived_size(grid.datasets[name], sizes) for name in grid.origins}
    features = {
        (dataset, backbone): size_of_features(grid, sizes[dataset], dataset, backbone, results)
        for dataset, backbone in grid.pairs()
    }
    return Context(grid, sizes, features)


def _job(
    context: Context,
    rates: Rates,
    machines: Machines,
    results: str,
    records: Mapping[str, Record],
    stage: str,
    names: tuple,
) -> JobEstimate:
    grid = context.grid
    labels = dict(zip(LABELS[stage], names, strict=True))
    probe = grid.probes[labels["probe"]]["kind"] if stage == "probe" else None
    on_gpu = machines.gpus > 0 and uses_gpu(grid, stage, names)
    wants = asked(stage, kind=probe, views=bool(grid.viewed()))
    cores, workers = int(machines.cores), grid.config["runtime"]["workers"]
    threads = wants.threads or reading_threads(workers, cores if on_gpu else 0)
    if stage == "profile":
        threads = cores
    paths = tuple(f"{results}/{path}" for _, path, _ in outputs_of(grid, stage, labels))
    paths = paths or (f"{results}/report/index.html",)  # the report, which has no fingerprint
    made = _made(grid, stage, names, paths, records)
    parts = number_of_parts(grid, stage, *names) if stage in ("prepare", "extract") else 1
    seconds = _seconds(context, rates, stage, probe, names, threads, on_gpu)
    # each part has its own start-up time
    seconds += (parts - 1) * rates.stages[KINDS[probe].work if probe else stage].start
    return JobEstimate(
        stage,
        probe or stage,
        names,
        paths,
        threads,
        on_gpu,
        wants.memory_mb,
        seconds,
        seconds,
        span=(min(one.start for one in made), max(one.end for one in made)) if made else None,
        done=isinstance(grid, Plan) and bool(made) and _is_done(stage, paths),
        parts=parts,
    )


def _with_deleted_stores(grid: Grid, results: str, jobs: list[JobEstimate]) -> list[JobEstimate]:
    """The jobs, with finished extractions to do again if a job reads their stores, which are gone or lack a layer."""
    reading = {
        (dataset, backbone)
        for job in jobs
        if not job.done and _reads_features(grid, job)
        for one in (job.names[1:2] or grid.roots_on(job.names[0]))
        for dataset, backbone in (
            (job.names[0], one),
            *grid.read_through(job.names[0], one),
        )
    }
    return [
        replace(job, done=False, again=True)
        if job.done
        and job.stage in ("extract", "extract_harder", "select", "derive")
        and job.names in reading
        and not _has_stores(grid, results, job)
        else job
        for job in jobs
    ]


def _has_stores(grid: Grid, results: str, job: JobEstimate) -> bool:
    if not all(Path(path).exists() for path in job.paths):
        return False
    return not lacks_layers(grid, results, *job.names)


def _reads_features(grid: Grid, job: JobEstimate) -> bool:
    if job.stage == "probe":
        return KINDS[grid.probes[job.names[2]]["kind"]].reads != "images"
    return job.stage in ("measure", "similarity")


def _is_done(stage: str, paths: tuple[str, ...]) -> bool:
    # stores may be deleted after their results have been computed
    stores = ("prepare", "resplit", "extract", "extract_harder", "select", "derive", "views")
    return stage in stores or all(Path(path).exists() for path in paths)


def _made(grid: Grid, stage: str, names: tuple, paths, records: Mapping[str, Record]) -> list:
    """Records of all outputs of a job (with a `Plan`, only its own); empty if one is missing."""
    found = [records[path] for path in paths if path in records]
    if isinstance(grid, Plan):
        wanted = getattr(grid, stage)(*names).fingerprint
        found = [record for record in found if wanted in record.fingerprints]
    return found if len(found) == len(paths) else []


def _seconds(
    context: Context, rates: Rates, stage: str, probe: str | None, names, threads: int, on_gpu: bool
) -> float:
    rate = rates.stages[KINDS[probe].work if probe else stage]
    forward = forward_macs(context, stage, names)
    work = rate.each * work_of(context, stage, names)
    reading = rates.reading * read_values(context, stage, names)
    if on_gpu:
        shared = rates.gpu_speed if probe else threads
        return rate.start + reading + work / shared + forward * rates.gpu_forward
    return rate.start + (reading + work + forward * rates.forward) / threads


def _corrected(job: JobEstimate, corrections: Mapping[str, float]) -> JobEstimate:
    if job.took is not None:
        return replace(job, seconds=job.took)
    factor = next((corrections[key] for key in job.keys if key in corrections), 1.0)
    return replace(job, seconds=job.estimated * factor)
