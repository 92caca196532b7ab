"""What it costs to start a job in an environment of a backbone's own, against the same job in the main one.

Each job is the whole command `extract` for three images, through `envs/run` as Snakemake starts it. Runs alternate;
wall and CPU seconds on one thread are medians after a first run (of that run with `--repeats 0`). Jobs of an
environment that is not installed are left out.

    PERMAFROST_ENV=terratorch envs/run true  # installs it
    envs/run python benchmarks/environment.py [--environment terratorch] [--model terramind_v1_tiny] [--repeats 5] \
        [--jobs nothing imagestats]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _timing import measure_command, print_table
from extraction import make_dataset
from permafrost.features.specification import ExtractionSettings
from permafrost.plan.sources import code_hash
from permafrost.plan.validation import validate

RUN = Path(__file__).resolve().parents[1] / "envs" / "run"
SPLITS = ("train", "val", "test")


def command_of(folder: Path, environment: str | None, entry: dict) -> list[str]:
    """The command that extracts from the images in `folder`; None: in the main environment."""
    validate(entry, "backbone", where="entry of the benchmark")
    spec = {
        "stage": "extract",
        "dataset": "noise",
        "backbone": "timed",
        "entry": entry,
        "extraction": asdict(ExtractionSettings()),
        "inputs": {"images": "images"},
    }
    outputs = [str(folder / "out" / f"{split}.zarr") for split in SPLITS]
    command = [*named(environment), "bash", str(RUN), "python", "-m", "permafrost.stages.cli"]
    command += [
        "extract",
        "--spec",
        json.dumps(spec),
        "--code",
        code_hash("extract", spec),
        "--device",
        "cpu",
    ]
    command += ["--card", str(folder / "card.json"), "--output", *outputs]
    return command


def named(environment: str | None) -> list[str]:
    """What sets the variable that `envs/run` reads, or takes it away."""
    if environment is None:
        return ["env", "-u", "PERMAFROST_ENV"]
    return ["env", f"PERMAFROST_ENV={environment}"]


def installed(environment: str) -> bool:
    main = os.environ.get("PERMAFROST_VENV", RUN.parents[1] / ".venv")
    return Path(f"{main}-{environment}", ".permafrost").exists()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", default="terratorch")
    parser.add_argument("--model", default="terramind_v1_tiny", help="of kind terratorch")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--jobs", nargs="+", help="their names in the table, without environments")
    arguments = parser.parse_args()
    numbers = {"kind": "imagestats"}
    network = {"kind": "timm", "model": "resnet18", "weights": {"source": "random"}}
    network["input"] = {"bands": ["B04", "B03", "B02"], "normalization": "dataset"}
    own = {"kind": "terratorch", "model": arguments.model, "weights": None}
    there = arguments.environment
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_dataset(folder, 1, 64, "terratorch")
        commands = {
            "nothing, main": [*named(None), "bash", str(RUN), "python", "-c", ""],
            f"nothing, {there}": [*named(there), "bash", str(RUN), "python", "-c", ""],
            "imagestats, main": command_of(folder, None, numbers),
            f"imagestats, {there}": command_of(folder, there, numbers),
            "resnet18, main": command_of(folder, None, network),
            f"resnet18, {there}": command_of(folder, there, network),
            f"{arguments.model}, {there}": command_of(folder, there, own),
        }
        if not installed(there):
            print(f"the environment {there} is not installed: its jobs are left out")
            commands = {job: each for job, each in commands.items() if job.endswith(", main")}
        if arguments.jobs:
            wanted = {job for job in commands if job.split(", ")[0] in arguments.jobs}
            commands = {job: commands[job] for job in commands if job in wanted}
        runs: dict[str, list] = {job: [] for job in commands}
        for _ in range(arguments.repeats + 1):
            for job, command in commands.items():
                runs[job].append(measure_command(command))
    rows = []
    for job, measured in runs.items():
        counted = measured[1:] or measured
        wall, cpu, _ = (statistics.median(one) for one in zip(*counted, strict=True))
        rows.append([job, f"{cpu:.2f}", f"{wall:.2f}"])
    print_table(["job, environment", "CPU s", "wall s"], rows)


if __name__ == "__main__":
    # where this process was started from is no matter of the jobs
    os.environ.pop("PYTHONPATH", None)
    main()
