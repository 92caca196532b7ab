"""The segmentation probe: feature stores with maps in, test predictions of a trained head out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch

from permafrost.core.allocator import keep_freed_memory
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.features.devices import choose_device
from permafrost.features.numerics import exact_numerics
from permafrost.probes.dense.splits import Layer
from permafrost.probes.dense.stream import Batch, MapStream
from permafrost.probes.dense.training import Fitted, autocast
from permafrost.probes.segmentation.heads import build_head
from permafrost.probes.segmentation.losses import Loss
from permafrost.probes.segmentation.masks import masks_writer
from permafrost.probes.segmentation.scoring import confusion_per_image
from permafrost.probes.segmentation.shown import Shown
from permafrost.probes.segmentation.splits import MaskSplit, mask_gates, open_splits
from permafrost.probes.segmentation.table import Outcome, TestRows, write_segmentation
from permafrost.probes.segmentation.training import Task, Trainer

# logits that are held at a time when the test split is scored
SCORED_BYTES = 128 * 2**20


def run_segmentation(
    stores: dict[str, Path],
    output: Path,
    *,
    spec: dict,
    fingerprint: str,
    device: str = "auto",
    second_output: Path | None = None,
    memory: int | None = None,
) -> None:
    """Train the head of `spec` on train, choose on validation, and write the test predictions.

    Parameters
    ----------
    stores : feature stores by split: train, val, test.
    output : table of predictions to write.
    spec : ``dataset``, ``backbone``, ``probe``, ``seed``, ``stage``, ``options`` with all keys of the
        kind, ``inputs.features`` (fingerprint of the stores).
    device : how to run; like `memory`, no part of the identity of the result.
    second_output : where predicted masks go, if the options ask for them.
    memory : bytes that train and validation may each fill; None: a share of what is free. What does
        not fit is streamed.

    Raises
    ------
    PermafrostError : anything the user can put right; nothing half-written is left.
    """
    keep_freed_memory()
    splits = open_splits(stores, expect=spec["inputs"]["features"])
    options, target = spec["options"], choose_device(device)
    run = f"{spec['probe']} on {spec['dataset']}, backbone {spec['backbone']}"
    layers = splits["train"].choose_layers(options["layers"], where=run)
    gates = mask_gates(splits)
    seed = derive_seed(spec["dataset"], spec["backbone"], spec["probe"], spec["seed"])
    with exact_numerics():
        trainer = _trainer(splits, layers, options, run, seed, target, memory)
        fitted = trainer.fit()
        del trainer
        shown = Shown(len(splits["test"]), options["pictures"], spec["dataset"])
        with masks_writer(
            options["masks"],
            second_output,
            test=splits["test"],
            resolution=options["resolution"],
            fingerprint=fingerprint,
        ) as put:
            rows = TestRows(splits["test"], options, shown, put)
            score(fitted, rows, layers, device=target, batch_size=options["batch_size"])
            settings = {
                "head": options["head"],
                "layers": [layer.name for layer in layers],
                "working_size": list(splits["train"].working_size),
                **fitted.settings,
            }
            outcome = Outcome(layers, settings, [*gates, *fitted.gates], options["head"])
            write_segmentation(
                output, rows.table(), outcome, splits=splits, spec=spec, fingerprint=fingerprint
            )


def _trainer(
    splits: dict[str, MaskSplit],
    layers: list[Layer],
    options: dict,
    run: str,
    seed: int,
    device,
    memory,
) -> Trainer:
    train = splits["train"]
    names = ", ".join(layer.name for layer in layers)
    where = f"{run}, head {options['head']}, layers {names}"

    def build():
        return build_head(
            options["head"],
            [layer.channels for layer in layers],
            len(train.classes),
            hidden=options["hidden"],
            sizes=[layer.size for layer in layers],
            where=where,
        )

    with torch.random.fork_rng(devices=[]):
        build()  # so that maps that a head cannot take are refused before anything is read
    loss = Loss(
        options["loss"]["name"],
        options["loss"].get("arguments") or {},
        classes=len(train.classes),
        ignore_index=train.ignore_index,
        device=device,
        where=f"{run}, loss",
    )
    streams = [
        MapStream(
            splits[name], layers, batch_size=options["batch_size"], device=device, budget=memory
        )
        for name in ("train", "val")
    ]
    dead = {*train.dead_classes} | ({train.ignore_index} & {*range(len(train.classes))})
    task = Task(len(train.classes), train.ignore_index, tuple(sorted(dead)))
    return Trainer(
        build,
        *streams,
        task=task,
        loss=loss,
        options=options,
        where=run,
        seed=seed,
        device=device,
    )


@torch.no_grad()
def score(
    fitted: Fitted, rows: TestRows, layers: list[Layer], *, device: torch.device, batch_size: int
) -> None:
    """Predict every test image and add it to `rows`; logits are resized once, to the scored size."""
    stream = MapStream(
        rows.test, layers, batch_size=batch_size, device=device, keep=False, masks=False
    )

    def predict(batch: Batch, part: slice, size) -> torch.Tensor:
        with autocast(device, fitted.settings["precision"]):
            return fitted.head([x[part] for x in batch.maps], size).float()

    score_batches(rows, stream.in_order(), predict)


@torch.no_grad()
def score_batches(rows: TestRows, batches: Iterable, predict: Callable) -> None:
    """Add to `rows` what `predict`(batch, part of it, size) -> logits (n, classes, *size) says of every batch."""
    for batch in batches:
        for places in _together(batch, rows):
            size = rows.size(int(batch.rows[places[0]]))
            logits = predict(batch, slice(places[0], places[-1] + 1), size)
            if not torch.isfinite(logits).all():
                raise _not_finite(rows.test, batch.rows[places])
            _add(rows, batch.rows[places], logits)


def _together(batch: Batch, rows: TestRows):
    """Runs of images of one scored size whose logits fit into `SCORED_BYTES`."""
    run: list[int] = []
    for place, row in enumerate(batch.rows):
        size = rows.size(int(row))
        pixels = size[0] * size[1] * len(rows.test.classes) * 4
        full = (len(run) + 1) * pixels > SCORED_BYTES
        if run and (full or size != rows.size(int(batch.rows[run[0]]))):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _add(rows: TestRows, numbers: np.ndarray, logits: torch.Tensor) -> None:
    truths = rows.truths(int(numbers[0]), int(numbers[-1]) + 1)
    truth = torch.from_numpy(np.stack(truths).astype(np.int64)).to(logits.device)
    prediction = logits.argmax(dim=1)
    test = rows.test
    confusion = confusion_per_image(truth, prediction, len(test.classes), test.ignore_index)
    kind = np.uint8 if len(test.classes) <= 256 else np.int32
    for image in zip(
        truths, prediction.cpu().numpy().astype(kind), confusion.cpu().numpy(), strict=True
    ):
        rows.add(*image)


def _not_finite(test: MaskSplit, numbers: np.ndarray) -> PermafrostError:
    first = test.samples["sample_id"][int(numbers[0])].as_py()
    return PermafrostError(
        f"the head gives NaN or infinity for test images from {first!r} on",
        where=test.path,
        remedy="check that the maps are finite (extract with maps_dtype float32), use precision fp32,"
        " or a smaller learning_rate",
    )
