"""Throughput of extraction against a bare forward loop, and its memory as the dataset grows.

Ratio: images per second of the stage's own loop (read and decode a store, normalise and resize, forward,
check, write) over those of ``model(batch)`` on ready tensors in memory, the faster of both memory layouts.
Runs alternate, medians are compared. Memory: peak resident size of a process that extracts N and 4 N images.

    python benchmarks/extraction.py [--model mobilenetv2_100] [--images 256] [--device cpu] [--threads 1]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import write_store
from permafrost.data.card import Card, write_card


def make_dataset(folder: Path, count: int, side: int) -> None:
    """Image stores of `count` train images (and one for validation and test) of noise, and their card."""
    generator = np.random.default_rng(0)
    for split, images in (("train", count), ("val", 1), ("test", 1)):
        with write_store(folder / f"{split}.zarr", fingerprint="images") as writer:
            array = writer.array("images", (images, 3, side, side), np.uint8, rows_per_chunk=32)
            for start in range(0, images, 32):
                part = generator.integers(
                    0, 256, (min(32, images - start), 3, side // 8, side // 8), np.uint8
                )
                array[start : start + 32] = part.repeat(8, axis=2).repeat(8, axis=3)
            writer.array("labels", (images,), np.int64, rows_per_chunk=images)[:] = 0
            sizes = pa.array([side] * images, pa.int32())
            names = [f"{split}-{i}" for i in range(images)]
            writer.samples(
                pa.table({"sample_id": names, "group_id": names, "height": sizes, "width": sizes})
            )
    bands = [
        {"name": name, "common_name": name, "wavelength_nm": None, "sensor": "rgb", "unit": "uint8"}
        | {"scale": 1 / 255, "offset": 0.0, "mean": 127.5, "std": 73.9, "min": 0.0, "max": 255.0}
        for name in ("red", "green", "blue")
    ]
    empty = dict.fromkeys(
        (
            "title",
            "ignore_index",
            "split_method",
            "split_seed",
            "audit",
            "image_size",
            "gsd_m",
            "licence",
            "citation",
        )
    )
    card = {
        **empty,
        **{"dataset": "noise", "task": "classification", "fingerprint": "images", "bands": bands},
        **{
            "selected": ["red", "green", "blue"],
            "classes": ["all"],
            "dead_classes": [],
            "splits": {},
        },
        "spatially_random": False,
    }
    write_card(folder / "card.json", Card(**card, detection=None))


def run_extraction(folder: Path, model: str, arguments) -> dict:
    """Extract once; returns the seconds spent on the train split's batches, and the peak memory."""
    from permafrost.features import extract as stage
    from permafrost.features.specification import Extraction, ExtractSpec, OfImages, Running
    from permafrost.plan.validation import load_schema, validate

    seconds = {}
    inner = stage._extract_split

    def timed(opened, split, path, *rest):
        start = time.perf_counter()
        result = inner(opened, split, path, *rest)
        seconds[Path(path).name] = time.perf_counter() - start
        return result

    stage._extract_split = timed
    entry = {
        "kind": "timm",
        "model": model,
        "weights": {"source": "random"},
        "input": {"normalization": "weights"},
    }
    validate(entry, "backbone", where="entry of the benchmark")
    options = load_schema("config")["properties"]["extraction"]["properties"]
    extraction = {name: option["default"] for name, option in options.items()}
    spec = ExtractSpec(
        backbone=model,
        dataset="noise",
        entry=entry,
        extraction=Extraction(**{**extraction, "precision": arguments.precision}),
        inputs=OfImages(images="images"),
    )
    try:
        with tempfile.TemporaryDirectory() as out:
            stage.extract(
                spec,
                images={split: folder / f"{split}.zarr" for split in ("train", "val", "test")},
                card=folder / "card.json",
                outputs={split: Path(out) / f"{split}.zarr" for split in ("train", "val", "test")},
                fingerprint="features",
                running=Running(
                    device=arguments.device,
                    batch_size=arguments.batch_size,
                    threads=arguments.threads,
                ),
            )
    finally:
        stage._extract_split = inner
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds["train.zarr"], "peak_mb": peak}


def bare_loop(model, batches, device, precision) -> float:
    """Seconds of ``model(batch)`` over tensors that are already on the device."""
    import torch

    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    with (
        torch.inference_mode(),
        torch.autocast(
            device.type, dtype=precision or torch.bfloat16, enabled=precision is not None
        ),
    ):
        model(batches[0])
        synchronize()
        start = time.perf_counter()
        for batch in batches:
            model(batch)
        synchronize()
    return time.perf_counter() - start


def compare(arguments) -> None:
    import timm
    import torch
    from permafrost.features.devices import choose_device, exact_numerics
    from permafrost.features.running import PRECISIONS

    device, precision = choose_device(arguments.device), PRECISIONS[arguments.precision]
    model = timm.create_model(arguments.model, num_classes=0).eval().to(device)
    count, size = arguments.images, arguments.batch_size
    ready = [
        torch.randn(min(size, count - i), 3, 224, 224, device=device) for i in range(0, count, size)
    ]
    bare, ours = {torch.contiguous_format: [], torch.channels_last: []}, []
    with tempfile.TemporaryDirectory() as folder:
        make_dataset(Path(folder), count, arguments.side)
        for _ in range(arguments.repeats):
            for layout, times in bare.items():
                batches = [batch.contiguous(memory_format=layout) for batch in ready]
                with exact_numerics(arguments.threads):
                    times.append(
                        bare_loop(model.to(memory_format=layout), batches, device, precision)
                    )
            ours.append(run_extraction(Path(folder), arguments.model, arguments)["seconds"])
    best = min(statistics.median(times) for times in bare.values())
    median = statistics.median(ours)
    for layout, times in bare.items():
        print(
            f"bare forward, {str(layout).removeprefix('torch.')}: {count / statistics.median(times):.1f} images/s"
        )
    print(f"extraction: {count / median:.1f} images/s (median of {arguments.repeats})")
    print(f"ratio of extraction to the faster bare loop: {best / median:.3f}")


def memory(arguments) -> None:
    peaks = []
    for factor in (1, 4):
        with tempfile.TemporaryDirectory() as folder:
            make_dataset(Path(folder), factor * arguments.images, arguments.side)
            command = [sys.executable, __file__, "--measure", folder, *sys.argv[1:]]
            result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        peaks.append(json.loads(result.stdout.splitlines()[-1])["peak_mb"])
        print(f"{factor * arguments.images} images: peak {peaks[-1]:.0f} MB")
    print(f"ratio of peaks, four times the images: {peaks[1] / peaks[0]:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mobilenetv2_100")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument(
        "--side", type=int, default=64, help="stored side of the images, a multiple of 8"
    )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(run_extraction(Path(arguments.measure), arguments.model, arguments)))
        return
    compare(arguments)
    memory(arguments)


if __name__ == "__main__":
    main()
