"""What Snakemake's own process is set up with: the environment of its jobs, and a short terminal.

A run prints one line per finished job, one per error, and no command lines.

Snakemake prints some 18 lines for every job, and the command of a job that fails twice. Here its
handler for the terminal gets a filter that shortens its messages; ``.snakemake/log`` keeps all of
them, and ``--verbose`` prints them. A bar (as `snakemake-logger-plugin-rich` draws) would be torn
apart by the lines that the jobs themselves print, and is of no use in a file.
"""

from __future__ import annotations

import atexit
import copy
import logging
import os
import re
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

from permafrost.core.environment import MAIN_PYTHON
from permafrost.plan import light_client
from permafrost.plan.failures import NAMES, error_in, stage_of

_TERMINAL = "DefaultStreamHandler"
# what says nothing about this run, or is said better by the lines below
_NOISE = re.compile(
    r"Building DAG of jobs|Using shell:|Provided (cores|remote nodes):|Rules claiming more threads"
    r"|Assuming unrestricted shared|Select jobs to execute|Config file .* is (extended|replaced) by"
    r"|Group jobs: inactive|Execute \d+ jobs|Job rate limit|Removing output files of failed job"
    r"|Removing temporary output|Exiting because a job execution failed|Complete log\(s\):"
    r"|(WorkflowError:\s+)?At least one job did not complete|Some jobs were triggered by provenance|Rules with "
    r"|\d+ jobs have (missing|outdated) provenance|Reasons:|SLURM run ID:"
    r"|Job \d+ has been submitted with SLURM|Waiting at most"
)
# names the whole command; the line of the job's own error says why
_COMMAND_FAILED = re.compile(r"CalledProcessError in file|SpawnedJobError")
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


def keep_warm() -> None:
    """Let the light jobs of this process share one that has done their imports (`light_client`)."""
    if not hasattr(os, "pidfd_open"):
        return
    began = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    os.environ[light_client.RUN] = run = f"{os.getpid()}-{began}"
    atexit.register(shutil.rmtree, light_client.folder_of(run), ignore_errors=True)


def light_program(code: str) -> str:
    """What stands for `permafrost` in the command of a job of this code that mostly starts up."""
    return shlex.join([sys.executable, "-I", "-S", light_client.__file__, code])


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


class Shortened(logging.Filter):
    """Drops Snakemake's messages or puts a line of ours in their place.

    Parameters
    ----------
    messages : what executors said of jobs; since : as `failures.error_in`.
    dryrun : whether jobs are only listed.
    """

    def __init__(self, messages: dict[int, str], *, since: float, dryrun: bool) -> None:
        super().__init__()
        self._messages, self._since, self._dryrun = messages, since, dryrun
        self._jobs: dict[int, tuple[str, list[str]]] = {}
        self._finished: list[int] = []
        self._remote = False

    def filter(self, record: logging.LogRecord) -> bool | logging.LogRecord:
        event = str(getattr(record, "event", None) or "message")
        shorten = getattr(self, f"_{event}", None)
        if shorten is None:
            return True
        line = shorten(record)
        if not isinstance(line, str):
            return line
        short = copy.copy(record)
        # an event that Snakemake's formatter does not know is printed as it is
        short.msg, short.args, short.event = line, (), "permafrost"
        return short

    def _message(self, record) -> bool:
        text = record.getMessage()
        return not (_NOISE.match(text) or _COMMAND_FAILED.search(text))

    def _error(self, record) -> bool:
        return self._message(record)

    def _workflow_started(self, record) -> bool:
        return False

    def _job_started(self, record) -> bool:
        return False

    def _group_info(self, record) -> bool:
        return False

    def _group_error(self, record) -> str:
        """What the executor says of jobs that travelled together; those that ran follow one by one."""
        jobs = [job["jobid"] for job in record.job_error_info]
        said = next((self._messages[job] for job in jobs if job in self._messages), None)
        names = [self._jobs[job][0] for job in jobs if job in self._jobs]
        cause = f": {said}" if said else ""
        return f"Error in group of {' and '.join(names)}{cause}, log: {', '.join(record.aux_logs)}"

    def _resources_info(self, record) -> bool:
        self._remote = getattr(record, "nodes", None) is not None
        return False

    def _run_info(self, record) -> str | bool:
        counts: Counter[str] = Counter()
        for name, count in record.stats.items():
            if name != "total":
                counts[stage_of(name)] += count
        if self._dryrun:
            return True
        total = sum(counts.values())
        return f"{total} job{'' if total == 1 else 's'}: " + ", ".join(
            f"{count} {name}" for name, count in counts.items()
        )

    def _job_info(self, record) -> str | bool:
        named = {name: str(record.wildcards[name]) for name in NAMES if name in record.wildcards}
        if "seed" in named:
            named["seed"] = f"seed {named['seed']}"
        words = [stage_of(record.rule_name), *named.values()]
        self._jobs[record.jobid] = " ".join(words), list(record.log)
        if not self._dryrun:
            return False
        reason = (record.reason or "").partition(":")[0]
        return f"{self._jobs[record.jobid][0]} ({reason[:_LONGEST_REASON]})"

    def _job_finished(self, record) -> bool:
        self._finished.append(record.job_id)
        return False

    def _progress(self, record) -> str:
        done, self._finished = self._finished, []
        shown = [self._words(job) for job in done if job in self._jobs]
        width = len(str(record.total))
        return f"[{record.done:>{width}}/{record.total}] " + "; ".join(shown)

    def _words(self, job: int) -> str:
        """Which job it was; one that ran elsewhere with the last line that it printed there."""
        name, logs = self._jobs[job]
        if not self._remote or not logs or not Path(logs[0]).is_file():
            return name
        lines = Path(logs[0]).read_text(errors="replace").strip().splitlines()
        return f"{name}: {lines[-1].strip()}" if lines else name

    def _job_error(self, record) -> str | bool:
        log = next(iter(record.log), "")
        message = self._messages.get(record.jobid)
        error = error_in(Path(log), since=self._since, message=message)
        if record.indent and not Path(log).is_file():
            return False  # it waited for another job of its group
        name = self._jobs.get(record.jobid, (stage_of(record.rule_name),))[0]
        if error.printed and not self._remote:
            return f"Error in rule {name}, log: {log}"
        return f"Error in rule {name}: {error.text}, log: {log}"


def shorten_console(settings, *, since: float) -> dict[int, str]:
    """Make Snakemake print less to the terminal; returns what executors say of failed jobs, by number.

    Parameters
    ----------
    settings : Snakemake's output settings. With ``verbose`` all is printed, and another logger
        (``--logger``) prints as it likes.
    since : seconds since 1970 when the run began.
    """
    logger = logging.getLogger("snakemake.logging")
    messages = Messages()
    logger.handlers.insert(0, messages)  # it must know them before a line is printed
    if not settings.verbose and not settings.printshellcmds:
        for handler in logger.handlers:
            if handler.name == _TERMINAL:
                shortened = Shortened(messages.by_job, since=since, dryrun=settings.dryrun)
                handler.addFilter(shortened)
    return messages.by_job
