"""Extraction by several jobs: each writes a part, and a final job joins them (`join_parts`).

A part begins at the start of a batch, so that batches are the same as in a single run. It writes
the chunks that begin within it, and reads past its end to complete the last one. So the result has
the same bytes as a single run.
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
    """Run the backbone of `spec` over one part of every split.

    Parameters
    ----------
    images, card, fingerprint : as for `extract.extract`.
    output : folder for the part, which gets ``SPLIT.zarr`` for each split.

    Raises
    ------
    PermafrostError : anything that the user can correct; no partial store is left.
    """
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
    # only the first part creates the arrays of an empty split
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
    """Join the parts of `extract_part` into feature stores, by links to their chunks.

    Parameters
    ----------
    parts : folders of the parts, in any order.
    images, outputs : split to its image store, and to the feature store to write.
    expect_images : fingerprint of the image stores.
    fingerprint : of the job.

    Raises
    ------
    PermafrostError : a part is missing, damaged or incompatible with the others.
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
    """Raise `PermafrostError` if parts were computed in different ways."""
    sizes = [part.attributes["part"]["batch_size"] for part in parts]
    check_same(parts, "parts with batch_size", sizes)
    check_same(parts, "parts with layers", [part.attributes.get("left_out") for part in parts])
    for key in ("versions", "input", "notes", "parameters", "weights_sha256", "precision"):
        check_same(parts, f"parts with {key}", [part.attributes[key] for part in parts])


def _joined_attributes(parts: Sequence[StorePart]) -> dict:
    """The attributes of a single run; ``device`` lists the devices of all parts."""
    first = {key: value for key, value in parts[0].attributes.items() if key != "part"}
    states = [part.attributes["part"].get("gate") for part in parts]
    gate = CollapseGate.of_parts(filter(None, states))
    devices = dict.fromkeys(part.attributes["device"] for part in parts)
    # features count as collapsed only if those of all parts together are
    gates = {*first["gates"]} - {COLLAPSED} | {*gate.gates()}
    return {**first, "device": " and ".join(devices), "gates": sorted(gates)}
