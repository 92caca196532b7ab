"""Preparing a dataset of GEO-Bench V1 against h5py reading the same files, and its memory as the dataset grows.

Ratio: images per second of ``prepare`` (labels, pixels, hashes, statistics, compressed stores) over those of a
loop that opens each file with h5py and reads its bands, both with files in the page cache, in processes of
their own, alternating; medians of wall time are compared. Memory: peak resident size of a process that
prepares N and 4 N images. The files are like m-bigearthnet's: 12 bands of 120 x 120 uint16, 43 labels.

    python benchmarks/geobench.py [--images 4000] [--repeats 3] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

BANDS = [f"{number:02d} - band" for number in range(1, 13)]
SIDE, LABELS = 120, 43


def write_files(folder: Path, count: int) -> None:
    """`count` samples for train, one each for validation and test."""
    generator = np.random.default_rng(0)
    names = [f"id_{number:05d}" for number in range(count + 2)]
    described = {"transform": (10.0, 0.0, 6e5, 0.0, -10.0, 5e6), "crs": "EPSG:32631", "date": None}
    for name in names:
        coarse = generator.normal(1500, 500, (len(BANDS), 30, 30)).repeat(4, 1).repeat(4, 2)
        pixels = (coarse + generator.normal(0, 40, coarse.shape)).clip(0).astype(np.uint16)
        label = [1, *generator.integers(0, 2, LABELS - 1).tolist()]
        attribute = {"label": label, **dict.fromkeys(BANDS, described), "bands_order": BANDS}
        with h5py.File(folder / f"{name}.hdf5", "w") as file:
            for band, image in zip(BANDS, pixels, strict=True):
                file.create_dataset(band, data=image)
            file.attrs["pickle"] = str(pickle.dumps(attribute, protocol=4))
    parts = {"train": names[:-2], "valid": names[-2:-1], "test": names[-1:]}
    (folder / "default_partition.json").write_text(json.dumps(parts))


def read_with_h5py(folder: Path) -> float:
    """Seconds that a loop over all files takes."""
    start = time.perf_counter()
    for path in sorted(folder.glob("*.hdf5")):
        with h5py.File(path) as file:
            np.stack([file[band][()] for band in BANDS])
    return time.perf_counter() - start


def prepare_files(folder: Path, workers: int) -> float:
    from permafrost.data.store.prepare import PrepareSpec, prepare
    from permafrost.plan.validation import validate

    entry = {
        "task": "multilabel",
        "source": {"kind": "geobench", "path": str(folder), "arrays": BANDS, "size": SIDE},
        "bands": [{"name": band} for band in BANDS],
        "units": {"unit": "digital_number", "scale": 1e-4},
        "classes": [f"class {number}" for number in range(LABELS)],
        "splits": {"map": {"train": ["train"], "val": ["valid"], "test": ["test"]}},
        "allow_missing_classes": True,
    }
    validate(entry, "dataset", where="entry of the benchmark")
    with tempfile.TemporaryDirectory() as place:
        outputs = {split: Path(place, f"{split}.zarr") for split in ("train", "val", "test")}
        start = time.perf_counter()
        prepare(
            PrepareSpec(dataset="bench", entry=entry),
            outputs=outputs,
            card_path=Path(place, "card.json"),
            fingerprint="f" * 32,
            workers=workers,
        )
        return time.perf_counter() - start


def measured(what: str, folder: Path, workers: int) -> dict:
    """Seconds and peak memory of one task in a process of its own."""
    command = [sys.executable, __file__, "--worker", what, str(folder), "--workers", str(workers)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def work(what: str, folder: Path, workers: int) -> None:
    reading = what == "read"
    seconds = read_with_h5py(folder) if reading else prepare_files(folder, workers)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_mb": usage.ru_maxrss / 1024}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker", nargs=2, metavar=("TASK", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker[0], Path(arguments.worker[1]), arguments.workers)
        return
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place, name) for name in ("few", "many")]
        for folder, count in zip(folders, (arguments.images, 4 * arguments.images), strict=True):
            folder.mkdir()
            write_files(folder, count)
        few, many = folders
        measured("read", few, 1)
        runs = [
            [measured(task, few, arguments.workers) for task in ("read", "prepare")]
            for _ in range(arguments.repeats)
        ]
        large = measured("prepare", many, arguments.workers)
    images = arguments.images + 2
    read, prepared = (
        images / statistics.median(run[i]["seconds"] for run in runs) for i in range(2)
    )
    print(
        f"h5py: {read:.0f} images/s, prepare: {prepared:.0f} images/s, ratio {prepared / read:.2f}"
    )
    # what other processes cost shows less in it
    cpu = [1000 * statistics.median(run[i]["cpu"] for run in runs) / images for i in range(2)]
    print(f"CPU time with start-up: h5py {cpu[0]:.1f} ms per image, prepare {cpu[1]:.1f} ms")
    peaks = [statistics.median(run[1]["peak_mb"] for run in runs), large["peak_mb"]]
    print(f"peak memory: {peaks[0]:.0f} MB for N images, {peaks[1]:.0f} MB for 4 N")


if __name__ == "__main__":
    main()
