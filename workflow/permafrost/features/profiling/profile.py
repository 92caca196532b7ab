"""Profile one backbone on the input of one dataset."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from permafrost.backbones.backbone import Backbone, Resources
from permafrost.backbones.registry import build, plan_input, read_entry
from permafrost.core.errors import PermafrostError
from permafrost.data.store.card import Card, read_card
from permafrost.features.devices import choose_device, device_name, exact_numerics
from permafrost.features.maps import whole_image
from permafrost.features.profiling.counting import Size, count_flops, size_of
from permafrost.features.profiling.energy import NoMeter, find_meter
from permafrost.features.profiling.feeding import (
    TrainImages,
    repeated_told,
    several_sizes,
    stored_images,
    told_sample,
)
from permafrost.features.profiling.memory import peak_memory
from permafrost.features.profiling.quantity import Quantity, repeated, undefined
from permafrost.features.profiling.timing import LEAST, finish, time_repeats
from permafrost.features.promised import PromisedBackbone
from permafrost.features.running import Run, set_up
from permafrost.features.specification import ProfileSpec

#: options of a profile to their minimum values
OPTIONS = {"batch_size": 1, "repeats": LEAST, "latency_repeats": LEAST, "warm_up": 1, "threads": 1}
#: minimum duration of energy measurements, since counters are updated up to every 0.1 s
_ENERGY_SECONDS = 2.0


@dataclass(frozen=True)
class Profile:
    """Measured and counted quantities by name.

    ``about`` (JSON data) describes input, options and machine; ``card`` is the dataset card.
    """

    quantities: dict[str, Quantity]
    about: dict
    card: Card
    feature_dim: int


def profile_backbone(
    spec: ProfileSpec,
    *,
    card: Path,
    images: Callable[[], dict[str, Path]],
    device: str = "auto",
    threads: int | None = None,
) -> Profile:
    """Build the backbone as extraction does, run it on noise, and measure its costs.

    The forward pass is that of extraction: same precision and deterministic arithmetic, with
    pooling and, if the task needs them, feature maps. Measured values depend on the machine and its
    load, so they vary between runs. Call this once per process, since earlier work affects the
    memory peak.

    Parameters
    ----------
    spec : as for extraction, with ``options``: ``batch_size``, ``repeats`` of a batch,
        ``latency_repeats`` of a single image, ``warm_up`` passes and ``most_seconds`` for either,
        ``threads`` (CPU threads of torch; null: the argument `threads`).
    card : dataset card.
    images : returns the paths of the image stores by split; called only for backbones that are
        built from images or get metadata.

    Raises
    ------
    PermafrostError : anything that the user can correct.
    """
    where, options = f"backbone {spec.backbone}", spec.options
    _check(options)
    target = choose_device(device)
    with exact_numerics(options["threads"] or threads):
        busy = load()
        run, plain, about_card, promised, told = _set_up(spec, card, images, target, where)
        size = size_of(plain)
        try:
            found, shape, dimension = _measure(run, plain, size, about_card, options, told)
        except PermafrostError as error:
            if isinstance(error.__cause__, torch.OutOfMemoryError):
                error = PermafrostError(
                    error.problem, where=where, remedy="reduce profile.batch_size"
                )
            raise error from error.__cause__
        about = {
            "input": shape,
            "native": about_card.image_size["max"],
            "batch_size": options["batch_size"],
            "precision": spec.extraction.precision,
            "compile": spec.extraction.compile,
            "maps": list(run.backbone.layers),
            "hardware": describe_hardware(target),
            "load": busy,
            **({} if run.dates is None else {"dates": run.dates}),
            **({"several_sizes": True} if several_sizes(about_card) else {}),
        }
    promised.check()
    counted = {
        "parameters": Quantity(float(size.parameters), ""),
        "buffers": Quantity(float(size.buffers), ""),
        "weights_mb": Quantity(size.bytes / 1e6, "MB"),
    }
    return Profile({**counted, **found}, about, about_card, dimension)


def _check(options: dict) -> None:
    for name, least in OPTIONS.items():
        value = options[name]
        if value is None and name == "threads":
            continue
        if value is None or value < least:
            raise PermafrostError(
                f"{value} is less than {least}", where=f"profile.{name}", remedy="increase it"
            )


def _set_up(
    spec: ProfileSpec, card: Path, images, device: torch.device, where: str
) -> tuple[Run, torch.nn.Module, Card, PromisedBackbone, dict[str, np.ndarray]]:
    """(backbone as in extraction, its uncompiled module, card, expected files, metadata of a sample)."""
    extraction, expect = spec.extraction, spec.inputs.images
    entry = read_entry(spec.entry, where=where)
    content = read_card(card, expect=expect)
    promised = PromisedBackbone(spec, where)
    promised.check()
    plan = plan_input(entry, extraction.feeding(), content, where=where)
    if extraction.maps:
        plan, _ = whole_image(plan)
    count = content.splits["train"]["count"]
    backbone = build(
        entry,
        plan,
        Resources(where, content, count, TrainImages(images, plan, expect, count)),
    )
    promised.check(backbone)
    if extraction.maps:
        backbone.make_maps(entry.layers, getattr(torch, extraction.maps_dtype))
    plain = backbone.module
    dates = max(
        (one["dates"]["most"] for one in content.modalities or [] if one["dates"]), default=1
    )
    telling, told = told_sample(backbone, images, content, expect)
    run = set_up(backbone, extraction, device, spec.options["batch_size"], dates, telling)
    # do not pad a single image to a whole batch
    return dataclasses.replace(run, pad_to=None), plain, content, promised, told


@torch.inference_mode()
def _measure(
    run: Run,
    plain: torch.nn.Module,
    size: Size,
    card: Card,
    options: dict,
    told: dict[str, np.ndarray],
) -> tuple[dict[str, Quantity], list[int], int]:
    """(quantities by name, shape of one input image, number of features)."""
    # if all dates are input at once, batches hold whole series, and the "single image" is one series
    device, dates = run.device, run.dates or 1
    count = max(1, options["batch_size"] // dates) * dates
    stored = stored_images(run.prepare.plan, card, count)
    # run once unmeasured, so that one-time costs (threads, kernels) are excluded
    single = run.prepare(*(one[:dates] for one in stored))
    about_one, about = (repeated_told(run, told, n) for n in (1, count // dates))
    features, _ = run.outputs(single, **about_one)
    if run.backbone.module is not plain:
        # torch compiles once for each batch size
        run.outputs(run.prepare(*stored), **about)
    memory = peak_memory(lambda: run.outputs(run.prepare(*stored), **about), device, size.bytes)
    limits = {"warm_up": options["warm_up"], "most_seconds": options["most_seconds"]}
    preparing = time_repeats(
        lambda: run.prepare(*stored), device, repeats=options["repeats"], **limits
    )
    batch = run.prepare(*stored)
    batches = time_repeats(
        lambda: run.outputs(batch, **about), device, repeats=options["repeats"], **limits
    )
    energy = _energy(lambda: run.outputs(batch, **about), device, batches.wall, count)
    alone = time_repeats(
        lambda: run.outputs(single, **about_one),
        device,
        repeats=options["latency_repeats"],
        **limits,
    )
    milliseconds = 1e3 * np.array(alone.wall)
    found = {
        "flops": _flops(run.backbone, plain, run, single, about_one),
        "throughput": repeated(count / np.array(batches.wall), "images/s"),
        "cpu_time_ms": repeated(1e3 * np.array(batches.cpu) / count, "ms/image"),
        "prepare_ms": repeated(1e3 * np.array(preparing.wall) / count, "ms/image"),
        "latency_ms": repeated(milliseconds, "ms"),
        "latency_p95_ms": Quantity(
            float(np.percentile(milliseconds, 95)), "ms", repeats=len(milliseconds)
        ),
        "peak_memory_mb": memory,
        "energy_j": energy,
    }
    return found, list(single.shape[1:]), features.shape[1]


def _flops(
    backbone: Backbone,
    plain: torch.nn.Module,
    run: Run,
    image: torch.Tensor,
    told: dict[str, torch.Tensor],
) -> Quantity:
    """FLOPs of one image, by the uncompiled module, since compilation hides its operators."""
    uncompiled = dataclasses.replace(
        run, backbone=dataclasses.replace(backbone, module=plain), precision="fp32"
    )
    return count_flops(lambda: uncompiled.outputs(image.clone(), **told))


def _energy(work, device: torch.device, seconds: list[float], count: int) -> Quantity:
    """Energy per image of the whole device, in joules, while it repeats `work`.

    Parameters
    ----------
    seconds : measured durations of `work`.
    count : images per call of `work`.
    """
    unit = "J/image"
    try:
        meter = find_meter(device)
        passes = max(len(seconds), int(np.ceil(_ENERGY_SECONDS / np.median(seconds))))
        meter.read()
        for _ in range(passes):
            work()
        finish(device)
        joules = meter.read()
    except NoMeter as reason:
        return undefined(unit, str(reason))
    return Quantity(joules / (passes * count), unit, notes={"meter": meter.name, "passes": passes})


def describe_hardware(device: torch.device) -> dict:
    """Hardware and software that affect time, memory and energy, as JSON data.

    Profiles are comparable only if all of it is equal.
    """
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count())
    return {
        "device": device.type,
        "processor": device_name(torch.device("cpu")),
        "cores": os.cpu_count(),
        "cores_usable": len(usable),
        "threads": torch.get_num_threads(),
        **_gpu(device),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def load() -> float | None:
    """Load average of the last minute (running or waiting processes); None if unknown."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _gpu(device: torch.device) -> dict:
    if device.type != "cuda":
        return {}
    about = torch.cuda.get_device_properties(device)
    return {
        "gpu": about.name,
        "gpu_memory_gib": round(about.total_memory / 2**30, 1),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
    }
