"""All uses of Snakemake's private interface.

Each function has a contract test (``tests/unit/core/test_snakemake_internals.py``), which fails if
a new release of Snakemake changes it. Snakemake is imported inside the functions, since most
commands run without it.
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

# outputs named by `make_again`
_MADE_AGAIN: set[str] = set()
METADATA = Path(".snakemake") / "metadata"


def fast_params(function: Callable) -> Callable:
    """The same function with a cached signature, which Snakemake inspects several times per job."""
    from snakemake.common import overwrite_function_params

    overwrite_function_params(function, inspect.signature(function).parameters)
    return function


def fast_resources() -> None:
    """Cache the signature of Snakemake's method that evaluates the resources of every job."""
    from snakemake.resources import Resource

    fast_params(Resource.evaluate)


def compare_every_record() -> None:
    """Have Snakemake compare a job with all that it has recorded of it.

    By itself it compares nothing as long as one of the outputs has no record. Such an output was never
    made: masks that a probe keeps from now on, or the stamp of a new plan. If it is not asked for
    either, the job would not run again although its parameters changed.
    """
    from snakemake.persistence import PersistenceBase

    def has_metadata(self, job) -> bool:
        return any(self.metadata(path) is not None for path in job.output)

    PersistenceBase.has_metadata = has_metadata


def spare_finished_jobs() -> None:
    """Have Snakemake not rerun a finished job because a deleted store that it once read is made again.

    By itself it reruns all that follows a job, and later what is older than the store. Here the
    parameter ``job`` is a fingerprint, which changes with every input: while all parameters are as
    recorded, the store is the one that the job has read. Jobs that are forced, with what follows
    them, run as always.
    """
    from snakemake.dag import DAG
    from snakemake.io import _IOFile

    by_snakemake, by_time = DAG.update_needrun, _IOFile.is_newer
    if by_snakemake.__module__ == __name__:
        return  # another module of the same workflow has called this

    async def is_newer(self, time):
        # `rule` is the one that reads the file; those of others keep Snakemake's comparison
        if self.endswith(".zarr") and self.rule is not None and "job" in self.rule.params.keys():  # noqa: SIM118
            return False
        return await by_time(self, time)

    async def update_needrun(self, create_inventory=False):
        await by_snakemake(self, create_inventory)
        if not any(map(_makes_stores, self._needrun)):
            return
        spared, made_again = set(), set()
        for level in self.toposorted():
            for job in self._needrun.intersection(level):
                before = self._needrun.intersection(self.dependencies[job]) - spared
                if before - made_again:
                    continue
                if not _MADE_AGAIN.isdisjoint(job.output):
                    made_again.add(job)
                    continue
                if not _is_as_recorded(self, job):
                    continue
                if all([await file.exists() for file in _asked_for(self, job)]):
                    spared.add(job)
                elif _makes_stores(job):
                    made_again.add(job)
        left = self._needrun - spared
        # nothing reads these any more
        spared |= {
            job
            for job in made_again
            if not _MADE_AGAIN.isdisjoint(job.output)
            and left.isdisjoint(self.depending[job])
            and self.targetfiles.isdisjoint(job.output)
        }
        self._needrun -= spared
        for job in spared:
            self.reason(job).clear()
            del self._n_until_ready[job]
        for job in self._needrun:
            self._n_until_ready[job] = len(self._needrun.intersection(self.dependencies[job]))
        self._len = len(self._finished | self._needrun)

    DAG.update_needrun, _IOFile.is_newer = update_needrun, is_newer


def _makes_stores(job) -> bool:
    """Whether the job makes feature stores, or a part of one, and nothing else."""
    return bool(job.output) and all(
        file.endswith(".zarr") or file.is_flagged("temp") for file in job.output
    )


def _asked_for(dag, job) -> list:
    """The outputs of the job that are targets, or that other jobs read."""
    read = set().union(*dag.depending[job].values())
    return [file for file in job.output if file in read or file in dag.targetfiles]


def _is_as_recorded(dag, job) -> bool:
    """Whether the job is not forced, and as it was when its outputs were made."""
    if job.rule in dag.forcerules or not dag.forcefiles.isdisjoint(job.output):
        return False
    if job.params.get("job") is None:
        return False
    records = dag.workflow.persistence
    return records.has_metadata(job) and not (
        records.has_outdated_metadata(job)
        or records.params_changed(job)
        or any(records.input_changed(job))
        or any(records.code_changed(job))
        or any(records.software_stack_changed(job))
    )


def without_rerun(**values) -> dict[str, Callable]:
    """Parameters of a rule whose change does not rerun a job.

    They become functions of `output`, which Snakemake does not compare.

    Parameters
    ----------
    values : name -> constant, or function of the wildcards.
    """

    def of_output(value):
        if callable(value):
            return fast_params(lambda wildcards, output: value(wildcards))
        return fast_params(lambda wildcards, output: value)

    return {name: of_output(value) for name, value in values.items()}


def configuration_files(workflow) -> list[Path]:
    """The configuration files in use; those of the command line come last and override the others."""
    named = workflow.overwrite_configfiles
    default = [] if workflow.config_settings.replace_workflow_config else workflow.configfiles
    # Snakemake puts those of the command line first
    return [Path(path) for path in [*default[len(named) :], *named]]


def config_of_module(workflow) -> bool:
    """Whether a module statement gave this workflow a configuration of its own: `config: {…}`, `config["key"]`."""
    return workflow.config is not workflow.modifier_stack[0].globals["config"]


def moved_path(workflow, path: str) -> str:
    """The path that an output at `path` gets by `prefix` or `replace_prefix` of module statements."""
    return workflow.modifier.path_modifier.replace_prefix(path)


def renamed_rule(workflow, name: str) -> str:
    """The name that a rule gets by `use rule … as …` of module statements."""
    return workflow.modifier.modify_rulename(name)


def keep_error_hook(workflow, hook: Callable) -> None:
    """Run `onerror` also for a workflow used as a module, whose hooks Snakemake ignores."""
    if not workflow.modifier.is_main_snakefile():
        workflow._onerror = hook


def jobs_to_run(workflow) -> list:
    """The jobs of this run; available once Snakemake has built its job graph."""
    return list(workflow.dag.needrun_jobs())


def rules_to_run(workflow) -> set[str]:
    """Names of the rules that have jobs in this run."""
    return {job.rule.name for job in workflow.dag.needrun_jobs()}


def run_again(workflow, output: str) -> None:
    """Rerun the job of `output`; call it in an input function, before Snakemake decides what to run."""
    workflow.dag.forcefiles.add(output)


def make_again(workflow, output: str) -> None:
    """Like `run_again`, for a store whose next version gives finished jobs what they have read.

    They do not run again, see `spare_finished_jobs`.
    """
    run_again(workflow, output)
    _MADE_AGAIN.add(output)


def remove_after_use(jobs: Iterable) -> None:
    """Have Snakemake delete the outputs of these jobs as soon as no job of the run still reads them."""
    for job in jobs:
        for file in job.output:
            file.flags["temp"] = True


def readers_left(workflow, job) -> list:
    """The jobs of this run that read outputs of `job` and have neither finished nor failed."""
    dag, failed = workflow.dag, workflow.scheduler.failed
    return [
        one
        for one in dag.depending.get(job, ())
        if dag.needrun(one) and not dag.finished(one) and one not in failed
    ]


def choose_among(workflow, allowed: Callable[[Iterable], list]) -> None:
    """Have Snakemake's scheduler choose the jobs that start next among those that `allowed` returns.

    `allowed` gets all that are ready. While no job runs, it must return one, or the run never ends.
    """
    scheduler = workflow.scheduler
    chosen = scheduler.job_selector
    scheduler.job_selector = lambda ready: chosen(allowed(ready))


def running_jobs(workflow) -> set:
    """Jobs, or groups of jobs, that are running."""
    return set(workflow.scheduler.running)


def rules_of_run(workflow) -> set[str]:
    """Names of all rules in the job graph of this run, including those with nothing to do."""
    return {job.rule.name for job in workflow.dag.jobs}


def jobs_of_rules(workflow, rules: Iterable[str]) -> list:
    """All jobs of these rules in the job graph of this run."""
    return [job for job in workflow.dag.jobs if job.rule.name in rules]


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
    """Names of the rules that the profile or the command line puts into a group."""
    return set(workflow.group_settings.overwrite_groups)


def resources_set(workflow) -> list[dict]:
    """Resources that the profile or the command line sets, one mapping per rule."""
    return list(workflow.resource_settings.overwrite_resources.values())


def default_storage(workflow) -> tuple:
    """(provider of ``--default-storage-provider`` or None, prefix of its objects)."""
    provider = workflow.storage_registry.default_storage_provider
    return provider, workflow.storage_settings.default_storage_prefix or ""


def log_files(workflow) -> list[Path]:
    """Snakemake's log of this run, where there is one."""
    manager = getattr(workflow, "logger_manager", None)
    return [Path(file) for file in (manager.get_logfile() or [])] if manager else []


def redirect_jobs(stream):
    """Redirect the output of jobs' commands to `stream`; returns the previous stream."""
    # imported by name: `snakemake.shell` as an attribute is a class
    shell = importlib.import_module("snakemake.shell")
    before, shell.STDOUT = shell.STDOUT, stream
    return before


def record_path(output: str, *, longest: int = 255) -> Path:
    """Path of Snakemake's record of `output`, relative to the working directory.

    The name is the URL-safe base64 of the path as written in the rule. If it is too long for a file
    name, it is split into folders, whose names begin with ``@``, and the file.

    Parameters
    ----------
    longest : longest file name of the file system (``PC_NAME_MAX``).
    """
    coded = urlsafe_b64encode(output.encode()).decode()
    step = longest - 1
    pieces = [coded[start : start + step] for start in range(0, len(coded), step)]
    return METADATA.joinpath(*(f"@{piece}" for piece in pieces[:-1]), pieces[-1])


def longest_name(folder: Path) -> int:
    """Longest file name (``PC_NAME_MAX``) on the file system of `folder`; 255 if unknown."""
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
    """Snakemake's record of a finished job.

    The timing tables in the logs of jobs cannot replace it, since they lack fingerprint and start
    time.

    Attributes
    ----------
    fingerprints : parameters of the job as strings; one of them is its fingerprint.
    start, end : seconds since 1970, by the clock of the machine that ran Snakemake.
    """

    fingerprints: frozenset[str]
    start: float
    end: float


def read_records(folder: Path) -> dict[str, Record]:
    """Output, as written in the rule, to the record of its last job; empty before the first run.

    Unreadable records are skipped, since only estimates use them.
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
