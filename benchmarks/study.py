"""Disk and core hours of a study that is run, compared with the estimate of `permafrost plan`.

    envs/run python benchmarks/study.py [--folder FOLDER] [--images 150] [--channels 256] [--keep "300 MB"]

The study has 30 pairs of a backbone and a dataset, 1 % of those of study.yaml, with its probes: five untrained
networks on six generated datasets (labels, masks, numbers per pixel, boxes) of 224 pixels. Bytes of feature stores are
counted every half second. CPU seconds are those that each job records. Both hardly depend on what else runs.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import yaml
from permafrost.core.text import bytes_words
from permafrost.operate.estimate.estimate import Machines, estimate
from permafrost.operate.estimate.shown import maps_at_once, rows
from permafrost.operate.estimate.work import default_rates
from permafrost.plan.configured import read_configuration

ROOT = Path(__file__).resolve().parents[1]
#: model of timm -> parameters
MODELS = {
    "resnet50": 23_508_032,
    "convnext_tiny": 27_820_128,
    "swin_tiny_patch4_window7_224": 27_519_354,
    "vit_small_patch16_224": 21_665_664,
    "mobilenetv2_100": 2_223_872,
}
TASKS = {
    "labels": {"task": "multilabel"},
    "masks": {"task": "segmentation"},
    "more-masks": {"task": "segmentation"},
    "heights": {"task": "pixel_regression", "target": {"name": "height", "unit": "m"}},
    "more-heights": {"task": "pixel_regression", "target": {"name": "height", "unit": "m"}},
    "crowns": {"task": "detection"},
}


def configuration(images: int, channels: int | None, keep: str, models: int, side: int) -> dict:
    chips = {"train": images * 3 // 5, "val": images // 5, "test": images // 5}
    scenes = {split: max(2, count // 4) for split, count in chips.items()}
    source = {
        "kind": "demo",
        "chip_size": side,
        "scene_size": 3 * side,
        "scenes": scenes,
        "chips": chips,
    }
    backbones = {
        model.partition("_")[0]: {
            "kind": "timm",
            "model": model,
            "parameters": count,
            "weights": {"source": "random"},
            "input": {"normalization": "dataset"},
        }
        for model, count in [*MODELS.items()][-models:]
    }
    datasets = {
        # each its own scenes
        name: {**about, "gsd_m": 0.4, "source": {**source, "seed": seed}}
        for seed, (name, about) in enumerate(TASKS.items())
    }
    of_study = yaml.safe_load((ROOT / "benchmarks/study.yaml").read_text())
    return {
        "results": "results",
        "backbones": [*backbones],
        "datasets": [*datasets],
        "extra_backbones": backbones,
        "extra_datasets": datasets,
        "extraction": {"size": side, **({"maps_channels": channels} if channels else {})},
        "probes": of_study["probes"],
        "runtime": {"keep_maps": keep, "device": "cpu"},
    }


def run(folder: Path) -> int:
    """Run the study; the most bytes of feature stores that were on disk at once."""
    command = [sys.executable, "-m", "permafrost.stages.cli", "run", "--quiet"]
    most, features = 0, folder / "results/features"
    with subprocess.Popen(command, cwd=folder, stdout=sys.stderr) as process:
        while process.poll() is None:
            most = max(most, _bytes_below(features))
            time.sleep(0.5)
    if process.returncode:
        sys.exit(f"the study failed in {folder}")
    return most


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:  # removed meanwhile
                continue
    return total


def cpu_seconds(folder: Path) -> dict[str, float]:
    """Stage -> CPU seconds of its jobs, as they recorded them."""
    found: dict[str, float] = defaultdict(float)
    logs = folder / "results/logs"
    for path in logs.rglob("*.tsv"):
        with open(path, newline="") as file:
            (row,) = csv.DictReader(file, delimiter="\t")
        found[path.relative_to(logs).parts[0].removesuffix(".tsv")] += float(row["cpu_time"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="the project, which stays there")
    parser.add_argument("--images", type=int, default=150, help="of each dataset")
    parser.add_argument("--side", type=int, default=224, help="pixels of an image")
    parser.add_argument("--models", type=int, default=len(MODELS))
    parser.add_argument("--channels", type=int, default=256, help="maps_channels; 0: all")
    parser.add_argument("--keep", default="300 MB", help="keep_maps")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary, "study")).resolve()
        subprocess.run(
            [sys.executable, "-m", "permafrost.stages.cli", "init", str(folder)],
            check=True,
            stdout=sys.stderr,
        )
        config = configuration(
            arguments.images,
            arguments.channels,
            arguments.keep,
            arguments.models,
            arguments.side,
        )
        (folder / "config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        grid, why = read_configuration(folder, [])
        if why:
            sys.exit(why)
        machines = Machines(len(os.sched_getaffinity(0)), 0)
        os.chdir(folder)
        found = estimate(grid, default_rates(), machines, results="results", records={})
        most, took = run(folder), cpu_seconds(folder)
    print("| stage | jobs | estimated, core s | took, CPU s | ratio |")
    print("|---|---|---|---|---|")
    every = [(row.stage, row.jobs, row.core_seconds, took.get(row.stage, 0)) for row in rows(found)]
    every.append(("all", *map(sum, [*zip(*every, strict=True)][1:])))
    for stage, jobs, said, cpu in every:
        ratio = f"{said / cpu:.2f}" if cpu else "-"
        print(f"| {stage} | {jobs} | {said:.0f} | {cpu:.0f} | {ratio} |")
    print(f"\nfeatures on disk: at most {bytes_words(most)}, ", end="")
    print(f"of which maps by the plan at most {bytes_words(maps_at_once(found))}")


if __name__ == "__main__":
    main()
