"""Run commands in turn, one thread each, and compare the CPU time that they report.

A worker is a command whose last line of output is a JSON object with "cpu_s": the CPU seconds of
the measured part, taken by itself after a warm-up, so that neither imports nor first calls count.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

THREADS = tuple(f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "RAYON"))


def cpu_seconds(function: Callable[[], object], warm_up: Callable[[], object] | None = None):
    """(CPU seconds of this process spent in ``function``, its result)."""
    if warm_up is not None:
        warm_up()
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def venv_python(folder: Path) -> Path:
    """The interpreter of a virtual environment; an error names what is missing."""
    python = Path(folder).absolute() / "bin" / "python"  # resolving links would leave the venv
    if not python.exists():
        raise SystemExit(f"{folder} is no virtual environment: {python} does not exist")
    return python


def run_worker(command: list[str]) -> dict:
    """Run one worker with one thread and return the JSON object it ends with."""
    done = subprocess.run(command, env=one_thread(), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure_command(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak memory in MB of a whole process with one thread."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=one_thread())
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the command failed: {' '.join(command)}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def one_thread() -> dict[str, str]:
    """The environment in which numerical libraries use one thread."""
    return {**os.environ, **dict.fromkeys(THREADS, "1")}


def alternate(workers: dict[str, list[str]], repeats: int) -> dict[str, list[dict]]:
    """Run every worker ``repeats`` times, A B A B, so that drifts of the machine hit all alike."""
    reports: dict[str, list[dict]] = {name: [] for name in workers}
    for turn in range(repeats):
        for name, command in workers.items():
            print(f"  run {turn + 1} of {repeats}: {name}", file=sys.stderr, flush=True)
            reports[name].append(run_worker(command))
    return reports


def median_cpu(reports: list[dict]) -> float:
    return statistics.median(report["cpu_s"] for report in reports)


def print_table(header: list[str], rows: list[list[object]]) -> None:
    """Columns aligned, as Markdown."""
    cells = [header, ["-" * len(title) for title in header], *[[str(c) for c in r] for r in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        print("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |")
