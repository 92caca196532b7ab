"""Thirteen learning rates trained as one batched layer against one rate alone: CPU time of whole jobs.

    python benchmarks/sgd_linear.py [--samples 10000] [--dimensions 1024] [--classes 10]

Jobs are the command ``permafrost sgd_linear`` from its start to the table of predictions, with one
thread, in turn; "training" is the part inside the training loop. "torch loop" is the same training
of one rate as it is usually written (DataLoader, torch.optim.SGD, CosineAnnealingLR), without the
import of torch, timed on a tenth of the epochs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _timing import alternate, cpu_seconds, print_table

# of DINOv2's linear evaluation
RATES = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1]
EPOCHS, BATCH = 100, 256


def write_stores(folder: Path, samples: int, dimensions: int, classes: int) -> None:
    """Feature stores whose classes overlap; validation and test have a fifth of train's samples."""
    import pyarrow as pa
    from permafrost.core.stores import write_store

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(classes, dimensions)) * 2 / dimensions**0.5
    for split, count in (("train", samples), ("val", samples // 5), ("test", samples // 5)):
        labels = rng.integers(0, classes, count)
        features = centres[labels] + rng.normal(size=(count, dimensions))
        with write_store(folder / f"{split}.zarr", fingerprint="features") as writer:
            array = writer.array("embeddings", features.shape, "float32", rows_per_chunk=1024)
            array[:] = features.astype(np.float32)
            writer.array("labels", (count,), "int64", rows_per_chunk=1024)[:] = labels
            names = [f"{split} {i}" for i in range(count)]
            writer.samples(pa.table({"sample_id": names, "group_id": names}))
            writer.attributes.update(
                task="classification",
                classes=[str(i) for i in range(classes)],
                gates=[],
                dataset="synthetic",
                split_method="random",
                spatially_random=False,
            )


def job(folder: Path, rates) -> float:
    """CPU seconds in the training loop; the command itself is timed from outside."""
    import permafrost.probes.sgd.training as fit
    from permafrost.core.identity import canonical_json
    from permafrost.plan.sources import code_hash
    from permafrost.stages.cli import main

    spec = {
        "stage": "sgd_linear",
        "dataset": "d",
        "backbone": "b",
        "probe": "p",
        "seed": 0,
        "options": {
            "kind": "sgd_linear",
            "learning_rate": rates,
            "momentum": 0.9,
            "epochs": EPOCHS,
            "weight_decay": 0.0,
            "batch_size": BATCH,
            "standardize": True,
        },
        "inputs": {"features": "features"},
    }
    spent, whole = [], fit.train

    def timed(*arguments):
        spent.append(cpu_seconds(lambda: whole(*arguments))[0])

    fit.train = timed
    stores = [str(folder / f"{split}.zarr") for split in ("train", "val", "test")]
    status = main(
        [
            "sgd_linear",
            "--spec",
            canonical_json(spec),
            "--code",
            code_hash("sgd_linear", spec),
            "--features",
            *stores,
            "--output",
            str(folder / "out.parquet"),
        ]
    )
    if status:
        raise SystemExit(status)
    return spent[0]


def torch_loop(folder: Path) -> float:
    """CPU seconds of one rate in torch."""
    import torch
    from permafrost.core.stores import Store
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    store = Store(folder / "train.zarr")
    x, y = torch.from_numpy(store.read("embeddings")), torch.from_numpy(store.read("labels"))
    layer = torch.nn.Linear(x.shape[1], int(y.max()) + 1)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)

    def epochs(count: int) -> None:
        for _ in range(count):
            for some, labels in loader:
                loss = torch.nn.functional.cross_entropy(layer(some), labels)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            falling.step()

    seconds, _ = cpu_seconds(lambda: epochs(EPOCHS // 10), warm_up=lambda: epochs(1))
    return 10 * seconds


def work(side: str, folder: Path) -> None:
    import time

    spent = torch_loop(folder) if side == "torch" else job(folder, RATES if side == "grid" else 0.1)
    # the whole process, with the start of Python and all imports
    print(json.dumps({"cpu_s": time.process_time(), "training_s": spent}))


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        return work(sys.argv[2], Path(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_stores(Path(folder), options.samples, options.dimensions, options.classes)
        workers = {
            side: [sys.executable, __file__, "--worker", side, folder]
            for side in ("single", "grid", "torch")
        }
        reports = alternate(workers, options.repeats)
    job_s, training_s = (
        {side: statistics.median(r[key] for r in found) for side, found in reports.items()}
        for key in ("cpu_s", "training_s")
    )
    single, grid, loop = (training_s[side] for side in ("single", "grid", "torch"))
    print_table(
        ["", "one rate, s", f"{len(RATES)} rates, s", "ratio"],
        [
            [
                "job",
                *(f"{job_s[s]:.2f}" for s in ("single", "grid")),
                f"{job_s['grid'] / job_s['single']:.2f}",
            ],
            ["training", f"{single:.2f}", f"{grid:.2f}", f"{grid / single:.2f}"],
            [
                "training, one rate by the torch loop",
                f"{loop:.2f}",
                f"{grid:.2f}",
                f"{grid / loop:.2f}",
            ],
        ],
    )


if __name__ == "__main__":
    main()
