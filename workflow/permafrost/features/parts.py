"""Extraction divided among several jobs: each writes a part, and a last one joins them (`joining`).

A part begins with a batch, so that all images are fed in the batches of an undivided run, and it writes the chunks
that begin in it: it goes on past its end until the last of them is full. So the bytes are those of an undivided run.
"""

from __future__ import annotations

from pathlib import Path

from permafrost.core.specification import SPLITS
from permafrost.core.store_parts import Part, PartWriter
from permafrost.features.devices import exact_numerics
from permafrost.features.extract import Opened, open_backbone
from permafrost.features.reading import SampleReader
from permafrost.features.specification import ExtractSpec, Running
from permafrost.features.split import Shapes, SplitRun
from permafrost.features.writing import feature_store


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
