"""Preparing and extracting ever more images of 64 px: seconds and peak memory of each command, alone and in parts.

    python benchmarks/million.py --folder DIR [--images 10000 40000] [--backbone rcf] [--parts 4]

Images are the demo's, rendered while they are prepared, and the commands are those that the rules call, one thread
each. A line says what a million would take, by the difference of the last two numbers of images.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _timing import measure_command, print_table
from permafrost.core.specification import SPLITS
from permafrost.plan.configured import read_configuration
from permafrost.plan.record import record_plan

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = [sys.executable, "-m", "permafrost.stages.cli"]
CHIPS_OF_A_SCENE = 256  # of 64 px in 1024 px
HELD_OUT = 512  # images of validation and of test
HEADER = ["images", "command", "wall s", "CPU s", "images / CPU s", "peak MB", "MB on disk"]
MILLION = 1_000_000


def configure(folder: Path, images: int, backbone: str) -> None:
    """A project with one dataset of so many train images."""
    (folder / "config").mkdir(parents=True)
    (folder / "Snakefile").write_text("# permafrost\n")
    chips = {"train": images, "val": HELD_OUT, "test": HELD_OUT}
    scenes = {split: -(-2 * count // CHIPS_OF_A_SCENE) for split, count in chips.items()}
    (folder / "config/config.yaml").write_text(
        f"catalogues: ['{ROOT}/config']\nbackbones: [{backbone}]\ndatasets: [many]\n"
        "probes: {knn: {kind: knn}}\nextraction: {size: null, dtype: float16}\n"
        "extra_datasets:\n  many:\n    task: classification\n    source: {kind: demo, chip_size: 64, "
        f"scene_size: 1024, scenes: {scenes}, chips: {chips}}}\n".replace("'train'", "train")
        .replace("'val'", "val")
        .replace("'test'", "test")
    )


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def measured(folder: Path, images: int, backbone: str, parts: int) -> list[tuple]:
    """(command, wall seconds, CPU seconds, peak MB, MB written) of each command."""
    configure(folder, images, backbone)
    os.chdir(folder)
    plan, why = read_configuration(folder)
    if why is not None:
        raise SystemExit(why)
    recorded = ["--plan", str(record_plan(plan, "results"))]
    prepare = plan.prepare("many").fingerprint
    stores = [f"results/images/many/{split}.zarr" for split in SPLITS]
    card = ["--card", "results/images/many/card.json"]
    extract = [*PROGRAM, "extract", "--job", plan.extract("many", backbone).fingerprint, *recorded]
    extract += [*card, "--prepare-job", prepare, "--device", "cpu"]
    outputs = {
        name: [f"results/{name}/{split}.zarr" for split in SPLITS] for name in ("whole", "joined")
    }
    folders = [f"results/parts/{number}-of-{parts}" for number in range(parts)]
    commands = {
        "prepare": (
            [
                *PROGRAM,
                "prepare",
                "--job",
                prepare,
                *recorded,
                "--workers",
                "1",
                "--output",
                *stores,
                *card,
            ],
            "images",
        ),
        "extract": ([*extract, "--output", *outputs["whole"]], "whole"),
        **{
            f"extract --part {Path(part).name}": (
                [*extract, "--part", part],
                f"parts/{Path(part).name}",
            )
            for part in folders
        },
        "extract --parts": (
            [*extract, "--parts", *folders, "--output", *outputs["joined"]],
            "joined",
        ),
    }
    found = []
    for name, (command, written) in commands.items():
        print(f"  {images} {name}", file=sys.stderr, flush=True)
        found.append((name, *measure_command(command), megabytes(Path("results") / written)))
    same = all(
        path.read_bytes() == Path("results/whole", path.relative_to("results/joined")).read_bytes()
        for path in Path("results/joined").rglob("*")
        if path.is_file()
    )
    if not same:
        raise SystemExit("parts gave other bytes than one job")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for images and features")
    parser.add_argument("--images", type=int, nargs="+", default=[10_000, 40_000])
    parser.add_argument("--backbone", default="rcf")
    parser.add_argument("--parts", type=int, default=4)
    options = parser.parse_args()
    base, table, last = options.folder.absolute(), [], {}
    os.environ["PYTHONPATH"] = str(ROOT / "workflow")
    for images in options.images:
        folder = base / str(images)
        shutil.rmtree(folder, ignore_errors=True)
        for name, wall, cpu, peak, size in measured(
            folder, images, options.backbone, options.parts
        ):
            rate = f"{images / cpu:,.0f}" if name in ("prepare", "extract") else ""
            table.append(
                [
                    f"{images:,}",
                    name,
                    f"{wall:.0f}",
                    f"{cpu:.0f}",
                    rate,
                    f"{peak:.0f}",
                    f"{size:.0f}",
                ]
            )
            last.setdefault(name, []).append((images, cpu, size))
        shutil.rmtree(folder)
    print_table(HEADER, table)
    if len(options.images) > 1:
        for name in ("prepare", "extract"):
            (few, less, _), (many, more, size) = last[name][-2:]
            hours = (more + (MILLION - many) * (more - less) / (many - few)) / 3600
            disk = size * MILLION / many / 1000
            print(f"{name}: {hours:.1f} CPU hours and {disk:.0f} GB for a million (extrapolated)")


if __name__ == "__main__":
    main()
