"""Extraction divided among several jobs: each writes a part, and a last one joins them (`joining`).

A part begins with a batch, so that all images are fed in the batches of an undivided run, and it writes the chunks
that begin in it: it goes on past its end until the last of them is full. So the bytes are those of an undivided run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.core.store_parts import PartWriter
from permafrost.features.devices import exact_numerics
from permafrost.features.extract import Opened, open_backbone
from permafrost.features.reading import SampleReader
from permafrost.features.specification import ExtractSpec, Running
from permafrost.features.split import Shapes, SplitRun
from permafrost.features.writing import feature_store


@dataclass(frozen=True)
class Part:
    """One of `count` parts; `number` counts from 0."""

    number: int
    count: int

    @classmethod
    def of(cls, name: str) -> Part:
        """The part that is called ``2-of-8``, the third of eight."""
        number, of, count = name.partition("-of-")
        if not (of and number.isdecimal() and count.isdecimal() and int(number) < int(count)):
            raise PermafrostError(
                f"{name!r} names no part", remedy="write 0-of-8 to 7-of-8 for eight parts"
            )
        return cls(int(number), int(count))

    def span(self, samples: int, batch: int) -> tuple[int, int]:
        """First and last + 1 of the samples of this part: whole batches; the first part is never empty."""
        batches = -(-samples // batch)
        first, last = (-(-batches * part // self.count) for part in (self.number, self.number + 1))
        return min(first * batch, samples), min(last * batch, samples)


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
