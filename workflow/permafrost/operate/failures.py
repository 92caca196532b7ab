"""Failed jobs of a run, with the errors in their logs; and checks of the executor before a run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from permafrost.core.device import NO_GPU, NO_GPU_REMEDY, gpu_is_visible
from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import check_file
from permafrost.core.outputs import no_room, whole_file
from permafrost.core.snakemake_internals import (
    failed_jobs,
    is_running,
    log_files,
    rules_of_run,
    submitted_groups,
)
from permafrost.plan.object_store import bring, is_there

NAMES = ("dataset", "backbone", "probe", "seed")
_ERROR = re.compile(r"^permafrost [\w-]+: error: (.+)$", re.MULTILINE)
# the end of the log of a job that Ctrl-C interrupted
_INTERRUPTED = re.compile(r"^(permafrost: interrupted|KeyboardInterrupt)\s*\Z", re.MULTILINE)
_TAIL = 1 << 16  # bytes read from the end of a log, which is where the error is
_PRINTED = 1 << 22  # the same of what all jobs printed
# seconds; clocks of nodes and file servers differ
_CLOCKS_DIFFER = 60.0


@dataclass(frozen=True)
class Failure:
    """One job that failed.

    Attributes
    ----------
    stage : see `stage_of`.
    error : the reason, in one line.
    log : path of the job's log.
    dataset, backbone, probe, seed : labels of the job; None: it does not have this label.
    """

    stage: str
    error: str
    log: str
    dataset: str | None = None
    backbone: str | None = None
    probe: str | None = None
    seed: int | None = None

    def stops(self, stage: str, names: Mapping[str, object]) -> bool:
        """Whether the result of `stage` for `names` depends on the output of this job."""
        if stage not in _ENDS.get(self.stage, (stage,)):
            return False
        own = {name: getattr(self, name) for name in NAMES}
        return all(names.get(name) == value for name, value in own.items() if value is not None)


# stage outside the chain from images to scores -> stages whose tables depend on it
_ENDS = {
    "views": ("measure",),
    "measure": ("measure",),
    "profile": ("profile",),
    **dict.fromkeys(("compare", "similarity", "aggregate", "report", "archive"), ()),
}


def stage_of(rule: str) -> str:
    """The stage of a rule; rules of probes are named after the input they read."""
    return "probe" if rule.startswith("probe_") else rule.removesuffix("_derived")


def failures_of(
    jobs: Iterable, messages: Mapping[int, str], *, since: float, printed: Iterable[Path] = ()
) -> list[Failure]:
    """The failures of Snakemake's failed jobs, without interrupted ones.

    Parameters
    ----------
    jobs : Snakemake's jobs or groups of jobs. Of a group, only jobs whose input existed count,
        because the others were waiting for them.
    messages : job number -> the executor's message, such as Slurm's state.
    since : start of the run, seconds since 1970; older logs belong to earlier runs.
    printed : files with what the jobs' commands printed, see `error_in`.
    """
    failures, printed = [], list(printed)
    for job in _members(jobs):
        wildcards = dict(job.wildcards.items())
        if "seed" in wildcards:
            wildcards["seed"] = int(wildcards["seed"])
        for file in job.log:
            bring(file, since=since - _CLOCKS_DIFFER)
        log = str(next(iter(job.log), ""))
        error = error_in(Path(log), since=since, message=messages.get(job.jobid), printed=printed)
        if error.interrupted:
            continue
        names = {name: wildcards[name] for name in NAMES if name in wildcards}
        failures.append(Failure(stage=stage_of(job.rule.name), error=error.text, log=log, **names))
    return sorted(
        failures, key=lambda f: tuple(str(getattr(f, n) or "") for n in (*NAMES, "stage"))
    )


def _members(jobs: Iterable) -> list:
    """The jobs; of a group, those whose input exists and whose output does not."""
    members = []
    for job in jobs:
        if job.is_group():
            began = [
                one
                for one in job.jobs
                if all(map(is_there, one.input)) and not all(map(is_there, one.output))
            ]
            members += began or list(job.jobs)[:1]
        else:
            members.append(job)
    return members


def end_failed_run(
    workflow,
    plan,
    plan_file: str,
    results: str,
    messages: Mapping[int, str],
    *,
    since: float,
    on_store: bool = False,
    program: Callable[[], str] = lambda: "permafrost",
) -> None:
    """List the failed jobs, and write leaderboard and report of the successful ones.

    The report is skipped if the run was interrupted, or if results are on an object store, because
    this machine has no copies of them. Interrupted jobs do not count as failed; Snakemake keeps
    them among the running jobs.

    Parameters
    ----------
    workflow : Snakemake's workflow, after its jobs have ended.
    plan, plan_file, results : the plan, the path of its record, and the folder of results.
    messages, since : as in `failures_of`.
    on_store : whether results are on an object store.
    program : gives the start of the shell command that writes leaderboard and report. Where it runs
        elsewhere and fails there, this machine lists the failed jobs.
    """
    failures = failures_of(
        failed_jobs(workflow), messages, since=since, printed=log_files(workflow)
    )
    if not failures:
        return
    gathered = not is_running(workflow) and "aggregate" in rules_of_run(workflow)
    try:
        record = record_failures(plan, plan_file, results, failures)
        command = shlex.join(["incomplete", "--failures", str(record)])
        start = program() if gathered and not on_store else None
        made = start and not subprocess.run(f"{start} {command}", shell=True).returncode
        # where it could not run elsewhere, it has printed nothing
        if not made and start != "permafrost":
            subprocess.run(f"permafrost {command} --list", shell=True, check=False)
    except (PermafrostError, OSError) as error:
        # the record cannot be written, for example on a full disk, or no process be started
        _print_table(failures, error)
        return
    if on_store and gathered:
        print(
            "Results lie on an object store. Copy them into this folder, and `permafrost incomplete` makes"
            " leaderboard and report of what succeeded (docs/clusters.md)."
        )


def _print_table(failures: list[Failure], error: Exception) -> None:
    """Print the table of failures from this process, and why there is nothing else."""
    from permafrost.report.explanations.leaderboard_state import format_failures

    # the output may be a file on the same full disk
    with contextlib.suppress(OSError):
        print(f"\n{format_failures([asdict(failure) for failure in failures])}")
        print(f"permafrost: error: {error}", flush=True)


def check_executor(workflow) -> None:
    """Refuse a cluster executor whose commands are missing on this machine.

    Otherwise Snakemake would fail job by job, or wait without end.
    """
    if workflow.executor_plugin.name == "cluster-generic":
        _check_generic(workflow.executor_settings)
    if workflow.executor_plugin.name != "slurm":
        return
    lacking = [command for command in ("sbatch", "squeue", "srun") if shutil.which(command) is None]
    if lacking:
        raise PermafrostError(
            f"this machine has no Slurm: there is no {' and no '.join(lacking)} on the PATH",
            remedy="start it on a login node of the cluster, or run `snakemake --profile local` here",
        )


def check_gpu(workflow, device: str) -> None:
    """Refuse a configured GPU if jobs run on this machine and it has none."""
    if workflow.local_exec and device.startswith("cuda") and not gpu_is_visible():
        raise PermafrostError(NO_GPU.format(device), where="runtime.device", remedy=NO_GPU_REMEDY)


def _check_generic(settings) -> None:
    """Refuse commands of the generic cluster executor that are missing on this machine."""
    for option in ("submit_cmd", "status_cmd", "cancel_cmd"):
        named = getattr(settings, option)
        words = shlex.split(named.replace("\n", " ")) if named else []
        if words and shutil.which(words[0]) is None:
            raise PermafrostError(
                f"there is no {words[0]} on the PATH",
                where=f"cluster-generic-{option.replace('_', '-')}",
                remedy="name the commands of your cluster in profiles/generic/config.yaml, and start on a machine that"
                " has them",
            )


#: rules of short jobs
LIGHT = (
    "probe_embeddings",
    "probe_patches",
    "probe_patches_with_masks",
    "bootstrap",
    "compare",
)


#: variable in which a profile says where short jobs run by default: "workers" or "here"
LIGHT_JOBS = "PERMAFROST_LIGHT_JOBS"


def light_jobs_of(workflow, light_jobs_on: str) -> str | None:
    """Where this process has the run's short jobs: in "workers", in one "here"; None: as all other jobs.

    Snakemake's executor is not known before the job graph is built, so the profile says it.
    """
    if not workflow.is_main_process or light_jobs_on == "cluster":
        return None
    return "here" if light_jobs_on == "driver" else os.environ.get(LIGHT_JOBS)


def check_groups(workflow, light_jobs_on: str) -> None:
    """Refuse groups with rules of ``light_jobs_on: driver``: Snakemake would submit them anyway."""
    if light_jobs_on != "driver" or workflow.local_exec:
        return
    grouped = [name for name in LIGHT if name in submitted_groups(workflow)]
    if grouped:
        raise PermafrostError(
            f"runtime.light_jobs_on is driver, and the profile puts {', '.join(grouped)} into a group,"
            " which is submitted",
            remedy="take `groups` out of the profile, or set light_jobs_on: auto",
        )


def record_failures(plan, plan_file: str, results: str, failures: list[Failure]) -> Path:
    """Write ``logs/failures.json`` with the failures and what `permafrost incomplete` needs.

    Returns
    -------
    Its path.

    Raises
    ------
    PermafrostError : it cannot be written.
    """
    content = {
        "plan": plan_file,
        "failures": [asdict(failure) for failure in failures],
        "aggregate": plan.aggregate().spec,
        "published": [str(path) for path in plan.aggregate().places.get("published", [])],
        "report": plan.report().spec,
        "compare": [plan.compare(*names).spec for names in plan.compared()],
    }
    path = Path(results) / "logs" / "failures.json"
    with whole_file(path) as partial:
        partial.write_text(json.dumps(content) + "\n")
    return path


def read_failures(path: Path) -> dict:
    """The record of `record_failures`, with ``failures`` as `Failure` and specs as mappings.

    Raises
    ------
    PermafrostError : it is missing or cannot be read.
    """
    check_file(path)
    try:
        content = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise PermafrostError(
            f"the record of a run that failed cannot be read ({error})",
            where=path,
            remedy="run snakemake; it is written when jobs fail",
        ) from error
    return {
        "plan": Path(content["plan"]),
        "failures": [Failure(**failure) for failure in content["failures"]],
        "aggregate": json.loads(content["aggregate"]),
        "published": [Path(path) for path in content["published"]],
        "report": json.loads(content["report"]),
        "compare": [json.loads(spec) for spec in content["compare"]],
    }


@dataclass(frozen=True)
class LoggedError:
    """Why a job failed.

    Attributes
    ----------
    text : the error, in one line.
    interrupted : the user interrupted the run, so the job did not fail.
    """

    text: str
    interrupted: bool = False


def error_in(
    log: Path, *, since: float, message: str | None = None, printed: Iterable[Path] = ()
) -> LoggedError:
    """The last error in a failed job's log; if it has none, the executor's `message`.

    Parameters
    ----------
    since : start of the run, seconds since 1970; an older log is ignored.
    printed : files with what the jobs' commands printed, such as Snakemake's log. They say if the
        log could not be written; the disk may have room again since.
    """
    text = _end_of(log, since)
    said = " ".join((message or "").split())
    unwritten = _unwritten(log, printed, since)
    if text is None and not unwritten:
        return LoggedError(said or "it did not start; the messages above say why")
    text = text or ""
    if _INTERRUPTED.search(text):
        return LoggedError("interrupted", interrupted=True)
    if errors := _ERROR.findall(text):
        return LoggedError(errors[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        return LoggedError(f"unexpected error: {lines[-1]}")
    if full := unwritten or no_room(log.parent):
        return LoggedError(
            f"{full}: its log could not be written. Remedy: make room in {log.parent}, or set `results` to a folder"
            " with room, then run snakemake again"
        )
    cause = f" ({said})" if said else ""
    return LoggedError(
        f"it ended without an error message: killed, out of memory, or out of time{cause}"
    )


def _unwritten(log: Path, printed: Iterable[Path], since: float) -> str | None:
    """The system's error message of ``tee``, which wrote the log; None: it wrote all."""
    says = re.compile(rf"^tee: '?{re.escape(str(log))}'?: (.+)$", re.MULTILINE)
    for file in printed:
        if found := says.search(_end_of(file, since, _PRINTED) or ""):
            return found[1]
    return None


def _end_of(log: Path, since: float, size: int = _TAIL) -> str | None:
    """The last `size` bytes of a log; None: this run did not write it."""
    try:
        if log.stat().st_mtime < since - _CLOCKS_DIFFER:
            return None
        with open(log, "rb") as stream:
            stream.seek(max(0, log.stat().st_size - size))
            return stream.read().decode(errors="replace")
    except OSError:
        return None
