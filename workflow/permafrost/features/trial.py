"""Try a backbone on one batch before a long run: report input, output, time and memory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from permafrost.backbones.input.fed import (
    FedChannel,
    assumed_words,
    formula,
    listed,
    unusual_channels,
    values_words,
)
from permafrost.backbones.registry import contract_of, read_entry
from permafrost.features.devices import device_name, exact_numerics
from permafrost.features.extract import Opened, open_backbone
from permafrost.features.health import CollapseGate, check_finite
from permafrost.features.profiling.memory import peak_memory
from permafrost.features.profiling.timing import finish
from permafrost.features.reading import read_batches
from permafrost.features.running import batch_outputs, fed_images, fetch
from permafrost.features.specification import BackboneSpec

# a larger relative difference means that features depend on the other images of the batch
_ALONE = 1e-3


@dataclass(frozen=True)
class Trial:
    """Findings from one batch.

    Attributes
    ----------
    facts : (name, value) as texts, in the order of printing.
    channels : (name, mean, standard deviation, minimum, maximum) of each input channel.
    doubts : warnings to check before a long run.
    """

    facts: list[tuple[str, str]]
    channels: list[tuple[str, float, float, float, float]]
    doubts: list[str]


def try_backbone(
    spec: BackboneSpec,
    *,
    images: dict[str, Path],
    card: Path,
    device: str,
    batch_size: int,
    threads: int,
) -> Trial:
    """Run one batch of the train split as extraction does; arguments as for `extract`.

    Raises
    ------
    PermafrostError : an error that would have stopped the extraction.
    """
    with exact_numerics(threads):
        opened = open_backbone(spec, images=images, card=card, device=device, batch_size=batch_size)
        with torch.inference_mode():
            return _tried(opened, spec, batch_size)


def _tried(opened: Opened, spec: BackboneSpec, batch_size: int) -> Trial:
    run, backbone, plan = opened.run, opened.run.backbone, opened.run.backbone.plan
    where, train = f"{backbone.where} on {spec.dataset}", opened.stores["train"]
    # evenly spaced samples, since many sources list one class after the other
    chosen = np.unique(np.linspace(0, len(train) - 1, min(batch_size, len(train))).astype(int))
    reading: dict[str, Any] = {"batch_size": batch_size, "workers": 1, "telling": run.telling}
    batch = next(read_batches(train, run.prepare.stored, rows=chosen, **reading))
    fed = fed_images(run, batch)
    first, seconds = _timed(lambda: batch_outputs(run, batch, where=where), run.device)
    _, again = _timed(lambda: batch_outputs(run, batch, where=where), run.device)
    held = sum(one.numel() * one.element_size() for one in backbone.module.state_dict().values())
    memory = peak_memory(lambda: batch_outputs(run, batch, where=where), run.device, held)
    features, maps = first
    rows = fetch(features, maps)().features
    ids = train.samples["sample_id"].take(chosen)
    remedy = "compare the channels with what the weights want"
    check_finite(rows, 0, ids, where=where, remedy=remedy)
    one = next(read_batches(train, run.prepare.stored, rows=chosen[:1], **reading))
    alone = batch_outputs(run, one, where=where)[0].cpu().numpy()
    apart = float(np.abs(alone - rows[: len(alone)]).max() / max(np.abs(rows).max(), 1e-12))
    count = len(rows)
    entry = read_entry(spec.entry, where=where)
    assumed = assumed_words(contract_of(entry, spec.extraction.feeding(), where=where))
    facts = [
        ("parameters", f"{backbone.parameters:,}"),
        ("device", device_name(run.device)),
        ("fed", f"{count} images, tensor {tuple(fed.shape)}, {str(fed.dtype)[6:]}"),
        ("values", values_words(plan)),
        *([("assumed", assumed)] if assumed else []),
        *((f"value {one.name}", formula(one, plan.normalization)) for one in plan.channels),
        ("features", f"{rows.shape}, pooling {backbone.pooling}, {_words(rows)}"),
        *((name, str(tuple(one.shape))) for name, one in _layers(backbone, maps)),
        ("batch", f"features of one image alone differ by {apart:.1e} of the largest"),
        (
            "time",
            f"{seconds:.3g} s the first time, {again:.3g} s after, {again / count:.3g} s an image",
        ),
        ("memory", f"{memory.value:,.0f} MB" if memory.value == memory.value else "not known"),
        *((f"note {name}", str(value)[:300]) for name, value in backbone.notes.items()),
    ]
    names = [channel.name for channel in backbone.plan.channels]
    channels = _channels(names, fed)
    measured = [FedChannel(name, mean, std) for name, mean, std, *_ in channels]
    strange = unusual_channels(backbone.plan, spec.entry["kind"], opened.card.bands, measured)
    doubts = [
        *_doubts(rows, apart),
        *(
            f"the channel {name} is constant ({low:g})"
            for name, _, _, low, high in channels
            if low == high
        ),
        *([f"unusual input: {listed(strange)}"] if strange else []),
    ]
    return Trial(facts, channels, doubts)


def _layers(backbone, maps):
    word = "block" if backbone.blocks else "map"
    return zip([f"{word} {name}" for name in backbone.layers], maps, strict=True)


def _timed(work, device: torch.device):
    finish(device)
    start = time.perf_counter()
    made = work()
    finish(device)
    return made, time.perf_counter() - start


def _words(rows: np.ndarray) -> str:
    return (
        f"mean {rows.mean():.4g}, deviation {rows.std():.4g}, {rows.min():.4g} to {rows.max():.4g}"
    )


def _channels(names: list[str], fed: torch.Tensor) -> list[tuple[str, float, float, float, float]]:
    pixels = fed.double().cpu().movedim(1, 0).flatten(1)
    values = [pixels.mean(1), pixels.std(1, correction=0), pixels.amin(1), pixels.amax(1)]
    return [
        (name, *numbers)
        for name, *numbers in zip(names, *(one.tolist() for one in values), strict=True)
    ]


def _doubts(rows: np.ndarray, apart: float) -> list[str]:
    gate = CollapseGate()
    gate.update(rows)
    doubts = ["the features of all images lie in one point or on one line"] if gate.gates() else []
    if len(rows) < 3:
        doubts.append("fewer than three images: they cannot show whether features collapse")
    elif 2 * (dead := int((rows.std(axis=0) == 0).sum())) > rows.shape[1]:
        doubts.append(f"{dead} of {rows.shape[1]} features are the same for all images")
    if apart > _ALONE:
        doubts.append("the features of an image depend on the other images of its batch")
    return doubts
