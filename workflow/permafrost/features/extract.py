"""Extract features of one backbone on one dataset: reads image stores, writes feature stores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from permafrost.backbones.backbone import Resources
from permafrost.backbones.kinds import kind_of
from permafrost.backbones.registry import build, plan_input, read_entry
from permafrost.core.errors import PermafrostError
from permafrost.core.versions import recorded_versions
from permafrost.data.files.folders import Read, content_digest
from permafrost.data.store.card import Card, read_card
from permafrost.data.store.image_store import ImageStore
from permafrost.features.attributes import as_fed, input_gates, of_dataset
from permafrost.features.devices import choose_device, device_name, exact_numerics
from permafrost.features.kept_layers import KeptLayers
from permafrost.features.located import extract_located
from permafrost.features.maps import dense_attributes, whole_image
from permafrost.features.metadata import decide
from permafrost.features.prepare import FedImages, Preparer, tensor_fingerprint
from permafrost.features.projection import fit_projections
from permafrost.features.promised import PromisedBackbone
from permafrost.features.reading import SampleReader, read_batches
from permafrost.features.running import Run, batch_outputs, moved, set_up
from permafrost.features.specification import (
    BackboneSpec,
    Extraction,
    ExtractSpec,
    Running,
)
from permafrost.features.split import Shapes, SplitRun
from permafrost.features.writing import copy_samples, feature_store


@dataclass(frozen=True)
class Opened:
    """A backbone that is ready to run over a dataset.

    Attributes
    ----------
    run : the backbone on its device.
    stores : image stores by split.
    card : dataset card.
    extraction : options of the extraction.
    attributes : attributes of the feature stores.
    promised : expected files, to be checked before a result is sealed.
    """

    run: Run
    stores: dict[str, ImageStore]
    card: Card
    extraction: Extraction
    attributes: dict
    promised: PromisedBackbone


def extract(
    spec: ExtractSpec,
    *,
    images: dict[str, Path],
    card: Path,
    outputs: dict[str, Path],
    fingerprint: str,
    running: Running,
    digest_of: Callable[[str, Read | None], str] = content_digest,
) -> None:
    """Run the backbone of `spec` over every split and write its feature stores.

    Parameters
    ----------
    images, outputs : split to the image store to read, and to the feature store to write.
    card : dataset card.
    fingerprint : of this job; written into the stores.
    digest_of : computes the digest of a file or folder, for backbones without pixel input.

    Raises
    ------
    PermafrostError : anything that the user can correct; no partial store is left.
    """
    if not kind_of(spec.entry).pixels:
        with exact_numerics(running.threads):
            extract_located(
                spec,
                images=images,
                card=card,
                outputs=outputs,
                fingerprint=fingerprint,
                digest_of=digest_of,
            )
        return
    with exact_numerics(running.threads):
        opened = open_backbone(
            spec,
            images=images,
            card=card,
            device=running.device,
            batch_size=running.batch_size,
            kept=running.kept,
        )
        shapes = Shapes()
        for split, path in outputs.items():
            shapes = extract_split(opened, split, path, fingerprint, running, shapes)


def open_backbone(
    spec: BackboneSpec,
    *,
    images: dict[str, Path],
    card: Path,
    device: str,
    batch_size: int,
    maps: bool = True,
    kept: KeptLayers | None = None,
) -> Opened:
    """Build the backbone of `spec` for its dataset on the device; arguments as for `extract`.

    Call this, and run the backbone, inside `exact_numerics`. With `maps` false, it returns no
    feature maps, but the input is prepared as the spec says. With `kept`, only those of these layers.
    """
    where = f"backbone {spec.backbone}"
    extraction, expect = spec.extraction, spec.inputs.images
    entry = read_entry(spec.entry, where=where)
    card_content = read_card(card, expect=expect)
    stores = {split: ImageStore(path, expect=expect, split=split) for split, path in images.items()}
    promised = PromisedBackbone(spec, where)
    promised.check()
    plan = plan_input(entry, extraction.feeding(), card_content, where=where)
    target = choose_device(device)
    if not len(stores["train"]):
        raise PermafrostError("the train split is empty", where=images["train"])
    dense, note = {}, None
    if extraction.maps:
        plan, note = whole_image(plan)
    if extraction.maps and maps:
        dense = dense_attributes(plan, stores, card_content, where=f"{where} on {spec.dataset}")
    prepare = Preparer(plan, torch.device("cpu"))
    resources = Resources(
        where=where,
        card=card_content,
        train_count=len(stores["train"]),
        train_image=FedImages(stores["train"], prepare),
    )
    backbone = build(entry, plan, resources)
    promised.check(backbone)
    if extraction.maps and maps:
        backbone.make_maps(entry.layers, getattr(torch, extraction.maps_dtype))
    elif extraction.depths is not None:
        depths = None if extraction.depths == "all" else extraction.depths
        backbone.keep_depths(depths, getattr(torch, extraction.dtype))
    backbone.notes.update({"crop": note} if note else {})
    readers = [SampleReader(one, prepare.stored) for one in stores.values()]
    dates = max(one.most_dates for one in readers) if plan.dates == "all" else 1
    telling, told = decide(backbone, readers, card_content)
    run = set_up(backbone, extraction, target, batch_size, dates, telling)
    if dense and kept is not None:
        dense |= _leave_out_layers(run, stores["train"], kept, extraction, dense["working_size"][0])
    if dense and extraction.maps_channels is not None:
        fit_projections(run, stores["train"], extraction.maps_channels, batch_size)
    attributes = _attributes(spec, extraction, card_content, run, stores["train"])
    return Opened(run, stores, card_content, extraction, {**attributes, **told, **dense}, promised)


def _leave_out_layers(
    run: Run, train: ImageStore, kept: KeptLayers, extraction: Extraction, height: int
) -> dict:
    """Let the backbone return the maps of the kept layers only; the attribute of the stores that names the others."""
    read = read_batches(
        train,
        run.prepare.stored,
        batch_size=1,
        workers=1,
        rows=np.zeros(1, np.int64),
        telling=run.telling,
    )
    _, maps = batch_outputs(run, next(iter(moved(read, run.device))))
    shapes = {
        name: tuple(one.shape[1:]) for name, one in zip(run.backbone.layers, maps, strict=True)
    }
    chosen = kept.chosen({name: shape[1] for name, shape in shapes.items()}, height)
    most = extraction.maps_channels or math.inf
    run.backbone.leave_out(
        {
            name: (min(channels, most), *size)
            for name, (channels, *size) in shapes.items()
            if name not in chosen
        }
    )
    keys = ("channels", "height", "width")
    left_out = [
        {"name": name, "array": f"map{place}", **dict(zip(keys, shape, strict=True))}
        for name, (place, shape) in run.backbone.left_out.items()
    ]
    return {"left_out": left_out} if left_out else {}


def extract_split(
    opened: Opened, split: str, path: Path, fingerprint: str, running: Running, before: Shapes
) -> Shapes:
    """Write the feature store of one split; feature shapes must match those of the splits `before`."""
    with feature_store(path, fingerprint=fingerprint) as writer:
        made = SplitRun(opened, split, running).write(writer, before)
        writer.attributes.update(made.attributes)
        copy_samples(writer, opened.stores[split])
        opened.promised.check()
    return made.shapes


def _attributes(
    spec: BackboneSpec, extraction: Extraction, card: Card, run: Run, train: ImageStore
) -> dict:
    backbone = run.backbone
    return {
        **of_dataset(spec, card),
        "gates": input_gates(card, backbone.plan, spec.entry["kind"]),
        "weights_sha256": backbone.weights_sha256,
        "parameters": backbone.parameters,
        "pooling": backbone.pooling,
        "notes": backbone.notes,
        "input": {
            **backbone.plan.describe(),
            **({} if run.dates is None else {"most_dates": run.dates}),
            **{key: backbone.notes[key] for key in ("positions",) if key in backbone.notes},
            "as_fed": as_fed(card, backbone.plan),
            "tensor_fingerprint": tensor_fingerprint(train, run.prepare),
        },
        "precision": extraction.precision,
        "compile": extraction.compile,
        "memory_format": "channels_last" if run.channels_last else "contiguous",
        "device": device_name(run.device),
        "versions": recorded_versions(backbone.packages),
    }
