"""Options shared by commands of jobs, and reading the job."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.specification import SPLITS, substitute

if TYPE_CHECKING:
    from permafrost.core.read_files import KeptReading
    from permafrost.plan.jobs import PlannedJob


def add_job(parser: argparse.ArgumentParser, *, plan: str | None = None) -> None:
    """Add the options for the job: ``--job`` with ``--plan``, or ``--spec`` with ``--code``.

    Parameters
    ----------
    plan : help text of ``--plan``; if given, this option is required.
    """
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--job", help="fingerprint of the job in the recorded plan")
    one.add_argument("--spec", help="canonical JSON of the job, or a file that holds it")
    parser.add_argument(
        "--plan", type=Path, required=plan is not None, help=plan or "recorded plan, with --job"
    )
    parser.add_argument("--code", help="hash of the sources of this stage, with --spec")
    parser.add_argument("--benchmark", type=Path, help="table of time and peak memory to write")


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add ``--results``, for stages whose inputs the recorded plan lists."""
    parser.add_argument(
        "--results", type=Path, help="folder of the results (default: the one of the plan)"
    )


def add_results_folder(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the argument ``RESULTS``; `more` follows in its help."""
    parser.add_argument(
        "results",
        nargs="?",
        type=Path,
        default=Path("results"),
        metavar="RESULTS",
        help=f"folder of results, or of their project (default: results){more}",
    )


def planned_job(arguments) -> PlannedJob:
    """The job that the arguments name; also loads its plug-ins.

    Raises
    ------
    PermafrostError : the job is not in the plan, an option is missing, or the spec is not JSON.
    """
    from permafrost.plan.jobs import PlannedJob, find_job

    if arguments.job is not None:
        if arguments.plan is None:
            raise PermafrostError("--job needs the recorded plan", remedy="give --plan FILE")
        job = find_job(arguments.plan, arguments.job)
        if "plugins" in job.places:
            from permafrost.core.plugins import add_plugins

            add_plugins(job.places["plugins"])
        _keep_reading(job, arguments)
        return job
    if arguments.code is None:
        raise PermafrostError(
            "--spec needs the hash of the sources", remedy="give --code, or --job and --plan"
        )
    text = arguments.spec
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text()
        except OSError as error:
            raise PermafrostError(
                f"cannot be read ({error.strerror})", where=arguments.spec
            ) from error
    try:
        spec = json.loads(text)
    except ValueError as error:
        raise PermafrostError(f"is not valid JSON ({error})", where="--spec") from error
    return PlannedJob(spec, arguments.code, fingerprint(text.strip(), arguments.code))


def _keep_reading(job: PlannedJob, arguments) -> None:
    """Let the job keep what it reads and does not declare; once for a process."""
    from permafrost.core import opened, outputs
    from permafrost.core.read_files import CACHE, KeptReading

    recording = opened.active()
    if recording is None or recording.job is not None:
        return
    results = arguments.plan.parent.parent
    part, parts = getattr(arguments, "part", None), getattr(arguments, "parts", ())
    kept = KeptReading(recording, job.spec, job.code, results, part=part, parts=parts)
    recording.job = kept
    outputs.before_placing[:] = [kept.before_placing]
    if cache := os.environ.get(CACHE):
        opened.declare(cache)
    if used := job.places.get("plugin_files"):
        from permafrost.core.plugins import read_by

        for read in read_by(used):
            recording.include(read)
    data = getattr(arguments, "data", None)
    for place in _texts([job.places, *vars(arguments).values()]):
        path = substitute(place, data) if data is not None else place
        # a plug-in is path/to/file.py:NAME; which files of a folder count, its reader says
        for named in (path, path.rpartition(":")[0]):
            if os.path.isfile(named):
                opened.declare(named)


def _texts(value) -> Iterator[str]:
    """All texts and paths in nested lists and mappings."""
    if isinstance(value, str | Path):
        yield str(value)
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def kept_reading() -> KeptReading | None:
    """What keeps the job's reading; None for a job written by hand."""
    from permafrost.core.opened import active

    recording = active()
    return None if recording is None else cast("KeptReading | None", recording.job)


def specified[T](job: PlannedJob, kind: type[T]) -> T:
    """The job's spec as the dataclass `kind`."""
    stage = job.spec.get("stage") if isinstance(job.spec, dict) else None
    # importing pydantic takes 0.2 s, and commands without a job do not need it
    from permafrost.core.option_models import read

    return read(kind, job.spec, where=f"spec of the {stage} job")


def read_job(arguments) -> tuple[dict, str]:
    """The job's spec and its fingerprint."""
    job = planned_job(arguments)
    return job.spec, job.fingerprint


def read_specification[T](arguments, kind: type[T]) -> tuple[T, str]:
    """The job's spec as the dataclass `kind`, and its fingerprint."""
    job = planned_job(arguments)
    return specified(job, kind), job.fingerprint


def add_splits(parser, option: str, what: str, *, required: bool = True) -> None:
    """Add an option that takes three paths: train, validation, test."""
    parser.add_argument(
        option, nargs=3, type=Path, required=required, metavar=("TRAIN", "VAL", "TEST"), help=what
    )


def by_split(paths) -> dict[str, Path]:
    return dict(zip(SPLITS, paths, strict=True))


def add_compute(parser: argparse.ArgumentParser) -> None:
    """Add ``--device`` and ``--threads``, which are not part of the fingerprint."""
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--threads", type=int, default=1)
