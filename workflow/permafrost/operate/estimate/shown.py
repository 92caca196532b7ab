"""An estimate in words and as JSON."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from permafrost.core.device import NO_GPU, NO_GPU_REMEDY, gpu_is_visible
from permafrost.core.text import bytes_of, bytes_words
from permafrost.operate.estimate.estimate import Estimate, JobEstimate, corrections_of, uncorrected
from permafrost.operate.estimate.found import findable, findable_lines
from permafrost.operate.estimate.sizes import store_bytes
from permafrost.plan.grid import LABELS

# names in a line
_SHOWN = 6


@dataclass(frozen=True)
class Row:
    """The jobs of a stage.

    Attributes
    ----------
    jobs, to_do : numbers of all jobs, and of the remaining ones.
    core_seconds, gpu_seconds : totals of the remaining jobs.
    longest : seconds of the longest remaining job.
    memory_mb : largest memory that a job requests.
    estimated, took : estimated and recorded seconds of the finished jobs with a record.
    """

    stage: str
    jobs: int
    to_do: int
    core_seconds: float
    gpu_seconds: float
    longest: float
    memory_mb: int
    estimated: float
    took: float


def rows(estimate: Estimate) -> list[Row]:
    """A row for each stage with jobs, in the order of the data flow."""
    by_stage: dict[str, list[JobEstimate]] = defaultdict(list)
    for job in estimate.jobs:
        by_stage[job.stage].append(job)
    return [_row(stage, by_stage[stage]) for stage in LABELS if by_stage[stage]]


def _row(stage: str, jobs: Sequence[JobEstimate]) -> Row:
    to_do = [job for job in jobs if not job.done]
    known = [job for job in jobs if job.took is not None]
    return Row(
        stage,
        len(jobs),
        len(to_do),
        sum(job.seconds * job.threads for job in to_do),
        sum(job.seconds for job in to_do if job.gpu),
        max((job.seconds for job in to_do), default=0.0),
        max(job.memory_mb for job in jobs),
        sum(job.estimated for job in known),
        sum(job.took for job in known),
    )


def disk(estimate: Estimate) -> dict[str, float]:
    """Kind of output -> bytes, for all outputs of the plan that are on disk at the same time.

    Compression reduces images by about a fifth, and features hardly.
    """
    grid, context = estimate.context.grid, estimate.context
    images = sum(
        size.values * (1 if size.channels == 3 else 2) * 0.8
        for name, size in context.datasets.items()
        if name not in grid.origins
    )
    # stores of derived backbones and datasets hold no features
    every = grid.every()
    made = {*every["extract"], *every["extract_harder"]}
    features = sum(_stores(estimate, made - {*grid.mapped()}))
    features += maps_at_once(estimate)
    tables = sum(
        20_000
        + context.datasets[dataset].images["test"] * (60 + 4 * context.datasets[dataset].classes)
        for dataset, *_ in grid.evaluations()
    )
    return {"images": images, "features": features, "tables": tables, "report": 4e6 + tables / 10}


def maps_at_once(estimate: Estimate) -> float:
    """Bytes of feature stores with maps that are on disk at the same time, at most.

    If they are removed after use, jobs on all cores may read the largest ones, each another store.
    """
    grid = estimate.context.grid
    keep, each = grid.config["runtime"]["keep_maps"], _stores(estimate, grid.mapped())
    if keep is True or not each:
        return sum(each)
    largest = sorted(each, reverse=True)[: math.ceil(estimate.machines.cores)]
    # a store that exceeds the bound is made when there is no other
    most = math.inf if keep is False else max(bytes_of(keep), largest[0])
    return min(sum(largest), most)


def _stores(estimate: Estimate, pairs: Iterable[tuple[str, str]]) -> list[float]:
    """Bytes of the feature stores of each pair."""
    context = estimate.context
    options, harder = context.grid.config["extraction"], context.grid.harder
    return [
        store_bytes(
            context.datasets[pair[0]],
            context.features[pair],
            options,
            test_alone=pair[0] in harder,
        )
        for pair in pairs
    ]


def lines(estimate: Estimate, downloads: Sequence[tuple[str, str, float | None]], why: str | None):
    """Lines of the estimate for a terminal.

    Parameters
    ----------
    downloads : from `sizes.downloads_of`.
    why : why finished jobs are unknown; None: they are known.
    """
    found, machines = rows(estimate), estimate.machines
    heading = ("stage", "jobs", "to do", "core hours", "longest job", "memory asked")
    gpu = ("GPU hours",) if machines.gpus else ()
    cells = [(*heading, *gpu)]
    for row in found:
        shown = (row.stage, row.jobs, row.to_do, _hours(row.core_seconds))
        own = (duration(row.longest), f"{row.memory_mb / 1000:g} GB")
        cells.append((*map(str, shown), *own, *([_hours(row.gpu_seconds)] if gpu else [])))
    total = ("all", sum(r.jobs for r in found), sum(r.to_do for r in found))
    sums = _hours(sum(r.core_seconds for r in found)), "", ""
    cells.append(
        (*map(str, total), *sums, *([_hours(sum(r.gpu_seconds for r in found))] if gpu else []))
    )
    yield from _columns(cells)
    yield ""
    on = f"{machines.cores} cores" + (
        f" and {machines.gpus} GPU{'s' * (machines.gpus > 1)}" if machines.gpus else ""
    )
    yield from _of_removed_stores(estimate)
    left = estimate.wall()
    yield f"Time:      {duration(left)} on {on}" if left else "Time:      nothing is left to do"
    kinds = disk(estimate)
    each = ", ".join(f"{name} {bytes_words(size)}" for name, size in kinds.items())
    yield f"Disk:      {bytes_words(sum(kinds.values()))} ({each})"
    grid = estimate.context.grid
    mapped = _stores(estimate, grid.mapped())
    if mapped and grid.config["runtime"]["keep_maps"] is not True:
        yield (
            f"Maps:      at most {bytes_words(maps_at_once(estimate))} at a time, of {bytes_words(sum(mapped))}"
            " in all; removed after use (runtime.keep_maps)"
        )
    yield from findable_lines(estimate.context)
    yield from _of_downloads(downloads)
    yield from _of_sizes(estimate)
    yield from _of_rates(estimate)
    device = estimate.context.grid.config["runtime"]["device"]
    if device.startswith("cuda") and not gpu_is_visible():
        yield f"Note:      {NO_GPU.format(device)}: {NO_GPU_REMEDY}"
    if why is not None:
        yield f"Note:      as if nothing were done, for a plan cannot be made yet: {why}"


def _of_removed_stores(estimate: Estimate):
    again = [job for job in estimate.jobs if job.again]
    if not again:
        return
    names = [f"{job.names[1]} on {job.names[0]}" for job in again]
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    hours = _hours(sum(job.seconds * job.threads for job in again))
    yield (
        f"Again:     {hours} of these core hours are {len(again)} jobs to run again, because their stores were"
        f" removed or lack a layer: {shown}"
    )


def _of_downloads(downloads: Sequence[tuple[str, str, float | None]]):
    known = [f"{name} {bytes_words(size)}" for _, name, size in downloads if size]
    unknown = ", ".join(name for _, name, size in downloads if not size)
    if known:
        total = sum(size for _, _, size in downloads if size)
        yield f"Downloads: {bytes_words(total)} ({', '.join(known)})"
    if unknown:
        yield f"Not here:  {unknown}, of unknown size"


def _of_sizes(estimate: Estimate):
    assumed = [name for name, size in estimate.context.datasets.items() if size.known == "assumed"]
    if assumed:
        one = estimate.context.datasets[assumed[0]]
        yield (
            f"Assumed:   {one.count} images of {one.side} px in {', '.join(assumed)}, whose size is unknown;"
            " --images N assumes N"
        )


def _of_rates(estimate: Estimate):
    known = [job for job in estimate.jobs if job.took is not None]
    if known:
        took, estimated = sum(job.took for job in known), sum(job.estimated for job in known)
        yield (
            f"Rates:     corrected by {len(known)} finished jobs, which took {duration(took)}; "
            f"without them {duration(estimated)} would have been said"
        )
    elif estimate.corrections:
        yield "Rates:     corrected by those that were given or measured"
    else:
        yield "Rates:     of another machine; finished jobs correct them, or --rates FILE of a run elsewhere"


def check_lines(estimate: Estimate):
    """Lines that compare finished jobs' times with the uncorrected estimate, by stage and probe."""
    cells: list[tuple[str, ...]] = [("jobs", "finished", "estimated", "took", "ratio")]
    by_kind: dict[str, list[JobEstimate]] = defaultdict(list)
    for job in estimate.jobs:
        if job.took is not None:
            by_kind[job.kind].append(job)
    for kind, jobs in by_kind.items():
        cells.append(_compared(kind, jobs))
    known = [job for job in estimate.jobs if job.took is not None]
    if not known:
        yield "no finished job of this plan is on record"
        return
    cells.append(_compared("all", known))
    yield from _columns(cells)
    yield ""
    whole = duration(uncorrected(estimate).wall(everything=True))
    ran = duration(estimate.lasted)
    yield f"Time:      estimated {whole} on {estimate.machines.cores} cores, and jobs ran for {ran}"


def _compared(kind: str, jobs: Sequence[JobEstimate]) -> tuple[str, ...]:
    estimated, took = sum(job.estimated for job in jobs), sum(job.took for job in jobs)
    ratio = f"{estimated / took:.2f}" if took else "-"
    return kind, str(len(jobs)), duration(estimated), duration(took), ratio


def as_json(estimate: Estimate, downloads, why: str | None) -> dict:
    """Like `lines`, as JSON; times in seconds, sizes in bytes."""
    return {
        "stages": [vars(row) for row in rows(estimate)],
        "cores": estimate.machines.cores,
        "gpus": estimate.machines.gpus,
        "seconds": estimate.wall(),
        "seconds_of_everything": estimate.wall(everything=True),
        "seconds_that_jobs_ran": estimate.lasted,
        "disk": disk(estimate),
        "again": [[job.stage, *job.names] for job in estimate.jobs if job.again],
        "downloads": [dict(zip(("kind", "name", "bytes"), one, strict=True)) for one in downloads],
        "datasets": {name: vars(size) for name, size in estimate.context.datasets.items()},
        "findable": {name: vars(one) for name, one in findable(estimate.context).items()},
        "nothing_is_known_of_what_is_done": why,
    }


def rates_json(
    estimate: Estimate, machine: str, measured: Mapping[str, float] = MappingProxyType({})
) -> dict:
    """The content of a file for `--rates`: corrections from this plan's jobs, else `measured`."""
    return {"machine": machine, "corrections": {**measured, **corrections_of(estimate.jobs)}}


def duration(seconds: float) -> str:
    """Seconds as text, such as ``12 s``, ``3.0 min``, ``5.2 h`` or ``12.0 days``."""
    for unit, size, most in (("s", 1, 100), ("min", 60, 100), ("h", 3600, 72)):
        if seconds < most * size:
            number = seconds / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{seconds / 86400:.1f} days"


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.2f}" if hours < 10 else f"{hours:.0f}"


def _columns(cells: Iterable[tuple[str, ...]]):
    """Rows as aligned lines: the first column left-aligned, the others right-aligned."""
    cells = list(cells)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *others in cells:
        rest = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *rest]).rstrip()
