"""What Permafrost uses of Snakemake beyond its documented interface, all of it.

Each function has a contract test (``tests/unit/core/test_snakemake_internals.py``), which names what a new release of
Snakemake has changed. Snakemake is imported inside the functions, since most commands run without it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

METADATA = Path(".snakemake") / "metadata"


def fast_params(function: Callable) -> Callable:
    """The function itself, with its signature looked up once; Snakemake inspects it several times per job."""
    from snakemake.common import overwrite_function_params

    overwrite_function_params(function, inspect.signature(function).parameters)
    return function


def fast_resources() -> None:
    """Look up the signature of Snakemake's method that evaluates resources once, not for every job."""
    from snakemake.resources import Resource

    fast_params(Resource.evaluate)


def without_rerun(**values) -> dict[str, Callable]:
    """Parameters whose change reruns no job: Snakemake does not compare those that depend on `output`.

    Parameters
    ----------
    values : name -> constant, or a function of the wildcards.
    """

    def of_output(value):
        if callable(value):
            return fast_params(lambda wildcards, output: value(wildcards))
        return fast_params(lambda wildcards, output: value)

    return {name: of_output(value) for name, value in values.items()}


def configuration_files(workflow) -> list[Path]:
    """The configuration files that count, those of the command line last, since they override the others."""
    named = workflow.overwrite_configfiles
    default = [] if workflow.config_settings.replace_workflow_config else workflow.configfiles
    # Snakemake lists those of the command line first
    return [Path(path) for path in [*default[len(named) :], *named]]


def keep_error_hook(workflow, hook: Callable) -> None:
    """Run `onerror` also when the workflow is used as a module; Snakemake ignores the hooks of modules."""
    if not workflow.modifier.is_main_snakefile():
        workflow._onerror = hook


def jobs_to_run(workflow) -> list:
    """The jobs of this run, once Snakemake has compared what exists with what is wanted."""
    return list(workflow.dag.needrun_jobs())


def rules_to_run(workflow) -> set[str]:
    """Names of the rules that have jobs in this run."""
    return {job.rule.name for job in workflow.dag.needrun_jobs()}


def rules_of_run(workflow) -> set[str]:
    """Names of the rules that lead to the targets of this run."""
    return {job.rule.name for job in workflow.dag.jobs}


def failed_jobs(workflow) -> list:
    """Jobs, or groups of jobs, that have failed."""
    return list(workflow.scheduler.failed)


def is_running(workflow) -> bool:
    """Whether jobs are still running."""
    return bool(workflow.scheduler.running)


def dependent_jobs(workflow, job) -> list:
    """The jobs that read outputs of `job`."""
    return list(workflow.dag.depending.get(job, ()))


def recorded_inputs(workflow, output: str) -> Iterable[str] | None:
    """The inputs from which `output` was made, as Snakemake recorded them; None if it has no record."""
    from snakemake.io import IOFile

    return workflow.persistence.input(IOFile(output))


def submitted_groups(workflow) -> set[str]:
    """Rules that the profile or the command line puts into a group."""
    return set(workflow.group_settings.overwrite_groups)


def resources_set(workflow) -> list[dict]:
    """Resources that the profile or the command line sets, one mapping for each rule."""
    return list(workflow.resource_settings.overwrite_resources.values())


def default_storage(workflow) -> tuple:
    """The provider of ``--default-storage-provider``, None without one, and the prefix of its objects."""
    provider = workflow.storage_registry.default_storage_provider
    return provider, workflow.storage_settings.default_storage_prefix or ""


def redirect_jobs(stream):
    """Let commands of jobs print into `stream`; returns where they printed before."""
    # the package `snakemake` has a class of the same name
    shell = importlib.import_module("snakemake.shell")
    before, shell.STDOUT = shell.STDOUT, stream
    return before


def record_path(output: str, *, longest: int = 255) -> Path:
    """Where Snakemake keeps the record of `output`, relative to the working directory.

    The name is the URL-safe base64 of the path as the rule writes it. A name that is too long for a file is cut into
    pieces; all but the last are folders whose names begin with ``@``.

    Parameters
    ----------
    longest : longest file name of the file system (``PC_NAME_MAX``).
    """
    coded = urlsafe_b64encode(output.encode()).decode()
    step = longest - 1
    pieces = [coded[start : start + step] for start in range(0, len(coded), step)]
    return METADATA.joinpath(*(f"@{piece}" for piece in pieces[:-1]), pieces[-1])


def longest_name(folder: Path) -> int:
    """``PC_NAME_MAX`` of the file system of `folder`, as Snakemake asks for it."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX") or 255
    except (OSError, ValueError, AttributeError):
        return 255


def find_records(root: Path, outputs: Iterable[str]) -> tuple[dict[str, Path], list[str]]:
    """Records of `outputs` (relative paths), and the outputs that have none.

    Returns
    -------
    ({output: path of its record relative to `root`}, [outputs without a record]).
    """
    longest = longest_name(root / METADATA) if (root / METADATA).is_dir() else 255
    records, lacking = {}, []
    for output in sorted(set(outputs)):
        path = record_path(output, longest=longest)
        if (root / path).is_file():
            records[output] = path
        else:
            lacking.append(output)
    return records, lacking


@dataclass(frozen=True)
class Record:
    """A job that was finished, by one of its outputs.

    The tables of seconds that jobs write into their logs do not replace it: they lack the fingerprint and the clock.

    Attributes
    ----------
    fingerprints : strings among its parameters; that of the job is one of them.
    start, end : seconds since 1970, on the clock of the machine that ran Snakemake.
    """

    fingerprints: frozenset[str]
    start: float
    end: float


def read_records(folder: Path) -> dict[str, Record]:
    """Output, as rules name it, to the record of its last job; empty where nothing was run.

    Records that cannot be read are left out: only estimates are made of them.
    """
    found = {}
    for path in (folder / METADATA).rglob("*"):
        parts = path.relative_to(folder / METADATA).parts
        try:
            name = "".join(part.removeprefix("@") for part in parts)
            content = json.loads(path.read_bytes())
            strings = frozenset(str(one).strip("'") for one in content["params"])
            record = Record(strings, float(content["starttime"]), float(content["endtime"]))
            found[urlsafe_b64decode(name.encode()).decode()] = record
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
