"""The progress of a run as text: a line, and a table for terminals."""

from __future__ import annotations

from permafrost.operate.progress.counts import Counts

_BAR = 24
# colours that the terminal's theme defines
_STYLES = {"style": "bright_black", "complete_style": "cyan", "finished_style": "green"}
_HEADING = ("stage", "", "done", "running", "failed")


def status(counts: Counts, elapsed: float, left: float | None, *, ended: bool = False) -> str:
    """The progress, such as ``6 of 120 jobs done in 31 s, 1 failed, about 12 min left``.

    Parameters
    ----------
    elapsed, left : in seconds; `left` None: unknown.
    ended : no further jobs will run.
    """
    from permafrost.operate.estimate.shown import duration

    done, total = counts.sum("done"), counts.sum("total")
    parts = [f"{done} of {total} job{'s' * (total != 1)} done in {duration(elapsed)}"]
    if failed := counts.sum("failed"):
        parts.append(f"{failed} failed")
    if ended and (waiting := total - done - failed):
        parts.append(f"{waiting} not run")
    elif left is not None and left >= 1:  # 0 if jobs take longer than estimated
        parts.append(f"about {duration(left)} left")
    return ", ".join(parts)


def line(counts: Counts, elapsed: float, left: float | None) -> str:
    """Like `status`, with the counts of started stages, for a log."""
    begun = [
        f"{stage.name} {stage.done}/{stage.total}"
        for stage in counts.stages.values()
        if stage.done or stage.running or stage.failed
    ]
    return f"{status(counts, elapsed, left)}: {', '.join(begun)}"


def planned(counts: Counts) -> str:
    """The planned jobs, such as ``12 jobs: 2 prepare, 4 extract, 6 probe``."""
    total = counts.sum("total")
    stages = ", ".join(f"{stage.total} {stage.name}" for stage in counts.stages.values())
    return f"{total} job{'s' * (total != 1)}: {stages}"


def table(counts: Counts, elapsed: float, left: float | None, *, ended: bool = False):
    """A rich renderable: a row for each stage, and the `status` line below."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    for name in _HEADING:
        rows.add_column(justify="left" if name in ("stage", "") else "right", no_wrap=True)
    rows.add_row(*(Text(name, style="dim") for name in _HEADING))
    for stage in list(counts.stages.values()):
        rows.add_row(
            stage.name,
            ProgressBar(total=max(stage.total, 1), completed=stage.done, width=_BAR, **_STYLES),
            f"{stage.done}/{stage.total}",
            Text(str(stage.running or ""), style="cyan"),
            Text(str(stage.failed or ""), style="bold red"),
        )
    return Group(rows, Text(status(counts, elapsed, left, ended=ended)))
