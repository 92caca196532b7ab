"""Set up Snakemake's process: the environment of its jobs, and the events to follow."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import logging
import os
import re
import shlex
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from permafrost.core.environment import MAIN_PYTHON
from permafrost.core.errors import PermafrostError
from permafrost.core.limits import limits_named
from permafrost.core.snakemake_internals import (
    compare_every_record,
    fast_resources,
    spare_finished_jobs,
)
from permafrost.operate import light_client
from permafrost.operate.progress.run import Run
from permafrost.operate.progress.view import LAST_WORDS, View
from permafrost.plan.plan import Plan

_SLURM_SAYS = re.compile(r"^slurmstepd(?:-\S+)?: error: (.+)$", re.MULTILINE)
_NOTHING = "Nothing to be done"
_OLD_S = 3600.0
_END_S = 5.0  # longest wait for the view to show all events


def expose_commands(library: Path) -> None:
    """Make the `permafrost` command and this library available to every job.

    Parameters
    ----------
    library : the folder that holds the package ``permafrost``.
    """
    _prepend("PATH", Path(sys.executable).parent)
    _prepend("PYTHONPATH", library)
    # for jobs in a separate environment: the folder of envs/run, and the main environment's Python
    os.environ["PERMAFROST_ENVS"] = str(library.parent / "envs")
    os.environ[MAIN_PYTHON] = sys.executable
    # with fewer cores than threads, spinning threads would slow down the other jobs
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Exit with the message of a `PermafrostError` raised inside, without Snakemake's traceback."""
    try:
        with limits_named():
            yield
    except PermafrostError as error:
        print(f"permafrost: error: {error}", file=sys.stderr)
        sys.exit(1)


def keep_warm() -> None:
    """Make short jobs of this run use preloaded processes (`light_client`), on Linux only."""
    if not hasattr(os, "pidfd_open"):
        return
    _remove_left_folders()
    os.environ[light_client.RUN] = run = light_client.this_process()
    atexit.register(shutil.rmtree, light_client.folder_of(run), ignore_errors=True)


def _began(process: str) -> str | None:
    """When a process began, in ticks since the machine started; None if there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _remove_left_folders() -> None:
    """Remove folders that this user's runs on this machine left: an hour old, and their process is gone."""
    folders = Path(light_client.folder_of("*-*"))
    for folder in folders.parent.glob(folders.name):
        process, began = folder.name.split("-", 4)[2:4]
        with contextlib.suppress(OSError):
            found = folder.lstat()
            ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            old = time.time() - found.st_mtime > _OLD_S
            if ours and old and process.isdigit() and _began(process) != began:
                shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def light_program(code: str, asked: str = "") -> str:
    """The program that a short job's command begins with, instead of ``permafrost``.

    Parameters
    ----------
    code : hash of its sources; or, of any job, what `of_libraries` returns.
    asked : what the job asks of a worker (`permafrost.operate.light_workers.asks`); empty: it runs
        on this machine.
    """
    program = shlex.join([sys.executable, "-I", "-S", light_client.__file__, code])
    return f"{light_client.ASKS}={shlex.quote(asked)} {program}" if asked else program


def of_libraries(libraries: Iterable[str]) -> str:
    """The `code` of a job that shares a process with others that import the same libraries."""
    return f"{light_client.LIBRARIES}{','.join(libraries)}"


def set_up_planning() -> None:
    """Set up this process so that Snakemake plans faster, and misses no job whose parameters changed.

    Garbage collection runs less often, because Snakemake keeps nearly all objects: with Python's
    threshold of 700 objects, it took a sixth of the planning time and found nothing.
    """
    gc.set_threshold(50_000, 20, 20)
    # of resources that Snakemake evaluates too soon, and again when a job starts
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", module="snakemake")
    fast_resources()
    compare_every_record()
    spare_finished_jobs()


def _prepend(variable: str, folder: Path) -> None:
    known = os.environ.get(variable, "").split(os.pathsep)
    if str(folder) not in known:
        os.environ[variable] = os.pathsep.join(filter(None, [str(folder), *known]))


class RunEvents(logging.Filter):
    """Follows Snakemake's events in the process that logs them, before any handler.

    Parameters
    ----------
    start : called once, when the jobs of a run are known and before they start, even if there are
        none; not in a dry run.

    Attributes
    ----------
    messages : number of a failed job -> the executor's message.
    """

    def __init__(self, workflow, plan: Plan, start: Callable[[], None]) -> None:
        super().__init__()
        self.messages: dict[int, str] = {}
        self._workflow, self._plan, self._start = workflow, plan, start
        self._run: Run | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        event = str(getattr(record, "event", None) or "message")
        method = getattr(self, f"_{event}", None)
        if method is not None:
            method(record)
        return True

    def wait_for_view(self) -> None:
        """Wait until the view has shown all events of the ended run, at most 5 seconds."""
        for view in self._views():
            view.ended.wait(_END_S)

    def _views(self) -> list:
        handlers = self._workflow.logger_manager.get_log_handlers()
        views = (getattr(handler, "view", None) for handler in handlers)
        return [view for view in views if isinstance(view, View)]

    def _run_info(self, record) -> None:
        if self._workflow.output_settings.dryrun:
            return
        self._start()
        for view in self._views():
            view.run = self._run = Run(self._workflow, self._plan, self.messages)
            self._run.keep_output()

    def _message(self, record) -> None:
        text = record.getMessage()
        if self._run is not None and LAST_WORDS.match(text):
            self._run.release_output()
        elif text.startswith(_NOTHING) and not self._workflow.output_settings.dryrun:
            self._start()

    def _progress(self, record) -> None:
        if self._run is not None and record.done == record.total:
            self._run.release_output()

    def _job_error(self, record) -> None:
        if record.rule_msg:
            self.messages[record.jobid] = self._with_slurm(record.rule_msg, record.log)

    def _group_error(self, record) -> None:
        for job in record.job_error_info:
            if said := self._with_slurm("", record.aux_logs):
                self.messages[job["jobid"]] = said

    @staticmethod
    def _with_slurm(message: str, logs: list) -> str:
        """The first line of the message, with the cause from Slurm's log of the job."""
        state = re.search(r"SLURM status is: '(\w+)", message)
        # further lines repeat the whole sbatch command
        parts = [f"Slurm: {state[1]}" if state else message.partition("\n")[0]]
        for log in logs:
            if "slurm" in Path(log).parts:
                # the first error is the cause; later ones report the end of the job
                with contextlib.suppress(OSError):
                    parts += _SLURM_SAYS.findall(Path(log).read_text(errors="replace"))[:1]
        return "; ".join(filter(None, parts))


def follow_run(workflow, plan: Plan, start: Callable[[], None]) -> RunEvents:
    """Follow the events of this process's workflow, see `RunEvents`."""
    events = RunEvents(workflow, plan, start)
    logging.getLogger("snakemake.logging").addFilter(events)
    return events
