"""Time and memory of ``aggregate``, which makes leaderboard and standings, from generated score tables.

Each evaluation is a score table as ``bootstrap`` writes it: eight metrics, and what 200 parts of a test set add to the
primary one. Datasets have tasks, sensors and ground distances in turn, so that groups make themselves. The command runs
in a process of its own; reading the tables alone is timed beside it, as the floor.

    python benchmarks/standings.py [--sizes 10x5x4 50x20x4 100x40x4]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from _timing import measure_command
from permafrost.core.identity import canonical_json
from permafrost.core.tables import write_table
from permafrost.plan.groups import groups_of
from permafrost.plan.sources import code_hash
from permafrost.statistics.tables import ScoreColumns

METRICS = (
    "accuracy", "balanced_accuracy", "macro_precision", "macro_recall", "macro_f1", "top5_accuracy",
    "recall", "precision",
)  # fmt: skip
PARTS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["10x5x4", "50x20x4", "100x40x4"])
    print(
        "| backbones x datasets x probes | tables | reading | aggregate | CPU | peak memory | rows |"
    )
    print("|---|---|---|---|---|---|---|")
    for size in parser.parse_args().sizes:
        with tempfile.TemporaryDirectory() as folder:
            print(measure(size, Path(folder)), flush=True)


def measure(size: str, folder: Path) -> str:
    backbones, datasets, probes = map(int, size.split("x"))
    plan, groups = write_scores(folder, backbones, datasets, probes)
    reading, _, _ = measure_command([sys.executable, "-c", READ, str(plan)])
    spec = {
        "stage": "aggregate",
        "options": {"resamples": 2000, "confidence": 0.95, "seed": 0},
        "groups": groups,
        "ranking": {"baseline": "b000"},
        "inputs": {},
    }
    command = [
        sys.executable,
        "-m",
        "permafrost.stages.cli",
        "aggregate",
        "--code",
        code_hash("aggregate", spec),
    ]
    command += ["--spec", canonical_json(spec), "--plan", str(plan)]
    for name in ("parquet", "csv", "standings", "standings-csv", "stamp"):
        command += [f"--{name}", str(folder / f"made.{name}")]
    wall, cpu, peak = measure_command(command)
    rows = (folder / "made.standings-csv").read_text().count("\n") - 1
    tables = backbones * datasets * probes
    return f"| {size} | {tables:,} | {reading:.1f} s | {wall:.1f} s | {cpu:.1f} s | {peak:.0f} MB | {rows:,} |"


READ = """
import json, sys
from permafrost.core.tables import read_table
for row in json.load(open(sys.argv[1]))["outputs"]:
    read_table(row["path"], expect=row["fingerprint"])
"""


def write_scores(folder: Path, backbones: int, datasets: int, probes: int) -> tuple[Path, list]:
    """Score tables, a plan that names them, and the groups of their datasets."""
    rng = np.random.default_rng(0)
    entries = {
        f"d{d:02}": {
            "task": ("classification", "segmentation")[d % 2],
            "sensor": ("sentinel2-l2a", "aerial", "landsat8")[d % 3],
            "gsd_m": (10, 0.3, 30)[d % 3],
        }
        for d in range(datasets)
    }
    level = rng.normal(0.6, 0.1, datasets)
    strength = rng.normal(0, 0.05, backbones)
    outputs = []
    for d, dataset in enumerate(entries):
        for b in range(backbones):
            for p in range(probes):
                value = float(np.clip(level[d] + strength[b] + rng.normal(0, 0.03), 0, 1))
                path = folder / "scores" / dataset / f"b{b:03}" / f"p{p}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                common = {"dataset": dataset, "backbone": f"b{b:03}", "probe": f"p{p}", "seed": 0}
                write_score(path, common, value, rng)
                outputs.append(
                    {"stage": "bootstrap", "path": str(path), "fingerprint": "f", **common}
                )
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"results": str(folder), "outputs": outputs}))
    return plan, list(groups_of(entries, {}).items())


def write_score(path: Path, common: dict, value: float, rng) -> None:
    empty = {
        field.name: {"double": 0.0, "int64": 1, "bool": False}.get(str(field.type), "")
        for field in ScoreColumns.arrow()
    }
    rows = [
        {
            **empty,
            **common,
            "kind": "linear",
            "metric": metric,
            "class": None,
            "setting": None,
            "value": value,
        }
        | {"primary": metric == "accuracy", "higher_is_better": True, "confidence": 0.95}
        for metric in METRICS
    ]
    strays = rng.normal(0, 0.02 / np.sqrt(PARTS), PARTS)
    about = {"strays": (strays - strays.mean()).tolist(), "test_set": common["dataset"]}
    write_table(
        path, ScoreColumns.from_rows(rows), {"fingerprint": "f", "stage": "bootstrap", **about}
    )


if __name__ == "__main__":
    main()
