"""Throughput of extraction against a bare forward loop, and its memory as the dataset grows.

Ratio: images per second of the stage's own loop (read and decode a store, normalise and resize, forward,
check, write) over those of ``model(batch)`` on ready tensors in memory, the faster of both memory layouts.
Runs alternate, medians are compared, of seconds on the wall and of CPU seconds of the whole process, with its reading
threads; where other work keeps the machine busy, the latter are to be trusted. Memory: peak resident size of a process
that extracts N and 4 N images.

    python benchmarks/extraction.py [--model mobilenetv2_100] [--images 256] [--device cpu] [--threads 1] \
        [--no-memory]

Models of TerraTorch in their own environment, fed the bands of Sentinel-2, untrained as all models here:

    PERMAFROST_ENV=terratorch envs/run python benchmarks/extraction.py --kind terratorch --model terramind_v1_tiny
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import write_store
from permafrost.data.bands.sensors import SENSORS
from permafrost.data.store.card import Card, write_card
from permafrost.plan.validation import validate


def bands_of(kind: str) -> list[dict]:
    """Red, green and blue of 8 bits, or the bands of Sentinel-2 in digital numbers."""
    statistics = {"offset": 0.0, "min": 0.0, "max": 255.0, "p2": 5.0, "p98": 250.0}
    statistics |= {"mean": 127.5, "std": 73.9}
    if kind == "timm":
        bands, unit, scale = SENSORS["rgb"], "uint8", 1 / 255
    else:
        bands, unit, scale = SENSORS["sentinel2-l2a"], "digital_number", 1e-4
    more = {"unit": unit, "scale": scale, **statistics}
    return [band.as_dict() | more for band in bands.values()]


def make_dataset(folder: Path, count: int, side: int, kind: str) -> None:
    """Image stores of `count` train images (and one for validation and test) of noise, and their card."""
    generator = np.random.default_rng(0)
    bands = bands_of(kind)
    dtype = np.uint8 if kind == "timm" else np.uint16
    for split, images in (("train", count), ("val", 1), ("test", 1)):
        with write_store(folder / f"{split}.zarr", fingerprint="images") as writer:
            shape = (images, len(bands), side, side)
            array = writer.array("images", shape, dtype, rows_per_chunk=32)
            for start in range(0, images, 32):
                shape = (min(32, images - start), len(bands), side // 8, side // 8)
                part = generator.integers(0, 256, shape, dtype)
                array[start : start + 32] = part.repeat(8, axis=2).repeat(8, axis=3)
            writer.array("labels", (images,), np.int64, rows_per_chunk=images)[:] = 0
            size = pa.array([side] * images, pa.int32())
            names = [f"{split}-{i}" for i in range(images)]
            columns = {"sample_id": names, "group_id": names, "height": size, "width": size}
            unknown = {"lon": pa.float64(), "lat": pa.float64(), "date": pa.string()}
            columns |= {name: pa.nulls(images, kind) for name, kind in unknown.items()}
            writer.samples(pa.table(columns))
    card = dict.fromkeys(field.name for field in dataclasses.fields(Card))
    card |= {"dataset": "noise", "task": "classification", "fingerprint": "images"}
    card |= {"bands": bands, "selected": [band["name"] for band in bands], "classes": ["all"]}
    card |= {"dead_classes": [], "splits": {}, "spatially_random": False, "dates": "one"}
    write_card(folder / "card.json", Card(**card))


def entry_of(arguments) -> dict:
    """The backbone, untrained."""
    entry = {"kind": arguments.kind, "model": arguments.model, "weights": None}
    if arguments.kind == "timm":
        entry |= {"weights": {"source": "random"}, "input": {"normalization": "weights"}}
    validate(entry, "backbone", where="entry of the benchmark")
    return entry


def timed(function, *arguments) -> tuple[np.ndarray, object]:
    """(wall, CPU) seconds of a call, and what it returns."""
    start = np.array([time.perf_counter(), time.process_time()])
    result = function(*arguments)
    return np.array([time.perf_counter(), time.process_time()]) - start, result


def run_extraction(folder: Path, arguments) -> dict:
    """Extract once; returns the wall and CPU seconds spent on the train split's batches, and the peak memory."""
    from permafrost.features.devices import exact_numerics
    from permafrost.features.extract import extract_split, open_backbone
    from permafrost.features.specification import (
        Extraction,
        ExtractionSettings,
        ExtractSpec,
        OfImages,
        Running,
    )
    from permafrost.features.split import Shapes

    spec = ExtractSpec(
        backbone=arguments.model,
        dataset="noise",
        entry=entry_of(arguments),
        extraction=Extraction(
            **dataclasses.asdict(ExtractionSettings()) | {"precision": arguments.precision}
        ),
        inputs=OfImages(images="images"),
    )
    running = Running(
        device=arguments.device, batch_size=arguments.batch_size, threads=arguments.threads
    )
    with tempfile.TemporaryDirectory() as out, exact_numerics(running.threads):
        opened = open_backbone(
            spec,
            images={split: folder / f"{split}.zarr" for split in ("train", "val", "test")},
            card=folder / "card.json",
            device=running.device,
            batch_size=running.batch_size,
        )
        target = Path(out) / "train.zarr"
        seconds, _ = timed(extract_split, opened, "train", target, "features", running, Shapes())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak}


def bare_loop(model, batches, device, precision) -> np.ndarray:
    """Wall and CPU seconds of ``model(batch)`` over tensors that are already on the device."""
    import torch
    from permafrost.features.running import arithmetic

    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    with torch.inference_mode(), arithmetic(precision, device):
        model(batches[0])
        synchronize()

        def forward():
            for batch in batches:
                model(batch)
            synchronize()

        return timed(forward)[0]


def bare_model(kind: str, name: str):
    """The model as its library makes it, and the shape of an image that it is fed."""
    if kind == "timm":
        import timm

        return timm.create_model(name, num_classes=0), (3, 224, 224)
    # imported by its registry, which names all of its models
    from terratorch.registry import BACKBONE_REGISTRY

    if name.startswith("terramind"):
        model = BACKBONE_REGISTRY.build(name, pretrained=False, modalities=["S2L2A"])
        return model, (12, 224, 224)
    return BACKBONE_REGISTRY.build(name, pretrained=False), (6, 224, 224)


def compare(arguments) -> None:
    import torch
    from permafrost.features.devices import choose_device, exact_numerics

    device, precision = choose_device(arguments.device), arguments.precision
    model, shape = bare_model(arguments.kind, arguments.model)
    model = model.eval().to(device)
    count, size = arguments.images, arguments.batch_size
    ready = [
        torch.randn(min(size, count - i), *shape, device=device) for i in range(0, count, size)
    ]
    bare, ours = {torch.contiguous_format: []}, []
    if all(one.ndim < 5 for one in model.parameters()):
        bare[torch.channels_last] = []
    with tempfile.TemporaryDirectory() as folder:
        make_dataset(Path(folder), count, arguments.side, arguments.kind)
        for _ in range(arguments.repeats):
            for layout, times in bare.items():
                batches = [batch.contiguous(memory_format=layout) for batch in ready]
                with exact_numerics(arguments.threads):
                    times.append(
                        bare_loop(model.to(memory_format=layout), batches, device, precision)
                    )
            ours.append(run_extraction(Path(folder), arguments)["seconds"])
    print(
        f"images/s of {count} images, by the wall and by CPU seconds; medians of {arguments.repeats}"
    )
    medians = {layout: np.median(times, axis=0) for layout, times in bare.items()}
    for layout, seconds in medians.items():
        print(f"bare forward, {str(layout).removeprefix('torch.')}: {shown(count / seconds)}")
    median = np.median(ours, axis=0)
    print(f"extraction: {shown(count / median)}")
    best = np.min(list(medians.values()), axis=0)
    print(f"ratio of extraction to the faster bare loop: {shown(best / median, 3)}")


def shown(pair: np.ndarray, digits: int = 1) -> str:
    return " and ".join(f"{value:.{digits}f}" for value in pair)


def memory(arguments) -> None:
    peaks = []
    for factor in (1, 4):
        with tempfile.TemporaryDirectory() as folder:
            make_dataset(Path(folder), factor * arguments.images, arguments.side, arguments.kind)
            command = [sys.executable, __file__, "--measure", folder, *sys.argv[1:]]
            result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        peaks.append(json.loads(result.stdout.splitlines()[-1])["peak_mb"])
        print(f"{factor * arguments.images} images: peak {peaks[-1]:.0f} MB")
    print(f"ratio of peaks, four times the images: {peaks[1] / peaks[0]:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default="timm", choices=["timm", "terratorch"])
    parser.add_argument("--model", default="mobilenetv2_100")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument(
        "--side", type=int, default=64, help="stored side of the images, a multiple of 8"
    )
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32", "bf16", "fp16"])
    parser.add_argument("--no-memory", action="store_true", help="throughput only")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        peak = run_extraction(Path(arguments.measure), arguments)["peak_mb"]
        print(json.dumps({"peak_mb": peak}))
        return
    compare(arguments)
    if not arguments.no_memory:
        memory(arguments)


if __name__ == "__main__":
    main()
