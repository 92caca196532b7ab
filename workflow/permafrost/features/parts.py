"""Extraction divided among several jobs: each writes a part, and a last one joins them (`join_parts`).

A part begins with a batch, so that all images are fed in the batches of an undivided run, and it writes the chunks
that begin in it: it goes on past its end until the last of them is full. So the bytes are those of an undivided run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from permafrost.core.specification import SPLITS
from permafrost.core.store_parts import Part, PartWriter, StorePart, check_same, join, sorted_parts
from permafrost.data.store.image_store import ImageStore
from permafrost.features.devices import exact_numerics
from permafrost.features.extract import Opened, open_backbone
from permafrost.features.health import COLLAPSED, CollapseGate
from permafrost.features.reading import SampleReader
from permafrost.features.specification import ExtractSpec, Running
from permafrost.features.split import Shapes, SplitRun
from permafrost.features.writing import copy_samples, feature_store


def extract_part(
    spec: ExtractSpec,
    *,
    images: dict[str, Path],
    card: Path,
    output: Path,
    part: Part,
    fingerprint: str,
    running: Running,
) -> None:
    """Run the backbone of `spec` over one part of every split, and write it to the folder `output`.

    Parameters
    ----------
    images, card, fingerprint : as for `extract.extract`.

    Raises
    ------
    PermafrostError : anything the user can put right; nothing half-written is left.
    """
    with exact_numerics(running.threads):
        opened = open_backbone(
            spec, images=images, card=card, device=running.device, batch_size=running.batch_size
        )
        shapes = Shapes()
        for split in SPLITS:
            with feature_store(
                output / f"{split}.zarr", fingerprint=fingerprint, kind=PartWriter
            ) as writer:
                shapes = _write_part(opened, split, part, running, writer, shapes)
                opened.promised.check()


def _write_part(
    opened: Opened, split: str, part: Part, running: Running, writer: PartWriter, before: Shapes
) -> Shapes:
    store = opened.stores[split]
    most = SampleReader(store, opened.run.prepare.stored).most_dates
    span = part.span(len(store), max(1, running.batch_size // most))
    about = {"number": part.number, "count": part.count, "batch_size": running.batch_size}
    # the first part also makes the arrays of a split without samples
    if span[0] == span[1] and part.number:
        writer.attributes.update({**opened.attributes, "part": about})
        return before
    made = SplitRun(opened, split, running, span).write(writer, before)
    writer.attributes.update({**made.attributes, "part": {**about, "gate": made.gate}})
    return made.shapes


def join_parts(
    parts: Sequence[Path],
    *,
    images: dict[str, Path],
    expect_images: str,
    outputs: dict[str, Path],
    fingerprint: str,
) -> None:
    """Make feature stores of what `parts.extract_part` wrote, by links to their chunks.

    Parameters
    ----------
    parts : their folders, in any order.
    images, outputs : image store and feature store to write, by split.
    expect_images : fingerprint of the image stores.
    fingerprint : of the job.

    Raises
    ------
    PermafrostError : a part is missing, damaged or does not go with the others; nothing is written.
    """
    for split, path in outputs.items():
        store = ImageStore(images[split], expect=expect_images, split=split)
        read = sorted_parts(
            [StorePart(folder / f"{split}.zarr", expect=fingerprint) for folder in parts]
        )
        _check_together(read)
        with feature_store(path, fingerprint=fingerprint) as writer:
            join(writer, read)
            writer.attributes.update(_joined_attributes(read))
            copy_samples(writer, store)


def _check_together(parts: Sequence[StorePart]) -> None:
    """Refuse parts that were not made in the same way."""
    sizes = [part.attributes["part"]["batch_size"] for part in parts]
    check_same(parts, "parts with batch_size", sizes)
    for key in ("versions", "input", "notes", "parameters", "weights_sha256", "precision"):
        check_same(parts, f"parts with {key}", [part.attributes[key] for part in parts])


def _joined_attributes(parts: Sequence[StorePart]) -> dict:
    """Those of an undivided run; the device names all that parts ran on."""
    first = {key: value for key, value in parts[0].attributes.items() if key != "part"}
    states = [part.attributes["part"].get("gate") for part in parts]
    gate = CollapseGate.of_parts(filter(None, states))
    devices = dict.fromkeys(part.attributes["device"] for part in parts)
    # whether features collapsed, all of them together say
    gates = {*first["gates"]} - {COLLAPSED} | {*gate.gates()}
    return {**first, "device": " and ".join(devices), "gates": sorted(gates)}
