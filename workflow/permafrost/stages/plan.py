"""``permafrost plan``: estimate jobs, time, disk, memory and downloads of a configuration."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from permafrost.core.cores import usable_cores
from permafrost.core.device import takes_gpu
from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.home import HOME
from permafrost.core.inputs import check_file
from permafrost.core.outputs import whole_file
from permafrost.core.snakemake_internals import read_records
from permafrost.core.working import working
from permafrost.plan.misfits import misfit_lines, recorded_misfits
from permafrost.stages.list import add_json, add_places, offers_of, print_json
from permafrost.stages.run import project_here


def add_arguments(parser) -> None:
    parser.add_argument(
        "--cores", type=_count, help="cores of all machines together (default: of this one)"
    )
    parser.add_argument(
        "--gpus",
        type=_count_or_none,
        help="GPUs of all machines together (default: 1 if a run on this machine would use one)",
    )
    parser.add_argument(
        "--images",
        type=_count,
        metavar="N",
        help="images assumed for a dataset of unknown size (default: 10000)",
    )
    rates = parser.add_mutually_exclusive_group()
    rates.add_argument(
        "--rates",
        type=Path,
        metavar="FILE",
        help="rates of another machine, written there by --save-rates",
    )
    rates.add_argument(
        "--measure",
        action="store_true",
        help="first run the demo in a temporary folder, to see how fast this machine is: some minutes",
    )
    parser.add_argument(
        "--save-rates", type=Path, metavar="FILE", help="write the rates of finished jobs"
    )
    parser.add_argument(
        "--check", action="store_true", help="compare finished jobs with the estimate"
    )
    add_json(parser)
    add_places(parser)


def run(arguments) -> None:
    from permafrost.operate.as_fed import fed_json, fed_lines
    from permafrost.operate.estimate.shown import as_json, check_lines, lines, rates_json

    root = project_here(arguments.on_clone)
    given = _measured() if arguments.measure else _read_rates(arguments.rates)
    with working("planning"):
        estimate, downloads, why, fed = _estimate(arguments, root, given)
    grid = estimate.context.grid
    left_out = recorded_misfits(grid.misfits)
    if arguments.save_rates is not None:
        measured = given if arguments.measure else {}
        _save(arguments.save_rates, rates_json(estimate, _machine(), measured))
    if arguments.json:
        found = {**as_json(estimate, downloads, why), "fed": fed_json(fed)}
        print_json({**found, "left_out": left_out})
    elif arguments.check:
        print("\n".join(check_lines(estimate)))
    else:
        said = misfit_lines(left_out, len(grid.pairs()))
        print("\n".join([*lines(estimate, downloads, why), *said, *fed_lines(fed)]))


def _estimate(arguments, root: Path, corrections: dict[str, float]):
    """The estimate, downloads, the reason why finished jobs are unknown (None: known), and model inputs."""
    from permafrost.operate.as_fed import known_pairs
    from permafrost.operate.estimate.estimate import Machines, estimate
    from permafrost.operate.estimate.sizes import ASSUMED_IMAGES, downloads_of
    from permafrost.operate.estimate.work import default_rates
    from permafrost.plan.configured import read_configuration

    grid, why = read_configuration(root, arguments.config, arguments.data)
    gpus = arguments.gpus
    if gpus is None:
        gpus = int(takes_gpu(grid.config["runtime"]["device"]))
    cores = arguments.cores or usable_cores()
    os.chdir(root)  # paths of outputs are relative to it
    found = estimate(
        grid,
        default_rates(),
        Machines(cores, gpus),
        results=grid.config["results"],
        records=read_records(root),
        corrections=corrections,
        data=Path(arguments.data or grid.config["data"]),
        assumed=arguments.images or ASSUMED_IMAGES,
    )
    offers = offers_of(arguments)
    fed = known_pairs(offers, grid.every()["extract"])
    roots = {name: one for name, one in grid.datasets.items() if name not in grid.origins}
    return found, downloads_of(offers, roots, grid.backbones), why, fed


def _measured() -> dict[str, float]:
    """Run the demo; returns ratios of measured to estimated time, see `JobEstimate.keys`."""
    program = [sys.executable, "-m", "permafrost.stages.cli"]
    with tempfile.TemporaryDirectory(prefix="permafrost-measure-") as folder:
        demo, rates = Path(folder, "demo"), Path(folder, "rates.json")
        commands = (["init", str(demo)], ["run"], ["plan", "--save-rates", str(rates)])
        for command in commands:
            # its output goes to standard error; standard output is for the estimate
            done = subprocess.run(
                [*program, *command], cwd=demo if demo.exists() else folder, stdout=sys.stderr
            )
            if done.returncode:
                raise PermafrostError(
                    f"the demo failed on this machine (`permafrost {command[0]}` failed)",
                    where="--measure",
                    remedy="see above for the reason, or give --rates FILE",
                )
            if command[0] == "init":
                shutil.copy(HOME / "config/demo.yaml", demo / "config/config.yaml")
                with open(demo / "config/config.yaml", "a") as file:
                    file.write('\ncatalogues: ["{permafrost}/config"]\n')
        return _read_rates(rates)


def _read_rates(path: Path | None) -> dict[str, float]:
    if path is None:
        return {}
    check_file(path)
    try:
        known = json.loads(path.read_text(encoding="utf-8"))["corrections"]
        corrections = {str(key): float(value) for key, value in known.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise PermafrostError(
            f"no rates can be read ({first_line(error)})",
            where=path,
            remedy="write them with `permafrost plan --save-rates FILE` where jobs have run",
        ) from error
    wrong = [key for key, value in corrections.items() if not 0 < value < float("inf")]
    if wrong:
        raise PermafrostError(
            f"corrections.{wrong[0]} is {corrections[wrong[0]]}",
            where=path,
            remedy="give a number above 0",
        )
    return corrections


def _save(path: Path, content: dict) -> None:
    if not content["corrections"]:
        raise PermafrostError(
            "no finished job of this plan is on record",
            where=path,
            remedy="run it, or a part of it",
        )
    with whole_file(path) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores"


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


def _count_or_none(text: str) -> int:
    count = int(text)
    if count < 0:
        raise ValueError(text)
    return count
