"""One process of the segmentation benchmark: ``python _segmentation_worker.py REQUEST.json``.

A request with `side` "ours" is one command of the pipeline, carried out by its own command line; with
"peer" it is one run of torchgeo-bench, end to end. The last line printed is a JSON object: CPU and wall
seconds of each phase, and the peak memory. The phase "start-up" is imports, and what the first optimiser
of a process imports; "rest" is what does not grow with the chips.
Runs in either environment, so it imports only what its side needs.
"""

from __future__ import annotations

import functools
import importlib
import json
import resource
import sys
import time
from pathlib import Path


class Clock:
    """CPU and wall seconds of phases, one after the other; all threads count, from the process's start."""

    def __init__(self) -> None:
        self.phases: dict[str, dict[str, float]] = {}
        self._cpu, self._wall = 0.0, time.perf_counter()

    def lap(self, name: str) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        phase = self.phases.setdefault(name, {"cpu_s": 0.0, "wall_s": 0.0})
        phase["cpu_s"] += cpu - self._cpu
        phase["wall_s"] += wall - self._wall
        self._cpu, self._wall = cpu, wall


def peak_mb() -> float:
    """Peak resident size of this process alone (the kernel's maxrss may be that of its parent)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def first_optimizer() -> None:
    """The first torch.optim step of a process imports torch._dynamo and sympy, for seconds."""
    import torch

    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    torch.optim.AdamW([weight]).step()


def ours(request: dict, clock: Clock) -> dict:
    from permafrost.stages.cli import main

    for name in request["imports"]:
        importlib.import_module(name)
    for place, phase in request["phases"].items():
        module, _, names = place.partition(":")
        *owners, name = names.split(".")
        owner = functools.reduce(getattr, owners, importlib.import_module(module))
        _count_as(phase, owner, name, clock)
    if request["stream"]:
        from permafrost.probes.job import ProbeJob

        # with no memory to fill, every split is streamed
        ProbeJob.of = functools.partial(ProbeJob.of, memory=0)
    clock.lap("start-up")
    if main(request["command"]) != 0:
        sys.exit(1)
    clock.lap("rest")
    return {}


def peer(request: dict, clock: Clock) -> dict:
    """What torchgeo-bench's main does for one segmentation dataset, by its own functions."""
    import numpy as np
    import torch
    import torchgeo_bench.main as bench
    from _segmentation_peer import build_backbone, configuration, register

    first_optimizer()
    clock.lap("start-up")
    torch.manual_seed(request["seed"])
    np.random.seed(request["seed"])
    dataset = register(request)
    _, *loaders = bench.get_datasets(
        dataset.name, batch_size=request["batch_size"], num_workers=0, return_val=True
    )
    backbone = build_backbone(request, dataset.bands)
    for owner, name, phase in (
        (bench.SegmentationProbe, "extract_segmentation_features", "extract"),
        (bench.SegmentationSolver, "fit_cached", "train"),
        (bench.SegmentationSolver, "evaluate_cached", "test"),
    ):
        _count_as(phase, owner, name, clock)
    metrics, *_ = bench.evaluate_segmentation(
        backbone, *loaders, configuration(request), dataset.num_classes, torch.device("cpu")
    )
    clock.lap("rest")
    return {"mean_iou": metrics["mIoU"]}


def _count_as(phase: str, owner, name: str, clock: Clock) -> None:
    """Let calls of `owner`'s function `name` be a phase of their own."""
    inner = getattr(owner, name)

    def counted(*arguments, **options):
        clock.lap("rest")
        try:
            return inner(*arguments, **options)
        finally:
            clock.lap(phase)

    setattr(owner, name, counted)


if __name__ == "__main__":
    clock = Clock()
    request = json.loads(Path(sys.argv[1]).read_text())
    found = {"ours": ours, "peer": peer}[request["side"]](request, clock)
    print(json.dumps({"phases": clock.phases, "peak_mb": peak_mb(), **found}))
