"""What a light job costs beside its work: as a process of its own, and as a fork of a warm one.

    envs/run permafrost run
    envs/run python benchmarks/light_jobs.py [--jobs 20] [--only knn compare]

Runs the real command of each light stage as the rules do, on the results of a finished run, into a temporary folder.
CPU seconds per job are those of all processes that it needs; `work` is what further jobs of one process take, which
pays for imports once. The rest is overhead. Snakemake's own time per job comes on top, see benchmarks/dag.py.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _timing import one_thread, print_table
from permafrost.operate import light_client
from permafrost.operate.snakemake_process import expose_commands
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.plan import Plan
from startup import commands


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=Path("config/demo.yaml"))
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--only", nargs="+", help="stages, by their names")
    arguments = parser.parse_args()
    os.environ.update(one_thread())
    expose_commands(Path(light_client.__file__).parents[2])
    plan = Plan(read_yaml(arguments.config), Path.cwd())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for stage, command in commands(plan, Path(folder)).items():
            if stage == "aggregate" or arguments.only and stage not in arguments.only:
                continue
            argv = command[command.index(stage) :]
            work = in_one_process(argv, arguments.jobs)
            alone = by_client(argv, arguments.jobs, warm=False)
            served = by_client(argv, arguments.jobs, warm=True)
            costs = [work, alone, served, alone - work, served - work]
            rows.append([stage, *(f"{cost:.3f}" for cost in costs)])
    heads = ["stage", "work", "own process", "fork", "overhead before", "overhead now"]
    print_table(heads, rows)


def in_one_process(argv: list[str], jobs: int) -> float:
    """CPU seconds of a job in a process that has done one."""
    code = (
        "import sys, time, resource, statistics; from permafrost.stages.cli import main; took = []\n"
        f"for _ in range({jobs}):\n"
        "    start = time.process_time(); assert main(sys.argv[1:]) == 0; took.append(time.process_time() - start)\n"
        "print(statistics.median(took[1:]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True
    )
    return float(done.stderr.splitlines()[-1])


def by_client(argv: list[str], jobs: int, *, warm: bool) -> float:
    """CPU seconds per job as the rules call it, those of the warm process among them."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.Popen(["sleep", "3600"])
        began = Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[19]
        environment = {**os.environ, "TMPDIR": folder}
        environment |= {light_client.RUN: f"{run.pid}-{began}"} if warm else {}
        line = [sys.executable, "-I", "-S", light_client.__file__, "code", *argv]
        if warm:
            # those that start it and teach it what to import
            for _ in range(light_client.STARTED_BY):
                subprocess.run(line, env=environment, check=True, capture_output=True)
            (socket,) = wait(lambda: list(Path(folder).glob("*/code/socket")))
            subprocess.run(line, env=environment, check=True, capture_output=True)
            server = server_of(socket.parent)
        before = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_of(server) if warm else 0.0
        for _ in range(jobs):
            subprocess.run(line, env=environment, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_of(server) if warm else 0.0
        run.kill()
        run.wait()
    own = sum(
        getattr(after[0], name) - getattr(before[0], name) for name in ("ru_utime", "ru_stime")
    )
    return (own + after[1] - before[1]) / jobs


def server_of(folder: Path) -> int:
    found = subprocess.run(
        ["pgrep", "-f", f"serve --folder {folder}$"], capture_output=True, text=True, check=True
    )
    return int(found.stdout)


def cpu_of(process: int) -> float:
    """CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def wait(found):
    while not (what := found()):
        time.sleep(0.05)
    return what


if __name__ == "__main__":
    main()
