"""Show the progress of a run: a table on a terminal, occasional lines elsewhere.

Snakemake prints about 18 lines per job, and the command of a failed job twice. These views count
its events instead, and report only failures, immediately. ``.snakemake/log`` has Snakemake's full
output; ``--verbose`` prints it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.operate.failures import error_in
from permafrost.operate.progress import drawn
from permafrost.operate.progress.counts import Counts, job_of

if TYPE_CHECKING:
    from rich.live import Live

    from permafrost.operate.progress.left import TimeLeft
    from permafrost.operate.progress.run import Run

#: messages that are not printed: not informative, or replaced by the view
NOISE = re.compile(
    r"Building DAG of jobs|Using shell:|Provided (cores|remote nodes):|Rules claiming more threads"
    r"|Assuming unrestricted shared|Select jobs to execute|Config file .* is (extended|replaced) by"
    r"|Group jobs: inactive|Execute \d+ jobs|Job rate limit|Removing output files of failed job"
    r"|(Removing|Would remove) temporary output|Exiting because a job execution failed|Complete log\(s\):"
    r"|(WorkflowError:\s+)?At least one job did not complete|Some jobs were triggered by provenance|Rules with "
    r"|\d+ jobs have (missing|outdated) provenance|Reasons:|SLURM run ID:|Elapsed time:"
    r"|Job [\w-]+ has been submitted with SLURM|Waiting at most"
    r"|Submitted (group )?job \S+ with external jobid|Get status with: kubectl"
    # messages for every file on an object store
    r"|(Storing in|Retrieving from) storage: |Finished (upload|retrieval)\.|Removing local copy of storage file: "
    r"|Skipped removing non-empty directory \S*\.snakemake/storage/"
)
# repeats the whole command; the job's own error gives the reason
_COMMAND_FAILED = re.compile(r"CalledProcessError in file|SpawnedJobError")
_INTERRUPTED = "Terminating processes on user request"
LAST_WORDS = re.compile(r"Exiting because a job execution failed|Complete log\(s\):")
_QUIET = {"ALL", "PROGRESS", "RULES"}
_LONGEST_REASON = 100
LINE_EVERY_S = 30.0


def make_view(settings) -> View | None:
    """The view for these output settings and standard error; None: use Snakemake's own output."""
    quiet = {getattr(one, "name", "") for one in settings.quiet or ()}
    if settings.verbose or settings.printshellcmds or settings.debug_dag:
        return None
    if settings.dryrun:
        return DryRun(table_alone={"RULES", "PROGRESS"} <= quiet or "ALL" in quiet)
    if quiet & _QUIET:
        return None
    on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return Terminal(nocolor=settings.nocolor) if on_terminal else Lines()


class View:
    """Counts Snakemake's events; subclasses show them.

    Attributes
    ----------
    run : the `Run`; None: unknown.
    ended : set after the view has shown its last output.
    """

    def __init__(self) -> None:
        self.run: Run | None = None
        self.ended = threading.Event()
        self.counts = Counts()
        self._since = time.time()
        self._cores: int | None = None
        self._left: TimeLeft | None = None
        self._shows = self._interrupted = False

    def show(self, record: logging.LogRecord) -> None:
        """Process an event; events without a method are ignored."""
        event = str(getattr(record, "event", None) or "message")
        method = getattr(self, f"_{event}", None)
        if method is not None:
            method(record)

    def end(self) -> None:
        """End the view; its last output stays on the terminal."""
        if self._shows:
            self._shows = False
            self._last()
        self.ended.set()

    def _elapsed(self) -> float:
        return time.time() - self._since

    def _time_left(self) -> float | None:
        return None if self._left is None else self._left.seconds(self.counts, time.time())

    # --- events ----------------------------------------------------------------------------------

    def _message(self, record) -> None:
        text = record.getMessage()
        if LAST_WORDS.match(text):
            self.end()
        self._interrupted |= text.startswith(_INTERRUPTED)
        if not (NOISE.match(text) or _COMMAND_FAILED.search(text)):
            self._say(text, record.levelno)

    _error = _message

    def _resources_info(self, record) -> None:
        self._cores = getattr(record, "cores", self._cores)

    def _run_info(self, record) -> None:
        targets = {"total"} | (self.run.targets() if self.run else set())
        self.counts.expect({rule: n for rule, n in record.stats.items() if rule not in targets})
        if not self.counts.stages:
            return
        self._since, self._shows = time.time(), True
        self._first()
        if self.run is not None:
            self._left = self.run.time_left(self._cores)

    def _job_info(self, record) -> None:
        job = job_of(record.rule_name, record.wildcards, next(iter(record.log), ""))
        if job.stage in self.counts.stages:
            self.counts.start(record.jobid, job, time.time())

    def _job_finished(self, record) -> None:
        job = self.counts.jobs.get(record.job_id)
        if job is not None and job.title == job.stage and Path(job.log).is_file():
            # a job without a dataset (aggregate, report): the last line of its log names the result
            with contextlib.suppress(OSError):
                printed = Path(job.log).read_text(errors="replace").split("\n")
                self._say(next(filter(str.strip, reversed(printed)), ""), logging.INFO)
        self._moved(self.counts.finish(record.job_id, time.time()))

    def _progress(self, record) -> None:
        if record.done == record.total:
            self.end()

    def _job_error(self, record) -> None:
        log = next(iter(record.log), "")
        if self.run is not None:
            log = self.run.log_here(log, self._since)
        waited = record.indent and not Path(log).is_file()  # for another job of its group
        if waited or self._interrupted:
            self.counts.stop(record.jobid)
            return
        self.counts.fail(record.jobid)
        title = f"Error in rule {self._title(record)}"
        if not log:
            self._say(f"{title}, which has no log of its own, log: .snakemake/log", logging.ERROR)
            return
        message = self.run.messages.get(record.jobid) if self.run else None
        printed = self.run.printed() if self.run else []
        error = error_in(Path(log), since=self._since, message=message, printed=printed)
        if not error.interrupted:
            self._say(f"{title}: {error.text}, log: {log}", logging.ERROR)

    def _group_error(self, record) -> None:
        """Report the executor's message for a group; events of its single jobs follow."""
        jobs = [job["jobid"] for job in record.job_error_info]
        messages = self.run.messages if self.run else {}
        said = next((f": {messages[job]}" for job in jobs if job in messages), "")
        names = [self.counts.jobs[job].title for job in jobs if job in self.counts.jobs]
        logs = ", ".join(record.aux_logs)
        self._say(f"Error in group of {' and '.join(names)}{said}, log: {logs}", logging.ERROR)

    def _title(self, record) -> str:
        job = self.counts.jobs.get(record.jobid)
        return job.title if job else record.rule_name

    # --- output, by subclass ---------------------------------------------------------------------

    def _say(self, text: str, level: int) -> None:
        raise NotImplementedError

    def _first(self) -> None:
        """Called when the jobs are known."""

    def _moved(self, stage_is_done: bool) -> None:
        """Called after a successful job."""

    def _last(self) -> None:
        """Called at the end of the run."""


class Lines(View):
    """Lines for a file or a pipe: when a stage is complete, else at most every 30 seconds."""

    _next = 0.0

    def _say(self, text: str, level: int = logging.INFO) -> None:
        print(text, file=sys.stderr, flush=True)

    def _first(self) -> None:
        self._say(drawn.planned(self.counts))
        self._next = time.time() + LINE_EVERY_S

    def _moved(self, stage_is_done: bool) -> None:
        if self.counts.sum("done") == self.counts.sum("total"):
            return  # the last line reports it
        if stage_is_done or time.time() >= self._next:
            self._say(drawn.line(self.counts, self._elapsed(), self._time_left()))
            self._next = time.time() + LINE_EVERY_S

    def _last(self) -> None:
        self._say(drawn.status(self.counts, self._elapsed(), None, ended=True))


class DryRun(View):
    """A line for each job with its reason, and Snakemake's table of jobs.

    Parameters
    ----------
    table_alone : jobs are not listed, so Snakemake logs its table once, not before and after them.
    """

    def __init__(self, *, table_alone: bool = False) -> None:
        super().__init__()
        self._keeps_table = table_alone

    def show(self, record) -> None:
        event = str(getattr(record, "event", None) or "message")
        if event == "job_info":
            title = job_of(record.rule_name, record.wildcards, "").title
            self._say(f"{title} ({(record.reason or '').partition(':')[0][:_LONGEST_REASON]})")
        elif event == "run_info":
            if self._keeps_table:
                self._say(record.getMessage())
            self._keeps_table = True
        elif event not in ("workflow_started", "group_info"):
            text = record.getMessage()
            if not NOISE.match(text):
                self._say(text)

    def _say(self, text: str, level: int = logging.INFO) -> None:
        print(text, flush=True)


class Terminal(View):
    """A table that is redrawn in place, with messages above it."""

    def __init__(self, *, nocolor: bool) -> None:
        super().__init__()
        from rich.console import Console

        self._console = Console(stderr=True, no_color=nocolor or None, highlight=False)
        self._live: Live | None = None

    def _say(self, text: str, level: int) -> None:
        from rich.text import Text

        style = "red" if level >= logging.ERROR else "yellow" if level >= logging.WARNING else ""
        # soft wrap: long lines can be copied whole
        self._console.print(Text(text, style=style), soft_wrap=True)

    def _first(self) -> None:
        from rich.live import Live

        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=2,
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start()

    def _draw(self):
        return drawn.table(self.counts, self._elapsed(), self._time_left(), ended=not self._shows)

    def _last(self) -> None:
        self._live.stop()
