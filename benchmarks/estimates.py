"""What `permafrost plan` says of finished runs against what they took, and rates that would have said it.

    envs/run python benchmarks/estimates.py --run FOLDER CONFIG [--run FOLDER CONFIG ...] [--fit]

FOLDER is a project in which CONFIG (``-`` for config/config.yaml alone) was run on an otherwise idle machine. With
``--fit``, `start` and `each` of every law are fitted to all jobs (least squares of relative errors, none below 0), as
workflow/permafrost/operate/estimate/rates.json has them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow"))

from permafrost.core.snakemake_internals import read_records
from permafrost.operate.estimate.estimate import Machines, estimate, uncorrected
from permafrost.operate.estimate.work import default_rates, forward_macs, read_values, work_of
from permafrost.plan.configured import read_configuration
from permafrost.probes.kinds import KINDS

HERE = Path.cwd()


def jobs_of(folder: Path, config: str, data: Path | None):
    os.chdir(folder)
    files = [] if config == "-" else [Path(config)]
    grid, why = read_configuration(folder, files, data)
    if why:
        sys.exit(f"{folder}: {why}")
    found = estimate(
        grid,
        default_rates(),
        Machines(len(os.sched_getaffinity(0)), 0),
        results=grid.config["results"],
        records=read_records(folder),
    )
    os.chdir(HERE)
    return found


def fit(rows: dict[str, list[tuple[float, float, float]]]) -> tuple[float, dict[str, list[float]]]:
    """Seconds per 10⁹ operations of a forward pass, and law to (start, each), by (work, operations, seconds)."""
    (start, each, forward) = _fitted([(1, *row[:2]) for row in rows["extract"]], rows["extract"])
    laws = {"extract": [start, each]}
    for law, known in rows.items():
        if law != "extract":
            own = [(work, macs, max(took - macs * forward, 1e-3)) for work, macs, took in known]
            laws[law] = _fitted([(1, work) for work, *_ in own], own)
    return forward, laws


def _fitted(
    columns: list[tuple[float, ...]], rows: list[tuple[float, float, float]]
) -> list[float]:
    """Coefficients with the smallest relative errors, scaled so that the sum of all jobs is right."""
    took = np.array([seconds for *_, seconds in rows])
    found, _ = nnls(np.array(columns) / took[:, None], np.ones(len(took)))
    return (found * took.sum() / (np.array(columns) @ found).sum()).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--run", nargs=2, action="append", required=True, metavar=("FOLDER", "CONFIG")
    )
    parser.add_argument("--data", type=Path, help="data folder of the runs")
    parser.add_argument("--fit", action="store_true")
    arguments = parser.parse_args()
    rows: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    print(f"{'run':<24} {'jobs':>5} {'estimated':>10} {'took':>8} {'ratio':>6}")
    for folder, config in arguments.run:
        found = jobs_of(Path(folder).resolve(), config, arguments.data)
        known = [job for job in found.jobs if job.took is not None]
        for job in known:
            law = KINDS[job.kind].work if job.stage == "probe" else job.stage
            work, macs = (
                work_of(found.context, job.stage, job.names),
                forward_macs(found.context, job.stage, job.names),
            )
            read = default_rates().reading * read_values(found.context, job.stage, job.names)
            rows[law].append((work, macs, job.took - read))
        said, lasted = uncorrected(found).wall(everything=True), found.lasted
        print(
            f"{Path(config).stem:<24} {len(known):>5} {said:>9.0f}s {lasted:>7.0f}s {said / lasted:>6.2f}"
        )
    if arguments.fit:
        forward, laws = fit(rows)
        rounded = {law: [float(f"{one:.3g}") for one in pair] for law, pair in laws.items()}
        print(json.dumps({"forward": float(f"{forward:.3g}"), "stages": rounded}))


if __name__ == "__main__":
    main()
