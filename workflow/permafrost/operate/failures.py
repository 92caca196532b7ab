"""The jobs of a run that failed: taken from Snakemake when the run ends, with what their logs say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from permafrost.core.device import NO_GPU, NO_GPU_REMEDY, gpu_is_visible
from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import check_file
from permafrost.core.outputs import no_room, whole_file
from permafrost.core.snakemake_internals import (
    failed_jobs,
    is_running,
    rules_of_run,
    submitted_groups,
)
from permafrost.plan.object_store import bring, is_there

NAMES = ("dataset", "backbone", "probe", "seed")
_ERROR = re.compile(r"^permafrost [\w-]+: error: (.+)$", re.MULTILINE)
# what a job leaves that Ctrl-C ended, with all others
_INTERRUPTED = re.compile(r"^(permafrost: interrupted|KeyboardInterrupt)\s*\Z", re.MULTILINE)
_TAIL = 1 << 16  # bytes; an error stands at the end of a log
# clocks of nodes and file servers differ
_CLOCKS_DIFFER = 60.0


@dataclass(frozen=True)
class Failure:
    """One job that failed.

    Attributes
    ----------
    stage : see `stage_of`; dataset, backbone, probe, seed : what it worked on, where it names them.
    error : why, in one line; log : the file to read.
    """

    stage: str
    error: str
    log: str
    dataset: str | None = None
    backbone: str | None = None
    probe: str | None = None
    seed: int | None = None

    def stops(self, stage: str, names: Mapping[str, object]) -> bool:
        """Whether the result of `stage` for `names` needs what this job did not make."""
        if stage not in _ENDS.get(self.stage, (stage,)):
            return False
        own = {name: getattr(self, name) for name in NAMES}
        return all(names.get(name) == value for name, value in own.items() if value is not None)


# the tables of a leaderboard that a job outside of the chain from images to scores leads to
_ENDS = {
    "views": ("measure",),
    "measure": ("measure",),
    "profile": ("profile",),
    **dict.fromkeys(("compare", "similarity", "aggregate", "report", "archive"), ()),
}


def stage_of(rule: str) -> str:
    """What a rule does, in a word; those of probes are named for what they read."""
    return "probe" if rule.startswith("probe_") else rule


def failures_of(jobs: Iterable, messages: Mapping[int, str], *, since: float) -> list[Failure]:
    """What Snakemake's failed jobs worked on and why they failed.

    Parameters
    ----------
    jobs : Snakemake's jobs or groups of them. Of a group, only jobs whose input was there count:
        the others waited for those.
    messages : job number -> what the executor said about it (Slurm's state, say).
    since : seconds since 1970 when the run began; a log from before is of an earlier run.
    """
    failures = []
    for job in _members(jobs):
        wildcards = dict(job.wildcards.items())
        if "seed" in wildcards:
            wildcards["seed"] = int(wildcards["seed"])
        for file in job.log:
            bring(file, since=since - _CLOCKS_DIFFER)
        log = str(next(iter(job.log), ""))
        error = error_in(Path(log), since=since, message=messages.get(job.jobid))
        if error.interrupted:
            continue
        names = {name: wildcards[name] for name in NAMES if name in wildcards}
        failures.append(Failure(stage=stage_of(job.rule.name), error=error.text, log=log, **names))
    return sorted(
        failures, key=lambda f: tuple(str(getattr(f, n) or "") for n in (*NAMES, "stage"))
    )


def _members(jobs: Iterable) -> list:
    """The jobs; of a group those that could begin and left no output."""
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
) -> None:
    """Name each job that failed, and make leaderboard and page of what succeeded.

    With results on an object store, only names: this machine has no copies of what succeeded. A run
    that was interrupted makes no page, and what it interrupted is no failure: Snakemake keeps such
    jobs among the running ones.

    Parameters
    ----------
    workflow : Snakemake's workflow, when its jobs have ended.
    messages, since : as in `failures_of`.
    on_store : whether results lie on an object store.
    """
    failures = failures_of(failed_jobs(workflow), messages, since=since)
    if not failures:
        return
    try:
        record = record_failures(plan, plan_file, results, failures)
    except PermafrostError as error:
        # a full disk takes no record either
        for one in failures:
            named = " ".join(str(getattr(one, name)) for name in NAMES if getattr(one, name))
            print(f"{one.stage} {named}: {one.error}")
        print(f"permafrost: error: {error}")
        return
    command: list[str | Path] = ["permafrost", "incomplete", "--failures", record]
    gathered = not is_running(workflow) and "aggregate" in rules_of_run(workflow)
    if on_store or not gathered:
        command.append("--list")
    subprocess.run(command, check=False)
    if on_store and gathered:
        print(
            "Results lie on an object store. Copy them into this folder, and `permafrost incomplete` makes"
            " leaderboard and report of what succeeded (docs/clusters.md)."
        )


def check_executor(workflow) -> None:
    """Refuse a cluster whose commands are missing: Snakemake would find out job by job, or ask for them for ever."""
    if workflow.executor_plugin.name == "cluster-generic":
        _check_generic(workflow.executor_settings)
    if workflow.executor_plugin.name != "slurm":
        return
    lacking = [command for command in ("sbatch", "squeue") if shutil.which(command) is None]
    if lacking:
        raise PermafrostError(
            f"this machine has no Slurm: there is no {' and no '.join(lacking)} on the PATH",
            remedy="start it on a login node of the cluster, or run `snakemake --profile local` here",
        )


def check_gpu(workflow, device: str) -> None:
    """Refuse a GPU that the configuration names and this machine lacks, if jobs run on this machine."""
    if workflow.local_exec and device.startswith("cuda") and not gpu_is_visible():
        raise PermafrostError(NO_GPU.format(device), where="runtime.device", remedy=NO_GPU_REMEDY)


def _check_generic(settings) -> None:
    """Refuse commands of a cluster that are not on this machine."""
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


#: rules that ``light_jobs_on: driver`` runs beside Snakemake
LIGHT = ("probe_embeddings", "bootstrap", "compare")


def check_groups(workflow, light_jobs_on: str) -> None:
    """Refuse groups of rules that are not submitted: Snakemake would submit them all the same."""
    if light_jobs_on != "driver" or workflow.local_exec:
        return
    grouped = [name for name in LIGHT if name in submitted_groups(workflow)]
    if grouped:
        raise PermafrostError(
            f"runtime.light_jobs_on is driver, and the profile puts {', '.join(grouped)} into a group,"
            " which is submitted",
            remedy="take `groups` out of the profile, or set light_jobs_on: cluster",
        )


def record_failures(plan, plan_file: str, results: str, failures: list[Failure]) -> Path:
    """Write down what failed, with all that `permafrost incomplete` needs to go on without a `Plan`."""
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
    """What `record_failures` wrote; ``failures`` as objects, specs as mappings."""
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
    """Why a job failed, in one line.

    Attributes
    ----------
    interrupted : the user ended the run, so the job did not fail.
    """

    text: str
    interrupted: bool = False


def error_in(log: Path, *, since: float, message: str | None = None) -> LoggedError:
    """What a job that failed wrote last or, if it wrote no error, what the executor says of it."""
    text = _end_of(log, since)
    said = " ".join((message or "").split())
    if text is None:
        return LoggedError(said or "it did not start; the messages above say why")
    if _INTERRUPTED.search(text):
        return LoggedError("interrupted", interrupted=True)
    if errors := _ERROR.findall(text):
        return LoggedError(errors[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if "Traceback (most recent call last)" in text:
        return LoggedError(f"unexpected error: {lines[-1]}")
    if full := no_room(log.parent):
        return LoggedError(
            f"{full}: its log could not be written. Remedy: make room in {log.parent}, or set `results` to a folder"
            " with room, then run snakemake again"
        )
    cause = f" ({said})" if said else ""
    return LoggedError(
        f"it ended without an error message: killed, out of memory, or out of time{cause}"
    )


def _end_of(log: Path, since: float) -> str | None:
    """The end of a log, or None where this run has not written it."""
    try:
        if log.stat().st_mtime < since - _CLOCKS_DIFFER:
            return None
        with open(log, "rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL))
            return stream.read().decode(errors="replace")
    except OSError:
        return None
