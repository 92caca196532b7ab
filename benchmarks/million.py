"""Preparing and extracting ever more images of 64 px: seconds and peak memory of each command, alone and in parts.

    python benchmarks/million.py --folder DIR [--images 10000 40000] [--backbone rcf] [--parts 4] [--files] \
        [--prepare-only] [--held-out 512]

Images are the demo's, rendered while they are prepared, or with --files PNG files of noise, which cost little. The
commands are those that the rules call, one thread each. Lines say what a million would take, and how peak memory grows,
by the difference of the last two numbers of images.
"""

from __future__ import annotations

import argparse
import json
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
STAGES = ("prepare", "extract")
HEADER = ["images", "command", "wall s", "CPU s", "images / CPU s", "peak MB", "MB on disk"]
MILLION = 1_000_000


def demo(chips: dict[str, int]) -> str:
    """The entry of generated images."""
    scenes = {split: -(-2 * count // CHIPS_OF_A_SCENE) for split, count in chips.items()}
    source = {"kind": "demo", "chip_size": 64, "scene_size": 1024, "scenes": scenes, "chips": chips}
    return json.dumps({"task": "classification", "source": source})


def files(folder: Path, chips: dict[str, int]) -> str:
    """The entry of PNG files of three bands that this writes."""
    import numpy as np
    from PIL import Image

    generator = np.random.default_rng(0)
    for split, count in chips.items():
        for number in range(count):
            place = folder / "files" / split / ("field", "town")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            pixels = generator.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / f"{number:07d}.png", compress_level=0)
    entry = {
        "task": "classification",
        "sensor": "rgb",
        "bands": ["red", "green", "blue"],
        "units": {"unit": "uint8"},
        "source": {"kind": "folder", "path": str(folder / "files"), "split_folders": True},
        "splits": {"method": "given"},
    }
    return json.dumps(entry)


def configure(folder: Path, entry: str, backbone: str) -> None:
    """A project with one dataset."""
    (folder / "config").mkdir(parents=True)
    (folder / "Snakefile").write_text("# permafrost\n")
    (folder / "config/config.yaml").write_text(
        f"catalogues: ['{ROOT}/config']\nbackbones: [{backbone}]\ndatasets: [many]\n"
        "probes: {knn: {kind: knn}}\nextraction: {size: null, dtype: float16}\n"
        f"extra_datasets:\n  many: {entry}\n"
    )


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def same_files(folder: str, other: str) -> bool:
    """Whether every file of a folder of results has the bytes of its like in the other."""
    found = [path for path in Path("results", folder).rglob("*") if path.is_file()]
    return bool(found) and all(
        path.read_bytes()
        == Path("results", other, path.relative_to(f"results/{folder}")).read_bytes()
        for path in found
    )


def measured(folder: Path, entry: str, backbone: str, parts: int, stages) -> list[tuple]:
    """(command, wall seconds, CPU seconds, peak MB, MB written) of each command of the stages."""
    configure(folder, entry, backbone)
    os.chdir(folder)
    plan, why = read_configuration(folder)
    if why is not None:
        raise SystemExit(why)
    recorded = ["--plan", str(record_plan(plan, "results"))]
    fingerprint = plan.prepare("many").fingerprint
    prepare = [*PROGRAM, "prepare", "--job", fingerprint, *recorded, "--workers", "1"]
    extract = [*PROGRAM, "extract", "--job", plan.extract("many", backbone).fingerprint, *recorded]
    extract += ["--card", "results/images/card.json", "--prepare-job", fingerprint]
    extract += ["--device", "cpu"]
    written = ("images", "joined-images", "whole", "joined")
    outputs = {name: [f"results/{name}/{split}.zarr" for split in SPLITS] for name in written}
    cards = {name: ["--card", f"results/{name}/card.json"] for name in written[:2]}
    commands = {
        "prepare": ([*prepare, "--output", *outputs["images"], *cards["images"]], "images"),
        **in_parts(prepare, "prepare", parts, outputs["joined-images"], cards["joined-images"]),
        "extract": ([*extract, "--output", *outputs["whole"]], "whole"),
        **in_parts(extract, "extract", parts, outputs["joined"], []),
    }
    found = []
    for name, (command, place) in commands.items():
        if name.split()[0] not in stages:
            continue
        print(f"  {folder.name} {name}", file=sys.stderr, flush=True)
        found.append((name, *measure_command(command), megabytes(Path("results", place))))
    pairs = {"prepare": ("joined-images", "images"), "extract": ("joined", "whole")}
    if not all(same_files(*pairs[stage]) for stage in stages):
        raise SystemExit("parts gave other bytes than one job")
    return found


def in_parts(command: list, stage: str, parts: int, outputs: list, more: list) -> dict[str, tuple]:
    """Commands of the parts of a stage and of joining them, and where they write."""
    names = [f"parts/{stage}/{number}-of-{parts}" for number in range(parts)]
    folders = [f"results/{name}" for name in names]
    joined = Path(outputs[0]).parent.name
    return {
        **{
            f"{stage} --part {Path(name).name}": ([*command, "--part", folder], name)
            for name, folder in zip(names, folders, strict=True)
        },
        f"{stage} --parts": ([*command, "--parts", *folders, "--output", *outputs, *more], joined),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for images and features")
    parser.add_argument("--images", type=int, nargs="+", default=[10_000, 40_000])
    parser.add_argument("--backbone", default="rcf")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--prepare-only", action="store_true", help="extract nothing")
    parser.add_argument("--held-out", type=int, default=512, help="images of val, and of test")
    parser.add_argument("--files", action="store_true", help="PNG files instead of the demo's")
    options = parser.parse_args()
    stages = STAGES[:1] if options.prepare_only else STAGES
    base, table, last = options.folder.absolute(), [], {}
    os.environ["PYTHONPATH"] = str(ROOT / "workflow")
    for images in options.images:
        folder = base / str(images)
        shutil.rmtree(folder, ignore_errors=True)
        chips = {"train": images, "val": options.held_out, "test": options.held_out}
        entry = files(folder, chips) if options.files else demo(chips)
        given = options.backbone, options.parts, stages
        for name, wall, cpu, peak, size in measured(folder, entry, *given):
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
            last.setdefault(name, []).append((images, cpu, size, peak))
        shutil.rmtree(folder)
    print_table(HEADER, table)
    if len(options.images) > 1:
        for name in (f"{stage}{more}" for stage in stages for more in ("", " --parts")):
            (few, less, _, low), (many, more, size, high) = last[name][-2:]
            hours = (more + (MILLION - many) * (more - less) / (many - few)) / 3600
            disk = size * MILLION / many / 1000
            each = 1e6 * (high - low) / (many - few)
            print(
                f"{name}: {hours:.1f} CPU hours and {disk:.0f} GB for a million (extrapolated); "
                f"peak memory grows by {each:.0f} bytes for each image"
            )


if __name__ == "__main__":
    main()
