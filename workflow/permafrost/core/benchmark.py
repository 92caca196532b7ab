"""Time and peak memory of a command in the format of Snakemake's ``benchmark:``."""

from __future__ import annotations

import resource
import sys
from datetime import timedelta
from pathlib import Path

#: Snakemake's columns, in seconds, megabytes and percent of a core; NA: not measured
COLUMNS: tuple[str, ...]
COLUMNS = ("s", "h:m:s", "max_rss", "max_vms", "max_uss", "max_pss", "io_in", "io_out")
COLUMNS += ("mean_load", "cpu_time")
_MB = 1 << 20
_RSS_UNIT = 1 if sys.platform == "darwin" else 1 << 10  # bytes


def write_benchmark(path: Path, seconds: float) -> None:
    """Write time, CPU time and peak memory of this process and of its finished child processes.

    Snakemake polls memory every few seconds. This reads the peak that the system recorded, which is
    exact for jobs shorter than a second, too. The peak is the largest process, not the sum of all.

    Parameters
    ----------
    path : tab-separated file; its folder is created. If it cannot be written, the job has still
        succeeded, and a message says so.
    seconds : wall time since the command began.
    """
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in usages)
    values = {
        "s": f"{seconds:.4f}",
        "h:m:s": str(timedelta(seconds=int(seconds))),
        "max_rss": f"{max(one.ru_maxrss for one in usages) * _RSS_UNIT / _MB:.2f}",
        "mean_load": f"{100 * cpu / seconds:.2f}" if seconds > 0 else "NA",
        "cpu_time": f"{cpu:.2f}",
        **_of_linux(),
    }
    rows = COLUMNS, [values.get(column, "NA") for column in COLUMNS]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join("\t".join(row) + "\n" for row in rows))
    except OSError as error:
        print(f"{path}: time and memory could not be written ({error.strerror})", file=sys.stderr)


def _of_linux() -> dict[str, str]:
    """Values that only Linux reports: peak address space, bytes read and written.

    Also `max_rss`, since on Linux ``getrusage`` includes the peak of the program that started this
    one.
    """
    try:
        status = _fields("/proc/self/status")
        io = _fields("/proc/self/io")
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        return {
            "max_rss": f"{max(int(status['VmHWM'].split()[0]), children) / 1024:.2f}",
            "max_vms": f"{int(status['VmPeak'].split()[0]) / 1024:.2f}",
            "io_in": f"{int(io['read_bytes']) / _MB:.2f}",
            "io_out": f"{int(io['write_bytes']) / _MB:.2f}",
        }
    except (OSError, KeyError, ValueError):
        return {}


def _fields(path: str) -> dict[str, str]:
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}
