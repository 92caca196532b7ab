"""What Snakemake's own process is set up with: the environment of its jobs, and what it shows of them."""

from __future__ import annotations

import atexit
import contextlib
import copy
import functools
import gc
import inspect
import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from snakemake.common import overwrite_function_params
from snakemake.resources import Resource
from snakemake_logger_plugin_permafrost import LogHandler

from permafrost.core.environment import MAIN_PYTHON
from permafrost.core.errors import PermafrostError
from permafrost.plan import light_client
from permafrost.plan.plan import Plan
from permafrost.plan.progress.counts import job_of
from permafrost.plan.progress.run import Run
from permafrost.plan.progress.view import NOISE, is_wanted

_TERMINAL = "DefaultStreamHandler"
_SLURM_SAYS = re.compile(r"^slurmstepd(?:-\S+)?: error: (.+)$", re.MULTILINE)
_LONGEST_REASON = 100


def expose_commands(library: Path) -> None:
    """Let every job find the `permafrost` command and this library, activated environment or not.

    Parameters
    ----------
    library : the folder that holds the package ``permafrost``.
    """
    _prepend("PATH", Path(sys.executable).parent)
    _prepend("PYTHONPATH", library)
    # for jobs in an environment of their own: where envs/run is, and what else runs in the main one
    os.environ["PERMAFROST_ENVS"] = str(library.parent / "envs")
    os.environ[MAIN_PYTHON] = sys.executable
    # threads that spin while they wait starve the other jobs where cores are fewer than threads
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """End Snakemake with the sentence of a `PermafrostError` alone, which it would wrap in a place of its rules."""
    try:
        yield
    except PermafrostError as error:
        print(f"permafrost: error: {error}", file=sys.stderr)
        sys.exit(1)


def keep_warm() -> None:
    """Let the light jobs of this process share one that has done their imports (`light_client`)."""
    if not hasattr(os, "pidfd_open"):
        return
    began = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    os.environ[light_client.RUN] = run = f"{os.getpid()}-{began}"
    atexit.register(shutil.rmtree, light_client.folder_of(run), ignore_errors=True)


@functools.cache
def light_program(code: str) -> str:
    """What stands for `permafrost` in the command of a job of this code that mostly starts up."""
    return shlex.join([sys.executable, "-I", "-S", light_client.__file__, code])


def collect_rarely() -> None:
    """Look for garbage less often: Snakemake keeps nearly all that it makes for its jobs.

    With Python's own threshold of 700 objects, looking took a sixth of the time that planning takes, and found nothing.
    """
    gc.set_threshold(50_000, 20, 20)


def asked_often(function: Callable) -> Callable:
    """The function itself, whose parameters Snakemake looks up several times for every job: here they are."""
    overwrite_function_params(function, inspect.signature(function).parameters)
    return function


# by it Snakemake looks up every resource that grows with attempts; that method takes what there is
asked_often(Resource.evaluate)


def _prepend(variable: str, folder: Path) -> None:
    known = os.environ.get(variable, "").split(os.pathsep)
    if str(folder) not in known:
        os.environ[variable] = os.pathsep.join(filter(None, [str(folder), *known]))


class Messages(logging.Handler):
    """Keeps what an executor says about a job that failed, by the job's number."""

    def __init__(self) -> None:
        super().__init__()
        self.by_job: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        event = str(getattr(record, "event", None) or "")
        if event == "job_error" and record.rule_msg:
            self.by_job[record.jobid] = self._with_slurm(record.rule_msg, record.log)
        elif event == "group_error":
            for job in record.job_error_info:
                if said := self._with_slurm("", record.aux_logs):
                    self.by_job[job["jobid"]] = said

    @staticmethod
    def _with_slurm(message: str, logs: list) -> str:
        """The message in short, with what Slurm wrote into the job's log of its own."""
        state = re.search(r"SLURM status is: '(\w+)", message)
        # behind the first line of a message stands the whole call of sbatch
        parts = [f"Slurm: {state[1]}" if state else message.partition("\n")[0]]
        for log in logs:
            if "slurm" in Path(log).parts and Path(log).is_file():
                # the first line is the cause, what follows is how the job was ended
                parts += _SLURM_SAYS.findall(Path(log).read_text(errors="replace"))[:1]
        return "; ".join(filter(None, parts))


class Listed(logging.Filter):
    """Makes the list of a dry run one line for each job, with its reason; the table of jobs is below it.

    Parameters
    ----------
    table_alone : there is no list, so that Snakemake says its table once.
    """

    def __init__(self, *, table_alone: bool = False) -> None:
        super().__init__()
        self._keeps_table = table_alone

    def filter(self, record: logging.LogRecord) -> bool | logging.LogRecord:
        event = str(getattr(record, "event", None) or "message")
        if event == "job_info":
            short = copy.copy(record)
            # an event that Snakemake's formatter does not know is printed as it is
            short.msg, short.args, short.event = self._line(record), (), "permafrost"
            return short
        if event == "run_info":
            keeps, self._keeps_table = self._keeps_table, True
            return keeps
        if event == "message":
            return not NOISE.match(record.getMessage())
        return event not in ("workflow_started", "group_info")

    @staticmethod
    def _line(record) -> str:
        reason = (record.reason or "").partition(":")[0]
        title = job_of(record.rule_name, record.wildcards, "").title
        return f"{title} ({reason[:_LONGEST_REASON]})"


def show_progress(workflow, plan: Plan) -> dict[int, str]:
    """Show how far a run is in place of Snakemake's lines; returns what executors say of failed jobs, by number.

    With ``--verbose`` and the like all is printed, and another logger (``--logger``) prints as it likes.

    Parameters
    ----------
    workflow : Snakemake's, before its jobs are known.
    """
    logger = logging.getLogger("snakemake.logging")
    messages, settings = Messages(), workflow.output_settings
    logger.handlers.insert(0, messages)  # it must know them before a line is printed
    stream = next((one for one in logger.handlers if one.name == _TERMINAL), None)
    if settings.dryrun:
        if stream is not None and not (settings.verbose or settings.printshellcmds):
            quiet = {getattr(one, "name", "") for one in settings.quiet or ()}
            stream.addFilter(Listed(table_alone={"RULES", "PROGRESS"} <= quiet or "ALL" in quiet))
    elif is_wanted(settings):
        handler = _named_by_user(workflow) or _in_place_of(stream, logger, settings)
        if handler is not None:
            handler.view.run = Run(workflow, plan, messages.by_job)
    return messages.by_job


def _named_by_user(workflow) -> logging.Handler | None:
    """The handler that ``--logger permafrost`` has made."""
    known = workflow.logger_manager.get_log_handlers()
    return next((one for one in known if isinstance(one, LogHandler)), None)


def _in_place_of(stream, logger, settings) -> logging.Handler | None:
    """A handler that takes the place of the one for the terminal, where Snakemake has made that."""
    if stream is None:
        return None
    handler = LogHandler(settings, None)
    handler.filters = stream.filters
    logger.handlers[logger.handlers.index(stream)] = handler
    return handler
