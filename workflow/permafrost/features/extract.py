"""Features of one backbone over one dataset: image stores in, feature stores out."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from ..backbones.backbone import Backbone, Resources
from ..backbones.registry import build, plan_input
from ..core.errors import PermafrostError, near_names
from ..core.progress import progress
from ..data.card import read_card
from ..data.image_store import ImageStore
from .devices import choose_device, device_name
from .fingerprint import FedImages, tensor_fingerprint
from .numerics import exact_numerics
from .prepare import Preparer
from .reading import Batch, read_batches
from .writing import FeatureWriter, feature_store

#: result-affecting options of extraction and their defaults
EXTRACTION = {
    "size": 224,
    "interpolation": "bilinear",
    "antialias": False,
    "dtype": "float32",
    "precision": "fp32",
    "compile": False,
}
PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Run:
    """A backbone on a device, and how it is run there."""

    backbone: Backbone
    prepare: Preparer
    device: torch.device
    precision: torch.dtype | None
    channels_last: bool
    pad_to: int | None

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """Prepared (B, C, H, W) -> (B, K) float32, on the device."""
        count = len(images)
        if self.pad_to is not None and count < self.pad_to:
            # a compiled model would be compiled again for the last, smaller batch
            images = torch.cat([images, images[-1:].expand(self.pad_to - count, -1, -1, -1)])
        enabled = self.precision is not None
        with torch.autocast(
            self.device.type, dtype=self.precision or torch.bfloat16, enabled=enabled
        ):
            output = self._forward(images)
        return output[:count].float()

    def _forward(self, images: torch.Tensor) -> torch.Tensor:
        try:
            return self.backbone.features(images)
        except torch.OutOfMemoryError as error:
            raise PermafrostError(
                f"the GPU has not enough memory for a batch of shape {tuple(images.shape)}",
                where=self.backbone.where,
                remedy="set runtime.batch_size lower, in the configuration or in the backbone's entry",
            ) from error
        except (RuntimeError, AssertionError, ValueError, TypeError, IndexError) as error:
            reason = " ".join(str(error).split())[:400] or type(error).__name__
            raise PermafrostError(
                f"the forward pass failed on a batch of shape {tuple(images.shape)}: {reason}",
                where=self.backbone.where,
                remedy="check that input.size and input.bands are what the model can take",
            ) from error


def extract(
    spec: dict,
    *,
    images: dict[str, Path],
    card: Path,
    outputs: dict[str, Path],
    fingerprint: str,
    device: str = "auto",
    batch_size: int = 64,
    workers: int = 2,
    threads: int | None = None,
) -> None:
    """Run the backbone of `spec` over every split and write its feature stores.

    Parameters
    ----------
    spec : ``backbone`` (name), ``dataset``, ``entry``, ``extraction``, ``inputs.images`` (fingerprint of
        the image stores), and optionally ``files`` (digests of the files that the plan was made from).
    images, outputs : image store to read and feature store to write, by split.
    card : the dataset's card.
    fingerprint : of this job; sealed into the stores.
    device, batch_size, workers, threads : how to run; never part of the identity of the result.
        `threads` is the number of CPU threads of torch, None leaves it as it is.

    Raises
    ------
    PermafrostError : anything the user can put right; nothing half-written is left.
    """
    where = f"backbone {spec['backbone']}"
    extraction = _extraction(spec.get("extraction") or {}, where)
    expect = spec["inputs"]["images"]
    entry = {key: value for key, value in spec["entry"].items() if value is not None}
    card_content = read_card(card, expect=expect)
    stores = {split: ImageStore(path, expect=expect) for split, path in images.items()}
    plan = plan_input(entry, extraction, card_content, where=where)
    target = choose_device(device)
    if not len(stores["train"]):
        raise PermafrostError("the train split is empty", where=images["train"])
    with exact_numerics(threads):
        resources = Resources(
            where=where,
            card=card_content,
            train_count=len(stores["train"]),
            train_image=FedImages(stores["train"], Preparer(plan, torch.device("cpu"))),
        )
        backbone = build(entry, plan, resources)
        _check_files(backbone, spec, where)
        run = _set_up(backbone, extraction, target, batch_size)
        attributes = _attributes(spec, extraction, card_content, run, stores["train"])
        dimension = 0
        for split, path in outputs.items():
            dimension = _extract_split(
                run,
                stores[split],
                path,
                fingerprint=fingerprint,
                attributes={**attributes, "split": split},
                dtype=extraction["dtype"],
                batch_size=batch_size,
                workers=workers,
                dimension=dimension,
            )


def _extract_split(
    run, store, path, *, fingerprint, attributes, dtype, batch_size, workers, dimension
) -> int:
    """Write the feature store of one split; returns the number of features."""
    where = f"{run.backbone.where} on {attributes['dataset']} ({attributes['split']})"
    with feature_store(path, fingerprint=fingerprint) as writer:
        sink = FeatureWriter(writer, len(store), dtype, store.samples["sample_id"], where)
        label = f"{attributes['backbone']} on {attributes['dataset']}/{attributes['split']}"
        with progress(total=len(store), label=label, unit="image") as bar:
            try:
                for batch in read_batches(
                    store,
                    run.prepare.stored,
                    batch_size=batch_size,
                    workers=workers,
                    pin=run.device.type == "cuda",
                ):
                    sink.put(_fetch(batch_features(run, batch)))
                    bar.update(len(batch))
                gates = sink.finish(dimension)
            finally:
                sink.close()
        labels = store.labels()
        if labels is not None:
            writer.array("labels", labels.shape, labels.dtype, rows_per_chunk=max(1, len(labels)))[
                :
            ] = labels
        writer.samples(store.samples)
        writer.attributes.update({**attributes, "feature_dim": sink.dimension, "gates": gates})
    return sink.dimension


@torch.inference_mode()
def batch_features(run: Run, batch: Batch) -> torch.Tensor:
    """(n, K) float32 on the device, in the order of the batch, whatever the images' sizes."""
    groups = [(where, run.prepare(pixels)) for where, pixels in batch.same_sizes()]
    if len(groups) == 1:
        return run.features(groups[0][1])
    order = torch.from_numpy(np.argsort(np.concatenate([where for where, _ in groups])))
    order = order.to(run.device)
    if run.prepare.plan.size is not None:
        return run.features(torch.cat([images for _, images in groups])[order])
    return torch.cat([run.features(images) for _, images in groups])[order]


def _fetch(features: torch.Tensor):
    """A function that returns the features as an array; on a GPU the copy runs meanwhile."""
    if features.device.type != "cuda":
        return lambda: features.numpy()
    host = torch.empty(features.shape, dtype=features.dtype, pin_memory=True)
    host.copy_(features, non_blocking=True)
    done = torch.cuda.Event()
    done.record()

    def wait() -> np.ndarray:
        done.synchronize()
        return host.numpy()

    return wait


def _set_up(backbone: Backbone, extraction: dict, device: torch.device, batch_size: int) -> Run:
    precision = PRECISIONS[extraction["precision"]]
    if precision is torch.float16 and device.type == "cpu":
        raise PermafrostError(
            "precision: fp16 needs a GPU", where=backbone.where, remedy="use bf16 or fp32 on a CPU"
        )
    # up to twice as fast for convolutions on a CPU and with half precision, no slower for the rest
    channels_last = device.type == "cpu" or precision is not None
    layout = torch.channels_last if channels_last else torch.contiguous_format
    backbone.module.to(device, memory_format=layout)
    if extraction["compile"]:
        backbone.module = torch.compile(backbone.module)
    return Run(
        backbone,
        Preparer(backbone.plan, device, channels_last=channels_last),
        device,
        precision,
        channels_last,
        pad_to=batch_size if extraction["compile"] else None,
    )


def _attributes(spec: dict, extraction: dict, card: dict, run: Run, train: ImageStore) -> dict:
    backbone = run.backbone
    packages = ("permafrost", *backbone.packages)
    return {
        "dataset": spec["dataset"],
        "backbone": spec["backbone"],
        "task": card["task"],
        "classes": card["classes"],
        "split_method": card["split_method"],
        "spatially_random": card["spatially_random"],
        "weights_sha256": backbone.weights_sha256,
        "parameters": backbone.parameters,
        "pooling": backbone.pooling,
        "notes": backbone.notes,
        "input": {
            **backbone.plan.describe(),
            "tensor_fingerprint": tensor_fingerprint(train, run.prepare),
        },
        "precision": extraction["precision"],
        "compile": extraction["compile"],
        "memory_format": "channels_last" if run.channels_last else "contiguous",
        "device": device_name(run.device),
        "versions": {name: version(name) for name in packages},
    }


def _extraction(given: dict, where: str) -> dict:
    for key in given:
        if key not in EXTRACTION:
            raise PermafrostError(
                f"unknown key {key!r}, {near_names(key, EXTRACTION)}", where=f"{where}: extraction"
            )
    extraction = {**EXTRACTION, **given}
    if extraction["precision"] not in PRECISIONS:
        raise PermafrostError(
            f"unknown precision {extraction['precision']!r}, known: {', '.join(PRECISIONS)}",
            where=f"{where}: extraction",
        )
    return extraction


def _check_files(backbone: Backbone, spec: dict, where: str) -> None:
    """The weights that were loaded are those that the plan was made from."""
    digests, loaded = spec.get("files") or {}, backbone.weights_sha256
    if digests and loaded is not None and loaded not in digests.values():
        raise PermafrostError(
            "the weights file changed since this run was planned",
            where=where,
            remedy="start snakemake again",
        )
