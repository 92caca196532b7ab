"""Parts of extraction joined into feature stores; no backbone is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from permafrost.core.store_parts import StorePart, check_same, join, sorted_parts
from permafrost.data.store.image_store import ImageStore
from permafrost.features.health import COLLAPSED, CollapseGate
from permafrost.features.writing import copy_samples, feature_store


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
